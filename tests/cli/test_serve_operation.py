"""`preaction serve` in operation: told to stop in the midst of requests, several workers, several servers at once."""

import json
import os
import signal
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from authority.asking import evidence
from authority.packs import HELPDESK
from cli.test_commands import ask, run, served
from preaction.authority import LocalAuthority
from preaction.authority.server.limits import read_rate

DECISIONS = "/v0/jobs/triage-ticket/decisions"


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    path = tmp_path / "pack.yaml"
    path.write_text(HELPDESK, "utf-8")
    return path


def decide(ready: dict[str, str], case: str, **options: Any) -> httpx.Response:
    return ask(ready, "POST", DECISIONS, json={"entity_id": case, "evidence": evidence()}, **options)


def refuses(origin: str) -> bool:
    host, port = origin.removeprefix("http://").split(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def wait_until(holds: Callable[[], bool]) -> None:
    """Ask again until it holds; the time-out is generous, as machines may be slow."""
    pause = threading.Event()
    for _ in range(600):
        if holds():
            return
        pause.wait(0.05)
    raise AssertionError("it never came to that")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_told_to_stop_it_answers_what_was_begun_and_takes_no_more(pack: Path, workers: str) -> None:
    with (
        served("--pack", str(pack), "--dev-keys", "--workers", workers) as (process, ready),
        closing(sqlite3.connect(pack.with_suffix(".db"), isolation_level=None)) as held,
        ThreadPoolExecutor(4) as pool,
    ):
        held.execute("BEGIN IMMEDIATE")  # so that no decision can be written yet
        begun = [pool.submit(decide, ready, f"HC-{number}") for number in range(4)]
        port = int(ready["origin"].rpartition(":")[2])
        wait_until(lambda: connections(process.pid, port) >= 4)
        # A connection isn't a request yet: what a worker answers after it shows that it has read what came before
        # One client, as a new one takes long to make; but a connection each, for they are shared among the workers
        apart = {"Connection": "close"}
        with httpx.Client(base_url=ready["origin"], headers=apart, trust_env=False, timeout=20) as http:
            for _ in range(10):
                assert http.get("/healthz").status_code == 200
                threading.Event().wait(0.05)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: refuses(ready["origin"]))
        assert not any(each.done() for each in begun)
        held.execute("COMMIT")
        answers = [each.result(timeout=30) for each in begun]
        assert [each.status_code for each in answers] == [200] * 4
        assert (process.wait(timeout=30), process.communicate()) == (0, ("", ""))
    with LocalAuthority.from_pack(pack, f"sqlite:///{pack.with_suffix('.db')}") as authority:
        assert all(authority.verify(each.json()["executionId"])["valid"] for each in answers)


def connections(pid: int, port: int) -> int:
    """How many clients a server and its workers have."""
    server = psutil.Process(pid)
    held = [each for process in (server, *server.children()) for each in process.net_connections("tcp")]
    return len({each.raddr for each in held if each.status == "ESTABLISHED" and each.laddr.port == port})


def test_fifty_requests_with_one_idempotency_key_over_two_servers_are_one_decision(pack: Path) -> None:
    db = f"sqlite:///{pack.with_suffix('.db')}"
    with served("--pack", str(pack), "--db", db) as (_, first), served("--pack", str(pack), "--db", db) as (_, second):
        key = json.loads(run("keys", "create", "--db", db, "--pack", "helpdesk").stdout)["key"]
        start = threading.Barrier(50)

        def one(number: int) -> httpx.Response:
            ready = {**(first, second)[number % 2], "agentKey": key}
            with httpx.Client(base_url=ready["origin"], trust_env=False, timeout=60) as http:
                start.wait()
                headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "order-1"}
                return http.post(DECISIONS, headers=headers, json={"entity_id": "HC-1", "evidence": evidence()})

        with ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(one, range(50)))
    assert {each.status_code for each in answers} == {200}
    assert len({each.content for each in answers}) == 1
    with closing(sqlite3.connect(pack.with_suffix(".db"))) as database:
        assert database.execute("SELECT count(*) FROM executions").fetchone() == (1,)


# ---------------------------------------------------------------- several workers


@pytest.fixture
def two(pack: Path) -> Iterator[tuple[Any, dict[str, str], list[psutil.Process]]]:
    """A server with two workers, each with a process for the conditions that may take long."""
    pack.write_text(HELPDESK.replace("facts.amount < 100.0", "[facts.amount].all(amount, amount < 100.0)"), "utf-8")
    options = ("--workers", "2", "--log", "json", "--metrics-port", "0")
    with served("--pack", str(pack), "--dev-keys", *options) as (process, ready):
        workers = psutil.Process(process.pid).children()
        assert len(workers) == 2
        yield process, ready, workers
        for worker in workers:
            if worker.is_running():
                worker.kill()


def test_workers_share_keys_database_counters_and_log(two: Any) -> None:
    process, ready, _ = two
    answers = [decide(ready, "HC-0")]  # alone: it waits until the conditions' process has started, eight might not
    with ThreadPoolExecutor(8) as pool:
        answers += pool.map(lambda number: decide(ready, f"HC-{number}"), range(1, 24))
    assert {each.status_code for each in answers} == {200}
    listed = ask(ready, "GET", "/v0/executions", "operatorKey").json()["items"]
    assert {each["executionId"] for each in listed} == {each.json()["executionId"] for each in answers}
    assert {each.json()["outcome"]["id"] for each in answers} == {"billing-question"}
    line = 'preaction_decisions_total{job="triage-ticket",outcome="billing-question",pack="helpdesk"} 24.0\n'
    with httpx.Client(trust_env=False, timeout=20) as http:
        wait_until(lambda: line in http.get(ready["metrics"]).text)  # counted when it is answered, or just after
    process.terminate()
    out, err = process.communicate(timeout=30)
    written = [json.loads(line) for line in err.splitlines()]
    assert (process.returncode, out, len(written)) == (0, "", 25)
    decisions = [each["executionId"] for each in written if each["executionId"] is not None]
    assert sorted(decisions) == sorted(each.json()["executionId"] for each in answers)


def test_when_one_worker_dies_all_end_and_say_so(two: Any) -> None:
    process, ready, workers = two
    evaluators = [each for worker in workers for each in worker.children()]
    workers[0].kill()
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (2, "preaction: a worker ended by itself, so all did\n")
    assert refuses(ready["origin"])
    assert (len(evaluators), psutil.wait_procs(evaluators, timeout=30)[1]) == (2, [])


def test_no_worker_outlives_the_server(two: Any) -> None:
    process, ready, workers = two
    evaluators = [each for worker in workers for each in worker.children()]
    os.kill(process.pid, signal.SIGKILL)
    psutil.wait_procs(workers, timeout=30)
    assert refuses(ready["origin"])
    assert (len(evaluators), psutil.wait_procs(evaluators, timeout=30)[1]) == (2, [])


def test_what_cannot_be_served_that_way_is_one_line(pack: Path) -> None:
    for options, words in [
        (("--rate", "many"), "such as 50/s"),
        (("--workers", "2", "--db", "sqlite://"), "can't share a database in memory"),
        (("--metrics-port", "0", "--metrics-host", "not a host"), "can't listen on not a host"),
    ]:
        result = run("serve", "--pack", str(pack), *options)
        assert (result.exit_code, result.stdout) == (2, "")
        assert words in result.stderr
        assert result.stderr.count("\n") == 1


def test_workers_have_a_share_of_the_rate_each() -> None:
    assert read_rate("50/s", share=2).per_second == 25
