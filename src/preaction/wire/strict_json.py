"""JSON that means one thing only: what two careful readers could read differently is refused.

Repeated keys at any level, NaN and Infinity, numbers that overflow, lone surrogates, bytes that aren't UTF-8, a byte
order mark and deep nesting all raise `InvalidJSON`, and no other exception leaves `loads`.
"""

import json
from collections import Counter
from typing import Any, Final, TypeAlias

import pydantic_core

from preaction.errors import InvalidJSON

JSON: TypeAlias = dict[str, Any] | list[Any] | str | int | float | bool | None

MAX_BYTES: Final = 1 << 20
"""1 MiB: the largest answer that anybody here reads."""


def loads(data: bytes | str, *, max_bytes: int = MAX_BYTES) -> JSON:
    """Read one JSON text of at most `max_bytes` UTF-8 bytes and 200 levels, or raise `InvalidJSON`."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        raw = text.encode("utf-8")  # a lone surrogate in a str can't be encoded
    except UnicodeError:
        raise InvalidJSON("the text is not valid UTF-8") from None
    if len(raw) > max_bytes:
        raise InvalidJSON(f"the text is {len(raw)} bytes long; at most {max_bytes} are read")
    try:
        # Two readers: the fast one refuses bad Unicode, deep nesting and NaN, the other sees repeated keys.
        pydantic_core.from_json(raw, allow_inf_nan=False, cache_strings="none")
        value: JSON = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise InvalidJSON(f"not strict JSON: {error}") from None
    return value


def load_object(data: bytes | str, *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """`loads` where only an object will do."""
    value = loads(data, max_bytes=max_bytes)
    if not isinstance(value, dict):
        raise InvalidJSON("a JSON object is needed")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"the key {json.dumps(twice[:80])} is repeated in one object")
    return found


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float)
