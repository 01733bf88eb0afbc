"""The chain of executions, judged row by row: what was altered, dropped, reordered, inserted or replaced, and where.

Each execution's record holds the digest of the record before, of whatever pack, and is signed; the head, a sealed row,
has the digest of the newest. So the content of every row is bound by the row after it, and the last by the head.
Executions of schema 1 have that digest in a sealed column only. Rows are read in pages, in one state of the database.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, merge
from itertools import groupby
from typing import Any, Final, Literal, TypeAlias

import sqlalchemy as sa

from preaction.authority.ledger.executions import columns_of
from preaction.authority.ledger.head import sealed_head
from preaction.authority.storage.storage import Row, Storage
from preaction.authority.storage.tables import CHAIN, CHECKS, EXECUTIONS, METADATA, RELEASES, REMOVED, SCHEMA

PAGE: Final = 500

Kind: TypeAlias = Literal["altered", "dropped", "reordered", "inserted", "replaced"]

_UNSIGNED: Final = "case_key, revoked_at or seal isn't what was sealed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `number` and `id` are the row's own; rows that were dropped are `number` to `last`.

    `kind`: `altered` in a column; `dropped`; `reordered`, under another number than it was written with; `inserted`,
    where the chain has no room for it; `replaced`, written by us but not the row that the one after it follows.
    """

    kind: Kind
    table: str
    number: int | None
    id: str | None
    detail: str
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """What a receipt that is kept elsewhere says: the chain must hold it. `name` is how to name it."""

    name: str
    number: int
    digest: str
    id: str


@dataclass(slots=True)
class _Judged:
    """A row, and what is wrong with it by itself. `claims` is the number that was signed for it, where that differs."""

    table: sa.Table
    row: Row
    kind: Kind | None = None
    detail: str = ""
    claims: int | None = None

    def finding(self) -> Finding:
        return _finding(self, self.kind or "altered", self.detail)


