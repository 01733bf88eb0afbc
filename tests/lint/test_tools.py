"""What lint learns of real tools: from an MCP listing, from Python functions, from their names."""

import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from preaction._core.paths import parse_path
from preaction._core.rule import read_rule
from preaction.errors import ConfigurationError
from preaction.lint.against_tools import looks_like_acting, notes_against_tools
from preaction.lint.notes import CODES
from preaction.lint.shapes import at, types_of
from preaction.lint.tools import Tool, listed_tool, load_tools, schema_of
from preaction.rules_file import RulesInFile

WORDS = st.sampled_from(
    [
        *("type", "properties", "items", "anyOf", "allOf", "$ref", "enum", "const", "required", "default", "format"),
        *("additionalProperties", "readOnlyHint", "a", "b", "c", "d"),
    ]
)
ACTING = [
    "helpdesk__reply",
    "sendEmail",
    "mail_send",
    "issue_refund",
    "update_ticket",
    "HTTPPost",
    "close",
    "note",
    "pay",
]
READING = [
    "get_update",
    "list_messages",
    "email_search",
    "check_output",
    "describe",
    "order_status",
    "weather",
    "inbox",
    "",
]


@pytest.mark.parametrize("name", ACTING)
def test_a_name_that_says_that_it_acts(name: str) -> None:
    assert looks_like_acting(name)


@pytest.mark.parametrize("name", READING)
def test_a_name_that_does_not(name: str) -> None:
    assert not looks_like_acting(name)


def test_hints_and_schemas_of_another_type_are_none() -> None:
    entry = {"name": "send", "inputSchema": [], "annotations": {"readOnlyHint": "yes", "destructiveHint": True}}
    assert listed_tool(entry) == Tool("send", {}, None, True)
    assert listed_tool({"name": "send", "inputSchema": {"required": "a"}}).needed == frozenset()


# ---------------------------------------------------------------- what a schema says


class Option(BaseModel):
    color: Literal["red", "green"]
    names: list[str] | None = None


class Desk:
    def reply(self, ticket_id: str, body: str) -> str:
        return ticket_id + body

    def _hidden(self) -> None: ...


def paint(
    ticket_id: int | str,
    options: Option,
    many: list[Option],
    anything: Any,
    context: Desk,
    loud: bool = True,
) -> None: ...


def fetch(ticket_id: str, *, options: Option | None = None, **more: str) -> None: ...


def test_the_types_of_a_field_are_found_wherever_the_schema_has_them() -> None:
    schema = schema_of(fetch)
    found = at(parse_path("options.color", ""), schema)
    assert found is not None
    assert types_of(found, schema) == {"string"}
    assert at(parse_path("Options.NAMES", ""), schema) is not None
    assert at(parse_path("options.size", ""), schema) is None
    assert at(parse_path("else", ""), schema) == {}, "more fields may come"


def test_what_a_schema_does_not_say_is_not_known() -> None:
    for schema in ({}, {"type": "object"}, {"$ref": "#/$defs/none"}, {"properties": {"a": 5}, "anyOf": 5}):
        assert at(parse_path("a", ""), schema) == {}
    looping: dict[str, Any] = {"$ref": "#"}
    assert at(parse_path("a", ""), looping) == {}
    assert at(parse_path("items[].name", ""), {"properties": {"items": {"type": "array"}}}) == {}


def test_parameters_that_a_runtime_injects_are_no_fields() -> None:
    schema = schema_of(paint, ignore=["context"])
    assert set(schema["properties"]) == {"ticket_id", "options", "many", "anything", "loud"}
    assert schema["required"] == ["ticket_id", "options", "many", "anything"]
    assert schema["properties"]["loud"]["default"] is True
    assert "additionalProperties" not in schema


