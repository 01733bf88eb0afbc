"""G26–G28 through the gate: is this exactly the text that the authority checked, and does the check still stand?"""

from collections.abc import Callable
from typing import Any

import pytest

from kit import BODY, REPLY, SESSION, TICKET, decided, helpdesk, reply, shown
from preaction import ActionGate, Verdict
from preaction._core.facts import Describe, VerifyOutputCheck
from preaction.testing import FakeAuthority
from preaction.wire.digest import content_digest

FIX = "Fix what check_output flagged, check it again, then retry."
RELEASE = "2026-11-03.1"


def ask(gate: ActionGate, **changes: Any) -> Verdict:
    return gate.check(SESSION, REPLY, reply(**changes))


def undone(verdict: Verdict, code: str) -> bool:
    """Denied by the last check, with the fixed next step (G28)."""
    assert (verdict.allow, verdict.code, verdict.failed, verdict.escalate) == (False, code, "text", FIX)
    return [result.state for result in verdict.checks.values()] == ["passed"] * 5 + ["failed"]


def missing(verdict: Verdict) -> bool:
    return undone(verdict, "output_check_missing")


def failed(verdict: Verdict) -> bool:
    return undone(verdict, "output_check_failed")


def checked(gate: ActionGate, authority: FakeAuthority, decision: dict[str, Any], **how: Any) -> dict[str, Any]:
    """Have `BODY` (or `content`) checked and record it; other changes go into the record alone."""
    made = {name: how.pop(name) for name in ("content", "output", "passed") if name in how}
    check = authority.check_output(decision, made.pop("content", {"body": BODY}), **made)
    gate.output_checks.record(SESSION, check | how)
    return check


def only_decided(
    rule: dict[str, Any] | None = None, **options: Any
) -> tuple[ActionGate, FakeAuthority, dict[str, Any]]:
    """A gate whose session holds a decision and no output check."""
    gate, authority = helpdesk(rule=rule, **options)
    decision = authority.decide(TICKET)
    gate.decisions.record(SESSION, result=decision)
    return gate, authority, decision


# G26: the fields ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [None, 1, True, ["Hello"], [BODY], []])
def test_g26_a_checked_field_that_is_no_string_denies(body: object) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    assert missing(ask(gate, body=body))


def test_g26_a_checked_field_that_is_missing_denies() -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    assert missing(gate.check(SESSION, REPLY, {"ticketId": TICKET}))
    decided(gate, authority, content={})
    assert missing(gate.check(SESSION, REPLY, {"ticketId": TICKET}))


@pytest.mark.parametrize("lacking", ["subject", "body"])
def test_g26_every_checked_field_is_needed(lacking: str) -> None:
    rule = {"fields": ["ticketId", "subject", "body"], "output_check": {"fields": ["subject", "body"]}}
    gate, authority = helpdesk(rule=rule)
    decided(gate, authority, content={"subject": "Invoice", "body": BODY})
    args = reply(subject="Invoice")
    assert gate.check(SESSION, REPLY, args).allow
    del args[lacking]
    assert missing(gate.check(SESSION, REPLY, args))


def test_g26_the_text_of_one_field_can_not_stand_in_another() -> None:
    rule = {"fields": ["ticketId", "subject", "body"], "output_check": {"fields": ["subject", "body"]}}
    gate, authority = helpdesk(rule=rule)
    decided(gate, authority, content={"subject": "Invoice", "body": BODY})
    assert missing(gate.check(SESSION, REPLY, reply(subject=BODY, body="Invoice")))


@pytest.mark.parametrize("spelling", ["body", "Body", "BODY", "bOdY"])
def test_g26_the_digest_is_over_the_rules_spelling_of_a_field_whatever_the_calls(spelling: str) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    assert gate.check(SESSION, REPLY, {"ticketId": TICKET, spelling: BODY}).allow


@pytest.mark.parametrize("content", [{"Body": BODY}, {"text": BODY}, {"body": BODY, "subject": ""}, {}])
def test_g26_a_check_of_other_fields_is_not_one_of_this_text(content: dict[str, str]) -> None:
    gate, authority = helpdesk()
    decided(gate, authority, content=content)
    assert missing(ask(gate))


