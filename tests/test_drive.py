"""The two drivers: what is fetched together, what a failure comes to, and what leaves as it came.

That two things happen at the same time is shown by barriers and events inside the callables, never by the clock.
"""

import asyncio
import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar

import pytest

import preaction.drive as drive_module
from kit import REPLY, SESSION, decided, helpdesk, reply, run_interrupted, shown
from preaction import create_action_gate
from preaction._core.facts import (
    Ask,
    Batch,
    Describe,
    Procedure,
    Recall,
    SessionAsk,
    Source,
    Unavailable,
    Verify,
    VerifyOutputCheck,
)
from preaction.drive import MAX_THREADS, CallableSource, Done, Facts, arun, run, step
from preaction.errors import AuthorityError
from preaction.testing import FakeAuthority
from preaction.wire.models import JobDescription

R = TypeVar("R")
Way: TypeAlias = Literal["thread", "loop"]
every_way = pytest.mark.parametrize("way", ["thread", "loop"])

VERIFY = Verify("exe_1")
DESCRIBE = Describe("triage-ticket", "2026-11-03.1")
CHECK = VerifyOutputCheck("chk_1")
RECALL = Recall("triage-ticket", ("hc-1201",), whole=False)
TOGETHER: tuple[Ask, ...] = (VERIFY, DESCRIBE, CHECK)
DESCRIPTION = FakeAuthority().description()
SOON = 0.2  # seconds: the deadline of what never answers
BESIDE = 1.0  # seconds: the same, where something else does answer or begin meanwhile
SURELY = 30.0  # seconds: the deadline of what answers, and the time after which a barrier gives up


def asking(*batches: Batch) -> Procedure[list[dict[Any, Any]]]:
    """A procedure that asks for each batch in turn and returns what was answered to each ask of each."""
    seen: list[dict[Any, Any]] = []
    for batch in batches:
        seen.append(dict(zip(batch, (yield batch), strict=True)))
    return seen


def no_session(ask: SessionAsk) -> object:
    raise AssertionError(f"nobody should ask the session for {ask}")


async def drive(
    way: Way,
    procedure: Procedure[R],
    facts: Facts,
    *,
    session: Callable[[SessionAsk], object] = no_session,
    deadline_s: float = SURELY,
) -> R:
    """Run it. The sync driver is called right here, in the thread of a running loop, as a sync tool in an agent is."""
    if way == "thread":
        return run(procedure, session, facts, deadline_s)
    return await arun(procedure, session, facts, deadline_s)


async def answers(way: Way, facts: Facts, *asks: Ask, deadline_s: float = SURELY) -> Mapping[Any, Any]:
    """The answers to one batch."""
    return (await drive(way, asking(asks), facts, deadline_s=deadline_s))[0]


def plain_facts(
    verify: Callable[..., object] = lambda execution_id: {"asked": execution_id},
    describe: Callable[..., object] = lambda job, release: DESCRIPTION,
    check: Callable[..., object] = lambda check_id: {"asked": check_id},
) -> Facts:
    """Facts from three separate callables, plain or coroutine functions."""
    return Facts(*(_source(function) for function in (verify, describe, check)))


def _source(function: Callable[..., Any]) -> Source:
    if inspect.iscoroutinefunction(function):
        return CallableSource(None, function)
    return CallableSource(function, None)


# ---------------------------------------------------------------- together


@every_way
@pytest.mark.parametrize("known", [False, True], ids=["cold", "description known"])
@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_the_facts_of_one_batch_are_fetched_at_the_same_time(kind: str, known: bool, way: Way) -> None:
    facts, meet = _meeting(kind, way)
    if known:
        meet(1)
        await answers(way, facts, DESCRIBE)
    meet(2 if known else 3)
    got = await answers(way, facts, *TOGETHER)
    assert (got[VERIFY], got[CHECK]) == ({"met": True}, {"met": True}), "one waited for another to end"
    assert isinstance(got[DESCRIBE], JobDescription)


