"""LlamaIndex: the contract in an agent, in an `AgentWorkflow` and in a ReAct agent, and its traps."""

import asyncio
import functools
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="runs in its own environment: make test-runtimes")

from llama_index.core.agent.workflow import AgentWorkflow, CodeActAgent, FunctionAgent, ReActAgent, ToolCallResult
from llama_index.core.llms import ChatMessage, ChatResponse, CompletionResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.llms.utils import parse_partial_json
from llama_index.core.tools import AsyncBaseTool, BaseTool, FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.tools.calling import call_tool
from llama_index.core.workflow import Context
from pydantic import Field

from adapters.contract import (
    BODY,
    CHECK,
    DECIDE,
    LOOK,
    OTHER,
    REPLY,
    RULE,
    SESSION,
    TICKET,
    Contract,
    Desk,
    Harness,
    ToolCall,
    Transcript,
    as_json,
    reply,
)
from preaction import ActionDenied, ConfigurationError
from preaction._core.facts import Verify
from preaction.adapters.llama_index import guard, install

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the runtime's own use of pydantic

DONE = "All done."


class Stub(FunctionCallingLLM):
    """Plays its script, and parses the arguments as the OpenAI integration does."""

    script: list[Any] = Field(default_factory=list)
    said: list[Any] = Field(default_factory=list)
    calls: bool = True

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=self.calls, model_name="stub")

    def answer(self, messages: Any) -> ChatResponse:
        self.said.append(list(messages))
        turn = self.script[len(self.said) - 1] if len(self.said) <= len(self.script) else ()
        if self.calls:
            message = ChatMessage(
                role="assistant", content="" if turn else DONE, additional_kwargs={"turn": list(turn)}
            )
        elif turn:
            call = turn[0]
            text = f"Thought: I act.\nAction: {call.name}\nAction Input: {as_json(call.arguments)}"
            message = ChatMessage(role="assistant", content=text)
        else:
            message = ChatMessage(role="assistant", content=f"Thought: I am through.\nAnswer: {DONE}")
        return ChatResponse(message=message, delta=message.content)

    def get_tool_calls_from_response(self, response: Any, *args: Any, **options: Any) -> list[ToolSelection]:
        found = []
        for place, call in enumerate(response.message.additional_kwargs.get("turn", [])):
            try:
                arguments = parse_partial_json(as_json(call.arguments))
            except ValueError:
                arguments = {}
            tool_id = f"call-{len(self.said)}-{place}"
            found.append(ToolSelection(tool_id=tool_id, tool_name=call.name, tool_kwargs=arguments))
        return found

    def _prepare_chat_with_tools(self, tools: Any, chat_history: Any = None, **options: Any) -> dict[str, Any]:
        return {"messages": chat_history or []}

    def chat(self, messages: Any, **options: Any) -> ChatResponse:
        return self.answer(messages)

    async def achat(self, messages: Any, **options: Any) -> ChatResponse:
        return self.answer(messages)

    def stream_chat(self, messages: Any, **options: Any) -> Any:
        yield self.answer(messages)

    async def astream_chat(self, messages: Any, **options: Any) -> Any:
        async def chunks() -> Any:
            yield self.answer(messages)

        return chunks()

    def complete(self, *args: Any, **options: Any) -> CompletionResponse:
        raise NotImplementedError

    async def acomplete(self, *args: Any, **options: Any) -> CompletionResponse:
        raise NotImplementedError

    def stream_complete(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def astream_complete(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


def stub(turns: Sequence[Sequence[ToolCall]], *, calls: bool = True) -> Stub:
    return Stub(script=list(turns), said=[], calls=calls)


def tools_of(desk: Desk, *, coroutines: bool = False) -> list[FunctionTool]:
    def tool(body: Callable[..., Any]) -> FunctionTool:
        @functools.wraps(body)
        async def awaited(**arguments: Any) -> Any:
            return body(**arguments)

        return FunctionTool.from_defaults(async_fn=awaited) if coroutines else FunctionTool.from_defaults(body)

    return [tool(body) for body in desk.bodies]


def agent(model: Stub, tools: Sequence[Any], *, streaming: bool = False, name: str = "desk", **options: Any) -> Any:
    kind = FunctionAgent if model.calls else ReActAgent
    return kind(name=name, description=f"The {name}.", tools=list(tools), llm=model, streaming=streaming, **options)


async def aplay(runner: Any, session: str | None = SESSION) -> Transcript:
    context: Context[Any] = Context(runner)
    if session is not None:
        await context.store.set("preaction_session", session)
    handler = runner.run(user_msg="Please answer the ticket.", ctx=context)
    results = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
    answer = await handler
    ordered = sorted(results, key=lambda result: result.tool_id) if results[0].tool_id.startswith("call-") else results
    return Transcript([result.tool_output.content for result in ordered], ended=str(answer) == DONE)


def play(runner: Any, session: str | None = SESSION) -> Transcript:
    return asyncio.run(aplay(runner, session))


class LlamaHarness(Harness):
    modes = ("async", "stream")

    def __init__(self, build: Callable[[Any, Desk], Any], *, calls: bool = True) -> None:
        self.build, self.calls = build, calls

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        tools = tools_of(desk, coroutines=mode == "stream")
        runner = agent(stub(turns, calls=self.calls), tools, streaming=mode == "stream")
        return play(install(self.build(runner, desk), desk.gate), session)


class TestAgent(Contract):
    harness = LlamaHarness(lambda runner, desk: runner)


class TestWorkflow(Contract):
    harness = LlamaHarness(lambda runner, desk: AgentWorkflow(agents=[runner], root_agent=runner.name))
