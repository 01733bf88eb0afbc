"""Values: what others handed in, as plain JSON that nobody else holds, or why it can't be that."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from preaction._core.call import MAX_BYTES, MAX_DEPTH, Malformed, plain
from preaction._core.denied import quote
from preaction.errors import MisuseError

log = logging.getLogger("preaction")

DEEPEST: Final = 24
"""Levels of nesting in a value, so that the records around it stay within the 32 that are read."""

WRAPPED: Final = DEEPEST + 1
"""With the wrapper that says whose value it is."""

LONGEST: Final = 500
"""Characters that are kept of a hook's own words."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why there is no value: where it should have been and what is wrong, without a value or an error's text."""

    why: str


def frozen(read: Callable[[], object], where: str, *, deepest: int = MAX_DEPTH) -> Any | Unusable:
    """What `read` gives, as a copy in plain JSON, or why there is none.

    NaN, infinities, integers that can't be written out, lone surrogates, two names that differ in nothing but capitals,
    nesting past `deepest` levels and all that JSON doesn't know are unusable; tuples become lists.
    """
    try:
        found = read()
        return found if isinstance(found, Unusable) else plain(found, 1 + MAX_DEPTH - deepest, [MAX_BYTES])
    except Malformed as bad:
        place = bad.place()
        why = f"it is nested more than {deepest} deep" if "nested" in bad.why else bad.why
        return Unusable(f"{where}: {why}" + (f" (in {quote(place)})" if place else ""))
    except Exception as error:  # noqa: BLE001 - an object of somebody else's may do anything when it is read
        told = {"code": "value_unreadable"}
        log.error("preflight: %s could not be read: %s", quote(where), type(error).__name__, extra=told)
        return Unusable(f"{where}: it could not be read")


def copied(value: Any) -> Any:
    """Another copy of what is plain JSON already."""
    if isinstance(value, dict):
        return {name: copied(inner) for name, inner in value.items()}
    return list(map(copied, value)) if isinstance(value, list) else value


def mapping_of(answer: object, where: str, *, deepest: int = MAX_DEPTH) -> dict[str, Any] | Unusable:
    """A hook's answer where only a mapping will do, as a copy."""
    if isinstance(answer, Unusable):
        return answer
    if not isinstance(answer, Mapping):
        return Unusable(f"{where}: a mapping is needed, not {type(answer).__name__}")
    found: dict[str, Any] | Unusable = frozen(lambda: answer, where, deepest=deepest)
    return found


def entries_of(given: object, where: str) -> dict[str, Any]:
    """A mapping by name with each entry frozen by itself, `Unusable` ones among them; None is an empty one.

    `MisuseError` names what is no mapping from names.
    """
    if given is None:
        return {}
    names = frozen(lambda: list(given), where) if isinstance(given, Mapping) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise MisuseError(f"{where}: a mapping from names is needed")
    return {name: frozen(partial(_entry, given, name), f"{where}.{name}", deepest=WRAPPED) for name in names}


def _entry(given: Any, name: str) -> object:
    return given[name]


def words(text: object, otherwise: str) -> str:
    """A hook's own words on one line of at most 500 characters that can be seen; `otherwise` where it said none."""
    if not isinstance(text, str):
        return otherwise
    seen = "".join(one for one in text[: 4 * LONGEST] if one.isprintable() or one.isspace())
    return " ".join(seen.split())[:LONGEST] or otherwise
