"""P14: the seed's matrix, every line over the tool that reads and the tool that writes, from a thread and from a loop.

Each line that is denied is asserted on both sides: no call came to a tool, and no protected value to the model.
"""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.office import FOREIGN, LARGE, READ, SECRETS, WRITE, Office, raising
from preaction.pipeline import Outcome

TOOLS = {"get_invoice": READ, "approve_invoice": WRITE}
Propose = Callable[..., Outcome]


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def proposer(office: Office, way: str) -> Propose:
    def propose(name: str, arguments: Any, **more: Any) -> Outcome:
        if way == "sync":
            return office.propose(name, arguments, **more)
        return asyncio.run(office.apropose(name, arguments, **more))

    return propose


def untouched(office: Office, outcome: Outcome) -> None:
    """Both sides of the boundary."""
    assert office.calls == 0
    assert office.status_of("inv_481") == office.status_of(FOREIGN) == "open"
    assert outcome.result is None
    assert outcome.for_model
    assert not [secret for secret in SECRETS if secret in outcome.for_model]
    assert outcome.for_model.startswith("Not executed")
    (record,) = office.audit.records()
    assert (record["disposition"], record["code"], record["outcome"]) == (outcome.disposition, outcome.code, "not_run")


def without(arguments: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if key != name}


BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str, str]] = {
    "malformed": (lambda good: json.dumps(good) + "}", "repair", "invalid_json"),
    "truncated": (lambda good: json.dumps(good)[:-1], "repair", "invalid_json"),
    "a missing required field": (lambda good: without(good, "invoice_id"), "repair", "invalid_arguments"),
    "an unexpected property": (lambda good: {**good, "note": "SECRET"}, "repair", "invalid_arguments"),
    "the tenant in the arguments": (lambda good: {**good, "tenant_id": "t_2"}, "repair", "invalid_arguments"),
    "a wrong primitive type": (lambda good: {**good, "invoice_id": 98765}, "repair", "invalid_arguments"),
    "an invalid enum value": (
        lambda good: {name: "SECRET" if name in ("part", "status") else value for name, value in good.items()},
        "repair",
        "invalid_arguments",
    ),
    "too large": (lambda good: {**good, "invoice_id": "x" * 20_000}, "repair", "arguments_too_large"),
    "an object that does not exist": (lambda good: {**good, "invoice_id": "inv_none"}, "deny", "not_visible"),
    "an object of another tenant": (lambda good: {**good, "invoice_id": FOREIGN}, "deny", "not_visible"),
}


@pytest.mark.parametrize("line", BAD)
@pytest.mark.parametrize("tool", TOOLS)
def test_p14_a_bad_proposal_comes_to_no_tool(tool: str, line: str, way: str) -> None:
    change, disposition, code = BAD[line]
    office = Office()
    outcome = proposer(office, way)(tool, change(TOOLS[tool]))
    assert (outcome.disposition, outcome.code) == (disposition, code)
    untouched(office, outcome)


@pytest.mark.parametrize("tool", ["approve_invoices", "Approve_Invoice", "", "SECRET\n", 7, None, ["x"]])
def test_p14_an_unknown_tool_is_a_repair(tool: Any, way: str) -> None:
    office = Office()
    outcome = proposer(office, way)(tool, WRITE)
    assert (outcome.disposition, outcome.code) == ("repair", "unknown_tool")
    untouched(office, outcome)


def test_p14_a_user_who_can_read_but_not_write(way: str) -> None:
    office = Office()
    denied = proposer(office, way)("approve_invoice", WRITE, roles=("viewer",))
    assert (denied.disposition, denied.code) == ("deny", "not_authorized")
    untouched(office, denied)
    assert office.record()["detail"] == "SECRET rule 12: clerks only"
    assert proposer(office, way)("get_invoice", READ, roles=("viewer",)).code == "executed"
    assert len(office.reads) == 1


@pytest.mark.parametrize("tool", TOOLS)
def test_p14_a_high_impact_action_that_lacks_confirmation(tool: str, way: str) -> None:
    office = Office(tools={tool: {"confirm": True}})
    outcome = proposer(office, way)(tool, {**TOOLS[tool], "invoice_id": "inv_900"})
    assert (outcome.disposition, outcome.code) == ("confirm", "needs_confirmation")
    assert "9000" not in outcome.for_model
    assert outcome.confirmation is not None
    assert "inv_900" in outcome.confirmation.summary
    untouched(office, outcome)


@pytest.mark.parametrize("tool", TOOLS)
def test_p14_changed_arguments_after_confirmation(tool: str, way: str) -> None:
    office = Office(tools={tool: {"confirm": True}})
    propose = proposer(office, way)
    asked = propose(tool, TOOLS[tool])
    assert asked.confirmation is not None
    office.pipeline.confirmations.approve(asked.confirmation.id, by="u_9")
    other = propose(tool, {**TOOLS[tool], "invoice_id": "inv_482"})
    assert other.disposition == "confirm"
    assert other.confirmation is not None
    assert other.confirmation.id != asked.confirmation.id
    assert office.calls == 0
    assert propose(tool, TOOLS[tool]).code == "executed"
    assert office.calls == 1
    record = office.audit.records()[-1]
    assert (record["confirmation"]["id"], record["confirmation"]["by"]) == (asked.confirmation.id, "u_9")


