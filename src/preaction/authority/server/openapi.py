"""The OpenAPI 3.1 document of the wire, generated from the models that client and server use."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal, TypeAlias, get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from preaction.authority.server.operations import OPERATIONS, Operation
from preaction.wire.models import PackRefusal, Problem

_TEMPLATE: Final = "#/components/schemas/{model}"
_WORDS: Final = {
    200: "Done.",
    201: "Published.",
    401: "No key, or a bad one.",
    403: "A key of the other kind, or one that may not do this.",
    404: "Unknown, or not this key's.",
    409: "It conflicts with what is stored.",
    413: "Too large.",
    422: "Not usable; with the place of each error.",
    429: "Too many requests of this key; `Retry-After` says when there is room again.",
}

_Mode: TypeAlias = Literal["validation", "serialization"]
_Refs: TypeAlias = Mapping[Any, dict[str, Any]]


@cache
def document() -> Mapping[str, Any]:
    """The whole document, as plain JSON."""
    refs, definitions = models_json_schema(_models(), ref_template=_TEMPLATE)
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, refs)
    schemes = {role: {"type": "http", "scheme": "bearer", "description": f"An {role}'s key."} for role in _ROLES}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "preaction authority",
            "version": "0",
            "description": "The contract between gate and authority. Readers ignore fields that they don't know.",
        },
        "paths": paths,
        "components": {"schemas": definitions["$defs"], "securitySchemes": schemes},
    }


_ROLES: Final = ("agent", "operator")


def _models() -> list[tuple[type[BaseModel], _Mode]]:
    found: dict[tuple[type[BaseModel], _Mode], None] = {(Problem, "serialization"): None}
    found[PackRefusal, "serialization"] = None
    for operation in OPERATIONS:
        found[_answered(operation)[0], "serialization"] = None
        if isinstance(operation.body, type):
            found[operation.body, "validation"] = None
    return list(found)


def _answered(operation: Operation) -> tuple[type[BaseModel], bool]:
    """The model of an answer, and whether it comes as a list."""
    inner = get_args(operation.answers)
    return (inner[0], True) if inner else (operation.answers, False)


def _operation(operation: Operation, refs: _Refs) -> dict[str, Any]:
    model, many = _answered(operation)
    schema: dict[str, Any] = refs[model, "serialization"]
    if many:
        schema = {"type": "array", "items": schema}
    responses = {str(status): _response(status, schema) for status in operation.statuses}
    for status in sorted({401, 403, 429, *operation.refusals}):
        problem = PackRefusal if operation.body == "yaml" and status == 422 else Problem
        responses[str(status)] = _response(status, refs[problem, "serialization"], "application/problem+json")
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "security": [{operation.role: []}],
        "parameters": _parameters(operation),
        "responses": responses,
    }
    if operation.body == "yaml":
        described["requestBody"] = _body("application/yaml", {"type": "string"})
    elif operation.body is not None:
        described["requestBody"] = _body("application/json", refs[operation.body, "validation"])
    return described


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    segments = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    found = [_parameter("path", name, required=True) for name in segments]
    found += [_parameter("query", name) for name in operation.query]
    if operation.repeatable:
        found.append(_parameter("header", "Idempotency-Key"))
    return found


def _parameter(place: str, name: str, *, required: bool = False) -> dict[str, Any]:
    return {"in": place, "name": name, "required": required, "schema": {"type": "string"}}


def _response(status: int, schema: dict[str, Any], media_type: str = "application/json") -> dict[str, Any]:
    return {"description": _WORDS[status], "content": {media_type: {"schema": schema}}}


def _body(media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {media_type: {"schema": schema}}}
