"""The two drivers: they fetch what the decision asks for, together, and send it the answers. They know no rule.

`run` waits in threads, `arun` in an event loop. A fetch that fails is an answer, `Unavailable`; what the session can't
answer raises, and ends in a denial at the gate's door. `BaseException` (an interrupt, a cancellation) decides nothing:
it leaves both drivers as it came, and the call has no verdict.
"""

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from typing import Generic, TypeVar

from cachetools import LRUCache

from preaction._core.facts import (
    Answers,
    Ask,
    Batch,
    Describe,
    Procedure,
    SessionAsk,
    Source,
    Unavailable,
    Verify,
    VerifyOutputCheck,
    description,
)
from preaction.errors import AuthorityError
from preaction.wire.models import JobDescription

R = TypeVar("R")

MAX_THREADS = 64
"""Threads for callables that keep no deadline of their own. When all of them hang, further calls are denied."""

MAX_DESCRIPTIONS = 256

LATE = Unavailable("it did not answer in time")
LEFT_OUT = Unavailable("there was no answer")
NOTHING: Mapping[Ask, object] = {}


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """A procedure's result."""

    value: R


def step(procedure: Procedure[R], answers: Answers | None) -> Batch | Done[R]:
    """Send `answers`, get the next batch or the result. The only place that reads a `StopIteration`."""
    try:
        return next(procedure) if answers is None else procedure.send(answers)
    except StopIteration as stop:
        return Done(stop.value)


def run(procedure: Procedure[R], session: Callable[[SessionAsk], object], facts: "Facts", deadline_s: float) -> R:
    """Drive `procedure` from a thread. `session` answers what is asked of it, `facts` the rest."""
    until = time.monotonic() + deadline_s
    with closing(procedure):
        batch = step(procedure, None)
        while not isinstance(batch, Done):
            asks = [ask for ask in batch if isinstance(ask, Ask)]
            found = facts.fetch(asks, until) if asks else NOTHING
            batch = step(procedure, _in_order(batch, session, found))
        return batch.value


async def arun(
    procedure: Procedure[R], session: Callable[[SessionAsk], object], facts: "Facts", deadline_s: float
) -> R:
    """Drive `procedure` from an event loop; `run` with two words more."""
    until = time.monotonic() + deadline_s
    with closing(procedure):
        batch = step(procedure, None)
        while not isinstance(batch, Done):
            asks = [ask for ask in batch if isinstance(ask, Ask)]
            found = await facts.afetch(asks, until) if asks else NOTHING
            batch = step(procedure, _in_order(batch, session, found))
        return batch.value


def _in_order(batch: Batch, session: Callable[[SessionAsk], object], found: Mapping[Ask, object]) -> list[object]:
    return [found.get(ask, LEFT_OUT) if isinstance(ask, Ask) else session(ask) for ask in batch]


class Facts:
    """Where each kind of fact comes from; descriptions, which never change, are remembered once they are read.

    Kinds that share one source are fetched from it in one batch.
    """

    def __init__(self, verify: Source, describe: Source, verify_output_check: Source) -> None:
        self._sources: Mapping[type[Ask], Source] = {
            Verify: verify,
            Describe: describe,
            VerifyOutputCheck: verify_output_check,
        }
        self._descriptions: LRUCache[Describe, JobDescription] = LRUCache(MAX_DESCRIPTIONS)
        self._lock = threading.Lock()

    def fetch(self, asks: Sequence[Ask], until: float) -> dict[Ask, object]:
        """All answers by `until` (of `time.monotonic`), fetched together."""
        known, batches = self._plan(asks)
        if len(batches) == 1 and batches[0][0].keeps_deadline:
            found = [_settle(*batches[0], _left(until))]
        else:
            futures = [_pool().submit(_settle, *batch, _left(until)) for batch in batches]
            wait(futures, timeout=_left(until))
            found = [_result(future, asked) for future, (_, asked) in zip(futures, batches, strict=True)]
        return self._remember(known, found)

    async def afetch(self, asks: Sequence[Ask], until: float) -> dict[Ask, object]:
        """As `fetch`, from an event loop."""
        known, batches = self._plan(asks)
        tasks = [asyncio.ensure_future(_asettle(*batch, _left(until))) for batch in batches]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=_left(until))
            found = [_aresult(task, asked) for task, (_, asked) in zip(tasks, batches, strict=True)]
        finally:
            for task in tasks:
                task.cancel()
        return self._remember(known, found)

    def described(self) -> list[JobDescription]:
        """The descriptions that are remembered."""
        with self._lock:
            return list(self._descriptions.values())

    def _plan(self, asks: Sequence[Ask]) -> tuple[dict[Ask, object], list[tuple[Source, list[Ask]]]]:
        """What is known already, and the batches to fetch: one per source, one per ask for a plain callable."""
        known: dict[Ask, object] = {}
        batches: dict[object, tuple[Source, list[Ask]]] = {}
        for ask in asks:
            with self._lock:
                held = self._descriptions.get(ask) if isinstance(ask, Describe) else None
            if held is not None:
                known[ask] = held
                continue
            source = self._sources[type(ask)]
            key = ask if isinstance(source, CallableSource) else id(source)
            batches.setdefault(key, (source, []))[1].append(ask)
        return known, list(batches.values())

    def _remember(self, known: dict[Ask, object], found: list[Mapping[Ask, object]]) -> dict[Ask, object]:
        for answers in found:
            for ask, answer in answers.items():
                known[ask] = answer
                if isinstance(ask, Describe):
                    read = known[ask] = description(answer, ask)
                    if isinstance(read, JobDescription):
                        with self._lock:
                            self._descriptions[ask] = read
        return known


