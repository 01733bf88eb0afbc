"""Tool results in whatever shape a runtime hands them over (G43), read into one plain mapping or a word for why not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel

from preaction._core.call import Malformed, plain
from preaction.errors import InvalidJSON
from preaction.wire.strict_json import loads

MAX_LAYERS: Final = 6
"""How many wrappings are taken off one after the other, such as a text block in a list under `result`."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a result came to: its `content` when it is `ok`, else an `error` of the tool's, or `unreadable`."""

    state: Literal["ok", "error", "unreadable"]
    content: dict[str, Any]


OWN_FIELDS: Final = frozenset(("executionId", "execution_id", "checkId", "check_id", "case"))

ERROR: Final = Result("error", {})
UNREADABLE: Final = Result("unreadable", {})


def read_result(result: object) -> Result:
    """Unwrap `result`.

    Mappings, pydantic models, JSON texts (strict), MCP results (structured content first, else the one text block), and
    lists of content blocks are read, each also under a single key `result`. More than one text block, and all else, is
    unreadable. A result marked as an error is an `error`, whatever it holds.
    """
    for _ in range(MAX_LAYERS):
        if isinstance(result, BaseModel):
            result = _dump(result)
        if isinstance(result, (str, bytes)):
            result = _parse(result)
        elif isinstance(result, (list, tuple)):
            result = _only_text(result)
        else:
            fields = _fields(result)
            if fields is None:
                return UNREADABLE
            if any(fields.get(name) not in (None, False) for name in ("isError", "is_error")):
                return ERROR
            inner = _inner(fields)
            if inner is fields:
                return _content(fields)
            result = inner
        if result is None:
            return UNREADABLE
    return UNREADABLE


def _parse(text: str | bytes) -> object:
    try:
        return loads(text)
    except InvalidJSON:
        return None


def _dump(model: BaseModel) -> object:
    try:
        return model.model_dump(mode="json", by_alias=True, warnings=False)
    except (TypeError, ValueError):  # it holds what JSON can't
        return None


def _fields(result: object) -> Mapping[str, Any] | None:
    """The fields of a mapping, or of an object that looks like an MCP result."""
    if isinstance(result, Mapping):
        return result
    names = ("structuredContent", "structured_content", "content", "isError", "is_error")
    found = {name: getattr(result, name) for name in names if hasattr(result, name)}
    return found if "content" in found else None


def _inner(fields: Mapping[str, Any]) -> object:
    """What the fields wrap, or the fields themselves: a decision or check with a field of such a name wraps nothing."""
    if not OWN_FIELDS.isdisjoint(fields):
        return fields
    for name in ("structuredContent", "structured_content"):
        if fields.get(name) is not None:
            return fields[name]
    if isinstance(fields.get("content"), (list, tuple)):
        return fields["content"]
    return fields["result"] if len(fields) == 1 and "result" in fields else fields


def _only_text(blocks: list[Any] | tuple[Any, ...]) -> object:
    """The text of the only text block; None when there is none, or more than one."""
    texts = []
    for block in blocks:
        fields = block if isinstance(block, Mapping) else {n: getattr(block, n, None) for n in ("type", "text")}
        if fields.get("type", "text") == "text" and isinstance(fields.get("text"), str):
            texts.append(fields["text"])
    return texts[0] if len(texts) == 1 else None


def _content(fields: Mapping[str, Any]) -> Result:
    try:
        return Result("ok", plain(fields))
    except Malformed:
        return Result("unreadable", _named(fields))


def _named(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a result that isn't JSON says it is about: enough to doubt what was known of that case (G7)."""
    case = fields.get("case")
    given = {"job": fields.get("job"), "entity_id": fields.get("entity_id")}
    named: dict[str, Any] = {name: text for name, text in given.items() if _is_text(text)}
    if isinstance(case, Mapping) and _is_text(case.get("id")):
        named["case"] = {"id": case["id"]}
    return named if named.keys() & {"case", "entity_id"} else {}


def _is_text(value: object) -> bool:
    try:
        return isinstance(plain(value), str)
    except Malformed:
        return False
