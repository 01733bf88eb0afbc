"""Values checked against JSON Schema 2020-12, place by place."""

from collections.abc import Iterator, Mapping
from typing import Any

from preaction.wire.json_schema import validator_of


class SchemaError(ValueError):
    """A schema that can't be used."""


class Validator:
    """One schema made ready."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        try:
            self._validator = validator_of(schema)
        except ValueError as error:
            raise SchemaError(f"not a usable JSON Schema: {error}") from None

    def errors(self, value: Any) -> Iterator[tuple[list[str | int], str]]:
        """Each place of `value` that doesn't fit, from the value's own root, with what is wrong there."""
        for error in self._validator.iter_errors(value):
            yield list(error.instance_path), error.message
