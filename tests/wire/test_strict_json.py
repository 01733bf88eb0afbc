"""JSON that means one thing only. Each refusal is something that another reader takes, and takes differently."""

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from preaction.errors import InvalidJSON
from preaction.wire.strict_json import MAX_BYTES, load_object, loads

text = st.text(st.characters(codec="utf-8"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5),
    max_leaves=20,
)


@given(values, st.booleans(), st.sampled_from([None, 2]))
def test_what_json_dumps_made_is_read_as_json_loads_reads_it(value: Any, ascii_only: bool, indent: int | None) -> None:
    dumped = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    for given_as in (dumped, dumped.encode()):
        found = loads(given_as)
        assert found == json.loads(dumped)
        assert repr(found) == repr(json.loads(dumped))  # 1, 1.0 and True are equal, and not the same


@given(st.binary(max_size=200) | st.text(max_size=200))
@example(b"\xed\xa0\x80")
@example("\ud800")
@example("[" * 100_000)
@example('{"a":' * 100_000)
@example("1" * 5_000)
@example("-")
@example("\ufeff{}")
def test_nothing_but_invalid_json_is_ever_raised(data: bytes | str) -> None:
    with suppress(InvalidJSON):
        loads(data)


@given(values)
def test_what_is_read_can_be_written_and_read_again(value: Any) -> None:
    once = loads(json.dumps(value))
    assert loads(json.dumps(once)) == once


@pytest.mark.parametrize(
    "data",
    [
        '{"a":1,"a":2}',
        '{"a":1,"a":1}',
        '{"a":1,"\\u0061":2}',
        '{"x":[{"y":{"a":1,"b":2,"a":3}}]}',
        '{"":1,"":2}',
        "NaN",
        "[Infinity]",
        "[-Infinity]",
        "1e999",
        "[-1e999]",
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '{"\\ud800":1}',
        b'"\xed\xa0\x80"',
        b'"\xff"',
        b'"\xc0\xaf"',
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
        "{}".encode("utf-32"),
        "",
        " ",
        "{",
        "{}{}",
        "{} x",
        "[1,]",
        '{"a":1,}',
        "{'a':1}",
        "01",
        "+1",
        ".5",
        "1.",
        "0x1",
        "nul",
        "True",
        '"\t"',
        '"\x00"',
        '"a\nb"',
        '"\\x41"',
        "/* */ 1",
        "1 // one",
        "\u00a01",
        "[" * 300 + "]" * 300,
    ],
)
def test_what_two_readers_could_read_differently_is_refused(data: bytes | str) -> None:
    with pytest.raises(InvalidJSON):
        loads(data)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ('{"a":1,"A":2}', {"a": 1, "A": 2}),
        ('[{"a":1},{"a":2}]', [{"a": 1}, {"a": 2}]),
        ('{"a":{"a":{}}}', {"a": {"a": {}}}),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1e-999", 0.0),
        ("-0.0", -0.0),
        (" \t\r\n1 \t\r\n", 1),
        ("[" * 190 + "]" * 190, json.loads("[" * 190 + "]" * 190)),
    ],
)
def test_what_means_one_thing_is_read(data: str, value: Any) -> None:
    assert loads(data) == loads(data.encode()) == value


def test_minus_zero_and_tiny_numbers_keep_their_sign() -> None:
    assert math.copysign(1, loads("-0.0")) == -1  # type: ignore[arg-type]


def test_the_repeated_key_is_named_and_cut_short() -> None:
    with pytest.raises(InvalidJSON, match='the key "b" is repeated'):
        loads('{"a":1,"b":2,"b":3,"a":4}'.replace('"a":4', '"c":4'))
    with pytest.raises(InvalidJSON) as raised:
        loads(f'{{"{"k" * 500}":1,"{"k" * 500}":2}}')
    assert "k" * 80 in str(raised.value)
    assert "k" * 81 not in str(raised.value)


def test_at_most_1_mib_is_read_counted_in_bytes() -> None:
    assert loads(b"1".rjust(MAX_BYTES)) == 1
    for data in (b"1".rjust(MAX_BYTES + 1), "1".rjust(MAX_BYTES + 1), '"' + "\u00e9" * (MAX_BYTES // 2) + '"'):
        with pytest.raises(InvalidJSON, match="at most 1048576 are read"):
            loads(data)
    with pytest.raises(InvalidJSON, match="3 bytes long; at most 2"):
        loads(b"123", max_bytes=2)


def test_an_object_where_only_an_object_will_do() -> None:
    assert load_object(b'{"a":[]}') == {"a": []}
    for data in (b"[]", b"1", b'"{}"', b"null", b"true"):
        with pytest.raises(InvalidJSON, match="a JSON object is needed"):
            load_object(data)
