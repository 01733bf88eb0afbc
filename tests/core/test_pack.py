"""G22–G25 through the gate: does the released pack let the decided outcome do this?"""

from typing import Any

import pytest

from kit import REPLY, SESSION, decided, gate_for, helpdesk, reply, shown
from preaction import ActionGate, Verdict
from preaction._core.facts import Describe, Verify
from preaction.testing import FakeAuthority

RELEASE = "2026-11-03.1"
DESCRIBE = Describe("triage-ticket", RELEASE)


def ask(gate: ActionGate, **changes: Any) -> Verdict:
    return gate.check(SESSION, REPLY, reply(**changes))


def states(verdict: Verdict) -> list[str]:
    """How the six checks went, in order."""
    return [result.state for result in verdict.checks.values()]


def described(authority: FakeAuthority, **changes: Any) -> None:
    authority.answers[DESCRIBE] = {**authority.description(), **changes}


def outcome(id: str, *outputs: str) -> dict[str, Any]:
    return {"id": id, "title": id, "nextStep": None, "outputs": list(outputs), "escalation": None}


def denied_by_pack(verdict: Verdict, code: str = "outcome_not_allowed") -> bool:
    assert (verdict.allow, verdict.code, verdict.failed) == (False, code, "pack")
    return states(verdict) == ["passed", "passed", "passed", "passed", "failed", "not reached"]


# G22 ------------------------------------------------------------------------------------------------------------------


def test_g22_an_output_that_the_decided_outcome_lists_may_be_written() -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    verdict = ask(gate)
    assert (verdict.allow, verdict.code, verdict.outcome) == (True, "allowed", "billing-question")
    assert states(verdict) == ["passed"] * 6
    assert verdict.checks["pack"].saw["outputs"] == ["billing-team-reply"]


@pytest.mark.parametrize(
    "outcomes",
    [
        [outcome("billing-question")],
        [outcome("billing-question", "outage-reply")],
        [outcome("billing-question", "Billing-Team-Reply")],
        [outcome("billing-question", "billing-team-reply ")],
        [outcome("billing-question", "billing-team"), outcome("refund-review", "billing-team-reply")],
        [outcome("refund-review", "billing-team-reply")],
        [outcome("Billing-Question", "billing-team-reply")],
        [{"id": "billing-question"}],
        [],
    ],
    ids=shown,
)
def test_g22_an_output_that_the_decided_outcome_does_not_list_denies(outcomes: list[dict[str, Any]]) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    described(authority, outcomes=outcomes)
    assert denied_by_pack(ask(gate))


def test_g22_another_outcome_of_the_same_release_denies() -> None:
    gate, authority = helpdesk()
    decided(gate, authority, outcome="refund-review")
    assert denied_by_pack(ask(gate))


def test_g22_the_outcome_is_the_replays_and_a_decision_that_claims_another_is_not_believed() -> None:
    gate, authority = helpdesk()
    decided(gate, authority, outcome="refund-review")
    lied = authority.decide("HC-2", outcome="refund-review") | {"outcome": {"id": "billing-question"}}
    gate.decisions.record(SESSION, result=lied)
    assert ask(gate, ticketId="HC-2").code == "replay_mismatch"


def test_g22_a_new_release_changes_the_answer_with_no_change_of_code() -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    assert ask(gate).allow
    authority.answers[Describe("triage-ticket", "next")] = {
        **authority.description("next"),
        "outcomes": [outcome("billing-question")],
    }
    decided(gate, authority, release="next")
    assert denied_by_pack(ask(gate))


@pytest.mark.parametrize(
    "outputs", ["billing-team-reply", None, {"billing-team-reply": 1}, [1], [["billing-team-reply"]]]
)
def test_g22_outputs_of_another_type_deny(outputs: object) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    described(authority, outcomes=[{"id": "billing-question", "outputs": outputs}])
    assert ask(gate).code == "verify_failed"


# G23 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (["billing-question"], "allowed"),
        (["refund-review", "billing-question"], "allowed"),
        (("billing-question",), "allowed"),
        (["refund-review"], "outcome_not_allowed"),
        (["Billing-question"], "outcome_not_allowed"),
        (["billing"], "outcome_not_allowed"),
        (["billing-questions"], "outcome_not_allowed"),
    ],
)
def test_g23_a_rule_with_outcomes_allows_exactly_those(outcomes: Any, code: str) -> None:
    gate, authority = helpdesk(rule={"writes": None, "outcomes": outcomes})
    decided(gate, authority)
    verdict = ask(gate)
    assert verdict.code == code
    assert verdict.allow or denied_by_pack(verdict)


def test_g23_an_outcome_needs_no_output() -> None:
    gate, authority = helpdesk(rule={"writes": None, "outcomes": ["refund-review"], "output_check": None})
    decided(gate, authority, outcome="refund-review")
    assert ask(gate).allow


