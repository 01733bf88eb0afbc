"""The chain of an audit: every entry holds the digest of the one before it, so that none can be changed unseen.

An entry is a number, the digest before, its own digest, and a record as the exact JSON text that was written: what is
digested is that text, so a reader of any kind can't be shown another record than the one that was meant. Without a key
anybody who may write the log can write all of it anew; with one, only who has the key.
"""

import hmac
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from preaction.errors import ConfigurationError, StoreUnavailable
from preaction.wire.digest import content_digest

MAX_ENTRY: Final = 16 << 20
"""Bytes of the largest record that an audit takes, and reads."""

_SHORTEST_KEY: Final = 32
_DIGEST: Final = "(?:hmac-)?sha-256:[0-9a-f]{64}"
_BEFORE_RECORD: Final = '", "record": '
_LINE: Final = re.compile(
    rf'\{{"number": ([1-9][0-9]{{0,15}}), "previous": "({_DIGEST}|)", '
    rf'"digest": "({_DIGEST})", "record": (\{{[ -~]*\}})\}}'
)


@dataclass(frozen=True, slots=True)
class Head:
    """The newest entry of a chain, by its number and digest. Kept elsewhere, it shows when the end is cut off."""

    number: int
    digest: str


EMPTY: Final = Head(0, "")


@dataclass(frozen=True, slots=True)
class Entry:
    """One link. `previous` is the digest of the entry before, and empty in the first."""

    number: int
    previous: str
    digest: str
    text: str

    @property
    def head(self) -> Head:
        """What the next entry follows."""
        return Head(self.number, self.digest)

    def follows(self, head: Head) -> bool:
        """Whether the entry is the next one after `head`."""
        return (self.number, self.previous) == (head.number + 1, head.digest)

    def line(self) -> bytes:
        """The entry as a line of JSON, which `entry_of` reads and nothing else."""
        return f"{_opening(self.number, self.previous)}{self.digest}{_BEFORE_RECORD}{self.text}}}\n".encode("ascii")


def _opening(number: int, previous: str) -> str:
    return f'{{"number": {number}, "previous": "{previous}", "digest": "'


def entry_of(line: bytes) -> Entry | None:
    """The entry that a line without its end is, byte for byte; None for any other line."""
    match = _LINE.fullmatch(line.decode("ascii", "replace"))
    return None if match is None else Entry(int(match[1]), match[2], match[3], match[4])


def is_cut(piece: bytes, head: Head) -> bool:
    """Whether `piece` is how the entry after `head` begins: what a crash or a full disk leaves of it, and no more.

    Blocks that were never filled are zeros.
    """
    written, opening = piece.rstrip(b"\0"), _opening(head.number + 1, head.digest).encode("ascii")
    return opening.startswith(written[: len(opening)])


def read_key(key: bytes | str | None) -> bytes | None:
    """A key as bytes. `ConfigurationError` for one of fewer than 32: it could be guessed."""
    if key is None:
        return None
    secret: object = key.encode() if isinstance(key, str) else key
    if not isinstance(secret, bytes) or len(secret) < _SHORTEST_KEY:
        raise ConfigurationError(f"audit: a key is a text or bytes, {_SHORTEST_KEY} bytes at least")
    return secret


class Links:
    """Makes the entries of one chain and knows its own again, by its key or without one."""

    def __init__(self, key: bytes | str | None = None) -> None:
        self._key = read_key(key)
        self.keyed = self._key is not None

    def after(self, head: Head, records: Iterable[Mapping[str, Any]]) -> list[Entry]:
        """The entries of `records`, the first of which follows `head`. `ValueError` for a record that isn't JSON."""
        made: list[Entry] = []
        for record in records:
            text = json.dumps(dict(record), allow_nan=False)
            if len(text) > MAX_ENTRY:
                raise ValueError(f"a record has at most {MAX_ENTRY} bytes")
            entry = Entry(head.number + 1, head.digest, self._digest(head.number + 1, head.digest, text), text)
            made.append(entry)
            head = entry.head
        return made

    def is_whole(self, entry: Entry) -> bool:
        """Whether an entry is as one of this chain was written."""
        digest = self._digest(entry.number, entry.previous, entry.text)
        return hmac.compare_digest(digest.encode(), entry.digest.encode())

    def require_whole(self, entry: Entry | None, where: str) -> Entry:
        """The entry that the next one is to follow; `StoreUnavailable`, with `where`, for one of another chain."""
        if entry is None or not self.is_whole(entry):
            raise StoreUnavailable(
                f"audit: the last entry of {where} isn't one of this log: altered, or of another key. "
                "Verify the log, and begin a new one"
            )
        return entry

    def _digest(self, number: int, previous: str, text: str) -> str:
        plain = content_digest({"number": str(number), "previous": previous, "record": text})
        if self._key is None:
            return plain
        return "hmac-sha-256:" + hmac.digest(self._key, plain.encode("ascii"), "sha256").hex()


class Remembered:
    """The newest head that this process has seen. A log that has lost it since takes no further record."""

    def __init__(self) -> None:
        self._head = EMPTY

    def hold(self, head: Head, where: str) -> None:
        """Take over a head that was read; `StoreUnavailable` for one from before the newest that was seen."""
        same = head.number == self._head.number
        if head.number < self._head.number or (same and head.digest != self._head.digest):
            raise StoreUnavailable(
                f"audit: {where} has lost entries since number {self._head.number}, which this process has seen"
            )
        self._head = head

    def advance(self, head: Head) -> None:
        """Take over a head that was just written, unless another thread has written a newer one since."""
        self._head = max(self._head, head, key=lambda each: each.number)


def cut_note(piece: bytes) -> dict[str, Any]:
    """The log's own record of a piece that a crash left, in place of that piece."""
    return {"log": "cut", "text": piece.decode("ascii", "backslashreplace")}


def removed_note(head: Head) -> dict[str, Any]:
    """The log's own record of parts that were removed as asked for: all entries up to `head`."""
    return {"log": "removed", "number": head.number, "digest": head.digest}


def removed_in(record: Mapping[str, Any]) -> Head | None:
    """The head that a record of `removed_note` names; None for any other record."""
    number, digest = record.get("number"), record.get("digest")
    named = record.get("log") == "removed" and "id" not in record
    return Head(number, digest) if named and isinstance(number, int) and isinstance(digest, str) else None


def record_in(text: str) -> dict[str, Any] | None:
    """The record of an entry; None for a text that is no JSON object."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def proposals(entries: Iterable[Entry]) -> Iterable[dict[str, Any]]:
    """The records of proposals, without the log's own."""
    for entry in entries:
        record = record_in(entry.text)
        if record is not None and "id" in record:
            yield record


def merged(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last record of each proposal, in the order of the first ones."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        found[record["id"]] = record
    return list(found.values())
