"""Values checked against JSON Schema 2020-12, place by place."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from preaction.authority.expressions.patterns import Pattern, PatternError
from preaction.wire.json_schema import validator_of

Place: TypeAlias = Sequence[str | int]


class SchemaError(ValueError):
    """A schema that can't be used; `place` is where in it, as far as that is known."""

    def __init__(self, detail: str, place: Place = ()) -> None:
        super().__init__(detail)
        self.place = place


class Validator:
    """One schema made ready. Its patterns are those of output rules: RE2's, and never longer than the `evaluator` has.

    So a value is checked in a thread, never in an event loop.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        unread: list[SchemaError] = []

        class Keyword(_PatternKeyword):
            problems = unread

        try:
            self._validator = validator_of(schema, {"pattern": Keyword})
        except ValueError as error:
            raise SchemaError(f"not a usable JSON Schema: {error}") from None
        if unread:
            raise unread[0]

    def errors(self, value: Any) -> Iterator[tuple[list[str | int], str]]:
        """Each place of `value` that doesn't fit, from the value's own root, with what is wrong there."""
        for error in self._validator.iter_errors(value):
            yield list(error.instance_path), error.message


class _PatternKeyword:
    """`pattern`, as `jsonschema_rs` asks for it: whatever is raised here becomes its error, so problems are kept."""

    problems: list[SchemaError]

    def __init__(self, _schema: object, source: str, place: Place) -> None:
        self._pattern: Pattern | None = None
        try:
            self._pattern = Pattern(source)
        except PatternError as error:
            self.problems.append(SchemaError(str(error), place))

    def validate(self, value: object) -> None:
        """`ValueError` for a text that the pattern isn't in, or that takes too long to tell."""
        if not isinstance(value, str) or self._pattern is None:
            return
        found = self._pattern.found_in(value)
        if found is None:
            raise ValueError("the value takes too long to be matched with the pattern")
        if not found:
            raise ValueError(f'the value does not match "{self._pattern.source}"')
