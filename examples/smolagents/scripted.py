"""A model that is a script: it replies too early, then does it right."""

from smolagents import ChatMessage, MessageRole, Model
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

BODY = "Hello, line 3 is the service fee."
REPLY = ("reply", {"ticket_id": "HC-1201", "body": BODY})
CALLS = [REPLY, ("decide", {"entity_id": "HC-1201"}), ("check_output", {"body": BODY}), REPLY]


class ScriptedModel(Model):
    def __init__(self):
        super().__init__(model_id="script")
        self.calls = iter([*CALLS, ("final_answer", {"answer": "Done."})])

    def generate(self, messages, **_):
        name, arguments = next(self.calls)
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=f"call_{len(messages)}", type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])
