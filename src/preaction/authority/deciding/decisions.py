"""To make a decision: what is looked up is read first, then all else is one transaction under the write lock.

The lock isn't held while other systems are asked. If another release was published meanwhile, they are asked again by
the new one, so that a decision is always by the release that is current when it is written down.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from preaction.authority.deciding.again import compared_with
from preaction.authority.deciding.answers import Answers, Repeatable
from preaction.authority.deciding.clock import decision_time
from preaction.authority.facts.lookups import Ids, Lookups, Reads
from preaction.authority.keys import Caller
from preaction.authority.ledger import executions
from preaction.authority.ledger.shelf import Shelf
from preaction.authority.packs.decide import key_values, read_request
from preaction.authority.packs.release import ReadyJob, Release
from preaction.authority.refusal import Refused
from preaction.authority.storage.storage import Storage
from preaction.wire.models import Case, Decision, DecisionRequest

Current: TypeAlias = Callable[[sa.Connection, Caller, str], tuple[Release, ReadyJob]]
"""A job at its current release, as far as a caller may use it."""

_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class _LookedUp:
    """What was read for one request by one release."""

    release: str
    case: Case
    reads: Reads


class _OtherRelease(Exception):
    """Facts must be read by the release that is current now."""


class Deciding:
    """Makes decisions and keeps them."""

    def __init__(
        self,
        storage: Storage,
        shelf: Shelf,
        answers: Answers,
        current: Current,
        lookups: Lookups,
        clock: Callable[[], datetime],
    ) -> None:
        self._storage = storage
        self._shelf = shelf
        self._answers = answers
        self._current = current
        self._lookups = lookups
        self._clock = clock

    def decide(self, caller: Caller, job: str, request: DecisionRequest, repeat: Repeatable | None) -> Decision:
        """Decide, and keep the decision. A request with an idempotency key gets its first answer again."""
        for _ in range(_TRIES):
            found = self._look_up(caller, job, request, repeat) if self._lookups.known else None
            if isinstance(found, Decision):
                return found
            try:
                return self._answers.once(repeat, Decision, partial(self._write, caller, job, request, found))
            except _OtherRelease:
                continue
        raise Refused(503, "Releases are published faster than facts can be read.")

    def _look_up(
        self, caller: Caller, job: str, request: DecisionRequest, repeat: Repeatable | None
    ) -> Decision | _LookedUp | None:
        """What the job looks up; None when that is nothing; the first answer when this request got one."""
        with self._storage.reading() as connection:
            first = self._answers.first(connection, repeat, Decision)
            if first is not None:
                return first
            release, ready = self._current(connection, caller, job)
            if not ready.lookups:
                return None
            now = self._clock()
            stored = read_request(ready, request, now)
            case = executions.the_case(self._storage, connection, release, ready, stored, now)
        reads = self._lookups.read(ready.lookups, _ids(ready, case, stored), self._clock)
        return _LookedUp(release.digest, case, reads)

    def _write(
        self, caller: Caller, job: str, request: DecisionRequest, found: _LookedUp | None, connection: sa.Connection
    ) -> Decision:
        # Read under the write lock, so that later decisions have later times.
        now = decision_time(self._storage, connection, self._clock())
        release, ready = self._current(connection, caller, job)
        stored = read_request(ready, request, now)
        if ready.lookups and found is not None and found.release == release.digest:
            case, reads = found.case, found.reads
        elif ready.lookups and self._lookups.known:
            raise _OtherRelease
        else:
            case = executions.the_case(self._storage, connection, release, ready, stored, now)
            reads = self._lookups.read(ready.lookups, {}, self._clock)  # nothing is configured: this asks nobody
        before = compared_with(self._storage, self._shelf, connection, release, ready, case)
        stored = reads.added_to(stored, now)
        return executions.write_down(self._storage, connection, release, ready, case, stored, before, caller, now)


def _ids(job: ReadyJob, case: Case, request: Mapping[str, Any]) -> Ids:
    return {**key_values(job, request), "case_id": case.id}
