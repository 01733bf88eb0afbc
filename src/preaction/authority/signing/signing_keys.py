"""The keys of one database: the one that signs and seals now, and those before it, which still open what they signed.

They stand in one file beside the database, never in it. The row of `schema` names the current one, so that all servers
change keys at the same moment. Of a retired key the file keeps the public half, the key of its seals, and the number of
the last execution under it; its private half is gone, so nobody can sign under it any more.
"""

import json
import os
import secrets
import stat
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from preaction.authority.signing.receipts import ReceiptKey, Retired, Signer, new_signer, open_receipt, seal
from preaction.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class _File:
    """What a key file holds. `until` is set for a private key that a rotation has replaced, or is about to."""

    private: Mapping[str, tuple[Signer, int | None]]
    retired: Sequence[Retired]
    first: Signer


class SigningKeys:
    """The keys of one database. Threads may share it: what changes is replaced whole."""

    def __init__(self, path: Path | None, *, create: bool = False) -> None:
        """Read the file `path`; with `create`, make it when it's missing. None: a new key, kept nowhere."""
        self._path = path
        if path is None:
            self._set(new_signer(), ())
            return
        if create and not path.exists():
            _write_new(path, json.dumps(new_signer().private_jwk()))
        file = _read(path)
        # Whoever opens the database takes the one that it names, by `adopt`.
        self._set(file.first, (*file.retired, *_replaced(file, file.first.kid)))

    @property
    def signer(self) -> Signer:
        """The current key."""
        return self._state[0]

    def jwks(self) -> dict[str, Any]:
        """The public keys as a JWK set, the current one first."""
        signer, retired, _ = self._state
        return {"keys": [signer.jwk(), *(each.key.jwk() for each in reversed(retired))]}

    def adopt(self, kid: str) -> bool:
        """Make `kid` the current key, from the file; False when it doesn't hold that key."""
        if kid == self.signer.kid:
            return True
        if self._path is None:
            return False
        file = _read(self._path)
        if kid not in file.private:
            return False
        self._set(file.private[kid][0], (*file.retired, *_replaced(file, kid)))
        return True

    def opens(self, receipt: object) -> tuple[bytes, int | None] | None:
        """The payload of a receipt of ours; and, when its key is retired, the last execution's number under it."""
        _, retired, keys = self._state
        opened = open_receipt(receipt, keys)
        if opened is None:
            return None
        payload, kid = opened
        return payload, next((each.until for each in retired if each.key.kid == kid), None)

    def fits(self, found: str, values: Sequence[object], *, number: int | None, retired: bool) -> bool:
        """Whether a seal is ours. `retired`: those of retired keys count, for an execution's `number` in their time.

        `TypeError` for values that no row has.
        """
        signer, before, _ = self._state
        if compare_digest(signer.seal(values), found):
            return True
        return retired and any(
            (number is None or number <= each.until) and compare_digest(seal(each.seal_key, values), found)
            for each in before
        )

    def prepare(self, until: int) -> Signer:
        """Write a new key into the file, beside the current one, whose last execution's number is `until`."""
        if self._path is None:
            raise ConfigurationError("this database ends with the process, and its signing key too")
        current, retired, _ = self._state
        new = new_signer()
        entries = [{**current.private_jwk(), "until": until}, new.private_jwk(), *map(_retired_entry, retired)]
        _write_over(self._path, entries)
        return new

    def settle(self) -> None:
        """Take the private half of every key but the current one out of the file."""
        if self._path is None:
            return
        signer, retired, _ = self._state
        _write_over(self._path, [signer.private_jwk(), *map(_retired_entry, retired)])

    def _set(self, signer: Signer, retired: Sequence[Retired]) -> None:
        keys = {each.key.kid: each.key for each in retired}
        # In one assignment, so that a reader in another thread sees the old keys or the new ones.
        self._state = signer, tuple(retired), {**keys, signer.kid: signer}


def _replaced(file: _File, kid: str) -> list[Retired]:
    """Private keys that a rotation replaced by `kid`, and that it was ended before it could take them out."""
    return [
        Retired(ReceiptKey(OKPKey.import_key(signer.jwk())), signer.seal_key, until)
        for name, (signer, until) in file.private.items()
        if name != kid and until is not None
    ]


def _read(path: Path) -> _File:
    try:
        content = json.loads(path.read_text("ascii"))
        entries = content.get("keys", [content])
        private = [(Signer(OKPKey.import_key(each)), _until(each)) for each in entries if "d" in each]
        retired = [
            Retired(ReceiptKey(OKPKey.import_key(each)), urlsafe_b64decode(each["seal"]), int(each["until"]))
            for each in entries
            if "d" not in each
        ]
        first = private[0][0]
    except FileNotFoundError:
        raise ConfigurationError(f"the signing key {path.name} of this database isn't beside it") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, JoseError) as error:
        raise ConfigurationError(f"the signing key {path.name} can't be read: {type(error).__name__}") from None
    return _File({signer.kid: (signer, until) for signer, until in private}, retired, first)


def _until(entry: Mapping[str, Any]) -> int | None:
    return None if entry.get("until") is None else int(entry["until"])


def _retired_entry(retired: Retired) -> dict[str, Any]:
    key = retired.seal_key
    return {**retired.key.jwk(), "seal": urlsafe_b64encode(key).decode(), "until": retired.until}


def _write_new(path: Path, text: str) -> None:
    """Make the file whole before it gets its name, so that of two processes that start at once both read one key."""
    draft = _draft(path, text)
    try:
        os.link(draft, path)
    except FileExistsError:
        return  # another process was first, and its key is the one
    finally:
        draft.unlink()


def _write_over(path: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Replace the file at once, with the same owner: a server that runs as somebody else must still read it."""
    path = path.resolve()
    try:
        owner = path.stat()
        draft = _draft(path, json.dumps({"keys": list(entries)}))
        try:
            made = draft.stat()
            if (made.st_uid, made.st_gid) != (owner.st_uid, owner.st_gid):
                os.chown(draft, owner.st_uid, owner.st_gid)
            draft.replace(path)
        except OSError:
            draft.unlink()
            raise
        _keep_name(path.parent)
    except OSError as error:
        raise ConfigurationError(f"the signing key {path.name} can't be replaced: {error.strerror}") from None


def _draft(path: Path, text: str) -> Path:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        draft.unlink()
        raise
    return draft


def _keep_name(folder: Path) -> None:
    """A name is on the disk when its folder is; else a power cut could leave the new keys in the database alone."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


WAITING: Final = "The signing key was changed, and this server doesn't have the new one yet."
