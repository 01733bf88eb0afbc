"""Verdicts reported to an authority: what a report holds, and that reporting neither delays nor fails a call."""

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from preaction import ActionGate, Verdict, create_action_gate
from preaction._core.verdict import tool_name
from preaction.errors import AuthorityError, ConfigurationError
from preaction.reporting import VerdictReporter, felspar_verdict_reporter, report_of
from preaction.testing import FakeAuthority
from preaction.wire.models import VerdictReport

SECRET = "mallory@evil.example"
RULE = {"outcomes": ["billing-question"], "fields": ["ticket_id", "note"], "entity": {"field": "ticket_id"}}


class Desk:
    """Takes reports, as told: `answers` are errors to raise, one for each try, before it takes any."""

    def __init__(self, *answers: Exception, gate: threading.Event | None = None) -> None:
        self.taken: list[Mapping[str, Any]] = []
        self.keys: list[str | None] = []
        self._answers = list(answers)
        self.began = threading.Event()
        self._gate = gate

    def report_verdict(self, report: Mapping[str, Any], *, idempotency_key: str | None = None) -> dict[str, Any]:
        self.keys.append(idempotency_key)
        self.began.set()
        if self._gate is not None:
            assert self._gate.wait(10)
        if self._answers:
            raise self._answers.pop(0)
        self.taken.append(report)
        return {}

    async def areport_verdict(self, report: Mapping[str, Any], *, idempotency_key: str | None = None) -> dict[str, Any]:
        raise AssertionError("reports are sent by a thread")


def status(number: int) -> AuthorityError:
    return AuthorityError("report_verdict: no", kind="status", status=number)


def gate_with(on_verdict: Any, mode: Any = "enforce") -> tuple[ActionGate, FakeAuthority]:
    authority = FakeAuthority()
    gate = create_action_gate(
        job=authority.job,
        tools={"desk__note": RULE},
        verify=authority,
        describe=authority,
        on_verdict=on_verdict,
        clock=authority.clock,
        mode=mode,
    )
    return gate, authority


def ask(gate: ActionGate, **more: Any) -> Verdict:
    return gate.check("chat-7", "desk__note", {"ticket_id": "HC-1201", "note": SECRET, **more})


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("preaction.reporting._PAUSE_S", 0.0)


def reporter(desk: Desk, **options: Any) -> VerdictReporter:
    return felspar_verdict_reporter(desk, job="triage-ticket", **options)


# ---------------------------------------------------------------- what a report holds


def test_a_report_says_what_the_gate_said_and_nothing_of_the_arguments() -> None:
    desk = Desk()
    with reporter(desk) as report:
        gate, authority = gate_with(report)
        gate.decisions.record("chat-7", result=(decision := authority.decide("HC-1201")))
        allowed, denied = ask(gate), ask(gate, **{SECRET: 1})
    assert (allowed.allow, denied.code) == (True, "field_not_allowed")
    assert SECRET in denied.reason
    assert SECRET not in json.dumps(desk.taken)
    first, second = (VerdictReport.model_validate_json(json.dumps(each)) for each in desk.taken)
    assert (first.job, first.tool, first.code, first.allow, first.enforced) == (
        "triage-ticket", "desk__note", "allowed", True, True,
    )  # fmt: skip
    assert (first.case, first.execution_id, first.call_digest) == (
        "HC-1201",
        decision["executionId"],
        allowed.call_digest,
    )
    assert (
        second.reason == 'Denied, nothing was done: this tool may not set the field "…"; leave it out and call again.'
    )
    assert (second.allow, second.execution_id) == (False, None)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("Allowed: every check passed.", "Allowed: every check passed."),
        ('no decision on "HC-1"; ask first.', 'no decision on "…"; ask first.'),
        (r'the id "a\"b" names "c" twice.', 'the id "…" twice.'),
        ('the recipient "mallory... is not "plain" enough.', 'the recipient "…"'),
        ('an open "end', 'an open "…"'),
    ],
)
def test_what_a_reason_quotes_is_left_out(reason: str, told: str) -> None:
    verdict = Verdict(False, reason, "case_unclear", "desk__note", "chat-7")
    assert report_of("triage-ticket", verdict)["reason"] == told


