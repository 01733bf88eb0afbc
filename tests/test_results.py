"""Results in every shape that runtimes hand over (G43): the same content, or a word for why not."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from preaction.results import ERROR, MAX_LAYERS, UNREADABLE, Result, read_result
from preaction.testing import FakeAuthority
from preaction.wire.models import Decision

DECISION = FakeAuthority().decide("HC-1201")
TEXT = json.dumps(DECISION)
READ = Result("ok", DECISION)


class Content(BaseModel):
    """A block of an MCP result, as the MCP packages have it."""

    type: str = "text"
    text: str | None = TEXT


class MCPResult(BaseModel):
    """An MCP result, as the MCP packages have it."""

    content: list[Content] = [Content()]
    structuredContent: dict[str, Any] | None = None  # noqa: N815
    isError: bool = False  # noqa: N815


@dataclass
class Answer:
    """An MCP result of a runtime that writes its names in snake_case."""

    content: list[Any]
    structured_content: dict[str, Any] | None = None
    is_error: bool = False


def block(text: object = TEXT) -> dict[str, Any]:
    return {"type": "text", "text": text}


IMAGE = {"type": "image", "data": "…", "mimeType": "image/png"}
CAPTION = {"type": "image", "text": TEXT}

SHAPES: dict[str, object] = {
    "a mapping": DECISION,
    "a mapping that can't be changed": MappingProxyType(DECISION),
    "a JSON text": TEXT,
    "JSON bytes": TEXT.encode(),
    "a pydantic model": type("Model", (BaseModel,), {"__annotations__": dict.fromkeys(DECISION, Any)})(**DECISION),
    "a list of one text block": [block()],
    "a tuple of one text block": (block(),),
    "a list of one text block as an object": [SimpleNamespace(type="text", text=TEXT)],
    "a list of one block without a type": [{"text": TEXT}],
    "a text block beside an image": [IMAGE, block(), SimpleNamespace(type="image", text=None)],
    "a text block beside images with texts": [CAPTION, block(), SimpleNamespace(**CAPTION)],
    "an MCP result": {"content": [block()], "isError": False},
    "an MCP result with the text escaped": {"content": [block(json.dumps(DECISION, ensure_ascii=True))]},
    "an MCP result with structured content": {"content": [block("see below")], "structuredContent": DECISION},
    "structured content in snake_case": {"content": [], "structured_content": DECISION, "is_error": False},
    "structured content that is null": {"content": [block()], "structuredContent": None, "structured_content": None},
    "structured content under `result`": {"content": [block("…")], "structuredContent": {"result": DECISION}},
    "an MCP result as a model": MCPResult(),
    "an MCP result as a model with structured content": MCPResult(content=[], structuredContent=DECISION),
    "an MCP result as an object": Answer([SimpleNamespace(type="text", text=TEXT)]),
    "an MCP result as an object with structured content": Answer([], DECISION),
    "an MCP result as an object with structured content in camelCase": SimpleNamespace(
        content=[], structuredContent=DECISION
    ),
    "an MCP result as a JSON text": json.dumps({"content": [block()], "isError": False}),
    "a JSON text in a JSON text": json.dumps({"result": TEXT}),
    "not an error": {"content": [block()], "isError": None, "is_error": False},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("wrap", [lambda result: result, lambda result: {"result": result}], ids=["bare", "wrapped"])
def test_g43_every_shape_is_read(wrap: Callable[[object], object], shape: str) -> None:
    assert read_result(wrap(SHAPES[shape])) == READ


class Aliased(BaseModel):
    """A model whose names on the wire are others, with a value that isn't JSON as it stands."""

    decided: datetime = Field(alias="decidedAt")


def test_g43_a_model_is_read_as_its_json_says_it() -> None:
    decided_at = datetime(2026, 1, 2, tzinfo=UTC)
    assert read_result(Aliased(decidedAt=decided_at)) == Result("ok", {"decidedAt": "2026-01-02T00:00:00Z"})


def test_g43_a_model_that_holds_what_it_should_not_is_read_without_a_warning() -> None:
    spoilt: dict[str, Any] = {"type": 7}
    assert read_result(Content.model_construct(**spoilt)) == Result("ok", {"type": 7, "text": TEXT})


def test_g43_our_own_models_are_read_in_wire_shape() -> None:
    read = read_result(Decision.model_validate(DECISION))
    assert read.state == "ok"
    assert Decision.model_validate(read.content) == Decision.model_validate(DECISION)


def test_structured_content_goes_before_the_text() -> None:
    assert read_result({"content": [block('{"job": "another"}')], "structuredContent": DECISION}) == READ


def test_a_field_named_result_among_others_wraps_nothing() -> None:
    fields = {"result": {"job": "x"}, "job": "y"}
    assert read_result(fields) == Result("ok", fields)


