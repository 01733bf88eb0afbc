"""Old decisions lose their content; the chain, a case's state and what was altered stay."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from authority.asking import REPLY, evidence, refusal
from authority.conftest import Clock, Place
from authority.packs import HELPDESK
from authority.whole import ids_in_a_whole_chain
from preaction.authority import LocalAuthority
from preaction.authority.ledger import retention
from preaction.authority.ledger.retention import Removed, retain
from preaction.authority.storage.storage import ANSWERS, EXECUTIONS, REMOVED
from preaction.authority.storage.tables import METADATA, VERDICTS
from preaction.cli.app import app

REPORT = {
    "job": "triage-ticket",
    "tool": "send_reply",
    "code": "allowed",
    "allow": True,
    "enforced": True,
    "reason": "all holds",
    "callDigest": "sha-256:" + "0" * 64,
}


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def authority(opened: Callable[..., LocalAuthority]) -> LocalAuthority:
    return opened(HELPDESK)


def decided(authority: LocalAuthority, entity_id: str, **more: Any) -> str:
    return str(authority.decide("triage-ticket", entity_id=entity_id, evidence=evidence(), **more)["executionId"])


def undecided(authority: LocalAuthority, entity_id: str) -> str:
    return str(authority.decide("triage-ticket", entity_id=entity_id)["executionId"])


def left(authority: LocalAuthority) -> list[str]:
    with authority._storage.reading() as connection:
        return list(connection.execute(sa.select(EXECUTIONS.c.id).order_by(EXECUTIONS.c.number)).scalars())


def everything(authority: LocalAuthority) -> dict[str, list[Any]]:
    with authority._storage.reading() as connection:
        tables = METADATA.sorted_tables
        return {table.name: sorted(connection.execute(sa.select(table)).all(), key=repr) for table in tables}


def older_than(authority: LocalAuthority, clock: Clock, moment: datetime, *, whole_cases: bool = False) -> Removed:
    return retain(authority._storage, moment, clock(), whole_cases=whole_cases)


def test_superseded_decisions_go_and_a_cases_state_stays(authority: LocalAuthority, clock: Clock) -> None:
    first, second = decided(authority, "HC-1"), decided(authority, "HC-1")
    check = authority.check_output(first, output="billing-team-reply", content=REPLY)["checkId"]
    standing = authority.check_output(second, output="billing-team-reply", content=REPLY)["checkId"]
    alone = decided(authority, "HC-2")
    clock.forward(days=1)
    decided(authority, "HC-3")
    assert older_than(authority, clock, clock()) == Removed(executions=1, output_checks=1)
    assert first not in left(authority)
    assert refusal(authority.verify, first)[0] == refusal(authority.verify_output_check, check)[0] == 404
    assert authority.verify(second)["valid"]
    assert authority.verify_output_check(standing)["valid"]
    assert authority.verify(alone)["valid"]
    ids_in_a_whole_chain(authority._storage)


def test_what_the_next_decision_is_compared_with_stays(authority: LocalAuthority, clock: Clock) -> None:
    first = undecided(authority, "HC-1")
    compared = decided(authority, "HC-1")
    between, newest = undecided(authority, "HC-1"), undecided(authority, "HC-1")
    clock.forward(days=1)
    assert older_than(authority, clock, clock()).executions == 2
    assert left(authority) == [compared, newest]
    assert {first, between}.isdisjoint(left(authority))
    other = authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence(amount=1.5))
    assert other["problems"] == ["evidence_changed"]


@pytest.mark.parametrize(("seconds", "gone"), [(0, 0), (1, 1)])
def test_older_means_older(authority: LocalAuthority, clock: Clock, seconds: int, gone: int) -> None:
    moment = clock()
    decided(authority, "HC-1")
    clock.forward(seconds=1)
    decided(authority, "HC-1")
    clock.now = moment
    clock.forward(seconds=seconds)
    assert older_than(authority, clock, clock()).executions == gone


def test_whole_cases_go_when_all_of_them_is_old(authority: LocalAuthority, clock: Clock) -> None:
    old = [decided(authority, "HC-1"), decided(authority, "HC-1"), decided(authority, "HC-2")]
    half = decided(authority, "HC-3")
    clock.forward(days=1)
    limit = clock()
    new = undecided(authority, "HC-3")
    assert older_than(authority, clock, limit, whole_cases=True).executions == 3
    assert left(authority) == [half, new]
    assert all(refusal(authority.verify, each)[0] == 404 for each in old)
    assert authority.verify(half)["problems"] == ["superseded"]
    ids_in_a_whole_chain(authority._storage)


def test_the_chain_goes_on_where_its_last_was_removed(authority: LocalAuthority, clock: Clock) -> None:
    for _ in range(3):
        decided(authority, "HC-1")
    clock.forward(days=1)
    older_than(authority, clock, clock(), whole_cases=True)
    assert left(authority) == []
    decided(authority, "HC-2")
    clock.forward(days=1)
    older_than(authority, clock, clock(), whole_cases=True)
    decided(authority, "HC-2")
    ids_in_a_whole_chain(authority._storage)
    with authority._storage.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(REMOVED)).scalar_one() == 4


def test_altered_rows_are_evidence_and_stay(authority: LocalAuthority, clock: Clock) -> None:
    first = decided(authority, "HC-1")
    decided(authority, "HC-1")
    with authority._storage.writing() as connection:
        connection.execute(EXECUTIONS.update().where(EXECUTIONS.c.id == first).values(outcome="refund-review"))
    clock.forward(days=1)
    assert older_than(authority, clock, clock()) == Removed(altered=1)
    assert authority.verify(first)["problems"] == ["record_altered"]


def test_more_than_a_batch_goes(authority: LocalAuthority, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_BATCH", 3)
    for _ in range(7):
        decided(authority, "HC-1")
    clock.forward(days=1)
    assert older_than(authority, clock, clock()).executions == 6
    ids_in_a_whole_chain(authority._storage)


def test_first_answers_and_reported_verdicts_go_by_age(authority: LocalAuthority, clock: Clock) -> None:
    for key in ("old", "new"):
        decided(authority, "HC-1", idempotency_key=key)
        authority.report_verdict({**REPORT, "at": clock.text()})
        clock.forward(days=1)
    removed = older_than(authority, clock, datetime.fromisoformat(clock.text(days=-1)))
    assert (removed.answers, removed.verdicts) == (1, 1)
    with authority._storage.reading() as connection:
        assert [len(connection.execute(sa.select(table)).all()) for table in (ANSWERS, VERDICTS)] == [1, 1]


@pytest.mark.parametrize("kind", ["sqlite"])
def test_nothing_of_a_removed_record_is_left_in_the_file(
    authority: LocalAuthority, clock: Clock, tmp_path: Path
) -> None:
    decided(authority, "HC-WORD-THAT-GOES")
    clock.forward(days=1)
    decided(authority, "HC-2")
    older_than(authority, clock, clock(), whole_cases=True)
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("decisions.db*"))
    assert b"HC-2" in kept
    assert b"HC-WORD-THAT-GOES" not in kept


# ---------------------------------------------------------------- the command


def command(*arguments: str, place: Place) -> Any:
    named = {"PREACTION_DB": str(place.url), "PREACTION_SIGNING_KEY": str(place.key)}
    return CliRunner().invoke(app, ["retain", *arguments], env=named)


@pytest.mark.parametrize("whole_cases", [False, True])
def test_a_dry_run_says_what_the_next_run_removes_and_removes_nothing(
    authority: LocalAuthority, clock: Clock, monkeypatch: pytest.MonkeyPatch, *, whole_cases: bool
) -> None:
    monkeypatch.setattr(retention, "_BATCH", 2)
    for case in ("HC-1", "HC-2"):
        for number in range(3):
            made = decided(authority, case, idempotency_key=f"{case}-{number}")
            authority.check_output(made, output="billing-team-reply", content=REPLY)
    authority.report_verdict({**REPORT, "at": clock.text()})
    with authority._storage.writing() as connection:
        connection.execute(EXECUTIONS.update().where(EXECUTIONS.c.number == 2).values(outcome="refund-review"))
    clock.forward(days=1)
    before = everything(authority)
    told = retain(authority._storage, clock(), clock(), whole_cases=whole_cases, dry_run=True)
    assert everything(authority) == before
    assert told == older_than(authority, clock, clock(), whole_cases=whole_cases)
    gone = 5 if whole_cases else 3
    assert told == Removed(executions=gone, output_checks=gone, answers=6, verdicts=1, altered=1)


def test_the_command_says_what_went(authority: LocalAuthority, clock: Clock, place: Place) -> None:
    clock.now = datetime(2020, 1, 1, tzinfo=UTC)
    decided(authority, "HC-1")
    decided(authority, "HC-1")
    done = command("--older-than", "PT1S", place=place)
    said = json.loads(done.stdout)
    assert said.pop("before").endswith("Z")
    assert said == {"dry_run": False, "executions": 1, "output_checks": 0, "answers": 0, "verdicts": 0, "altered": 0}
    assert json.loads(command("--older-than", "P99999D", "--whole-cases", place=place).stdout)["executions"] == 0


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    place = Place(f"sqlite:///{tmp_path / 'none.db'}", tmp_path / "none.db-key")
    done = command("--older-than", "P1D", place=place)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", "preaction: there is no such database\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("age", ["400", "P", "P0D", "-P4D", "P1Y", ""])
def test_an_age_that_is_none_removes_nothing(authority: LocalAuthority, clock: Clock, place: Place, age: str) -> None:
    clock.now = datetime(2020, 1, 1, tzinfo=UTC)
    decided(authority, "HC-1")
    decided(authority, "HC-1")
    done = command("--older-than", age, place=place)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "P400D" in done.stderr
    assert len(left(authority)) == 2
