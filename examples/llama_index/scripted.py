"""A model that is a script: it replies too early, then does it right."""

from llama_index.core.llms import ChatMessage, ChatResponse, LLMMetadata, MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection

BODY = "Hello, line 3 is the service fee."
REPLY = ("reply", {"ticket_id": "HC-1201", "body": BODY})
CALLS = [REPLY, ("decide", {"entity_id": "HC-1201"}), ("check_output", {"body": BODY}), REPLY]


class Model(MockLLM, FunctionCallingLLM):
    @property
    def metadata(self):
        return LLMMetadata(is_function_calling_model=True)

    def _prepare_chat_with_tools(self, tools, chat_history=None, **_):
        return {"messages": chat_history}

    async def astream_chat(self, messages, **_):
        done = sum(message.role == "tool" for message in messages)
        answer = ChatMessage(
            role="assistant", content="Done." if done == len(CALLS) else "", additional_kwargs={"done": done}
        )

        async def chunks():
            yield ChatResponse(message=answer, delta=answer.content)

        return chunks()

    def get_tool_calls_from_response(self, response, error_on_no_tool_call=True, **_):
        done = response.message.additional_kwargs["done"]
        return [
            ToolSelection(tool_id=f"call_{done}", tool_name=name, tool_kwargs=arguments)
            for name, arguments in CALLS[done : done + 1]
        ]
