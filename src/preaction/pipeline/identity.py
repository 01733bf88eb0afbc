"""4 · Identity: who asks is known from the session; the model has no field to say it in (P4).

Names are compared without ASCII case and without `_`: `tenantId`, `TENANT_ID` and `tenant_id` are one name.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from preaction._core.call import fold

RESERVED: Final = (
    "user_id",
    "tenant_id",
    "role",
    "roles",
    "scopes",
    "org_id",
    "organization_id",
    "organisation_id",
    "actor_id",
    "on_behalf_of",
    "session_id",
    "request_id",
    "run_id",
    "policy_version",
    "idempotency_key",
)
"""What the model may not say, unless a pipeline is told otherwise."""

_NAMED: Final = ("properties", "patternProperties", "dependentSchemas", "dependentRequired", "$defs", "definitions")
_PLAIN: Final = ("enum", "const", "default", "examples", "required", "type")


def squashed(name: str) -> str:
    """The name as it is compared."""
    return fold(name).replace("_", "")


def squashed_all(names: Iterable[str]) -> frozenset[str]:
    """The names as they are compared."""
    return frozenset(map(squashed, names))


def reserved_in_schema(schema: Any, reserved: frozenset[str]) -> Iterator[str]:
    """Every property of a JSON Schema, at any depth, that only a trusted session may say."""
    if isinstance(schema, list):
        for one in schema:
            yield from reserved_in_schema(one, reserved)
    if not isinstance(schema, Mapping):
        return
    required = schema.get("required")
    yield from (name for name in required or () if isinstance(required, list) and _is_reserved(name, reserved))
    for word, value in schema.items():
        if word in _NAMED and isinstance(value, Mapping):
            if word not in ("$defs", "definitions"):
                yield from (name for name in value if _is_reserved(name, reserved))
            yield from reserved_in_schema(list(value.values()), reserved)
        elif word not in _PLAIN:
            yield from reserved_in_schema(value, reserved)


def reserved_in_arguments(value: Any, reserved: frozenset[str], path: tuple[str | int, ...] = ()) -> Iterator[Any]:
    """The path of every reserved name in plain arguments, also where the schema leaves an object open."""
    if isinstance(value, dict):
        for name, item in value.items():
            if _is_reserved(name, reserved):
                yield (*path, name)
            else:
                yield from reserved_in_arguments(item, reserved, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from reserved_in_arguments(item, reserved, (*path, index))


def _is_reserved(name: object, reserved: frozenset[str]) -> bool:
    return isinstance(name, str) and squashed(name) in reserved
