"""The audit names every row that was altered, dropped, reordered, inserted or replaced, and no other."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from authority.asking import refusal
from authority.conftest import Clock
from authority.packs import HELPDESK
from authority.tampering import TABLES, altered, decide, filled, findings, found, put, row, rows, run
from preaction.authority import LocalAuthority
from preaction.authority.ledger import chain
from preaction.authority.ledger.chain import Audit, Witness
from preaction.authority.storage.storage import CHECKS, EXECUTIONS, KEYS, RELEASES, REMOVED
from preaction.authority.storage.tables import CHAIN, VERDICTS

KEPT = 2, 5, 6, 7, 8, 9
GONE = 1, 3, 4


@pytest.fixture(scope="module")
def whole() -> Iterator[LocalAuthority]:
    with LocalAuthority.from_pack(HELPDESK, None, clock := Clock()) as authority:
        yield filled(authority, clock)


@pytest.fixture
def authority(whole: LocalAuthority, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalAuthority]:
    """Its rows are put back after each test; pages are small, so that there are several."""
    monkeypatch.setattr(chain, "PAGE", 2)
    before = {table: rows(whole, table) for table in (*TABLES, CHECKS)}
    yield whole
    for table, content in before.items():
        put(whole, table, content)


def update(table: Any, number: int, /, **values: Any) -> Any:
    return table.update().where(table.c.number == number).values(values)


def test_a_whole_chain_has_no_findings_and_is_counted(authority: LocalAuthority) -> None:
    audit = Audit(authority._storage)
    assert list(audit.findings()) == []
    assert (audit.executions, audit.removed) == (6, 3)
    assert audit.head is not None
    assert (audit.head["number"], audit.head["digest"]) == (9, row(authority, 9)["digest"])
    assert audit.head["revoked"] == 2


@pytest.mark.parametrize("number", KEPT)
@pytest.mark.parametrize("column", [each.name for each in EXECUTIONS.columns if each.name not in ("id", "number")])
def test_an_altered_column_of_an_execution(authority: LocalAuthority, column: str, number: int) -> None:
    good = row(authority, number)
    for value in altered(good[column]):
        run(authority, update(EXECUTIONS, number, **{column: value}))
        (one,) = findings(authority)
        assert (one.kind, one.table, one.number, one.id) == ("altered", "executions", number, good["id"])
        assert column in one.detail or column in ("record", "digest", "receipt")
        run(authority, update(EXECUTIONS, number, **good))
    assert found(authority) == []


@pytest.mark.parametrize("number", GONE)
@pytest.mark.parametrize("column", [each.name for each in REMOVED.columns if each.name != "number"])
def test_an_altered_column_of_what_retention_left(authority: LocalAuthority, column: str, number: int) -> None:
    good = row(authority, number, REMOVED)
    for value in altered(good[column]):
        run(authority, update(REMOVED, number, **{column: value}))
        now = str(value) if column == "id" else good["id"]
        assert found(authority) == [("altered", "removed", number, now)]
        run(authority, update(REMOVED, number, **good))


@pytest.mark.parametrize("column", [each.name for each in CHAIN.columns])
def test_an_altered_head(authority: LocalAuthority, column: str) -> None:
    (good,) = rows(authority, CHAIN)
    for value in altered(good[column]):
        run(authority, CHAIN.update().values({column: value}))
        assert found(authority) == [("altered", "chain", None, "head")]
        assert refusal(decide, authority, "HC-1")[0] == 503
        put(authority, CHAIN, [good])


def test_a_head_that_was_dropped(authority: LocalAuthority) -> None:
    put(authority, CHAIN, [])
    assert found(authority) == [("altered", "chain", None, "head")]
    assert refusal(decide, authority, "HC-1")[0] == refusal(authority.revoke, row(authority, 9)["id"])[0] == 503


@pytest.mark.parametrize("number", KEPT)
def test_another_id(authority: LocalAuthority, number: int) -> None:
    run(authority, update(EXECUTIONS, number, id="exe_other"))
    assert found(authority) == [("altered", "executions", number, "exe_other")]


@pytest.mark.parametrize("number", KEPT)
@pytest.mark.parametrize("other", [-1, 0, 100, 2**62])
def test_another_number(authority: LocalAuthority, number: int, other: int) -> None:
    """The row is somewhere else; so it isn't missing, and its neighbours are where they were."""
    run(authority, update(EXECUTIONS, number, number=other))
    (one,) = findings(authority)
    assert (one.kind, one.number, one.id) == ("reordered", other, row(authority, other)["id"])
    assert one.detail == f"it was written as number {number}"


