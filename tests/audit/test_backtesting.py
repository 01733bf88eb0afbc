"""Recorded calls under other rules: judged by the same core, and never guessed."""

import json
from typing import Any

import pytest

from audit.test_trail import audited
from core.test_record import SCENES
from kit import REPLY, decided, gate_for, helpdesk, reply, reply_rule
from preaction.audit.backtesting import judge_by
from preaction.audit.reading import record_of
from preaction.audit.record import AuditRecord
from preaction.audit.replaying import own_book
from preaction.errors import RecordMismatch
from preaction.testing import FakeAuthority


def recorded(name: str, **options: Any) -> AuditRecord:
    return record_of(json.loads(json.dumps(audited(SCENES[name](), **options)[1])))


def book(rule: dict[str, Any] | None = None, **options: Any) -> Any:
    return gate_for(FakeAuthority(), {REPLY: reply_rule(**(rule or {}))}, **options)._book


@pytest.mark.parametrize("name", SCENES)
def test_under_its_own_rules_each_call_has_its_own_verdict(name: str) -> None:
    record = recorded(name, arguments="whole")
    verdict = judge_by(record, own_book(record))
    assert (verdict.code, verdict.case) == (record.verdict.code, record.verdict.case)


@pytest.mark.parametrize(
    ("rule", "options", "code"),
    [
        ({"writes": "another"}, {}, "outcome_not_allowed"),
        ({"writes": None, "outcomes": ["refund-review"], "output_check": None}, {}, "outcome_not_allowed"),
        ({"fields": ["ticketId"]}, {}, "rule_invalid"),
        ({"fields": ["ticketId"], "output_check": None}, {}, "field_not_allowed"),
        ({"output_check": None}, {}, "allowed"),
        ({"fixed": {"public": False}}, {}, "field_value_not_allowed"),
        ({}, {"refuse_fields": ["body"]}, "field_refused"),
        ({}, {"releases": ["2027-01-01.1"]}, "release_not_allowed"),
        ({"recipients_at": ["acme.example"]}, {}, "allowed"),
    ],
)
def test_rules_that_ask_nothing_more_are_judged_by(rule: dict[str, Any], options: dict[str, Any], code: str) -> None:
    assert judge_by(recorded("allowed"), book(rule, **options)).code == code


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"entity": {"field": "body"}, "output_check": None}, "the value of 'body', which the decision looks at"),
        ({"entity": None}, "these rules ask what the session knew of this case, which was not recorded"),
        ({"once": "decision"}, "these rules ask whether a use is still free, which was not recorded"),
        ({"output_check": {"fields": ["body", "ticketId"]}}, "stands in other fields than the one recorded"),
        ({"recipients": ["body"], "output_check": None}, "the value of 'body', which the decision looks at"),
    ],
)
def test_what_was_not_recorded_is_not_guessed(rule: dict[str, Any], why: str) -> None:
    with pytest.raises(RecordMismatch, match=why):
        judge_by(recorded("allowed"), book(rule))


def test_a_call_that_was_never_asked_about_cannot_be_told() -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    scene = (gate, authority, REPLY, reply(note={"n": 1}))
    record = record_of(audited(scene)[1])
    assert judge_by(record, gate._book).code == "field_not_allowed"
    assert judge_by(record, book({"fields": ["ticketId", "body"], "once": "case"})).code == "field_not_allowed"
    for wider in (
        book({"fields": ["ticketId", "body", "note"]}),
        book({"fields": ["ticketId", "body", "note.*"]}),
        book(refuse_fields=["note"]),
    ):
        with pytest.raises(RecordMismatch, match="kept without its name, and these rules know others"):
            judge_by(record, wider)
    record = record_of(audited(scene, keep=["note"])[1])
    with pytest.raises(RecordMismatch, match="what the session knew of this case"):
        judge_by(record, book({"fields": ["ticketId", "body", "note.*"]}))


def test_a_tool_that_the_other_rules_do_not_name_is_judged_by_what_they_say_of_such_tools() -> None:
    record = recorded("allowed")
    for unlisted, code in (("allow", "not_gated"), ("deny", "tool_not_listed")):
        rules = gate_for(FakeAuthority(), {"another": reply_rule()}, unlisted=unlisted)._book
        assert judge_by(record, rules).code == code


def test_what_the_gate_failed_on_and_what_is_of_another_job_cannot_be_told() -> None:
    record = recorded("allowed")
    failed = record.model_copy(update={"verdict": record.verdict.model_copy(update={"code": "gate_error"})})
    for given, why in ((failed, "the gate itself failed"), (recorded("allowed for a company"), "another job")):
        with pytest.raises(RecordMismatch, match=why):
            judge_by(given, book())
