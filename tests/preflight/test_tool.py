"""F4, F15: what a tool requires, out of its input schema; and names that lead into nested objects."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from preaction.preflight.tool import Provided, arguments_of, parts_of, read_tool
from preaction.preflight.values import Unusable


def required(schema: Any, **more: Any) -> list[str] | str:
    found = read_tool({"name": "t", "inputSchema": schema, **more})
    return found.why if isinstance(found, Unusable) else [one.name for one in found.required]


PARTY = {"type": "object", "properties": {"iban": {"type": "string"}, "bic": {}}, "required": ["iban"]}


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"type": "object"}, []),
        ({"properties": {"a": {}}}, []),
        ({"required": ["b", "a"]}, ["b", "a"]),
        ({"properties": {"a": True}, "required": ["a"]}, ["a"]),
        ({"properties": {"to": PARTY}, "required": ["to"]}, ["/to/iban"]),
        ({"properties": {"to": PARTY}}, []),
        ({"properties": {"to": {**PARTY, "required": []}}, "required": ["to"]}, ["to"]),
        ({"properties": {"to": {**PARTY, "oneOf": [{}]}}, "required": ["to"]}, ["to"]),
        ({"properties": {"to": {"type": "array", "items": PARTY}}, "required": ["to"]}, ["to"]),
        ({"required": ["a/b", "/a", "a~b"]}, ["a/b", "/~1a", "a~b"]),
        (
            {"properties": {"a/b": {"type": "object", "required": ["c~d", "e"]}}, "required": ["a/b"]},
            ["/a~1b/c~0d", "/a~1b/e"],
        ),
        ({"$defs": {"P": PARTY}, "properties": {"to": {"$ref": "#/$defs/P"}}, "required": ["to"]}, ["/to/iban"]),
        ({"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "required": ["a"]}}}, ["a"]),
    ],
)
def test_f15_required_fields(schema: dict[str, Any], names: list[str]) -> None:
    assert required(schema) == names


def test_f15_the_schema_of_a_field_stands_alone() -> None:
    class Party(BaseModel):
        iban: str
        address: "Address"

    class Address(BaseModel):
        city: str

    class Transfer(BaseModel):
        to: Party
        notes: list[Address]

    found = read_tool({"input_schema": Transfer.model_json_schema(), "description": 7})
    assert isinstance(found, Provided)
    assert [one.name for one in found.required] == ["/to/iban", "/to/address/city", "notes"]
    assert found.required[0].schema["type"] == "string"
    assert "Address" in found.required[2].schema["$defs"]
    assert found.description == ""


TOO_DEEP: dict[str, Any] = {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (None, "tool.inputSchema: a mapping is needed, not NoneType"),
        ({}, "tool.inputSchema: a mapping is needed, not NoneType"),
        ([], "tool.inputSchema: a mapping is needed, not NoneType"),
        ("object", "tool.inputSchema: a mapping is needed, not str"),
        ({"type": "string"}, "tool.inputSchema: an object's schema is needed, with a list under 'required'"),
        ({"required": "a"}, "tool.inputSchema: an object's schema is needed, with a list under 'required'"),
        ({"properties": []}, "tool.inputSchema: an object's schema is needed, with a list under 'required'"),
        ({"required": [7]}, "tool.inputSchema.required: a name is no text"),
        ({"required": [""]}, "tool.inputSchema.required: a name is no text"),
        ({"required": ["a", "a"]}, "tool.inputSchema.required: it names a field twice"),
        ({"required": ["a"], "properties": {"a": False}}, "tool.inputSchema.properties.a: a schema is needed"),
        (
            {"required": ["a"], "properties": {"a": {"type": "object", "required": "b"}}},
            "tool.inputSchema.properties.a: an object's schema is needed, with a list under 'required'",
        ),
        ({"allOf": [{"required": ["a"]}]}, "tool.inputSchema.allOf: which fields it requires can't be told from this"),
        ({"if": {}, "then": {}}, "tool.inputSchema.if: which fields it requires can't be told from this"),
        ({"$ref": "#/$defs/T"}, "tool.inputSchema.$ref: it leads nowhere in this schema"),
        ({"$ref": "other.json"}, "tool.inputSchema.$ref: it leads nowhere in this schema"),
        ({"$ref": 7}, "tool.inputSchema.$ref: it leads nowhere in this schema"),
        ({"$ref": "#"}, "tool.inputSchema.$ref: it leads to itself"),
        ({"default": object()}, 'tool.inputSchema: a value of type object is not JSON (in "default")'),
    ],
)
def test_f4_what_can_t_be_read_is_no_tool_without_fields(schema: Any, why: str) -> None:
    assert required(schema) == why


def test_f4_a_schema_that_requires_itself_has_an_end() -> None:
    assert str(required(TOO_DEEP)).endswith(": it requires itself")
    assert read_tool("bank.transfer") == Unusable("tool: a mapping is needed")


def test_f4_a_short_schema_can_t_require_fields_without_end() -> None:
    twice = {
        f"l{level}": {
            "type": "object",
            "required": ["a", "b"],
            "properties": {name: {"$ref": f"#/$defs/l{level + 1}"} for name in "ab"},
        }
        for level in range(28)
    }
    schema = {"$ref": "#/$defs/l0", "$defs": {**twice, "l28": {"type": "string"}}}
    assert required(schema) == "tool.inputSchema: it requires more than 1000 fields"


NAME = st.text(st.sampled_from("ab/~"), min_size=1, max_size=4)
TREE = st.recursive(
    st.integers(), lambda inner: st.dictionaries(NAME, inner, min_size=1, max_size=3), max_leaves=6
).filter(lambda tree: isinstance(tree, dict))


def schema_of(tree: Any) -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {"type": "integer"}
    properties = {name: schema_of(inner) for name, inner in tree.items()}
    return {"type": "object", "properties": properties, "required": list(tree)}


def leaf(tree: Any, path: list[str]) -> Any:
    for part in path:
        tree = tree[part]
    return tree


@given(TREE)
def test_f15_the_arguments_are_exactly_the_values_in_their_places(tree: dict[str, Any]) -> None:
    names = required(schema_of(tree))
    assert isinstance(names, list)
    assert len(set(names)) == len(names)
    assert arguments_of((name, leaf(tree, parts_of(name))) for name in names) == tree


WORD = st.sampled_from(["type", "properties", "required", "$ref", "$defs", "allOf", "anyOf", "items", "a", "b", ""])
SCHEMA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["object", "array", "a", "#", "#/$defs/a", "#/a/b", "/"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORD, inner, max_size=4),
    max_leaves=12,
)


@given(SCHEMA)
def test_f4_any_schema_is_read_or_the_tool_stays_undetermined(schema: Any) -> None:
    names = required(schema)
    if isinstance(names, list):
        assert all(names)
        assert len(set(names)) == len(names)
    else:
        assert names.startswith("tool.inputSchema")
