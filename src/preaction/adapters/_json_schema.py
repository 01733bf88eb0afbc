"""What a runtime would make of a model's arguments after the gate has seen them, told from the tool's JSON schema.

Runtimes that validate with pydantic turn `"500"` into 500 and fill defaults in. A call that would be changed on the way
to the body is not the call that was checked, so it is sent back; defaults are filled in before the check.
"""

from collections.abc import Mapping
from typing import Any, Final

MISFIT: Final = (
    "Denied, nothing was done: an argument isn't of the type that the tool's schema names; "
    "send every argument as the schema says and call again."
)

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


def with_defaults(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`arguments`, with the defaults that the schema shows for fields that are left out."""
    shown = {name: field["default"] for name, field in schema.get("properties", {}).items() if "default" in field}
    return {**shown, **arguments}


def fits(schema: Any, value: object, root: Mapping[str, Any] | None = None) -> bool:
    """Whether `value` has the types that `schema` names, at any depth; what a schema doesn't say fits.

    Only types are compared, and strictly: True is no integer, and 5.0 is none either.
    """
    if not isinstance(schema, Mapping):
        return True
    root = schema if root is None else root
    if isinstance(reference := schema.get("$ref"), str):
        schema = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
    for word in ("anyOf", "oneOf"):
        if word in schema and not any(fits(one, value, root) for one in schema[word]):
            return False
    if not all(fits(one, value, root) for one in schema.get("allOf", ())):
        return False
    named = schema.get("type", list(_TYPES))
    if not any(_is(value, word) for word in ([named] if isinstance(named, str) else named)):
        return False
    if isinstance(value, Mapping):
        fields = schema.get("properties", {})
        return all(fits(fields.get(name, schema.get("additionalProperties")), one, root) for name, one in value.items())
    return not isinstance(value, list) or all(fits(schema.get("items"), one, root) for one in value)


def _is(value: object, word: str) -> bool:
    types = _TYPES.get(word, (object,))
    return isinstance(value, types) and (not isinstance(value, bool) or bool in types or object in types)
