"""P11: a result is bounded, plain and clean before the model reads it, whatever a tool gave back."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given

from pipeline.odd import ANYTHING, Broken, Endless, Model, looped
from pipeline.office import READ, Office, raising
from preaction.pipeline import Limits
from preaction.pipeline.result import Unreadable, clean, clean_text, plain_result, text_of


@dataclass
class Row:
    id: str
    amount: Decimal


class Colour(Enum):
    RED = "red"


PLAIN: dict[str, tuple[Any, Any]] = {
    "nothing": (None, None),
    "a text": ("x", "x"),
    "a tuple": ((1, 2.5, True), [1, 2.5, True]),
    "a model": ({"m": Model()}, {"m": {"when": "2026-11-30"}}),
    "a dataclass": (Row("a", Decimal("1.10")), {"id": "a", "amount": "1.10"}),
    "an enum": ([Colour.RED], ["red"]),
    "a time": (datetime(2026, 11, 30, tzinfo=UTC), "2026-11-30T00:00:00+00:00"),
    "an id": (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
}


UNREADABLE: dict[str, tuple[Any, str]] = {
    "an object": (object(), "result_invalid"),
    "a set": ({1}, "result_invalid"),
    "bytes": (b"x", "result_invalid"),
    "a generator": ((n for n in range(3)), "result_invalid"),
    "a function": (print, "result_invalid"),
    "NaN": ([float("nan")], "result_invalid"),
    "a key that is no text": ({1: 2}, "result_invalid"),
    "a lone surrogate": ("\ud800", "result_invalid"),
    "an integer without end": (10**5000, "result_invalid"),
    "itself": (looped(), "result_invalid"),
    "a mapping that breaks": (Broken(), "result_invalid"),
    "a mapping without end": (Endless(), "result_too_large"),
    "too long": ("x" * 1001, "result_too_large"),
    "too long in bytes": ("ä" * 600, "result_too_large"),
    "too many": ([0] * 1001, "result_too_large"),
}


@pytest.mark.parametrize("name", PLAIN)
def test_p11_what_is_json_or_near_it_becomes_plain(name: str) -> None:
    value, plain = PLAIN[name]
    assert plain_result(value, max_bytes=1000) == plain


@pytest.mark.parametrize("name", UNREADABLE)
def test_p11_what_is_not_is_told_by_a_code(name: str) -> None:
    value, code = UNREADABLE[name]
    with pytest.raises(Unreadable) as unreadable:
        plain_result(value, max_bytes=1000)
    assert unreadable.value.code == code
    outcome = Office(
        tools={"get_invoice": {"run": lambda command: value, "output_schema": None, "sanitise": None}},
        limits=Limits(result_bytes=1000),
    ).read()
    assert (outcome.disposition, outcome.code, outcome.result) == ("execute", code, None)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\x00b\x1b[31mc\x7f\x85", "ab[31mc"),
        ("one\r\ntwo\tthree\rfour", "one\ntwo\tthreefour"),
        ("pay \N{RIGHT-TO-LEFT OVERRIDE}001\N{POP DIRECTIONAL FORMATTING}", "pay 001"),
        ("\N{LEFT-TO-RIGHT ISOLATE}a\N{POP DIRECTIONAL ISOLATE}\N{LEFT-TO-RIGHT MARK}", "a"),
        ("hi\U000e0049\U000e0067\U000e006e", "hi"),
        ("a\u2028b\ufeffc", "abc"),
        ("Grüße, \N{FAMILY}, \u0639\u0631\u0628\u064a", "Grüße, \N{FAMILY}, \u0639\u0631\u0628\u064a"),
    ],
)
def test_p11_what_is_not_seen_is_removed(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned
    assert clean({"k": [text], text: 1}) == {"k": [cleaned], cleaned: 1}


def test_p11_two_names_that_become_one_are_no_result() -> None:
    with pytest.raises(Unreadable):
        clean({"a": 1, "a\x00": 2})


def test_p11_the_hook_follows_the_schema_and_what_it_leaves_is_shown() -> None:
    office = Office()
    outcome = office.read()
    assert "tenant" not in outcome.result
    assert office.record()["redactions"][-1] == "result: sanitised"


@pytest.mark.parametrize(
    "hook", [raising(RuntimeError("SECRET")), lambda result: object(), lambda result: "x" * 300_000]
)
def test_p11_a_hook_that_fails_shows_nothing(hook: Any) -> None:
    outcome = Office(tools={"get_invoice": {"sanitise": hook}}).read()
    assert outcome.disposition == "execute"
    assert outcome.result is None
    assert outcome.code in ("result_invalid", "result_too_large")


def test_p11_unseen_characters_are_noted_in_the_record() -> None:
    office = Office(tools={"get_invoice": {"run": lambda command: {"id": "\u202ea", "amount": 1}}})
    outcome = office.read()
    assert outcome.result == {"id": "a", "amount": 1}
    assert office.record()["redactions"][-1] == "result: unseen characters removed"


def test_p11_an_empty_text_still_says_something() -> None:
    assert text_of("") == "(empty)"
    assert text_of({"a": "ä"}) == '{"a": "ä"}'


@given(ANYTHING)
def test_p11_whatever_a_tool_gives_back_no_exception_leaves_and_nothing_unclean_is_shown(value: Any) -> None:
    office = Office(tools={"get_invoice": {"run": lambda command: value, "output_schema": None, "sanitise": None}})
    outcome = office.read(READ)
    assert outcome.code in ("executed", "result_invalid", "result_too_large")
    assert outcome.for_model
    outcome.for_model.encode()
    assert clean_text(outcome.for_model) == outcome.for_model
    json.dumps(outcome.result, allow_nan=False)
    assert office.audit.records()
