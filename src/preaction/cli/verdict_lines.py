"""Verdicts of a trail as they are watched: which are wanted, and each of them as one line."""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from preaction.audit.following import Line
from preaction.audit.reading import object_in, record_of
from preaction.audit.record import AuditRecord, session_digest
from preaction.cli.failing import say, warn
from preaction.cli.screen import Row, ascii_safe, marks, readable, show
from preaction.errors import InvalidJSON

_NARROW: Final = 100
"""Columns below which a terminal gets no date."""
_SHORT: Final = 8


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which verdicts are shown: those that fit every part that isn't empty."""

    denied: bool = False
    tools: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()
    sessions: tuple[str, ...] = ()
    since: datetime | None = None

    def includes(self, record: AuditRecord) -> bool:
        """Whether this one is."""
        return (
            not (self.denied and record.verdict.allow)
            and (not self.tools or record.tool in self.tools)
            and (not self.codes or record.verdict.code in self.codes)
            and (not self.sessions or any(_is_of(record, session) for session in self.sessions))
            and (self.since is None or record.at >= self.since)
        )


def _is_of(record: AuditRecord, session: str) -> bool:
    """Whether it is this session's: by its id, its digest, or the beginning of that, as it is shown."""
    if record.session is None:
        return False
    begins = len(session) >= _SHORT and record.session.removeprefix("sha-256:").startswith(session)
    return begins or record.session in (session, session_digest(session))


class Seen(NamedTuple):
    """What stands in a line: a record, as it was `given`; none; or `wrong`, why it can't be read."""

    place: str
    given: dict[str, Any] | None = None
    record: AuditRecord | None = None
    wrong: str = ""


def seen(line: Line) -> Seen:
    """Read a line of a trail."""
    if line.wrong:
        return Seen(line.place, wrong=line.wrong)
    try:
        given = object_in(line.text)
        return Seen(line.place, given, None if given is None else record_of(given))
    except InvalidJSON as error:
        return Seen(line.place, wrong=str(error))


class Screen:
    """Shows what is wanted of what is seen, and counts it; `unread` is how much could not be read."""

    def __init__(self, wanted: Wanted, *, as_json: bool) -> None:
        self._wanted = wanted
        self._as_json = as_json
        self._counts = Counter[bool]()
        self.unread = 0

    @property
    def summary(self) -> str:
        """What was shown, in words."""
        words = f"{self._counts[True]} allowed, {self._counts[False]} denied"
        return words + (f", {self.unread} could not be read" if self.unread else "")

    def show(self, each: Seen) -> None:
        """A verdict on stdout; what can't be read on stderr."""
        if each.wrong:
            self.unread += 1
            warn(f"preaction: {each.place}: {each.wrong}")
        elif each.record is not None and self._wanted.includes(each.record):
            self._counts[each.record.verdict.allow] += 1
            if self._as_json:
                say(json.dumps(each.given))
            else:
                show(row(each.record))


def row(record: AuditRecord) -> Row:
    """A verdict on one line: by its words, the colour only says it again."""
    said = record.verdict
    passed, failed, _ = marks()
    state = f"{passed} allowed" if said.allow else f"{failed} denied "
    narrow = sys.stdout.isatty() and shutil.get_terminal_size().columns < _NARROW
    label = f"{record.at:{'%H:%M:%SZ' if narrow else '%Y-%m-%dT%H:%M:%SZ'}} {state}"
    style = "good" if said.allow else "error" if said.enforced else "warning"
    return Row(label, "  ".join(map(readable, _words(record))), style, width=len(label) + 2)


def _words(record: AuditRecord) -> Iterator[str]:
    said = record.verdict
    yield ascii_safe(record.tool)
    if not said.allow:
        yield said.code
    if said.case is not None:
        yield f"case {ascii_safe(said.case)}"
    if record.session is not None:
        yield f"session {ascii_safe(record.session.removeprefix('sha-256:')[:_SHORT])}"
    if said.allow:
        return
    if not said.enforced:
        yield "not enforced"
    if said.next_step:
        yield f"next step: {said.next_step}"
    if said.escalation is not None:
        yield f"escalation: {said.escalation.id}"
