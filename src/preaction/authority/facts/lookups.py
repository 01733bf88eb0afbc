"""Look-ups: facts that the authority reads by itself, so that no caller can invent them.

All that a decision needs is read at once, each look-up in a thread of its own, within one deadline and before the
database is locked for writing. Whatever goes wrong with one is a value here, a word of `Reason`: its facts are then
missing, and the case is undecided. A look-up that hangs is left behind; only so many threads can wait for each of them.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import BoundedSemaphore, Lock, Thread
from time import monotonic
from typing import Any, Final, Literal, Protocol, TypeAlias

from cachetools import TTLCache

from preaction.authority.expressions.schemas import Validator
from preaction.authority.packs.release import Known
from preaction.errors import InvalidJSON
from preaction.wire import strict_json
from preaction.wire.digest import canonical
from preaction.wire.times import write_time

DEADLINE: Final = timedelta(seconds=2)
"""For all look-ups of one decision together."""

_AT_ONCE: Final = 16
_CACHED: Final = 4096
_LOG: Final = logging.getLogger(__name__)

Ids: TypeAlias = Mapping[str, str | int | float | bool]
"""What a look-up goes by: `case_id`, and the values of the job's key by their names."""

Facts: TypeAlias = Mapping[str, Validator]
"""The facts that are wanted, by name, each with the JSON Schema (`.schema`) of its values."""

Reason: TypeAlias = Literal[
    "ambiguous",  # more than one row
    "busy",  # too many reads wait for this system already
    "error",  # the system refused the question, or something else failed
    "lacking",  # the answer has no such column or place
    "not_configured",
    "not_found",  # no row, or status 404
    "not_json",
    "null",
    "redirect",
    "status",  # another status than 200
    "timeout",
    "too_large",
    "unreachable",
    "unusable_id",  # it can't be one segment of a path
    "wrong_type",
]
"""Why a fact could not be read. It stands in the record and in the log, and holds nothing of ids, values or secrets."""


class LookupFailed(Exception):
    """A look-up has no answer, for this reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Final = reason


class Lookup(Protocol):
    """One way to read facts. `needs` are the ids that it goes by. Used from several threads at once."""

    @property
    def needs(self) -> frozenset[str]:
        """Such as `{"case_id"}`."""
        ...

    def read(self, ids: Ids, facts: Facts, seconds: float) -> Mapping[str, Any]:
        """The facts by name, as JSON values, within `seconds`. `LookupFailed`, or any other error, for no answer."""
        ...

    def close(self) -> None:
        """Close what was opened."""
        ...


class FixedLookup:
    """Facts from a table in memory, by the id of the case: for tests and small programs."""

    needs: Final = frozenset({"case_id"})

    def __init__(self, cases: Mapping[str, Mapping[str, Any]]) -> None:
        """`cases` has the facts of each case by name; it may change."""
        self._cases = cases

    def read(self, ids: Ids, facts: Facts, seconds: float) -> Mapping[str, Any]:
        """The facts of the case."""
        if ids["case_id"] not in self._cases:
            raise LookupFailed("not_found")
        return self._cases[str(ids["case_id"])]

    def close(self) -> None:
        """There is nothing to close."""


@dataclass(frozen=True, slots=True)
class _Reading:
    values: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class Settings:
    """How one look-up is used: `timeout` for each read, `cache` for how long an answer is taken again."""

    timeout: timedelta | None = None
    cache: timedelta | None = None


@dataclass(slots=True)
class Reads:
    """What was read for one decision: values with their source and time by fact, and why other facts are missing."""

    values: dict[str, tuple[Any, str, datetime]] = field(default_factory=dict)
    failed: dict[str, Reason] = field(default_factory=dict)

    def added_to(self, request: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """A stored request with this evidence. Nothing was observed later than `now`, also if a clock went back."""
        read = {
            name: {"value": value, "source": source, "observedAt": write_time(min(at, now))}
            for name, (value, source, at) in self.values.items()
        }
        failed = {"failed": dict(self.failed)} if self.failed else {}
        return {**request, "evidence": {**request["evidence"], **read}, **failed}

    def take(self, lookup: str, facts: Facts, answer: _Reading | Reason) -> None:
        """Take the answer of one look-up, fact by fact."""
        if isinstance(answer, str):
            self.failed.update(dict.fromkeys(facts, answer))
        else:
            for name, validator in facts.items():
                try:
                    self.values[name] = (_checked(validator, answer.values, name), lookup, answer.at)
                except LookupFailed as failed:
                    self.failed[name] = failed.reason
        reasons = sorted({self.failed[name] for name in facts if name in self.failed})
        if reasons:
            _LOG.warning("the lookup %s failed: %s", lookup, ", ".join(reasons))


class Lookups:
    """The look-ups that are configured, by name, and the deadline for all those of one decision."""

    def __init__(
        self,
        lookups: Mapping[str, Lookup],
        *,
        deadline: timedelta = DEADLINE,
        settings: Mapping[str, Settings] | None = None,
    ) -> None:
        """`settings` by the names of `lookups`; without them no answer is cached, and only the deadline bounds."""
        self._deadline = deadline.total_seconds()
        self._entries = {
            name: _Entry(name, lookup, (settings or {}).get(name, Settings())) for name, lookup in lookups.items()
        }
        self.known: Final[Known] = {name: lookup.needs for name, lookup in lookups.items()}
        """What a pack may name, and the ids that each needs."""

    def close(self) -> None:
        """Close all of them."""
        for entry in self._entries.values():
            entry.lookup.close()

    def read(self, wanted: Mapping[str, Facts], ids: Ids, clock: Callable[[], datetime]) -> Reads:
        """Read facts, given by the names of their look-ups, all at once. Raises nothing."""
        reads = Reads()
        if not wanted:
            return reads
        ends = monotonic() + self._deadline
        started = {
            name: self._entries[name].start(ids, facts, self._deadline, clock)
            for name, facts in wanted.items()
            if name in self._entries
        }
        wait(started.values(), timeout=max(0.0, ends - monotonic()))
        for name, facts in wanted.items():
            reads.take(name, facts, _answer(started.get(name)))
        return reads


def _answer(future: Future[_Reading | Reason] | None) -> _Reading | Reason:
    if future is None:
        return "not_configured"
    return future.result() if future.done() else "timeout"


def _checked(validator: Validator, values: Mapping[str, Any], name: str) -> Any:
    """A value as it will be stored, when it is of the fact's type."""
    if name not in values:
        raise LookupFailed("lacking")
    if values[name] is None:
        raise LookupFailed("null")
    try:
        value = strict_json.loads(canonical(values[name]))
    except InvalidJSON:
        raise LookupFailed("wrong_type") from None
    if any(validator.errors(value)):
        raise LookupFailed("wrong_type")
    return value


