"""A new signing key: old receipts and rows stay good, servers that run notice, and the old key is of no more use."""

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from joserfc import jws
from joserfc.jwk import OKPKey

from authority.asking import REPLY, evidence, refusal
from authority.conftest import Clock, Place
from authority.packs import HELPDESK
from authority.tampering import decide, filled, found, row, rows, run
from preaction.authority import LocalAuthority
from preaction.authority.ledger.rotation import rotate
from preaction.authority.signing.receipts import Signer
from preaction.authority.signing.signing_keys import SigningKeys
from preaction.authority.storage.storage import CHECKS, EXECUTIONS, KEYS, RELEASES, Storage
from preaction.authority.storage.tables import CHAIN
from preaction.errors import ConfigurationError
from preaction.wire.digest import canonical


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def authority(opened: Callable[..., LocalAuthority], clock: Clock) -> LocalAuthority:
    return filled(opened(), clock)


def key_of(place: Place) -> Path:
    assert place.key is not None
    return place.key


def change(place: Place) -> tuple[str, str]:
    """What `preaction keys rotate` does, in a process of its own."""
    storage = Storage(str(place.url), place.key, create=False)
    try:
        return rotate(storage)
    finally:
        storage.close()


def old_signer(place: Place) -> Signer:
    return Signer(OKPKey.import_key(json.loads(key_of(place).read_text())))


def kid_of(receipt: str) -> str:
    return str(jws.extract_compact(receipt.encode()).headers()["kid"])


def test_what_was_written_before_stays_good(authority: LocalAuthority, place: Place) -> None:
    ids = [each["id"] for each in rows(authority, EXECUTIONS)]
    check = rows(authority, CHECKS)[0]["id"]
    before = [authority.verify(each)["problems"] for each in ids]
    old, new = change(place)
    again = Storage(str(place.url), place.key)
    assert again.signer.kid == new != old
    again.close()
    assert [authority.verify(each)["problems"] for each in ids] == before
    assert authority.verify_output_check(check)["valid"]
    assert found(authority) == []


def test_servers_that_run_take_the_new_key(
    authority: LocalAuthority, opened: Callable[..., LocalAuthority], place: Place
) -> None:
    other = opened()
    first = decide(authority, "HC-20")
    old, new = change(place)
    assert [each["kid"] for each in authority._storage.jwks()["keys"]] == [new, old]
    second = decide(authority, "HC-21")
    assert (kid_of(first["receipt"]), kid_of(second["receipt"])) == (old, new)
    assert other._storage.signer.kid == old
    assert other.verify(second["executionId"])["valid"]  # written by a key that it didn't know
    assert other.verify(first["executionId"])["valid"]
    assert kid_of(decide(other, "HC-22")["receipt"]) == new
    check = other.check_output(second["executionId"], output="billing-team-reply", content=REPLY)
    assert authority.verify_output_check(check["checkId"])["valid"]
    other.revoke(first["executionId"])
    assert authority.verify(first["executionId"])["problems"] == ["revoked"]
    assert found(authority) == found(other) == []


def test_a_server_that_only_reads_notices_by_an_operators_key(
    authority: LocalAuthority, opened: Callable[..., LocalAuthority], place: Place, clock: Clock
) -> None:
    other = opened()
    key = authority._keyring.create("operator", "helpdesk", None, clock())
    change(place)
    assert other._keyring.caller(key) is not None
    assert [each.release for each in other._operators.releases(other._operator, "helpdesk")] == ["2026-11-03.1"]


def test_many_changes_one_after_the_other(authority: LocalAuthority, place: Place) -> None:
    kids = [authority._storage.signer.kid]
    for number in range(3):
        decide(authority, f"HC-4{number}")
        old, new = change(place)
        assert old == kids[-1]
        kids.append(new)
    decide(authority, "HC-50")
    assert found(authority) == []
    assert [each["kid"] for each in authority._storage.jwks()["keys"]] == kids[::-1]
    signed = [kid_of(each["receipt"]) for each in rows(authority, EXECUTIONS)][-4:]
    assert signed == kids