def test_g26_a_checked_text_may_stand_in_an_object() -> None:
    gate, authority = helpdesk(rule={"fields": ["ticketId", "reply.body"], "output_check": {"fields": ["reply.body"]}})
    decided(gate, authority, content={"reply.body": BODY})
    args = {"ticketId": TICKET, "reply": {"body": BODY}}
    assert gate.check(SESSION, REPLY, args).allow
    assert missing(gate.check(SESSION, REPLY, {"ticketId": TICKET, "reply": {"body": BODY + "!"}}))
    assert missing(gate.check(SESSION, REPLY, {"ticketId": TICKET, "reply": {}}))


@pytest.mark.parametrize(
    "body",
    [
        "",
        BODY + " ",
        " " + BODY,
        BODY + "\n",
        BODY[:-1],
        BODY.upper(),
        BODY.replace("Hello", "Hell\u043e"),  # a Cyrillic o
        BODY + "\u200b",
        BODY.replace(" ", "\u00a0"),
        BODY.replace("\n", "\r\n") + "\r",
        BODY + "\x00",
    ],
)
def test_g26_the_text_is_compared_code_point_for_code_point(body: str) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    assert missing(ask(gate, body=body))


@pytest.mark.parametrize(("composed", "other"), [("\u00e9", "e\u0301"), ("ﬁ", "fi"), ("\u00c5", "\u212b")])
def test_g26_texts_that_only_look_alike_are_two_texts(composed: str, other: str) -> None:
    gate, authority = helpdesk()
    decided(gate, authority, content={"body": composed})
    assert ask(gate, body=composed).allow
    assert missing(ask(gate, body=other))


@pytest.mark.parametrize("body", ["", "\U0001f600", "a\u2028b", "\x00", "𝒳" * 1000, '"\\/\b', "\ufeff", "\uffff"])
def test_g26_any_text_can_be_checked_and_sent(body: str) -> None:
    gate, authority = helpdesk()
    decided(gate, authority, content={"body": body})
    verdict = ask(gate, body=body)
    assert verdict.allow
    assert verdict.arguments["body"] == body


# G26: the recorded check ----------------------------------------------------------------------------------------------


def test_g26_without_a_recorded_check_the_call_is_denied_and_none_is_asked_about() -> None:
    gate, authority, _ = only_decided()
    assert missing(ask(gate))
    assert not any(isinstance(question, VerifyOutputCheck) for question in authority.asked)


def test_g26_a_check_for_another_execution_does_not_count() -> None:
    gate, authority, _ = only_decided()
    checked(gate, authority, authority.decide("HC-2"))
    assert missing(ask(gate))


def test_g26_a_check_for_an_earlier_decision_on_the_same_case_does_not_count() -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    assert ask(gate).allow
    gate.decisions.record(SESSION, result=authority.decide(TICKET))
    assert missing(ask(gate))


def test_g26_a_check_in_another_session_does_not_count() -> None:
    gate, authority, decision = only_decided()
    gate.output_checks.record("another", authority.check_output(decision, {"body": BODY}))
    assert missing(ask(gate))


@pytest.mark.parametrize("release", ["2026-11-03.2", ""])
def test_g26_a_check_under_another_release_does_not_count(release: str) -> None:
    gate, authority, decision = only_decided()
    checked(gate, authority, decision, release=release)
    assert missing(ask(gate))


@pytest.mark.parametrize("output", ["outage-reply", "Billing-team-reply", ""])
def test_g26_a_check_as_another_output_does_not_count(output: str) -> None:
    gate, authority, decision = only_decided()
    checked(gate, authority, decision, output=output)
    assert missing(ask(gate))


def test_g26_a_check_that_failed_denies_with_no_request_for_it() -> None:
    gate, authority, decision = only_decided()
    checked(gate, authority, decision, passed=False)
    assert failed(ask(gate))
    assert not any(isinstance(question, VerifyOutputCheck) for question in authority.asked)


def test_g26_a_failed_check_replaces_a_passed_one() -> None:
    gate, authority, decision = only_decided()
    checked(gate, authority, decision)
    assert ask(gate).allow
    authority.clock.advance(seconds=1)
    checked(gate, authority, decision, passed=False)
    assert failed(ask(gate))


def test_g26_a_passed_check_replaces_a_failed_one() -> None:
    gate, authority, decision = only_decided()
    checked(gate, authority, decision, passed=False)
    authority.clock.advance(seconds=1)
    checked(gate, authority, decision)
    assert ask(gate).allow


