"""Sends one request and reads its response, within an absolute deadline. Decides nothing about either.

There are two senders because there are two ways to wait. Each opens an exchange through a *link*; all else they share:
what is read of a response (`Intake`) and what an exception means (`failure_of`). Whatever a transport raises becomes a
value here, so that nothing is thrown across threads, not even `StopIteration`.
"""

import ssl
from collections.abc import AsyncIterable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from threading import Event
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from preaction.rest.budget import Budget
from preaction.rest.exchange import CLOSED, ENCODED, MISLABELLED, TIMED_OUT, TOO_LARGE, Failure, Request
from preaction.wire.strict_json import MAX_BYTES

Chunks = TypeVar("Chunks", bound=Iterable[bytes] | AsyncIterable[bytes], covariant=True)
Response: TypeAlias = tuple[int, bytes]
"""A status and a body; the body is read for 200 and for 4xx only."""


@dataclass(frozen=True, slots=True)
class Reply(Generic[Chunks]):
    """The head of a response, and its body as it comes, neither decoded nor read ahead."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    chunks: Chunks


class Link(Protocol):
    """Opens one exchange and closes it; `seconds` bounds each single wait."""

    def open(self, request: Request, seconds: float) -> AbstractContextManager[Reply[Iterable[bytes]]]:
        """Send the request; enter with the head of the response."""
        ...


class AsyncLink(Protocol):
    """`Link` for an event loop."""

    def open(self, request: Request, seconds: float) -> AbstractAsyncContextManager[Reply[AsyncIterable[bytes]]]:
        """Send the request; enter with the head of the response."""
        ...


class Sender:
    """Sends from a thread, and returns by the deadline if its link bounds every wait by the current budget."""

    def __init__(self, link: Link, closed: Event) -> None:
        self._link = link
        self._closed = closed

    def send(self, request: Request, ends: float) -> Response | Failure:
        """The response to a request, by `ends` of `time.monotonic()`."""
        outcome = self._exchange(request, ends)
        return self._exchange(request, ends) if may_ask_again(request, outcome) else outcome

    def _exchange(self, request: Request, ends: float) -> Response | Failure:
        budget = Budget(ends)
        seconds = budget.left()
        if self._closed.is_set() or not seconds:
            return CLOSED if self._closed.is_set() else TIMED_OUT
        try:
            with budget, self._link.open(request, seconds) as reply:
                intake = Intake(reply, budget)
                if intake.open:
                    for chunk in reply.chunks:
                        if not intake.take(chunk):
                            break
                return intake.outcome()
        except Exception as error:  # noqa: BLE001 - the port: whatever a transport raises is a failed exchange
            return CLOSED if self._closed.is_set() else failure_of(error, budget)


class AsyncSender:
    """`Sender` for an event loop; whoever awaits it must bound it by the deadline."""

    def __init__(self, link: AsyncLink, closed: Event) -> None:
        self._link = link
        self._closed = closed

    async def send(self, request: Request, ends: float) -> Response | Failure:
        """The response to a request, by `ends` of `time.monotonic()`."""
        outcome = await self._exchange(request, ends)
        return await self._exchange(request, ends) if may_ask_again(request, outcome) else outcome

    async def _exchange(self, request: Request, ends: float) -> Response | Failure:
        budget = Budget(ends)
        seconds = budget.left()
        if self._closed.is_set() or not seconds:
            return CLOSED if self._closed.is_set() else TIMED_OUT
        try:
            async with self._link.open(request, seconds) as reply:
                intake = Intake(reply, budget)
                if intake.open:
                    async for chunk in reply.chunks:
                        if not intake.take(chunk):
                            break
                return intake.outcome()
        except Exception as error:  # noqa: BLE001 - the port: whatever a transport raises is a failed exchange
            return CLOSED if self._closed.is_set() else failure_of(error, budget)


class Intake:
    """What is read of one response: at most 1 MiB, in time, as sent. `open` while more of the body is wanted."""

    def __init__(self, reply: Reply[Iterable[bytes] | AsyncIterable[bytes]], budget: Budget) -> None:
        budget.heard = True
        self._budget = budget
        self._status = reply.status
        self._parts: list[bytes] = []
        self._size = 0
        self._failure: Failure | None = None
        self.open = reply.status == 200 or 400 <= reply.status < 500
        if any(value.lower() != b"identity" for value in _values(b"content-encoding", reply.headers)):
            self._stop(ENCODED)
        elif self._status == 200 and not all(map(_is_json, _values(b"content-type", reply.headers))):
            self._stop(MISLABELLED)

    def take(self, chunk: bytes) -> bool:
        """Take the next piece of the body; whether more of it is wanted."""
        self._parts.append(chunk)
        self._size += len(chunk)
        if self._size > MAX_BYTES:
            self._stop(TOO_LARGE)
        elif not self._budget.left():
            self._stop(TIMED_OUT)
        return self.open

    def outcome(self) -> Response | Failure:
        """The response that was read. A failure to read a refusal's body leaves the refusal."""
        if self._failure is not None and self._status == 200:
            return self._failure
        return self._status, b"" if self._failure is not None else b"".join(self._parts)

    def _stop(self, failure: Failure) -> None:
        self.open = False
        self._failure = failure


def _values(header: bytes, headers: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    return [value for name, value in headers if name.lower() == header]


def _is_json(content_type: bytes) -> bool:
    kind = content_type.partition(b";")[0].strip().lower()
    return kind == b"application/json" or (kind.startswith(b"application/") and kind.endswith(b"+json"))


def may_ask_again(request: Request, outcome: Response | Failure) -> bool:
    """G21: a read may be asked once more when the connection broke before the first byte of an answer."""
    return request.again and isinstance(outcome, Failure) and outcome.unheard


_TIME_OUTS: Final = {"TimeoutException", "TimeoutError"}
_BROKEN: Final = {"NetworkError", "ConnectionError"}


def failure_of(error: Exception, budget: Budget) -> Failure:
    """What an exception of a transport means.

    httpx, httpcore and httpx2 share no base class but name theirs alike, so the names in the family tree decide, and
    none of the three is imported for it.
    """
    family = {kind.__name__ for kind in type(error).__mro__}
    hung_up = "RemoteProtocolError" in family and str(error).startswith("Server disconnected")
    if family & _TIME_OUTS:
        return TIMED_OUT
    if budget.heard or ("RemoteProtocolError" in family and not hung_up):
        return Failure("connection", "no whole answer came from the authority")
    if _has_cause(error, ssl.SSLCertVerificationError):
        return Failure("connection", "the certificate of the authority is not trusted")
    return Failure("connection", "the authority could not be reached", unheard=hung_up or bool(family & _BROKEN))


def _has_cause(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False
