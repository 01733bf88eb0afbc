"""The tables, as the newest schema has them. Whoever changes one adds the step that changes old databases: `upgrades`.

Every row has a seal over all its columns. Numbers count from 1, without gaps, in the order in which rows were written.
"""

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

SCHEMA_VERSION: Final = 2

METADATA: Final = sa.MetaData()


def _table(name: str, *columns: sa.Column[Any] | sa.Constraint | sa.Index) -> sa.Table:
    return sa.Table(name, METADATA, *columns, _text("seal"), sqlite_strict=True)


def _text(name: str, *, key: bool = False, null: bool = False) -> sa.Column[Any]:
    # Compared byte by byte: PostgreSQL's own order would change with the machine's locale, and its indexes break.
    plain = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    return sa.Column(name, plain, primary_key=key, nullable=null)


def _number(name: str, *, unique: bool = False) -> sa.Column[Any]:
    wide = sa.Integer().with_variant(sa.BigInteger(), "postgresql")  # SQLite's have 64 bits under the shorter name
    return sa.Column(name, wide, nullable=False, unique=unique or None)


SCHEMA: Final = sa.Table("schema", METADATA, _number("version"), _text("kid"))
"""One row: the version of the tables, and the signing key that they belong to."""

RELEASES: Final = _table(
    "releases",
    _text("pack", key=True),
    _text("release", key=True),
    _number("number", unique=True),
    _text("digest"),
    _text("content"),
    _text("published_at"),
    sa.Index("releases_pack", "pack", "number"),
)
KEYS: Final = _table(
    "keys",
    _text("id", key=True),
    _text("hash"),
    _text("role"),
    _text("pack"),
    _text("jobs", null=True),
    _text("created_at"),
    _text("revoked_at", null=True),
)
EXECUTIONS: Final = _table(
    "executions",
    _text("id", key=True),
    _number("number", unique=True),
    _text("previous"),
    _text("pack"),
    _text("job"),
    _text("release"),
    _text("release_digest"),
    _text("case_id"),
    _text("case_key"),
    _text("identity"),
    _text("status"),
    _text("outcome", null=True),
    _text("decided_at"),
    _text("record"),
    _text("digest"),
    _text("receipt"),
    _text("revoked_at", null=True),
    sa.Index("executions_case", "pack", "job", "case_key", "number"),
    sa.Index("executions_case_id", "pack", "case_id", "number"),
)
"""`previous` is the `digest` of the row before, of whatever pack; '' for the first. One chain per database."""

REMOVED: Final = _table(
    "removed",
    _text("id", key=True),
    _number("number", unique=True),
    _text("previous"),
    _text("digest"),
    _text("revoked_at", null=True),
    _text("removed_at"),
)
"""What retention leaves of an execution: its place in the chain."""

CHAIN: Final = _table("chain", _text("id", key=True), _number("number"), _text("digest"), _number("revoked"))
"""One row, `head`: number and digest of the newest execution, and how many executions were ever revoked."""

CHECKS: Final = _table(
    "output_checks",
    _text("id", key=True),
    _text("execution_id"),
    _text("pack"),
    _text("job"),
    _text("record"),
    _text("digest"),
    _text("receipt"),
    sa.Index("output_checks_execution", "execution_id"),
)
VERDICTS: Final = _table(
    "verdicts",
    _text("id", key=True),
    _text("pack"),
    _text("job"),
    _text("tool"),
    _text("code"),
    _number("allow"),
    _number("enforced"),
    _text("case_id", null=True),
    _text("execution_id", null=True),
    _text("check_id", null=True),
    _text("reason"),
    _text("call_digest"),
    _text("at"),
    _text("received_at"),
    _text("key_id"),
    sa.Index("verdicts_execution", "execution_id"),
)
"""What gates reported: their own word, `at` by their clock. `allow` and `enforced` are 0 or 1."""

SESSIONS: Final = _table("sessions", _text("id", key=True), _text("key_id"), _text("created_at"), _text("expires_at"))
"""Operators signed in to the console; `id` is the hash of what the browser holds."""

ANSWERS: Final = _table("answers", _text("id", key=True), _text("request"), _text("answer"), _text("created_at"))
"""First answers to requests with an idempotency key."""


RESEALED: Final = RELEASES, KEYS, SESSIONS, CHAIN
"""Tables with few rows, all sealed anew when the signing key changes: no retired key's seal counts there."""


def sealed(table: sa.Table) -> Sequence[str]:
    """The names of the columns that a row's seal covers, in order."""
    return [column.name for column in table.columns if column.name != "seal"]