class Audit:
    """One walk over a database. `findings` may be read once; the counts stand when it has ended."""

    def __init__(self, storage: Storage, witnesses: Iterable[Witness] = ()) -> None:
        self._storage = storage
        self._witnesses: dict[int, list[Witness]] = {}
        for witness in witnesses:
            self._witnesses.setdefault(witness.number, []).append(witness)
        self._broken = 0
        self._revoked = 0
        self._used: set[tuple[str, str]] = set()
        self.executions = 0
        self.removed = 0
        self.head: Row | None = None

    def findings(self) -> Iterator[Finding]:
        """Everything that is wrong, rows first and what is missing last. `Refused` when the database fails."""
        with self._storage.snapshot() as connection:
            self.head = sealed_head(self._storage, connection)
            yield from self._chain(connection)
            yield from self._uncounted(connection)
            for table in METADATA.sorted_tables:
                if table not in (SCHEMA, EXECUTIONS, REMOVED, CHAIN):
                    yield from self._seals(connection, table)
            yield from self._lost_releases(connection)

    # The chain ----------------------------------------------------------------------------------------------------

    def _chain(self, connection: sa.Connection) -> Iterator[Finding]:
        if self.head is None:
            detail = "missing or altered: rows that were dropped at the end don't show"
            yield Finding("altered", CHAIN.name, None, "head", detail)
        gaps, before = _Gaps(), _Judged(EXECUTIONS, {"number": 0, "digest": "", "id": None})
        for number, rows in groupby(self._standing(connection), key=lambda pair: pair[1]["number"]):
            here, *others = sorted((self._judge(*pair) for pair in rows), key=_likely_last)
            for each in (here, *others):
                if each.claims is not None:
                    gaps.claim(each.claims)
            for each in others:
                moved = each.kind == "reordered"
                yield each.finding() if moved else _finding(each, "inserted", "its number is that of another row")
            if here.kind is not None:
                self._broken += 1
                yield here.finding()
            if here.kind in ("reordered", "inserted"):
                continue
            self._broken += gaps.held(number, here.row["previous"] if here.kind is None else None)
            if here.kind is None:
                yield from self._follows(before, here)
                self._witnessed(here)
                self._revoked += here.row["revoked_at"] is not None
                if here.table is EXECUTIONS:
                    self._used.add((here.row["pack"], here.row["release"]))
            before = here
        yield from self._ends(before, gaps)

    def _standing(self, connection: sa.Connection) -> Iterator[tuple[sa.Table, Row]]:
        """Executions, and what retention left of others, by number."""
        tables = [_numbered(connection, table) for table in (EXECUTIONS, REMOVED)]
        for table, row in merge(*tables, key=lambda pair: pair[1]["number"]):
            if table is EXECUTIONS:
                self.executions += 1
            else:
                self.removed += 1
            yield table, row

    def _judge(self, table: sa.Table, row: Row) -> _Judged:
        """A row by itself: its seal, its signature, and whether its columns say what was signed."""
        sealed = self._storage.intact(table, row)
        room = row["number"] >= 1 and (self.head is None or row["number"] <= self.head["number"])
        if table is REMOVED:
            if sealed:
                return _Judged(table, row)
            detail = "a column isn't what was sealed" if room else "the chain has no such number"
            return _Judged(table, row, "altered" if room else "inserted", detail)
        signed = self._storage.records.signed(row["receipt"])
        if signed is None:
            detail = "the receipt isn't signed by a key of this database" if room else "the chain has no such number"
            return _Judged(table, row, "altered" if room else "inserted", detail)
        record, texts = signed
        if "ruling" not in record:
            return _Judged(table, row, "altered", "its receipt is that of an output check")
        wrong = [name for name, value in {**columns_of(record), **texts}.items() if row[name] != value]
        if "number" in wrong and "id" in wrong:
            detail = f"its receipt is that of execution {record['number']}, {record['executionId']}"
            return _Judged(table, row, "inserted", detail)
        if "number" in wrong:
            return _Judged(table, row, "reordered", f"it was written as number {record['number']}", record["number"])
        if wrong:
            return _Judged(table, row, "altered", f"{', '.join(wrong)}: not what was signed")
        return _Judged(table, row) if sealed else _Judged(table, row, "altered", _UNSIGNED)

    def _follows(self, before: _Judged, here: _Judged) -> Iterator[Finding]:
        """Whether a whole row follows the whole row before it."""
        if before.kind is not None or before.row["number"] != here.row["number"] - 1:
            return
        if before.row["digest"] != here.row["previous"]:
            self._broken += 1
            if before.row["number"] == 0:
                yield _finding(here, "replaced", "it follows another row, and is the first")
            else:
                yield _finding(before, "replaced", f"number {here.row['number']} follows another row than this")

    def _ends(self, before: _Judged, gaps: "_Gaps") -> Iterator[Finding]:
        """What the head says of the end, and what is missing."""
        head = self.head
        if head is not None:
            if gaps.expected <= head["number"]:
                self._broken += gaps.held(head["number"] + 1, head["digest"])
            elif gaps.expected > head["number"] + 1:
                detail = f"it ends at number {head['number']}, and later rows are there: an old head was put back"
                yield Finding("altered", CHAIN.name, None, "head", detail)
            elif before.kind is None and before.row["digest"] != head["digest"]:
                yield _finding(before, "replaced", "the head follows another row than this")
            # A row that is broken or gone may be one of those that were revoked.
            if head["revoked"] - self._revoked > self._broken:
                detail = f"{head['revoked']} were revoked, and {self._revoked} are: old copies of rows were put back"
                yield Finding("altered", EXECUTIONS.name, None, None, detail)
            elif head["revoked"] < self._revoked:
                detail = f"it counts {head['revoked']} revoked, and {self._revoked} are: an old head was put back"
                yield Finding("altered", CHAIN.name, None, "head", detail)
        for first, last, digest in gaps.ranges:
            detail = f"the digest of number {last} was {digest}" if digest else "no row"
            yield Finding("dropped", EXECUTIONS.name, first, None, detail, last)
        for witness in [each for some in self._witnesses.values() for each in some]:
            detail = f"the receipt {witness.name} is not in the chain"
            yield Finding("dropped", EXECUTIONS.name, witness.number, witness.id, detail, witness.number)

    def _witnessed(self, here: _Judged) -> None:
        left = self._witnesses.pop(here.row["number"], [])
        if left := [each for each in left if (each.digest, each.id) != (here.row["digest"], here.row["id"])]:
            self._witnesses[here.row["number"]] = left

    def _uncounted(self, connection: sa.Connection) -> Iterator[Finding]:
        """Rows that reading in the order of numbers doesn't meet: without a number, or with one that is taken."""
        for table, walked in ((EXECUTIONS, self.executions), (REMOVED, self.removed)):
            counted = connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            if counted != walked:
                detail = f"{counted - walked} rows have no number of their own"
                yield Finding("inserted", table.name, None, None, detail)

    def _lost_releases(self, connection: sa.Connection) -> Iterator[Finding]:
        """Releases that were decided by and are gone: without the newest one an older one would decide."""
        there = {tuple(row) for row in connection.execute(sa.select(RELEASES.c.pack, RELEASES.c.release))}
        for pack, release in sorted(self._used - there):
            yield Finding("dropped", RELEASES.name, None, f"{pack}, {release}", "executions were decided by it")

    # All other tables ---------------------------------------------------------------------------------------------

    def _seals(self, connection: sa.Connection, table: sa.Table) -> Iterator[Finding]:
        """Rows that are sealed and not chained: an altered one shows, one that was dropped doesn't."""
        order = table.c.number if "number" in table.c else table.c.id
        for row in _pages(connection, table, order):
            whole = self._storage.intact(table, row)
            if whole and table is CHECKS:
                whole = self._storage.records.open(row) is not None
            if not whole:
                name = ", ".join(str(row[key.name]) for key in table.primary_key)
                yield Finding("altered", table.name, row.get("number"), name, "a column isn't what was sealed")


