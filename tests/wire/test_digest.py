"""Digests over canonical JSON, against a second way to get there and against the vectors of RFC 8785."""

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from preaction.errors import InvalidJSON
from preaction.wire.digest import canonical, content_digest, digest

text = st.text(st.characters(codec="utf-8"))
EXACT = 2**53 - 1


def by_hand(value: Any) -> str:
    """RFC 8785 for what has no fractions: keys by UTF-16 code units, no blanks, escapes as ECMAScript writes them."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{by_hand(key)}:{by_hand(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(by_hand, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-EXACT, EXACT) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=6),
    max_leaves=15,
)


@given(values)
def test_the_canonical_form_is_the_one_made_by_hand(value: Any) -> None:
    assert canonical(value).decode() == by_hand(value)


@given(values | st.floats(allow_nan=False, allow_infinity=False) | st.lists(values | st.floats(-1e30, 1e30)))
def test_whichever_way_it_is_written_it_is_what_the_library_writes(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(st.dictionaries(text, text, max_size=5))
def test_a_text_has_the_digest_of_its_canonical_form(content: dict[str, str]) -> None:
    expected = "sha-256:" + hashlib.sha256(by_hand(content).encode()).hexdigest()
    assert content_digest(content) == expected
    assert content_digest(dict(reversed(content.items()))) == digest(content) == expected


@given(values)
def test_reading_back_what_was_digested_digests_the_same(value: Any) -> None:
    assert digest(json.loads(canonical(value))) == digest(value)


def test_the_form_is_a_name_and_64_lower_case_digits() -> None:
    assert digest({}) == "sha-256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (1.0, b"1"),
        (-0.0, b"0"),
        (1e20, b"100000000000000000000"),
        (1e21, b"1e+21"),
        (1e-7, b"1e-7"),
        (333333333.33333329, b"333333333.3333333"),
        (4.50, b"4.5"),
        (2e-3, b"0.002"),
        ('\u20ac$\u000f\nA\'B"\\\\"/', '"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'.encode()),
        ({"\U0001f600": 1, "\ufb33": 2}, '{"\U0001f600":1,"\ufb33":2}'.encode()),
        ((1, "a"), b'[1,"a"]'),
    ],
)
def test_numbers_and_texts_as_rfc_8785_has_them(value: Any, form: bytes) -> None:
    assert canonical(value) == form


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"body": "caf\u00e9"}, {"body": "cafe\u0301"}),
        ({"body": "a"}, {"body": "a "}),
        ({"body": "a"}, {"Body": "a"}),
        ({"body": "a\r\n"}, {"body": "a\n"}),
        ({"body": "a"}, {"body": "a\u200b"}),
        ({"body": ""}, {}),
        ({"a": "b,c"}, {"a": "b", "c": ""}),
    ],
)
def test_texts_that_look_alike_are_not_alike(one: dict[str, str], other: dict[str, str]) -> None:
    assert content_digest(one) != content_digest(other)


@pytest.mark.parametrize("content", [{"body": "\ud800"}, {"\udfff": "x"}, {"a": "x", "\ud83d": "\ude00"}])
def test_a_text_with_half_a_character_has_no_digest(content: dict[str, str]) -> None:
    with pytest.raises(InvalidJSON, match=r"^no canonical JSON: "):
        content_digest(content)


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        2**53 + 1,
        -(2**53) - 1,
        10**30,
        "\ud800",
        {"\udc00": 1},
        {1: 2},
        {None: 1},
        {"a": {1}},
        b"bytes",
        object(),
        [deep()],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_canonical_form_is_refused_and_not_quoted(value: Any) -> None:
    with pytest.raises(InvalidJSON, match=r"^no canonical JSON: \w+$"):
        canonical(value)
