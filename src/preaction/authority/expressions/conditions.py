"""CEL conditions, fail-closed: typed and checked when a pack is published, and true only when they are exactly true.

Each condition is compiled twice. The first time every declared name has its own type, which finds misspelt names and
wrong comparisons; the second time `facts` is a map, so that `has(facts.amount)` means what CEL says it means. CEL hands
evaluation errors back as values that are truthy in Python: nothing but a BOOL counts here.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from cel_expr_python import cel

from preaction.authority.expressions import evaluator
from preaction.authority.expressions.evaluator import Patience

MAX_CHARS: Final = 2000
_HAS: Final = re.compile(r"\bhas\(\s*((?:facts|fields|content)\.[A-Za-z_][A-Za-z0-9_]*)\s*\)", re.ASCII)
_LONG: Final = re.compile(r"\b(?:all|exists|exists_one|existsOne|map|filter|matches)\b", re.ASCII)
_FEW: Final = 4
_PLACE: Final = re.compile(r"<input>:(\d+):(\d+): (.*)")
_TYPES: Final = {
    "string": cel.Type.STRING,
    "number": cel.Type.DOUBLE,
    "integer": cel.Type.INT,
    "boolean": cel.Type.BOOL,
    "object": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
}


class ConditionError(ValueError):
    """A condition that can't be released; `offset` is where in its text, when that is known."""

    def __init__(self, detail: str, offset: int | None = None) -> None:
        super().__init__(detail)
        self.offset = offset


class Condition:
    """One compiled condition. `holds` is true, false, or None for whatever can't be evaluated to a boolean."""

    def __init__(
        self,
        checked: Any,
        runner: Any,
        source: str,
        needs: frozenset[str],
        schemas: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._expression = _compile(runner, source)
        self._schemas = schemas
        self._patience = Patience() if may_take_long(source) else None
        if self._patience is not None:
            evaluator.expect()
        self.source = source
        self.needs = needs
        """The names that it reads, such as `facts.amount`, apart from asking by `has` whether they are there."""
        if checked.return_type() != cel.Type.BOOL:
            raise ConditionError(f"a condition must be a bool, and this is a {checked.return_type().name()}")

    def holds(self, data: Mapping[str, Any]) -> bool | None:
        """Evaluate on values by name. None, which is undecided, for an error of any kind, or too long a time."""
        if self._patience is None:
            return self.evaluate(data)
        question = {"schemas": self._schemas, "condition": self.source, "data": data}
        answer = self._patience.ask(question)
        return answer if isinstance(answer, bool) else None

    def evaluate(self, data: Mapping[str, Any]) -> bool | None:
        """`holds`, in this process and however long it takes."""
        try:
            result = self._expression.eval(data=data)
        except (RuntimeError, ValueError, TypeError, OverflowError):
            return None  # lone surrogates and exceeded budgets are raised, not returned
        if result.type() != cel.Type.BOOL:
            return None
        return result.value() is True


class Dialect:
    """The names that a job's conditions may say, such as `facts.topic`, each with its JSON Schema."""

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self._schemas = {name: dict(schema) for name, schema in schemas.items()}
        self._types = {name: cel_type(schema) for name, schema in schemas.items()}
        self._checker = cel.NewEnv(variables=self._types)
        roots = {name.partition(".")[0] for name in schemas if "." in name}
        flat = {name: kind for name, kind in self._types.items() if "." not in name}
        self._runner = cel.NewEnv(variables={**dict.fromkeys(roots, _TYPES["object"]), **flat})

    def compile(self, source: str) -> Condition:
        """A condition made ready, or `ConditionError`."""
        if len(source) > MAX_CHARS:
            raise ConditionError(f"a condition has at most {MAX_CHARS} characters")
        for match in _HAS.finditer(source):
            if match[1] not in self._types:
                raise ConditionError(f"undeclared reference to '{match[1]}'", match.start(1))
        # The checker has no map to look into, so for its eyes a presence test is a bool of the same width.
        plain = _HAS.sub(lambda match: "true".ljust(len(match[0])), source)
        checked = _compile(self._checker, plain)
        said = (name for name in self._types if re.search(rf"\b{re.escape(name)}\b", plain))
        needs = frozenset(name for name in said if self._reads(plain, name))
        return Condition(checked, self._runner, source, needs, self._schemas)

    def _reads(self, source: str, name: str) -> bool:
        """Whether `source` reads `name`, and doesn't merely hold its letters in a string: without it, no compiling."""
        try:
            cel.NewEnv(variables={other: kind for other, kind in self._types.items() if other != name}).compile(source)
        except RuntimeError:
            return True
        return False


def may_take_long(source: str) -> bool:
    """Whether a condition iterates, searches or builds values; without that, its time is that of reading its values.

    By its words alone, also those in its strings: what merely looks so is evaluated in its own process as well.
    """
    return _LONG.search(source) is not None or source.count("+") > _FEW


def cel_type(schema: Mapping[str, Any]) -> Any:
    """The CEL type of a JSON Schema's values."""
    if schema["type"] == "array":
        return cel.Type.List(cel_type(schema["items"]) if schema.get("items") else cel.Type.DYN)
    return _TYPES[schema["type"]]


def cel_value(schema: Mapping[str, Any], value: Any) -> Any:
    """A JSON value as its CEL type has it: JSON has one kind of number, CEL has several and doesn't add them up."""
    kind = schema["type"]
    if kind == "number":
        return float(value)
    if kind == "integer":
        return int(value)
    if kind == "array" and schema.get("items"):
        return [cel_value(schema["items"], item) for item in value]
    if kind == "object" and schema.get("properties"):
        known = schema["properties"]
        return {name: cel_value(known[name], item) if name in known else item for name, item in value.items()}
    return value


def _compile(env: Any, source: str) -> Any:
    try:
        return env.compile(source)
    except RuntimeError as error:
        match = _PLACE.search(str(error))
        if match is None:
            raise ConditionError(str(error).partition(" [")[0][:300]) from None
        lines = source.split("\n")
        before = sum(len(line) + 1 for line in lines[: int(match[1]) - 1])
        raise ConditionError(match[3].removesuffix(" (in container '')")[:300], before + int(match[2]) - 1) from None
    except (ValueError, TypeError) as error:
        raise ConditionError(f"not a condition: {type(error).__name__}") from None
