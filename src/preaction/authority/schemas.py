"""Values checked against JSON Schema 2020-12.

Nothing is fetched, patterns are linear, and values stay out of messages.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs


class SchemaError(ValueError):
    """A schema that can't be used."""


class Validator:
    """One schema made ready."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                dict(schema),
                offline=True,
                validate_formats=True,
                pattern_options=jsonschema_rs.RegexOptions(),
                mask="the value",
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
            detail = getattr(error, "message", None) or type(error).__name__
            raise SchemaError(f"not a usable JSON Schema: {detail}") from None

    def errors(self, value: Any) -> Iterator[tuple[list[str | int], str]]:
        """Each place of `value` that doesn't fit, from the value's own root, with what is wrong there."""
        for error in self._validator.iter_errors(value):
            yield list(error.instance_path), error.message