def test_g23_a_rule_with_outcomes_does_not_allow_an_undecided_case() -> None:
    gate, authority = helpdesk(rule={"writes": None, "outcomes": ["refund-review", "billing-question"]})
    decided(gate, authority, outcome=None)
    assert denied_by_pack(ask(gate), "undecided")


# G24 ------------------------------------------------------------------------------------------------------------------

NEVER = {
    "both": {"outcomes": ["billing-question"]},
    "neither": {"writes": None},
    "no outcome": {"writes": None, "outcomes": []},
    "entity not in fields": {"fields": ["body"]},
    "entity only null": {"null_only": ["ticketId"]},
    "text not in fields": {"fields": ["ticketId"]},
    "text only null": {"null_only": ["body"]},
    "entity is an object": {"fields": ["ticketId.id", "body"]},
    "two outputs": {"output_check": {"fields": ["body"], "output": "outage-reply"}},
    "no recipient allowed": {"recipients_at": []},
}


@pytest.mark.parametrize("changes", NEVER.values(), ids=NEVER)
def test_g24_a_rule_that_can_never_allow_denies_every_call_and_stands_in_problems(changes: dict[str, Any]) -> None:
    gate, authority = helpdesk(rule=changes)
    decided(gate, authority)
    for args in (reply(), {}, {"ticketId": "HC-1201"}):
        verdict = gate.check(SESSION, REPLY, args)
        assert (verdict.allow, verdict.code, verdict.failed) == (False, "rule_invalid", "pack")
        assert states(verdict) == ["not reached"] * 4 + ["failed", "not reached"]
    assert authority.asked == []
    assert len(gate.problems) == 1
    assert gate.problems[0].startswith(f"tools.{REPLY}: ")


def test_g24_a_rule_that_can_never_allow_leaves_the_others_alone() -> None:
    authority = FakeAuthority()
    tools = {REPLY: {"fields": ["a"]}, "note": {"outcomes": ["billing-question"], "fields": ["id"]}}
    gate = gate_for(authority, tools)
    decided(gate, authority)
    assert gate.check(SESSION, REPLY, {"a": 1}).code == "rule_invalid"
    assert gate.check(SESSION, "note", {"id": 1}).allow


def test_g24_a_rule_that_checks_texts_at_a_gate_that_can_not_confirm_them_denies_and_stands_in_problems() -> None:
    gate, authority = helpdesk(verify_output_check=None)
    decided(gate, authority)
    verdict = ask(gate)
    assert (verdict.allow, verdict.code, verdict.failed) == (False, "verify_failed", "text")
    assert len(gate.problems) == 1
    assert "verify_output_check" in gate.problems[0]


def test_g24_a_rule_that_can_allow_has_no_problems() -> None:
    gate, _ = helpdesk()
    assert gate.problems == ()


# G25 ------------------------------------------------------------------------------------------------------------------


def test_g25_an_undecided_case_denies() -> None:
    gate, authority = helpdesk()
    decided(gate, authority, outcome=None)
    assert denied_by_pack(ask(gate), "undecided")


@pytest.mark.parametrize(
    "said",
    [
        {"status": "undecided", "outcome": None},
        {"status": "undecided", "outcome": {"id": "billing-question"}},
        {"status": "decided", "outcome": None},
    ],
    ids=shown,
)
def test_g25_status_and_outcome_must_both_say_decided(said: dict[str, Any]) -> None:
    gate, authority = helpdesk()
    gate.decisions.record(SESSION, result=authority.decide("HC-1201") | said)
    answer = authority.good_answer(Verify("exe_1"))
    answer["replay"] |= {"status": said["status"], "outcome": said["outcome"] and said["outcome"]["id"]}
    authority.answers[Verify("exe_1")] = answer
    assert denied_by_pack(ask(gate), "undecided")


@pytest.mark.parametrize("status", ["Decided", "done", "", None, True])
def test_g25_a_status_that_is_not_known_leaves_the_case_undecided(status: object) -> None:
    gate, authority = helpdesk()
    decided(gate, authority, status=status)
    assert ask(gate).code == "undecided"
    assert authority.asked == []


@pytest.mark.parametrize(
    "other", [{"job": "close-ticket"}, {"job": ""}, {"release": "next"}, {"release": ""}], ids=shown
)
def test_g25_a_description_of_another_job_or_release_denies(other: dict[str, str]) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    described(authority, **other)
    verdict = ask(gate)
    assert (verdict.allow, verdict.code, verdict.failed) == (False, "replay_mismatch", "verified")


def test_g25_a_description_of_another_release_is_not_remembered() -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    described(authority, release="next")
    assert not ask(gate).allow
    del authority.answers[DESCRIBE]
    assert ask(gate).allow


@pytest.mark.parametrize("name", ["job", "release", "outcomes"])
def test_g25_a_description_that_lacks_what_is_needed_denies(name: str) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    authority.answers[DESCRIBE] = {k: v for k, v in authority.description().items() if k != name}
    assert ask(gate).code == "verify_failed"
