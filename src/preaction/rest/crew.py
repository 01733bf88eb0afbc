"""Puts several questions at the same time, by a deadline, from a thread or from an event loop.

An event loop is served by worker threads unless it has a transport of its own: threads over blocking sockets cost less
than httpx's asynchronous client. A task that is cancelled while it waits feels it at once; its workers go on until the
deadline at the latest, and what they find is dropped.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from time import monotonic
from typing import Any, Final

from preaction.rest.exchange import CLOSED, TIMED_OUT, Failure, Question
from preaction.rest.send import AsyncSender, Response, Sender

_WORKERS: Final = 32


class Threads:
    """Puts questions through a sender, by threads that start when first needed."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="preaction-rest")

    def put(self, questions: Sequence[Question[Any]], ends: float) -> list[Any]:
        """What became of each question: the calling thread puts the first, workers meanwhile the others."""
        try:
            others = [self._workers.submit(self._put, question, ends) for question in questions[1:]]
        except RuntimeError:  # closed, or the interpreter is about to end
            return [CLOSED] * len(questions)
        return [self._put(questions[0], ends), *(_outcome(other, ends) for other in others)]

    async def aput(self, questions: Sequence[Question[Any]], ends: float) -> list[Any]:
        """What became of each question, put by workers."""
        loop = asyncio.get_running_loop()
        try:
            futures = [loop.run_in_executor(self._workers, self._put, question, ends) for question in questions]
        except RuntimeError:  # as above
            return [CLOSED] * len(questions)
        return await _outcomes(futures, ends)

    def close(self) -> None:
        """Take no more questions, and drop those that wait for a worker. Nobody is waited for."""
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _put(self, question: Question[Any], ends: float) -> Any:
        return _settled(question, self._sender.send(question.request, ends))


class Tasks:
    """Puts questions through an asynchronous sender, by tasks of the running loop."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def aput(self, questions: Sequence[Question[Any]], ends: float) -> list[Any]:
        """What became of each question."""
        return await _outcomes([asyncio.ensure_future(self._put(question, ends)) for question in questions], ends)

    async def _put(self, question: Question[Any], ends: float) -> Any:
        return _settled(question, await self._sender.send(question.request, ends))


def _settled(question: Question[Any], response: Response | Failure) -> Any:
    return response if isinstance(response, Failure) else question.settle(*response)


def _outcome(future: "Future[Any]", ends: float) -> Any:
    try:
        return future.result(timeout=max(0.0, ends - monotonic()))
    except CancelledError:
        return CLOSED
    except TimeoutError:
        future.cancel()
        return TIMED_OUT


async def _outcomes(futures: "Sequence[asyncio.Future[Any]]", ends: float) -> list[Any]:
    """As `_outcome`, for all of them; `wait`, unlike `gather`, tells a dropped future from a cancelled caller."""
    try:
        done, _ = await asyncio.wait(futures, timeout=max(0.0, ends - monotonic()))
        return [
            TIMED_OUT if future not in done else CLOSED if future.cancelled() else future.result() for future in futures
        ]
    finally:
        for future in futures:
            future.cancel()
