"""A receipt checked without its authority: by the public keys alone, and told in words.

It shows what was decided, on what, by which release, and that the holder of the key signed it. It can't show whether
the decision still holds: revoked, superseded and stale are the authority's to say.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from preaction.authority.signing.receipts import ReceiptKey, open_receipt
from preaction.errors import ConfigurationError, InvalidJSON
from preaction.wire import strict_json
from preaction.wire.digest import canonical

MAX_BYTES: Final = 8 << 20

_EXECUTION: Final = {
    "executionId": str,
    "number": int,
    "pack": str,
    "job": str,
    "release": str,
    "releaseDigest": str,
    "case": dict,
    "request": dict,
    "ruling": dict,
    "decidedAt": str,
}
_CHECK: Final = {
    "checkId": str,
    "executionId": str,
    "pack": str,
    "job": str,
    "release": str,
    "output": str,
    "passed": bool,
    "findings": list,
    "contentDigest": str,
    "checkedAt": str,
}


def read_keys(data: bytes) -> dict[str, ReceiptKey]:
    """The Ed25519 keys of a JWK set by `kid`; `ConfigurationError` for what is none, or holds none."""
    try:
        entries: Any = strict_json.load_object(data)["keys"]
        found = [
            (each, ReceiptKey(OKPKey.import_key({name: each[name] for name in ("kty", "crv", "x")})))
            for each in entries
            if each.get("kty") == "OKP" and each.get("crv") == "Ed25519"
        ]
    except (InvalidJSON, KeyError, TypeError, AttributeError, ValueError, JoseError):
        raise ConfigurationError('this is no JWK set: {"keys": […]}, as /.well-known/jwks.json answers') from None
    keys = {key.kid: key for _, key in found}
    if not keys:
        raise ConfigurationError("the JWK set holds no Ed25519 key")
    if any(each.get("kid", key.kid) != key.kid for each, key in found):
        raise ConfigurationError("the JWK set names a key by another kid than its thumbprint")
    return keys


def read_receipt(receipt: str, keys: Mapping[str, ReceiptKey]) -> tuple[dict[str, Any], str] | None:
    """What a receipt says, and the `kid` that signed it; None unless one of these keys signed it as a receipt."""
    opened = open_receipt(receipt, keys)
    if opened is None:
        return None
    payload, kid = opened
    try:
        record = strict_json.load_object(payload, max_bytes=MAX_BYTES)
        whole = canonical(record) == payload
    except InvalidJSON:
        return None
    shape = _CHECK if "checkId" in record else _EXECUTION
    fits = all(isinstance(record.get(name), kind) for name, kind in shape.items())
    return (record, kid) if whole and fits else None


def in_words(record: Mapping[str, Any]) -> Iterator[str]:
    """Lines for people; whatever a caller sent is shown as JSON in ASCII, so that it can't move the cursor."""
    what = record["checkId"] if "checkId" in record else record["executionId"]
    job, pack, release = (_shown(record[name]) for name in ("job", "pack", "release"))
    yield f"{_shown(what)}: job {job} of pack {pack}, release {release}"
    if "checkId" in record:
        yield from _check(record)
    else:
        yield from _execution(record)


def _execution(record: Mapping[str, Any]) -> Iterator[str]:
    case, ruling, request = record["case"], record["ruling"], record["request"]
    said = f"decided: {_shown(ruling.get('outcome'))}" if ruling.get("status") == "decided" else "undecided"
    yield f"case {_shown(case.get('id'))}, at {_shown(record['decidedAt'])}: {said}"
    for name in ("missing", "problems"):
        if ruling.get(name):
            yield f"  {name}: {', '.join(_shown(each) for each in ruling[name])}"
    for name, item in (request.get("evidence") or {}).items():
        source, observed = _shown(item.get("source")), _shown(item.get("observedAt"))
        yield f"  {_shown(name)} = {_json(item.get('value'))}, from {source} at {observed}"
    for part in ("fields", "content"):
        for name, value in (request.get(part) or {}).items():
            yield f"  {part} {_shown(name)} = {_json(value)}"
    after = record.get("previous")
    place = f"number {record['number']} of the chain"
    yield f"{place}, after {_shown(after)}" if after else place


def _check(record: Mapping[str, Any]) -> Iterator[str]:
    verdict = "passed" if record["passed"] else "failed"
    execution, at = _shown(record["executionId"]), _shown(record["checkedAt"])
    yield f"text {_shown(record['output'])} of {execution}, at {at}: {verdict}"
    for each in record["findings"]:
        yield f"  {_shown(each.get('rule'))}: {_json(each.get('message'))}"
    yield f"content {_shown(record['contentDigest'])}"


def _shown(value: object) -> str:
    """A name as it is; as JSON when it isn't plain ASCII without blanks at its ends."""
    plain = isinstance(value, str) and value.isascii() and value.isprintable() and value == value.strip() != ""
    return str(value) if plain else _json(value)


def _json(value: object) -> str:
    return json.dumps(value)
