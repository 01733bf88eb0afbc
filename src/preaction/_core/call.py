"""1 · Call: from whatever a runtime hands over to a private plain copy that nothing can change any more.

Requirements G1 and G3. Everything after this stage reads the copy; the tool gets another one made from it.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from preaction._core.denied import Code, Denied, deny, quote

MAX_DEPTH: Final = 32
MAX_BYTES: Final = 256 * 1024
"""Limits of G1: levels of nesting, and bytes as UTF-8 JSON."""
MAX_BITS: Final = 14_000
"""Longer integers have more than the 4,300 digits that Python reads and writes."""


class Call(NamedTuple):
    """One proposed call. `arguments` is ours alone: plain dicts, lists, strings, finite numbers, booleans and nulls.

    `folded` holds the same values by their names without ASCII case.
    """

    session_id: object
    tool: str
    arguments: dict[str, Any]
    folded: dict[str, Any]


class Malformed(Exception):
    """Internal to this stage: what is wrong, and where, collected while the recursion unwinds."""

    def __init__(self, code: Code, why: str) -> None:
        super().__init__(why)
        self.code: Code = code
        self.why = why
        self.path: list[str] = []

    def place(self) -> str:
        """The path of the offending value, such as `items[2].name`; empty at the top."""
        return "".join(reversed(self.path)).lstrip(".")


def read_call(session_id: object, tool: str, arguments: object) -> Call | Denied:
    """The frozen copy, or a denial with `malformed_call` (G1) or `field_repeated` (G3)."""
    if not isinstance(arguments, Mapping):
        return _malformed("the arguments are not one object")
    try:
        copy = plain(arguments, 1, [MAX_BYTES])
    except Malformed as bad:
        place = bad.place()
        return _malformed(f"{bad.why} (in {quote(place)})" if place else bad.why, bad.code)
    # Only what could be too large is written out to be measured.
    if _size_bound(copy) > MAX_BYTES and len(_ENCODER.encode(copy).encode()) > MAX_BYTES:
        return _malformed(f"the arguments are larger than {MAX_BYTES // 1024} KiB")
    return Call(session_id, tool, copy, {fold(name): value for name, value in copy.items()})


_ENCODER = json.JSONEncoder(ensure_ascii=False)


def _size_bound(value: Any) -> int:
    """At least the bytes that `value` takes as UTF-8 JSON: a control character becomes six."""
    if isinstance(value, str):
        return 6 * len(value) + 4
    if isinstance(value, dict):
        return 4 + sum(6 * len(name) + 8 + _size_bound(item) for name, item in value.items())
    if isinstance(value, list):
        return 4 + sum(map(_size_bound, value), 2 * len(value))
    return 32 if not isinstance(value, int) else 5 + value.bit_length()  # `false` is an integer of no bits


def _malformed(why: str, code: Code = "malformed_call") -> Denied:
    return deny(code, "fields", why, "send the arguments as one plain JSON object")


def plain(value: Any, depth: int = 1, room: list[int] | None = None) -> Any:
    """A deep copy in plain JSON types; `Malformed` for all that JSON can't hold, and for names that fold together.

    `room` holds how many values and containers may still be copied: one list in many places is as many lists in JSON.
    """
    kind = type(value)
    if kind is str or isinstance(value, str):
        return _string(value)
    if value is None or kind is bool:
        return value
    if isinstance(value, int):
        value = int.__add__(value, 0)  # an IntEnum, say, becomes its plain number
        if value.bit_length() > MAX_BITS:
            raise Malformed("malformed_call", "a number is too long to be written out")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Malformed("malformed_call", "a number is not finite")
        return float.__add__(value, 0.0) if kind is not float else value
    if depth > MAX_DEPTH:
        raise Malformed("malformed_call", f"the arguments are nested more than {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        return _object(value, depth, room)
    if isinstance(value, (list, tuple)):
        return _array(value, depth, room)
    raise Malformed("malformed_call", f"a value of type {kind.__name__} is not JSON")


def _string(value: str) -> str:
    value = str.__str__(value)  # before anything that a subclass could answer
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Malformed("malformed_call", "a text holds a lone surrogate") from None
    return value


def _spend(room: list[int], size: int) -> None:
    room[0] -= 1 + size  # each takes a byte at least
    if room[0] < 0:
        raise Malformed("malformed_call", f"the arguments are larger than {MAX_BYTES // 1024} KiB")


def _object(value: Mapping[Any, Any], depth: int, room: list[int] | None) -> dict[str, Any]:
    if room is not None:
        _spend(room, len(value))
    copy: dict[str, Any] = {}
    folded: set[str] = set()
    for name, item in value.items():
        if not isinstance(name, str):
            raise Malformed("malformed_call", "a field name is not a string")
        name = _string(name)
        if name in copy:  # two keys that a mapping holds apart, and JSON would not
            raise Malformed("field_repeated", f"the field {quote(name)} stands there twice")
        folded.add(fold(name))
        try:
            copy[name] = plain(item, depth + 1, room)
        except Malformed as bad:
            bad.path.append(f".{name}")
            raise
        if len(folded) != len(copy):
            raise Malformed("field_repeated", f"the field {quote(name)} stands there twice, give or take its capitals")
    return copy


def _array(value: list[Any] | tuple[Any, ...], depth: int, room: list[int] | None) -> list[Any]:
    if room is not None:
        _spend(room, len(value))
    copy = []
    for index, item in enumerate(value):
        try:
            copy.append(plain(item, depth + 1, room))
        except Malformed as bad:
            bad.path.append(f"[{index}]")
            raise
    return copy


_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def fold(text: str) -> str:
    """`text` without ASCII case and nothing else (G2): a Kelvin sign, a dotless i or a long s stays what it is."""
    return text.lower() if text.isascii() else text.translate(_LOWER)
