"""From an older schema to the newest: numbered steps, all of them in the one transaction that opens the database.

A step is never changed once it was released. It brings a database from the version before to its own number, and must
not trust what it finds: a row whose seal was broken before a step has none that fits after it.

Tables that are new in a version stand in its step. Tests upgrade a real file of every earlier version, and compare
what comes out with a new database.
"""

from collections.abc import Callable, Mapping, Sequence
from hmac import compare_digest
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from preaction.authority.signing.receipts import Signer
from preaction.authority.storage.tables import (
    CHAIN,
    CHECKS,
    EXECUTIONS,
    RELEASES,
    REMOVED,
    SCHEMA,
    SCHEMA_VERSION,
    SESSIONS,
    VERDICTS,
    sealed,
)

Step: TypeAlias = Callable[[sa.Connection, Signer], None]

_BROKEN: Final = "broken before the upgrade"
_BATCH: Final = 500

_NEW_IN_2: Final = (EXECUTIONS, REMOVED, CHAIN, VERDICTS, SESSIONS)


def upgrade(connection: sa.Connection, signer: Signer, found: int) -> None:
    """Bring a database of version `found` to the newest; within `writing`. `KeyError` for a version with no step."""
    for version in range(found + 1, SCHEMA_VERSION + 1):
        STEPS[version](connection, signer)
    connection.execute(SCHEMA.update().values(version=SCHEMA_VERSION))


def _chain_executions(connection: sa.Connection, signer: Signer) -> None:
    """Version 2: executions are chained by the digest of the row before, the old ones too.

    The table is made anew, so that a server of version 1 that still runs can't add to it.
    """
    connection.exec_driver_sql("DROP INDEX executions_case")
    connection.exec_driver_sql("ALTER TABLE executions RENAME TO executions_1")
    for table in _NEW_IN_2:
        table.create(connection)
    for index in (*CHECKS.indexes, *RELEASES.indexes):
        index.create(connection)
    old = [name for name in sealed(EXECUTIONS) if name != "previous"]
    rows = connection.exec_driver_sql(f"SELECT {', '.join(old)}, seal FROM executions_1 ORDER BY number")  # noqa: S608 - names of ours
    number, previous, revoked = 0, "", 0
    for batch in rows.mappings().partitions(_BATCH):
        chained: list[dict[str, Any]] = []
        for row in batch:
            whole = compare_digest(_seal(signer, old, dict(row)).encode(), row["seal"].encode())
            new = {**row, "previous": previous}
            chained.append({**new, "seal": _seal(signer, sealed(EXECUTIONS), new) if whole else _BROKEN})
            number, previous, revoked = row["number"], row["digest"], revoked + (row["revoked_at"] is not None)
        connection.execute(EXECUTIONS.insert(), chained)
    connection.exec_driver_sql("DROP TABLE executions_1")
    head = {"id": "head", "number": number, "digest": previous, "revoked": revoked}
    connection.execute(CHAIN.insert(), {**head, "seal": _seal(signer, sealed(CHAIN), head, "chain")})


def _seal(signer: Signer, names: Sequence[str], row: Mapping[str, Any], table: str = "executions") -> str:
    return signer.seal([table, *(row[name] for name in names)])


STEPS: Final[Mapping[int, Step]] = {2: _chain_executions}
