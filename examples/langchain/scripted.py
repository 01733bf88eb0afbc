"""A model that is a script: it replies too early, then does it right."""

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

BODY = "Hello, line 3 is the service fee."
REPLY = ("reply", {"ticket_id": "HC-1201", "body": BODY})
CALLS = [REPLY, ("decide", {"entity_id": "HC-1201"}), ("check_output", {"body": BODY}), REPLY]


class Model(BaseChatModel):
    @property
    def _llm_type(self):
        return "script"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        done = sum(isinstance(message, ToolMessage) for message in messages)
        message = AIMessage("Done.")
        if done < len(CALLS):
            name, arguments = CALLS[done]
            message = AIMessage("", tool_calls=[{"id": f"call_{done}", "name": name, "args": arguments}])
        return ChatResult(generations=[ChatGeneration(message=message)])
