"""Audits whose file or tables somebody with write access alters, and what the check says then."""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from preaction.audit.chain import EMPTY, Links, entry_of
from preaction.audit.chain_check import Check, Finding
from preaction.audit.parts import standing
from preaction.pipeline import JsonlAudit, SqlAudit

KEY = "correct horse battery staple, and more"
COLUMNS = ("id", "phase", "at", "request_id", "tenant", "tool", "code", "outcome")


def record(number: int) -> dict[str, Any]:
    """A record with all columns of a table, as short as can be."""
    return dict.fromkeys(COLUMNS, "x") | {"id": f"p{number}", "phase": "after", "code": None}


class File:
    """A log of `count` entries in a file."""

    def __init__(self, path: Path, count: int = 6, key: str | None = None, **options: Any) -> None:
        self.path, self.key = path, key
        self.audit = JsonlAudit(path, durable=False, key=key, **options)
        for number in range(1, count + 1):
            self.audit(record(number))
        self.lines = path.read_bytes().splitlines(keepends=True)
        self.heads = [entry.digest for line in self.lines if (entry := entry_of(line.rstrip(b"\n"))) is not None]

    def put(self, lines: Sequence[bytes]) -> None:
        """Make these the lines of the file."""
        self.path.write_bytes(b"".join(lines))

    def findings(self, *heads: str, key: str | None = None) -> list[Finding]:
        """What is wrong with what is there."""
        return list(self.check(*heads, key=key)[1])

    def check(self, *heads: str, key: str | None = None) -> tuple[Check, list[Finding]]:
        """The same, with the check."""
        check = Check(key or self.key, heads)
        return check, list(check.findings(self.path.name, standing(self.path)))

    def found(self, *heads: str) -> list[tuple[str, str, int | None, Any]]:
        """Kind, place and number; and the id, or the last number of those that were dropped."""
        return [(each.kind, each.place, each.number, each.last or each.id) for each in self.findings(*heads)]


def forged(lines: Sequence[bytes], first: int, change: dict[str, Any], key: str | None = None) -> list[bytes]:
    """A log written anew from line `first` on, with that record changed: what a rewriter of the file can do."""
    entries = [entry for line in lines if (entry := entry_of(line.rstrip(b"\n"))) is not None]
    records = [json.loads(entry.text) for entry in entries[first - 1 :]]
    records[0] |= change
    head = entries[first - 2].head if first > 1 else EMPTY
    return [*lines[: first - 1], *(entry.line() for entry in Links(key).after(head, records))]


class Table:
    """A log of `count` rows in an SQLite file, altered behind the audit's back."""

    def __init__(self, path: Path, count: int = 5, key: str | None = None) -> None:
        self.path, self.key, self.url = path, key, f"sqlite:///{path}"
        audit = SqlAudit(self.url, key=key)
        for number in range(1, count + 1):
            audit(record(number))
        audit.close()

    def run(self, *statements: str, given: Sequence[Any] = ()) -> None:
        """Statements of somebody who may write to the database."""
        with sqlite3.connect(self.path) as database:
            database.execute("PRAGMA synchronous = OFF")  # no test cuts the power
            for statement in statements:
                database.execute(statement, given)
        database.close()

    def findings(self, *heads: str) -> list[Finding]:
        """What is wrong with what is there."""
        audit, check = SqlAudit(self.url, create=False), Check(self.key, heads)
        try:
            return list(audit.findings(check))
        finally:
            audit.close()

    def found(self, *heads: str) -> list[tuple[str, str, int | None, Any]]:
        """Kind, place and number; and the id, or the last number of those that were dropped."""
        return [(each.kind, each.place, each.number, each.last or each.id) for each in self.findings(*heads)]
