"""Texts cut for the page: every code point is there once, in order, and what can't be seen has a name."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preaction.authority.console.marking import Piece, Segment, marked, pieces


def whole(parts: list[Piece]) -> str:
    return "".join(chr(int(part.text[2:], 16)) if part.unseen else part.text for part in parts)


def finding(start: int, end: int, field: str = "body") -> dict[str, Any]:
    return {"rule": "r", "field": field, "span": [start, end], "message": "m"}


def segments(text: str, *findings: dict[str, Any]) -> list[Segment]:
    [field] = marked({"body": text}, findings)
    return list(field.segments)


@given(st.text())
def test_no_code_point_is_lost_and_none_that_is_shown_can_hide(text: str) -> None:
    parts = pieces(text)
    assert whole(parts) == text
    shown = "".join(part.text for part in parts)
    assert not [char for char in shown if unicodedata.category(char) in ("Cf", "Cs", "Zl", "Zp")]
    assert {char for char in shown if unicodedata.category(char) == "Cc"} <= {"\n", "\t"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a\u202eb", ["U+202E"]),
        ("\u200f\u2066", ["U+200F", "U+2066"]),
        ("\x00\x1b", ["U+0000", "U+001B"]),
        ("\r\n", ["U+000D"]),
        ("\ud800", ["U+D800"]),
        ("\u00ad\ufeff\u200b", ["U+00AD", "U+FEFF", "U+200B"]),
        ("\U000e0041", ["U+E0041"]),
        ("é😀\n\tء", []),
    ],
)
def test_what_can_not_be_seen_is_named(text: str, names: list[str]) -> None:
    assert [part.text for part in pieces(text) if part.unseen] == names


@given(st.text(min_size=0, max_size=30), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=6))
def test_every_text_with_any_spans_is_shown_whole_and_each_finding_ends_once(
    text: str, spans: list[tuple[int, int]]
) -> None:
    ordered = [(min(span), max(span)) for span in spans]
    found = segments(text, *(finding(start, end) for start, end in ordered))
    assert "".join(whole(list(each.pieces)) for each in found) == text
    assert sorted(number for each in found for number in each.ending) == list(range(1, len(spans) + 1))
    for number, (start, end) in enumerate(ordered, 1):
        inside = "".join(whole(list(each.pieces)) for each in found if number in each.inside)
        assert inside == text[start:end]


def test_places_are_code_points_not_bytes_nor_utf16() -> None:
    found = segments("é😀bad!", finding(2, 5))
    assert [(whole(list(each.pieces)), list(each.inside)) for each in found] == [("é😀", []), ("bad", [1]), ("!", [])]


def test_findings_that_overlap_share_their_part() -> None:
    found = segments("abcdef", finding(0, 4), finding(2, 6))
    assert [(whole(list(each.pieces)), list(each.inside), list(each.ending)) for each in found] == [
        ("ab", [1], []),
        ("cd", [1, 2], [1]),
        ("ef", [2], [2]),
    ]


def test_findings_of_other_fields_or_without_a_place_mark_nothing() -> None:
    nowhere = {"rule": "r", "field": "body", "span": None, "message": "m"}
    [only] = segments("abc", finding(0, 2, field="subject"), nowhere)
    assert (list(only.inside), list(only.ending)) == ([], [])