def test_p14_a_duplicate_write_with_the_same_key(way: str) -> None:
    office = Office()
    propose = proposer(office, way)
    first = propose("approve_invoice", WRITE, key="k-1", call_id="call_1")
    again = propose("approve_invoice", dict(reversed(WRITE.items())), key="k-1", call_id="call_2")
    assert (first.code, again.code) == ("executed", "replayed")
    assert (again.disposition, again.replayed, again.result) == ("execute", True, first.result)
    assert again.for_model == first.for_model
    assert len(office.acts) == 1


def test_p14_a_duplicate_read_reads_again(way: str) -> None:
    office = Office()
    propose = proposer(office, way)
    assert [propose("get_invoice", READ).code for _ in range(2)] == ["executed", "executed"]
    assert len(office.reads) == 2


def hangs(over: threading.Event) -> Callable[[Any], Any]:
    def run(command: Any) -> Any:
        over.wait(30)
        return {"id": "inv_481", "amount": 1, "status": "approved"}

    return run


@pytest.mark.parametrize(("tool", "code"), [("get_invoice", "timed_out"), ("approve_invoice", "outcome_unknown")])
def test_p14_a_downstream_timeout_after_an_ambiguous_commit(tool: str, code: str, way: str) -> None:
    over, started = threading.Event(), []

    def run(command: Any) -> Any:
        started.append(command)
        return hangs(over)(command)

    office = Office(tools={tool: {"run": run, "timeout_s": 0.5}})
    propose = proposer(office, way)
    try:
        outcomes = [propose(tool, TOOLS[tool]) for _ in range(2)]
    finally:
        over.set()
    assert [(outcome.disposition, outcome.code) for outcome in outcomes] == [("deny", code)] * 2
    assert len(started) == (2 if tool == "get_invoice" else 1), "what may be done is never done again by itself"
    assert "nothing was done" not in outcomes[0].for_model


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("result", "code"),
    [
        ({"id": 7}, "result_invalid"),
        ("SECRET", "result_invalid"),
        (object(), "result_invalid"),
        ({"id": "x", "amount": float("nan"), "status": "s"}, "result_invalid"),
        ({"id": "SECRET" * 100_000, "amount": 1, "status": "s"}, "result_too_large"),
    ],
)
def test_p14_malformed_or_oversized_output(tool: str, result: Any, code: str, way: str) -> None:
    office = Office(tools={tool: {"run": lambda command: result}})
    outcome = proposer(office, way)(tool, TOOLS[tool])
    assert (outcome.disposition, outcome.code, outcome.result) == ("execute", code, None)
    assert "SECRET" not in outcome.for_model
    assert "Don't repeat it" in outcome.for_model
    assert [told["where"] for told in office.restricted] == ["result"]
    assert office.restricted[0]["raw"] is result
    if tool == "approve_invoice":
        again = proposer(office, way)(tool, TOOLS[tool])
        assert (again.code, again.result) == ("replayed", None)
        assert "SECRET" not in again.for_model


def test_p14_one_fully_valid_read(way: str) -> None:
    office = Office()
    outcome = proposer(office, way)("get_invoice", json.dumps(READ))
    assert (outcome.disposition, outcome.code) == ("execute", "executed")
    assert outcome.result == {"id": "inv_481", "amount": 120, "customer": "Acme", "status": "open"}
    assert json.loads(outcome.for_model) == outcome.result
    assert outcome.idempotency_key is None
    (command,) = office.reads
    assert (command.tool, command.arguments, command.context.tenant) == ("get_invoice", READ, "t_1")


def test_p14_one_fully_valid_write(way: str) -> None:
    office = Office()
    outcome = proposer(office, way)("approve_invoice", json.dumps(WRITE).encode())
    assert (outcome.disposition, outcome.code, outcome.replayed) == ("execute", "executed", False)
    assert office.status_of("inv_481") == "approved"
    (command,) = office.acts
    assert command.idempotency_key == outcome.idempotency_key
    assert outcome.idempotency_key


def test_p14_a_confirmed_high_impact_write(way: str) -> None:
    office = Office()
    propose = proposer(office, way)
    asked = propose("approve_invoice", LARGE)
    assert asked.confirmation is not None
    assert propose("approve_invoice", LARGE).confirmation == asked.confirmation
    office.pipeline.confirmations.approve(asked.confirmation.id, by="u_9")
    assert propose("approve_invoice", LARGE).code == "executed"
    assert office.status_of("inv_900") == "approved"
    assert propose("approve_invoice", LARGE).code == "replayed", "before any confirmation is asked for"
    assert len(office.acts) == 1


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("hook", ["resolve", "authorize", "confirm", "object_ids"])
def test_p10_a_hook_that_fails_denies_and_says_nothing(tool: str, hook: str, way: str) -> None:
    office = Office(tools={tool: {hook: raising(RuntimeError("SECRET: SELECT * FROM t_2"))}})
    outcome = proposer(office, way)(tool, TOOLS[tool])
    assert (outcome.disposition, outcome.code) == ("deny", "internal")
    untouched(office, outcome)
    assert "SECRET" not in json.dumps(office.audit.records())
    assert office.restricted[0]["where"] == hook


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("answer", [True, None, "Allowed", 1, {"allowed": True}])
def test_p06_only_allowed_is_a_yes(tool: str, answer: Any, way: str) -> None:
    office = Office(tools={tool: {"authorize": lambda *given: answer}})
    outcome = proposer(office, way)(tool, TOOLS[tool])
    assert outcome.disposition == "deny"
    untouched(office, outcome)
