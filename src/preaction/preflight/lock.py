"""One action key at a time (F15): a lock port, and a lock over any store of ours."""

import hashlib
import secrets
from datetime import timedelta
from typing import Any, Final, Protocol, runtime_checkable

from preaction.errors import ConfigurationError
from preaction.options import read_store
from preaction.stores import Store
from preaction.stores.memory import MemoryStore

KEEP: Final = timedelta(minutes=10)
"""How long a lock stays taken after a process that died with it. Longer than any tool may take."""


@runtime_checkable
class Lock(Protocol):
    """What every lock does; either method may be a coroutine function. One that raises holds the act."""

    def take(self, action_key: str) -> Any:
        """What to give back, for the one who has the key now; None or False for everybody else. Nobody waits."""
        ...

    def free(self, action_key: str, taken: Any) -> Any:
        """Give back what `take` gave."""
        ...


class StoreLock:
    """A lock over a store: in this process by default, a `SQLiteStore` for one machine, a `RedisStore` for several.

    What is taken is free again after `keep`, so a tool has to be done by then. Raises `ConfigurationError` for what
    can't be right.
    """

    def __init__(self, store: Store | None = None, *, keep: timedelta = KEEP) -> None:
        given: object = keep
        if not (isinstance(given, timedelta) and given > timedelta(0)):
            raise ConfigurationError("keep: a timedelta above 0 is needed")
        self._store = MemoryStore() if store is None else read_store(store)
        self._keep = keep

    def take(self, action_key: str) -> str | None:
        """See `Lock.take`."""
        taken = secrets.token_hex(16)
        return taken if self._store.swap(_name(action_key), None, taken, self._keep).done else None

    def free(self, action_key: str, taken: str) -> None:
        """See `Lock.free`. Where the time is over, another's stays."""
        self._store.swap(_name(action_key), taken, None, self._keep)


def _name(action_key: str) -> str:
    return "preflight/lock/" + hashlib.sha256(action_key.encode("utf-8", "surrogatepass")).hexdigest()
