"""A database of an earlier version is brought to the newest in one go, keeps what it holds, and launders nothing."""

import shutil
import sqlite3
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from authority.asking import evidence
from authority.conftest import Clock
from authority.packs import HELPDESK
from authority.tampering import found, run
from preaction.authority import LocalAuthority
from preaction.authority.ledger.rotation import rotate
from preaction.authority.storage import upgrades
from preaction.authority.storage.storage import CHECKS, EXECUTIONS, Storage
from preaction.errors import ConfigurationError

OLD = Path(__file__).parent / "old"
"""Files that servers of those versions wrote, each with its signing key."""

VERSIONS = sorted(file.stem for file in OLD.glob("*.sqlite"))


@pytest.fixture(params=VERSIONS)
def old(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of an old database: five decisions, the fourth revoked; a text checked; a first answer kept."""
    for file in OLD.glob(f"{request.param}.sqlite*"):
        shutil.copy(file, tmp_path / file.name)
    return tmp_path / f"{request.param}.sqlite"


def executions(authority: LocalAuthority) -> list[dict[str, Any]]:
    with authority._storage.reading() as connection:
        return [dict(row) for row in connection.execute(sa.select(EXECUTIONS).order_by("number")).mappings()]


def version(file: Path) -> int:
    with sqlite3.connect(file) as connection:
        found: int = connection.execute("SELECT version FROM schema").fetchone()[0]
    connection.close()
    return found


def shape(file: Path) -> dict[str, Any]:
    """All that a database says of its tables."""
    inspector = sa.inspect(sa.create_engine(f"sqlite:///{file}", poolclass=sa.NullPool))
    return {
        table: (
            [
                (each["name"], str(each["type"]), each["nullable"], each["default"])
                for each in inspector.get_columns(table)
            ],
            inspector.get_pk_constraint(table),
            inspector.get_indexes(table),
            inspector.get_unique_constraints(table),
            inspector.get_table_options(table),
        )
        for table in inspector.get_table_names()
    }


def test_every_earlier_version_has_a_file() -> None:
    assert [f"version{number - 1}" for number in upgrades.STEPS] == VERSIONS


def test_what_was_decided_still_holds(old: Path, opened: Callable[..., LocalAuthority]) -> None:
    authority = opened(HELPDESK, old)
    ids = [row["id"] for row in executions(authority)]
    found = [authority.verify(each)["problems"] for each in ids]
    assert found == [["superseded"], [], [], ["revoked"], []]
    with authority._storage.reading() as connection:
        check_id = connection.execute(sa.select(CHECKS.c.id)).scalar_one()
    assert authority.verify_output_check(check_id)["valid"]
    again = authority.decide(
        "triage-ticket", entity_id="HC-2", evidence=evidence(amount=250.0), idempotency_key="first"
    )
    assert again["executionId"] == ids[1]


def test_old_rows_are_chained_and_new_ones_after_them(
    old: Path, opened: Callable[..., LocalAuthority], clock: Clock
) -> None:
    clock.forward(days=1)
    authority = opened(HELPDESK, old)
    authority.decide("triage-ticket", entity_id="HC-9", evidence=evidence())
    rows = executions(authority)
    assert [row["previous"] for row in rows] == ["", *(row["digest"] for row in rows[:-1])]
    assert [row["number"] for row in rows] == [1, 2, 3, 4, 5, 6]


def test_a_database_is_upgraded_once(old: Path) -> None:
    Storage(f"sqlite:///{old}").close()
    after = old.read_bytes()
    Storage(f"sqlite:///{old}").close()
    assert old.read_bytes() == after


def test_an_upgraded_database_is_made_as_a_new_one(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    for file in (old, new):
        Storage(f"sqlite:///{file}").close()
    assert shape(old) == shape(new)
    assert version(old) == version(new) == 2


@pytest.mark.parametrize("change", ["case_key = 'HC-7'", "revoked_at = NULL", "seal = ''", "seal = 'ä'"])
def test_an_upgrade_makes_no_altered_row_good(old: Path, opened: Callable[..., LocalAuthority], change: str) -> None:
    with sqlite3.connect(old) as connection:
        connection.execute(f"UPDATE executions SET {change} WHERE number = 4")
    connection.close()
    authority = opened(HELPDESK, old)
    assert [authority.verify(row["id"])["problems"] for row in executions(authority)][2:] == [
        [],
        ["record_altered"],
        [],
    ]


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(connection: sa.Connection, signer: Any) -> None:
        step(connection, signer)
        connection.exec_driver_sql("INSERT INTO nowhere VALUES (1)")

    before = shape(old)
    step = upgrades.STEPS[2]
    monkeypatch.setattr(upgrades, "STEPS", {**upgrades.STEPS, 2: fails})
    with pytest.raises(ConfigurationError, match="can't be opened"):
        Storage(f"sqlite:///{old}")
    assert (shape(old), version(old)) == (before, 1)


def test_an_upgrade_needs_the_key_of_the_database(old: Path, opened: Callable[..., LocalAuthority]) -> None:
    other = old.with_name("other.db")
    Storage(f"sqlite:///{other}").close()
    shutil.copy(other.with_name("other.db-key"), old.with_name(f"{old.name}-key"))
    with pytest.raises(ConfigurationError, match="belongs to another"):
        opened(HELPDESK, old)
    assert version(old) == 1


def test_a_server_of_version_1_adds_nothing_to_an_upgraded_database(old: Path) -> None:
    Storage(f"sqlite:///{old}").close()
    with sqlite3.connect(old) as connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(executions)") if row[1] != "previous"]
        with pytest.raises(sqlite3.IntegrityError, match=r"executions\.previous"):
            connection.execute(f"INSERT INTO executions ({', '.join(names)}) SELECT {', '.join(names)} FROM executions")
    connection.close()


# ---------------------------------------------------------------- the chain of an upgraded database


def named(authority: LocalAuthority) -> list[tuple[str, int | None, Any]]:
    return [(kind, number, what) for kind, _, number, what in found(authority)]


def test_an_upgraded_chain_is_whole_and_goes_on(old: Path, opened: Callable[..., LocalAuthority], clock: Clock) -> None:
    authority = opened(HELPDESK, old)
    assert found(authority) == []
    clock.now = datetime.fromisoformat(executions(authority)[-1]["decided_at"])
    authority.decide("triage-ticket", entity_id="HC-9", evidence=evidence())
    authority.revoke(executions(authority)[0]["id"])
    assert found(authority) == []
    records = [authority._storage.records.open(row) or {} for row in executions(authority)]
    assert ["previous" in record for record in records] == [False] * 5 + [True]
    assert records[-1]["previous"] == executions(authority)[-2]["digest"]


@pytest.mark.parametrize("number", [1, 3, 5])
@pytest.mark.parametrize("column", ["previous", "case_key", "outcome", "record", "revoked_at", "seal"])
def test_an_altered_row_of_an_upgraded_chain(
    old: Path, opened: Callable[..., LocalAuthority], column: str, number: int
) -> None:
    authority = opened(HELPDESK, old)
    row = executions(authority)[number - 1]
    run(authority, EXECUTIONS.update().where(EXECUTIONS.c.number == number).values({column: "other"}))
    assert named(authority) == [("altered", number, row["id"])]


@pytest.mark.parametrize("gone", [[1], [2, 3], [5], [1, 2, 3, 4, 5]])
def test_dropped_rows_of_an_upgraded_chain(old: Path, opened: Callable[..., LocalAuthority], gone: list[int]) -> None:
    authority = opened(HELPDESK, old)
    run(authority, EXECUTIONS.delete().where(EXECUTIONS.c.number.in_(gone)))
    assert named(authority) == [("dropped", gone[0], gone[-1])]


def test_reordered_rows_of_an_upgraded_chain(old: Path, opened: Callable[..., LocalAuthority]) -> None:
    authority = opened(HELPDESK, old)
    ids = [row["id"] for row in executions(authority)]
    steps = [(2, -1), (4, 2), (-1, 4)]
    run(authority, *(EXECUTIONS.update().where(EXECUTIONS.c.number == a).values(number=b) for a, b in steps))
    assert named(authority) == [("reordered", 2, ids[3]), ("reordered", 4, ids[1])]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE executions SET case_key = 'HC-7' WHERE number = 4", [("altered", 4)]),
        ("DELETE FROM executions WHERE number = 3", [("dropped", 3)]),
        # What had no head yet can't tell that its end was dropped before the upgrade.
        ("DELETE FROM executions WHERE number = 5", []),
    ],
)
def test_what_was_done_before_the_upgrade(
    old: Path, opened: Callable[..., LocalAuthority], change: str, said: list[tuple[str, int]]
) -> None:
    with sqlite3.connect(old) as connection:
        connection.execute(change)
    connection.close()
    assert [(kind, number) for kind, number, _ in named(opened(HELPDESK, old))] == said


def test_an_upgraded_database_gets_a_new_key(old: Path, opened: Callable[..., LocalAuthority], clock: Clock) -> None:
    authority = opened(HELPDESK, old)
    clock.now = datetime.fromisoformat(executions(authority)[-1]["decided_at"])
    rotate(authority._storage)
    authority.decide("triage-ticket", entity_id="HC-9", evidence=evidence())
    assert found(authority) == []
    again = [authority.verify(row["id"])["problems"] for row in executions(authority)]
    assert again == [["superseded"], [], [], ["revoked"], [], []]