def _meeting(kind: str, way: Way) -> tuple[Facts, Callable[[int], None]]:
    """Facts whose callables answer only once all that were asked are inside; `meet(n)` says how many."""
    barrier: Any = None

    def meet(parties: int) -> None:
        nonlocal barrier
        in_one_loop = kind == "coroutine" and way == "loop"
        barrier = asyncio.Barrier(parties) if in_one_loop else threading.Barrier(parties, timeout=SURELY)

    def plain(*asked: str) -> object:
        barrier.wait()
        return DESCRIPTION if len(asked) == 2 else {"met": True}

    async def coroutine(*asked: str) -> object:
        waiting = barrier.wait()
        if inspect.isawaitable(waiting):
            await waiting
        return DESCRIPTION if len(asked) == 2 else {"met": True}

    function: Callable[..., object] = plain if kind == "plain" else coroutine
    return plain_facts(function, function, function), meet


@every_way
async def test_several_asks_of_one_kind_are_fetched_at_the_same_time(way: Way) -> None:
    barrier = threading.Barrier(3, timeout=SURELY)

    def check(check_id: str) -> object:
        barrier.wait()
        return {"asked": check_id}

    asks = [VerifyOutputCheck(f"chk_{number}") for number in range(3)]
    got = await answers(way, plain_facts(check=check), *asks)
    assert got == {ask: {"asked": ask.check_id} for ask in asks}


class Recorder:
    """A source of all kinds that answers each ask with itself and remembers every batch and the time it was given."""

    keeps_deadline = True

    def __init__(self, *, keeps_deadline: bool = True, more: Mapping[Any, object] | None = None) -> None:
        self.keeps_deadline = keeps_deadline
        self.more = dict(more or {})
        self.batches: list[list[Ask]] = []
        self.deadlines: list[float] = []
        self.threads: list[int] = []

    def fetch(self, asks: Sequence[Ask], deadline_s: float) -> Mapping[Ask, object]:
        self.batches.append(list(asks))
        self.deadlines.append(deadline_s)
        self.threads.append(threading.get_ident())
        found = {ask: DESCRIPTION if isinstance(ask, Describe) else {"asked": ask} for ask in asks}
        return {**found, **self.more}

    async def afetch(self, asks: Sequence[Ask], deadline_s: float) -> Mapping[Ask, object]:
        return self.fetch(asks, deadline_s)


@every_way
async def test_kinds_that_share_a_source_are_asked_in_one_batch(way: Way) -> None:
    shared = Recorder()
    await answers(way, Facts(shared, shared, shared), *TOGETHER)
    assert shared.batches == [list(TOGETHER)]


@every_way
async def test_each_of_two_sources_gets_a_batch_of_its_own_kinds(way: Way) -> None:
    one, other = Recorder(), Recorder()
    await answers(way, Facts(one, other, one), *TOGETHER)
    assert (one.batches, other.batches) == ([[VERIFY, CHECK]], [[DESCRIBE]])


@every_way
async def test_a_source_is_told_the_time_that_is_left(way: Way) -> None:
    source = Recorder()
    await drive(way, asking((VERIFY,), (CHECK,)), Facts(source, source, source), deadline_s=SURELY)
    assert SURELY >= source.deadlines[0] >= source.deadlines[1] > 0


async def test_only_a_source_that_keeps_its_deadline_is_called_in_the_asking_thread() -> None:
    prompt, slow = Recorder(), Recorder(keeps_deadline=False)
    await answers("thread", Facts(prompt, prompt, prompt), VERIFY)
    await answers("thread", Facts(slow, slow, slow), VERIFY)
    here = threading.get_ident()
    assert (prompt.threads == [here], slow.threads == [here]) == (True, False)


@every_way
async def test_session_and_authority_may_be_asked_in_one_batch(way: Way) -> None:
    source = Recorder()
    procedure = asking((RECALL,), (RECALL, VERIFY))
    first, second = await drive(way, procedure, Facts(source, source, source), session=lambda ask: "remembered")
    assert first == {RECALL: "remembered"}
    assert second == {RECALL: "remembered", VERIFY: {"asked": VERIFY}}


@every_way
async def test_a_source_can_not_answer_for_the_session(way: Way) -> None:
    source = Recorder(more={RECALL: "made up"})
    got = await drive(way, asking((RECALL, VERIFY)), Facts(source, source, source), session=lambda ask: "remembered")
    assert got[0][RECALL] == "remembered"


# ---------------------------------------------------------------- descriptions


