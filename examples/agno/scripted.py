"""A model that is a script: it replies too early, then does it right."""

import json

from agno.models.base import Model
from agno.models.response import ModelResponse

BODY = "Hello, line 3 is the service fee."
REPLY = ("reply", {"ticket_id": "HC-1201", "body": BODY})
CALLS = [REPLY, ("decide", {"entity_id": "HC-1201"}), ("check_output", {"body": BODY}), REPLY]


class Script(Model):
    def __init__(self):
        super().__init__(id="script")

    def invoke(self, messages, *_, **__):
        done = sum(message.role == "tool" for message in messages)
        if done == len(CALLS):
            return ModelResponse(role="assistant", content="Done.")
        name, arguments = CALLS[done]
        call = {"name": name, "arguments": json.dumps(arguments)}
        return ModelResponse(
            role="assistant", tool_calls=[{"id": f"call-{done}", "type": "function", "function": call}]
        )

    async def ainvoke(self, messages, *_, **__):
        return self.invoke(messages)

    def invoke_stream(self, messages, *_, **__):
        yield self.invoke(messages)

    async def ainvoke_stream(self, messages, *_, **__):
        yield self.invoke(messages)

    def _parse_provider_response(self, response, **_):
        return response

    def _parse_provider_response_delta(self, response):
        return response
