"""10 · Result: from whatever a tool gave back to plain, bounded, clean JSON, or the reason why it can't be shown (P11).

Whatever comes of it here, the act stands as done.
"""

import dataclasses
import json
import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel

MAX_DEPTH: Final = 64

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, save tabs and new lines
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of a text
    "\u2028\u2029\ufeff\ufff9-\ufffb"  # further line ends, marks and annotations
    "\U000e0000-\U000e007f]"  # tags: letters that nobody sees, and a model reads
)


class Unreadable(Exception):
    """A result that isn't JSON (`result_invalid`), or more than may be shown (`result_too_large`)."""

    def __init__(self, code: Literal["result_invalid", "result_too_large"]) -> None:
        super().__init__(code)
        self.code: Literal["result_invalid", "result_too_large"] = code


def plain_result(value: Any, *, max_bytes: int) -> Any:
    """`value` as plain JSON of at most `max_bytes` UTF-8 bytes, or `Unreadable`.

    Read are JSON's own types, tuples, pydantic models, dataclasses, enums, dates, `Decimal` and `UUID`; of any other
    object nothing is asked.
    """
    try:
        copied = _copy(value, 1, [max_bytes])
        size = len(json.dumps(copied, ensure_ascii=False, separators=(",", ":")).encode())
    except Unreadable:
        raise
    except Exception:  # noqa: BLE001 - an object of a tool's own may do anything when it is read
        raise Unreadable("result_invalid") from None
    if size > max_bytes:
        raise Unreadable("result_too_large")
    return copied


def _copy(value: Any, depth: int, room: list[int]) -> Any:
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = str.__str__(value)
        _spend(room, len(text))
        return text
    if isinstance(value, int):
        if value.bit_length() > 14_000:
            raise Unreadable("result_invalid")
        return int.__add__(value, 0)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Unreadable("result_invalid")
        return float.__add__(value, 0.0)
    return _copy_container(value, depth, room) if depth <= MAX_DEPTH else _refuse()


def _copy_container(value: Any, depth: int, room: list[int]) -> Any:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        copied: dict[str, Any] = {}
        for name, item in value.items():
            if not isinstance(name, str) or name in copied:
                raise Unreadable("result_invalid")
            _spend(room, len(name) + 3)
            copied[str.__str__(name)] = _copy(item, depth + 1, room)
        return copied
    if isinstance(value, (list, tuple)):
        items = []
        for item in value:
            _spend(room, 1)
            items.append(_copy(item, depth + 1, room))
        return items
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    return _refuse()


def _spend(room: list[int], size: int) -> None:
    room[0] -= size
    if room[0] < 0:
        raise Unreadable("result_too_large")


def _refuse() -> Any:
    raise Unreadable("result_invalid")


def require_fit(validator: Any, result: Any) -> None:
    """Raise `Unreadable` unless plain JSON fits the validator of an output schema; None takes everything."""
    try:
        fits = validator is None or validator.is_valid(result)
    except ValueError:  # a number or text that no validator can take
        fits = False
    if not fits:
        raise Unreadable("result_invalid")


def clean_text(text: str) -> str:
    """`text` without characters that can't be seen and still say something; line ends as `\\n`."""
    return _UNSEEN.sub("", text.replace("\r\n", "\n"))


def clean(value: Any) -> Any:
    """Plain JSON with every text and name in it cleaned; `Unreadable` where two names become one."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        cleaned = {clean_text(name): clean(item) for name, item in value.items()}
        return cleaned if len(cleaned) == len(value) else _refuse()
    return value


def text_of(result: Any) -> str:
    """A clean result as the model reads it: a text as it is, all else as JSON."""
    if isinstance(result, str):
        return result or "(empty)"
    return json.dumps(result, ensure_ascii=False)
