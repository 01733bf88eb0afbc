"""A log that is read while it is written: what stands in it, newest first, and then each line as it comes.

Its file may not be there yet, become a part, be replaced or cut short, and end in half a line. Nothing is lost unsaid:
where something can't be read, a `Line` says so.
"""

import os
from array import array
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from itertools import takewhile
from pathlib import Path
from stat import S_ISREG
from typing import Final

from preaction.audit.chain import entry_of
from preaction.audit.parts import LONGEST, number_of, parts_of
from preaction.errors import ConfigurationError

_TOO_LONG: Final = "longer than a record can be"
_HALF: Final = "the file ends in the middle of it"


@dataclass(frozen=True, slots=True)
class Line:
    """One line, without its end, at `place`, such as `trail.jsonl:7`; or `wrong`, what can't be read there, and why."""

    place: str
    text: bytes
    wrong: str = ""


class Follower:
    """Reads the log at `path` on from where it ends now.

    `ConfigurationError` for a log that can't be read, here and later, and for a folder that isn't there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with _readable(path):
            if not path.parent.is_dir():
                raise ConfigurationError(f"{path.name} can't be read: its folder isn't there")
            self._file = _opened(path)
            parts = parts_of(path)  # after it was opened: it may have become one of them since
        self._parts = [*takewhile(lambda part: self._file is None or not self._file.stands_at(part), parts)]
        self._after = number_of(self._parts[-1]) if self._parts else 0
        self._expected: int | None = self._after + 1
        if self._file is not None:
            self._file.go_to_end()
            if (last := next(self._file.backwards(), None)) is not None:
                self._expect_after(last)

    @property
    def found(self) -> bool:
        """Whether there is any file of the log yet."""
        return self._file is not None or bool(self._parts)

    def earlier(self) -> Iterator[Line]:
        """What stood in the log when it was opened, newest first, through its parts."""
        if self._file is not None:
            yield from self._file.backwards()
        for part in reversed(self._parts):
            with _readable(part):
                file = _opened(part)
            if file is None:
                yield Line(part.name, b"", "the file was removed before it was read")
                continue
            with closing(file):
                file.go_to_end()
                yield from file.half()
                yield from file.backwards()

    def new(self) -> Iterator[Line]:
        """What has come since. It ends where there is no more at this moment, and may be asked for again."""
        with _readable(self._path):
            if self._file is None:
                self._file = self._next()
            while self._file is not None:
                yield from self._read(self._file)
                if self._file.stands_at(self._path):
                    return
                yield from self._read(self._file)  # what was written before it was moved
                yield from self._file.half()
                self._file = self._next()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def _next(self) -> "_File | None":
        """What comes after the file that was read: a part that was made since, or the newest file."""
        before, file = self._file, _opened(self._path)
        for part in parts_of(self._path):  # after that was opened, as above
            if number_of(part) <= self._after:
                continue
            self._after = number_of(part)
            if (before is None or not before.stands_at(part)) and (later := _opened(part)) is not None:
                if file is not None:
                    file.close()
                file = later
                break
        self.close()
        return file

    def _read(self, file: "_File") -> Iterator[Line]:
        for line in file.lines():
            expected, number = self._expected, self._expect_after(line)
            if number is not None and expected is not None and number != expected:
                gone = f"number {expected} to {number - 1}, which stood before it, can't be read any more"
                yield Line(line.place, b"", gone if number > expected else f"the log begins anew, with number {number}")
            yield line

    def _expect_after(self, line: Line) -> int | None:
        """The number of an entry, after which the next one is expected; None for a line that is no entry."""
        entry = None if line.wrong else entry_of(line.text)
        if entry is None:
            self._expected = None
            return None
        self._after, self._expected = entry.number, entry.number + 1
        return entry.number


class _File:
    """One file of the log, held open: under whatever name it stands, it is this one that is read."""

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._raw = path.open("rb", buffering=0)
        self._starts = array("Q", [0])
        self._at = self._before = self._line = self._seen = 0
        self._too_long = False

    def stands_at(self, path: Path) -> bool:
        """Whether this is the file at `path`."""
        try:
            return os.path.samestat(path.stat(), os.fstat(self._raw.fileno()))
        except FileNotFoundError:
            return False

    def go_to_end(self) -> None:
        """Pass by all whole lines, and remember where each begins."""
        with self._buffered() as file:
            while line := file.readline(LONGEST):
                self._at += len(line)
                if line.endswith(b"\n"):
                    self._starts.append(self._at)
        self._line, self._at = len(self._starts) - 1, self._starts[-1]
        self._before = self._starts[-2] if self._line else 0

    def backwards(self) -> Iterator[Line]:
        """The lines that were passed by, the last one first."""
        with self._buffered() as file:
            for line in range(len(self._starts) - 1, 0, -1):
                start, place = self._starts[line - 1], f"{self._name}:{line}"
                length = self._starts[line] - start - 1
                file.seek(start)
                yield Line(place, file.read(length)) if length <= LONGEST else Line(place, b"", _TOO_LONG)

    def lines(self) -> Iterator[Line]:
        """The whole lines that were not read yet. Half a line at the end is left until it is whole."""
        size = os.fstat(self._raw.fileno()).st_size
        if size < self._at:
            yield self._cut(size)
        if size == self._seen:
            return
        with self._buffered() as file:
            file.seek(self._at)
            while text := file.readline(LONGEST + 1):
                whole = text.endswith(b"\n")
                self._seen = self._at + len(text)
                if not whole and len(text) <= LONGEST:
                    break
                self._before, self._at = self._at, self._seen
                too_long, self._too_long = self._too_long or not whole, not whole
                if whole:
                    self._line += 1
                    place = f"{self._name}:{self._line}"
                    yield Line(place, b"", _TOO_LONG) if too_long else Line(place, text[:-1])

    def half(self) -> Iterator[Line]:
        """What stands after the last whole line."""
        if os.fstat(self._raw.fileno()).st_size > self._at:
            yield Line(f"{self._name}:{self._line + 1}", b"", _HALF)

    def close(self) -> None:
        self._raw.close()

    def _buffered(self) -> BufferedReader:
        return open(self._raw.fileno(), "rb", closefd=False)  # anew each time: what was buffered may be written over

    def _cut(self, size: int) -> Line:
        self._seen, self._too_long = -1, False
        if size >= self._before > 0:
            place, self._at, self._line = f"{self._name}:{self._line}", self._before, self._line - 1
            return Line(place, b"", "it was taken back: who wrote it could not keep it")
        self._at = self._before = self._line = 0
        return Line(self._name, b"", "the file was cut short, and is read from its beginning")


def _opened(path: Path) -> _File | None:
    """The file at `path`; None where there is none."""
    try:
        if not S_ISREG(path.stat().st_mode):
            raise ConfigurationError(f"{path.name} can't be read: it is no regular file")
        return _File(path)
    except FileNotFoundError:
        return None


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"{path.name} can't be read: {error.strerror}") from None