@every_way
async def test_a_description_is_asked_for_once_and_then_remembered(way: Way) -> None:
    source = Recorder()
    facts = Facts(source, source, source)
    first, second, third = await drive(way, asking(TOGETHER, TOGETHER, (DESCRIBE,)), facts)
    assert source.batches == [[VERIFY, DESCRIBE, CHECK], [VERIFY, CHECK]]
    assert first[DESCRIBE] is second[DESCRIBE] is third[DESCRIBE]


@every_way
async def test_what_one_driver_reads_the_other_remembers(way: Way) -> None:
    source = Recorder()
    facts = Facts(source, source, source)
    await answers("loop" if way == "thread" else "thread", facts, DESCRIBE)
    await answers(way, facts, DESCRIBE)
    assert source.batches == [[DESCRIBE]]


@every_way
@pytest.mark.parametrize(
    "answer",
    [
        {**DESCRIPTION, "release": "2026-11-03.2"},
        {**DESCRIPTION, "job": "triage-mail"},
        {**DESCRIPTION, "outcomes": "all"},
        MappingProxyType({**DESCRIPTION, "facts": {"amount": float("nan")}}),
        JobDescription.model_validate({**DESCRIPTION, "release": "2026-11-03.2"}),
        None,
        Unavailable("closed"),
    ],
    ids=["other release", "other job", "mistyped", "not JSON", "other release as a model", "none", "unavailable"],
)
async def test_only_a_description_that_is_bound_to_its_question_is_remembered(answer: object, way: Way) -> None:
    given = [answer, DESCRIPTION]
    facts = plain_facts(describe=lambda job, release: given.pop(0))
    first, second = await drive(way, asking((DESCRIBE,), (DESCRIBE,)), facts)
    assert isinstance(first[DESCRIBE], Unavailable)
    assert isinstance(second[DESCRIBE], JobDescription)


@every_way
async def test_replays_and_output_checks_are_asked_for_every_time(way: Way) -> None:
    source = Recorder()
    await drive(way, asking((VERIFY, CHECK), (VERIFY, CHECK)), Facts(source, source, source))
    assert source.batches == [[VERIFY, CHECK], [VERIFY, CHECK]]


# ---------------------------------------------------------------- failures


class Odd(Exception):
    """Something nobody foresaw."""


class Signal(BaseException):
    """Something that isn't an error, such as an interrupt."""


FAILURES: dict[str, tuple[BaseException, str]] = {
    "an exception": (Odd("a secret"), "it failed with Odd"),
    "an exception group": (ExceptionGroup("a secret", [Odd()]), "it failed with ExceptionGroup"),
    "StopIteration": (StopIteration("allowed"), "it failed with StopIteration"),
    "StopAsyncIteration": (StopAsyncIteration("allowed"), "it failed with StopAsyncIteration"),
    "a time-out": (TimeoutError("a secret"), "it failed with TimeoutError"),
    "an error of the authority": (AuthorityError("status 503", kind="status"), "status 503"),
    "a cancellation of its own": (asyncio.CancelledError("a secret"), "it failed with CancelledError"),
}


@every_way
@pytest.mark.parametrize("kind", ["plain", "coroutine"])
@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failed_fetch_is_an_answer_and_its_siblings_still_arrive(failure: str, kind: str, way: Way) -> None:
    error, why = FAILURES[failure]
    if kind == "coroutine" and isinstance(error, StopIteration):
        why = "it failed with RuntimeError"  # what Python makes of it in a coroutine

    def plain(execution_id: str) -> object:
        raise error

    async def coroutine(execution_id: str) -> object:
        raise error

    got = await answers(way, plain_facts(verify=plain if kind == "plain" else coroutine), *TOGETHER)
    assert got[VERIFY] == Unavailable(why)
    assert isinstance(got[DESCRIBE], JobDescription)
    assert got[CHECK] == {"asked": "chk_1"}


class Failing:
    """A source that does what it is given instead of answering."""

    keeps_deadline = True

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act

    def fetch(self, asks: Sequence[Ask], deadline_s: float) -> Any:
        return self.act()

    async def afetch(self, asks: Sequence[Ask], deadline_s: float) -> Any:
        return self.act()


def _raise(error: BaseException) -> Any:
    raise error


@every_way
@pytest.mark.parametrize("returned", [None, 7, "ab", [VERIFY], object()], ids=shown)
async def test_a_source_that_returns_no_mapping_has_failed(returned: object, way: Way) -> None:
    source = Failing(lambda: returned)
    got = await answers(way, Facts(source, source, source), VERIFY, CHECK)
    assert {type(answer) for answer in got.values()} == {Unavailable}
    assert got.keys() == {VERIFY, CHECK}


