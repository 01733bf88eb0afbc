"""Audit records in a file, an entry a line, chained, and in parts where it is rotated. Processes may share the file.

A part is the file under another name: `audit.jsonl.000000000120` ends with number 120 of the chain. Who writes holds
the lock beside the file, `audit.jsonl.lock`; who only reads needs none, and may read a copy.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from preaction.audit.chain import (
    EMPTY,
    Entry,
    Head,
    Links,
    Remembered,
    cut_note,
    entry_of,
    is_cut,
    merged,
    proposals,
    removed_note,
)
from preaction.audit.parts import LONGEST, parts_of, standing
from preaction.errors import ConfigurationError, StoreUnavailable

LOCK_S: Final = 10.0
"""How long one process waits for the others; then its record isn't taken, and nothing acts."""

_POLL_S: Final = 0.005
_BLOCK: Final = 1 << 16


class JsonlAudit:
    """Records in a file at `path`, a line each, readable to its owner alone.

    With `durable` a line is on the disk before the act begins, at the cost of a sync. Before a line that would make the
    file larger than `max_bytes`, and with `daily` before the first line of a day in UTC, the file becomes a part and a
    new one begins. Nothing is ever removed, unless `keep` says how many parts stay; the log then says what went. With
    a `key` (32 bytes at least) only who has it can write a log that verifies.

    A record that can't be taken raises, and then nothing acts: `OSError` for the disk, `StoreUnavailable` for a log
    that ends with something else than this chain, or has lost what this process has seen. `ConfigurationError` for
    options that can't be right, and for a path where no such log can be.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durable: bool = True,
        max_bytes: int | None = None,
        daily: bool = False,
        keep: int | None = None,
        key: bytes | str | None = None,
    ) -> None:
        options: dict[str, object] = {"max_bytes": max_bytes, "keep": keep}
        for name, value in options.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigurationError(f"audit: {name} is a number of 1 or more, not {value!r}")
        self._path = Path(path).absolute()
        self._durable, self._max_bytes, self._daily, self._keep = durable, max_bytes, daily, keep
        self._links = Links(key)
        self._seen = Remembered()
        self._left: tuple[int, int, Head] | None = None
        self._lock = FileLock(f"{self._path}.lock", timeout=LOCK_S, mode=0o600)
        try:
            self.head()
        except (OSError, StoreUnavailable) as error:
            raise ConfigurationError(f"audit: {self._path} can't be a log: {error}") from None

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Append a line, to a new file where the old one has become a part."""
        with self._turn():
            with self._opened() as file:
                head = self._end(file)
                entries = self._links.after(head, [record])
                if not self._is_over(file, entries):
                    self._append(file, entries)
                    return
            self._become_part(head)
            old = self._old_parts()
            notes = [removed_note(self._last_of(old[-1]))] if old else []
            with self._opened() as file:
                self._append(file, self._links.after(head, [*notes, record]))
            for part in old:  # the log says so by now; what can't be removed goes with the next one
                with suppress(OSError):
                    part.unlink()

    def head(self) -> Head:
        """The newest entry, to be kept elsewhere; number 0 and no digest for a log without one."""
        with self._turn(), self._opened() as file:
            return self._end(file)

    def records(self) -> list[dict[str, Any]]:
        """One dict per proposal over all parts, in the order of their first record. A line that was cut is left out."""
        entries = (each.entry for each in standing(self._path) if each.entry is not None)
        return merged(proposals(entries))

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self._path.parent.stat()  # a folder that is gone would be made anew for the lock
        with self._lock.acquire(poll_interval=_POLL_S):
            yield

    def _opened(self, more: int = os.O_APPEND) -> FileIO:
        """The file, made if it isn't there. By appending no line is written over, even if somebody removed the lock."""

        def owners(path: str, flags: int) -> int:
            return os.open(path, flags | os.O_CREAT | more, 0o600)

        return open(self._path, "r+b", buffering=0, opener=owners)

    # The end of the log -------------------------------------------------------------------------------------------

    def _end(self, file: FileIO) -> Head:
        """What the next line follows. A piece that a crash left becomes the log's own record of it."""
        status = os.fstat(file.fileno())
        if self._left is not None and self._left[:2] == (status.st_ino, status.st_size):
            return self._left[2]
        line, piece = _ending(file, status.st_size)
        if line is None:
            parts = parts_of(self._path)
            head = self._last_of(parts[-1]) if parts else EMPTY
        else:
            head = self._links.require_whole(entry_of(line), self._path.name).head
        ended = entry_of(piece)
        if ended is not None and self._links.is_whole(ended) and ended.follows(head):
            self._write(file, status.st_size, b"\n")  # all but the end of the line was written
            head, piece = ended.head, b""
        self._seen.hold(head, self._path.name)
        if not piece:
            return self._leave(file, head)
        if not is_cut(piece, head):
            raise StoreUnavailable(f"audit: {self._path.name} ends with something that isn't of this log")
        (note,) = self._links.after(head, [cut_note(piece)])
        with self._opened(0) as over:  # so that the piece is lost at no moment
            self._write(over, status.st_size - len(piece), note.line(), piece)
        return self._leave(file, note.head)

    def _last_of(self, part: Path) -> Head:
        with part.open("rb", buffering=0) as file:
            line, piece = _ending(file, part.stat().st_size)
        return self._links.require_whole(entry_of(line or b"") if not piece else None, part.name).head

    def _leave(self, file: FileIO, head: Head) -> Head:
        status = os.fstat(file.fileno())
        self._left = status.st_ino, status.st_size, head
        self._seen.hold(head, self._path.name)
        return head

    # Writing ------------------------------------------------------------------------------------------------------

    def _append(self, file: FileIO, entries: Sequence[Entry]) -> None:
        self._write(file, file.seek(0, os.SEEK_END), b"".join(entry.line() for entry in entries))
        self._leave(file, entries[-1].head)

    def _write(self, file: FileIO, at: int, data: bytes, before: bytes = b"") -> None:
        """Put `data` at the end of the file, from `at` on, in place of `before`; all of it, or nothing."""
        try:
            _put(file, at, data)
            if self._durable:
                os.fsync(file.fileno())
                if at == 0:
                    self._sync_directory()
        except OSError:
            with suppress(OSError):  # else the piece stays, and is known for one
                file.truncate(at)
                _put(file, at, before)
            raise

    def _sync_directory(self) -> None:
        with suppress(PermissionError):  # where directories can't be opened, they needn't be synced
            directory = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    # Parts --------------------------------------------------------------------------------------------------------

    def _is_over(self, file: FileIO, entries: Sequence[Entry]) -> bool:
        """Whether the file becomes a part before these entries: too large with them, or of another day."""
        status, added = os.fstat(file.fileno()), sum(len(entry.line()) for entry in entries)
        if status.st_size == 0:
            return False
        if self._max_bytes is not None and status.st_size + added > self._max_bytes:
            return True
        return self._daily and datetime.fromtimestamp(status.st_mtime, UTC).date() != datetime.now(UTC).date()

    def _become_part(self, head: Head) -> None:
        part = self._path.with_name(f"{self._path.name}.{head.number:012d}")
        if part.exists():  # renaming would replace it
            raise StoreUnavailable(f"audit: {part.name} is there already, and isn't of this log")
        self._path.rename(part)
        self._left = None

    def _old_parts(self) -> list[Path]:
        return [] if self._keep is None else parts_of(self._path)[: -self._keep]


def _put(file: FileIO, at: int, data: bytes) -> None:
    file.seek(at)
    if file.write(data) != len(data):
        raise OSError("the log took a part of a record only")


def _ending(file: FileIO, size: int) -> tuple[bytes | None, bytes]:
    """The last line that ends, without its end, and what stands after it; `StoreUnavailable` for too long a line."""
    data = b""
    for start in range(size - _BLOCK, -_BLOCK, -_BLOCK):
        file.seek(max(start, 0))
        data = file.read(min(_BLOCK, start + _BLOCK)) + data
        lines, end, piece = data.rpartition(b"\n")
        if end and (start <= 0 or b"\n" in lines):
            return lines.rpartition(b"\n")[2], piece
        if len(data) > LONGEST:
            raise StoreUnavailable("audit: the log ends with a line that is too long to be one of it")
    return None, data