@pytest.mark.parametrize("passed_first", [True, False])
def test_g26_of_two_checks_at_one_moment_the_one_recorded_last_counts(passed_first: bool) -> None:
    gate, authority, decision = only_decided()
    checked(gate, authority, decision, passed=passed_first)
    checked(gate, authority, decision, passed=not passed_first)
    assert ask(gate).allow == (not passed_first)


def test_g26_a_passed_check_that_arrives_late_does_not_replace_a_later_failed_one() -> None:
    gate, authority, decision = only_decided()
    early = authority.check_output(decision, {"body": BODY})
    authority.clock.advance(seconds=1)
    checked(gate, authority, decision, passed=False)
    gate.output_checks.record(SESSION, early)
    assert failed(ask(gate))


def test_g26_a_failed_check_of_another_text_leaves_this_one_alone() -> None:
    gate, authority, decision = only_decided()
    checked(gate, authority, decision)
    authority.clock.advance(seconds=1)
    checked(gate, authority, decision, content={"body": "Something else."}, passed=False)
    assert ask(gate).allow


@pytest.mark.parametrize(
    "changes",
    [
        {"passed": "true"},
        {"passed": 1},
        {"passed": None},
        {"contentDigest": None},
        {"checkId": 7},
        {"checkedAt": "soon"},
    ],
    ids=shown,
)
def test_g26_a_check_that_can_not_be_read_is_not_recorded(changes: dict[str, object]) -> None:
    gate, authority, decision = only_decided()
    checked(gate, authority, decision, **changes)
    assert missing(ask(gate))


@pytest.mark.parametrize("name", ["isError", "is_error"])
def test_g26_a_result_marked_as_an_error_is_not_recorded(name: str) -> None:
    gate, authority, decision = only_decided()
    checked(gate, authority, decision, **{name: True})
    assert missing(ask(gate))


# G26: the output ------------------------------------------------------------------------------------------------------

OUTCOMES = {"writes": None, "outcomes": ["billing-question"]}
NAMED = {**OUTCOMES, "output_check": {"fields": ["body"], "output": "outage-reply"}}


def listing(authority: FakeAuthority, *outputs: str) -> None:
    """Let the decided outcome list these outputs."""
    authority.answers[Describe("triage-ticket", RELEASE)] = {
        **authority.description(),
        "outcomes": [{"id": "billing-question", "outputs": list(outputs)}],
    }


@pytest.mark.parametrize("listed", [["outage-reply"], []])
def test_g26_a_rule_with_outcomes_takes_the_output_that_it_names(listed: list[str]) -> None:
    gate, authority, decision = only_decided(NAMED)
    listing(authority, *listed)
    checked(gate, authority, decision)
    assert missing(ask(gate))
    checked(gate, authority, decision, output="outage-reply")
    assert ask(gate).allow


def test_g26_without_a_named_output_any_that_the_outcome_lists_will_do() -> None:
    gate, authority, decision = only_decided(OUTCOMES)
    listing(authority, "outage-reply", "billing-team-reply")
    checked(gate, authority, decision, output="outage-reply")
    assert ask(gate).allow


def test_g26_without_a_named_output_one_that_the_outcome_does_not_list_is_ignored() -> None:
    gate, authority, decision = only_decided(OUTCOMES)
    checked(gate, authority, decision, output="outage-reply")
    assert missing(ask(gate))
    checked(gate, authority, decision)
    assert ask(gate).allow


def test_g26_a_failed_check_of_one_output_leaves_a_passed_one_of_another_standing() -> None:
    gate, authority, decision = only_decided(OUTCOMES)
    listing(authority, "outage-reply", "billing-team-reply")
    checked(gate, authority, decision)
    authority.clock.advance(seconds=1)
    checked(gate, authority, decision, output="outage-reply", passed=False)
    assert ask(gate).allow


def test_g26_only_failed_checks_of_listed_outputs_deny_as_failed() -> None:
    gate, authority, decision = only_decided(OUTCOMES)
    checked(gate, authority, decision, passed=False)
    checked(gate, authority, decision, output="outage-reply")  # passed, but not listed
    assert failed(ask(gate))


