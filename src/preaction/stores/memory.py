"""The default store: in this process, bounded. Whole sessions age out; inside a live one nothing is dropped."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Literal

from preaction.errors import SessionFull
from preaction.stores import Slot, Swapped

__all__ = ["MemoryStore"]


@dataclass(slots=True)
class _Session:
    groups: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    size: int = 0
    full: bool = False
    touched: float = 0.0


NOTHING: dict[str, tuple[str, str]] = {}


class MemoryStore:
    """Sessions, claims and texts in dictionaries, under one lock.

    A session takes `max_per_kind` new slots of each kind. When more than `max_sessions` sessions or `max_slots` slots
    are held, the sessions that were idle longest go, whole; so do those idle for `idle`. Claims and texts are kept
    apart and never dropped before their time: at `max_claims` no further claim is taken, and at `max_texts` texts, or
    `max_text_chars` characters in all of them, none is added. `clock` gives seconds, monotonically.
    """

    def __init__(
        self,
        *,
        max_per_kind: int = 20_000,
        max_sessions: int = 10_000,
        max_slots: int = 500_000,
        max_claims: int = 100_000,
        max_texts: int = 100_000,
        max_text_chars: int = 200_000_000,
        idle: timedelta = timedelta(hours=48),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_per_kind = max_per_kind
        self._max_sessions = max_sessions
        self._max_slots = max_slots
        self._max_claims = max_claims
        self._max_texts = max_texts
        self._max_text_chars = max_text_chars
        self._idle_s = idle.total_seconds()
        self._clock = clock
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._claims: dict[str, float] = {}
        self._texts: dict[str, tuple[str, float]] = {}
        self._text_chars = 0
        self._slots = 0
        self._lock = threading.Lock()

    def put(self, session: str, slots: Sequence[Slot]) -> bool:
        """Keep all of `slots` or none; see `Store.put`."""
        with self._lock:
            held = self._sessions.get(session)
            if held is None:
                held = self._sessions[session] = _Session()
            self._touch(session, held)
            new = {(one.group, one.name): one for one in slots if one.name not in held.groups.get(one.group, ())}
            fresh = list(new.values())
            if held.full or not self._has_room(held, fresh):
                held.full = True
                return False
            for slot in slots:
                group = held.groups.setdefault(slot.group, {})
                present = group[slot.name][0] if slot.name in group else ""
                rank = present if slot.rank is None else slot.rank
                if rank >= present:
                    group[slot.name] = (rank, slot.value)
            for slot in fresh:
                held.counts[slot.kind] = held.counts.get(slot.kind, 0) + 1
            held.size += len(fresh)
            self._slots += len(fresh)
            self._age_out(held)
            return True

    def read(self, session: str, group: str, at_most: int | None = None) -> list[tuple[str, str]]:
        """The pairs of a group; see `Store.read`."""
        with self._lock:
            return [(name, value) for name, (_, value) in islice(self._group(session, group).items(), at_most)]

    def read_many(self, session: str, group: str, names: Sequence[str]) -> list[tuple[str, str]]:
        """Those of `names` that exist; see `Store.read_many`."""
        with self._lock:
            held = self._group(session, group)
            return [(name, held[name][1]) for name in names if name in held]

    def is_full(self, session: str) -> bool:
        """Whether the session had to refuse a record."""
        with self._lock:
            held = self._sessions.get(session)
            return held is not None and held.full

    def claim(self, name: str, keep: timedelta, *, take: bool) -> Literal["free", "taken", "full"]:
        """Whether `name` is free, taking it with `take`; see `Store.claim`."""
        with self._lock:
            now = self._clock()
            until = self._claims.get(name)
            if until is not None and now < until:
                return "taken"
            if len(self._claims) >= self._max_claims:
                self._claims = {held: end for held, end in self._claims.items() if now < end}
                if len(self._claims) >= self._max_claims:
                    return "full"
            if take:
                self._claims[name] = now + keep.total_seconds()
            return "free"

    def look(self, name: str) -> str | None:
        """What stands under `name`; see `Store.look`."""
        with self._lock:
            return self._text(name, self._clock())

    def swap(self, name: str, old: str | None, new: str | None, keep: timedelta) -> Swapped:
        """Put `new` in the place of `old`; see `Store.swap`."""
        with self._lock:
            now = self._clock()
            held = self._text(name, now)
            if held != old:
                return Swapped(False, held)
            if new is None:
                self._drop_text(name)
                return Swapped(True, None)
            if not self._takes_text(name, new):
                for over in [each for each, (_, until) in self._texts.items() if until <= now]:
                    self._drop_text(over)
                if not self._takes_text(name, new):
                    raise SessionFull("the store is at its bound and takes no more texts")
            self._drop_text(name)
            self._texts[name] = new, now + keep.total_seconds()
            self._text_chars += len(new)
            return Swapped(True, new)

    def _text(self, name: str, now: float) -> str | None:
        value, until = self._texts.get(name, (None, now))
        return value if now < until else None

    def _takes_text(self, name: str, new: str) -> bool:
        more = len(new) - len(self._texts[name][0]) if name in self._texts else len(new)
        names = len(self._texts) + (name not in self._texts)
        return names <= self._max_texts and self._text_chars + more <= self._max_text_chars

    def _drop_text(self, name: str) -> None:
        if name in self._texts:
            self._text_chars -= len(self._texts.pop(name)[0])

    def _group(self, session: str, group: str) -> dict[str, tuple[str, str]]:
        held = self._sessions.get(session)
        if held is None:
            return NOTHING
        self._touch(session, held)
        return held.groups.get(group, NOTHING)

    def _touch(self, session: str, held: _Session) -> None:
        held.touched = self._clock()
        self._sessions.move_to_end(session)

    def _has_room(self, held: _Session, fresh: list[Slot]) -> bool:
        more: dict[str, int] = {}
        for slot in fresh:
            more[slot.kind] = more.get(slot.kind, 0) + 1
        return all(not kind or held.counts.get(kind, 0) + count <= self._max_per_kind for kind, count in more.items())

    def _age_out(self, current: _Session) -> None:
        """Drop the sessions idle longest while there are too many; never the one being written to."""
        too_old = self._clock() - self._idle_s
        while True:  # `current` is held, so this ends there at the latest
            oldest = next(iter(self._sessions.values()))
            crowded = len(self._sessions) > self._max_sessions or self._slots > self._max_slots
            if oldest is current or not (crowded or oldest.touched < too_old):
                return
            self._sessions.popitem(last=False)
            self._slots -= oldest.size