def test_a_type_without_a_schema_may_hold_anything() -> None:
    def send(body: str, context: "type[str]", thread: object = sys) -> None: ...

    schema = schema_of(send)
    assert types_of(schema["properties"]["body"], schema) == {"string"}
    assert set(schema["properties"]) == {"body", "context", "thread"}
    send.__annotations__["body"] = "OnlyATypeCheckerKnows"
    assert set(schema_of(send)["properties"]) == {"body", "context", "thread"}
    assert schema_of(type) == {}, "it tells no signature"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["string", "object", "array", "#", "#/properties/a", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
RULE = {
    "outcomes": ["go"],
    "entity": {"field": "a"},
    "fields": ["a", "b[].a", "items.*", "c"],
    "output_check": {"fields": ["c"], "output": "o"},
    "fixed": {"d": 1},
    "null_only": ["e"],
}


@given(schema=st.dictionaries(WORDS, JSON, max_size=4), hints=JSON)
def test_whatever_a_server_lists_is_looked_at_without_an_error(schema: dict[str, Any], hints: Any) -> None:
    tool = listed_tool({"name": "send", "inputSchema": schema, "annotations": hints})
    file = RulesInFile.model_validate({"job": "j", "tools": {"send": RULE}})
    rules = {name: read_rule(name, rule) for name, rule in file.tools.items()}
    for note in notes_against_tools(file, rules, [tool], ()):
        assert note.code in CODES


def test_a_schema_that_refers_to_itself_everywhere_ends() -> None:
    root: dict[str, Any] = {"anyOf": [{"$ref": "#"}] * 50, "properties": {"a": {"$ref": "#"}}, "items": {"$ref": "#"}}
    root["allOf"] = root["anyOf"]
    assert types_of(root, root) == frozenset()
    assert at(parse_path("a.a.a[].a", ""), root) is not None


# ---------------------------------------------------------------- where functions are


MODULE = """\
from math import floor
def reply(ticket_id, body): ...
def note(ticket_id: str, text: str) -> None: ...
class Desk:
    def refund(self, ticket_id: str) -> None: ...
    def _hidden(self): ...
    @property
    def state(self): raise RuntimeError("secret")
desk = Desk()
LISTED = [reply, note]
NAMED = {"helpdesk__reply": reply}
MIXED = [reply, desk]
COUNTED = {"count": 5}
print("on its way")
NOTHING = []
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lint_desk.py").write_text(MODULE)
    (tmp_path / "lint_broken.py").write_text("raise RuntimeError('secret')")
    (tmp_path / "lint_ends.py").write_text("raise SystemExit(0)")
    monkeypatch.delitem(sys.modules, "lint_desk", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("lint_desk", ["note", "reply"]),
        ("lint_desk:reply", ["reply"]),
        ("lint_desk:LISTED", ["reply", "note"]),
        ("lint_desk:NAMED", ["helpdesk__reply"]),
        ("lint_desk:Desk", ["refund"]),
        ("lint_desk:desk", ["refund"]),
        ("lint_desk:Desk.refund", ["refund"]),
    ],
)
def test_functions_are_found(module: Path, where: str, names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    tools = load_tools(where)
    assert capsys.readouterr().out == ""
    assert [tool.name for tool in tools] == names
    assert all(tool.needed for tool in tools)
    assert not any("self" in tool.needed for tool in tools)
    assert str(module) not in sys.path


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("lint_none:x", 'the module lint_none can\'t be imported: ModuleNotFoundError "lint_none"'),
        ("lint_broken", "the module lint_broken can't be imported: RuntimeError"),
        ("lint_ends", "the module lint_ends can't be imported: SystemExit"),
        ("lint_desk:MIXED", 'lint_desk:MIXED: "Desk" is no function'),
        ("lint_desk:COUNTED", 'lint_desk:COUNTED: "count" is no function'),
        ("lint_desk:other", 'lint_desk:other: "lint_desk" has no "other"'),
        ("lint_desk:NOTHING", "lint_desk:NOTHING: there is no function in it"),
        ("../lint_desk.py:x", '"../lint_desk.py" is not the name of a module; module:attribute is needed'),
        ("", '"" is not the name of a module; module:attribute is needed'),
    ],
)
def test_what_holds_no_functions_is_a_clear_error(module: Path, where: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_tools(where)
    assert str(caught.value) == says
