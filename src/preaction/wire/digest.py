"""Digests over RFC 8785 canonical JSON: `sha-256:` and 64 lower-case hexadecimal digits."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import rfc8785

from preaction.errors import InvalidJSON


def canonical(value: Any) -> bytes:
    """The RFC 8785 bytes of a JSON value; `InvalidJSON` for what has none.

    That is NaN, infinities, integers beyond ±2⁵³, lone surrogates, keys that aren't strings, and nesting too deep.
    """
    try:
        return _SORTED.encode(value).encode() if _is_simple(value) else rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError, RecursionError) as error:
        raise InvalidJSON(f"no canonical JSON: {type(error).__name__}") from None


def _is_simple(value: Any) -> bool:
    """Whether the standard encoder, which is many times faster, writes the same.

    It does where no number has another form than its digits, and names sort alike by code points and by UTF-16.
    """
    kind = type(value)
    if kind is dict:
        return all(type(name) is str and name.isascii() and _is_simple(item) for name, item in value.items())
    if kind is list:
        return all(map(_is_simple, value))
    return kind is str or value is None or kind is bool or (kind is int and -(2**53) < value < 2**53)


def digest(value: Any) -> str:
    """`sha-256:…` over the canonical JSON of `value`."""
    return "sha-256:" + hashlib.sha256(canonical(value)).hexdigest()


def spelled_out(value: Any) -> tuple[Any, list[str]]:
    """Plain JSON with integers that have no RFC 8785 form as their digits, and where those stand.

    The places are JSON pointers in the order of their code points: without them a text and a number were the same.
    """
    large: list[str] = []
    return _spelled(value, "", large), sorted(large)


def _spelled(value: Any, path: str, large: list[str]) -> Any:
    if isinstance(value, dict):
        return {name: _spelled(item, f"{path}/{_token(name)}", large) for name, item in value.items()}
    if isinstance(value, list):
        return [_spelled(item, f"{path}/{index}", large) for index, item in enumerate(value)]
    if isinstance(value, int) and abs(value) >= 2**53:
        large.append(path)
        return str(value)
    return value


def _token(name: str) -> str:
    """A name in a JSON pointer (RFC 6901), so that `a/b` is another place than `b` in `a`."""
    return name.replace("~", "~0").replace("/", "~1")


def content_digest(content: Mapping[str, str]) -> str:
    """The `contentDigest` of an output's content: field name → text, code point for code point.

    For an object of strings the standard encoder writes the RFC 8785 form, given the order of names, many times faster.
    """
    ordered = dict(sorted(content.items(), key=lambda pair: pair[0].encode("utf-16-be", "surrogatepass")))
    try:
        written = _STRINGS.encode(ordered).encode()
    except UnicodeEncodeError:
        raise InvalidJSON("no canonical JSON: a text holds a lone surrogate") from None
    return "sha-256:" + hashlib.sha256(written).hexdigest()


_SORTED = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
_STRINGS = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
