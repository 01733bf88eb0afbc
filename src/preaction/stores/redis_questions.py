"""What `RedisStore` asks its server: for each method the script, its keys and arguments, and what the answer means.

Nothing here waits, so that what is asked from a thread and what is awaited in an event loop can't differ.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from preaction.errors import SessionFull, StoreUnavailable
from preaction.stores import Slot, Swapped

T = TypeVar("T")

Argument: TypeAlias = str | int


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """One run of a script of `redis_scripts`: its keys, without what all keys begin with, and its arguments.

    `read` gives the method's own result for the server's answer, or raises what the method raises.
    """

    script: str
    keys: Sequence[str]
    arguments: Sequence[Argument]
    read: Callable[[Any], T]


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of one store. `marker` stands in the server since the store was made, as the mark of its keys."""

    marker: str
    max_per_kind: int
    max_claims: int
    max_texts: int
    idle_ms: int

    def put(self, session: str, slots: Sequence[Slot]) -> Question[bool]:
        """Keep all of `slots` or none; see `Store.put`."""
        flat: list[Argument] = [self.idle_ms, self.max_per_kind]
        for one in slots:
            flat += [_group(one.group), one.name, one.value, *_optional(one.rank), one.kind]
        return self._marked("PUT", _session(session), flat, bool)

    def read(self, session: str, group: str, at_most: int | None = None) -> Question[list[tuple[str, str]]]:
        """The pairs of a group; see `Store.read`."""
        start = _group(group)
        limit = -1 if at_most is None else at_most
        after = start[:-1] + ";"  # what follows the colon

        def pairs(found: Sequence[bytes]) -> list[tuple[str, str]]:
            return [(name.decode(), _value(held)) for name, held in zip(found[::2], found[1::2], strict=True)]

        return self._marked("READ", _session(session), [self.idle_ms, start, after, limit], pairs)

    def read_many(self, session: str, group: str, names: Sequence[str]) -> Question[list[tuple[str, str]]]:
        """Those of `names` that exist; see `Store.read_many`."""

        def pairs(found: Sequence[bytes | None]) -> list[tuple[str, str]]:
            return [(name, _value(held)) for name, held in zip(names, found, strict=True) if held is not None]

        return self._marked("READ_MANY", _session(session), [self.idle_ms, _group(group), *names], pairs)

    def is_full(self, session: str) -> Question[bool]:
        """Whether the session had to refuse a record."""
        return self._marked("IS_FULL", _session(session), [self.idle_ms], bool)

    def claim(self, name: str, keep: timedelta, *, take: bool) -> Question[Literal["free", "taken", "full"]]:
        """Whether `name` is free, taking it with `take`; see `Store.claim`."""

        def word(said: bytes) -> Literal["free", "taken", "full"]:
            return cast(Literal["free", "taken", "full"], said.decode())

        return self._marked("CLAIM", ["claims"], [name, milliseconds(keep), self.max_claims, int(take)], word)

    def look(self, name: str) -> Question[str | None]:
        """What stands under `name`; see `Store.look`."""
        return self._marked("LOOK", [f"text:{name}"], [], lambda said: _decoded(said[0]))

    def swap(self, name: str, old: str | None, new: str | None, keep: timedelta) -> Question[Swapped]:
        """Put `new` in the place of `old`; see `Store.swap`."""

        def swapped(said: Sequence[bytes]) -> Swapped:
            if said[0] == b"full":
                raise SessionFull("the store is at its bound and takes no more texts")
            return Swapped(True, new) if said[0] == b"done" else Swapped(False, _decoded(said[1]))

        texts = [part for text in (old, new) for part in _optional(text)]
        arguments: list[Argument] = [name, *texts, milliseconds(keep), self.max_texts]
        return self._marked("SWAP", [f"text:{name}", "texts"], arguments, swapped)

    def _marked(
        self, script: str, keys: Sequence[str], arguments: Sequence[Argument], read: Callable[[Any], T]
    ) -> Question[T]:
        """A question with the marker as its first key and argument; no answer means that the marker isn't there."""

        def read_marked(answer: Any) -> T:
            if answer is None:
                raise StoreUnavailable(
                    "store: Redis no longer holds what this process wrote there: it was emptied, or is another one."
                    " Uses may be forgotten; see to it, then start the process anew"
                )
            return read(answer)

        return Question(script, ["marker", *keys], [self.marker, *arguments], read_marked)


def mark(schema_version: int, fresh: str) -> Question[str]:
    """The marker of the keys that are there, or `fresh` of those to come, when their schema is the one known here."""

    def known(said: bytes) -> str:
        marker = said.decode()
        version = marker.partition(" ")[0]
        if version != str(schema_version):
            knows = f"this version of preaction knows {schema_version}"
            raise StoreUnavailable(f"store: the keys in Redis have schema {version!r:.12}, and {knows}")
        return marker

    return Question("MARK", ["marker"], [f"{schema_version} {fresh}"], known)


def unfitness(said: bytes, *, may_forget: bool) -> str | None:
    """Why a server that says this of itself (`INFO`) can't be relied on; None where it can."""
    lines = said.decode("utf-8", "replace").splitlines()
    info = dict(line.split(":", 1) for line in lines if ":" in line)
    if info.get("role") != "master":
        return "this Redis is a replica; the store needs the server that takes writes"
    if info.get("maxmemory_policy") != "noeviction":
        return "Redis would evict keys when its memory is full: set maxmemory-policy to noeviction"
    if info.get("aof_enabled") != "1" and not may_forget:
        would = "a restart would forget which acts were done"
        return f"Redis keeps no append-only file, and {would}: set appendonly to yes"
    return None


def milliseconds(time: timedelta) -> int:
    """At least `time`, in whole milliseconds."""
    return math.ceil(time.total_seconds() * 1000)


def _session(session: str) -> list[str]:
    return [f"{part}:{session}" for part in ("head", "order", "slots")]


def _group(group: str) -> str:
    """A group so written that none begins with another."""
    return f"{len(group.encode())}:{group}:"


def _optional(text: str | None) -> tuple[str, str]:
    """A text for a script, which knows no None: whether there is one, and the text."""
    return ("0", "") if text is None else ("1", text)


def _value(held: bytes) -> str:
    """A slot's value, which stands behind its rank, which stands behind its length."""
    length, _, rest = held.partition(b":")
    return rest[int(length) :].decode()


def _decoded(held: bytes | None) -> str | None:
    return None if held is None else held.decode()
