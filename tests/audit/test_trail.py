"""The gate's audit: what a record holds, and that no call acts without the record that it needs."""

import asyncio
import json
import logging
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.test_record import SCENES, Scene
from kit import BODY, MAIL, REPLY, SESSION, TICKET, company, decided, helpdesk, mail, reply
from preaction import ActionGate, ConfigurationError, Verdict
from preaction.audit import AuditTrail, records
from preaction.audit.trail import Recorder, options_to_json, version
from preaction.pipeline import JsonlAudit

SECRET = "mallory@evil.example"


def audited(scene: Scene, **options: Any) -> tuple[Verdict, dict[str, Any]]:
    """The verdict on a scene's call and its record, as a reader of JSON has it."""
    gate, authority, tool, args = scene
    written: list[dict[str, Any]] = []
    trail = AuditTrail(written.append, **options)
    gate._recorder = Recorder(trail, gate._book, options_to_json(gate._book, (), ()), authority.clock)
    verdict = gate.check(SESSION, tool, args)
    (record,) = written
    return verdict, json.loads(json.dumps(record))


# ---------------------------------------------------------------- what a record holds


@pytest.mark.parametrize("name", SCENES)
def test_each_verdict_has_one_record_and_it_says_the_verdict(name: str) -> None:
    verdict, record = audited(SCENES[name]())
    said = record["verdict"]
    assert (said["allow"], said["code"], said["failed"]) == (verdict.allow, verdict.code, verdict.failed)
    assert (said["case"], said["executionId"]) == (verdict.case, verdict.execution_id)
    assert {check: each["state"] for check, each in said["checks"].items()} == {
        check: each.state for check, each in verdict.checks.items()
    }
    assert record["arguments"]["digest"] == verdict.call_digest
    assert {"tool", "session", "rules", "preaction", "at", "rounds"} <= record.keys()
    assert BODY not in json.dumps(record)


def test_of_the_arguments_there_are_the_id_and_shapes_alone() -> None:
    args = reply(body=SECRET, **{SECRET: [1, 2, {SECRET: 0.5}], "n": None, "b": True, "s": "a\nb", "empty": []})
    _, record = audited((*SCENES["allowed"]()[:3], args))
    assert record["arguments"]["view"] == {"ticketId": TICKET}
    assert record["arguments"]["leftOut"] == {
        "body": "text",
        "?1": ["integer", {"?1": "number"}],
        "?2": None,
        "?3": "boolean",
        "?4": "text with control characters",
        "?5": [],
    }
    assert record["verdict"]["checks"]["fields"]["saw"] == {"set": ["body", "ticketId", "and 5 of other names"]}
    assert record["verdict"]["reason"] == (
        'Denied, nothing was done: this tool may not set the field "…"; leave it out and call again.'
    )
    assert SECRET not in json.dumps(record)


OPEN = helpdesk(
    rule={"fields": ["ticketId", "body", "to", "subject", "open.*"], "recipients_at": ["acme.example"]},
    refuse_fields=["bcc"],
)
decided(*OPEN)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.just(SECRET),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just(SECRET) | st.just("body"), inner, max_size=2),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["body", "to", "subject", SECRET, f"x{SECRET}"]), json_values, max_size=4))
def test_nothing_of_what_is_left_out_gets_into_a_record(args: dict[str, Any]) -> None:
    gate, authority = OPEN
    _, record = audited((gate, authority, REPLY, {"ticketId": TICKET, **args}))
    assert SECRET not in json.dumps(record)


def test_of_recipients_there_are_the_domains_that_name_the_case() -> None:
    scene = company()
    decided(*scene, "acme.example")
    for to in ("mallory@acme.example", ["mallory@acme.example", "Mallory <mallory@acme.example>"]):
        _, record = audited((*scene, MAIL, mail(to=to, subject="for mallory")))
        assert "mallory" not in json.dumps(record).casefold()
    _, record = audited((*scene, MAIL, mail(to="mallory@mail.other.example")))
    assert record["rounds"][0][0]["ask"]["names"] == ["mail.other.example", "other.example"]


def test_what_names_the_case_is_kept_as_an_id_and_not_as_prose() -> None:
    for text in (f"{SECRET} " * 30, f"{SECRET}\nand more"):
        _, record = audited((*SCENES["allowed"]()[:3], reply(ticketId=text)))
        assert record["verdict"]["code"] == "case_not_decided"
        assert record["arguments"]["view"] == {}
        assert SECRET.casefold() not in json.dumps(record)
    _, record = audited((*SCENES["allowed"]()[:3], reply(ticketId={"a": SECRET})))
    assert SECRET not in json.dumps(record)


def test_a_value_that_the_rule_fixes_is_kept_only_where_it_is_that_value() -> None:
    for given_, view in (("no", {"public": "no"}), (SECRET, {})):
        scene = helpdesk(rule={"fixed": {"public": "no"}})
        decided(*scene)
        _, record = audited((*scene, REPLY, reply(public=given_)))
        assert {**record["arguments"]["view"], "ticketId": None} == {**view, "ticketId": None}
        assert SECRET not in json.dumps(record)


def test_fields_that_are_listed_are_kept_whatever_their_capitals() -> None:
    scene = company()
    decided(*scene, "acme.example")
    _, record = audited((*scene, MAIL, mail(To="orders@acme.example")), keep=["to"])
    assert record["verdict"]["code"] == "field_repeated"
    assert record["arguments"] is None
    args = mail()
    args["TO"] = args.pop("to")
    _, record = audited((*scene, MAIL, args), keep=["to"])
    assert record["arguments"]["view"] == {"TO": "orders@acme.example"}


