"""CEL, fail-closed."""

from typing import Any

import pytest

from preaction.authority.expressions.conditions import ConditionError, Dialect, cel_value

SCHEMAS: dict[str, Any] = {
    "facts.topic": {"type": "string"},
    "facts.amount": {"type": "number"},
    "facts.count": {"type": "integer"},
    "facts.flag": {"type": "boolean"},
    "facts.tags": {"type": "array", "items": {"type": "string"}},
    "facts.rows": {"type": "array"},
    "facts.more": {"type": "object", "properties": {"n": {"type": "number"}}},
}
DIALECT = Dialect(SCHEMAS)


@pytest.mark.parametrize(
    ("source", "facts", "holds"),
    [
        ('facts.topic == "a"', {"topic": "a"}, True),
        ('facts.topic == "a"', {"topic": "b"}, False),
        ('facts.topic == "a"', {}, None),
        ('facts.topic == "a" && facts.amount < 1.0', {"topic": "b"}, False),
        ('facts.amount < 1.0 && facts.topic == "a"', {"topic": "b"}, False),
        ('facts.topic == "a" || facts.amount < 1.0', {"topic": "a"}, True),
        ('facts.topic == "a" || facts.amount < 1.0', {"topic": "b"}, None),
        ("!(facts.amount < 1.0)", {}, None),
        ("has(facts.flag)", {"flag": False}, True),
        ("has(facts.flag)", {}, False),
        ("has( facts.flag ) && facts.flag", {"flag": False}, False),
        ("!has(facts.amount) || facts.amount < 1.0", {}, True),
        ("has(facts.more.n)", {"more": {}}, False),
        ("has(facts.more.n) && facts.more.n < 2.0", {"more": {"n": 1}}, True),
        ("facts.more.unknown == 1", {"more": {}}, None),
        ('"x" in facts.tags', {"tags": ["x"]}, True),
        ("facts.tags.all(t, t.size() == 1)", {"tags": ["😀", "é"]}, True),
        ("facts.rows[0] == 1", {"rows": [1]}, True),
        ("facts.rows[3] == 1", {"rows": [1]}, None),
        ("facts.count / 0 == 1", {"count": 1}, None),
        ("facts.count * 9223372036854775807 > 0", {"count": 2}, None),
        ("facts.amount + 0.5 == 2.5", {"amount": 2}, True),
        ("facts.count == 2", {"count": 2.0}, True),
        ('facts.topic.matches("(")', {"topic": "a"}, None),
        ('facts.topic == "\ud83d\ude00"'.encode("utf-16", "surrogatepass").decode("utf-16"), {"topic": "😀"}, True),
        ('facts.topic == "a"', {"topic": "\ud800"}, None),
        ("facts.rows.all(a, facts.rows.all(b, facts.rows.all(c, facts.rows.all(d, true))))", {"rows": [1] * 60}, None),
        ("true", {}, True),
    ],
)
def test_only_a_boolean_decides(source: str, facts: dict[str, Any], holds: bool | None) -> None:
    typed = {name: cel_value(SCHEMAS[f"facts.{name}"], value) for name, value in facts.items()}
    assert DIALECT.compile(source).holds({"facts": typed}) is holds


def test_a_value_that_is_no_boolean_is_none_whatever_it_is_in_python() -> None:
    condition = DIALECT.compile("facts.flag")
    assert [condition.holds({"facts": {"flag": value}}) for value in (True, False, 1, "true", None, [1])] == [
        True,
        False,
        None,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("source", "detail", "offset"),
    [
        ("facts.topik == 'a'", "undeclared reference to 'facts.topik'", 5),
        ("topic == 'a'", "undeclared reference to 'topic'", 0),
        ("has(facts.topik)", "undeclared reference to 'facts.topik'", 4),
        ("facts['topic'] == 'a'", "undeclared reference to 'facts'", 0),
        ("facts.topic == 1", "no matching overload", 12),
        ("facts.amount < 1", "no matching overload", 13),
        ("facts.topic", "must be a bool, and this is a STRING", None),
        ("facts.rows[0]", "must be a bool, and this is a DYN", None),
        ("facts.topic ==", "Syntax error", 14),
        ("true\n&& facts.topic == 1", "no matching overload", 20),
        ("'😀' == 'a' && nope", "undeclared reference to 'nope'", 14),
        ("has(facts)", "has() argument", 4),
        ("1 + " * 150 + "1 == 1", "", None),
        ("a" * 2001, "at most 2000", None),
        ("\ud800", "", None),
        ("", "Syntax error", None),
    ],
)
def test_a_wrong_condition_is_refused_when_it_is_published(source: str, detail: str, offset: int | None) -> None:
    with pytest.raises(ConditionError) as caught:
        DIALECT.compile(source)
    assert detail in str(caught.value)
    if offset is not None:
        assert caught.value.offset == offset


def test_a_condition_knows_what_it_reads() -> None:
    condition = DIALECT.compile('facts.topic == "facts.amount" && has(facts.flag) && facts.count > 1')
    assert condition.needs == {"facts.topic", "facts.count"}