class _Gaps:
    """Numbers that no row stands at, but for those that a row elsewhere was written with."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int, str | None]] = []
        self.expected = 1
        """All numbers below it are settled."""
        self._claimed: list[int] = []

    def held(self, number: int, before: str | None) -> int:
        """A row stands at `number`, and `before` is the digest of the one before it, if known. How many are missing."""
        missing = number - self.expected
        first = self.expected
        while self._claimed and self._claimed[0] <= number:
            claimed = heappop(self._claimed)
            if first <= claimed < number:
                self._add(first, claimed - 1, None)
                first = claimed + 1
        self._add(first, number - 1, before)
        self.expected = number + 1
        return missing

    def claim(self, number: int) -> None:
        """Some row, elsewhere, was written as `number`."""
        if number >= self.expected:
            heappush(self._claimed, number)
            return
        index = bisect_right(self.ranges, number, key=lambda each: each[0]) - 1
        if index >= 0 and self.ranges[index][1] >= number:
            first, last, digest = self.ranges.pop(index)
            parts = (first, number - 1, None), (number + 1, last, digest)
            self.ranges[index:index] = [part for part in parts if part[0] <= part[1]]

    def _add(self, first: int, last: int, digest: str | None) -> None:
        if first <= last:
            self.ranges.append((first, last, digest))


def _likely_last(judged: _Judged) -> tuple[bool, bool]:
    """Of two rows under one number the whole one stands there; of two whole ones what retention left."""
    return judged.kind is not None, judged.table is EXECUTIONS


def _numbered(connection: sa.Connection, table: sa.Table) -> Iterator[tuple[sa.Table, Row]]:
    for row in _pages(connection, table, table.c.number):
        if isinstance(row["number"], int):  # else somebody changed the table itself
            yield table, row


def _pages(connection: sa.Connection, table: sa.Table, order: sa.Column[Any]) -> Iterator[Row]:
    statement = sa.select(table).order_by(order).limit(PAGE)
    rows: Sequence[sa.RowMapping] = connection.execute(statement).mappings().all()
    while rows:
        yield from map(dict, rows)
        rows = connection.execute(statement.where(order > rows[-1][order.name])).mappings().all()


def _finding(judged: _Judged, kind: Kind, detail: str) -> Finding:
    return Finding(kind, judged.table.name, judged.row["number"], judged.row["id"], detail)