class _Entry:
    """One look-up with its cache and its bound."""

    def __init__(self, name: str, lookup: Lookup, settings: Settings) -> None:
        self.lookup = lookup
        self._name = name
        self._timeout = settings.timeout.total_seconds() if settings.timeout else None
        self._slots = BoundedSemaphore(_AT_ONCE)
        self._lock = Lock()
        self._cache: TTLCache[bytes, _Reading] | None = (
            TTLCache(_CACHED, settings.cache.total_seconds()) if settings.cache else None
        )

    def start(self, ids: Ids, facts: Facts, seconds: float, clock: Callable[[], datetime]) -> Future[_Reading | Reason]:
        """Begin to read, in a thread. The future always gets a result, sooner or later, and never an error."""
        future: Future[_Reading | Reason] = Future()
        seconds = min(seconds, self._timeout or seconds)
        key = canonical([dict(ids), {name: validator.schema for name, validator in facts.items()}])
        cached = self._cached(key)
        if cached is not None:
            future.set_result(cached)
            return future

        def run() -> None:
            future.set_result(self._read(ids, facts, seconds, clock, key))

        try:
            # A daemon, so that a system that never answers can't keep this process from ending.
            Thread(target=run, name=f"preaction-lookup-{self._name}", daemon=True).start()
        except RuntimeError:
            future.set_result("busy")
        return future

    def _read(
        self, ids: Ids, facts: Facts, seconds: float, clock: Callable[[], datetime], key: bytes
    ) -> _Reading | Reason:
        ends = monotonic() + seconds
        if not self._slots.acquire(timeout=seconds):
            return "busy"
        try:
            at = clock()  # before it is read: what is old counts as older, never as younger
            reading = _Reading(dict(self.lookup.read(ids, facts, max(0.0, ends - monotonic()))), at)
        except LookupFailed as failed:
            return failed.reason
        except Exception:  # noqa: BLE001 - whatever a look-up raises, its facts are missing; it may hold secrets
            return "error"
        finally:
            self._slots.release()
        if monotonic() > ends:
            return "timeout"
        if self._cache is not None:
            with self._lock:
                self._cache[key] = reading
        return reading

    def _cached(self, key: bytes) -> _Reading | None:
        if self._cache is None:
            return None
        with self._lock:
            return self._cache.get(key)
