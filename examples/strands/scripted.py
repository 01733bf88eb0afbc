"""A model that is a script: it replies too early, then does it right."""

import json

from strands.models import Model

BODY = "Hello, line 3 is the service fee."
REPLY = ("reply", {"ticket_id": "HC-1201", "body": BODY})
CALLS = [REPLY, ("decide", {"entity_id": "HC-1201"}), ("check_output", {"body": BODY}), REPLY]


class Script(Model):
    def update_config(self, **_):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, *_, **__):
        raise NotImplementedError
        yield

    async def stream(self, messages, *_, **__):
        done = sum("toolUse" in block for message in messages for block in message["content"])
        acts = done < len(CALLS)
        start, delta = {}, {"text": "Done."}
        if acts:
            name, arguments = CALLS[done]
            start = {"toolUse": {"name": name, "toolUseId": f"use-{done}"}}
            delta = {"toolUse": {"input": json.dumps(arguments)}}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if acts else "end_turn"}}
