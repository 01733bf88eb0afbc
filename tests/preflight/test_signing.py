"""F14: what was signed here is told from everything else; a stored row that was touched isn't loaded."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from preaction.errors import ConfigurationError, MisuseError, StoreUnavailable
from preaction.preflight.masking import MaskedStorage
from preaction.preflight.signing import SignedStorage, Signer
from preaction.preflight.sqlite_storage import SqliteStorage
from preaction.preflight.storage import MemoryStorage
from preflight.samples import ACCOUNT, KEY, record
from preflight.test_masking import AsyncStorage

SECRET = b"a secret of thirty-two bytes, say"


def altered(value: Any) -> Iterator[Any]:
    """Every way to change or remove one thing in plain JSON."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield {other: one for other, one in value.items() if other != name}
            yield from ({**value, name: changed} for changed in altered(item))
        yield {**value, "more": 1}
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value[:index] + value[index + 1 :]
            yield from ([*value[:index], changed, *value[index + 1 :]] for changed in altered(item))
        yield [*value, 1]
    else:
        yield [value]
        yield str(value) if not isinstance(value, str) else value + " "


def test_f14_a_signature_holds_for_exactly_what_was_signed() -> None:
    signer, given = Signer(SECRET), record()
    signature = signer.sign("row", given)
    assert Signer(SECRET).holds(signature, "row", json.loads(json.dumps(given)))
    changed = list(altered(given))
    assert len(changed) > 80
    assert [one for one in changed if signer.holds(signature, "row", one)] == []
    assert not signer.holds(signature, "state", given)
    assert not Signer(b"another").holds(signature, "row", given)
    assert not Signer().holds(signature, "row", given)


def test_f14_large_integers_count_and_are_no_texts() -> None:
    signer = Signer(SECRET)
    signature = signer.sign("row", [2**60])
    assert signer.holds(signature, "row", [2**60])
    for other in ([2**60 + 1], [str(2**60)], {"value": [str(2**60)], "integers": ["/0"]}, [[str(2**60)], ["/0"]]):
        assert not signer.holds(signature, "row", other)


def test_f14_each_state_is_an_act_of_its_own_unless_it_is_said_to_be_one() -> None:
    signer, given = Signer(SECRET), record("execute")
    first, second = signer.sign_state(given), signer.sign_state(given)
    acts = {signer.act_of(first, given), Signer(SECRET).act_of(second, given)}
    assert (len(acts), None in acts) == (2, False)
    assert signer.act_of(signer.sign_state(given, "act-1"), given) == "act-1"
    mixed = first.partition(".")[0] + "." + second.partition(".")[2]
    wrong = [mixed, first + " ", first[:-1], first[1:], signer.sign("row", given), signer.sign("state", given)]
    assert [one for one in wrong if signer.act_of(one, given) is not None] == []
    changed = [one for one in altered(given) if isinstance(one, dict)]
    assert [one for one in changed if signer.act_of(first, one) is not None] == []


@pytest.mark.parametrize("signature", [None, "", b"x", 7, "é", True, ["a"], ".", "é.é", "\ud800.00"])
def test_f14_what_is_no_signature_holds_for_nothing(signature: Any) -> None:
    assert not Signer(SECRET).holds(signature, "row", record())
    assert Signer(SECRET).act_of(signature, record()) is None


def test_f14_what_is_no_json_was_never_signed() -> None:
    assert not Signer(SECRET).holds("00", "row", float("nan"))


@pytest.mark.parametrize("secret", [b"", "text", 7, bytearray(b"x")])
def test_f14_a_secret_is_bytes(secret: Any) -> None:
    with pytest.raises(ConfigurationError, match="secret: bytes are needed"):
        Signer(secret)


def test_f14_a_secret_is_not_shown() -> None:
    assert SECRET.decode() not in repr(Signer(SECRET))


def rewrite(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """What somebody with the file does: the triggers go, the row is another."""
    with sqlite3.connect(path) as rows:
        rows.execute("DROP TRIGGER records_hold")
        (text,) = rows.execute("SELECT record FROM records").fetchone()
        rows.execute("UPDATE records SET record = ?", (json.dumps(change(json.loads(text))),))
    rows.close()


def to_another_account(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "fields": [{**row["fields"][0], "value": "666"}, *row["fields"][1:]]}


@pytest.mark.parametrize(
    "change",
    [
        to_another_account,
        lambda row: {name: value for name, value in row.items() if name != "signature"},
        lambda row: {**row, "signature": "0" * 64},
        lambda row: {**row, "signature": None},
        lambda row: [row],
    ],
)
def test_f14_a_row_that_was_rewritten_is_not_loaded(change: Any, tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    storage = SignedStorage(SqliteStorage(path), SECRET)
    storage.persist(KEY, record())
    assert storage.load(KEY) == record()
    rewrite(path, change)
    with pytest.raises(StoreUnavailable, match="isn't as it was written") as refused:
        storage.load(KEY)
    assert "666" not in str(refused.value)


def test_f14_a_row_made_by_hand_or_moved_to_another_key_is_not_loaded() -> None:
    inner = MemoryStorage()
    storage = SignedStorage(inner, SECRET)
    storage.persist(KEY, record())
    signed = inner.load(KEY)
    assert signed is not None
    inner.persist("u_02:bank.transfer", signed)
    inner.persist("u_03:bank.transfer", record())
    for key in ("u_02:bank.transfer", "u_03:bank.transfer"):
        with pytest.raises(StoreUnavailable):
            storage.load(key)
    assert storage.load("u_04:bank.transfer") is None


def test_f14_a_masked_record_is_signed_as_it_is_kept() -> None:
    inner = MemoryStorage()
    storage = MaskedStorage(SignedStorage(inner, SECRET), ["to_account"])
    storage.persist(KEY, record())
    assert ACCOUNT not in json.dumps(inner.records())
    assert storage.load(KEY)["fields"][0]["masked"] is True
    assert storage.claim("one")


def test_f14_what_cannot_be_signed_is_refused() -> None:
    for inner in (object(), MaskedStorage(MemoryStorage(), ["a"])):
        with pytest.raises(ConfigurationError, match="storage"):
            SignedStorage(inner, SECRET)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="secret"):
        SignedStorage(MemoryStorage(), None)  # type: ignore[arg-type]
    with pytest.raises(MisuseError, match="signed already"):
        SignedStorage(MemoryStorage(), SECRET).persist(KEY, record(signature="x"))


async def test_f14_an_async_storage_is_signed_too() -> None:
    inner = AsyncStorage()
    storage = SignedStorage(inner, SECRET)
    await storage.persist(KEY, record())
    assert await storage.load(KEY) == record()
    await inner.persist(KEY, record())
    with pytest.raises(StoreUnavailable):
        await storage.load(KEY)
    with pytest.raises(MisuseError, match="can't list its records"):
        storage.records()