def test_the_file_holds_one_private_key_and_its_owner_only_may_read_it(authority: LocalAuthority, place: Place) -> None:
    private = old_signer(place).private_jwk()["d"]
    change(place)
    text = key_of(place).read_text()
    assert private not in text
    assert [each for each in json.loads(text)["keys"] if "d" in each] == json.loads(text)["keys"][:1]
    assert key_of(place).stat().st_mode & 0o077 == 0
    names = {each.name for each in key_of(place).parent.iterdir() if "key" in each.name}
    assert names == {key_of(place).name}
    assert private not in json.dumps(authority._storage.jwks())
    assert all("d" not in each and "seal" not in each for each in authority._storage.jwks()["keys"])


def test_an_old_key_signs_and_seals_nothing_new(authority: LocalAuthority, place: Place) -> None:
    """Whoever took the old key along, and can write into the database."""
    decide(authority, "HC-20")
    stolen = old_signer(place)
    change(place)
    decision = decide(authority, "HC-21")
    good = row(authority, 11)
    texts = {"record": good["record"], "digest": good["digest"], "receipt": stolen.sign(good["record"].encode())}
    for forged in ({**good, **texts}, {**good, "outcome": "refund-review"}):
        sealed = {**forged, "seal": seal(stolen, EXECUTIONS, forged)}
        run(authority, EXECUTIONS.update().where(EXECUTIONS.c.number == 11).values(sealed))
        assert authority.verify(decision["executionId"])["problems"] == ["record_altered"]
        assert found(authority) == [("altered", "executions", 11, good["id"])]
    run(authority, EXECUTIONS.update().where(EXECUTIONS.c.number == 11).values(good))
    assert found(authority) == []


def test_an_old_key_changes_nothing_old_that_a_later_row_binds(authority: LocalAuthority, place: Place) -> None:
    stolen = old_signer(place)
    change(place)
    good = row(authority, 8)
    record = json.loads(good["record"])
    record["ruling"]["nextStep"] = "Pay it all."
    payload = canonical(record)
    digest = "sha-256:" + sha256(payload).hexdigest()
    forged = {**good, "record": payload.decode(), "digest": digest, "receipt": stolen.sign(payload)}
    run(
        authority,
        EXECUTIONS.update()
        .where(EXECUTIONS.c.number == 8)
        .values({**forged, "seal": seal(stolen, EXECUTIONS, forged)}),
    )
    assert found(authority) == [("replaced", "executions", 8, good["id"])]


@pytest.mark.parametrize("table", [KEYS, CHAIN, RELEASES])
def test_an_old_keys_seal_counts_for_none_of_what_is_sealed_anew(
    authority: LocalAuthority, place: Place, clock: Clock, table: sa.Table
) -> None:
    key = authority._keyring.create("agent", "helpdesk", None, clock())
    stolen = old_signer(place)
    change(place)
    assert authority._keyring.caller(key) is not None
    for good in rows(authority, table):
        run(authority, table.update().values({**good, "seal": seal(stolen, table, good)}))
        assert not authority._storage.intact(table, {**good, "seal": seal(stolen, table, good)})
    assert [kind for kind, name, _, _ in found(authority) if name == table.name] == ["altered"]


def test_what_was_altered_before_stays_so(authority: LocalAuthority, place: Place, clock: Clock) -> None:
    key = authority._keyring.create("agent", "helpdesk", None, clock())
    run(authority, KEYS.update().values(role="operator"))
    change(place)
    assert authority._keyring.caller(key) is None


def test_nothing_is_changed_behind_an_altered_head(authority: LocalAuthority, place: Place) -> None:
    text = key_of(place).read_text()
    run(authority, CHAIN.update().values(number=3))
    assert refusal(authority._ask, lambda: rotate(authority._storage))[0] == 503
    assert key_of(place).read_text() == text


