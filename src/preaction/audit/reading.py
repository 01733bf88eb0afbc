"""Records of the gate's audit as they stand in a log: a line each, bare or in a chain's entry."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from preaction._core.verdict import Verdict
from preaction.audit.parts import LONGEST, files_of
from preaction.audit.record import AuditRecord, Said, verdict_from
from preaction.errors import ConfigurationError, InvalidJSON
from preaction.wire.strict_json import load_object


def records(path: Path) -> Iterator[AuditRecord]:
    """The records in a log: in the file at `path` and the parts that it was before, oldest first; or on stdin for `-`.

    A chain's own notes are left out. Raises `InvalidJSON`, which names the line, for one that is no record of the
    gate's, and `ConfigurationError` for a file that can't be read.
    """
    for place, given in objects(path):
        try:
            yield record_of(given)
        except InvalidJSON as error:
            raise InvalidJSON(f"{place}: {error}") from None


def objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """What stands in the lines of a log, each with its place, as `records` reads it; of a chain's entry the record."""
    piped = str(path) == "-"
    try:
        for name, file in [("stdin", sys.stdin.buffer)] if piped else files_of(path):
            yield from _objects(name, file)
    except OSError as error:
        raise ConfigurationError(f"{'stdin' if piped else path.name} can't be read: {error.strerror}") from None


def _objects(name: str, file: BinaryIO) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), 1):
        place = f"{name}:{number}"
        try:
            given = object_in(line)
        except InvalidJSON as error:
            raise InvalidJSON(f"{place}: {error}") from None
        if given is not None:
            yield place, given


def object_in(line: bytes) -> dict[str, Any] | None:
    """The object in one line; of a chain's entry the record alone, and None for its own notes and an empty line."""
    if not line.strip():
        return None
    given = load_object(line, max_bytes=LONGEST)
    record = given.get("record")
    if isinstance(record, dict) and "number" in given:
        given = record
    return given if "log" not in given or "kind" in given else None


def record_of(given: dict[str, Any]) -> AuditRecord:
    """The record in a JSON object; `InvalidJSON` names the place of what hasn't its shape."""
    if given.get("kind") != "check":
        raise InvalidJSON("not a record of the gate's audit: its kind isn't 'check'")
    try:
        return AuditRecord.model_validate(given)
    except ValidationError as error:
        raise InvalidJSON(f"not a record of the gate's audit: {_first(error)}") from None


def verdict_in(given: dict[str, Any]) -> Verdict:
    """The verdict in a JSON object as `preaction check --json` prints it; `InvalidJSON` names the place."""
    tool, digest = given.get("tool"), given.get("callDigest")
    if not isinstance(tool, str) or not isinstance(digest, str):
        raise InvalidJSON("neither a record of the gate's audit nor a verdict: 'tool' and 'callDigest' are needed")
    try:
        return verdict_from(Said.model_validate(given), tool, digest)
    except ValidationError as error:
        raise InvalidJSON(f"not a verdict: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
