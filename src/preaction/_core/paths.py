"""Dotted paths into a call's arguments (G6a), for rules to name fields with.

`ticketId` is a plain field, `options.color` one field of an object, `items[].name` one field of every object in a list,
`options.*` whatever stands in `options`. Steps match without ASCII case.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from preaction._core.call import MAX_DEPTH, Call, fold
from preaction._core.denied import Denied, deny, quote
from preaction.errors import ConfigurationError

_NAME = re.compile(r"[^.\[\]*\x00-\x1f\x7f]+")

ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path: folded names, each with whether it opens a list (`[]`); `text` is the rule's own spelling."""

    text: str
    steps: tuple[tuple[str, bool], ...]
    open: bool = False

    @property
    def single(self) -> bool:
        """Whether it leads to one value at most: no list on the way and no `.*` at the end."""
        return not self.open and not any(each for _, each in self.steps)

    def values(self, call: Call) -> Iterable[Any]:
        """The values that stand at this path in a call, in order; none where it leads nowhere."""
        (first, each), *rest = self.steps
        if first not in call.folded:
            return ()
        return _inside(call.folded[first], each, tuple(rest))

    def value(self, call: Call) -> Any:
        """The value at a single path, or `MISSING`."""
        return next(iter(self.values(call)), MISSING)

    def blocked(self, call: Call) -> bool:
        """Whether something else than null stands on the way where this path needs an object or a list."""
        (first, each), *rest = self.steps
        return _blocked(call.folded.get(first), each, tuple(rest))


MISSING: Final = object()


def parse_path(text: str, where: str, *, single: bool = False) -> Path:
    """Parse `text`, or raise `ConfigurationError` that names `where`; `single` refuses `[]` and `.*`."""
    parts = text.split(".")
    is_open = len(parts) > 1 and parts[-1] == ANY
    steps: list[tuple[str, bool]] = []
    for part in parts[:-1] if is_open else parts:
        name, each = (part[:-2], True) if part.endswith("[]") else (part, False)
        if not _NAME.fullmatch(name) or name != name.strip():
            raise ConfigurationError(f"{where}: {text!r} is no field name or dotted path")
        steps.append((fold(name), each))
    path = Path(text, tuple(steps), is_open)
    if steps[-1][1] or len(steps) > MAX_DEPTH:
        raise ConfigurationError(f"{where}: {text!r} must end in a field, as in 'items[].name'")
    if single and not path.single:
        raise ConfigurationError(f"{where}: {text!r} must lead to one value; '[]' and '.*' can't stand here")
    return path


def _inside(value: Any, each: bool, steps: tuple[tuple[str, bool], ...]) -> Iterator[Any]:
    if each:
        for item in value if isinstance(value, list) else ():
            yield from _inside(item, False, steps)
    elif not steps:
        yield value
    elif isinstance(value, dict):
        (wanted, each), *rest = steps
        for name, item in value.items():
            if fold(name) == wanted:
                yield from _inside(item, each, tuple(rest))


def _blocked(value: Any, each: bool, steps: tuple[tuple[str, bool], ...]) -> bool:
    if value is None or not (each or steps):
        return False
    if each:
        return not isinstance(value, list) or any(_blocked(item, False, steps) for item in value)
    if not isinstance(value, dict):
        return True
    (wanted, each), *rest = steps
    return any(_blocked(item, each, tuple(rest)) for name, item in value.items() if fold(name) == wanted)


Leaf: TypeAlias = Literal["plain", "any", "null"]
_STRENGTH: Final[tuple[Leaf | None, ...]] = (None, "plain", "any", "null")

Level: TypeAlias = dict[str, "Opened"]


@dataclass(slots=True)
class Opened:
    """What a rule lets stand at one name: a leaf, an object of some fields, a list of objects of some fields.

    `plain` is a scalar or a list of scalars, `any` whatever it is, `null` only null, however else it is opened.
    """

    leaf: Leaf | None = None
    fields: Level | None = None
    items: Level | None = None


def open_path(level: Level, path: Path, leaf: Leaf) -> None:
    """Add `path` to what `level` opens."""
    *way, (last, _) = path.steps
    for name, each in way:
        node = level.setdefault(name, Opened())
        if each:
            node.items = level = {} if node.items is None else node.items
        else:
            node.fields = level = {} if node.fields is None else node.fields
    node = level.setdefault(last, Opened())
    node.leaf = max(node.leaf, "any" if path.open else leaf, key=_STRENGTH.index)


def opens(level: Level, path: Path) -> bool:
    """Whether a single `path` may hold a value other than null or a container."""
    inside: Level | None = level
    for name, _ in path.steps:
        node = (inside or {}).get(name)
        if node is None or node.leaf == "any":
            return node is not None
        inside = node.fields
    return node is not None and node.leaf == "plain"


def check_opened(level: Level, value: dict[str, Any], path: str = "") -> Denied | None:
    """G2, G5, G6a: every field of `value` is one that `level` opens, and holds what may stand there."""
    for name, item in value.items():
        place = f"{path}.{name}" if path else name
        node = level.get(fold(name))
        if node is None:
            return deny(
                "field_not_allowed",
                "fields",
                f"this tool may not set the field {quote(place)}",
                "leave it out and call again",
            )
        if denied := _check_value(node, item, place):
            return denied
    return None


def _check_value(node: Opened, value: Any, place: str) -> Denied | None:
    match value:
        case dict():
            if node.leaf == "any":
                return None
            if node.fields is not None:
                return check_opened(node.fields, value, place)
            return _wrong(place, "an object")
        case list():
            if node.leaf == "any":
                return None
            for index, item in enumerate(value):
                if isinstance(item, dict) and node.items is not None:
                    if denied := check_opened(node.items, item, f"{place}[{index}]"):
                        return denied
                elif isinstance(item, (dict, list)) or node.leaf != "plain":
                    return _wrong(place, "a list of that kind")
            return None if node.leaf == "plain" or node.items is not None else _wrong(place, "a list")
        case None:
            return None if node.leaf else _wrong(place, "null")
        case _:
            if node.leaf == "null":
                return _wrong(place, "anything but null")
            return None if node.leaf else _wrong(place, "a single value")


def _wrong(place: str, what: str) -> Denied:
    return deny(
        "field_value_not_allowed",
        "fields",
        f"the field {quote(place)} may not hold {what}",
        "send what the tool's rule allows there, or leave the field out",
    )
