"""What is written down for good: a record, its digest and its receipt, and the ids that name records.

A record is canonical JSON. `Records.open` gives it back only when signature, digest and bytes still agree.
"""

import secrets
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from preaction.authority.receipts import Signer
from preaction.wire import strict_json
from preaction.wire.digest import canonical

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_MAX_RECORD: Final = 4 * strict_json.MAX_BYTES


def new_id(prefix: str, now: datetime) -> str:
    """A ULID behind a prefix, such as `exe_01K…`: 48 bits of time in ms, then 80 random ones."""
    number = (max(0, int(now.timestamp() * 1000)) << 80) | secrets.randbits(80)
    return f"{prefix}_" + "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


class Records:
    """Writes records under one key, and reads them back."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        # Whether three texts agree depends on nothing else, so it is worked out once for the same three.
        self._agreed = lru_cache(maxsize=1024)(self._open)

    def new(self, record: Mapping[str, Any]) -> dict[str, str]:
        """The columns `record`, `digest` and `receipt` of a row."""
        payload = canonical(record)
        return {"record": payload.decode(), "digest": _digest(payload), "receipt": self._signer.sign(payload)}

    def open(self, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The record of a row, to be read only; None when its text, digest or receipt was altered."""
        return self._agreed(row["record"], row["digest"], row["receipt"])

    def _open(self, record: str, digest: str, receipt: str) -> Mapping[str, Any] | None:
        payload = record.encode("utf-8", "replace")
        if digest != _digest(payload) or self._signer.opens(receipt) != payload:
            return None
        return strict_json.load_object(payload, max_bytes=_MAX_RECORD)


def _digest(payload: bytes) -> str:
    return "sha-256:" + sha256(payload).hexdigest()
