"""2 · Parse: from the raw proposal to plain JSON, or a reason. No input raises (P1).

The text is read once, strictly and whole: nothing is repaired, decoded twice or replaced by `{}`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from preaction._core.call import Malformed, plain
from preaction.errors import InvalidJSON
from preaction.wire import strict_json

_LEAST, _MOST = -(2**63), 2**64 - 1


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """Why the arguments can't be read; the two codes of P1."""

    code: Literal["invalid_json", "arguments_too_large"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """The arguments as plain dicts, lists, strings, numbers, booleans and nulls that nobody else holds."""

    value: Any


INVALID: Final = ParseFailure("invalid_json")
TOO_LARGE: Final = ParseFailure("arguments_too_large")


def parse_arguments(raw: object, *, max_bytes: int = 16_384) -> Parsed | ParseFailure:
    """Read what the model sent: JSON as text or bytes, or a mapping. No text (`""`, `b""`, `None`) is `{}`.

    Bytes are counted in UTF-8. Nesting past 32 levels, integers past 64 bits, and two names in one object that differ
    in nothing but their capitals, which one reader would take for one, are no valid JSON here.
    """
    try:
        if raw is None:
            return Parsed({})
        if isinstance(raw, str):
            return _parse_text(str.__str__(raw), max_bytes)
        if isinstance(raw, (bytes, bytearray)):
            return _parse_text(bytes(raw), max_bytes)
        return _copy_mapping(raw, max_bytes) if isinstance(raw, Mapping) else INVALID
    except Exception:  # noqa: BLE001 - an object of the caller's own may do anything when it is read
        return INVALID


def _parse_text(raw: str | bytes, max_bytes: int) -> Parsed | ParseFailure:
    if len(raw) > max_bytes or (isinstance(raw, str) and not raw.isascii() and len(_encoded(raw)) > max_bytes):
        return TOO_LARGE
    if not raw:
        return Parsed({})
    try:
        value = plain(strict_json.loads(raw, max_bytes=max_bytes))
    except (InvalidJSON, Malformed):
        return INVALID
    return Parsed(value) if has_small_integers(value) else INVALID


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _copy_mapping(raw: Mapping[Any, Any], max_bytes: int) -> Parsed | ParseFailure:
    """A mapping held to what its text would be held to."""
    try:
        value = plain(raw, 1, [max_bytes])
    except Malformed as bad:
        return TOO_LARGE if "larger than" in bad.why else INVALID
    if len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) > max_bytes:
        return TOO_LARGE
    return Parsed(value) if has_small_integers(value) else INVALID


def has_small_integers(value: Any) -> bool:
    """Whether no integer in a plain JSON value needs more than 64 bits, signed or not."""
    if isinstance(value, dict):
        return all(map(has_small_integers, value.values()))
    if isinstance(value, list):
        return all(map(has_small_integers, value))
    return isinstance(value, bool) or not isinstance(value, int) or _LEAST <= value <= _MOST
