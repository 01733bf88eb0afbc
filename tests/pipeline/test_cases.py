"""The cases of `cases/calls.jsonl` that a pipeline judges, by their ids: approval, idempotency and the parser.

Each runs through a pipeline over the case's gate. "allow" is one more act at the tool, "deny" is none.
"""

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from cases.world import CASES, World, session_of, tools_of
from pipeline.office import CONTEXT, raising
from preaction.pipeline import Command, Limits, NothingSent, Outcome, ProposedCall, Tool, ToolPipeline

AREAS = ("agent_approval", "idempotency")
BY_HAND = ["A01", "A02", "A04", "A30", "A34", "I05", "I14", "I17"]

CODES: dict[str, str] = {
    **dict.fromkeys(["A11", "A17", "A19", "A21", "A22", "A23", "A26"], "invalid_json"),
    "A37": "arguments_too_large",
    **dict.fromkeys(["A13", "A14", "A16", "A25"], "invalid_arguments"),
    **dict.fromkeys(["A27", "A33", "A47"], "unknown_tool"),
    **dict.fromkeys(["A05", "A07", "A08", "A09", "A31", "A35", "A38", "A46", "A49", "A50"], "gate_denied"),
    "A41": "invalid_json",
    **dict.fromkeys(["I02", "I07", "I15"], "replayed"),
    **dict.fromkeys(["I01", "I09"], "outcome_unknown"),
}


STARTS = ("Not executed", "Denied, nothing was done", "Next step: ", "It is not known", '{"sent"')
"""How a line for the model may start: none is made of a call's own words."""


class Killed(BaseException):
    """The process ended here."""


class Desk:
    """The pipelines of one case, a new one for each step, over one store."""

    def __init__(self, **changes: Any) -> None:
        self.world = World()
        self.changes = changes
        self.acts: list[Command] = []

    def pipeline(self, given: dict[str, Any]) -> ToolPipeline:
        def run(command: Command) -> Any:
            said = given.get("tool_result", "ok")
            if "before any byte" in said:
                raise NothingSent
            self.acts.append(command)
            if "killed" in said:
                raise Killed
            if "raises" in said:
                raise TimeoutError(said)
            return {"sent": True}

        gate = self.world.gate(given)
        self.world.record(gate, given)
        tools = []
        for name, rule in tools_of(given).items():
            fields: dict[str, Any] = {field: {} for field in rule["fields"]}
            schema = {"type": "object", "properties": fields, "additionalProperties": False}
            tools.append(Tool(**{"name": name, "run": run, "input_schema": schema, **self.changes}))
        limit = given.get("limits", {}).get("max_argument_bytes", 16_384)
        limits = Limits(argument_bytes=limit, execution_s=0.05 if "fault" in given else 30)
        return ToolPipeline(tools, gate=gate, store=self.world.store, limits=limits)

    def propose(self, given: dict[str, Any], pipeline: ToolPipeline | None = None) -> Outcome:
        key = given.get("idempotency_key")
        call = ProposedCall(given.get("call_id", "call_1"), given["tool"], raw_of(given), idempotency_key=key)
        session = session_of(given)
        context = replace(CONTEXT, session_id=session, request_id=f"req-{session}")
        return (pipeline or self.pipeline(given)).handle_sync(call, context)


def raw_of(given: dict[str, Any]) -> Any:
    """What the model sent: a text where the case has one."""
    if "args" in given:
        return given["args"]
    return given["args_raw"] if "args_raw" in given else eval(given["args_py"], {"__builtins__": {}, "chr": chr})


