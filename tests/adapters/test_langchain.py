"""LangChain and LangGraph: the contract in a `create_agent`, in a plain graph and by middleware, and their traps."""

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("langchain.agents", reason="runs in its own environment: make test-runtimes")

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.output_parsers.openai_tools import make_invalid_tool_call, parse_tool_call
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool, ToolException
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import Field

from adapters.contract import (
    SESSION,
    Contract,
    Desk,
    Harness,
    ToolCall,
    Transcript,
    as_json,
)
from preaction.adapters.langchain import PreactionMiddleware, install

DONE = "All done."


class Stub(BaseChatModel):
    """Plays its script, and parses the arguments as the OpenAI integration does."""

    script: list[Any] = Field(default_factory=list)
    said: list[Any] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "stub"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        self.said.append(messages)
        turn = self.script[len(self.said) - 1] if len(self.said) <= len(self.script) else ()
        message = AIMessage("" if turn else DONE)
        for place, call in enumerate(turn):
            raw = {
                "id": f"call-{len(self.said)}-{place}",
                "type": "function",
                "function": {"name": call.name, "arguments": as_json(call.arguments)},
            }
            try:
                parsed = parse_tool_call(raw, return_id=True)
                message = AIMessage("", tool_calls=[*message.tool_calls, parsed])
            except Exception as error:
                invalid = make_invalid_tool_call(raw, str(error))
                message.invalid_tool_calls.append(invalid)
        return ChatResult(generations=[ChatGeneration(message=message)])


def stub(turns: Sequence[Sequence[ToolCall]]) -> Stub:
    return Stub(script=list(turns), said=[])


def telling(body: Callable[..., Any]) -> Callable[..., Any]:
    """LangChain ends the run when a tool raises anything else."""

    @functools.wraps(body)
    def told(**arguments: Any) -> Any:
        try:
            return body(**arguments)
        except RuntimeError as error:
            raise ToolException(str(error)) from error

    return told


def tools_of(desk: Desk) -> list[StructuredTool]:
    return [StructuredTool.from_function(telling(body), handle_tool_error=True) for body in desk.bodies]


def play(graph: Any, mode: str, session: str | None = SESSION) -> Transcript:
    config: Any = {} if session is None else {"configurable": {"thread_id": session}}
    given: Any = {"messages": [("user", "Please answer the ticket.")]}

    async def streamed() -> Any:
        last = None
        async for state in graph.astream(given, config, stream_mode="values"):
            last = state
        return last

    state: Any
    if mode == "sync":
        state = graph.invoke(given, config)
    elif mode == "stream":
        *_, state = graph.stream(given, config, stream_mode="values")
    else:
        state = asyncio.run(graph.ainvoke(given, config) if mode == "async" else streamed())
    messages = state["messages"]
    told = [message.content for message in messages if isinstance(message, ToolMessage)]
    return Transcript(told, ended=messages[-1].content == DONE)


def plain_graph(model: Stub, node: ToolNode) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", node)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


class LangchainHarness(Harness):
    modes = ("sync", "async", "stream", "astream")

    def __init__(self, build: Callable[[Stub, list[StructuredTool], Desk], Any]) -> None:
        self.build = build

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        return play(self.build(stub(turns), tools_of(desk), desk), mode, session)


class TestInstalled(Contract):
    harness = LangchainHarness(lambda model, tools, desk: install(create_agent(model, tools), desk.gate))


class TestMiddleware(Contract):
    harness = LangchainHarness(
        lambda model, tools, desk: create_agent(model, tools, middleware=[PreactionMiddleware(desk.gate)])
    )


class TestPlainGraph(Contract):
    harness = LangchainHarness(lambda model, tools, desk: plain_graph(model, install(ToolNode(tools), desk.gate)))