@every_way
async def test_a_source_that_raises_has_failed_for_its_whole_batch(way: Way) -> None:
    source, good = Failing(lambda: _raise(StopIteration(Done("allowed")))), Recorder()
    got = await answers(way, Facts(source, good, source), *TOGETHER)
    name = "StopIteration" if way == "thread" else "RuntimeError"  # what Python makes of it in a coroutine
    assert got[VERIFY] == got[CHECK] == Unavailable(f"it failed with {name}")
    assert isinstance(got[DESCRIBE], JobDescription)


@every_way
async def test_an_ask_that_a_source_leaves_out_has_no_answer(way: Way) -> None:
    source = Failing(dict)
    got = await answers(way, Facts(source, source, source), VERIFY)
    assert got == {VERIFY: Unavailable("there was no answer")}


@every_way
async def test_answers_come_in_the_order_of_their_asks(way: Way) -> None:
    def procedure() -> Procedure[list[Any]]:
        return list((yield (CHECK, RECALL, VERIFY)))

    source = Recorder()
    got = await drive(way, procedure(), Facts(source, source, source), session=lambda ask: ask)
    assert got == [{"asked": CHECK}, RECALL, {"asked": VERIFY}]


@every_way
@pytest.mark.parametrize("returned", [None, 7, "yes", True, b"{}", [], object(), Odd()], ids=shown)
async def test_whatever_a_callable_returns_arrives_as_it_is(returned: object, way: Way) -> None:
    got = await answers(way, plain_facts(verify=lambda execution_id: returned), VERIFY)
    assert got[VERIFY] is returned


def test_a_result_is_read_in_one_place_and_a_stop_iteration_of_the_procedure_is_none() -> None:
    def done() -> Procedure[str]:
        return "the result"
        yield

    def stopping() -> Procedure[str]:
        yield (VERIFY,)
        raise StopIteration("allowed")

    assert step(done(), None) == Done("the result")
    procedure = stopping()
    assert step(procedure, None) == (VERIFY,)
    with pytest.raises(RuntimeError):
        step(procedure, [])


# ---------------------------------------------------------------- what leaves as it came


class Watched:
    """A procedure that says whether it was closed, and whether it came to a result."""

    def __init__(self, *batches: Batch) -> None:
        self.closed = self.ended = False
        self.batches = batches

    def __call__(self) -> Procedure[str]:
        try:
            for batch in self.batches:
                _ = yield batch
            self.ended = True
            return "a verdict"
        finally:
            self.closed = True


@every_way
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), Signal(), Odd(), StopIteration()], ids=shown)
async def test_what_the_session_raises_leaves_the_driver_and_closes_the_procedure(
    error: BaseException, way: Way
) -> None:
    watched = Watched((RECALL,))
    expected = RuntimeError if isinstance(error, StopIteration) else type(error)  # in `drive`, a coroutine
    with pytest.raises(expected):
        await drive(way, watched(), plain_facts(), session=lambda ask: _raise(error))
    assert (watched.closed, watched.ended) == (True, False)


@every_way
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), Signal()], ids=shown)
@pytest.mark.parametrize("kind", ["plain", "coroutine", "source"])
def test_an_interrupt_in_a_fetch_decides_nothing(kind: str, error: BaseException, way: Way) -> None:
    def plain(execution_id: str) -> object:
        raise error

    async def coroutine(execution_id: str) -> object:
        raise error

    source = Failing(lambda: _raise(error))
    facts = {
        "plain": plain_facts(verify=plain),
        "coroutine": plain_facts(verify=coroutine),
        "source": Facts(source, source, source),
    }[kind]
    watched = Watched((VERIFY,))
    with pytest.raises(type(error)):
        run_interrupted(drive(way, watched(), facts))
    assert (watched.closed, watched.ended) == (True, False)


async def test_a_cancelled_task_ends_as_cancelled_and_closes_the_procedure_and_its_fetches() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def verify(execution_id: str) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    watched = Watched((VERIFY,))
    task = asyncio.create_task(arun(watched(), no_session, plain_facts(verify=verify), SURELY))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (watched.closed, watched.ended) == (True, False)
    await asyncio.wait_for(ended.wait(), SURELY)