@pytest.mark.parametrize(
    ("gone", "ranges"),
    [
        ([2], [(2, 2)]),
        ([5], [(5, 5)]),
        ([6, 7], [(6, 7)]),
        ([2, 6, 8], [(2, 2), (6, 6), (8, 8)]),
        ([9], [(9, 9)]),
        ([7, 8, 9], [(7, 9)]),
        (KEPT, [(2, 2), (5, 9)]),
    ],
)
def test_dropped_rows(authority: LocalAuthority, gone: list[int], ranges: list[tuple[int, int]]) -> None:
    digests = {number: row(authority, number)["digest"] for number in gone}
    run(authority, EXECUTIONS.delete().where(EXECUTIONS.c.number.in_(gone)))
    assert found(authority) == [("dropped", "executions", first, last) for first, last in ranges]
    for one in findings(authority):
        assert digests[one.last or 0] in one.detail


@pytest.mark.parametrize("gone", [[1], [3], [3, 4], GONE])
def test_dropped_rows_of_what_retention_left(authority: LocalAuthority, gone: list[int]) -> None:
    run(authority, REMOVED.delete().where(REMOVED.c.number.in_(gone)))
    dropped = [each for one in findings(authority) for each in range(one.number or 0, (one.last or 0) + 1)]
    assert dropped == list(gone)


def test_everything_dropped(authority: LocalAuthority) -> None:
    put(authority, EXECUTIONS, [])
    put(authority, REMOVED, [])
    assert found(authority) == [("dropped", "executions", 1, 9)]


def test_a_dropped_end_still_shows_after_the_next_decision(authority: LocalAuthority) -> None:
    run(authority, EXECUTIONS.delete().where(EXECUTIONS.c.number > 7))
    decide(authority, "HC-20")
    assert found(authority) == [("dropped", "executions", 8, 9)]


@pytest.mark.parametrize(("one", "other"), [(6, 7), (2, 9), (8, 9), (5, 8)])
def test_two_rows_that_changed_places(authority: LocalAuthority, one: int, other: int) -> None:
    ids = row(authority, one)["id"], row(authority, other)["id"]
    moves = (
        update(EXECUTIONS, one, number=-7),
        update(EXECUTIONS, other, number=one),
        update(EXECUTIONS, -7, number=other),
    )
    run(authority, *moves)
    assert found(authority) == [("reordered", "executions", one, ids[1]), ("reordered", "executions", other, ids[0])]


@pytest.mark.parametrize("by", [1, -1])
def test_rows_that_moved_up_or_down(authority: LocalAuthority, by: int) -> None:
    numbers = (9, 8, 7) if by == 1 else (7, 8, 9)
    if by == -1:
        run(authority, EXECUTIONS.delete().where(EXECUTIONS.c.number == 6))
    ids = {number: row(authority, number)["id"] for number in numbers}
    run(authority, *(update(EXECUTIONS, number, number=number + by) for number in numbers))
    moved = [("reordered", "executions", number + by, ids[number]) for number in sorted(numbers)]
    assert found(authority) == [*moved, *([] if by == 1 else [("dropped", "executions", 6, 6)])]


@pytest.mark.parametrize("number", [-3, 0, 10, 2**62])
def test_rows_that_the_chain_has_no_room_for(authority: LocalAuthority, number: int) -> None:
    copy = {**row(authority, 6), "id": "exe_copy", "number": number}
    forged = {**copy, "receipt": "a.b.c", "id": "exe_forged", "number": number - 1}
    run(authority, EXECUTIONS.insert().values(copy))
    assert found(authority) == [("inserted", "executions", number, "exe_copy")]
    if number != 10:
        run(authority, EXECUTIONS.insert().values(forged))
        assert ("inserted", "executions", number - 1, "exe_forged") in found(authority)
        assert len(found(authority)) == 2


