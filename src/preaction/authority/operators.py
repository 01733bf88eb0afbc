"""What the authority answers to operators: publishing, revoking, looking executions up."""

import logging
from collections.abc import Collection, Mapping
from typing import Any, Final

import sqlalchemy as sa

from preaction.authority.keys import Caller
from preaction.authority.ledger import executions
from preaction.authority.ledger.head import count_revocation
from preaction.authority.ledger.shelf import Shelf
from preaction.authority.packs.changes import diff, may_grow
from preaction.authority.packs.release import Known, Release, lookup_errors, read_release
from preaction.authority.packs.yaml_text import PackError
from preaction.authority.refusal import Refused, invalid, not_found
from preaction.authority.service import Clock, Empty, parse
from preaction.authority.storage.storage import EXECUTIONS, Storage
from preaction.errors import ConfigurationError
from preaction.wire.models import Case, ExecutionPage, ExecutionSummary, ReleaseChange, ReleaseChanges, ReleaseSummary
from preaction.wire.times import read_time, write_time

PAGE: Final = 50
_COMPARED: Final = ("since",)
_EQUAL: Final = {
    "case": EXECUTIONS.c.case_id,
    "job": EXECUTIONS.c.job,
    "status": EXECUTIONS.c.status,
    "outcome": EXECUTIONS.c.outcome,
}
"""The search's parameters that a column must equal."""

_LOG: Final = logging.getLogger(__name__)
_BY_ID: Final = sa.select(EXECUTIONS).where(EXECUTIONS.c.id == sa.bindparam("id"))


class Operators:
    """The operations for operators."""

    def __init__(self, storage: Storage, shelf: Shelf, lookups: Known, clock: Clock) -> None:
        self._storage = storage
        self._lookups = lookups
        self._shelf = shelf
        self._clock = clock

    def publish(self, caller: Caller, text: str) -> tuple[ReleaseSummary, bool]:
        """Publish a pack's YAML, with True when it is new. 422 with lines and columns; 403 for a key of some jobs."""
        try:
            release = read_release(text, self._lookups)
        except PackError as error:
            raise Refused.pack(error.problems) from None
        if caller.pack != release.pack:
            raise not_found()
        if caller.jobs is not None:
            raise Refused(403, "A key for some of a pack's jobs can't publish the pack.")
        return self.keep(release)

    def keep(self, release: Release) -> tuple[ReleaseSummary, bool]:
        """Publish a compiled release, with True when it is new; 409 for a known version with other content."""
        with self._storage.writing() as connection:
            return self._shelf.publish(connection, release, write_time(self._clock()))

    def check_current(self, pack: str) -> None:
        """`ConfigurationError` when the current release, an older one perhaps, looks up what isn't configured."""
        with self._storage.reading() as connection:
            release = self._shelf.current(connection, pack)
        for job in release.jobs.values() if release else ():
            for fact, detail in lookup_errors(job, self._lookups):
                where = f"the current release {release.version}" if release else pack
                raise ConfigurationError(f"{where}, job {job.name}, fact {fact}: {detail}")

    def releases(self, caller: Caller, pack: str) -> list[ReleaseSummary]:
        """A pack's releases, newest first."""
        if pack != caller.pack:
            raise not_found()
        with self._storage.reading() as connection:
            return self._shelf.all(connection, pack)

    def changes(self, caller: Caller, pack: str, version: str, query: Mapping[str, str]) -> ReleaseChanges:
        """What a release says otherwise than the one named by `since`, by default the one published before it."""
        _known(query, _COMPARED)
        if pack != caller.pack:
            raise not_found()
        with self._storage.reading() as connection:
            since = query.get("since") or self._before(connection, pack, version)
            old, new = (self._shelf.pinned(connection, pack, each) for each in (since, version))
        if old is None or new is None:
            raise not_found()
        found = [each for each in diff(old, new) if caller.sees(pack, each.job)]
        said = [ReleaseChange(job=each.job, effect=each.effect, words=each.words) for each in found]
        return ReleaseChanges(pack=pack, since=since, release=version, may_grow=may_grow(found), changes=said)

    def _before(self, connection: sa.Connection, pack: str, version: str) -> str:
        releases = [each.release for each in self._shelf.all(connection, pack)]
        if version not in releases:
            raise not_found()
        earlier = releases[releases.index(version) + 1 :]
        if not earlier:
            raise invalid([(("since",), "this is the first release, and is compared with none before it")])
        return earlier[0]

    def revoke(self, caller: Caller, execution_id: str, body: Any) -> ExecutionSummary:
        """Revoke an execution for good; again changes nothing. 409 when its record was altered."""
        parse(Empty, body)
        with self._storage.writing() as connection:
            execution = executions.find(self._storage, connection, caller, execution_id)
            if execution.record is None:
                raise Refused(409, "The record of this execution was altered.")
            row = dict(connection.execute(_BY_ID, {"id": execution_id}).mappings().one())
            if row["revoked_at"] is None:
                row["revoked_at"] = write_time(self._clock())
                self._storage.replace(connection, EXECUTIONS, row)
                count_revocation(self._storage, connection)
        return _summary(execution.record, revoked=True)

    def executions(self, caller: Caller, query: Mapping[str, str]) -> ExecutionPage:
        """Executions that this key may see, newest first, by what the query names (see `_EQUAL`), from `cursor` on.

        Pages are stable: what is decided meanwhile is newer than every cursor, and shows on the first page alone.
        """
        statement = search(caller, query)
        with self._storage.reading() as connection:
            rows = connection.execute(statement).mappings().all()
        found = {row["id"]: self._item(dict(row)) for row in rows[:PAGE]}
        altered = [name for name, item in found.items() if item is None]
        return ExecutionPage(
            items=[item for item in found.values() if item is not None],
            next=str(rows[PAGE - 1]["number"]) if len(rows) > PAGE else None,
            **({"altered": altered} if altered else {}),
        )

    def _item(self, row: dict[str, Any]) -> ExecutionSummary | None:
        record = self._storage.records.open(row)
        if record is None or not self._storage.intact(EXECUTIONS, row):
            _LOG.warning("the record of execution %r was altered; it is not listed", row["id"])
            return None
        return _summary(record, revoked=row["revoked_at"] is not None)


