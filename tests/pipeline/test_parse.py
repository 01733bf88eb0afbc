"""P1: what is read, what isn't, and that nothing raises."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preaction.pipeline.parse import Parsed, ParseFailure, parse_arguments
from preaction.wire.strict_json import MAX_BYTES


def nested(levels: int) -> str:
    return '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)


READ: dict[str, tuple[object, Any]] = {
    "no text": ("", {}),
    "no bytes": (b"", {}),
    "nothing": (None, {}),
    "an object": ('{"a": 1}', {"a": 1}),
    "as bytes": (b'{"a": "\xc3\xa4"}', {"a": "ä"}),
    "as a bytearray": (bytearray(b"{}"), {}),
    "blanks around it": (" \n{} ", {}),
    "a mapping": ({"a": [1, 2.5, None, True]}, {"a": [1, 2.5, None, True]}),
    "the largest integers": ({"a": 2**64 - 1, "b": -(2**63)}, {"a": 2**64 - 1, "b": -(2**63)}),
    "32 levels": (nested(32), json.loads(nested(32))),
    "a mapping of 32 levels": (json.loads(nested(32)), json.loads(nested(32))),
    "no object": ("[1]", [1]),
}

BROKEN: dict[str, object] = {
    "cut off": '{"invoice_id": "inv_481", "status": "appr',
    "a comma too many": '{"a": 1,}',
    "text behind it": '{"a": 1} thanks',
    "two objects": "{}{}",
    "blanks alone": "   ",
    "a repeated key": '{"a": 1, "a": 2}',
    "a repeated key further down": '{"x": [{"a": 1, "a": 2}]}',
    "a key in two cases": '{"to": 1, "To": 2}',
    "NaN": '{"a": NaN}',
    "Infinity": '{"a": -Infinity}',
    "a number that overflows": '{"a": 1e999}',
    "an integer past 64 bits": '{"a": 18446744073709551616}',
    "a negative integer past 64 bits": '{"a": -9223372036854775809}',
    "5,000 digits": '{"a": ' + "9" * 5000 + "}",
    "a lone surrogate": '{"a": "\\ud800"}',
    "a lone surrogate in the text": '{"a": "\ud800"}',
    "bad UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "33 levels": nested(33),
    "a mapping of 33 levels": json.loads(nested(33)),
    "7,000 levels": '{"a": ' + "[" * 7000 + "]" * 7000 + "}",
    "single quotes": "{'a': 1}",
    "a number for a mapping": 7,
    "a list for a mapping": [("a", 1)],
    "a mapping with a key that is no text": {1: "a"},
    "a mapping with a set": {"a": {1}},
    "a mapping with NaN": {"a": float("nan")},
    "a mapping with a surrogate": {"a": "\udfff"},
    "a mapping with an integer past 64 bits": {"a": [2**64]},
    "a mapping with a negative integer past 64 bits": {"a": {"b": -(2**63) - 1}},
}


@pytest.mark.parametrize("name", READ)
def test_p01_reads(name: str) -> None:
    raw, value = READ[name]
    assert parse_arguments(raw) == Parsed(value)


@pytest.mark.parametrize("name", BROKEN)
def test_p01_refuses(name: str) -> None:
    assert parse_arguments(BROKEN[name]) == ParseFailure("invalid_json")


@pytest.mark.parametrize("letter", ["a", "ä", "\N{GRINNING FACE}"])
@pytest.mark.parametrize("kind", ["text", "bytes", "mapping"])
def test_p01_counts_bytes_not_characters(letter: str, kind: str) -> None:
    width = len(letter.encode())
    fits, room = (16_384 - 8) // width, 16_384 - 8 - (16_384 - 8) // width * width
    value = {"a": letter * fits + "x" * room}
    for more, expected in (("", Parsed(value)), ("x", ParseFailure("arguments_too_large"))):
        text = json.dumps({"a": value["a"] + more}, ensure_ascii=False, separators=(",", ":"))
        assert len(text.encode()) == 16_384 + len(more)
        raw: object = {"text": text, "bytes": text.encode(), "mapping": {"a": value["a"] + more}}[kind]
        assert parse_arguments(raw) == expected


def test_p01_what_is_too_large_is_so_whatever_else_it_is() -> None:
    for broken in ("{" * 17, "\ud800" * 6, b"\xff" * 17, {"a": "xxx", "b": {"c": "x" * 8}}):
        assert parse_arguments(broken, max_bytes=16) == ParseFailure("arguments_too_large")


def test_p01_a_bound_may_be_larger_than_what_is_read_elsewhere() -> None:
    assert parse_arguments(" " * MAX_BYTES + "{}", max_bytes=MAX_BYTES + 2) == Parsed({})


def test_p01_a_mapping_that_says_the_same_list_a_thousand_times_is_measured_as_written() -> None:
    many: Any = [0] * 100
    for _ in range(5):
        many = [many] * 100
    assert parse_arguments({"a": many}) == ParseFailure("arguments_too_large")


class Hostile(Mapping[str, Any]):
    """A mapping that raises when it is read."""

    def __getitem__(self, name: str) -> Any:
        raise RuntimeError("secret")

    def __iter__(self) -> Iterator[str]:
        return iter(("a",))

    def __len__(self) -> int:
        return 1


def test_p01_a_mapping_that_raises_is_no_json() -> None:
    assert parse_arguments(Hostile()) == ParseFailure("invalid_json")


def test_p01_what_was_parsed_is_a_copy() -> None:
    mine = {"a": [1]}
    parsed = parse_arguments(mine)
    mine["a"].append(2)
    assert parsed == Parsed({"a": [1]})


@given(
    st.one_of(
        st.binary(max_size=200), st.text(max_size=200), st.sampled_from([object(), 7, 2.5, [], (), {1}, len, ...])
    )
)
def test_p01_no_input_raises(raw: object) -> None:
    assert isinstance(parse_arguments(raw), (Parsed, ParseFailure))


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=4), inner, max_size=4),
        max_leaves=12,
    )
)
def test_p01_text_and_mapping_are_read_alike(value: Any) -> None:
    assert parse_arguments(json.dumps({"v": value})) == parse_arguments({"v": value}) == Parsed({"v": value})
