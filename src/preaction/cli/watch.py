"""`preaction watch`: verdicts as they come, from the trail that gates write."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from preaction.cli.failing import fail, told, warn
from preaction.cli.screen import ascii_safe

if TYPE_CHECKING:
    from preaction.audit.following import Follower, Line
    from preaction.cli.verdict_lines import Seen, Wanted

UNREAD: Final = 1
"""The exit code where something in the trail could not be read."""
INTERRUPTED: Final = 130
_POLL_S: Final = 0.2
_OUT_OF_ORDER: Final = timedelta(minutes=1)
"""A record has the time of its check; then its writer may have waited for others, for seconds."""


def _codes() -> list[str]:
    from preaction.cli.verdict_words import WHAT_TO_DO

    return [*WHAT_TO_DO]


def watch(
    trail: Annotated[
        Path, typer.Argument(help="The file of the gate's audit, which need not be there yet; - for stdin.")
    ],
    last: Annotated[int, typer.Option(min=0, help="Begin with the last so many verdicts that are wanted.")] = 10,
    since: Annotated[
        str | None, typer.Option(help="Begin with those since then, instead: PT15M ago, or 2026-11-30T09:00:00Z.")
    ] = None,
    denied: Annotated[bool, typer.Option("--denied", help="Only denials.")] = False,
    tool: Annotated[list[str] | None, typer.Option(help="Only this tool.")] = None,
    code: Annotated[
        list[str] | None, typer.Option(help="Only this code, such as stale.", autocompletion=_codes)
    ] = None,
    session: Annotated[
        list[str] | None, typer.Option(help="Only this session: its id, its digest, or how that begins.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when what is there now was shown.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each record as a line of JSON.")] = False,
) -> None:
    """Show verdicts as gates record them, a line each: when, the tool, allowed or the code, the case, the session.

    It goes on until Ctrl-C, while the file is rotated, replaced or not there yet. What can't be read is named on
    stderr, and passed by. --tool, --code and --session may be given repeatedly.
    """
    from preaction.cli.verdict_lines import Screen, Wanted

    begin = None if since is None else _time(since)
    if unknown := {*(code or ())} - {*_codes()}:
        fail(f"preaction: --code: there is no code {min(unknown)!a}; there are {', '.join(_codes())}")
    wanted = Wanted(denied, frozenset(tool or ()), frozenset(code or ()), tuple(session or ()), begin)
    screen, ended = Screen(wanted, as_json=as_json), 0
    try:
        with told():
            for each in _seen(trail, wanted, last, once):
                screen.show(each)
    except KeyboardInterrupt:
        ended = INTERRUPTED
    warn(f"preaction: {screen.summary}")
    raise typer.Exit(ended or (UNREAD if screen.unread else 0))


def _seen(trail: Path, wanted: "Wanted", last: int, once: bool) -> "Iterator[Seen]":
    from preaction.audit.following import Follower
    from preaction.cli.verdict_lines import seen

    if str(trail) == "-":
        yield from map(seen, _piped())
        return
    with closing(Follower(trail)) as follower:
        if once and not follower.found:
            fail(f"preaction: {ascii_safe(trail.name)} can't be read: there is no such file")
        yield from _beginning(follower, wanted, last)
        if not once:
            there = "" if follower.found else ", which isn't there yet"
            warn(f"preaction: watching {ascii_safe(trail.name)}{there}; Ctrl-C ends it")
        yield from map(seen, follower.new())
        while not once:
            time.sleep(_POLL_S)
            yield from map(seen, follower.new())


def _beginning(follower: "Follower", wanted: "Wanted", last: int) -> "Sequence[Seen]":
    """What to begin with, oldest first."""
    from preaction.cli.verdict_lines import seen

    found, left = list["Seen"](), last
    lines = map(seen, follower.earlier())
    while wanted.since is not None or left:
        if (each := next(lines, None)) is None:
            break
        if each.record is not None:
            if wanted.since is not None and each.record.at < wanted.since - _OUT_OF_ORDER:
                break
            if not wanted.includes(each.record):
                continue
            left -= 1
        found.append(each)
    return found[::-1]


def _piped() -> "Iterator[Line]":
    from preaction.audit.following import Line
    from preaction.audit.parts import LONGEST

    for number, text in enumerate(iter(partial(sys.stdin.buffer.readline, LONGEST + 1), b""), 1):
        yield Line(f"stdin:{number}", text)


def _time(text: str) -> datetime:
    from pydantic import TypeAdapter

    from preaction.wire.times import read_time

    try:
        if not text.startswith("P"):
            return read_time(text)
        return datetime.now(UTC) - TypeAdapter(timedelta).validate_python(text)
    except (ValueError, OverflowError):
        fail("preaction: --since is an age in ISO 8601, as PT15M, or a time with a zone, as 2026-11-30T09:00:00Z")
