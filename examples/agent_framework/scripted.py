"""A model that is a script: it replies too early, then does it right."""

from agent_framework import BaseChatClient, ChatMiddlewareLayer, ChatResponse, Content, FunctionInvocationLayer, Message

BODY = "Hello, line 3 is the service fee."
REPLY = ("reply", {"ticket_id": "HC-1201", "body": BODY})
CALLS = [REPLY, ("decide", {"entity_id": "HC-1201"}), ("check_output", {"body": BODY}), REPLY]


class Script(BaseChatClient):
    def _inner_get_response(self, *, messages, stream, options, **_):
        done = sum(content.type == "function_call" for message in messages for content in message.contents)
        content = Content.from_text("Done.")
        if done < len(CALLS):
            name, arguments = CALLS[done]
            content = Content.from_function_call(call_id=f"call-{done}", name=name, arguments=arguments)

        async def response():
            return ChatResponse(messages=[Message(role="assistant", contents=[content])])

        return response()


class Client(FunctionInvocationLayer, ChatMiddlewareLayer, Script):
    pass