def judged(case_id: str) -> None:
    case, desk = CASES[case_id], Desk()
    only = {**case["input"], "expect": case["expect"]}
    steps = [step for step in case["input"].get("steps", [only]) if "tool" in step]
    for step in steps:
        before = len(desk.acts)
        try:
            outcome = desk.propose(step)
        except Killed:
            assert len(desk.acts) == before + 1
            continue
        if "before any byte" in step.get("tool_result", ""):
            assert (outcome.code, len(desk.acts)) == ("tool_failed", before)
            continue
        acted = len(desk.acts) - before
        assert acted == (1 if step["expect"] == "allow" else 0), outcome
        assert outcome.for_model
        if step["expect"] == "deny":
            assert "success" not in outcome.for_model
            assert all(line.startswith(STARTS) for line in outcome.for_model.splitlines())
            assert outcome.code == CODES[case_id], outcome
        elif step.get("tool_result", "ok") == "ok":
            assert outcome.code == "executed", outcome
            assert desk.acts[-1].arguments == (json.loads(raw_of(step)) if "args_raw" in step else raw_of(step))


IDS = [case_id for case_id, case in CASES.items() if case["area"] in AREAS and case_id not in BY_HAND]


@pytest.mark.parametrize("case_id", IDS)
def test_case(case_id: str) -> None:
    judged(case_id)


def test_every_case_of_these_areas_is_here() -> None:
    assert {"I10", "A44"} <= set(IDS)
    assert set(CODES) <= set(IDS)
    assert {case_id for case_id, case in CASES.items() if case["area"] in AREAS} == {*IDS, *BY_HAND}


@pytest.mark.parametrize("hook", ["resolve", "authorize", "confirm"])
def test_case_a01_a_hook_that_crashes(hook: str) -> None:
    desk = Desk(**{hook: raising(RuntimeError("db down"))})
    outcome = desk.propose(CASES["A01"]["input"])
    assert (outcome.code, desk.acts) == ("internal", [])
    assert "db down" not in outcome.for_model


def test_case_a02_a_hook_that_stalls() -> None:
    over = threading.Event()
    desk = Desk(authorize=lambda *given: over.wait(60))
    try:
        assert desk.propose(CASES["A02"]["input"]).code == "internal"
    finally:
        over.set()
    assert desk.acts == []


@pytest.mark.parametrize("error", [EOFError("no terminal"), SystemExit(1), GeneratorExit()])
def test_case_a04_a_hook_that_raises_what_is_not_expected(error: BaseException) -> None:
    desk = Desk(confirm=raising(error))
    try:
        outcome = desk.propose(CASES["A04"]["input"])
    except GeneratorExit:
        assert isinstance(error, GeneratorExit)
    else:
        assert outcome.code == "internal"
    assert desk.acts == []


def test_case_a30_a_misspelt_option() -> None:
    with pytest.raises(TypeError, match="authorise"):
        Desk(authorise=print).pipeline(CASES["A33"]["input"])


def test_case_a34_what_is_changed_later_never_runs() -> None:
    given = CASES["A34"]["input"]
    mine = dict(given["args"])

    def changes(*known: Any) -> bool:
        mine.update(given["mutation_after_check"])
        return False

    desk = Desk(confirm=changes)
    assert desk.propose({**given, "args": mine}).code == "executed"
    assert mine["ticket_id"] == "T-2"
    assert [command.arguments for command in desk.acts] == [given["args"]]


def test_case_i05_two_at_the_same_time() -> None:
    first, second = CASES["I05"]["input"]["concurrent"]
    desk = Desk()
    pipeline = desk.pipeline(first)
    together, outcomes = threading.Barrier(2, timeout=10), []

    def one(given: dict[str, Any]) -> None:
        together.wait()
        outcomes.append(desk.propose(given, pipeline))

    threads = [threading.Thread(target=one, args=(given,)) for given in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(desk.acts) == 1
    codes = sorted(outcome.code for outcome in outcomes)
    assert codes in (["executed", "in_progress"], ["executed", "replayed"])


@pytest.mark.parametrize("case_id", ["I14", "I17"])
def test_case_i14_i17_a_key_that_is_none_is_refused_before_anything(case_id: str) -> None:
    desk = Desk()
    with pytest.raises(ValueError, match="idempotency_key"):
        desk.propose(CASES[case_id]["input"])
    assert desk.acts == []
