"""What a transport that was handed in may do and raise."""

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from preaction._core.facts import Unavailable
from preaction.rest import Felspar
from rest.answers import ANSWERS, ASKS, EVERYTHING, KEY, VERIFY
from rest.authority_server import AuthorityServer, says
from rest.ways import Way, fetch

LATE = {VERIFY: Unavailable("the authority did not answer in time")}
UNREACHED = {VERIFY: Unavailable("the authority could not be reached")}
DEADLINE_S = 0.3


class Raises:
    """A transport that raises this."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.asked = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        raise self.error

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        raise self.error


@pytest.mark.parametrize("way", ["thread", "loop", "transport of the loop"])
@pytest.mark.parametrize(
    ("error", "answers", "asked"),
    [
        (httpx.ReadTimeout(KEY), LATE, 1),
        (httpx.PoolTimeout(KEY), LATE, 1),
        (TimeoutError(KEY), LATE, 1),
        (httpx.ConnectError(KEY), UNREACHED, 2),
        (httpx.ReadError(KEY), UNREACHED, 2),
        (httpx.WriteError(KEY), UNREACHED, 2),
        (httpx.RemoteProtocolError("Server disconnected without sending a response."), UNREACHED, 2),
        (ConnectionResetError(KEY), UNREACHED, 2),
        (httpx.RemoteProtocolError(KEY), {VERIFY: Unavailable("no whole answer came from the authority")}, 1),
        (httpx.ProxyError(KEY), UNREACHED, 1),
        (httpx.UnsupportedProtocol(KEY), UNREACHED, 1),
        (StopIteration(KEY), UNREACHED, 1),
        (ValueError(KEY), UNREACHED, 1),
        (ZeroDivisionError(), UNREACHED, 1),
    ],
)
async def test_whatever_a_transport_raises_is_a_failed_exchange(
    way: Way, error: Exception, answers: Any, asked: int
) -> None:
    transport = Raises(error)
    options: dict[str, Any] = {"async_transport" if way == "transport of the loop" else "transport": transport}
    async with Felspar("https://felspar.example", KEY, **options) as felspar:
        assert await fetch(way, felspar, [VERIFY]) == answers
    assert transport.asked == asked


def test_a_transport_that_answers_oddly_is_a_failed_exchange() -> None:
    class Odd:
        def handle_request(self, request: httpx.Request) -> Any:
            return None

    with Felspar("https://felspar.example", KEY, transport=Odd()) as felspar:
        assert felspar.fetch([VERIFY], 5.0) == UNREACHED


def test_a_transport_may_break_in_the_body() -> None:
    class Breaks(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"{"
            raise httpx.ReadError("gone")

    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Breaks()))
    with Felspar("https://felspar.example", KEY, transport=transport) as felspar:
        assert felspar.fetch([VERIFY], 5.0) == {VERIFY: Unavailable("no whole answer came from the authority")}


async def test_a_transport_of_the_loop_may_be_slow_without_end() -> None:
    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                yield b" "
                time.sleep(0.01)  # noqa: ASYNC251 - a transport that holds the loop up is what is tested

    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Slow()))
    async with Felspar("https://felspar.example", KEY, async_transport=transport) as felspar:
        assert await felspar.afetch([VERIFY], DEADLINE_S) == LATE


def test_a_request_through_a_transport_is_the_same_request() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=EVERYTHING)

    with AuthorityServer(says(EVERYTHING)) as server:
        with Felspar(server.origin, KEY) as ours:
            ours.fetch(ASKS, 5.0)
        with Felspar(server.origin, KEY, transport=httpx.MockTransport(handler)) as injected:
            assert injected.fetch(ASKS, 60.0) == ANSWERS
    [request], [asked] = seen, server.asked
    assert {name.lower(): value for name, value in request.headers.raw} == asked.headers
    assert (request.url.raw_path, request.content) == (asked.target, asked.body)
    waits = request.extensions["timeout"]
    assert waits.keys() == {"connect", "read", "write", "pool"}
    assert all(30 < seconds <= 60 for seconds in waits.values())