@pytest.mark.parametrize(("more", "code"), [(3, "allowed"), (4, "output_check_missing")])
def test_g26_at_most_four_outputs_are_asked_about_the_latest_first(more: int, code: str) -> None:
    gate, authority, decision = only_decided(OUTCOMES)
    checked(gate, authority, decision)
    for number in range(more):
        authority.clock.advance(seconds=1)
        checked(gate, authority, decision, output=f"other-{number}")
    assert ask(gate).code == code
    assert sum(isinstance(question, VerifyOutputCheck) for question in authority.asked) == 4


def test_g26_with_a_named_output_only_that_one_is_asked_about() -> None:
    gate, authority, decision = only_decided()
    for number in range(6):
        checked(gate, authority, decision, output=f"other-{number}")
    check = checked(gate, authority, decision)
    assert ask(gate).allow
    asked = [question for question in authority.asked if isinstance(question, VerifyOutputCheck)]
    assert asked == [VerifyOutputCheck(check["checkId"])]


def test_g26_without_an_output_check_in_the_rule_any_text_passes() -> None:
    gate, _, _ = only_decided({"output_check": None})
    verdict = ask(gate, body="Whatever.")
    assert verdict.allow
    assert verdict.checks["text"].state == "passed"


# G27 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        {"checkId": "chk_9"},
        {"checkId": "CHK_2"},
        {"valid": False},
        {"passed": False},
        {"executionId": "exe_9"},
        {"output": "outage-reply"},
        {"release": "2026-11-03.2"},
        {"contentDigest": content_digest({"body": BODY + " "})},
        {"contentDigest": content_digest({"body": BODY}).upper()},
        {"contentDigest": ""},
    ],
    ids=shown,
)
def test_g27_a_confirmation_of_something_else_denies(answer: dict[str, object]) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    authority.answers[VerifyOutputCheck("chk_2")] = authority.good_answer(VerifyOutputCheck("chk_2")) | answer
    assert failed(ask(gate))


@pytest.mark.parametrize("name", ["valid", "passed", "checkId", "executionId", "output", "release", "contentDigest"])
@pytest.mark.parametrize("change", ["absent", None, 1])
def test_g27_a_confirmation_that_lacks_or_mistypes_something_denies(name: str, change: object) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    answer = authority.good_answer(VerifyOutputCheck("chk_2")) | {name: change}
    if change == "absent":
        del answer[name]
    authority.answers[VerifyOutputCheck("chk_2")] = answer
    verdict = ask(gate)
    assert (verdict.code, verdict.failed) == ("verify_failed", "text")


def test_g27_a_check_that_the_authority_withdraws_between_two_calls_denies() -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    assert ask(gate).allow
    question = VerifyOutputCheck("chk_2")
    authority.answers[question] = authority.good_answer(question) | {"passed": False}
    assert failed(ask(gate))
    del authority.answers[question]
    assert ask(gate).allow


def test_g27_a_recorded_pass_that_the_model_made_up_is_not_confirmed() -> None:
    gate, authority, decision = only_decided()
    real = authority.check_output(decision, {"body": "A harmless text."})
    gate.output_checks.record(SESSION, real | {"contentDigest": content_digest({"body": BODY})})
    assert failed(ask(gate))


def test_g27_one_confirmed_output_is_enough_where_the_rule_names_none() -> None:
    gate, authority, decision = only_decided(OUTCOMES)
    listing(authority, "outage-reply", "billing-team-reply")
    checked(gate, authority, decision)
    authority.clock.advance(seconds=1)
    latest = checked(gate, authority, decision, output="outage-reply")
    question = VerifyOutputCheck(latest["checkId"])
    authority.answers[question] = authority.good_answer(question) | {"valid": False}
    assert ask(gate).allow


# G28 ------------------------------------------------------------------------------------------------------------------


def withdraw(authority: FakeAuthority) -> None:
    question = VerifyOutputCheck("chk_2")
    authority.answers[question] = authority.good_answer(question) | {"passed": False}


def spoil(authority: FakeAuthority) -> None:
    del authority


@pytest.mark.parametrize(("body", "before"), [(BODY + "!", spoil), (None, spoil), (BODY, withdraw)])
def test_g28_a_missing_failed_or_different_check_denies_with_the_one_fixed_next_step(
    body: str | None, before: Callable[[FakeAuthority], None]
) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    before(authority)
    assert ask(gate, body=body).escalate == "Fix what check_output flagged, check it again, then retry."
