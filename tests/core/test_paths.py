"""G6a: where a dotted path leads in a call, and what a rule opens by it."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from preaction._core.call import Call, read_call
from preaction._core.paths import MISSING, Leaf, Level, Opened, open_path, opens, parse_path


def call(**arguments: Any) -> Call:
    read = read_call("chat-7", "reply", arguments)
    assert isinstance(read, Call)
    return read


LISTED = {"To": [{"Mail": "a", "name": "b"}, 7, None, {"mail": "c"}, [{"mail": "d"}]]}


@pytest.mark.parametrize(
    ("path", "arguments", "values"),
    [
        ("to", {"TO": "a"}, ["a"]),
        ("to", {"to": ["a", "b"]}, [["a", "b"]]),
        ("to", {"to": None}, [None]),
        ("to", {"cc": "a"}, []),
        ("a.b", {"a": {"B": 1, "c": 2}}, [1]),
        ("a.b", {"a": [{"b": 1}]}, []),
        ("a.b", {"a": 7}, []),
        ("a.b.c", {"a": {"b": {"c": {"d": 1}}}}, [{"d": 1}]),
        ("to[].mail", LISTED, ["a", "c"]),
        ("to[].mail", {"to": {"mail": "a"}}, []),
        ("to[].mail", {"to": "mail"}, []),
        ("to[].mail", {"to": 7}, []),
        ("a.to[].mail", {"a": LISTED}, ["a", "c"]),
        ("a[].b[].c", {"a": [{"b": [{"c": 1}, {"c": 2}]}, {"b": [{"c": 3}]}, {"b": {"c": 4}}]}, [1, 2, 3]),
    ],
)
def test_a_path_leads_to_these_values(path: str, arguments: dict[str, Any], values: list[Any]) -> None:
    parsed = parse_path(path, "here")
    assert list(parsed.values(call(**arguments))) == values
    assert parsed.value(call(**arguments)) == (values[0] if values else MISSING)


@pytest.mark.parametrize(
    ("path", "value", "blocked"),
    [
        ("a", 7, False),
        ("a", [{"b": 1}], False),
        ("a.b", {"b": 7}, False),
        ("a.b", {"c": 7}, False),
        ("a.b", None, False),
        ("a.b", 7, True),
        ("a.b", [], True),
        ("a.b", [{"b": 1}], True),
        ("a.b.c", {"b": 7}, True),
        ("a.b.c", {"B": 7}, True),
        ("a.b.c", {"d": 7}, False),
        ("a.b.c", {"b": None, "d": 7}, False),
        ("a.b.c", {"b": {"c": 7}}, False),
        ("a[].b", [], False),
        ("a[].b", [{"b": 7}, None, {}], False),
        ("a[].b", [{"b": 7}, 7], True),
        ("a[].b", {"b": 7}, True),
        ("a[].b", 7, True),
        ("a[].b", None, False),
        ("a[].b[].c", [{"b": [{"c": 7}]}], False),
        ("a[].b[].c", [{"b": {"c": 7}}], True),
        ("a[].b[].c", [{"b": [7]}], True),
        ("a[].b[].c", [{"b": None}, {"d": 7}], False),
        ("a.b[].c", {"b": [[]]}, True),
    ],
)
def test_a_path_is_blocked_by_what_is_no_object_or_list_on_the_way(path: str, value: Any, blocked: bool) -> None:
    assert parse_path(path, "here").blocked(call(a=value)) is blocked
    assert parse_path(path, "here").blocked(call(z=value)) is False


def opened(paths: Mapping[Leaf, Sequence[str]]) -> Level:
    level: Level = {}
    for leaf, texts in paths.items():
        for text in texts:
            open_path(level, parse_path(text, "here"), leaf)
    return level


def test_what_paths_open_together() -> None:
    assert opened({"plain": ["a", "o.x", "o.y", "l[].x", "l[].y", "o.*"], "null": ["n", "o.x"]}) == {
        "a": Opened("plain"),
        "o": Opened("any", {"x": Opened("null"), "y": Opened("plain")}),
        "l": Opened(items={"x": Opened("plain"), "y": Opened("plain")}),
        "n": Opened("null"),
    }


@pytest.mark.parametrize(
    ("first", "then", "leaf"),
    [("plain", "any", "any"), ("any", "plain", "any"), ("null", "any", "null"), ("plain", "null", "null")],
)
def test_the_strongest_word_on_a_field_stands(first: Leaf, then: Leaf, leaf: Leaf) -> None:
    assert opened({first: ["a"], then: ["A"]}) == {"a": Opened(leaf)}


@pytest.mark.parametrize(
    ("path", "is_open"),
    [
        ("a", True),
        ("n", False),
        ("o", False),
        ("o.x", True),
        ("o.y", False),
        ("p.q", True),
        ("p.q.r", True),
        ("l", False),
    ],
)
def test_a_path_may_hold_a_value_where_a_rule_opens_it_for_one(path: str, is_open: bool) -> None:
    level = opened({"plain": ["a", "o.x", "p.*", "l[].x"], "null": ["n"]})
    assert opens(level, parse_path(path, "here")) is is_open