@pytest.mark.parametrize("text", ["x" * 5000, "a\0b", "half \ud800 a pair", "", "\u202e"])
def test_any_tool_and_case_makes_a_report_that_an_authority_takes(text: str) -> None:
    verdict = Verdict(False, text, "case_unclear", tool_name(text), "chat-7", case=text, execution_id=text)
    report = json.dumps(report_of("triage-ticket", verdict), ensure_ascii=False).encode()
    assert VerdictReport.model_validate_json(report).execution_id in (None, "x" * 200)


def test_the_one_output_check_that_counted_is_named() -> None:
    desk, authority = Desk(), FakeAuthority()
    with reporter(desk) as report:
        gate = create_action_gate(
            job=authority.job,
            tools={
                "desk__reply": {
                    "writes": "billing-team-reply",
                    "fields": ["ticket_id", "body"],
                    "entity": {"field": "ticket_id"},
                    "output_check": {"fields": ["body"]},
                }
            },
            verify=authority,
            describe=authority,
            verify_output_check=authority,
            on_verdict=report,
            clock=authority.clock,
        )
        decision = authority.decide("HC-1201")
        gate.decisions.record("chat-7", result=decision)
        check = authority.check_output(decision, {"body": "Hello"})
        gate.output_checks.record("chat-7", check)
        assert gate.check("chat-7", "desk__reply", {"ticket_id": "HC-1201", "body": "Hello"}).allow
    assert [each["checkId"] for each in desk.taken] == [check["checkId"]]


# ---------------------------------------------------------------- calls go on, whatever becomes of a report


def test_a_call_does_not_wait_for_an_authority_that_hangs() -> None:
    hanging = threading.Event()
    desk = Desk(gate=hanging)
    report = reporter(desk)
    gate, authority = gate_with(report)
    gate.decisions.record("chat-7", result=authority.decide("HC-1201"))
    assert [ask(gate).allow for _ in range(3)] == [True] * 3
    assert desk.taken == []
    hanging.set()
    assert report.flush()
    assert len(desk.taken) == 3
    report.close()


def test_a_full_queue_drops_what_comes_counts_it_and_says_so_seldom(caplog: pytest.LogCaptureFixture) -> None:
    hanging = threading.Event()
    desk = Desk(gate=hanging)
    report = reporter(desk, max_waiting=2)
    verdict = Verdict(False, "no", "case_unclear", "desk__note", "chat-7")
    report("desk__note", verdict)
    assert desk.began.wait(10)  # the thread has taken the first
    with caplog.at_level(logging.WARNING, "preaction"):
        for _ in range(6):
            report("desk__note", verdict)
    assert report.dropped == 4
    assert [record.message.split()[0] for record in caplog.records] == ["1", "2", "4"]
    hanging.set()
    report.close()
    assert len(desk.taken) == 3


def test_a_closed_reporter_drops() -> None:
    desk = Desk()
    report = reporter(desk)
    report.close()
    report("desk__note", Verdict(False, "no", "case_unclear", "desk__note", "chat-7"))
    report.close()
    assert (report.dropped, desk.taken) == (1, [])


def test_what_there_is_no_time_to_send_counts_as_dropped(caplog: pytest.LogCaptureFixture) -> None:
    hanging = threading.Event()
    desk = Desk(gate=hanging)
    report = reporter(desk)
    for _ in range(3):
        report("desk__note", Verdict(False, "no", "case_unclear", "desk__note", "chat-7"))
    assert desk.began.wait(10)
    report.close(timeout_s=0)
    assert report.dropped == 2
    assert "no time" in caplog.text
    hanging.set()


