"""Small texts over the store's `look` and `swap`: names that tell nothing, and counters."""

import hashlib
import json
from datetime import timedelta
from typing import Any, Final

from preaction.errors import InvalidJSON, SessionFull
from preaction.stores import Store
from preaction.wire.digest import digest, spelled_out

KEEP_COUNTS: Final = timedelta(days=1)
"""How long a run's counts are kept after the last of its calls."""

_TRIES: Final = 10_000


def name_of_text(kind: str, *parts: str) -> str:
    """A name in the store: what it is for, and a digest of what tells it apart."""
    told = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"pipeline/{kind}/{told}"


def command_digest(value: Any) -> str:
    """`sha-256:…` of plain JSON: equal for equal values, whatever their layout; 1.0 is 1, and large integers count."""
    try:
        return digest(value)
    except InvalidJSON:
        spelled, large = spelled_out(value)
        return digest({"value": spelled, "integers": large})


def count_one_more(store: Store, name: str) -> int:
    """Add one to the count under `name`, and give the new count; atomic between all who share the store."""
    held = store.look(name)
    for _ in range(_TRIES):  # each time that this one fails, another one has counted
        count = (0 if held is None else int(held)) + 1
        swapped = store.swap(name, held, str(count), KEEP_COUNTS)
        if swapped.done:
            return count
        held = swapped.value
    raise SessionFull("a count could not be written: too many count at the same time")
