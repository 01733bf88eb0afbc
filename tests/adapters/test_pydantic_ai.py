"""Pydantic AI: the contract, and a row for each trap of this runtime: open without the adapter, closed with it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="runs in its own environment: make test-runtimes")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from adapters.contract import SESSION, Contract, Desk, Harness, ToolCall, Transcript, as_json
from preaction.adapters.pydantic_ai import Gated


class Scripted:
    """A model that makes the calls of its script, one list per turn, then says "done"; `told` is what it was given."""

    def __init__(self, turns: Sequence[Sequence[ToolCall]]) -> None:
        self.turns = [list(turn) for turn in turns]
        self.told: dict[str, str] = {}
        self.outcomes: dict[str, str] = {}
        self.asked: list[str] = []
        self.model = FunctionModel(self.answer, stream_function=self.stream)

    def _next(self, messages: list[ModelMessage]) -> list[ToolCallPart]:
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, ToolReturnPart):
                self.told[part.tool_call_id] = part.model_response_str()
                self.outcomes[part.tool_call_id] = part.outcome
            elif isinstance(part, RetryPromptPart):
                self.told[part.tool_call_id] = part.model_response()
        parts = []
        for call in self.turns.pop(0) if self.turns else []:
            self.asked.append(f"call_{len(self.asked)}")
            parts.append(ToolCallPart(call.name, as_json(call.arguments), tool_call_id=self.asked[-1]))
        return parts

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=self._next(messages) or [TextPart("done")])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for index, part in enumerate(parts := self._next(messages)):
            delta = DeltaToolCall(
                name=part.tool_name, json_args=part.args_as_json_str(), tool_call_id=part.tool_call_id
            )
            yield {index: delta}
        if not parts:
            yield "done"

    def answers(self) -> list[str]:
        return [self.told.get(call_id, "") for call_id in self.asked]


class PydanticAI(Harness):
    modes = ("sync", "async", "stream")

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        scripted = Scripted(turns)
        agent = Agent(scripted.model, tools=desk.bodies, capabilities=[Gated(desk.gate)], retries=5)

        async def play() -> Any:
            if mode == "async":
                return (await agent.run("Hello", conversation_id=session)).output
            async with agent.run_stream("Hello", conversation_id=session) as result:
                return await result.get_output()

        while True:
            try:
                if mode == "sync":
                    with asyncio.Runner() as loop:  # run_sync takes the thread's loop, and leaves it open
                        asyncio.set_event_loop(loop.get_loop())
                        output = agent.run_sync("Hello", conversation_id=session).output
                else:
                    output = asyncio.run(play())
            except RuntimeError:  # a tool that raises ends the run here; the script goes on in the next one
                assert desk.decide_fails
            else:
                return Transcript(scripted.answers(), output == "done")


class TestPydanticAI(Contract):
    harness = PydanticAI()
