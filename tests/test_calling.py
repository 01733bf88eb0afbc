"""The driver of calls: one thread for those that follow each other, each within its own time, none after it left."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest

from preaction.calling import Answer, Asking, Call, arun, run

Drive = Callable[[Asking[Any]], Any]


def in_a_loop(procedure: Asking[Any]) -> Any:
    return asyncio.run(arun(procedure))


@pytest.fixture(params=[run, in_a_loop])
def drive(request: pytest.FixtureRequest) -> Drive:
    driver: Drive = request.param
    return driver


def answers(*calls: Call) -> Asking[list[Answer]]:
    found = []
    for call in calls:
        found.append((yield call))
    return found


def test_calls_that_follow_each_other_are_made_by_one_thread(drive: Drive) -> None:
    quick = Call(threading.get_ident, quick=True)
    found = drive(answers(*[Call(threading.get_ident, limit_s=9), quick] * 5))
    assert len({answer.value for answer in found}) == 1
    assert found[0].value != threading.get_ident()


@pytest.mark.parametrize("limits", [(0.02,), (9, 0.02), (5, 9, 0.02), (9, 0.02, 9)])
def test_each_call_has_its_own_time_whatever_that_of_the_one_before_was(
    limits: tuple[float, ...], drive: Drive
) -> None:
    over = threading.Event()
    calls = [Call(over.wait, (5,), limit_s=limit) if limit < 0.1 else Call(int, limit_s=limit) for limit in limits]
    found = drive(answers(*calls))
    over.set()
    assert [answer.late for answer in found] == [limit < 0.1 for limit in limits]


def test_a_call_that_was_given_up_never_comes_back_to_the_procedure(drive: Drive) -> None:
    over, ended = threading.Event(), threading.Event()
    steps: list[tuple[str, bool]] = []

    def hangs() -> None:
        over.wait(10)
        ended.set()

    def procedure() -> Asking[str]:
        for name in ("first", "hangs", "last"):
            answer = yield Call(hangs if name == "hangs" else int, limit_s=0.02 if name == "hangs" else 9)
            steps.append((name, answer.late))
            if answer.late:
                over.set()
                ended.wait(10)
        return "done"

    assert drive(procedure()) == "done"
    assert steps == [("first", False), ("hangs", True), ("last", False)]


def test_what_is_awaited_in_the_middle_is_an_answer_like_any_other(drive: Drive) -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        return "later"

    forever = Call(lambda: asyncio.Event().wait(), limit_s=0.02)
    found = drive(answers(Call(int, limit_s=9), Call(lambda: later(), limit_s=9), forever, Call(later, limit_s=9)))
    assert [answer.value for answer in found] == [0, "later", None, "later"]
    assert [answer.late for answer in found] == [False, False, True, False]


def test_what_fails_is_an_answer_and_the_next_call_is_made(drive: Drive) -> None:
    def stops() -> None:
        raise StopIteration(1)

    found = drive(answers(*[Call(one, limit_s=9) for one in (stops, int, lambda: [][0], int)]))
    assert [type(answer.error) for answer in found] == [StopIteration, type(None), IndexError, type(None)]


def test_what_the_procedure_raises_leaves_the_driver(drive: Drive) -> None:
    def procedure() -> Asking[None]:
        yield Call(int, limit_s=9)
        raise TimeoutError("the procedure's own")

    with pytest.raises(TimeoutError, match="own"):
        drive(procedure())


def test_each_call_sees_the_context_of_who_drives_and_nothing_of_the_one_before(drive: Drive) -> None:
    word = contextvars.ContextVar("word", default="none")
    word.set("mine")

    def changes() -> str:
        seen = word.get()
        word.set("changed")
        return seen

    assert [answer.value for answer in drive(answers(*[Call(changes, limit_s=9)] * 3))] == ["mine"] * 3
    assert word.get() == "mine"


def test_in_a_thread_what_has_no_limit_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def later() -> str:
        await asyncio.sleep(0.05)
        return "later"

    monkeypatch.setattr("preaction.calling.STUCK_S", 0.01)
    found = run(answers(Call(later), Call(int, limit_s=9), Call(lambda: later()), Call(later)))
    assert [answer.value for answer in found] == ["later", 0, "later", "later"]


async def test_a_driver_that_is_cancelled_leaves_and_no_further_call_is_made() -> None:
    began, over, ended = threading.Event(), threading.Event(), threading.Event()
    made: list[str] = []

    def hangs() -> None:
        began.set()
        over.wait(10)
        made.append("hangs")

    def procedure() -> Asking[None]:
        try:
            yield Call(int, limit_s=9)
            yield Call(hangs, limit_s=9)
            yield Call(made.append, ("next",), limit_s=9)
        finally:
            made.append("closed")
            ended.set()

    task = asyncio.create_task(arun(procedure()))
    await asyncio.to_thread(began.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    over.set()
    assert ended.wait(10)
    await asyncio.to_thread(lambda: None)
    assert made[0] == "closed"
    assert "next" not in made


def test_a_driver_that_is_interrupted_leaves_and_passes_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    began, over, ended = threading.Event(), threading.Event(), threading.Event()

    def interrupted(*given: Any) -> None:
        began.wait(10)
        raise KeyboardInterrupt

    def hangs() -> None:
        began.set()
        over.wait(10)
        ended.set()

    monkeypatch.setattr("preaction.calling.wait", interrupted)
    procedure = answers(Call(hangs, limit_s=9), Call(int, limit_s=9))
    with pytest.raises(KeyboardInterrupt):
        run(procedure)
    over.set()
    assert ended.wait(10)
    with pytest.raises(StopIteration):
        next(procedure)
