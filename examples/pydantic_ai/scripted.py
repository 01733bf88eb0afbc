"""A model that is a script: it replies too early, then does it right."""

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

BODY = "Hello, line 3 is the service fee."
REPLY = ("reply", {"ticket_id": "HC-1201", "body": BODY})
CALLS = [REPLY, ("decide", {"entity_id": "HC-1201"}), ("check_output", {"body": BODY}), REPLY]


def answer(messages, info):
    done = sum(isinstance(message, ModelResponse) for message in messages)
    return ModelResponse(parts=[ToolCallPart(*CALLS[done]) if done < len(CALLS) else TextPart("Done.")])


model = FunctionModel(answer)
