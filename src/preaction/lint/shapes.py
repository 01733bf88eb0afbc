"""4 · What a tool's JSON Schema says about one field. What it doesn't say is not known."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from preaction._core.call import MAX_DEPTH, fold
from preaction._core.paths import Path

Schema: TypeAlias = Mapping[str, Any]


def branches(schema: object, root: Schema, depth: int = 0) -> Iterator[Schema]:
    """The schema itself, and those that it refers to or is composed of."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        found: Any = root
        for part in reference[2:].split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        yield from branches(found, root, depth + 1)
    yield schema
    for word in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(word)
        for part in parts if isinstance(parts, list) else ():
            yield from branches(part, root, depth + 1)


def fields_of(schema: object, root: Schema) -> tuple[dict[str, Any], bool]:
    """The fields of an object by their names, and whether others may stand in it, which they may if nothing is said."""
    found: dict[str, Any] = {}
    said = others = False
    for each in branches(schema, root):
        others = others or each.get("additionalProperties") not in (None, False) or "patternProperties" in each
        properties = each.get("properties")
        if isinstance(properties, Mapping):
            said = True
            found |= properties
    return found, others or not said


def at(path: Path, root: Schema) -> Schema | None:
    """The schema of what stands at `path` in a call; empty where nothing is said, None where no such field is."""
    schema: Any = root
    for name, each in path.steps:
        fields, others = fields_of(schema, root)
        schema = next((value for key, value in fields.items() if fold(key) == name), {} if others else None)
        if schema is None:
            return None
        if each:
            items = [one["items"] for one in branches(schema, root) if "items" in one]
            schema = {"anyOf": items} if items else {}
    return schema if isinstance(schema, Mapping) else {}


def types_of(schema: Schema, root: Schema) -> frozenset[str]:
    """The types that a value may have besides null; none where nothing is said."""
    found: set[str] = set()
    for each in branches(schema, root):
        named = each.get("type")
        found |= {named} if isinstance(named, str) else {*named} if isinstance(named, list) else set()
        if "enum" in each or "const" in each:
            values = each["enum"] if isinstance(each.get("enum"), list) else [each.get("const")]
            found |= {_NAMES.get(type(value), "object") for value in values}
    return frozenset(found - {"null"})


_NAMES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    type(None): "null",
}


def is_address(schema: Schema, root: Schema) -> bool:
    """Whether the schema says that this is a mail address, or a list of some."""
    for each in branches(schema, root):
        if each.get("format") in ("email", "idn-email"):
            return True
        if "items" in each and any(
            one.get("format") in ("email", "idn-email") for one in branches(each["items"], root)
        ):
            return True
    return False
