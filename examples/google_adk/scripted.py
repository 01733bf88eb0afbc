"""A model that is a script: it replies too early, then does it right."""

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

BODY = "Hello, line 3 is the service fee."
REPLY = ("reply", {"ticket_id": "HC-1201", "body": BODY})
CALLS = [REPLY, ("decide", {"entity_id": "HC-1201"}), ("check_output", {"body": BODY}), REPLY]


class Model(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        done = sum(content.role == "model" for content in llm_request.contents)
        part = types.Part.from_text(text="Done.")
        if done < len(CALLS):
            name, arguments = CALLS[done]
            part = types.Part.from_function_call(name=name, args=arguments)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))