def search(caller: Caller, query: Mapping[str, str]) -> sa.Select[Any]:
    """The executions of one page and the one after it; 422 for a query that is none."""
    _known(query, (*_EQUAL, "since", "cursor"))
    found = [EXECUTIONS.c.pack == caller.pack]
    if caller.jobs is not None:
        found.append(EXECUTIONS.c.job.in_(sorted(caller.jobs)))
    found += [column == query[name] for name, column in _EQUAL.items() if name in query]
    if "since" in query:
        found.append(EXECUTIONS.c.decided_at >= _since(query["since"]))
    if "cursor" in query:
        found.append(EXECUTIONS.c.number < _cursor(query["cursor"]))
    return sa.select(EXECUTIONS).where(*found).order_by(EXECUTIONS.c.number.desc()).limit(PAGE + 1)


def _known(query: Mapping[str, str], names: Collection[str]) -> None:
    unknown = [((name,), "not a parameter of this search") for name in query if name not in names]
    unknown += [((name,), "a text without NUL is needed") for name, value in query.items() if "\0" in value]
    if unknown:
        raise invalid(unknown)


def _since(text: str) -> str:
    try:
        return executions.column_time(read_time(text))
    except ValueError as error:
        raise invalid([(("since",), str(error))]) from None


def _cursor(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise invalid([(("cursor",), "not a cursor of this search")])
    return int(text)


def _summary(record: Mapping[str, Any], *, revoked: bool) -> ExecutionSummary:
    ruling = record["ruling"]
    return ExecutionSummary(
        execution_id=record["executionId"],
        job=record["job"],
        release=record["release"],
        case=Case(**record["case"]),
        status=ruling["status"],
        outcome=ruling["outcome"],
        decided_at=record["decidedAt"],
        revoked=revoked,
    )
