"""Real HTTP, real files, several threads; and what is left after a kill."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from authority.asking import REPLY, evidence
from authority.packs import HELPDESK
from preaction.authority import LocalAuthority
from preaction.authority.hosts import is_loopback
from preaction.authority.signing.receipts import new_signer
from preaction.authority.signing.signing_keys import SigningKeys
from preaction.errors import AuthorityError, ConfigurationError

DECISIONS = "/v0/jobs/triage-ticket/decisions"


def client(authority: LocalAuthority, origin: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {authority.agent_key}"}
    return httpx.Client(base_url=origin, headers=headers, trust_env=False, timeout=60)


def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'decisions.db'}"


def test_a_whole_case_over_http(helpdesk: LocalAuthority) -> None:
    with helpdesk.serve() as served, client(helpdesk, served.origin) as http:
        assert served.origin.startswith("http://127.0.0.1:")
        decision = http.post(DECISIONS, json={"entity_id": "HC-1", "evidence": evidence()}).json()
        path = f"/v0/executions/{decision['executionId']}"
        check = http.post(f"{path}/output-checks", json={"output": "billing-team-reply", "content": REPLY}).json()
        include = {"description": True, "outputChecks": [check["checkId"]]}
        answer = http.post(f"{path}/verify", json={"include": include})
        assert answer.json() == helpdesk.verify(decision["executionId"], include)
        assert "server" not in answer.headers
        assert http.get("/healthz").json() == {"status": "ok"}


def test_what_is_no_http_breaks_nothing(helpdesk: LocalAuthority) -> None:
    with helpdesk.serve() as served, client(helpdesk, served.origin) as http:
        port = int(served.origin.rpartition(":")[2])
        for nonsense in (b"\x16\x03\x01\x00", b"GET\r\n\r\n", b"POST /v0/jobs HTTP/1.1\r\nContent-Length: 5\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as raw:
                raw.sendall(nonsense)
        assert http.get("/healthz").status_code == 200


def test_a_port_that_is_taken_is_a_configuration_error(helpdesk: LocalAuthority) -> None:
    with helpdesk.serve() as served:
        port = int(served.origin.rpartition(":")[2])
        for host in ("127.0.0.1", "not a host", "\ud800"):
            with pytest.raises(ConfigurationError, match="can't listen"), helpdesk.serve(host, port):
                pass


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_hosts_are_known(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
    assert not is_loopback("example.com")


@pytest.mark.parametrize("in_memory", [True, False])
def test_many_threads_decide_and_verify_at_once(
    opened: Callable[..., LocalAuthority], tmp_path: Path, in_memory: bool
) -> None:
    authority = opened(HELPDESK, None if in_memory else database(tmp_path))
    start = threading.Barrier(8)

    def work(number: int) -> list[dict[str, Any]]:
        start.wait()
        return [case(authority, f"HC-{number}-{each}") for each in range(6)]

    with ThreadPoolExecutor(8) as pool:
        answers = [answer for each in pool.map(work, range(8)) for answer in each]
    assert all(answer["valid"] for answer in answers)
    assert len({answer["executionId"] for answer in answers}) == 48


def case(authority: LocalAuthority, entity_id: str) -> dict[str, Any]:
    decision = authority.decide("triage-ticket", entity_id=entity_id, evidence=evidence())
    return authority.verify(decision["executionId"])


def test_requests_at_once_with_one_idempotency_key_are_one_decision(
    opened: Callable[..., LocalAuthority], tmp_path: Path
) -> None:
    authority = opened(HELPDESK, database(tmp_path))
    start = threading.Barrier(8)

    def ask(_number: int) -> str:
        start.wait()
        decision = authority.decide("triage-ticket", entity_id="HC-1", idempotency_key="one")
        return str(decision["executionId"])

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1


async def test_it_answers_a_crowd_over_http(opened: Callable[..., LocalAuthority], tmp_path: Path) -> None:
    authority = opened(HELPDESK, database(tmp_path))
    headers = {"Authorization": f"Bearer {authority.agent_key}"}
    with authority.serve() as served:
        async with httpx.AsyncClient(base_url=served.origin, headers=headers, trust_env=False, timeout=60) as http:
            bodies = ({"entity_id": f"HC-{each}", "evidence": evidence()} for each in range(40))
            decisions = await asyncio.gather(*(http.post(DECISIONS, json=body) for body in bodies))
            ids = [each.json()["executionId"] for each in decisions]
            answers = await asyncio.gather(*(http.post(f"/v0/executions/{each}/verify", json={}) for each in ids))
    assert all(answer.json()["valid"] for answer in answers)


# ---------------------------------------------------------------- what is kept


def test_a_file_keeps_what_was_decided(opened: Callable[..., LocalAuthority], tmp_path: Path) -> None:
    first = opened(HELPDESK, database(tmp_path))
    execution_id = case(first, "HC-1")["executionId"]
    check = first.check_output(execution_id, output="billing-team-reply", content=REPLY)
    again = opened(HELPDESK, database(tmp_path))
    assert again.agent_key != first.agent_key
    assert again.verify(execution_id)["valid"]
    assert again.verify_output_check(check["checkId"])["valid"]
    again.revoke(execution_id)
    assert first.verify(execution_id)["problems"] == ["revoked"]


def test_a_decision_that_was_answered_outlives_a_kill(opened: Callable[..., LocalAuthority], tmp_path: Path) -> None:
    pack = tmp_path / "pack.yaml"
    pack.write_text(HELPDESK, "utf-8")
    code = (
        "import os, signal, sys; from preaction.authority import LocalAuthority\n"
        "authority = LocalAuthority.from_pack(sys.argv[1], sys.argv[2])\n"
        "decision = authority.decide('triage-ticket', entity_id='HC-1')\n"
        "os.write(1, decision['executionId'].encode())\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", code, str(pack), database(tmp_path)]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    assert opened(HELPDESK, database(tmp_path)).verify(done.stdout.decode())["valid"] is True


def test_the_signing_key_is_its_owners_only_and_not_in_the_database(
    opened: Callable[..., LocalAuthority], tmp_path: Path
) -> None:
    opened(HELPDESK, database(tmp_path)).close()
    key = tmp_path / "decisions.db-key"
    assert key.stat().st_mode & 0o077 == 0
    private = key.read_text().partition('"d": "')[2].partition('"')[0].encode()
    assert len(private) == 43
    assert private not in (tmp_path / "decisions.db").read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["decisions.db", "decisions.db-key"]


def test_of_two_that_start_at_once_the_first_key_is_the_one(tmp_path: Path) -> None:
    start = threading.Barrier(6)

    def begin(_number: int) -> str:
        start.wait()
        return SigningKeys(tmp_path / "a.db-key", create=True).signer.kid

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(begin, range(6)))) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["a.db-key"]


def test_a_signer_opens_its_own_receipts_only() -> None:
    ours, theirs = new_signer(), new_signer()
    receipt = ours.sign(b"{}")
    assert ours.opens(receipt) == b"{}"
    header, _, signature = receipt.split(".")
    for other in (None, "", "a.b.c", theirs.sign(b"{}"), f"{header}.e30K.{signature}", receipt + "=", f"{receipt}.x"):
        assert ours.opens(other) is None


def test_a_database_without_its_own_key_is_not_opened(opened: Callable[..., LocalAuthority], tmp_path: Path) -> None:
    opened(HELPDESK, database(tmp_path)).close()
    opened(HELPDESK, f"sqlite:///{tmp_path / 'other.db'}").close()
    key = tmp_path / "decisions.db-key"
    os.replace(tmp_path / "other.db-key", key)
    with pytest.raises(ConfigurationError, match="belongs to another"):
        opened(HELPDESK, database(tmp_path))
    key.write_text("{}")
    with pytest.raises(ConfigurationError, match="can't be read"):
        opened(HELPDESK, database(tmp_path))
    key.unlink()
    with pytest.raises(ConfigurationError, match="isn't beside it"):
        opened(HELPDESK, database(tmp_path))


def test_a_known_version_with_other_content_is_not_opened(
    opened: Callable[..., LocalAuthority], tmp_path: Path
) -> None:
    opened(HELPDESK, database(tmp_path)).close()
    with pytest.raises(ConfigurationError, match=r"helpdesk 2026-11-03\.1: .* other content"):
        opened(HELPDESK.replace("1200", "1300"), database(tmp_path))


def test_a_database_of_a_later_schema_is_not_opened(opened: Callable[..., LocalAuthority], tmp_path: Path) -> None:
    authority = opened(HELPDESK, database(tmp_path))
    with authority._storage.writing() as connection:
        connection.exec_driver_sql("UPDATE schema SET version = 3")
    with pytest.raises(ConfigurationError, match="schema 3"):
        opened(HELPDESK, database(tmp_path))


@pytest.mark.parametrize("db", ["postgresql://host/db", "decisions.db", "sqlite:///", "sqlite:////none/at/all.db", ""])
def test_a_database_that_cannot_be_is_a_configuration_error(opened: Callable[..., LocalAuthority], db: str) -> None:
    with pytest.raises(ConfigurationError, match="database"):
        opened(HELPDESK, db)


def test_a_file_that_is_no_database_is_a_configuration_error(
    opened: Callable[..., LocalAuthority], tmp_path: Path
) -> None:
    opened(HELPDESK, database(tmp_path)).close()
    (tmp_path / "decisions.db").write_bytes(b"not a database, but long enough to look like one" * 100)
    with pytest.raises(ConfigurationError, match="can't be opened"):
        opened(HELPDESK, database(tmp_path))


def test_a_path_names_a_database_file_too(opened: Callable[..., LocalAuthority], tmp_path: Path) -> None:
    pack = tmp_path / "pack.yaml"
    pack.write_text(HELPDESK, "utf-8")
    opened(pack, tmp_path / "by-path.db")
    assert (tmp_path / "by-path.db").exists()


def test_a_closed_authority_says_so(helpdesk: LocalAuthority) -> None:
    helpdesk.close()
    with pytest.raises(AuthorityError) as caught:
        helpdesk.list_jobs()
    assert caught.value.kind == "closed"
