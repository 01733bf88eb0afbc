"""`preaction verify`, `preaction audit-chain` and `preaction keys rotate`, run as commands."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import KeySet, OctKey, OKPKey
from typer.testing import CliRunner

from authority.asking import REPLY, evidence
from authority.conftest import Clock
from authority.packs import HELPDESK
from authority.tampering import filled, row, rows, run
from preaction.authority import LocalAuthority
from preaction.authority.signing.offline import read_keys, read_receipt
from preaction.authority.signing.receipts import TYPE, new_signer
from preaction.authority.storage.storage import CHECKS, EXECUTIONS
from preaction.cli.app import app
from preaction.wire.digest import canonical


def command(*arguments: object, **options: Any) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(each) for each in arguments], **options)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[LocalAuthority]:
    clock = Clock()
    with LocalAuthority.from_pack(HELPDESK, f"sqlite:///{tmp_path / 'decisions.db'}", clock) as opened:
        yield filled(opened, clock)


@pytest.fixture
def db(tmp_path: Path, authority: LocalAuthority) -> str:
    return f"sqlite:///{tmp_path / 'decisions.db'}"


@pytest.fixture
def keys(tmp_path: Path, authority: LocalAuthority) -> Path:
    return written(tmp_path / "keys.json", json.dumps(authority._storage.jwks()))


def written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def receipt_of(authority: LocalAuthority, entity_id: str = "HC-77") -> str:
    decided = authority.decide("triage-ticket", entity_id=entity_id, evidence=evidence(amount=20.5))
    return str(decided["receipt"])


# ---------------------------------------------------------------- offline


def test_a_receipt_is_told_in_words(authority: LocalAuthority, tmp_path: Path, keys: Path) -> None:
    receipt = receipt_of(authority)
    code, out, err = command("verify", "--offline", written(tmp_path / "r.jws", receipt + "\n"), "--jwks", keys)
    record = row(authority, 10)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{record['id']}: job triage-ticket of pack helpdesk, release 2026-11-03.1",
        "case HC-77, at 2026-12-01T09:00:00Z: decided: billing-question",
        "  amount = 20.5, from erp at 2026-12-01T09:00:00Z",
        '  topic = "billing", from human at 2026-12-01T09:00:00Z',
        f"number 10 of the chain, after {record['previous']}",
        f"signed by {authority._storage.signer.kid}",
        "Whether it still holds (revoked, superseded, stale) only the authority can say.",
    ]


def test_a_receipt_from_stdin_as_json_says_what_another_library_call_says(
    authority: LocalAuthority, keys: Path
) -> None:
    receipt = receipt_of(authority)
    code, out, _ = command("verify", "--offline", "-", "--jwks", keys, "--json", input=receipt)
    answer = json.loads(out)
    opened = jws.deserialize_compact(
        receipt, KeySet.import_key_set(json.loads(keys.read_text())), algorithms=["Ed25519"]
    )
    assert (code, answer["valid"], answer["kid"]) == (0, True, opened.headers()["kid"])
    assert canonical(answer["record"]) == opened.payload


def test_undecided_and_the_receipt_of_a_text(authority: LocalAuthority, tmp_path: Path, keys: Path) -> None:
    undecided = authority.decide("triage-ticket", entity_id="HC-78")["receipt"]
    _, out, _ = command("verify", "--offline", written(tmp_path / "r.jws", undecided), "--jwks", keys)
    assert "undecided" in out
    assert "missing: amount, topic" in out
    decision = row(authority, 9)["id"]
    promise = {"body": "We guarantee it.\nThe billing team"}
    made = authority.check_output(decision, output="billing-team-reply", content=promise)["checkId"]
    check = next(each for each in rows(authority, CHECKS) if each["id"] == made)
    _, out, _ = command("verify", "--offline", written(tmp_path / "c.jws", check["receipt"]), "--jwks", keys)
    assert f"text billing-team-reply of {decision}, at 2026-12-01T09:00:00Z: failed" in out
    assert "no-promises" in out


def test_what_a_caller_sent_moves_no_cursor(authority: LocalAuthority, keys: Path) -> None:
    record = json.loads(row(authority, 9)["record"])
    record["case"]["id"] = "HC\u202e-\x1b[2J1"
    receipt = authority._storage.signer.sign(canonical(record))
    code, out, _ = command("verify", "--offline", "-", "--jwks", keys, input=receipt)
    assert code == 0
    assert out.isascii()
    assert "\x1b" not in out
    assert r'case "HC\u202e-\u001b[2J1"' in out


def forged(authority: LocalAuthority) -> Iterator[str]:
    """Receipts that are none: by algorithm, by key, by type, by content, by length."""
    good = receipt_of(authority, "HC-79")
    signer, other = authority._storage.signer, new_signer()
    payload = jws.extract_compact(good.encode()).payload or b""
    header, body, signature = good.split(".")
    ours = OKPKey.import_key(signer.private_jwk())

    def header_of(**more: Any) -> dict[str, Any]:
        return {"alg": "Ed25519", "kid": signer.kid, "typ": TYPE, **more}

    def signed(made: dict[str, Any], key: Any = ours, content: bytes = payload, alg: str = "Ed25519") -> str:
        return jws.serialize_compact(made, content, key, algorithms=[alg])

    public = OctKey.import_key(signer.jwk()["x"])
    none = urlsafe_b64encode(json.dumps(header_of(alg="none")).encode()).rstrip(b"=").decode()
    yield from ("", ".", "..", "a.b.c", good[:-1], good[:-20], good + "A")
    yield from (f"{header}.{body}.", f"{header}.{body}", f".{body}.", f"{none}.{body}.", f"{none}.{body}.{signature}")
    yield signed(header_of(alg="HS256"), public, alg="HS256")
    yield other.sign(payload)
    yield signed(header_of(), OKPKey.import_key(other.private_jwk()))
    yield signed(header_of(kid=other.kid))
    yield signed({name: value for name, value in header_of().items() if name != "kid"})
    yield signed({**header_of(kid=other.kid), "jwk": other.jwk()}, OKPKey.import_key(other.private_jwk()))
    yield signed(header_of(typ="JWT"))
    yield signed({name: value for name, value in header_of().items() if name != "typ"})
    for content in (
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        payload + b" ",
        payload.replace(b'"number":', b'"number":1,"number":'),
    ):
        yield signed(header_of(), content=content)
    record = json.loads(payload)
    for name in ("executionId", "number", "case", "ruling", "decidedAt"):
        yield signed(header_of(), content=canonical({**record, name: None}))
    yield ".".join((header, body[:-4] + "AAAA", signature))


def test_what_is_no_receipt_is_refused(authority: LocalAuthority, tmp_path: Path, keys: Path) -> None:
    refused = list(forged(authority))
    assert len(set(refused)) == len(refused) == 32
    for number, receipt in enumerate(refused):
        code, out, err = command("verify", "--offline", "-", "--jwks", keys, input=receipt)
        said = "not valid: no receipt that one of these keys signed\n"
        assert (code, out, err) == (1, said, ""), (number, receipt)


def test_every_character_of_a_receipt_counts(authority: LocalAuthority, keys: Path) -> None:
    receipt, known = receipt_of(authority), read_keys(keys.read_bytes())
    assert read_receipt(receipt, known) is not None
    for place in range(len(receipt)):
        other = "B" if receipt[place] == "A" else "A"
        assert read_receipt(receipt[:place] + other + receipt[place + 1 :], known) is None
        assert read_receipt(receipt[:place], known) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"keys": []}',
        '{"keys": {}}',
        '{"keys": [5]}',
        '{"keys": [], "keys": []}',
        '{"keys": [{"kty": "oct", "k": "AAAA"}]}',
        '{"keys": [{"kty": "OKP", "crv": "Ed25519"}]}',
        '{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": 5}]}',
    ],
)
def test_keys_that_are_none_are_an_error(authority: LocalAuthority, tmp_path: Path, text: str) -> None:
    code, out, err = command("verify", "--offline", "-", "--jwks", written(tmp_path / "k", text), input="a.b.c")
    assert (code, out) == (2, "")
    assert err.startswith("preaction: ")
    assert err.count("\n") == 1


def test_a_key_under_another_kid_is_an_error(authority: LocalAuthority, tmp_path: Path, keys: Path) -> None:
    jwks = json.loads(keys.read_text())
    jwks["keys"][0]["kid"] = "other"
    code, _, err = command(
        "verify", "--offline", "-", "--jwks", written(tmp_path / "k", json.dumps(jwks)), input="a.b.c"
    )
    assert (code, "thumbprint" in err) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["exe_1"],
        ["--origin", "https://a.example"],
        ["--offline", "-"],
        ["--jwks", "k"],
        ["exe_1", "--offline", "-", "--jwks", "k"],
        ["exe_1", "--origin", "https://a.example", "--jwks", "k"],
        ["--offline", "none.jws", "--jwks", "none.json"],
        ["exe_1", "--origin", "https://a.example", "--agent-key-env", "NOT_SET_HERE"],
        ["exe_1", "--origin", "http://a.example"],
    ],
)
def test_what_can_not_be_asked_is_an_error(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREACTION_AGENT_KEY", "pa_agent_1_2")
    code, out, err = command("verify", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)


# ---------------------------------------------------------------- by the authority


def test_the_authority_is_asked(authority: LocalAuthority, monkeypatch: pytest.MonkeyPatch) -> None:
    standing, revoked = row(authority, 9)["id"], row(authority, 5)["id"]
    monkeypatch.setenv("PREACTION_AGENT_KEY", authority.agent_key)
    with authority.serve() as served:
        code, out, err = command("verify", standing, "--origin", served.origin)
        assert (code, err) == (0, "")
        assert out.splitlines() == [
            f"{standing}: valid",
            "decided again: job triage-ticket, release 2026-11-03.1, case HC-9: decided: billing-question; "
            "its evidence is fresh until 2026-12-01T10:00:00Z",
        ]
        code, out, _ = command("verify", revoked, "--origin", served.origin)
        assert (code, out.splitlines()[0]) == (1, f"{revoked}: not valid: revoked")
        code, out, _ = command("verify", revoked, "--origin", served.origin, "--json")
        assert (code, json.loads(out)["problems"]) == (1, ["revoked"])
        run(authority, EXECUTIONS.update().where(EXECUTIONS.c.number == 9).values(outcome="other"))
        assert command("verify", standing, "--origin", served.origin)[1] == f"{standing}: not valid: record_altered\n"
        code, out, _ = command("verify", "exe_none", "--origin", served.origin)
        assert (code, out) == (1, "not valid: the authority has no such execution\n")
        monkeypatch.setenv("PREACTION_AGENT_KEY", "pa_agent_1_2")
        code, out, err = command("verify", standing, "--origin", served.origin)
        assert (code, out, "401" in err) == (2, "", True)
    code, out, err = command("verify", standing, "--origin", served.origin)
    assert (code, out, err.count("\n")) == (2, "", 1)


# ---------------------------------------------------------------- the audit, and new keys


def test_the_audit_says_that_a_chain_is_whole(authority: LocalAuthority, db: str) -> None:
    digest = row(authority, 9)["digest"]
    words = f"6 executions and 3 that retention removed; the chain is whole, and ends at number 9 {digest}\n"
    assert command("audit-chain", "--db", db) == (0, words, "")
    code, out, _ = command("audit-chain", "--db", db, "--json")
    assert (code, json.loads(out)) == (
        0,
        {"findings": 0, "executions": 6, "removed": 3, "head": {"number": 9, "digest": digest}},
    )


def test_the_audit_names_rows(authority: LocalAuthority, db: str, tmp_path: Path) -> None:
    kept = written(tmp_path / "kept.jws", row(authority, 9)["receipt"])
    ids = {number: row(authority, number)["id"] for number in (5, 8)}
    assert command("audit-chain", "--db", db, "--receipt", kept)[0] == 0
    run(
        authority,
        EXECUTIONS.update().where(EXECUTIONS.c.number == 5).values(outcome="other\x1b[2J"),
        EXECUTIONS.update().where(EXECUTIONS.c.number == 8).values(number=80, id=ids[8]),
        EXECUTIONS.delete().where(EXECUTIONS.c.number.in_([6, 7, 9])),
    )
    code, out, err = command("audit-chain", "--db", db, "--receipt", kept)
    lines = out.splitlines()
    assert (code, err, out.isascii()) == (1, "", True)
    assert lines[0] == f"altered: executions 5 {ids[5]}: outcome: not what was signed"
    assert lines[1] == f"reordered: executions 80 {ids[8]}: it was written as number 8"
    assert lines[2].startswith("dropped: executions 6 to 7: ")
    assert lines[3].startswith("dropped: executions 9: ")
    assert "the receipt kept.jws is not in the chain" in lines[4]
    assert lines[5] == "3 executions and 3 that retention removed; 5 findings"
    code, out, _ = command("audit-chain", "--db", db, "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert [each.get("kind") for each in found] == ["altered", "reordered", "dropped", "dropped", None]
    assert found[-1]["findings"] == 4


def test_an_audit_makes_no_database(tmp_path: Path) -> None:
    for made in (["audit-chain"], ["keys", "rotate"], ["keys", "revoke", "none"]):
        code, out, err = command(*made, "--db", f"sqlite:///{tmp_path / 'typo.db'}")
        assert (code, out, err) == (2, "", "preaction: there is no such database\n")
        empty = written(tmp_path / "empty.db", "")
        code, out, err = command(*made, "--db", f"sqlite:///{empty}")
        assert (code, out, err) == (2, "", "preaction: the database has no tables of an authority\n")
    assert [each.name for each in tmp_path.iterdir() if "key" in each.name or "typo" in each.name] == []


def test_a_receipt_that_is_none_can_witness_nothing(authority: LocalAuthority, db: str, tmp_path: Path) -> None:
    for path in (written(tmp_path / "none.jws", "a.b.c"), tmp_path / "missing.jws"):
        code, out, err = command("audit-chain", "--db", db, "--receipt", path)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert path.name in err


def test_keys_are_rotated_while_the_authority_runs(
    authority: LocalAuthority, db: str, tmp_path: Path, keys: Path
) -> None:
    before = receipt_of(authority)
    code, out, err = command("keys", "rotate", "--db", db)
    said = json.loads(out)
    assert (code, err) == (0, "")
    after = receipt_of(authority, "HC-90")
    assert command("audit-chain", "--db", db)[0] == 0
    check = authority.check_output(row(authority, 11)["id"], output="billing-team-reply", content=REPLY)
    assert authority.verify_output_check(check["checkId"])["valid"]
    new = written(tmp_path / "new.json", json.dumps(authority._storage.jwks()))
    for receipt, kid in ((before, said["before"]), (after, said["kid"])):
        _, out, _ = command("verify", "--offline", "-", "--jwks", new, "--json", input=receipt)
        assert json.loads(out)["kid"] == kid
    assert command("verify", "--offline", "-", "--jwks", keys, input=before)[0] == 0
    assert command("verify", "--offline", "-", "--jwks", keys, input=after)[0] == 1
