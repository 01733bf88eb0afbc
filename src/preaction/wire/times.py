"""RFC 3339 times, always with a zone: a time that could mean two instants means none."""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def read_time(value: Any) -> datetime:
    """An aware `datetime` in UTC from an RFC 3339 text or an aware `datetime`; else `ValueError`."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError("a time needs a zone")
        return value.astimezone(UTC)
    return _parse(value if isinstance(value, str) else "")


@lru_cache(maxsize=4096)
def _parse(text: str) -> datetime:
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError("not an RFC 3339 time with a zone")
    date, time, fraction, zone = match.groups()
    try:
        return datetime.fromisoformat(f"{date}T{time}{(fraction or '')[:7]}{zone.upper()}").astimezone(UTC)
    except OverflowError:
        raise ValueError("the time is out of range") from None


def write_time(value: datetime) -> str:
    """RFC 3339 in UTC, such as `2026-11-30T09:00:00Z`; microseconds only where there are some."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


Time = Annotated[
    datetime,
    BeforeValidator(read_time),
    PlainSerializer(write_time, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
