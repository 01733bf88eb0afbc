"""What is read of a response, and what an exception of a transport means, without a transport."""

import asyncio
import ssl
import time
from threading import Event
from typing import Any

import httpx
import pytest

from preaction.rest.budget import Budget
from preaction.rest.exchange import CLOSED, ENCODED, MISLABELLED, TIMED_OUT, Failure, Request
from preaction.rest.send import AsyncSender, Intake, Reply, Sender, failure_of


def intake(status: int, *headers: tuple[bytes, bytes], seconds: float = 60.0) -> Intake:
    return Intake(Reply(status, headers, []), Budget(time.monotonic() + seconds))


@pytest.mark.parametrize(
    ("status", "read"), [(199, 0), (200, 1), (201, 0), (399, 0), (400, 1), (422, 1), (499, 1), (500, 0), (503, 0)]
)
def test_a_body_is_read_where_it_is_an_answer_or_a_reason(status: int, read: bool) -> None:
    assert intake(status).open is bool(read)


def test_a_response_is_what_was_taken_of_it() -> None:
    taking = intake(404)
    assert taking.take(b"a")
    assert taking.take(b"b")
    assert taking.outcome() == (404, b"ab")
    assert intake(503).outcome() == (503, b"")


@pytest.mark.parametrize("status", [200, 403])
@pytest.mark.parametrize(
    ("header", "failure"),
    [
        ((b"Content-Encoding", b"gzip"), ENCODED),
        ((b"CONTENT-ENCODING", b"identity, br"), ENCODED),
        ((b"Content-Encoding", b"Identity"), None),
        ((b"content-encoding", b"identity"), None),
    ],
)
def test_a_body_that_was_encoded_is_not_read(status: int, header: tuple[bytes, bytes], failure: Failure | None) -> None:
    taking = intake(status, header)
    assert taking.open is (failure is None)
    assert taking.outcome() == (failure if failure and status == 200 else (status, b""))


def test_only_an_answer_must_be_called_json() -> None:
    html = (b"content-type", b"text/html")
    assert intake(200, html).outcome() is MISLABELLED
    assert intake(404, html).open


def test_g21_what_comes_too_late_is_not_waited_for_and_leaves_a_refusal_one() -> None:
    for status, outcome in ((200, TIMED_OUT), (403, (403, b""))):
        taking = intake(status, seconds=0)
        assert not taking.take(b"{}")
        assert taking.outcome() == outcome


class Breaks:
    """A link that breaks, perhaps because its client is closed meanwhile."""

    def __init__(self, closes: Event | None = None) -> None:
        self.closes = closes
        self.seconds: list[float] = []

    def open(self, request: Request, seconds: float) -> Any:
        self.seconds.append(seconds)
        if self.closes is not None:
            self.closes.set()
        raise ValueError


def sent(way: str, link: Breaks, closed: Event, seconds: float) -> Any:
    request, ends = Request("list_jobs", "GET", "/v0/jobs"), time.monotonic() + seconds
    if way == "thread":
        return Sender(link, closed).send(request, ends)
    return asyncio.run(AsyncSender(link, closed).send(request, ends))


every_way = pytest.mark.parametrize("way", ["thread", "loop"])


@every_way
@pytest.mark.parametrize(
    ("is_closed", "seconds", "failure"), [(True, 60, CLOSED), (True, 0, CLOSED), (False, 0, TIMED_OUT)]
)
def test_g21_nothing_is_sent_by_a_closed_client_or_without_time(
    way: str, is_closed: bool, seconds: float, failure: Failure
) -> None:
    link, closed = Breaks(), Event()
    if is_closed:
        closed.set()
    assert sent(way, link, closed, seconds) is failure
    assert link.seconds == []


@every_way
def test_what_breaks_while_the_client_closes_is_its_close(way: str) -> None:
    closed = Event()
    assert sent(way, Breaks(closed), closed, 60) is CLOSED


@every_way
def test_a_link_is_told_the_seconds_that_are_left(way: str) -> None:
    link = Breaks()
    assert sent(way, link, Event(), 60) == Failure("connection", "the authority could not be reached")
    [seconds] = link.seconds
    assert 50 < seconds <= 60


UNTRUSTED = Failure("connection", "the certificate of the authority is not trusted")


def test_a_certificate_that_is_not_trusted_is_found_among_the_causes() -> None:
    cause, context = httpx.ConnectError("x"), httpx.ConnectError("y")
    cause.__cause__ = ssl.SSLCertVerificationError()
    context.__context__ = ssl.SSLCertVerificationError()
    outer = httpx.ConnectError("z")
    outer.__cause__ = cause
    for error in (cause, context, outer, ssl.SSLCertVerificationError()):
        assert failure_of(error, Budget(0)) == UNTRUSTED


@pytest.mark.parametrize(
    ("error", "heard", "failure"),
    [
        (httpx.ReadTimeout("x"), True, TIMED_OUT),
        (httpx.ReadError("x"), True, Failure("connection", "no whole answer came from the authority")),
        (httpx.RemoteProtocolError("x"), False, Failure("connection", "no whole answer came from the authority")),
        (
            httpx.RemoteProtocolError("Server disconnected"),
            False,
            Failure("connection", "the authority could not be reached", unheard=True),
        ),
        (httpx.ReadError("x"), False, Failure("connection", "the authority could not be reached", unheard=True)),
        (ValueError("x"), False, Failure("connection", "the authority could not be reached", unheard=False)),
    ],
)
def test_g21_only_a_connection_that_broke_before_the_answer_lets_ask_again(
    error: Exception, heard: bool, failure: Failure
) -> None:
    budget = Budget(0)
    budget.heard = heard
    assert failure_of(error, budget) == failure