def test_a_row_under_the_number_of_one_that_retention_removed(authority: LocalAuthority) -> None:
    copy = {**row(authority, 6), "id": "exe_copy", "number": 3}
    run(authority, EXECUTIONS.insert().values(copy))
    assert found(authority) == [("inserted", "executions", 3, "exe_copy")]
    moved = row(authority, 6)["id"]
    run(authority, EXECUTIONS.delete().where(EXECUTIONS.c.number == 3), update(EXECUTIONS, 6, number=3))
    assert found(authority) == [("reordered", "executions", 3, moved)]


def test_a_row_copied_over_another(authority: LocalAuthority) -> None:
    seventh = row(authority, 7)["id"]
    run(authority, update(EXECUTIONS, 7, **{**row(authority, 6), "id": seventh, "number": 7}))
    assert found(authority) == [("inserted", "executions", 7, seventh), ("dropped", "executions", 7, 7)]


def test_the_receipt_of_an_output_check_in_place_of_an_executions(authority: LocalAuthority) -> None:
    (check,) = rows(authority, CHECKS)
    texts = {name: check[name] for name in ("record", "digest", "receipt")}
    run(authority, update(EXECUTIONS, 7, **texts))
    assert found(authority) == [("altered", "executions", 7, row(authority, 7)["id"])]


def test_an_old_copy_of_a_revoked_row_shows_in_the_count(authority: LocalAuthority) -> None:
    old = row(authority, 8)
    authority.revoke(old["id"])
    assert found(authority) == []
    run(authority, update(EXECUTIONS, 8, **old))
    (one,) = findings(authority)
    assert (one.kind, one.table) == ("altered", "executions")
    assert one.detail == "3 were revoked, and 2 are: old copies of rows were put back"


def test_an_old_copy_of_the_head_shows(authority: LocalAuthority) -> None:
    (old,) = rows(authority, CHAIN)
    authority.revoke(row(authority, 8)["id"])
    put(authority, CHAIN, [old])
    assert found(authority) == [("altered", "chain", None, "head")]
    put(authority, CHAIN, [])
    put(authority, CHAIN, [old])
    run(authority, update(EXECUTIONS, 8, revoked_at=None))
    put(authority, EXECUTIONS, [each for each in rows(authority, EXECUTIONS) if each["number"] != 8])


def test_an_old_head_under_newer_rows(authority: LocalAuthority) -> None:
    (old,) = rows(authority, CHAIN)
    decide(authority, "HC-20")
    put(authority, CHAIN, [old])
    assert found(authority) == [("altered", "chain", None, "head")]
    assert refusal(decide, authority, "HC-21")[0] == 503


def test_rows_of_another_history_are_replaced(authority: LocalAuthority) -> None:
    """Two histories from one backup, both written by us: whoever mixes them is seen by what follows."""
    before = {table: rows(authority, table) for table in TABLES}
    decide(authority, "HC-30")
    other = row(authority, 10)
    for table, content in before.items():
        put(authority, table, content)
    decide(authority, "HC-31")
    run(authority, update(EXECUTIONS, 10, **other))
    assert found(authority) == [("replaced", "executions", 10, other["id"])]
    run(authority, EXECUTIONS.delete().where(EXECUTIONS.c.number == 10))
    assert found(authority) == [("dropped", "executions", 10, 10)]
    decide(authority, "HC-32")
    run(authority, EXECUTIONS.insert().values(other))
    assert found(authority) == [("replaced", "executions", 10, other["id"])]


def test_a_kept_receipt_shows_that_all_was_put_back(authority: LocalAuthority) -> None:
    """What no row can show: an old copy of the whole database."""
    before = {table: rows(authority, table) for table in TABLES}
    decision = decide(authority, "HC-30")
    witness = Witness("kept.jws", 10, row(authority, 10)["digest"], decision["executionId"])
    assert findings(authority, [witness]) == []
    for table, content in before.items():
        put(authority, table, content)
    assert findings(authority) == []
    (one,) = findings(authority, [witness])
    assert (one.kind, one.number, one.id) == ("dropped", 10, decision["executionId"])
    assert "kept.jws" in one.detail
    decide(authority, "HC-31")
    assert len(findings(authority, [witness])) == 1


