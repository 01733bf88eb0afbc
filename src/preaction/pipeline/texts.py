"""What a pipeline keeps in a store: small texts under names that tell nothing, and counts.

What looks into the store is a procedure (`preaction.calling`): `run` makes its calls from a thread, `arun` in an event
loop, where a store that can be awaited is awaited.
"""

import hashlib
import json
from datetime import timedelta
from typing import Any, Final

from preaction.calling import Answer, Asking, Call, arun, run
from preaction.errors import InvalidJSON, SessionFull, StoreUnavailable
from preaction.stores import AsyncStore, Store, Swapped
from preaction.stores.memory import MemoryStore
from preaction.wire.digest import digest, spelled_out

KEEP_COUNTS: Final = timedelta(days=1)
"""How long a run's counts are kept after the last of its calls."""

_TRIES: Final = 10_000


def name_of_text(kind: str, *parts: str) -> str:
    """A name in the store: what it is for, and a digest of what tells it apart."""
    told = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"pipeline/{kind}/{told}"


def command_digest(value: Any) -> str:
    """`sha-256:…` of plain JSON: equal for equal values, whatever their layout; 1.0 is 1, and large integers count."""
    try:
        return digest(value)
    except InvalidJSON:
        spelled, large = spelled_out(value)
        return digest({"value": spelled, "integers": large})


class Texts:
    """The texts in one store. What the store raises, and a thread that gives no answer, is raised."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._awaited = store if isinstance(store, AsyncStore) else None
        self._in_memory = isinstance(store, MemoryStore)  # it never blocks, and needs no thread

    def look(self, name: str) -> Asking[str | None]:
        """What stands under `name`; see `Store.look`."""
        awaited = None if self._awaited is None else self._awaited.alook
        held: str | None = _value((yield Call(self._store.look, (name,), None, self._in_memory, awaited)))
        return held

    def swap(self, name: str, old: str | None, new: str | None, keep: timedelta) -> Asking[Swapped]:
        """Put `new` in the place of `old`; see `Store.swap`."""
        awaited = None if self._awaited is None else self._awaited.aswap
        swapped: Swapped = _value(
            (yield Call(self._store.swap, (name, old, new, keep), None, self._in_memory, awaited))
        )
        return swapped

    def count_one_more(self, name: str) -> Asking[int]:
        """Add one to the count under `name`, and give the new count; atomic between all who share the store."""
        held = yield from self.look(name)
        for _ in range(_TRIES):  # each time that this one fails, another one has counted
            count = (0 if held is None else int(held)) + 1
            swapped = yield from self.swap(name, held, str(count), KEEP_COUNTS)
            if swapped.done:
                return count
            held = swapped.value
        raise SessionFull("a count could not be written: too many count at the same time")

    def call(self, procedure: Asking[Any]) -> Call:
        """One call for all of a procedure's calls. An event loop makes it itself, or in one thread if it blocks."""
        return Call(run, (procedure,), quick=self._in_memory, afunction=None if self._awaited is None else arun)


def _value(answer: Answer) -> Any:
    if answer.good:
        return answer.value
    if isinstance(answer.error, Exception):
        raise answer.error
    raise StoreUnavailable("store: it gave no answer")
