"""A model that is a script: it replies too early, then does it right."""

import json

from agents import ModelResponse, Usage
from agents.models.interface import Model as Interface
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

BODY = "Hello, line 3 is the service fee."
REPLY = ("reply", {"ticket_id": "HC-1201", "body": BODY})
CALLS = [REPLY, ("decide", {"entity_id": "HC-1201"}), ("check_output", {"body": BODY}), REPLY]


class Model(Interface):
    async def get_response(self, system_instructions, input, *_, **__):
        done = sum(item.get("type") == "function_call_output" for item in input if isinstance(item, dict))
        text = ResponseOutputText(type="output_text", text="Done.", annotations=[])
        item = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        if done < len(CALLS):
            name, arguments = CALLS[done]
            item = ResponseFunctionToolCall(
                type="function_call", call_id=f"call_{done}", name=name, arguments=json.dumps(arguments)
            )
        return ModelResponse(output=[item], usage=Usage(requests=1), response_id=None)

    async def stream_response(self, *_, **__):
        raise NotImplementedError
        yield
