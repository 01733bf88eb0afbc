"""A receipt stands as long as nothing of it was altered, and a replay says the same."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from joserfc import jws
from joserfc.jwk import KeySet

from authority.asking import REPLY, evidence, refusal
from authority.conftest import Clock
from authority.packs import HELPDESK
from preaction.authority import LocalAuthority
from preaction.authority.ledger import executions
from preaction.authority.packs.decide import decide
from preaction.authority.storage.storage import ANSWERS, CHECKS, EXECUTIONS, KEYS, RELEASES, Storage
from preaction.wire.digest import canonical, digest


@pytest.fixture(params=["memory", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def storage_of(authority: LocalAuthority) -> Storage:
    return authority._storage


def run(authority: LocalAuthority, statement: Any) -> Any:
    with storage_of(authority).writing() as connection:
        return connection.execute(statement)


def problems(authority: LocalAuthority, execution_id: str) -> list[str]:
    answer = authority.verify(execution_id)
    assert answer["valid"] is (answer["problems"] == [])
    assert ("replay" in answer) is (answer["problems"] != ["record_altered"])
    found: list[str] = answer["problems"]
    return found


def test_a_good_receipt_replays_to_the_same_decision(
    helpdesk: LocalAuthority, billing: dict[str, Any], clock: Clock
) -> None:
    clock.forward(minutes=5)
    assert helpdesk.verify(billing["executionId"]) == {
        "valid": True,
        "problems": [],
        "executionId": billing["executionId"],
        "verifiedAt": "2026-11-30T09:05:00Z",
        "replay": {
            "job": "triage-ticket",
            "release": "2026-11-03.1",
            "case": {"id": "HC-1201", "identity": "provided"},
            "entity_id": "HC-1201",
            "status": "decided",
            "outcome": "billing-question",
            "escalation": None,
            "decidedAt": "2026-11-30T09:00:00Z",
            "evidenceFreshUntil": "2026-11-30T10:00:00Z",
        },
    }


def test_an_undecided_receipt_replays_with_its_escalation(helpdesk: LocalAuthority) -> None:
    decision = helpdesk.decide("triage-ticket", entity_id="HC-1")
    answer = helpdesk.verify(decision["executionId"])
    assert answer["valid"]
    assert (answer["replay"]["status"], answer["replay"]["outcome"]) == ("undecided", None)
    assert answer["replay"]["escalation"]["id"] == "triage-desk"


def test_time_alone_breaks_no_receipt(helpdesk: LocalAuthority, billing: dict[str, Any], clock: Clock) -> None:
    clock.forward(days=30)
    assert problems(helpdesk, billing["executionId"]) == []


def test_a_receipt_is_a_signature_over_the_canonical_record(helpdesk: LocalAuthority, billing: dict[str, Any]) -> None:
    jwks: Any = storage_of(helpdesk).jwks()
    keys = KeySet.import_key_set(jwks)
    opened = jws.deserialize_compact(billing["receipt"], keys, algorithms=["Ed25519"])
    assert opened.headers()["typ"] == "preaction-receipt+jws"
    record = json.loads(opened.payload or b"")
    assert canonical(record) == opened.payload
    assert record["executionId"] == billing["executionId"]
    assert record["request"]["evidence"]["topic"] == {
        "value": "billing",
        "source": "human",
        "observedAt": "2026-11-30T09:00:00Z",
    }


def altered(value: object) -> list[object]:
    if isinstance(value, int):
        return [value + 1, -value - 1]
    if isinstance(value, str):
        others = ["", value + "x", value + "é", value[:-1] + ("a" if value[-1:] != "a" else "b")]
        return [other for other in others if other != value]
    return ["2026-11-30T09:00:00Z"]


@pytest.mark.parametrize("column", [column.name for column in EXECUTIONS.columns])
def test_an_execution_with_any_column_altered_is_not_valid(
    helpdesk: LocalAuthority, billing: dict[str, Any], column: str
) -> None:
    execution_id = billing["executionId"]
    row = run(helpdesk, sa.select(EXECUTIONS)).one()._asdict()
    for value in altered(row[column]):
        run(helpdesk, EXECUTIONS.update().values({column: value}))
        if column == "id":
            assert refusal(helpdesk.verify, execution_id)[0] == 404
            execution_id = str(value)
        assert problems(helpdesk, execution_id) == ["record_altered"]
        assert refusal(helpdesk.check_output, execution_id, output="billing-team-reply", content=REPLY)[0] == 409
        assert refusal(helpdesk.revoke, execution_id)[0] == 409
        run(helpdesk, EXECUTIONS.update().values(row))
        execution_id = billing["executionId"]
        assert problems(helpdesk, execution_id) == []


@pytest.mark.parametrize("column", [column.name for column in RELEASES.columns])
def test_an_execution_whose_release_was_altered_is_not_valid(
    helpdesk: LocalAuthority, billing: dict[str, Any], column: str
) -> None:
    row = run(helpdesk, sa.select(RELEASES)).one()._asdict()
    for value in altered(row[column]):
        run(helpdesk, RELEASES.update().values({column: value}))
        assert problems(helpdesk, billing["executionId"]) == ["record_altered"]
        assert refusal(helpdesk.decide, "triage-ticket", entity_id="HC-1")[0] in (404, 503)
        content = {"output": "billing-team-reply", "content": REPLY}
        assert refusal(helpdesk.check_output, billing["executionId"], **content)[0] == 409
        run(helpdesk, RELEASES.update().values(row))
    assert problems(helpdesk, billing["executionId"]) == []


@pytest.mark.parametrize("column", [column.name for column in CHECKS.columns])
def test_an_output_check_with_any_column_altered_does_not_stand(
    helpdesk: LocalAuthority, billing: dict[str, Any], column: str
) -> None:
    check = helpdesk.check_output(billing["executionId"], output="billing-team-reply", content=REPLY)
    row = run(helpdesk, sa.select(CHECKS)).one()._asdict()
    for value in altered(row[column]):
        run(helpdesk, CHECKS.update().values({column: value}))
        check_id = str(value) if column == "id" else check["checkId"]
        answer = helpdesk.verify_output_check(check_id)
        assert (answer["valid"], answer["passed"]) == (False, False)
        run(helpdesk, CHECKS.update().values(row))
    assert helpdesk.verify_output_check(check["checkId"])["valid"]


def test_a_row_copied_over_another_shows(helpdesk: LocalAuthority, billing: dict[str, Any]) -> None:
    other = helpdesk.decide("triage-ticket", entity_id="HC-2", evidence=evidence(amount=500))
    good = run(helpdesk, sa.select(EXECUTIONS).where(EXECUTIONS.c.id == billing["executionId"])).one()._asdict()
    copied = {**good, "id": other["executionId"], "number": 2}
    run(helpdesk, EXECUTIONS.update().where(EXECUTIONS.c.id == other["executionId"]).values(copied))
    assert problems(helpdesk, other["executionId"]) == ["record_altered"]


def test_an_altered_key_is_no_key(opened: Callable[..., LocalAuthority], clock: Clock) -> None:
    authority = opened()
    keyring = authority._keyring
    key = keyring.create("agent", "helpdesk", ["triage-ticket"], clock())
    row = run(authority, sa.select(KEYS)).one()._asdict()
    assert keyring.caller(key) is not None
    for column in KEYS.columns:
        for value in altered(row[column.name]):
            run(authority, KEYS.update().values({column.name: value}))
            assert keyring.caller(key) is None, column.name
            run(authority, KEYS.update().values(row))
    assert keyring.caller(key) is not None


def test_an_altered_first_answer_is_not_given_again(helpdesk: LocalAuthority) -> None:
    def ask() -> dict[str, Any]:
        return helpdesk.decide("triage-ticket", entity_id="HC-1", idempotency_key="a")

    first = ask()
    row = run(helpdesk, sa.select(ANSWERS)).one()._asdict()
    for column in ("request", "answer", "created_at", "seal"):
        for value in altered(row[column]):
            run(helpdesk, ANSWERS.update().values({column: value}))
            assert refusal(ask)[0] == 409
            run(helpdesk, ANSWERS.update().values(row))
    assert ask() == first


def test_a_replay_that_differs_is_told(
    helpdesk: LocalAuthority, billing: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def otherwise(job: Any, request: Any, now: Any, before: Any) -> Any:
        return honest(job, {**request, "evidence": {}}, now, before)

    honest = decide
    monkeypatch.setattr(executions, "decide", otherwise)
    answer = helpdesk.verify(billing["executionId"])
    assert (answer["valid"], answer["problems"]) == (False, ["replay_differs"])
    assert (answer["replay"]["status"], answer["replay"]["outcome"]) == ("undecided", None)


def test_a_revoked_receipt_is_not_valid_and_takes_no_more_texts(
    helpdesk: LocalAuthority, billing: dict[str, Any]
) -> None:
    execution_id = billing["executionId"]
    check = helpdesk.check_output(execution_id, output="billing-team-reply", content=REPLY)
    assert helpdesk.revoke(execution_id)["revoked"] is True
    assert helpdesk.revoke(execution_id)["revoked"] is True
    assert problems(helpdesk, execution_id) == ["revoked"]
    assert refusal(helpdesk.check_output, execution_id, output="billing-team-reply", content=REPLY)[0] == 409
    assert helpdesk.verify_output_check(check["checkId"])["valid"] is False


def test_a_later_decision_on_the_case_supersedes(helpdesk: LocalAuthority, billing: dict[str, Any]) -> None:
    helpdesk.decide("triage-ticket", entity_id="HC-1202", evidence=evidence())
    assert problems(helpdesk, billing["executionId"]) == []
    later = helpdesk.decide("triage-ticket", entity_id="HC-1201")
    assert problems(helpdesk, billing["executionId"]) == ["superseded"]
    assert problems(helpdesk, later["executionId"]) == []
    helpdesk.revoke(billing["executionId"])
    assert problems(helpdesk, billing["executionId"]) == ["revoked", "superseded"]


def test_a_replay_uses_the_pinned_release(helpdesk: LocalAuthority, billing: dict[str, Any]) -> None:
    newer = HELPDESK.replace("2026-11-03.1", "2026-11-04.1").replace("100.0", "10.0")
    assert helpdesk.publish(newer)["release"] == "2026-11-04.1"
    assert helpdesk.list_jobs()[0]["release"] == "2026-11-04.1"
    answer = helpdesk.verify(billing["executionId"], {"description": True})
    assert answer["valid"]
    assert answer["replay"]["release"] == answer["description"]["release"] == "2026-11-03.1"
    again = helpdesk.decide("triage-ticket", entity_id="HC-1", evidence=evidence())
    assert (again["release"], again["outcome"]["id"]) == ("2026-11-04.1", "refund-review")


def test_everything_comes_in_one_answer(helpdesk: LocalAuthority, billing: dict[str, Any]) -> None:
    execution_id = billing["executionId"]
    checks = [
        helpdesk.check_output(execution_id, output="billing-team-reply", content={"body": body})["checkId"]
        for body in ("The billing team", "We guarantee it")
    ]
    answer = helpdesk.verify(execution_id, {"description": True, "outputChecks": [*checks, "chk_none", "\U0001f600"]})
    assert answer["description"] == helpdesk.describe_job("triage-ticket", billing["release"])
    assert answer["outputChecks"] == {each: helpdesk.verify_output_check(each) for each in checks}
    assert [answer["outputChecks"][each]["passed"] for each in checks] == [True, False]


def test_parts_that_were_not_asked_for_are_absent(helpdesk: LocalAuthority, billing: dict[str, Any]) -> None:
    assert set(helpdesk.verify(billing["executionId"], {})) == {
        "valid",
        "problems",
        "executionId",
        "verifiedAt",
        "replay",
    }


@pytest.mark.parametrize(
    ("include", "pointer"),
    [
        ({"outputChecks": ["a", "b", "c", "d", "e"]}, "/include/outputChecks"),
        ({"outputChecks": "a"}, "/include/outputChecks"),
        ({"outputChecks": [1]}, "/include/outputChecks/0"),
        ({"description": "yes"}, "/include/description"),
        ({"everything": True}, "/include/everything"),
        (5, "/include"),
    ],
)
def test_an_include_that_asks_too_much_is_refused(
    helpdesk: LocalAuthority, billing: dict[str, Any], include: Any, pointer: str
) -> None:
    status, errors = refusal(helpdesk.verify, billing["executionId"], include)
    assert (status, list(errors)) == (422, [pointer])


def test_an_unknown_execution_is_not_found(helpdesk: LocalAuthority) -> None:
    for unknown in ("exe_none", "", "..", "\ud800", "x" * 10_000):
        assert refusal(helpdesk.verify, unknown)[0] == 404
        assert refusal(helpdesk.verify_output_check, unknown)[0] == 404


def test_a_description_says_what_the_release_allows(helpdesk: LocalAuthority) -> None:
    described = helpdesk.describe_job("triage-ticket")
    assert described["subject"] == {"kind": "ticket", "identity": "provided", "match": "exact"}
    assert described["facts"]["topic"] == {"type": "string", "enum": ["billing", "outage", "other"]}
    assert described["outcomes"][1] == {
        "id": "refund-review",
        "title": "Refund review",
        "nextStep": "Hand the ticket to the refunds lead. Don't reply.",
        "outputs": [],
        "escalation": "refunds-lead",
    }
    assert described["outputs"][0]["rules"][2] == "body has at most 1200 characters"
    assert described["whenUnresolved"]["escalation"] == "triage-desk"
    assert {each["id"] for each in described["escalations"]} == {"refunds-lead", "triage-desk"}
    assert refusal(helpdesk.describe_job, "triage-ticket", "2025")[0] == 404
    assert refusal(helpdesk.describe_job, "other")[0] == 404


def test_an_answer_is_the_callers_own(helpdesk: LocalAuthority) -> None:
    described = helpdesk.describe_job("triage-ticket")
    described["outcomes"].clear()
    assert helpdesk.describe_job("triage-ticket")["outcomes"]


# ---------------------------------------------------------------- output checks


def test_a_text_that_follows_the_rules_passes(helpdesk: LocalAuthority, billing: dict[str, Any]) -> None:
    check = helpdesk.check_output(billing["executionId"], output="billing-team-reply", content=REPLY)
    assert check.pop("checkId").startswith("chk_01")
    assert check == {
        "executionId": billing["executionId"],
        "output": "billing-team-reply",
        "release": "2026-11-03.1",
        "passed": True,
        "findings": [],
        "contentDigest": digest(REPLY),
        "checkedAt": "2026-11-30T09:00:00Z",
    }


def test_findings_say_rule_field_and_place(helpdesk: LocalAuthority, billing: dict[str, Any]) -> None:
    body = "😀 we guarantee it.\nThe billing team"
    check = helpdesk.check_output(billing["executionId"], output="billing-team-reply", content={"body": body})
    assert check["passed"] is False
    finding = check["findings"][0]
    assert (finding["rule"], finding["field"], finding["span"]) == ("no-promises", "body", [5, 14])
    assert body[5:14] == "guarantee"


@pytest.mark.parametrize("amount", [500, None])
def test_an_output_that_the_outcome_does_not_list_fails(helpdesk: LocalAuthority, amount: float | None) -> None:
    given = evidence(amount=amount) if amount else None
    decision = helpdesk.decide("triage-ticket", entity_id="HC-1", evidence=given)
    check = helpdesk.check_output(decision["executionId"], output="billing-team-reply", content=REPLY)
    assert check["passed"] is False
    finding = check["findings"][0]
    assert (finding["rule"], finding["field"], finding["span"]) == ("output_not_allowed", None, None)


@pytest.mark.parametrize(
    ("content", "pointers"),
    [
        ({}, ["/content/body"]),
        ({"body": "x", "head": "y"}, ["/content/head"]),
        ({"head": "y"}, ["/content/head", "/content/body"]),
        ({"body": 5}, ["/content/body"]),
        ({"body": None}, ["/content/body"]),
        ([], ["/content"]),
    ],
)
def test_content_has_exactly_the_fields_of_the_output_as_texts(
    helpdesk: LocalAuthority, billing: dict[str, Any], content: Any, pointers: list[str]
) -> None:
    ask = helpdesk.check_output
    status, errors = refusal(ask, billing["executionId"], output="billing-team-reply", content=content)
    assert (status, list(errors)) == (422, pointers)


def test_an_unknown_output_or_execution_is_not_found(helpdesk: LocalAuthority, billing: dict[str, Any]) -> None:
    assert refusal(helpdesk.check_output, billing["executionId"], output="memo", content=REPLY)[0] == 404
    assert refusal(helpdesk.check_output, "exe_1", output="billing-team-reply", content=REPLY)[0] == 404


# ---------------------------------------------------------------- the same request twice


def test_a_repeated_request_gets_its_first_answer(helpdesk: LocalAuthority, clock: Clock) -> None:
    def ask(key: str | None = "k-1") -> dict[str, Any]:
        return helpdesk.decide("triage-ticket", entity_id="HC-1", evidence=evidence(), idempotency_key=key)

    first = ask()
    clock.forward(minutes=10)
    helpdesk.publish(HELPDESK.replace("2026-11-03.1", "2026-11-05"))
    assert ask() == first
    assert ask("k-2")["executionId"] != first["executionId"]
    assert ask(None)["executionId"] != first["executionId"]


def test_a_repeated_check_gets_its_first_answer_even_when_it_could_not_be_made_now(
    helpdesk: LocalAuthority, billing: dict[str, Any]
) -> None:
    def ask(body: str = "The billing team") -> dict[str, Any]:
        content = {"body": body}
        execution_id = billing["executionId"]
        return helpdesk.check_output(execution_id, output="billing-team-reply", content=content, idempotency_key="k")

    first = ask()
    helpdesk.revoke(billing["executionId"])
    assert ask() == first
    assert refusal(ask, "other")[0] == 422


def test_one_key_for_two_bodies_is_refused(helpdesk: LocalAuthority) -> None:
    helpdesk.decide("triage-ticket", entity_id="HC-1", idempotency_key="k")
    assert refusal(helpdesk.decide, "triage-ticket", entity_id="HC-2", idempotency_key="k")[0] == 422


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "\ud800", "x" * 201, "a\n"])
def test_an_idempotency_key_is_visible_ascii(helpdesk: LocalAuthority, key: str) -> None:
    assert refusal(helpdesk.decide, "triage-ticket", entity_id="HC-1", idempotency_key=key)[0] == 422


def test_a_refused_request_keeps_no_answer(helpdesk: LocalAuthority) -> None:
    bad = {"mood": {"value": 1, "source": "x"}}
    for _ in range(2):
        ask = helpdesk.decide
        assert refusal(ask, "triage-ticket", entity_id="HC-1", evidence=bad, idempotency_key="k")[0] == 422
    assert helpdesk.decide("triage-ticket", entity_id="HC-1", idempotency_key="k")["status"] == "undecided"


def test_a_file_of_another_kind_is_no_pack(tmp_path: Path) -> None:
    (tmp_path / "pack.yaml").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "pack.yaml", str(tmp_path / "none.yaml"), tmp_path):
        with pytest.raises(ValueError, match=r"pack\.yaml|none\.yaml|can't be read"):
            LocalAuthority.from_pack(path)
