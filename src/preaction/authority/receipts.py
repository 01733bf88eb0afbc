"""Signatures and seals: what makes an altered record show.

A receipt is a compact JWS (Ed25519) over the RFC 8785 bytes of a record: anybody with the public key can check it. A
seal is a keyed hash over all columns of one row, checked whenever the row is read: it shows to us alone that any
column, signed or not, was altered. The private key stands in a file beside the database, never in it.
"""

import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from preaction.errors import ConfigurationError

ALGORITHM: Final = "Ed25519"
TYPE: Final = "preaction-receipt+jws"


class Signer:
    """One Ed25519 key: signs receipts, checks them, seals rows."""

    def __init__(self, key: OKPKey) -> None:
        self._key = key
        self.kid = key.thumbprint()
        private = key.as_dict(private=True)["d"]
        self._seal_key = HKDF(SHA256(), 32, None, b"preaction seal").derive(str(private).encode())

    def jwks(self) -> dict[str, Any]:
        """The public keys as a JWK set."""
        public = self._key.as_dict(private=False)
        return {"keys": [{**public, "kid": self.kid, "alg": ALGORITHM, "use": "sig"}]}

    def sign(self, payload: bytes) -> str:
        """A compact JWS over `payload`."""
        header = {"alg": ALGORITHM, "kid": self.kid, "typ": TYPE}
        return jws.serialize_compact(header, payload, self._key, algorithms=[ALGORITHM])

    def opens(self, receipt: object) -> bytes | None:
        """The payload of a receipt of ours, or None."""
        if not isinstance(receipt, str):
            return None
        try:
            opened = jws.deserialize_compact(receipt, self._key, algorithms=[ALGORITHM])
        except (JoseError, ValueError, TypeError):
            return None
        header = opened.headers()
        return opened.payload if header.get("kid") == self.kid and header.get("typ") == TYPE else None

    def seal(self, values: Sequence[object]) -> str:
        """The keyed hash of a row's values; `TypeError` for a value that no row of ours has."""
        return hmac.new(self._seal_key, json.dumps(values).encode(), hashlib.sha256).hexdigest()


def new_signer() -> Signer:
    """A signer with a new key, for a database that ends with the process."""
    return Signer(OKPKey.generate_key(ALGORITHM))


def signer_at(path: Path, *, create: bool) -> Signer:
    """The signer whose key stands in the file `path`; with `create`, made there if it's missing.

    The file is made whole before it gets its name, so that of two processes that start at once both read one key.
    """
    if create and not path.exists():
        _write_new(path, json.dumps(OKPKey.generate_key(ALGORITHM).as_dict(private=True)))
    try:
        return Signer(OKPKey.import_key(json.loads(path.read_text("ascii"))))
    except FileNotFoundError:
        raise ConfigurationError(f"the signing key {path.name} of this database isn't beside it") from None
    except (OSError, ValueError, KeyError, TypeError, JoseError) as error:
        raise ConfigurationError(f"the signing key {path.name} can't be read: {type(error).__name__}") from None


def _write_new(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # another process was first, and its key is the one
    finally:
        draft.unlink()
