"""The two drivers: they make the calls that a procedure yields, and send it what came of them. They know no step.

A function that fails is an answer, too. `BaseException` (an interrupt, a cancellation) decides nothing: it closes the
procedure and leaves the driver as it came.
"""

import asyncio
import contextvars
import inspect
import math
import os
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

from preaction.options import is_async

R = TypeVar("R")
T = TypeVar("T")

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
            if call.limit_s is not None or is_async(call.function):
                call = _Streak(procedure, call, _in_a_loop, _may_be_given_up, math.inf).waited()
                continue
            answer = _called(call)
            if inspect.isawaitable(answer.value):
                call = Call(_value, (answer.value,))
                call = _Streak(procedure, call, _in_a_loop, _may_be_given_up, math.inf).waited()
            else:
                call = _step(procedure, answer)
        result: R = call.value
        return result


async def arun(procedure: Asking[R]) -> R:
    """Drive `procedure` from an event loop. What may block runs in a thread."""
    with closing(procedure):
        call = _step(procedure, None)
        while isinstance(call, Call):
            if not call.quick and _may_block(call):
                call = await _Streak(procedure, call, _called, _may_block, STUCK_S).awaited()
            else:
                call = _step(procedure, await _aanswer(call))
        result: R = call.value
        return result


def _may_be_given_up(call: Call) -> bool:
    return call.quick or call.limit_s is not None or is_async(call.function)


def _may_block(call: Call) -> bool:
    return call.afunction is None and not is_async(call.function)


class _Streak:
    """Calls that a thread makes one after the other, while whoever drives the procedure watches their time.

    To hand one call over and its answer back takes longer than most functions do, so the thread that has it goes on
    with those that follow, as long as they are ones for a thread, and none is late before the driver looks again. When
    one is late, the driver goes on without the thread: what that call gives is dropped, and the thread never comes to
    the procedure again.
    """

    def __init__(
        self,
        procedure: Asking[Any],
        call: Call,
        make: Callable[[Call], Answer],
        takes: Callable[[Call], bool],
        unlimited_s: float,
    ) -> None:
        self._procedure = procedure
        self._make = make
        self._takes = takes
        self._unlimited_s = unlimited_s
        self._lock = threading.Lock()  # whoever steps the procedure has it
        self._left = False
        self._call = call
        self._until = self._looks_at = self._end_of(call)
        self._future: Future[Call | _Done] = _submit(self._calls)

    def waited(self) -> Call | _Done:
        """What comes after the streak. Waits in this thread."""
        try:
            while not self._future.done():
                wait([self._future], self._seconds())
                if self._is_late():
                    return _step(self._procedure, NEVER_BEGAN if self._future.cancel() else LATE)
            return self._future.result()
        finally:
            self._leave()

    async def awaited(self) -> Call | _Done:
        """What comes after the streak. Waits in an event loop."""
        waiting = asyncio.wrap_future(self._future)
        try:
            while not waiting.done():
                await asyncio.wait([waiting], timeout=self._seconds())
                if self._is_late():
                    return _step(self._procedure, NEVER_BEGAN if self._future.cancel() else LATE)
            return waiting.result()
        finally:
            waiting.cancel()
            self._leave()

    def _calls(self) -> "Call | _Done":
        context = contextvars.copy_context()
        while True:
            call = self._call
            answer = context.copy().run(self._make, call)
            if inspect.isawaitable(answer.value):  # for the loop
                return self._ended(Call(_value, (answer.value,), call.limit_s, quick=True))
            with self._lock:
                if self._left:
                    return _Done(None)
                following = _step(self._procedure, answer)
                self._until = math.inf
                if isinstance(following, _Done) or not self._takes(following):
                    return following
                until = self._end_of(following)
                if until < self._looks_at:
                    return following
                self._call, self._until = following, until

    def _ended(self, following: Call) -> Call:
        with self._lock:
            self._until = math.inf
        return following

    def _end_of(self, call: Call) -> float:
        return time.monotonic() + (self._unlimited_s if call.limit_s is None else call.limit_s)

    def _seconds(self) -> float | None:
        with self._lock:
            self._looks_at = self._until
        return None if self._looks_at == math.inf else max(0.0, self._looks_at - time.monotonic())

    def _is_late(self) -> bool:
        """Whether the call that is being made is late; if so, the streak is over."""
        with self._lock:
            self._left = not self._future.done() and self._until <= time.monotonic()
            return self._left

    def _leave(self) -> None:
        with self._lock:
            self._left = True
        self._future.cancel()


def _in_a_loop(call: Call) -> Answer:
    """The call, its awaitable awaited in a loop that ends with the limit."""
    answer = _called(call)
    if not inspect.isawaitable(answer.value):
        return answer
    return asyncio.run(_awaited(answer.value, call.limit_s))


async def _aanswer(call: Call) -> Answer:
    if call.afunction is not None:
        call = replace(call, function=call.afunction, afunction=None)
    answer = _called(call)
    return await _awaited(answer.value, call.limit_s) if inspect.isawaitable(answer.value) else answer


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


def _submit(function: Callable[[], T]) -> "Future[T]":
    with _Pool.lock:
        if _Pool.executor is None:
            _Pool.executor = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="preaction-pipeline")
        return _Pool.executor.submit(contextvars.copy_context().run, function)


def _forget_pool() -> None:
    _Pool.executor, _Pool.lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_pool)  # the parent's threads don't exist in the child
