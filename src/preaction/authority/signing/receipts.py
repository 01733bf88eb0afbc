"""Signatures and seals: what makes an altered record show.

A receipt is a compact JWS (Ed25519) over the RFC 8785 bytes of a record: anybody with the public key can check it. A
seal is a keyed hash over all columns of one row, checked whenever the row is read: it shows to us alone that any
column, signed or not, was altered. Where the keys are kept, and how they change, is in `signing_keys`.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

ALGORITHM: Final = "Ed25519"
TYPE: Final = "preaction-receipt+jws"

_PUBLIC: Final = "kty", "crv", "x"

_JWS: Final = jws.JWSRegistry(algorithms=[ALGORITHM])
_JWS.max_payload_length = 8 << 20  # in base64: more than any record has; joserfc's own bound is less than a request may


class ReceiptKey:
    """One public key: opens the receipts that were signed under it."""

    def __init__(self, key: OKPKey) -> None:
        self._key = key
        self.kid: Final = key.thumbprint()

    def jwk(self) -> dict[str, Any]:
        """The public key as an entry of a JWK set."""
        whole = self._key.as_dict(private=False)
        # By name: what else stands in the key's file may be secret.
        return {**{name: whole[name] for name in _PUBLIC}, "kid": self.kid, "alg": ALGORITHM, "use": "sig"}

    def opens(self, receipt: object) -> bytes | None:
        """The payload of a receipt under this key, or None."""
        found = open_receipt(receipt, {self.kid: self})
        return None if found is None else found[0]


class Signer(ReceiptKey):
    """One Ed25519 key with its private half: signs receipts, and seals rows."""

    def __init__(self, key: OKPKey) -> None:
        super().__init__(key)
        private = str(key.as_dict(private=True)["d"])
        self.seal_key: Final = HKDF(SHA256(), 32, None, b"preaction seal").derive(private.encode())

    def sign(self, payload: bytes) -> str:
        """A compact JWS over `payload`."""
        header = {"alg": ALGORITHM, "kid": self.kid, "typ": TYPE}
        return jws.serialize_compact(header, payload, self._key, algorithms=[ALGORITHM])

    def seal(self, values: Sequence[object]) -> str:
        """The keyed hash of a row's values; `TypeError` for a value that no row of ours has."""
        return seal(self.seal_key, values)

    def private_jwk(self) -> dict[str, Any]:
        """The whole key, for its file only."""
        whole = self._key.as_dict(private=True)
        return {name: whole[name] for name in (*_PUBLIC, "d")}


@dataclass(frozen=True, slots=True)
class Retired:
    """What is kept of a key that signs no more: `until` is the number of the last execution under it."""

    key: ReceiptKey
    seal_key: bytes
    until: int


def new_signer() -> Signer:
    """A signer with a new key."""
    return Signer(OKPKey.generate_key(ALGORITHM))


def open_receipt(receipt: object, keys: Mapping[str, ReceiptKey]) -> tuple[bytes, str] | None:
    """The payload of a receipt and the `kid` that it was signed under; None unless one of `keys` signed it, as ours."""
    if not isinstance(receipt, str):
        return None
    try:
        opened = jws.deserialize_compact(receipt, lambda it: keys[it.headers()["kid"]]._key, registry=_JWS)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    header = opened.headers()
    if header.get("typ") != TYPE or opened.payload is None:
        return None
    return opened.payload, str(header["kid"])


def seal(key: bytes, values: Sequence[object]) -> str:
    """The keyed hash of a row's values; `TypeError` for a value that no row of ours has."""
    return hmac.new(key, json.dumps(values).encode(), hashlib.sha256).hexdigest()
