"""Whatever tools and hooks give back, from a thread and in a loop: nothing raises, or shows what it must not."""

import asyncio
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.odd import ANYTHING
from pipeline.office import READ, WRITE, Office
from preaction.pipeline import Outcome
from preaction.pipeline.outcome import TEXTS

SHOWN = {"executed", "result_invalid", "result_too_large"}


def asked(office: Office, name: str, in_a_loop: bool) -> Outcome:
    arguments = READ if name == "get_invoice" else WRITE
    return asyncio.run(office.apropose(name, arguments)) if in_a_loop else office.propose(name, arguments)


@given(ANYTHING, st.sampled_from(["get_invoice", "approve_invoice"]), st.booleans())
def test_p11_of_whatever_a_tool_gives_back_the_model_sees_what_sanitise_left(
    value: Any, name: str, in_a_loop: bool
) -> None:
    """And so it is with a repetition, which shows what was kept."""
    hooks = {"run": lambda command: {"SECRET": value}, "output_schema": None, "sanitise": lambda result: "left"}
    office = Office(tools={name: {**hooks, "operation_id": None}})
    outcomes = [asked(office, name, in_a_loop) for _ in range(2)]
    assert outcomes[0].code in SHOWN
    assert outcomes[1].code == ("replayed" if name == "approve_invoice" else outcomes[0].code)
    for outcome in outcomes:
        assert outcome.disposition == "execute"
        assert outcome.for_model in ("left", *TEXTS.values())
        assert outcome.result in ("left", None)
        assert (outcome.result == "left") == (outcome.for_model == "left")


HOOKS = ["resolve", "authorize", "confirm", "object_ids", "sanitise", "operation_id", "reconcile", "preflight"]


@given(st.sampled_from(HOOKS), ANYTHING, st.booleans())
def test_p10_whatever_a_hook_answers_nothing_raises_and_nothing_but_its_yes_lets_a_call_through(
    hook: str, value: Any, in_a_loop: bool
) -> None:
    def answers(*given: Any) -> Any:
        return value

    tools: dict[str, Any] = {"authorize": lambda *given: office.may(*given), "object_ids": None, "confirm": False}
    if hook == "reconcile":
        tools["run"] = lambda command: [][0]
    options = {"preflight": answers} if hook == "preflight" else {}
    office: Office = Office(tools={"approve_invoice": {**tools, **({} if options else {hook: answers})}}, **options)
    outcome = asked(office, "approve_invoice", in_a_loop)
    if hook == "reconcile":
        assert outcome.code == "outcome_unknown"
        outcome = asked(office, "approve_invoice", in_a_loop)
        assert outcome.code in {"replayed", "outcome_unknown"} if value is not None else {"outcome_unknown"}
    assert isinstance(outcome, Outcome)
    assert "SECRET" not in outcome.for_model
    yes = {
        "resolve": isinstance(value, Mapping) and None not in list(safe(value)),
        "authorize": False,
        "confirm": value is False,
        "object_ids": isinstance(value, Mapping),
        "preflight": getattr(value, "execution_decision", value) == "execute",
    }
    if not yes.get(hook, hook != "reconcile"):
        assert office.acts == []


def safe(value: Mapping[str, Any]) -> list[Any]:
    """The values of a mapping, or none where it breaks."""
    try:
        return list(value.values())
    except SystemError:
        return [None]
