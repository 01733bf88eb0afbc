"""What a runtime would change in a model's arguments, told from the tool's schema."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from preaction.adapters._json_schema import fits, with_defaults


class Line(BaseModel):
    sku: str
    count: int = 1


class Order(BaseModel):
    """Every kind of field that tools have."""

    name: str
    amount: float
    paid: bool
    note: str | None = None
    kind: Literal["a", "b"] = "a"
    lines: list[Line] = []
    tags: dict[str, int] = {}
    either: int | list[int] = 0
    whatever: Any = None


SCHEMA = Order.model_json_schema()
RIGHT: dict[str, Any] = {"name": "x", "amount": 5, "paid": True}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"amount": 5.5, "note": None, "kind": "b"},
        {"note": "", "lines": [{"sku": "a", "count": 2}], "tags": {"a": 1}, "either": [1]},
        {"whatever": {"a": [True]}, "lines": []},
        {"unknown": "1"},
    ],
)
def test_what_fits_is_what_pydantic_leaves_as_it_is(fields: dict[str, Any]) -> None:
    arguments = {**RIGHT, **fields}
    assert fits(SCHEMA, arguments)
    assert Order.model_validate(arguments).model_dump(exclude_unset=True).items() <= arguments.items()


@pytest.mark.parametrize(
    "fields",
    [
        {"amount": "5"},
        {"amount": True},
        {"paid": 1},
        {"paid": "true"},
        {"name": 7},
        {"note": 1},
        {"lines": [{"sku": "a", "count": "2"}]},
        {"lines": {"sku": "a"}},
        {"tags": {"a": "1"}},
        {"either": ["1"]},
        {"either": 1.0},
    ],
)
def test_what_pydantic_would_change_or_refuse_does_not_fit(fields: dict[str, Any]) -> None:
    arguments = {**RIGHT, **fields}
    assert not fits(SCHEMA, arguments)
    try:
        changed = Order.model_validate(arguments).model_dump_json(exclude_unset=True)
    except ValidationError:
        return
    assert changed != TypeAdapter(dict[str, Any]).dump_json(arguments).decode()


def test_words_that_the_sdk_s_schemas_use() -> None:
    assert fits({"allOf": [{"type": "string"}, {}]}, "x")
    assert not fits({"allOf": [{"type": "string"}, {"type": "integer"}]}, "x")
    assert fits({"type": ["string", "null"]}, None)
    assert not fits({"oneOf": [{"type": "string"}]}, 1)
    assert fits({"type": "something new"}, True)
    assert fits({"additionalProperties": False}, {"a": 1})
    assert fits({"$ref": "#/$defs/missing"}, 1)


def test_defaults_that_the_schema_shows_are_filled_in() -> None:
    assert with_defaults(SCHEMA, {"name": "x", "kind": "b"}) == {
        "name": "x", "note": None, "kind": "b", "lines": [], "tags": {}, "either": 0, "whatever": None,
    }  # fmt: skip
    assert with_defaults({}, {"a": 1}) == {"a": 1}
