"""11 · Audit: one record per proposal, append-only, written before the act and completed after it (P13).

A sink is any callable that takes a dict, sync or async. It is called once for a proposal that never came to the act,
and twice with the same `id` for one that did: `phase` "before", then "after" with everything in it.
"""

import json
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any, TypeAlias

from preaction.errors import ConfigurationError, SessionFull
from preaction.options import is_async

log = logging.getLogger("preaction")

Sink: TypeAlias = Callable[[dict[str, Any]], Any]


class MemoryAudit:
    """Records in this process, for tests and trials; at `max_records` it takes no more, so nothing acts any more."""

    def __init__(self, max_records: int = 100_000) -> None:
        self._max = max_records
        self._records: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Keep a record; the later one of a proposal takes the place of the earlier."""
        with self._lock:
            if len(self._records) >= self._max and record["id"] not in self._records:
                raise SessionFull("the audit is at its bound and takes no more records")
            self._records[record["id"]] = _copy(record)

    def records(self) -> list[dict[str, Any]]:
        """One dict per proposal, in the order of their first record."""
        with self._lock:
            return json.loads(json.dumps(list(self._records.values())))  # type: ignore[no-any-return]


class Audits:
    """Several sinks as one. Each of `sinks` has to take a record, in this order, or nothing acts.

    A sink of `best_effort` may fail: Python's log says that it did, by the kind of the error, and all goes on. Sinks
    may be async; those that aren't come first. One that blocks holds up the act, of either kind. Raises
    `ConfigurationError` where no sink has to take a record.
    """

    def __init__(self, *sinks: Sink, best_effort: Sequence[Sink] = ()) -> None:
        for sink in (*sinks, *best_effort):
            if not callable(sink):
                raise ConfigurationError("audit: a sink is a function that takes a record")
        if not sinks:
            raise ConfigurationError("audit: at least one sink has to take every record")
        self._sinks = [*((sink, True) for sink in sinks), *((sink, False) for sink in best_effort)]

    def __call__(self, record: Mapping[str, Any]) -> Awaitable[None] | None:
        """Hand on a copy of the record. What is given back has to be awaited, where a sink is async."""
        waiting: list[tuple[Sink, bool]] = []
        for sink, needed in self._sinks:
            if is_async(sink):
                waiting.append((sink, needed))
                continue
            try:
                given = sink(_copy(record))
            except Exception as error:  # noqa: BLE001 - raised again where the record is needed
                _pass_over(error, needed)
                continue
            if isawaitable(given):
                waiting.append((partial(_already, given), needed))
        return _awaited(record, waiting) if waiting else None


async def _awaited(record: Mapping[str, Any], waiting: Sequence[tuple[Sink, bool]]) -> None:
    for sink, needed in waiting:
        try:
            await sink(_copy(record))
        except Exception as error:  # noqa: BLE001 - the same
            _pass_over(error, needed)


def _already(given: Awaitable[Any], record: dict[str, Any]) -> Awaitable[Any]:
    return given


def _pass_over(error: Exception, needed: bool) -> None:
    if needed:
        raise error
    told = {"code": "audit_lost"}
    log.error("a sink of the audit that need not take a record failed: %s", type(error).__name__, extra=told)


def _copy(record: Mapping[str, Any]) -> dict[str, Any]:
    """A copy, so that no sink can alter what the next one is given."""
    copied: dict[str, Any] = json.loads(json.dumps(dict(record)))
    return copied