def test_a_server_without_the_new_key_answers_503_until_it_has_it(
    authority: LocalAuthority, place: Place, clock: Clock, tmp_path: Path
) -> None:
    """Two machines, each with its own copy of the key's file."""
    copy = tmp_path / "copied-key"
    copy.write_text(key_of(place).read_text())
    with LocalAuthority.from_pack(HELPDESK, place.url, clock, signing_key=copy) as far:
        old = decide(far, "HC-20")["executionId"]
        change(place)
        new = decide(authority, "HC-21")["executionId"]
        # The release's row is sealed anew, so nothing that was decided by it can be verified either.
        asked = (lambda: far.verify(old), lambda: far.verify(new), lambda: far._ask(far._storage.jwks))
        for question in (*asked, lambda: decide(far, "HC-22")):
            assert refusal(question)[0] == 503
        copy.write_text(key_of(place).read_text())
        assert far.verify(new)["valid"]
        assert decide(far, "HC-23")["status"] == "decided"
    assert found(authority) == []


@pytest.mark.parametrize("kind", ["sqlite"])
def test_servers_decide_while_keys_change(
    authority: LocalAuthority, opened: Callable[..., LocalAuthority], place: Place
) -> None:
    servers = [authority, opened()]
    start = threading.Barrier(3)

    def work(server: LocalAuthority) -> None:
        start.wait()
        for number in range(15):
            decision = server.decide("triage-ticket", entity_id=f"HC-{id(server)}-{number}", evidence=evidence())
            assert server.verify(decision["executionId"])["valid"]

    def changes() -> None:
        start.wait()
        for _ in range(4):
            change(place)

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(changes), *(pool.submit(work, server) for server in servers)]:
            done.result(60)
    assert found(authority) == []
    assert len(authority._storage.jwks()["keys"]) == 5


@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize("where", ["before the database", "in the database", "before the old key goes"])
def test_a_change_that_is_ended_leaves_a_key_that_fits(
    authority: LocalAuthority, place: Place, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    storage = Storage(str(place.url), place.key)
    if where == "before the database":
        monkeypatch.setattr(storage, "replace", killed)
    elif where == "in the database":
        monkeypatch.setattr(sa.Table, "update", killed)
    else:
        monkeypatch.setattr(SigningKeys, "settle", killed)
    with pytest.raises(Killed):
        rotate(storage)
    monkeypatch.undo()
    storage.close()
    ended = authority._storage.signer.kid
    decide(authority, "HC-60")
    assert (authority._storage.signer.kid != ended) is (where == "before the old key goes")
    again = Storage(str(place.url), place.key)
    assert again.signer.kid == authority._storage.signer.kid
    again.close()
    change(place)
    decide(authority, "HC-61")
    assert found(authority) == []
    assert len([each for each in json.loads(key_of(place).read_text())["keys"] if "d" in each]) == 1


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_file_that_cannot_be_written_changes_nothing(
    authority: LocalAuthority, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    text = key_of(place).read_text()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationError, match="can't be replaced: No space left on device"):
        change(place)
    monkeypatch.undo()
    assert key_of(place).read_text() == text
    assert [each.name for each in key_of(place).parent.iterdir() if each.name.startswith(".")] == []
    decide(authority, "HC-60")
    assert found(authority) == []


def test_a_database_in_memory_has_no_key_to_change() -> None:
    with LocalAuthority.from_pack(HELPDESK) as authority, pytest.raises(ConfigurationError, match="ends with"):
        rotate(authority._storage)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"keys": []}', '{"keys": {}}', '{"keys": [5]}', '{"keys": [{"kty": "OKP"}]}', "null", "5"]
)
def test_a_key_file_of_another_kind_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(ConfigurationError, match="the signing key key can't be read"):
        SigningKeys(tmp_path / "key")


def seal(signer: Signer, table: sa.Table, content: dict[str, Any]) -> str:
    names = [column.name for column in table.columns if column.name != "seal"]
    return signer.seal([table.name, *(content[name] for name in names)])