@pytest.mark.parametrize("table", [CHECKS, RELEASES])
def test_altered_rows_of_tables_that_are_sealed_only(authority: LocalAuthority, table: Any) -> None:
    (good,) = rows(authority, table)
    for column in table.columns:
        if column.name == "number":
            continue
        for value in altered(good[column.name]):
            run(authority, table.update().values({column.name: value}))
            first, *others = found(authority)
            assert first[:2] == ("altered", table.name)
            assert {each[:2] for each in others} <= {("dropped", "releases")}  # under another name it isn't there
            put(authority, table, [good])
    assert found(authority) == []


def test_a_dropped_release_that_was_decided_by_is_named(authority: LocalAuthority) -> None:
    (good,) = rows(authority, RELEASES)
    put(authority, RELEASES, [])
    assert found(authority) == [("dropped", "releases", None, "helpdesk, 2026-11-03.1")]
    put(authority, RELEASES, [good])
    assert found(authority) == []


def test_altered_keys_are_named(authority: LocalAuthority, clock: Clock) -> None:
    authority._keyring.create("agent", "helpdesk", None, clock())
    (good,) = rows(authority, KEYS)
    run(authority, KEYS.update().values(role="operator"))
    assert found(authority) == [("altered", "keys", None, good["id"])]
    put(authority, KEYS, [])


def test_text_that_is_none_is_an_alteration(authority: LocalAuthority) -> None:
    with authority._storage._changing() as connection:
        connection.exec_driver_sql("UPDATE executions SET outcome = CAST(x'ff' AS TEXT) WHERE number = 6")
    assert found(authority) == [("altered", "executions", 6, row_id(authority, 6))]


def row_id(authority: LocalAuthority, number: int) -> Any:
    with authority._storage.reading() as connection:
        return connection.exec_driver_sql(f"SELECT id FROM executions WHERE number = {number}").scalar_one()


def test_a_table_that_was_made_anew_without_its_rules_hides_no_row(authority: LocalAuthority) -> None:
    names = ", ".join(column.name for column in EXECUTIONS.columns)
    made = "CREATE TABLE loose (" + names + ")", f"INSERT INTO loose SELECT {names} FROM executions"
    with authority._storage._changing() as connection:
        for statement in (*made, "ALTER TABLE executions RENAME TO kept", "ALTER TABLE loose RENAME TO executions"):
            connection.exec_driver_sql(statement)
    values = {name: value for name, value in row(authority, 6).items() if name not in ("id", "number")}
    for number in (None, "6", 6):
        with authority._storage._changing() as connection:
            statement = "INSERT INTO executions (id, number, pack) VALUES (?, ?, ?)"
            connection.exec_driver_sql(statement, (f"exe_{number}", number, values["pack"]))
    kinds = {each.kind for each in findings(authority)}
    assert kinds == {"inserted"}
    assert any("no number of their own" in each.detail for each in findings(authority))
    with authority._storage._changing() as connection:
        connection.exec_driver_sql("DROP TABLE executions")
        connection.exec_driver_sql("ALTER TABLE kept RENAME TO executions")


@pytest.mark.parametrize("kind", ["postgresql"])
def test_over_postgresql_it_is_the_same(opened: Callable[..., LocalAuthority], clock: Clock) -> None:
    authority = filled(opened(), clock)
    assert found(authority) == []
    good = row(authority, 6)
    run(authority, update(EXECUTIONS, 6, outcome="other"))
    assert found(authority) == [("altered", "executions", 6, good["id"])]
    run(authority, update(EXECUTIONS, 6, **good), update(EXECUTIONS, 6, number=77))
    assert found(authority) == [("reordered", "executions", 77, good["id"])]
    run(authority, EXECUTIONS.delete().where(EXECUTIONS.c.number > 7))
    assert found(authority) == [("dropped", "executions", 6, 6), ("dropped", "executions", 8, 9)]
    assert rows(authority, VERDICTS) == []
