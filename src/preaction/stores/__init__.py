"""Where sessions are kept: one protocol, several stores. A store knows nothing of decisions, only of slots.

A session holds groups, a group holds slots, a slot holds one text. Beside the sessions stand claims: names that can be
taken once; and texts, each under a name of its own, that change only from what they were known to be. Sessions, claims
and texts know nothing of each other's names. Every method is atomic, also between processes that share the store.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Protocol, runtime_checkable

__all__ = ["AsyncStore", "Slot", "Store", "Swapped"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One text to keep under (`group`, `name`) in a session. Where one is there, the higher or equal `rank` stays.

    Rank None takes the place of whatever is there and leaves its rank. `kind` is what the session's bound counts: new
    slots of that kind; an empty kind isn't counted.
    """

    group: str
    name: str
    value: str
    rank: str | None = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Swapped:
    """Whether a text took its place (`done`), and what stands there now; None where nothing does."""

    done: bool
    value: str | None


@runtime_checkable
class Store(Protocol):
    """What every store does. Any method may raise: the gate then denies, and a recorder hears of it."""

    def put(self, session: str, slots: Sequence[Slot]) -> bool:
        """Keep all of `slots` or none; False when the session is at its bound, which it then stays marked as."""
        ...

    def read(self, session: str, group: str, at_most: int | None = None) -> list[tuple[str, str]]:
        """The (name, value) pairs of a group in the order of their first `put`, at most so many."""
        ...

    def read_many(self, session: str, group: str, names: Sequence[str]) -> list[tuple[str, str]]:
        """Those (name, value) pairs of a group that exist among `names`."""
        ...

    def is_full(self, session: str) -> bool:
        """Whether the session ever had to refuse a record."""
        ...

    def claim(self, name: str, keep: timedelta, *, take: bool) -> Literal["free", "taken", "full"]:
        """Whether `name` is free; with `take` it is taken in the same moment, and stays so for `keep` at least."""
        ...

    def look(self, name: str) -> str | None:
        """The text that stands under `name`; None where there is none, or its time is over."""
        ...

    def swap(self, name: str, old: str | None, new: str | None, keep: timedelta) -> Swapped:
        """If `old` stands under `name` (None: nothing does), put `new` there for `keep`, which is longer than nothing.

        `new` None removes what is there. Never dropped before its time: a store that has no room for one more name
        raises `SessionFull`.
        """
        ...


@runtime_checkable
class AsyncStore(Store, Protocol):
    """A store that an event loop can await: beside each method one with an `a` before its name, by the same rules.

    An `await` that is cancelled leaves open whether it was done.
    """

    async def aput(self, session: str, slots: Sequence[Slot]) -> bool:
        """`put`, awaited."""
        ...

    async def aread(self, session: str, group: str, at_most: int | None = None) -> list[tuple[str, str]]:
        """`read`, awaited."""
        ...

    async def aread_many(self, session: str, group: str, names: Sequence[str]) -> list[tuple[str, str]]:
        """`read_many`, awaited."""
        ...

    async def ais_full(self, session: str) -> bool:
        """`is_full`, awaited."""
        ...

    async def aclaim(self, name: str, keep: timedelta, *, take: bool) -> Literal["free", "taken", "full"]:
        """`claim`, awaited."""
        ...

    async def alook(self, name: str) -> str | None:
        """`look`, awaited."""
        ...

    async def aswap(self, name: str, old: str | None, new: str | None, keep: timedelta) -> Swapped:
        """`swap`, awaited."""
        ...