def test_whole_arguments_are_kept_with_what_the_reason_quotes() -> None:
    args = reply(note=SECRET)
    verdict, record = audited((*SCENES["allowed"]()[:3], args), arguments="whole")
    assert record["arguments"]["view"] == args
    assert record["arguments"]["leftOut"] == {}
    assert record["verdict"]["reason"] == verdict.reason


def test_a_tool_that_no_rule_names_is_quoted_short() -> None:
    gate, authority = helpdesk(unlisted="deny")
    _, record = audited((gate, authority, f"tool\x1b[2J {'x' * 200}", {"a": SECRET}))
    assert record["tool"].isascii()
    assert len(record["tool"]) <= 80
    assert (record["arguments"], record["rules"]["rule"]) == (None, None)
    assert SECRET not in json.dumps(record)


def test_the_digest_of_rules_and_session_tell_them_apart() -> None:
    _, one = audited(SCENES["allowed"]())
    _, same = audited(SCENES["allowed"]())
    _, other = audited(SCENES["allowed once"]())
    assert (one["rules"]["digest"], one["session"]) == (same["rules"]["digest"], same["session"])
    assert one["rules"]["digest"] != other["rules"]["digest"]
    assert SESSION not in json.dumps(one)


def test_the_record_is_the_same_from_an_event_loop() -> None:
    written: list[dict[str, Any]] = []
    gate, authority = helpdesk(audit=written.append)
    decided(gate, authority)
    gate.check(SESSION, REPLY, reply())
    asyncio.run(gate.acheck(SESSION, REPLY, reply()))
    one, other = ({**record, "id": ""} for record in written)
    assert one == other
    assert written[0]["id"] != written[1]["id"]


# ---------------------------------------------------------------- no record, no act


def full(record: dict[str, Any]) -> None:
    raise OSError(28, f"no space for {SECRET}")


async def later(record: dict[str, Any]) -> None:
    raise AssertionError("never awaited")


@pytest.mark.parametrize("sink", [full, lambda record: later(record)])
def test_g40_an_allowed_call_that_cannot_be_recorded_is_denied(
    sink: Callable[[dict[str, Any]], object], caplog: pytest.LogCaptureFixture
) -> None:
    gate, authority = helpdesk(audit=AuditTrail(sink))
    decided(gate, authority)
    verdict = gate.check(SESSION, REPLY, reply())
    assert (verdict.allow, verdict.code) == (False, "gate_error")
    assert asyncio.run(gate.acheck(SESSION, REPLY, reply())).code == "gate_error"
    assert SECRET not in caplog.text


def test_a_denial_stays_the_denial_that_it_was() -> None:
    gate, _ = helpdesk(audit=full)
    assert gate.check(SESSION, REPLY, reply()).code == "case_not_decided"


def test_a_record_that_need_not_be_kept_is_lost_in_the_open(caplog: pytest.LogCaptureFixture) -> None:
    gate, authority = helpdesk(audit=AuditTrail(full, required=False))
    decided(gate, authority)
    with caplog.at_level(logging.ERROR, "preaction"):
        assert gate.check(SESSION, REPLY, reply()).allow
    assert caplog.messages == ["a record of the gate's audit is lost: OSError"]


def test_the_record_has_the_verdict_that_stands() -> None:
    written: list[dict[str, Any]] = []

    def fails(tool: str, verdict: Verdict) -> None:
        raise RuntimeError

    gate, authority = helpdesk(audit=written.append, on_verdict=fails)
    decided(gate, authority)
    assert gate.check(SESSION, REPLY, reply()).code == "gate_error"
    assert [record["verdict"]["code"] for record in written] == ["gate_error"]


def test_a_preview_and_a_tool_that_is_not_gated_have_no_record() -> None:
    gate, authority = helpdesk(audit=full)
    decided(gate, authority)
    assert gate.preview(SESSION, REPLY, reply()).allow
    assert gate.check(SESSION, "other", {}).code == "not_gated"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: AuditTrail(later), "not a coroutine function"),
        (lambda: AuditTrail("trail.jsonl"), "a plain function"),  # type: ignore[arg-type]
        (lambda: AuditTrail(full, keep="to"), "audit: keep: "),
        (lambda: AuditTrail(full, arguments="all"), "'redacted' or 'whole'"),  # type: ignore[arg-type]
        (lambda: helpdesk(audit="trail.jsonl"), "an AuditTrail is needed"),
        (lambda: helpdesk(audit=later), "not a coroutine function"),
    ],
)
def test_an_audit_that_cannot_be_is_refused_at_creation(make: Callable[[], object], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make()


def test_records_in_a_chained_file_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "trail.jsonl"
    gate: ActionGate
    gate, authority = helpdesk(audit=JsonlAudit(path, durable=False))
    decided(gate, authority)
    gate.check(SESSION, REPLY, reply())
    gate.check(SESSION, REPLY, reply(ticketId="HC-1"))
    assert [record.verdict.code for record in records(path)] == ["allowed", "case_not_decided"]


def test_what_the_log_says_of_itself_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "trail.jsonl"
    gate, _ = helpdesk(audit=JsonlAudit(path, durable=False, max_bytes=100, keep=1))
    for _ in range(3):
        gate.check(SESSION, REPLY, reply())
    assert path.read_bytes().count(b"\n") == 2
    assert len([*records(path)]) == 2, "the newest and the one part that was kept, without the note of what went"


def test_a_copy_that_was_never_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", none)
    assert version.__wrapped__() == "unknown"
