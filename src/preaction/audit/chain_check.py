"""An audit's chain, judged entry by entry: what was altered, dropped, reordered, inserted, replaced or cut, and where.

What no chain can show by itself: that its end was cut off, or, without a key, that all of it was written anew. A head
that was kept elsewhere shows both.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from preaction.audit.chain import EMPTY, Entry, Head, Links, is_cut, record_in, removed_in
from preaction.errors import ConfigurationError

Kind: TypeAlias = Literal["altered", "dropped", "reordered", "inserted", "replaced"]

_ALTERED = "not what was written"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `number` is the entry's in the chain, up to `last` for several that were dropped.

    `place` is the line of a file, as `audit.jsonl:7`, or the log; `id` that of the proposal. `kind`: `altered`;
    `dropped`; `reordered`, which stands behind a later one; `inserted`, where the chain has no room for it; `replaced`,
    whole by itself but not the entry that the one after it follows.
    """

    kind: Kind
    place: str
    number: int | None
    id: str | None
    detail: str
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Stands:
    """What stands at one place of a log: an entry, or none where it can't be read as one.

    `wrong` says what doesn't fit the entry, if anything; `piece` is an unfinished line at the very end.
    """

    place: str
    entry: Entry | None
    wrong: str = ""
    piece: bytes | None = None


class Check:
    """One walk over a log. `findings` may be read once; the counts stand when it has ended.

    `heads` are digests that were kept elsewhere: the log must hold each. Raises `ConfigurationError` for a key that is
    too short.
    """

    def __init__(self, key: bytes | str | None = None, heads: Iterable[str] = ()) -> None:
        self._links = Links(key)
        self._missing = {digest: f"the head {digest} is not in the log" for digest in heads}
        self._expected = 1
        self._digest = EMPTY.digest
        self._before = ""
        self._broken: list[Stands] = []
        self._gaps: list[tuple[int, int, str]] = []
        self._removed = EMPTY
        self.entries = 0
        self.cut: str | None = None
        self.head: Head | None = None

    @property
    def removed(self) -> int:
        """How many entries were removed as asked for."""
        return self._removed.number

    def witness(self, head: Head, detail: str) -> None:
        """The log must hold `head` as well; `detail` says what it means if it doesn't."""
        if head != EMPTY:
            self._missing.setdefault(head.digest, detail)

    def findings(self, log: str, standing: Iterable[Stands]) -> Iterator[Finding]:
        """Everything that is wrong, in the order of the log, and what is missing last.

        `ConfigurationError` for a keyed log without its key.
        """
        for each in standing:
            if each.piece is not None and self._is_crash(each.piece):
                self.cut = each.place
                continue
            self.entries += 1
            record = self._record(each)
            if each.entry is None or record is None:
                self._broken.append(each)
                continue
            yield from self._meet(each.place, each.entry, record)
        yield from self._settle(None)
        self._forget_removed()
        for first, last, digest in self._gaps:
            detail = f"the digest of number {last} was {digest}" if digest else "no entry"
            yield Finding("dropped", log, first, None, detail, last)
        for detail in self._missing.values():
            yield Finding("dropped", log, None, None, detail)

    def _record(self, standing: Stands) -> dict[str, Any] | None:
        """The record of an entry that is as it was written."""
        entry = standing.entry
        if entry is None or standing.wrong:
            return None
        if self.entries == 1 and entry.digest.startswith("hmac-") and not self._links.keyed:
            raise ConfigurationError("audit: this log has a key, and can't be verified without it")
        return record_in(entry.text) if self._links.is_whole(entry) else None

    def _is_crash(self, piece: bytes) -> bool:
        """Whether an unfinished line is what a crash leaves; after an entry that is broken nobody can say."""
        return not self._broken and is_cut(piece, Head(self._expected - 1, self._digest))

    def _meet(self, place: str, entry: Entry, record: dict[str, Any]) -> Iterator[Finding]:
        """A whole entry, at its place or at another."""
        identity = _text(record.get("id"))
        self._missing.pop(entry.digest, None)
        if (removed := removed_in(record)) is not None and self._removed.number < removed.number < entry.number:
            self._removed = removed
            self._missing.pop(removed.digest, None)
        if entry.number < self._expected:
            if self._fill_gap(entry.number):
                detail = f"it stands behind number {self._expected - 1}"
                yield Finding("reordered", place, entry.number, identity, detail)
            else:
                yield Finding("inserted", place, entry.number, identity, "another entry has this number")
            return
        yield from self._settle(entry)
        self._expected, self._digest, self._before = entry.number + 1, entry.digest, place
        self.head = entry.head

    def _settle(self, entry: Entry | None) -> Iterator[Finding]:
        """What stood broken before `entry`, or at the end, and whether the entry follows what is before it."""
        broken, self._broken = self._broken, []
        missing = len(broken) if entry is None else entry.number - self._expected
        for index, each in enumerate(broken):
            if index < missing:
                number = self._expected + index
                yield Finding("altered", each.place, number, _identity(each), each.wrong or _ALTERED)
            else:
                yield Finding("inserted", each.place, None, _identity(each), "no entry of this log")
        if entry is None:
            return
        if missing > len(broken):
            self._gaps.append((self._expected + len(broken), entry.number - 1, entry.previous))
        elif missing == 0 and entry.previous != self._digest:
            detail = f"number {entry.number} follows another entry than this"
            yield Finding("replaced", self._before or "the beginning", entry.number - 1, None, detail)

    def _fill_gap(self, number: int) -> bool:
        """Take a number that turns up late out of those that are missing, if it is one of them."""
        index = bisect_right(self._gaps, number, key=lambda gap: gap[0]) - 1
        if index < 0 or self._gaps[index][1] < number:
            return False
        first, last, digest = self._gaps[index]
        parts = (first, number - 1, ""), (number + 1, last, digest)
        self._gaps[index : index + 1] = [part for part in parts if part[0] <= part[1]]
        return True

    def _forget_removed(self) -> None:
        """The entries that the log itself says it removed, from the first on, aren't missing."""
        if not self._gaps or self._gaps[0][0] != 1:
            return
        _, last, digest = self._gaps[0]
        if last > self._removed.number:
            first = self._removed.number + 1
            self._gaps[0] = (first, last, digest)
        elif last < self._removed.number or digest == self._removed.digest:
            del self._gaps[0]


def _identity(standing: Stands) -> str | None:
    """The id that a broken entry names, which may be part of what was altered."""
    record = None if standing.entry is None else record_in(standing.entry.text)
    return None if record is None else _text(record.get("id"))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
