"""The time that a decision is made at: later decisions have no earlier times, though clocks may be set back.

A clock that was set back would make old evidence look fresh. Servers that share a database differ a little, so a small
step back counts as no step; a larger one stops deciding until the clock is right. Should it be the last decision that
has the wrong time, made while a clock was ahead: revoke it, and it no longer counts.
"""

from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa

from preaction.authority.refusal import Refused
from preaction.authority.storage.storage import EXECUTIONS, Storage

SKEW: Final = timedelta(seconds=5)

_LAST: Final = (
    sa.select(EXECUTIONS.c.decided_at)
    .where(EXECUTIONS.c.revoked_at.is_(None))
    .order_by(EXECUTIONS.c.number.desc())
    .limit(1)
)


def decision_time(storage: Storage, connection: sa.Connection, now: datetime) -> datetime:
    """`now`, or the last decision's time when that is a little later; within `writing`. 503 when it is much later."""
    row = storage.one(connection, _LAST)
    if row is None:
        return now
    try:
        last = datetime.fromisoformat(row["decided_at"])
        behind = last - now
    except (ValueError, TypeError):
        return now  # what was altered tells no time; verifying that decision says so
    if behind > SKEW:
        raise Refused(503, "This server's clock is behind the last decision, so nothing is decided.")
    return max(now, last)
