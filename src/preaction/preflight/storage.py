"""Where records are kept (F13): only ever added, and read back as what was executed last under an action key.

A storage is any object with `persist(action_key, record)` and `load(action_key)`, each sync or async. With `claim` a
decision runs once among all processes that share the storage, else once for each storage object.
"""

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable
from weakref import WeakKeyDictionary

from preaction.errors import InvalidJSON, MisuseError, SessionFull

Record: TypeAlias = Mapping[str, Any]
"""A record as plain JSON; see `preaction.preflight.record`."""


@runtime_checkable
class Storage(Protocol):
    """What every storage does; either method may be a coroutine function. Whatever it raises, nothing acts."""

    def persist(self, action_key: str, record: Record) -> Any:
        """Add a record. What is there already stays."""
        ...

    def load(self, action_key: str) -> Any:
        """The record that was persisted last among the executed ones under this key, or None."""
        ...


@runtime_checkable
class Claiming(Protocol):
    """A storage that can say who comes first."""

    def claim(self, name: str) -> Any:
        """True for the first who claims `name`, False for everybody after, for ever and in one step."""
        ...


class MemoryStorage:
    """Records in this process, for tests and trials; at `max_records` it takes no more, so nothing acts any more."""

    def __init__(self, max_records: int = 100_000) -> None:
        self._max = max_records
        self._records: list[tuple[str, str]] = []
        self._executed: dict[str, str] = {}
        self._claims: set[str] = set()
        self._lock = threading.Lock()

    def persist(self, action_key: str, record: Record) -> None:
        """Add a record; see `Storage.persist`. `SessionFull` at the bound."""
        key, text = key_of(action_key), written(record)
        with self._lock:
            self._require_room(len(self._records))
            self._records.append((key, text))
            if is_executed(record):
                self._executed[key] = text

    def load(self, action_key: str) -> dict[str, Any] | None:
        """What was executed last; see `Storage.load`."""
        with self._lock:
            return read(self._executed.get(key_of(action_key)))

    def claim(self, name: str) -> bool:
        """Whether this is the first to claim `name`; see `Claiming.claim`. `SessionFull` at the bound."""
        with self._lock:
            if name in self._claims:
                return False
            self._require_room(len(self._claims))
            self._claims.add(name)
            return True

    def records(self, action_key: str | None = None) -> list[dict[str, Any]]:
        """The records under a key, or all of them, in the order in which they were persisted."""
        with self._lock:
            kept = [text for key, text in self._records if action_key is None or key == key_of(action_key)]
        return [json.loads(text) for text in kept]

    def _require_room(self, count: int) -> None:
        if count >= self._max:
            raise SessionFull("the storage is at its bound and takes no more records")


_CLAIMS: Final[WeakKeyDictionary[Any, MemoryStorage]] = WeakKeyDictionary()
_CLAIMS_LOCK: Final = threading.Lock()


def claim_of(storage: Storage) -> Callable[[str], Any]:
    """The storage's own `claim`, or one in this process for a storage that has none: the same for the same object."""
    if isinstance(storage, Claiming):
        return storage.claim
    with _CLAIMS_LOCK:
        try:
            return _CLAIMS.setdefault(storage, MemoryStorage(10**9)).claim
        except TypeError:  # it can't be a key: then its claims are known where this was asked
            return MemoryStorage(10**9).claim


def key_of(action_key: object) -> str:
    """The key as every database can hold it: in ASCII, and a different one for each key. `MisuseError` for no text."""
    if not isinstance(action_key, str):
        raise MisuseError(f"action_key: a text is needed, not {type(action_key).__name__}")
    return json.dumps(action_key)[1:-1]


def is_executed(record: Record) -> bool:
    """Whether the record may be what a later run rests on (F8)."""
    return record.get("execution_decision") == "executed"


def written(record: Record) -> str:
    """The record as JSON in ASCII; `InvalidJSON` for what has none. No value is in the message."""
    try:
        return json.dumps(dict(record), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidJSON(f"record: it can't be written as JSON: {type(error).__name__}") from None


def read(text: str | None) -> dict[str, Any] | None:
    """A record out of its text."""
    found: dict[str, Any] | None = None if text is None else json.loads(text)
    return found
