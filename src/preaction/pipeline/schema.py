"""3 · Schema: the arguments against the tool's JSON Schema 2020-12 or pydantic model (P2).

What doesn't fit is told by place and allowed values and nothing else: no value of the call, no rule behind the schema.
A pydantic model is closed: a field that it doesn't know is refused, never dropped.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from preaction._core.denied import quote
from preaction.errors import ConfigurationError
from preaction.wire import json_schema
from preaction.wire.digest import digest

MOST_ERRORS: Final = 5
"""Errors that one answer names; the rest come back with the next call."""

_LONGEST: Final = 300

_TELLING: Final = frozenset(
    (
        *("enum", "const", "type", "format", "pattern", "multipleOf"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
        *("minItems", "maxItems", "minProperties", "maxProperties"),
    )
)
"""Keywords whose value is the schema's own, and says what is allowed."""

Path = Iterable[str | int]


@dataclass(frozen=True, slots=True)
class Misfit:
    """Where arguments don't fit, and what is allowed there; both are for the model."""

    place: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.place}: {self.allowed}"


def validator_of(schema: Mapping[str, Any], where: str) -> Any:
    """A validator for `schema`; `ConfigurationError` names the place of one that can't be used."""
    try:
        return json_schema.validator_of(schema)
    except ValueError as error:
        raise ConfigurationError(f"{where}: not a usable JSON Schema 2020-12: {error}") from None


class InputSchema:
    """What one tool takes. `version` changes with the schema; `schema` is what the model may be shown."""

    def __init__(self, given: Mapping[str, Any] | type[BaseModel], where: str = "input_schema") -> None:
        self._model: type[BaseModel] | None = None
        if isinstance(given, type) and issubclass(given, BaseModel):
            self._model = given
            self.schema: dict[str, Any] = closed(given.model_json_schema())
        elif isinstance(given, Mapping):
            self.schema = dict(given)
        else:
            raise ConfigurationError(f"{where}: a JSON Schema or a pydantic model is needed")
        self._validator = validator_of(self.schema, where)
        self.version = digest(json.loads(json.dumps(self.schema)))[:24]

    def check(self, arguments: Any) -> dict[str, Any] | list[Misfit]:
        """The arguments to go on with, or where they don't fit; a model's defaults are then filled in."""
        if not isinstance(arguments, dict):
            return [Misfit("the arguments", "one JSON object is needed")]
        wrong = [_misfit(error) for error in islice(self._validator.iter_errors(arguments), MOST_ERRORS)]
        if wrong or self._model is None:
            return wrong or arguments
        try:
            read = self._model.model_validate_json(json.dumps(arguments), strict=True)
        except ValidationError as error:
            # The texts of a model's own validators stay here: they are not written for the model that calls
            found = error.errors(include_url=False, include_context=False, include_input=False)
            return [Misfit(place_of(one["loc"]), "this value is not allowed") for one in found[:MOST_ERRORS]]
        whole: dict[str, Any] = read.model_dump(mode="json", by_alias=True)
        return whole


def place_of(path: Path) -> str:
    """A place in the arguments, such as `lines[2].amount`, in ASCII on one line."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{quote(part)[1:-1]}" for part in path)
    return (text.removeprefix(".") or "the arguments")[:_LONGEST]


def unexpected(path: Path) -> Misfit:
    """A property that isn't expected at this place."""
    return Misfit(place_of(path), "this property is not expected")


def told(misfits: Iterable[Misfit]) -> str:
    """The misfits as one text for the model."""
    return "Not executed, nothing was done: the arguments don't fit. " + "; ".join(map(str, misfits)) + "."


def closed(schema: Any) -> Any:
    """The schema with every object closed that doesn't say otherwise."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    done = {
        word: value if word in ("enum", "const", "default", "examples") else closed(value)
        for word, value in schema.items()
    }
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        done.setdefault("additionalProperties", False)
    return done


def _misfit(error: Any) -> Misfit:
    name, path = error.kind.name, list(error.instance_path)
    if name == "required":
        return Misfit(place_of([*path, error.kind.property]), "this property is required")
    if name in ("additionalProperties", "unevaluatedProperties"):
        names = ", ".join(place_of([*path, one]) for one in error.kind.unexpected[:MOST_ERRORS])
        return Misfit(names, "not expected")
    if name in _TELLING:
        return Misfit(place_of(path), _allowed(name, error.kind.value))
    return Misfit(place_of(path), f"does not meet {name}")


def _allowed(name: str, value: Any) -> str:
    words = {"enum": "one of", "const": "only", "type": "of type"}
    shown = json.dumps(value[0] if name == "type" and isinstance(value, list) and len(value) == 1 else value)
    return f"{words.get(name, name)} {shown}" if len(shown) <= _LONGEST else f"does not meet {name}"
