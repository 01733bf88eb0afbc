"""Questions at the same time: workers that are all busy, and what becomes of those that wait when a client closes."""

import asyncio
import socket
import threading
import time
from typing import Any

import httpx
import pytest

from preaction._core.facts import Unavailable, Verify
from preaction.errors import AuthorityError
from preaction.rest import Felspar, crew
from preaction.rest.exchange import CLOSED, TIMED_OUT
from rest.answers import ASKS, KEY, VERIFY
from rest.authority_server import Asked, AuthorityServer
from rest.ways import Way, client, every_way, fetch

LATE = {VERIFY: Unavailable("the authority did not answer in time")}
DEADLINE_S = 0.3


@every_way
async def test_workers_that_are_all_busy_do_not_make_a_batch_late(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_WORKERS", 1)
    silent = threading.Event()

    def hangs(connection: socket.socket, asked: Asked) -> bool:
        return silent.wait(30)

    with AuthorityServer(hangs) as server:
        async with client(way, server.origin) as felspar:
            felspar._ignored |= {"description", "outputChecks"}
            began = time.monotonic()
            answers = await fetch(way, felspar, ASKS, DEADLINE_S)
            assert time.monotonic() - began < 8
        silent.set()
    assert set(answers.values()) == set(LATE.values())
    # At most: on a slow machine the time may be over before a worker has begun
    assert len(server.asked) <= {"thread": 2, "loop": 1, "transport of the loop": 3}[way]


@pytest.mark.parametrize("way", ["thread", "loop"])
async def test_what_waits_for_a_worker_is_dropped_at_the_close(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_WORKERS", 1)

    def closes(connection: socket.socket, asked: Asked) -> None:
        felspar.close()

    with AuthorityServer(closes) as server:
        async with client(way, server.origin) as felspar:
            felspar._ignored |= {"description", "outputChecks"}
            answers = await fetch(way, felspar, ASKS)
    assert set(answers.values()) == {Unavailable(CLOSED.why)}


class Blocks:
    """A transport that answers when it is let go, but for what names `free`, and that no close reaches."""

    def __init__(self, free: str = "nothing") -> None:
        self.free = free
        self.asked = threading.Event()
        self.over = threading.Event()
        self.threads: set[str] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.threads.add(threading.current_thread().name)
        self.asked.set()
        if self.free not in request.url.path:
            self.over.wait(30)
        return httpx.Response(404)


@pytest.mark.parametrize("way", ["thread", "loop"])
async def test_a_worker_that_is_held_up_is_not_waited_for(way: Way) -> None:
    transport = Blocks(free="exe_1")
    async with client(way, "http://127.0.0.1:9", transport=transport) as felspar:
        began = time.monotonic()
        answers = await fetch(way, felspar, [VERIFY, Verify("exe_2")], 2.0)
        assert time.monotonic() - began < 8
    transport.over.set()
    assert answers == {VERIFY: Unavailable("the authority answered with status 404"), Verify("exe_2"): LATE[VERIFY]}


async def test_a_close_waits_for_nobody_and_drops_at_once_what_waits_for_a_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(crew, "_WORKERS", 1)
    transport = Blocks()
    felspar = Felspar("http://127.0.0.1:9", KEY, transport=transport)
    waiting = asyncio.ensure_future(felspar.afetch([VERIFY, Verify("exe_2")], 3.0))
    assert await asyncio.to_thread(transport.asked.wait, 30)
    felspar.close()
    assert not transport.over.is_set()
    answers = await waiting
    transport.over.set()
    assert answers == LATE | {Verify("exe_2"): Unavailable(CLOSED.why)}
    assert transport.threads == {"preaction-rest_0"}


async def test_threads_that_were_shut_down_take_nothing() -> None:
    with Felspar("http://127.0.0.1:9", KEY) as felspar:
        threads = felspar._threads
        threads.close()
        questions: Any = [object(), object()]
        ends = time.monotonic() + 1
        assert threads.put(questions, ends) == [CLOSED] * 2
        assert await threads.aput(questions, ends) == [CLOSED] * 2
    assert TIMED_OUT.error("verify_execution").kind == "timeout"
    with pytest.raises(AuthorityError):
        felspar.verify("exe_1")