async def test_a_cancelled_check_has_no_verdict_and_uses_nothing_up() -> None:
    authority, seen, started = FakeAuthority(), [], asyncio.Event()
    hangs = True

    async def verify(execution_id: str) -> object:
        started.set()
        if hangs:
            await asyncio.Event().wait()
        return authority.good_answer(Verify(execution_id))

    gate = create_action_gate(
        job=authority.job,
        tools={"reply": {"writes": "billing-team-reply", "entity": {"field": "id"}, "fields": ["id"], "once": "case"}},
        verify=verify,
        describe=lambda job, release: authority.description(release),
        clock=authority.clock,
        on_verdict=lambda tool, verdict: seen.append(verdict),
    )
    gate.decisions.record("chat", result=authority.decide("HC-1201"))
    task = asyncio.create_task(gate.acheck("chat", "reply", {"id": "HC-1201"}))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == []
    hangs = False
    verdict = await gate.acheck("chat", "reply", {"id": "HC-1201"})
    assert verdict.allow, verdict
    assert seen == [verdict]


# ---------------------------------------------------------------- time


class Hanging:
    """A callable that hangs until it is released, and then waits for all its threads to have left."""

    def __init__(self) -> None:
        self._released = threading.Event()
        self._inside = 0
        self._changed = threading.Condition()

    def __call__(self, *asked: str) -> object:
        self._count(1)
        try:
            self._released.wait()
        finally:
            self._count(-1)
        return {"late": True}

    def _count(self, more: int) -> None:
        with self._changed:
            self._inside += more
            self._changed.notify_all()

    def wait_for(self, inside: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._inside == inside, SURELY), f"{self._inside} inside"

    @contextmanager
    def released_at_the_end(self) -> Iterator["Hanging"]:
        try:
            yield self
        finally:
            self._released.set()
            self.wait_for(0)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    with Hanging().released_at_the_end() as callable_:
        yield callable_


LATE = Unavailable("it did not answer in time")


@every_way
async def test_a_callable_that_hangs_is_late_and_its_siblings_still_arrive(way: Way, hanging: Hanging) -> None:
    got = await answers(way, plain_facts(verify=hanging), *TOGETHER, deadline_s=BESIDE)
    assert got[VERIFY] == LATE
    assert isinstance(got[DESCRIBE], JobDescription)
    assert got[CHECK] == {"asked": "chk_1"}


