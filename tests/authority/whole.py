"""Whether a database is whole: what the audit of its chain says, and what its rows say by themselves."""

from typing import Any

import sqlalchemy as sa

from preaction.authority.ledger.chain import Audit
from preaction.authority.storage.storage import EXECUTIONS, REMOVED, Storage


def ids_in_a_whole_chain(storage: Storage) -> list[str]:
    """The ids of all executions in their order, after all rows were found sealed and chained without a gap."""
    assert list(Audit(storage).findings()) == []
    rows: list[dict[str, Any]] = []
    with storage.reading() as connection:
        for table in (EXECUTIONS, REMOVED):
            found = [dict(row) for row in connection.execute(sa.select(table)).mappings()]
            assert all(storage.intact(table, row) for row in found)
            rows += found
    rows.sort(key=lambda row: row["number"])
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["previous"] for row in rows[1:]] == [row["digest"] for row in rows[:-1]]
    assert not rows or rows[0]["previous"] == ""
    assert all(storage.records.open(row) is not None for row in rows if "record" in row)
    return [row["id"] for row in rows if "record" in row]
