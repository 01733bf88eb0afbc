"""The OpenAI Agents SDK: the contract, and a row for each trap of this runtime, open without the adapter and closed with
it.
"""

import asyncio
import itertools
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="runs in its own environment: make test-runtimes")

from agents import (
    Agent,
    AgentHooks,
    FunctionTool,
    ItemHelpers,
    ModelResponse,
    RunConfig,
    Runner,
    RunState,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    Usage,
    WebSearchTool,
    function_tool,
    handoff,
    set_tracing_disabled,
)
from agents.mcp import MCPServerStdio
from agents.models.interface import Model
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from adapters.contract import (
    BODY,
    CHECK,
    DECIDE,
    LOOK,
    OTHER,
    REPLY,
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
from preaction import ConfigurationError
from preaction.adapters import openai_agents
from preaction.adapters._json_schema import MISFIT
from preaction.adapters.openai_agents import ainstall, install

set_tracing_disabled(True)

ROOT = Path(__file__).resolve().parents[2]
_ids = itertools.count(1)


class Scripted(Model):
    """A model that makes the calls of its script, one list per turn, and then says "done"; `told` is what it was given."""

    def __init__(self, turns: Sequence[Sequence[ToolCall]]) -> None:
        self.turns = [list(turn) for turn in turns]
        self.told: dict[str, str] = {}
        self.asked: list[str] = []

    def _next(self, items: Any) -> ModelResponse:
        for item in ItemHelpers.input_to_new_input_list(items):
            if isinstance(item, dict) and item.get("type") == "function_call_output":
                self.told[item["call_id"]] = _text(item["output"])
        output: list[Any] = []
        for call in self.turns.pop(0) if self.turns else []:
            self.asked.append(f"call_{next(_ids)}")
            output.append(
                ResponseFunctionToolCall(
                    type="function_call", call_id=self.asked[-1], name=call.name, arguments=as_json(call.arguments)
                )
            )
        if not output:
            said = ResponseOutputText(type="output_text", text="done", annotations=[])
            output = [
                ResponseOutputMessage(id="msg_1", type="message", role="assistant", status="completed", content=[said])
            ]
        return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        return self._next(input)

    async def stream_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:
        response = Response(
            id="resp_1",
            created_at=0,
            model="scripted",
            object="response",
            output=self._next(input).output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)

    def answers(self) -> list[str]:
        return [self.told.get(call_id, "") for call_id in self.asked]


def _text(output: Any) -> str:
    """A tool's output as the model reads it: MCP results come as a list of text blocks."""
    return output if isinstance(output, str) else "".join(block["text"] for block in output)


def tools_of(desk: Desk) -> list[FunctionTool]:
    return [function_tool(body) for body in desk.bodies]


def desk_agent(desk: Desk, model: Model | None = None, **changes: Any) -> Agent[Any]:
    return Agent(**{"name": "desk", "model": model, "tools": tools_of(desk), **changes})


async def play(agent: Agent[Any], *, session: str | None = SESSION, **options: Any) -> Any:
    return await Runner.run(agent, "Hello", run_config=RunConfig(group_id=session), **options)


class OpenAIAgents(Harness):
    modes = ("sync", "async", "stream")

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        model = Scripted(turns)
        agent = install(desk_agent(desk, model), desk.gate)
        config = RunConfig(group_id=session)

        async def streamed() -> Any:
            result = Runner.run_streamed(agent, "Hello", run_config=config)
            async for _ in result.stream_events():
                pass
            return result

        if mode == "sync":
            with asyncio.Runner() as loop:  # run_sync takes the thread's loop, and leaves it open
                asyncio.set_event_loop(loop.get_loop())
                result = Runner.run_sync(agent, "Hello", run_config=config)
        else:
            result = asyncio.run(streamed() if mode == "stream" else Runner.run(agent, "Hello", run_config=config))
        return Transcript(model.answers(), result.final_output == "done")


class TestOpenAIAgents(Contract):
    harness = OpenAIAgents()
