"""The two drivers: they make the calls that a procedure yields, and send it what came of them. They know no step.

A function that fails is an answer, too. `BaseException` (an interrupt, a cancellation) decides nothing: it closes the
procedure and leaves the driver as it came.
"""

import asyncio
import contextvars
import inspect
import os
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from preaction.options import is_async

R = TypeVar("R")

MAX_THREADS: Final = 64
"""Threads for functions that block. When all of them hang, further calls are late before they began."""


STUCK_S: Final = 60.0
"""How long an event loop waits for a thread in a call without a limit, such as one to the store or the audit."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call to make. With `limit_s` it is given up after so many seconds; a thread in it goes on all the same.

    `quick` is for what never blocks, and may run in the loop's own thread. `afunction`, if given, is what a loop calls.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    limit_s: float | None = None
    quick: bool = False
    afunction: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call: a value, an error, or neither in time. `began` is False where it certainly never started."""

    value: Any = None
    error: BaseException | None = None
    late: bool = False
    began: bool = True

    @property
    def good(self) -> bool:
        """Whether there is a value."""
        return self.error is None and not self.late


Asking: TypeAlias = Generator[Call, Answer, R]
"""A procedure: it yields calls, is sent their answers, and returns its result."""

LATE: Final = Answer(late=True)
NEVER_BEGAN: Final = Answer(late=True, began=False)


@dataclass(frozen=True, slots=True)
class _Done:
    value: Any


def _step(procedure: Asking[Any], answer: Answer | None) -> Call | _Done:
    """The only place that reads a `StopIteration`; no function of anybody else runs inside."""
    try:
        return next(procedure) if answer is None else procedure.send(answer)
    except StopIteration as stop:
        return _Done(stop.value)


def run(procedure: Asking[R]) -> R:
    """Drive `procedure` from a thread. A coroutine function runs in an event loop of its own."""
    with closing(procedure):
        call = _step(procedure, None)
        while isinstance(call, Call):
            call = _step(procedure, _answer(call))
        result: R = call.value
        return result


async def arun(procedure: Asking[R]) -> R:
    """Drive `procedure` from an event loop. What may block runs in a thread."""
    with closing(procedure):
        call = _step(procedure, None)
        while isinstance(call, Call):
            call = _step(procedure, await _aanswer(call))
        result: R = call.value
        return result


def _answer(call: Call) -> Answer:
    if call.limit_s is None and not is_async(call.function):
        answer = _called(call)
        return _waited(Call(_value, (answer.value,))) if inspect.isawaitable(answer.value) else answer
    return _waited(call)


def _waited(call: Call) -> Answer:
    """In a thread of its own, so that it can be given up, and so that a loop in this thread is not in the way."""
    future = _submit(partial(_in_a_loop, call))
    try:
        return future.result(call.limit_s)
    except TimeoutError:
        return NEVER_BEGAN if future.cancel() else LATE


def _in_a_loop(call: Call) -> Answer:
    """The call, its awaitable awaited in a loop that ends with the limit."""
    answer = _called(call)
    if not inspect.isawaitable(answer.value):
        return answer
    return asyncio.run(_awaited(answer.value, call.limit_s))


async def _aanswer(call: Call) -> Answer:
    if call.afunction is not None:
        call = replace(call, function=call.afunction, afunction=None)
    if call.quick or is_async(call.function):
        answer = _called(call)
    else:
        answer = await _in_a_thread(call)
    return await _awaited(answer.value, call.limit_s) if inspect.isawaitable(answer.value) else answer


async def _in_a_thread(call: Call) -> Answer:
    future = _submit(partial(_called, call))
    waiting = asyncio.wrap_future(future)
    try:
        done, _ = await asyncio.wait([waiting], timeout=STUCK_S if call.limit_s is None else call.limit_s)
    except asyncio.CancelledError:
        future.cancel()
        raise
    if done:
        return waiting.result()
    return NEVER_BEGAN if future.cancel() else LATE


async def _awaited(awaitable: Any, limit_s: float | None) -> Answer:
    """What an awaitable gives. It is not waited for once it is late, also where it doesn't let itself be cancelled."""
    task = asyncio.ensure_future(_settled(awaitable))
    try:
        done, _ = await asyncio.wait([task], timeout=limit_s)
    finally:
        task.cancel()
    if not done:
        return LATE
    return Answer(error=asyncio.CancelledError()) if task.cancelled() else task.result()


async def _settled(awaitable: Any) -> Answer:
    try:
        return Answer(await awaitable)
    except (Exception, asyncio.CancelledError, SystemExit) as error:  # noqa: BLE001 - who cancelled, who waits knows
        return Answer(error=error)


def _called(call: Call) -> Answer:
    """Settled where it runs: what a function raises is an answer, and a `StopIteration` could not cross a future."""
    try:
        return Answer(call.function(*call.arguments))
    except (Exception, asyncio.CancelledError, SystemExit) as error:  # noqa: BLE001 - its own cancellation is a failure
        return Answer(error=error)


def _value(value: Any) -> Any:
    return value


class _Pool:
    executor: ThreadPoolExecutor | None = None
    lock = threading.Lock()


def _submit(function: Callable[[], Answer]) -> "Future[Answer]":
    with _Pool.lock:
        if _Pool.executor is None:
            _Pool.executor = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="preaction-pipeline")
        return _Pool.executor.submit(contextvars.copy_context().run, function)


def _forget_pool() -> None:
    _Pool.executor, _Pool.lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_pool)  # the parent's threads don't exist in the child
