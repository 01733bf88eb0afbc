"""11 · Audit: one record per proposal, append-only, written before the act and completed after it (P13).

A sink is any callable that takes a dict, sync or async. It is called once for a proposal that never came to the act,
and twice with the same `id` for one that did: `phase` "before", then "after" with everything in it.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from preaction.errors import ConfigurationError, SessionFull

Sink: TypeAlias = Callable[[dict[str, Any]], Any]


class MemoryAudit:
    """Records in this process, for tests and trials; at `max_records` it takes no more, so nothing acts any more."""

    def __init__(self, max_records: int = 100_000) -> None:
        self._max = max_records
        self._records: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Keep a record; the later one of a proposal takes the place of the earlier."""
        with self._lock:
            if len(self._records) >= self._max and record["id"] not in self._records:
                raise SessionFull("the audit is at its bound and takes no more records")
            self._records[record["id"]] = json.loads(json.dumps(dict(record)))

    def records(self) -> list[dict[str, Any]]:
        """One dict per proposal, in the order of their first record."""
        with self._lock:
            return json.loads(json.dumps(list(self._records.values())))  # type: ignore[no-any-return]


class JsonlAudit:
    """Records in a file at `path`, a line each, readable to its owner alone. Processes may share the file.

    With `durable` a line is on the disk before the act begins, at the cost of a sync. Raises `OSError` for a disk that
    can't take it, and then nothing acts; `ConfigurationError` for a path where no such file can be.
    """

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = True) -> None:
        self._path = Path(path).absolute()
        self._durable = durable
        self._lock = threading.Lock()
        try:
            os.close(self._open())
        except OSError as error:
            raise ConfigurationError(f"audit: {self._path} can't be a log: {error}") from None

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Append a line; one write, so that the lines of several processes don't mix."""
        line = json.dumps(dict(record), allow_nan=False).encode() + b"\n"
        with self._lock:
            file = self._open()
            try:
                self._append(file, line)
            finally:
                os.close(file)

    def _append(self, file: int, line: bytes) -> None:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            line = b"\n" + line  # after a line that a crash or a full disk has cut
        if os.write(file, line) != len(line):
            raise OSError("the log took a part of a record only")
        if self._durable:
            os.fsync(file)

    def records(self) -> list[dict[str, Any]]:
        """One dict per proposal, in the order of their first record. A line that was cut is left out."""
        with self._lock:
            return merged(_readable(self._path.read_bytes().splitlines()))

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)


def merged(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last record of each proposal, in the order of the first ones."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        found[record["id"]] = record
    return list(found.values())


def _readable(lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue
