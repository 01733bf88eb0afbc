"""4 · What a tool's JSON Schema says about one field. What it doesn't say is not known."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from preaction._core.call import fold
from preaction._core.paths import Path

Schema: TypeAlias = Mapping[str, Any]

_PARTS: Final = ("anyOf", "oneOf", "allOf")


def branches(schema: object, root: Schema) -> Iterator[Schema]:
    """The schema itself, and those that it refers to or is composed of, each once however they refer to each other."""
    seen: set[int] = set()
    left: list[object] = [schema]
    while left:
        each = left.pop()
        if not isinstance(each, Mapping) or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        left += [part for word in _PARTS if isinstance(parts := each.get(word), list) for part in parts]
        if isinstance(reference := each.get("$ref"), str) and reference.startswith("#"):
            left.append(_referred(reference, root))


def _referred(reference: str, root: Schema) -> object:
    found: object = root
    for part in reference.split("/")[1:]:
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found


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
        listed = named if isinstance(named, list) else [named]
        found |= {name for name in listed if isinstance(name, str)}
        if "enum" in each or "const" in each:
            values = each["enum"] if isinstance(each.get("enum"), list) else [each.get("const")]
            found |= {_NAMES.get(type(value), "object") for value in values}
    return frozenset(found - {"null"})


_NAMES: Final[dict[type, str]] = {
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
