"""The files of an audit's log: the newest one, and the parts that it was before. Who only reads needs no lock."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from errno import ENOENT
from pathlib import Path
from typing import BinaryIO, Final

from preaction.audit.chain import MAX_ENTRY, entry_of
from preaction.audit.chain_check import Stands

LONGEST: Final = MAX_ENTRY + 1000
"""Bytes of the longest line that is read: the largest record of an audit, in its entry."""

_PART: Final = re.compile(r"\.([0-9]{12,15})")


def parts_of(path: Path) -> list[Path]:
    """The parts of the log at `path`, oldest first."""
    named = [each for each in path.parent.iterdir() if each.name.startswith(f"{path.name}.")]
    return sorted((each for each in named if _PART.fullmatch(each.name[len(path.name) :])), key=number_of)


def number_of(part: Path) -> int:
    """The number of the last entry in a part."""
    return int(part.suffix[1:])


def logs_of(paths: Sequence[Path]) -> list[Path]:
    """Each of these files once, without those that are read as a part of another one."""
    given = {path.absolute() for path in paths}
    return [
        path
        for path in dict.fromkeys(paths)
        if not (_PART.fullmatch(path.suffix) and path.absolute().with_suffix("") in given)
    ]


def standing(path: Path) -> Iterator[Stands]:
    """What stands in a log at this moment, oldest first, also while processes write it.

    `OSError` for a log that isn't there or can't be read, and for one whose parts are removed meanwhile.
    """
    for name, file in files_of(path):
        yield from _lines(file, name, newest=name == path.name)


def files_of(path: Path) -> Iterator[tuple[str, BinaryIO]]:
    """The name and the open file of each part of a log, oldest first, and then of the newest; `OSError` as above.

    Each is closed when the next one is asked for.
    """
    with ExitStack() as stack:
        newest: BinaryIO | None = None
        with suppress(FileNotFoundError):
            newest = stack.enter_context(path.open("rb"))
        parts = parts_of(path)  # after it was opened: it may have become the last of them since
        if newest is None and not parts:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT))
        for part in parts:
            with part.open("rb") as file:
                if newest is not None and os.path.sameopenfile(file.fileno(), newest.fileno()):
                    newest = None
                yield part.name, file
        if newest is not None:
            yield path.name, newest


def _lines(file: BinaryIO, name: str, *, newest: bool) -> Iterator[Stands]:
    for number, line in enumerate(iter(lambda: file.readline(LONGEST), b""), 1):
        place, entry = f"{name}:{number}", entry_of(line.removesuffix(b"\n"))
        if entry is not None:
            yield Stands(place, entry)
        elif newest and not line.endswith(b"\n"):
            yield Stands(place, None, "an unfinished line that isn't of this log", line)
        else:
            yield Stands(place, None, "not a line of this log")