@dataclass(frozen=True, slots=True)
class CallableSource:
    """A source of one kind of fact: a plain function, a coroutine function, or both (`function` and `afunction`)."""

    function: Callable[..., object] | None
    afunction: Callable[..., Awaitable[object]] | None
    keeps_deadline: bool = False

    def fetch(self, asks: Sequence[Ask], deadline_s: float) -> Mapping[Ask, object]:
        """Call the plain function; the coroutine function in a loop of its own where there is no other."""
        if self.function is not None:
            return {ask: self.function(*_arguments(ask)) for ask in asks}
        return asyncio.run(asyncio.wait_for(self.afetch(asks, deadline_s), deadline_s))  # gives the thread back

    async def afetch(self, asks: Sequence[Ask], deadline_s: float) -> Mapping[Ask, object]:
        """Await the coroutine function; the plain one in a thread where there is no other."""
        if self.afunction is not None:
            return {ask: await self.afunction(*_arguments(ask)) for ask in asks}
        return await asyncio.get_running_loop().run_in_executor(_pool(), self._settled, asks, deadline_s)

    def _settled(self, asks: Sequence[Ask], deadline_s: float) -> Mapping[Ask, object]:
        """Settled in the thread, since a `StopIteration` that crosses into a future would never arrive."""
        return _settle(self, asks, deadline_s)


def _arguments(ask: Ask) -> tuple[str, ...]:
    match ask:
        case Verify(execution_id):
            return (execution_id,)
        case Describe(job, release):
            return (job, release)
        case _:
            return (ask.check_id,)


def _settle(source: Source, asks: Sequence[Ask], deadline_s: float) -> Mapping[Ask, object]:
    """What `source` answers. Whatever it raises instead is an answer too, so that its siblings go on."""
    try:
        return dict(source.fetch(asks, deadline_s))
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 (a cancellation in a thread is its source's own)
        return dict.fromkeys(asks, _unavailable(error))


async def _asettle(source: Source, asks: Sequence[Ask], deadline_s: float) -> Mapping[Ask, object]:
    try:
        return dict(await source.afetch(asks, deadline_s))
    except Exception as error:  # noqa: BLE001
        return dict.fromkeys(asks, _unavailable(error))


def _unavailable(error: BaseException) -> Unavailable:
    if isinstance(error, AuthorityError):
        return Unavailable(" ".join(str(error).split())[:200])
    return Unavailable(f"it failed with {type(error).__name__}")


def _result(future: Future[Mapping[Ask, object]], asks: Sequence[Ask]) -> Mapping[Ask, object]:
    """What was settled in time; a late fetch is left to end by itself, and its answer is dropped."""
    return dict.fromkeys(asks, LATE) if future.cancel() or not future.done() else future.result()


def _aresult(task: asyncio.Task[Mapping[Ask, object]], asks: Sequence[Ask]) -> Mapping[Ask, object]:
    if task.cancelled():  # by its source: nobody else has cancelled it yet
        return dict.fromkeys(asks, _unavailable(asyncio.CancelledError()))
    return task.result() if task.done() else dict.fromkeys(asks, LATE)


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())


class _Pool:
    executor: ThreadPoolExecutor | None = None
    lock = threading.Lock()


def _pool() -> ThreadPoolExecutor:
    with _Pool.lock:
        if _Pool.executor is None:
            _Pool.executor = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="preaction")
        return _Pool.executor


def _forget_pool() -> None:
    _Pool.executor, _Pool.lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_pool)  # the parent's threads don't exist in the child