@pytest.mark.parametrize(
    "error",
    [status(503), status(429), AuthorityError("late", kind="timeout"), AuthorityError("cut", kind="connection")],
)
def test_what_may_pass_is_tried_again_under_the_same_key(error: Exception) -> None:
    desk = Desk(error, error, error)
    with reporter(desk) as report:
        report("desk__note", Verdict(False, "no", "case_unclear", "desk__note", "chat-7"))
    assert len(desk.taken) == 1
    assert len(desk.keys) == 4
    assert len(set(desk.keys)) == 1
    assert report.failed == 0


@pytest.mark.parametrize("errors", [[status(404)], [RuntimeError(SECRET)], [status(503)] * 4])
def test_what_does_not_pass_is_given_up_counted_and_logged(
    errors: list[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(*errors)
    with reporter(desk) as report:
        report("desk__note", Verdict(False, "no", "case_unclear", "desk__note", "chat-7"))
        assert report.flush()
        report("desk__note", Verdict(False, "no", "case_unclear", "desk__note", "chat-7"))
    assert report.failed == 1
    assert len(desk.taken) == 1, "the next one is sent all the same"
    assert "1 reports of verdicts failed" in caplog.text
    assert SECRET not in caplog.text


# ---------------------------------------------------------------- required


def test_an_allow_whose_required_report_is_not_taken_is_a_denial() -> None:
    desk = Desk(status(503))
    with reporter(desk, required=True) as report:
        gate, authority = gate_with(report)
        gate.decisions.record("chat-7", result=authority.decide("HC-1201"))
        assert ask(gate).code == "gate_error"
        assert ask(gate).allow
        assert len(desk.taken) == 1, "it was taken before the call was let through"


async def test_the_same_from_an_event_loop() -> None:
    desk = Desk(status(503))
    with reporter(desk, required=True) as report:
        gate, authority = gate_with(report)
        gate.decisions.record("chat-7", result=authority.decide("HC-1201"))
        arguments = {"ticket_id": "HC-1201", "note": SECRET}
        assert (await gate.acheck("chat-7", "desk__note", arguments)).code == "gate_error"
        assert (await gate.acheck("chat-7", "desk__note", arguments)).allow


def test_a_denial_keeps_its_reason_though_its_required_report_fails() -> None:
    with reporter(Desk(status(404)), required=True) as report:
        gate, _ = gate_with(report)
        assert ask(gate).code == "case_not_decided"
    assert report.failed == 1


def test_a_gate_that_observes_lets_calls_through_though_a_required_report_fails() -> None:
    with reporter(Desk(status(503)), required=True) as report:
        gate, authority = gate_with(report, mode="observe")
        gate.decisions.record("chat-7", result=authority.decide("HC-1201"))
        verdict = ask(gate)
    assert (verdict.code, verdict.blocks) == ("gate_error", False)


# ---------------------------------------------------------------- made right, ended right


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"felspar": object()}, "felspar"),
        ({"felspar": {"origin": "http://127.0.0.1:1"}}, "felspar"),
        ({"job": ""}, "job"),
        ({"job": "x" * 201}, "job"),
        ({"job": None}, "job"),
        ({"max_waiting": 0}, "max_waiting"),
        ({"max_waiting": True}, "max_waiting"),
    ],
)
def test_what_can_not_be_right_is_said_at_once(options: dict[str, Any], place: str) -> None:
    given: dict[str, Any] = {"felspar": Desk(), "job": "triage-ticket", **options}
    with pytest.raises(ConfigurationError, match=f"^{place}: "):
        felspar_verdict_reporter(given.pop("felspar"), **given)


def test_a_process_that_ends_without_closing_sends_what_waits() -> None:
    code = """
from preaction import Verdict, felspar_verdict_reporter

class Desk:
    def report_verdict(self, report, *, idempotency_key=None):
        print(report["tool"])

    areport_verdict = report_verdict

report = felspar_verdict_reporter(Desk(), job="triage-ticket")
for number in range(3):
    report("", Verdict(False, "no", "case_unclear", f"desk__{number}", None))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["desk__0", "desk__1", "desk__2"]
    assert done.stderr == ""