UNREADABLES: dict[str, object] = {
    "nothing": None,
    "a number": 7,
    "a boolean": True,
    "an object": object(),
    "an object with all but content": SimpleNamespace(isError=False, structuredContent=DECISION),
    "an empty text": "",
    "a text that isn't JSON": "The case is decided.",
    "JSON cut off": TEXT[:-1],
    "JSON with something behind it": TEXT + TEXT,
    "JSON in a code fence": f"```json\n{TEXT}\n```",
    "JSON with a repeated key": TEXT[:-1] + ', "status": "decided"}',
    "JSON with NaN": '{"amount": NaN}',
    "JSON null": "null",
    "a JSON number": "7",
    "a JSON list of numbers": "[7]",
    "bytes that aren't UTF-8": b"\xff{}",
    "an empty list": [],
    "two text blocks": [block(), block()],
    "two text blocks, one empty": [block(), block("")],
    "no text block": [IMAGE],
    "an image with a text": [CAPTION],
    "an image with a text as an object": [SimpleNamespace(**CAPTION)],
    "a text block without a text": [block(None)],
    "a text block whose text is no string": [block(DECISION)],
    "a list of decisions": [DECISION],
    "a set": {1, 2},
    "names that aren't strings": {1: "x"},
    "a value that isn't JSON": {"job": object()},
    "a number that isn't finite": {"amount": float("nan")},
    "a lone surrogate": {"job": "\ud800"},
    "names that fold together": {"Job": "x", "job": "y"},
    "too deep": {"a": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]},
    "structured content that is a number": {"content": [block()], "structuredContent": 7},
    "a model that can't be written out": type("Model", (BaseModel,), {"__annotations__": {"x": Any}})(x=object()),
}


@pytest.mark.parametrize("shape", UNREADABLES)
@pytest.mark.parametrize("wrap", [lambda result: result, lambda result: {"result": result}], ids=["bare", "wrapped"])
def test_g43_all_else_is_unreadable(wrap: Callable[[object], object], shape: str) -> None:
    assert read_result(wrap(UNREADABLES[shape])) == UNREADABLE


UNJSON = {"amount": float("nan")}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"case": {"id": "HC-1", "identity": "issued"}, "status": "decided"}, {"case": {"id": "HC-1"}}),
        ({"job": "help", "case": {"id": "HC-1"}}, {"job": "help", "case": {"id": "HC-1"}}),
        ({"job": "help", "entity_id": "ticket-1"}, {"job": "help", "entity_id": "ticket-1"}),
        ({"entity_id": "ticket-1", "case": "HC-1"}, {"entity_id": "ticket-1"}),
        ({"entity_id": "ticket-1", "case": {"id": 7}, "job": object()}, {"entity_id": "ticket-1"}),
        ({"entity_id": "\ud800", "job": "help"}, {}),
        ({"entity_id": object(), "case": {"id": ["HC-1"]}, "job": "help"}, {}),
        ({"job": "help"}, {}),
    ],
)
def test_g7_a_result_that_is_not_json_still_says_which_case_it_is_about(
    fields: dict[str, Any], named: dict[str, Any]
) -> None:
    assert read_result(fields | UNJSON) == Result("unreadable", named)


def test_only_so_many_wrappings_are_taken_off() -> None:
    wrapped: Any = DECISION
    for _ in range(MAX_LAYERS - 1):
        wrapped = {"result": wrapped}
    assert read_result(wrapped) == READ
    assert read_result({"result": wrapped}) == UNREADABLE
    endless: dict[str, Any] = {}
    endless["result"] = endless
    assert read_result(endless) == UNREADABLE


ERRORS: dict[str, object] = {
    "isError": {**DECISION, "isError": True},
    "is_error": {**DECISION, "is_error": True},
    "an MCP result": {"content": [block()], "isError": True},
    "an MCP result with structured content": {"content": [block()], "structuredContent": DECISION, "isError": True},
    "an MCP result as a model": MCPResult(isError=True),
    "an MCP result as an object": Answer([block()], DECISION, is_error=True),
    "an MCP result as an object in camelCase": SimpleNamespace(content=[block()], isError=True),
    "an error in the structured content": {"content": [], "structuredContent": {**DECISION, "isError": True}},
    "an error in the text": {"content": [block(json.dumps({**DECISION, "isError": True}))], "isError": False},
    "a word": {**DECISION, "isError": "false"},
    "a number": {**DECISION, "isError": 1},
    "an empty text": {**DECISION, "isError": ""},
    "an empty list": {**DECISION, "is_error": []},
    "both, one of them false": {**DECISION, "isError": False, "is_error": True},
}


@pytest.mark.parametrize("shape", ERRORS)
@pytest.mark.parametrize("wrap", [lambda result: result, lambda result: {"result": result}], ids=["bare", "wrapped"])
def test_what_is_marked_as_an_error_is_one_whatever_it_holds(wrap: Callable[[object], object], shape: str) -> None:
    assert read_result(wrap(ERRORS[shape])) == ERROR


def test_the_content_is_a_copy() -> None:
    given = {"case": {"id": "HC-1201"}}
    read = read_result(given)
    given["case"]["id"] = "HC-1"
    assert read.content == {"case": {"id": "HC-1201"}}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["content", "structuredContent", "isError", "is_error", "result", "text", "type"])
            | st.text(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_no_result_raises_and_what_is_read_is_plain_json(result: object) -> None:
    read = read_result(result)
    assert isinstance(read.content, Mapping)
    assert (read.content == {}) or read.state == "ok"
    assert json.loads(json.dumps(read.content, allow_nan=False)) == read.content
    assert read_result({"result": json.dumps(read.content)}).content == read.content or read.state != "ok"
