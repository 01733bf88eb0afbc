"""The provider's checklist: what a tool requires, read from its input schema, and its description, which is advice.

A field of a nested object is named by its JSON pointer, such as `/to/iban`; one at the top keeps its name (F15).
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from preaction._core.call import MAX_DEPTH
from preaction.preflight.values import Unusable, frozen, mapping_of

MOST_FIELDS: Final = 1_000
"""References let a short schema require as many fields as it likes."""

_CHOOSING: Final = ("allOf", "anyOf", "oneOf", "if", "dependentRequired", "dependentSchemas")
"""Keywords by which an object may require more than its `required` says."""


class Required(NamedTuple):
    """A field that has to be looked up, and the schema of its value."""

    name: str
    schema: dict[str, Any]


class Provided(NamedTuple):
    """What a provider says of its tool."""

    description: str
    required: tuple[Required, ...]


class _Unreadable(Exception):
    """What of a schema can't be read, collected while the recursion unwinds."""


def name_of_tool(tool: object) -> str | None:
    """The candidate's name, which is all that is read of a tool before it is confirmed (F4)."""
    name = frozen(lambda: tool.get("name"), "tool.name") if isinstance(tool, Mapping) else None
    return name if isinstance(name, str) and name.strip() else None


def read_tool(tool: object) -> Provided | Unusable:
    """What `tool` requires. One without an input schema, or with one that can't be read, requires nobody knows what."""
    if not isinstance(tool, Mapping):
        return Unusable("tool: a mapping is needed")
    schema = mapping_of(_schema_of(tool), "tool.inputSchema")
    if isinstance(schema, Unusable):
        return schema
    description = frozen(lambda: tool.get("description"), "tool.description")
    try:
        required = tuple(islice(_required(schema, schema, (), "tool.inputSchema"), MOST_FIELDS + 1))
    except _Unreadable as bad:
        return Unusable(str(bad))
    if len(required) > MOST_FIELDS:
        return Unusable(f"tool.inputSchema: it requires more than {MOST_FIELDS} fields")
    names = [one.name for one in required]
    if len(set(names)) != len(names):
        return Unusable("tool.inputSchema.required: it names a field twice")
    return Provided(description if isinstance(description, str) else "", required)


def arguments_of(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The arguments out of fields' names and values: a JSON pointer becomes the nested objects that it goes through."""
    arguments: dict[str, Any] = {}
    for name, value in values:
        *outer, last = parts_of(name)
        place = arguments
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return arguments


def parts_of(name: str) -> list[str]:
    """A field's name as the names that lead to it."""
    if not name.startswith("/"):
        return [name]
    return [part.replace("~1", "/").replace("~0", "~") for part in name[1:].split("/")]


def _name_of(path: tuple[str, ...]) -> str:
    if len(path) == 1 and not path[0].startswith("/"):
        return path[0]
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def _schema_of(tool: Mapping[Any, Any]) -> object:
    """The schema under MCP's name for it, or under that of other model APIs."""
    found = frozen(lambda: tool.get("inputSchema", tool.get("input_schema")), "tool.inputSchema")
    return found or None  # an empty schema says nothing of what the tool takes


def _required(schema: dict[str, Any], root: dict[str, Any], path: tuple[str, ...], where: str) -> Iterable[Required]:
    if len(path) > MAX_DEPTH:
        raise _Unreadable(f"{where}: it requires itself")
    schema = _resolved(schema, root, where)
    if hard := [word for word in _CHOOSING if word in schema]:
        raise _Unreadable(f"{where}.{hard[0]}: which fields it requires can't be told from this")
    names, properties = schema.get("required", []), schema.get("properties", {})
    if schema.get("type", "object") != "object" or not isinstance(names, list) or not isinstance(properties, dict):
        raise _Unreadable(f"{where}: an object's schema is needed, with a list under 'required'")
    for name in names:
        if not isinstance(name, str) or not name:
            raise _Unreadable(f"{where}.required: a name is no text")
        inner, place = properties.get(name, True), (*path, name)
        if inner is True:
            inner = {}
        if not isinstance(inner, dict):
            raise _Unreadable(f"{where}.properties.{name}: a schema is needed")
        inner = _resolved(inner, root, f"{where}.properties.{name}")
        if _is_nested(inner):
            yield from _required(inner, root, place, f"{where}.properties.{name}")
        else:
            yield Required(_name_of(place), {"$defs": root["$defs"], **inner} if "$defs" in root else inner)


def _is_nested(schema: dict[str, Any]) -> bool:
    """Whether the parts of an object are looked up rather than the whole: it says which it must have."""
    return schema.get("type") == "object" and bool(schema.get("required")) and not any(map(schema.get, _CHOOSING))


def _resolved(schema: dict[str, Any], root: dict[str, Any], where: str) -> dict[str, Any]:
    """The schema that a local reference stands for; what stands beside the reference is kept."""
    for _ in range(MAX_DEPTH):
        reference = schema.get("$ref")
        if reference is None:
            return schema
        target: Any = root if isinstance(reference, str) and reference.startswith("#") else None
        for part in parts_of(reference[1:]) if target is not None and reference != "#" else ():
            target = target.get(part) if isinstance(target, dict) else None
        if not isinstance(target, dict):
            raise _Unreadable(f"{where}.$ref: it leads nowhere in this schema")
        schema = {**target, **{word: value for word, value in schema.items() if word != "$ref"}}
    raise _Unreadable(f"{where}.$ref: it leads to itself")
