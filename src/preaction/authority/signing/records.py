"""What is written down for good: a record, its digest and its receipt, and the ids that name records.

A record is canonical JSON. `Records.open` gives it back only when signature, digest and bytes still agree.
"""

import secrets
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from preaction.authority.signing.signing_keys import SigningKeys
from preaction.wire import strict_json
from preaction.wire.digest import canonical

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_MAX_RECORD: Final = 4 * strict_json.MAX_BYTES


def new_id(prefix: str, now: datetime) -> str:
    """A ULID behind a prefix, such as `exe_01K…`: 48 bits of time in ms, then 80 random ones."""
    number = (max(0, int(now.timestamp() * 1000)) << 80) | secrets.randbits(80)
    return f"{prefix}_" + "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


class Records:
    """Writes records under the current key, and reads back those under it and the ones before."""

    def __init__(self, keys: SigningKeys, notice: Callable[[], bool]) -> None:
        """`notice` tells whether there are new keys, to be tried before a record is called altered."""
        self._keys = keys
        self._notice = notice
        # Whether three texts agree depends on nothing but the keys, so it is worked out once for the same three.
        self._agreed = lru_cache(maxsize=1024)(self._open)

    def new(self, record: Mapping[str, Any]) -> dict[str, str]:
        """The columns `record`, `digest` and `receipt` of a row."""
        payload = canonical(record)
        return {"record": payload.decode(), "digest": _digest(payload), "receipt": self._keys.signer.sign(payload)}

    def open(self, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The record of a row, to be read only; None when its text, digest or receipt was altered."""
        texts = row["record"], row["digest"], row["receipt"]
        found = self._agreed(*texts)
        if found is None and self._notice():
            self._agreed.cache_clear()
            found = self._agreed(*texts)
        return found

    def signed(self, receipt: object) -> tuple[Mapping[str, Any], dict[str, str]] | None:
        """The record that a receipt says, and the columns `record` and `digest` that belong to it; None if not ours."""
        opened = self._keys.opens(receipt)
        record = None if opened is None else _in_time(*opened)
        if opened is None or record is None:
            return None
        return record, {"record": opened[0].decode(), "digest": _digest(opened[0])}

    def _open(self, record: str, digest: str, receipt: str) -> Mapping[str, Any] | None:
        payload = record.encode("utf-8", "replace")
        if digest != _digest(payload):
            return None
        opened = self._keys.opens(receipt)
        if opened is None or opened[0] != payload:
            return None
        return _in_time(*opened)


def _in_time(payload: bytes, until: int | None) -> Mapping[str, Any] | None:
    """A record; None for an execution after the last one, `until`, that its key may have signed."""
    record = strict_json.load_object(payload, max_bytes=_MAX_RECORD)
    return None if until is not None and record.get("number", 0) > until else record


def _digest(payload: bytes) -> str:
    return "sha-256:" + sha256(payload).hexdigest()
