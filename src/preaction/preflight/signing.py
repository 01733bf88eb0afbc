"""Signatures over what this side wrote (F14): an HMAC over canonical JSON, which nothing made by hand has."""

import hashlib
import hmac
import inspect
import secrets
from collections.abc import Awaitable
from typing import Any, Final, Protocol, runtime_checkable

from preaction.errors import ConfigurationError, InvalidJSON, MisuseError, StoreUnavailable
from preaction.preflight.masking import MaskedStorage
from preaction.preflight.record import UNKEYED
from preaction.preflight.storage import Record, Storage, claim_of, read, written
from preaction.wire.digest import canonical, spelled_out

_SIGNATURE: Final = "signature"


@runtime_checkable
class _Listing(Protocol):
    def records(self, action_key: str | None = None) -> list[dict[str, Any]]: ...


class Signer:
    """Signs with `secret`: bytes, at best 32 random ones, which every process that has to agree is given.

    None makes a secret of this process's own, which is gone when the process ends. Raises `ConfigurationError` for all
    else.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        given: object = secret
        if given is not None and not (isinstance(given, bytes) and given):
            raise ConfigurationError("secret: bytes are needed, at best 32 random ones, or None")
        self._secret = secrets.token_bytes(32) if secret is None else secret

    def __repr__(self) -> str:
        return "Signer(…)"

    def sign(self, purpose: str, value: Any) -> str:
        """The signature of plain JSON, for one purpose and no other; `InvalidJSON` for what isn't any."""
        try:
            text = canonical([purpose, value])
        except InvalidJSON:
            text = canonical([purpose, *spelled_out(value)])
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()

    def holds(self, signature: object, purpose: str, value: Any) -> bool:
        """Whether exactly this was signed. Never raises for a value that can't be."""
        if not isinstance(signature, str) or not signature.isascii():
            return False
        try:
            return hmac.compare_digest(signature, self.sign(purpose, value))
        except InvalidJSON:
            return False

    def sign_state(self, record: Record, act: str | None = None) -> str:
        """The signature of a state, with the act that it is for: states of one act run once in all (F14).

        Without `act` it is one of its own, also for a state with the same record.
        """
        act = secrets.token_hex(16) if act is None else act
        return f"{act}.{self.sign('state', [act, dict(record)])}"

    def act_of(self, signature: object, record: Record) -> str | None:
        """The act of a state, if `sign_state` gave this signature to exactly this record."""
        if not isinstance(signature, str):
            return None
        act, _, rest = signature.partition(".")
        return act if self.holds(rest, "state", [act, dict(record)]) else None


class SignedStorage:
    """A storage whose records are signed with their action key as they are kept in `inner`.

    Where one was altered, made by hand or moved to another key, `load` and `records` raise `StoreUnavailable`.
    Whoever may write to `inner` can still remove a record, so that an older one is the last. Masking goes outside:
    `MaskedStorage(SignedStorage(inner, secret), fields)`. Raises `ConfigurationError` for what can't be right.
    """

    def __init__(self, inner: Storage, secret: bytes) -> None:
        given: tuple[object, object] = inner, secret
        if not isinstance(given[0], Storage) or isinstance(given[0], MaskedStorage):
            raise ConfigurationError("storage: what is signed is a storage that masks nothing; mask around it")
        if given[1] is None:
            raise ConfigurationError("secret: bytes are needed: what is kept outlives this process")
        self._inner = inner
        self._signer = Signer(secret)
        self.claim = claim_of(inner)

    def persist(self, action_key: str, record: Record) -> Any:
        """Add a record with its signature; see `Storage.persist`."""
        plain = read(written(record))
        if plain is None or _SIGNATURE in plain:
            raise MisuseError("record: it is signed already")
        return self._inner.persist(action_key, plain | {_SIGNATURE: self._signer.sign("row", [action_key, plain])})

    def load(self, action_key: str) -> Any:
        """What was executed last, without its signature; see `Storage.load`."""
        found = self._inner.load(action_key)
        return self._opened_later(action_key, found) if inspect.isawaitable(found) else self._opened(action_key, found)

    def records(self, action_key: str | None = None) -> list[dict[str, Any]]:
        """What `inner.records` gives, each without its signature: from here a scheduler takes deferred records."""
        if not isinstance(self._inner, _Listing):
            raise MisuseError("storage: the one that is signed can't list its records")
        found = self._inner.records(action_key)
        keys = [(one.get("action_key") or UNKEYED) if action_key is None else action_key for one in found]
        return [self._plain(key, one) for key, one in zip(keys, found, strict=True)]

    async def _opened_later(self, action_key: str, found: Awaitable[Any]) -> dict[str, Any] | None:
        return self._opened(action_key, await found)

    def _opened(self, action_key: str, found: Any) -> dict[str, Any] | None:
        return None if found is None else self._plain(action_key, found)

    def _plain(self, action_key: str, found: Any) -> dict[str, Any]:
        plain = dict(found) if isinstance(found, dict) else {}
        signature = plain.pop(_SIGNATURE, None)
        if not self._signer.holds(signature, "row", [action_key, plain]):
            raise StoreUnavailable("storage: a record isn't as it was written")
        return plain
