"""Arguments as an audit keeps them: the values that may be kept, and of all others their shape.

A shape has no text, no number and no name that the rule doesn't know. A stand-in has that shape again: the decision
judges it as it judged the arguments, as far as it looks at no value that was left out.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from preaction._core.call import Call, fold
from preaction._core.case import MAX_SAFE_INTEGER
from preaction._core.company import has_control
from preaction._core.paths import Level, Path
from preaction._core.rule import Rule, RuleBook, same, wide_fold

LONGEST_ID: Final = 200

_STANDS_FOR: Final[dict[str | None, Any]] = {
    None: None,
    "text": "left out",
    "text with control characters": "left\x00out",
    "integer": 0,
    "number": 0.5,
    "boolean": False,
}
"""What stands in a call where a leaf of that kind was left out."""


def is_id(value: object) -> bool:
    """Whether a value that names a case may be kept: a short text on one line, or a number, and no prose."""
    if isinstance(value, str):
        return len(value) <= LONGEST_ID and value.isprintable()
    return value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) <= MAX_SAFE_INTEGER)


class Redaction:
    """What may be kept of a call of one tool: fields in `keep`, the id of the case, and values that the rule fixes.

    With no `keep` at all, None, everything may.
    """

    def __init__(self, rule: Rule, book: RuleBook, keep: Iterable[str] | None) -> None:
        self._rule = rule
        self._whole = keep is None
        self._keep = frozenset(map(fold, keep or ()))
        self._words = frozenset(words_of(rule))
        self._refused = book.refused

    def split(self, call: Call) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields that are kept with their values, and the others with their shapes."""
        if self._whole:
            return call.arguments, {}
        kept = {name: value for name, value in call.arguments.items() if self._may_stay(name, value, call)}
        return kept, self._object({name: value for name, value in call.arguments.items() if name not in kept})

    def names(self, names: Iterable[str]) -> list[str]:
        """`names` without those that the rule doesn't know, of which there is only the number."""
        known = [name for name in names if self._whole or self._knows(name)]
        unknown = len([*names]) - len(known)
        return [*known, *([f"and {unknown} of other names"] if unknown else [])]

    def _may_stay(self, name: str, value: Any, call: Call) -> bool:
        if fold(name) in self._keep:
            return True
        step = ((fold(name), False),)
        if self._rule.entity is not None and self._rule.entity.steps == step:
            return is_id(value)
        return any(path.steps == step and same(path.value(call), wanted) for path, wanted in self._rule.fixed)

    def _knows(self, name: str) -> bool:
        return fold(name) in self._words or wide_fold(name) in self._refused

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, item in value.items():
            unknown = sum(map(is_unknown, found)) + 1
            found[name if self._knows(name) else f"?{unknown}"] = self._shape(item)
        return found

    def _shape(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):  # each kind of entry once: neither their number nor their order is kept
            shapes: list[Any] = []
            for item in value:
                if (shape := self._shape(item)) not in shapes:
                    shapes.append(shape)
            return shapes
        if isinstance(value, str):
            return "text with control characters" if has_control(value) else "text"
        kinds = {bool: "boolean", int: "integer", float: "number"}
        return kinds.get(type(value))


def is_unknown(name: str) -> bool:
    """Whether a name of a shape stands for one that the rule didn't know."""
    return name.startswith("?")


def has_unknown(shape: Any) -> bool:
    """Whether a shape holds such a name, at any depth."""
    if isinstance(shape, dict):
        return any(is_unknown(name) or has_unknown(item) for name, item in shape.items())
    return isinstance(shape, list) and any(map(has_unknown, shape))


def stand_in(view: dict[str, Any], left_out: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the shape that was recorded. `ValueError` for what `Redaction` doesn't write."""
    return {**view, **_stand_in(left_out)}


def _stand_in(shape: Any) -> Any:
    if isinstance(shape, dict):
        return {name: _stand_in(item) for name, item in shape.items()}
    if isinstance(shape, list):
        return [_stand_in(item) for item in shape]
    if shape is not None and (not isinstance(shape, str) or shape not in _STANDS_FOR):
        raise ValueError("a shape that no audit writes")
    return _STANDS_FOR[shape]


def paths_of_fixed(rule: Rule) -> Iterator[Path]:
    """The paths whose values the first check looks at; of all others it sees the shape."""
    return (path for path, _ in rule.fixed)


def paths_of_case(rule: Rule, book: RuleBook) -> Iterator[Path]:
    """The paths whose values tell the case, for a call whose fields are allowed; of texts only the digest counts."""
    if rule.entity is not None:
        yield rule.entity
    yield from rule.recipients
    if book.test_recipients is not None:
        yield rule.subject


def words_of(rule: Rule) -> Iterator[str]:
    """The names that the rule knows, folded."""
    yield from _opened(rule.opened)
    paths = [*rule.texts, *rule.recipients, rule.subject, *([] if rule.entity is None else [rule.entity])]
    yield from (name for path in paths for name, _ in path.steps)


def _opened(level: Level) -> Iterator[str]:
    for name, node in level.items():
        yield name
        yield from _opened(node.fields or {})
        yield from _opened(node.items or {})
