"""Reported verdicts: what an authority keeps, refuses and shows to whom; and a gate that reports over real HTTP."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from authority.asking import REPLY, evidence, refusal
from authority.conftest import Clock
from authority.packs import HELPDESK, INVOICES
from preaction import (
    ActionDenied,
    Felspar,
    create_action_gate,
    felspar_job_describer,
    felspar_output_check_verifier,
    felspar_verdict_reporter,
    felspar_verifier,
)
from preaction.authority import LocalAuthority
from preaction.authority.keys import Caller
from preaction.authority.ledger import verdicts as kept
from preaction.errors import AuthorityError

REPORT: dict[str, Any] = {
    "job": "triage-ticket",
    "tool": "helpdesk__reply",
    "code": "case_not_decided",
    "allow": False,
    "enforced": True,
    "case": "HC-1201",
    "reason": "Denied, nothing was done.",
    "callDigest": "sha-256:" + "a" * 64,
    "at": "2026-11-30T09:00:00Z",
}


def rows(authority: LocalAuthority, caller: Caller | None = None, **wanted: str) -> list[Any]:
    with authority._storage.reading() as connection:
        return kept.page(authority._storage, connection, caller or authority._operator, wanted, None)[0]


def test_a_report_is_kept_as_it_was_told(helpdesk: LocalAuthority, clock: Clock) -> None:
    answer = helpdesk.report_verdict({**REPORT, "executionId": "exe_1", "checkId": "chk_1"})
    [row] = rows(helpdesk)
    assert row.pop("seal")
    assert row == {
        "id": answer["verdictId"],
        "pack": "helpdesk",
        "job": "triage-ticket",
        "tool": "helpdesk__reply",
        "code": "case_not_decided",
        "allow": 0,
        "enforced": 1,
        "case_id": "HC-1201",
        "execution_id": "exe_1",
        "check_id": "chk_1",
        "reason": "Denied, nothing was done.",
        "call_digest": "sha-256:" + "a" * 64,
        "at": "2026-11-30T09:00:00Z",
        "received_at": clock.text(),
        "key_id": "local-agent",
    }


async def test_the_same_from_an_event_loop(helpdesk: LocalAuthority) -> None:
    answer = await helpdesk.areport_verdict(REPORT)
    assert [row["id"] for row in rows(helpdesk)] == [answer["verdictId"]]


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("tool", ""),
        ("tool", "x" * 201),
        ("tool", "a\0b"),
        ("job", None),
        ("code", 5),
        ("allow", 1),
        ("enforced", "true"),
        ("case", "x" * 2001),
        ("executionId", "../exe"),
        ("checkId", "a b"),
        ("reason", "x" * 2001),
        ("reason", None),
        ("callDigest", "a" * 64),
        ("callDigest", "sha-256:" + "A" * 64),
        ("at", "2026-11-30T09:00:00"),
        ("arguments", {"body": "the text itself"}),
    ],
)
def test_what_is_no_report_is_refused_with_its_place(helpdesk: LocalAuthority, field: str, bad: Any) -> None:
    status, places = refusal(helpdesk.report_verdict, {**REPORT, field: bad})
    assert (status, list(places)) == (422, [f"/{field}"])
    assert rows(helpdesk) == []


@pytest.mark.parametrize("field", ["job", "tool", "code", "allow", "enforced", "reason", "callDigest", "at"])
def test_what_a_report_needs_it_needs(helpdesk: LocalAuthority, field: str) -> None:
    status, places = refusal(helpdesk.report_verdict, {name: part for name, part in REPORT.items() if name != field})
    assert (status, list(places)) == (422, [f"/{field}"])


@pytest.mark.parametrize(("field", "longest"), [("tool", 200), ("case", 2000), ("reason", 2000)])
def test_the_longest_text_is_kept_whole(helpdesk: LocalAuthority, field: str, longest: int) -> None:
    text = "é" * longest
    helpdesk.report_verdict({**REPORT, field: text})
    assert text in rows(helpdesk)[0].values()


def test_the_same_report_under_one_key_is_kept_once(helpdesk: LocalAuthority) -> None:
    first = helpdesk.report_verdict(REPORT, idempotency_key="k")
    assert helpdesk.report_verdict(REPORT, idempotency_key="k") == first
    assert len(rows(helpdesk)) == 1
    status, _ = refusal(helpdesk.report_verdict, {**REPORT, "allow": True}, idempotency_key="k")
    assert status == 422


def test_a_key_reports_for_its_own_jobs_only(helpdesk: LocalAuthority, clock: Clock) -> None:
    key = helpdesk._keyring.create("agent", "helpdesk", ["other-job"], clock())
    with helpdesk.serve() as served, Felspar(served.origin, key) as agent:
        with pytest.raises(AuthorityError) as refused:
            agent.report_verdict(REPORT)
        assert agent.report_verdict({**REPORT, "job": "other-job"})["verdictId"].startswith("ver_")
    assert refused.value.status == 404
    assert [row["job"] for row in rows(helpdesk)] == ["other-job"]


def test_nobody_sees_the_verdicts_of_another_pack_or_job(opened: Callable[..., LocalAuthority], tmp_path: Any) -> None:
    db = f"sqlite:///{tmp_path / 'shared.db'}"
    helpdesk, ledger = opened(HELPDESK, db), opened(INVOICES, db)
    helpdesk.report_verdict(REPORT)
    helpdesk.report_verdict({**REPORT, "job": "other-job"})
    ledger.report_verdict({**REPORT, "job": "pay-invoice"})
    assert sorted(row["job"] for row in rows(helpdesk)) == ["other-job", "triage-ticket"]
    assert [row["job"] for row in rows(ledger)] == ["pay-invoice"]
    some = Caller("k", "operator", "helpdesk", frozenset({"other-job"}))
    assert [row["job"] for row in rows(helpdesk, some)] == ["other-job"]
    assert rows(helpdesk, Caller("k", "operator", "helpdesk", frozenset())) == []


def test_verdicts_come_newest_first_in_pages(helpdesk: LocalAuthority, clock: Clock) -> None:
    told = []
    for number in range(kept.PAGE + 1):
        clock.forward(seconds=1)
        told.append(helpdesk.report_verdict({**REPORT, "case": f"HC-{number}"})["verdictId"])
    with helpdesk._storage.reading() as connection:
        first, more = kept.page(helpdesk._storage, connection, helpdesk._operator, {}, None)
        second, end = kept.page(helpdesk._storage, connection, helpdesk._operator, {}, more)
    assert [row["id"] for row in [*first, *second]] == told[::-1]
    assert (len(first), end) == (kept.PAGE, None)


@pytest.mark.parametrize(
    "column", [column.name for column in kept.VERDICTS.columns if column.name not in ("id", "pack", "job")]
)
def test_an_altered_row_shows_its_id_alone(helpdesk: LocalAuthority, column: str) -> None:
    answer = helpdesk.report_verdict(REPORT)
    number = column in ("allow", "enforced")
    with helpdesk._storage.writing() as connection:
        connection.execute(kept.VERDICTS.update().values({column: 7 if number else "other"}))
    assert rows(helpdesk) == [{"id": answer["verdictId"]}]


def test_a_gate_reports_over_http_and_no_argument_arrives(helpdesk: LocalAuthority, clock: Clock) -> None:
    secret = "HC-1201-and-nobody-elses-business"
    with (
        helpdesk.serve() as served,
        Felspar(served.origin, helpdesk.agent_key) as felspar,
        felspar_verdict_reporter(felspar, job="triage-ticket", required=True) as report,
    ):
        gate = create_action_gate(
            job="triage-ticket",
            tools={
                "helpdesk__reply": {
                    "writes": "billing-team-reply",
                    "entity": {"field": "ticket_id"},
                    "fields": ["ticket_id", "body"],
                    "output_check": {"fields": ["body"]},
                }
            },
            verify=felspar_verifier(felspar),
            describe=felspar_job_describer(felspar),
            verify_output_check=felspar_output_check_verifier(felspar),
            on_verdict=report,
            clock=clock,
        )
        guarded = gate.wrap("helpdesk__reply", lambda ticket_id, body: body)
        decision = felspar.decide("triage-ticket", entity_id="HC-1201", evidence=evidence())
        check = felspar.check_output(decision["executionId"], output="billing-team-reply", content=REPLY)
        with gate.session("chat-7") as session:
            with pytest.raises(ActionDenied, match=secret):
                guarded(secret, REPLY["body"])
            gate.decisions.record(session, result=decision)
            gate.output_checks.record(session, check)
            assert guarded("HC-1201", REPLY["body"]) == REPLY["body"]
    found = {row["code"]: row for row in rows(helpdesk)}
    assert set(found) == {"allowed", "case_not_decided"}
    allowed = found["allowed"]
    assert (allowed["execution_id"], allowed["check_id"]) == (decision["executionId"], check["checkId"])
    assert (allowed["case_id"], allowed["allow"]) == ("HC-1201", 1)
    assert secret not in json.dumps(list(found.values()))
    assert REPLY["body"] not in json.dumps(list(found.values()))
