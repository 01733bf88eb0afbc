"""Texts made safe to look at: what can't be seen is named, and what a check found is marked where it stands.

Both give segments for a template to print; nothing here makes HTML. Counts and spans are in code points.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_LAYOUT: Final = frozenset("\n\t")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text: as it is, or the name of one character that can't be seen, such as `U+202E`."""

    text: str
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a checked text, with the numbers of the findings it lies in and of those that end with it."""

    pieces: Sequence[Piece]
    inside: Sequence[int]
    ending: Sequence[int]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a checked text."""

    name: str
    segments: Sequence[Segment]


def pieces(text: str) -> list[Piece]:
    """A text in pieces: control characters, direction marks and the like stand by themselves, under their names."""
    found: list[Piece] = []
    start = 0
    for place, char in enumerate(text):
        if char not in _LAYOUT and unicodedata.category(char) in _UNSEEN:
            found += [Piece(text[start:place])] if place > start else []
            found.append(Piece(f"U+{ord(char):04X}", unseen=True))
            start = place + 1
    return [*found, Piece(text[start:])] if start < len(text) or not found else found


def marked(content: Mapping[str, str], findings: Sequence[Mapping[str, Any]]) -> list[Field]:
    """Each field cut where a finding begins or ends; findings count from 1, in their order."""
    return [Field(name, list(_segments(text, _spans(name, text, findings)))) for name, text in content.items()]


def _spans(name: str, text: str, findings: Sequence[Mapping[str, Any]]) -> dict[int, tuple[int, int]]:
    return {
        number: (min(finding["span"][0], len(text)), min(finding["span"][1], len(text)))
        for number, finding in enumerate(findings, 1)
        if finding["field"] == name and finding["span"] is not None
    }


def _segments(text: str, spans: Mapping[int, tuple[int, int]]) -> Iterator[Segment]:
    cuts = sorted({0, len(text), *(place for span in spans.values() for place in span)})
    for number, (start, end) in spans.items():
        if start == end == 0:
            yield Segment([], [], [number])
    for start, end in pairwise(cuts):
        inside = [number for number, (first, last) in spans.items() if first <= start and end <= last]
        ending = [number for number, (_, last) in spans.items() if last == end]
        yield Segment(pieces(text[start:end]), inside, ending)