@every_way
async def test_a_coroutine_function_that_hangs_is_late_and_gives_its_thread_back(way: Way) -> None:
    left = threading.Event()

    async def verify(execution_id: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    got = await answers(way, plain_facts(verify=verify), VERIFY, CHECK, deadline_s=BESIDE)
    assert got[VERIFY] in (LATE, Unavailable("it failed with TimeoutError"))
    assert got[CHECK] == {"asked": "chk_1"}
    assert await asyncio.to_thread(left.wait, SURELY)


@every_way
async def test_once_the_time_is_up_nothing_more_is_waited_for(way: Way, hanging: Hanging) -> None:
    facts = plain_facts(verify=hanging, check=hanging)
    first, second = await drive(way, asking((VERIFY,), (CHECK,)), facts, deadline_s=SOON)
    assert (first, second) == ({VERIFY: LATE}, {CHECK: LATE})


@every_way
async def test_when_every_thread_hangs_calls_are_denied_in_time_and_go_on_afterwards(way: Way) -> None:
    authority = FakeAuthority()
    with Hanging().released_at_the_end() as hanging:
        many = [Verify(f"exe_{number}") for number in range(MAX_THREADS + 6)]
        got = await answers(way, plain_facts(verify=hanging), *many, deadline_s=2 * BESIDE)
        assert set(got.values()) == {LATE}
        hanging.wait_for(MAX_THREADS)

        gate = _gate_of_functions(authority)
        denied = await _check(way, gate)
        assert (denied.allow, denied.code) == (False, "verify_failed")
        assert "did not answer in time" in denied.reason

        shared = await answers(way, Facts(authority, authority, authority), VERIFY)
        assert shared[VERIFY]["valid"], "a source that keeps its deadline needs no thread of the pool"
    allowed = await _check(way, _gate_of_functions(authority, deadline_s=SURELY))
    assert allowed.allow, allowed


@every_way
async def test_without_a_source_of_output_checks_none_is_confirmed(way: Way) -> None:
    gate, authority = helpdesk(verify_output_check=None)
    decided(gate, authority)
    call = (SESSION, REPLY, reply())
    verdict = gate.check(*call) if way == "thread" else await gate.acheck(*call)
    assert (verdict.allow, verdict.code) == (False, "verify_failed")


def _gate_of_functions(authority: FakeAuthority, deadline_s: float = SOON) -> Any:
    """A gate over plain functions, with a decision on HC-1201 in the session `chat`."""
    gate = create_action_gate(
        job=authority.job,
        tools={"reply": {"writes": "billing-team-reply", "entity": {"field": "id"}, "fields": ["id"]}},
        verify=lambda execution_id: authority.good_answer(Verify(execution_id)),
        describe=lambda job, release: authority.good_answer(Describe(job, release)),
        clock=authority.clock,
        deadline_s=deadline_s,
    )
    gate.decisions.record("chat", result=authority.decide("HC-1201"))
    return gate


async def _check(way: Way, gate: Any) -> Any:
    call = ("chat", "reply", {"id": "HC-1201"})
    return gate.check(*call) if way == "thread" else await gate.acheck(*call)


# ---------------------------------------------------------------- threads, loops and processes


async def test_plain_functions_do_not_hold_up_the_loop() -> None:
    opened = threading.Event()

    def verify(execution_id: str) -> object:
        return {"opened by another task": opened.wait(SURELY)}

    async def open_it() -> None:
        opened.set()

    got, _ = await asyncio.gather(answers("loop", plain_facts(verify=verify), VERIFY), open_it())
    assert got[VERIFY] == {"opened by another task": True}


async def test_a_coroutine_function_under_the_sync_driver_runs_in_a_loop_of_its_own() -> None:
    async def verify(execution_id: str) -> object:
        return asyncio.get_running_loop()

    got = await answers("thread", plain_facts(verify=verify), VERIFY)
    assert isinstance(got[VERIFY], asyncio.AbstractEventLoop)
    assert got[VERIFY] is not asyncio.get_running_loop()


def test_a_coroutine_function_under_the_sync_driver_needs_no_running_loop() -> None:
    async def verify(execution_id: str) -> object:
        return execution_id

    assert run(asking((VERIFY,)), no_session, plain_facts(verify=verify), SURELY) == [{VERIFY: "exe_1"}]


@pytest.mark.parametrize(("way", "used"), [("thread", "function"), ("loop", "coroutine function")])
async def test_of_a_callable_with_both_forms_the_one_that_fits_is_called(way: Way, used: str) -> None:
    async def afunction(execution_id: str) -> object:
        return "coroutine function"

    both = CallableSource(lambda execution_id: "function", afunction)
    got = await answers(way, Facts(both, both, both), VERIFY)
    assert got[VERIFY] == used


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform can't fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_forked_while_every_thread_is_busy_can_still_check() -> None:
    authority = FakeAuthority()
    gate = _gate_of_functions(authority, deadline_s=SURELY)
    with Hanging().released_at_the_end() as hanging:
        many = [Verify(f"exe_{number}") for number in range(MAX_THREADS)]
        run(asking(tuple(many)), no_session, plain_facts(verify=hanging), 2 * BESIDE)
        hanging.wait_for(MAX_THREADS)
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if gate.check("chat", "reply", {"id": "HC-1201"}).allow else 1)
            finally:
                os._exit(2)
        assert _exit_code(child) == 0


def test_a_forked_child_starts_without_its_parents_threads_and_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Lock()
    held.acquire()
    monkeypatch.setattr(drive_module._Pool, "executor", "the parent's threads")
    monkeypatch.setattr(drive_module._Pool, "lock", held)
    drive_module._forget_pool()
    assert drive_module._Pool.executor is None
    assert not drive_module._Pool.lock.locked()


def _exit_code(child: int) -> int:
    """How the child ended; it is killed if it hangs."""
    ended: list[int] = []
    waiter = threading.Thread(target=lambda: ended.append(os.waitpid(child, 0)[1]))
    waiter.start()
    waiter.join(60)
    if not ended:
        os.kill(child, signal.SIGKILL)
        waiter.join()
    return os.waitstatus_to_exitcode(ended[0])
