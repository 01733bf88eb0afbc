"""F14: what was decided runs with exactly its values, once, whoever asks and however it ends; all else is held."""

import asyncio
import copy
import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from preaction.errors import SessionFull, StoreUnavailable
from preaction.preflight.execution import Act, Done, Keeper, aexecute, execute
from preaction.preflight.lock import StoreLock
from preaction.preflight.masking import MaskedStorage
from preaction.preflight.record import State
from preaction.preflight.signing import Signer
from preaction.preflight.sqlite_storage import SqliteStorage
from preaction.preflight.storage import MemoryStorage
from preflight.samples import ACCOUNT, KEY, field, record
from preflight.test_masking import AsyncStorage
from preflight.test_signing import SECRET, altered

TOOL = {"name": "bank.transfer", "description": "…", "inputSchema": {}}
ARGUMENTS = {"to_account": ACCOUNT, "amount": 500000}


def clock() -> datetime:
    return datetime(2026, 12, 1, 9, 0, tzinfo=UTC)


class Desk:
    """A keeper, states of its own, and a tool that counts."""

    def __init__(self, storage: Any = None, *, secret: bytes = SECRET, lock: Any = None, clock: Any = clock) -> None:
        self.storage: Any = MemoryStorage() if storage is None else storage
        self.lock = StoreLock() if lock is None else lock
        self.keeper = Keeper(self.storage, Signer(secret), self.lock, clock)
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def state(self, given: dict[str, Any] | None = None) -> State:
        given = record("execute") if given is None else given
        return State(State.from_json(given)._text, Signer(SECRET).sign_state(given))

    def tool(self, name: str, arguments: dict[str, Any]) -> str:
        self.calls.append((name, copy.deepcopy(arguments)))
        arguments.clear()
        return "receipt 7"

    def execute(self, state: Any, tool: Any = TOOL, call_tool: Any = None) -> Done:
        return execute(Act(self.keeper, state, tool, self.tool if call_tool is None else call_tool))

    async def aexecute(self, state: Any, call_tool: Any = None) -> Done:
        return await aexecute(Act(self.keeper, state, TOOL, self.tool if call_tool is None else call_tool))

    def decisions(self) -> list[str]:
        return [one["execution_decision"] for one in self.storage.records()]


def test_f14_it_runs_with_exactly_the_values_and_is_recorded() -> None:
    desk = Desk()
    done = desk.execute(desk.state())
    expected = record("executed", reason="executed", timestamp="2026-12-01T09:00:00.000Z")
    assert done == Done("executed", "executed", expected, "receipt 7", recorded=True)
    assert desk.calls == [("bank.transfer", ARGUMENTS)]
    assert desk.storage.load(KEY) == expected
    assert State.from_json(done.record).execution_decision == "executed"


async def test_f14_in_a_loop_with_coroutines_all_through() -> None:
    class AsyncLock:
        def __init__(self) -> None:
            self.held: list[str] = []

        async def take(self, action_key: str) -> str | None:
            self.held.append(action_key)
            return action_key

        async def free(self, action_key: str, taken: str) -> None:
            self.held.remove(taken)

    async def tool(name: str, arguments: dict[str, Any]) -> str:
        assert lock.held == [KEY]
        return desk.tool(name, arguments)

    lock = AsyncLock()
    desk = Desk(AsyncStorage(), lock=lock)
    state = desk.state()
    assert (await desk.aexecute(state, tool)).status == "executed"
    assert (await desk.aexecute(state, tool)).status == "held"
    assert desk.execute(desk.state(), call_tool=tool).status == "executed"  # and from a thread
    assert (lock.held, len(desk.calls)) == ([], 2)
    assert (await desk.storage.load(KEY))["reason"] == "executed"


def test_f15_nested_fields_lead_into_objects() -> None:
    fields = [field("/to/iban", "DE1"), field("/to/a~1b~0c", 2), field("flat", {"x": [1]}), field("zero", 0)]
    desk = Desk()
    assert desk.execute(desk.state(record("execute", fields=fields))).status == "executed"
    assert desk.calls[0][1] == {"to": {"iban": "DE1", "a/b~c": 2}, "flat": {"x": [1]}, "zero": 0}


# ---------------------------------------------------------------- what is held


def test_f14_a_record_is_no_state_and_never_runs() -> None:
    desk = Desk()
    for given in (record("execute"), None, "execute", 7, [record("execute")], desk.state()._text):
        assert desk.execute(given) == Done("held", "held: it is no state of a preflight")
    assert (desk.calls, desk.decisions()) == ([], [])


def test_f14_a_hand_built_state_is_held() -> None:
    desk, good = Desk(), Desk().state()
    signer, empty = Signer(SECRET), State.__new__(State)
    forged = [
        State.from_json(record("execute")),
        State(good._text),
        State(good._text, ""),
        State(good._text, signer.sign("state", record("execute"))),
        State(good._text, signer.sign("row", [KEY, record("execute")])),
        State("", good.signature),
        State("[]", good.signature),
        State("{", good.signature),
        State("[" * 100_000, good.signature),
        State(None, good.signature),  # type: ignore[arg-type]
        State(good._text, b"x"),  # type: ignore[arg-type]
        empty,
    ]
    for state in forged:
        assert desk.execute(state) == Done("held", "held: this preflight didn't write it, or it was altered")
    assert (desk.calls, desk.decisions()) == ([], [])


def test_f14_a_state_that_was_altered_anywhere_is_held() -> None:
    import json

    desk, good = Desk(), Desk().state()
    for changed in altered(record("execute")):
        assert desk.execute(State(json.dumps(changed), good.signature)).status == "held"
    assert desk.calls == []
    assert desk.execute(good).status == "executed"


def test_f14_a_state_of_another_preflight_is_held() -> None:
    assert Desk(secret=b"another secret").execute(Desk().state()).status == "held"


def test_f14_a_subclass_says_nothing_for_itself() -> None:
    class Mine(State):
        def to_json(self) -> dict[str, Any]:
            return record("execute", fields=[field("to_account", "666")])

    good = Desk().state()
    assert Desk().execute(Mine(good._text, good.signature)).status == "held"


@pytest.mark.parametrize("decision", ["ask_user", "hold", "executed", "failed"])
def test_f14_only_execute_runs(decision: str) -> None:
    desk = Desk()
    done = desk.execute(desk.state(record(decision)))
    assert done == Done("held", f"held: its execution_decision is {decision!r}, not 'execute'")
    assert desk.calls == []


@pytest.mark.parametrize(
    "tool",
    [
        {**TOOL, "name": "records.delete_all"},
        {**TOOL, "name": "Bank.transfer"},
        {**TOOL, "name": None},
        {},
        None,
        "bank.transfer",
        [TOOL],
    ],
)
def test_f14_a_tool_that_was_swapped_since_the_decision_is_held(tool: Any) -> None:
    desk = Desk()
    state = desk.state()
    assert desk.execute(state, tool) == Done("held", "held: the tool is another one than the one that was decided on")
    assert desk.calls == []
    assert desk.execute(state).status == "executed"  # what was held is not used up


# ---------------------------------------------------------------- once


def failing(error: BaseException) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        raise error

    return call


@pytest.mark.parametrize("error", [ConnectionError("password 1234"), SystemExit(3), asyncio.CancelledError()])
def test_f14_a_call_that_failed_is_recorded_and_never_tried_again(error: BaseException) -> None:
    desk = Desk()
    state = desk.state()
    done = desk.execute(state, call_tool=failing(error))
    assert (done.status, done.reason, done.recorded) == ("failed", f"failed: it raised {type(error).__name__}", True)
    assert "1234" not in str(desk.storage.records())
    assert desk.execute(state) == Done("held", "held: it was executed before")
    assert (desk.calls, desk.decisions(), desk.storage.load(KEY)) == ([], ["failed"], None)


def test_f14_the_same_state_runs_once_and_another_one_with_the_same_record_is_another() -> None:
    desk = Desk()
    state = desk.state()
    copies = [state, copy.deepcopy(state), pickle.loads(pickle.dumps(state)), State(state._text, state.signature)]
    assert [desk.execute(one).status for one in copies] == ["executed", "held", "held", "held"]
    assert desk.execute(desk.state()).status == "executed"


def test_f14_an_old_state_doesnt_run_again_after_a_restart(tmp_path: Path) -> None:
    state = Desk().state()
    assert Desk(SqliteStorage(tmp_path / "records.db")).execute(state).status == "executed"
    again = Desk(SqliteStorage(tmp_path / "records.db"))
    assert (again.execute(state).status, again.calls) == ("held", [])


@pytest.mark.parametrize("wrapped", [lambda inner: inner, lambda inner: MaskedStorage(inner, ["memo"])])
def test_f14_a_storage_that_cannot_claim_is_kept_to_once_by_whoever_shares_it(wrapped: Any) -> None:
    storage, state = AsyncStorage(), Desk().state()
    desks = [Desk(wrapped(storage)) for _ in range(2)]
    assert [desk.execute(state).status for desk in desks] == ["executed", "held"]


def test_f14_a_storage_that_can_be_no_key_is_kept_to_once_by_its_preflight() -> None:
    class Unhashable(AsyncStorage):
        __hash__ = None  # type: ignore[assignment]

    desk, state = Desk(Unhashable()), Desk().state()
    assert [desk.execute(state).status for _ in range(2)] == ["executed", "held"]


def test_f14_of_many_at_once_one_runs(tmp_path: Path) -> None:
    """Each with a preflight of its own, as processes have; what they share is the file."""
    state, start, statuses = Desk().state(), threading.Barrier(6), []
    desks = [Desk(SqliteStorage(tmp_path / "records.db")) for _ in range(6)]

    def go(desk: Desk) -> None:
        start.wait()
        statuses.append(desk.execute(state).status)

    threads = [threading.Thread(target=go, args=(desk,)) for desk in desks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == ["executed", *["held"] * 5]
    assert sum(len(desk.calls) for desk in desks) == 1
    assert desks[0].decisions() == ["executed"]


async def test_f14_of_many_tasks_at_once_one_runs() -> None:
    desk = Desk()
    state = desk.state()
    done = await asyncio.gather(*(desk.aexecute(state) for _ in range(6)))
    assert (sorted(one.status for one in done), len(desk.calls)) == (["executed", *["held"] * 5], 1)


def test_f15_two_decisions_under_one_action_key_run_one_after_the_other() -> None:
    desk = Desk()
    first, second, other = desk.state(), desk.state(), desk.state(record("execute", action_key="u_02:bank.transfer"))
    inside: list[str] = []

    def tool(name: str, arguments: dict[str, Any]) -> None:
        inside.extend([desk.execute(second).reason, desk.execute(other).status])

    assert desk.execute(first, call_tool=tool).status == "executed"
    assert inside == ["held: the same action is being executed just now", "executed"]
    assert desk.execute(second).status == "executed"  # it was held, not used up


# ---------------------------------------------------------------- what fails


class Failing:
    """Raises in one method, and is what it wraps in all others."""

    def __init__(self, inner: Any, method: str, error: BaseException, times: int = 100) -> None:
        self._inner, self._method, self._error, self.times = inner, method, error, times

    def __getattr__(self, name: str) -> Any:
        if name != self._method:
            return getattr(self._inner, name)
        return self._fail

    def _fail(self, *given: Any) -> Any:
        if self.times:
            self.times -= 1
            raise self._error
        return getattr(self._inner, self._method)(*given)


def test_f14_a_lock_that_fails_holds_and_uses_nothing_up() -> None:
    desk = Desk(lock=Failing(StoreLock(), "take", StoreUnavailable("secret"), times=1))
    state = desk.state()
    assert desk.execute(state) == Done("held", "held: the lock could not be asked")
    assert desk.execute(state).status == "executed"


@pytest.mark.parametrize("answer", [None, False, "", 0])
def test_f15_a_lock_that_gives_nothing_holds(answer: Any) -> None:
    class Never:
        def take(self, action_key: str) -> Any:
            return answer

        def free(self, action_key: str, taken: Any) -> None:
            raise AssertionError

    desk = Desk(lock=Never())
    assert desk.execute(desk.state()).reason == "held: the same action is being executed just now"
    assert desk.calls == []


def test_f14_what_would_not_act_when_it_is_called_is_held_and_uses_nothing_up() -> None:
    def later(name: str, arguments: dict[str, Any]) -> Any:
        yield name

    async def much_later(name: str, arguments: dict[str, Any]) -> Any:
        yield name

    desk = Desk()
    state = desk.state()
    for call_tool in (7, "transfer", later, much_later):
        assert (
            desk.execute(state, call_tool=call_tool).reason
            == "held: call_tool is no function that acts when it is called"
        )
    assert desk.execute(state).status == "executed"


def test_f14_what_became_of_it_shows_no_value_in_a_log() -> None:
    desk = Desk()
    shown = repr(desk.execute(desk.state(), call_tool=lambda name, arguments: arguments))
    assert shown == "Done(status='executed', reason='executed', recorded=True)"


@pytest.mark.parametrize("answer", [1, "yes", None, 0])
def test_f14_a_claim_that_isnt_true_holds(answer: Any) -> None:
    desk = Desk()
    desk.keeper.claim = lambda name: answer
    assert desk.execute(desk.state()).status == "held"
    assert desk.calls == []


def test_f14_a_storage_that_fails_before_the_act_holds_and_frees_the_key() -> None:
    desk = Desk(Failing(MemoryStorage(), "claim", SessionFull("…"), times=1))
    assert desk.execute(desk.state()) == Done("held", "held: the storage could not be asked")
    assert desk.calls == []
    assert desk.execute(desk.state()).status == "executed"


@pytest.mark.parametrize("now", [failing(OSError()), lambda: datetime(2026, 12, 1, 9, 0), lambda: None])
def test_f14_a_clock_that_fails_holds(now: Any) -> None:
    desk = Desk(clock=now)
    assert desk.execute(desk.state()) == Done("held", "held: the clock could not be asked")
    assert desk.calls == []


def test_f14_a_record_is_handed_to_the_storage_again_and_the_tool_is_not() -> None:
    desk = Desk(Failing(MemoryStorage(), "persist", OSError(), times=1))
    done = desk.execute(desk.state())
    assert (done.status, done.recorded, len(desk.calls), desk.decisions()) == ("executed", True, 1, ["executed"])


def test_f14_what_was_done_is_said_even_where_it_cannot_be_recorded(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(Failing(MemoryStorage(), "persist", OSError(ACCOUNT)))
    state = desk.state()
    done = desk.execute(state)
    assert (done.status, done.recorded, done.result) == ("executed", False, "receipt 7")
    assert done.record is not None
    assert "a record of what was done could not be kept: OSError" in caplog.text
    assert {vars(each)["code"] for each in caplog.records} == {"record_not_kept"}
    assert ACCOUNT not in caplog.text
    assert desk.execute(state).status == "held"


def test_f14_a_lock_that_cannot_be_freed_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(lock=Failing(StoreLock(), "free", OSError()))
    assert desk.execute(desk.state()).status == "executed"
    assert "an action key could not be freed: OSError" in caplog.text
    assert [vars(each)["code"] for each in caplog.records] == ["key_not_freed"]


def test_f14_a_clock_that_breaks_after_the_act_loses_no_record() -> None:
    times = iter([clock()])  # and then a StopIteration, which must not end more than this call
    desk = Desk(clock=lambda: next(times))
    assert desk.execute(desk.state()).status == "executed"
    assert desk.storage.load(KEY)["timestamp"] == "2026-12-01T09:00:00.000Z"


# ---------------------------------------------------------------- what is interrupted


async def test_f14_what_an_async_storage_is_told_of_a_cancelled_call_is_awaited() -> None:
    desk, began = Desk(AsyncStorage()), asyncio.Event()

    async def tool(name: str, arguments: dict[str, Any]) -> None:
        began.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(desk.aexecute(desk.state(), tool))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [one["reason"] for one in desk.storage.kept.records()] == ["failed: it was cut off"]


async def test_f14_a_call_that_is_cancelled_is_recorded_as_failed_and_its_key_stays_locked() -> None:
    desk, began = Desk(), asyncio.Event()

    async def tool(name: str, arguments: dict[str, Any]) -> None:
        began.set()
        await asyncio.Event().wait()

    state = desk.state()
    running = asyncio.create_task(desk.aexecute(state, tool))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [one["reason"] for one in desk.storage.records()] == ["failed: it was cut off"]
    assert (await desk.aexecute(state)).status == "held"
    # Nobody knows whether the call goes on, so nothing else runs beside it
    assert (await desk.aexecute(desk.state())).reason == "held: the same action is being executed just now"
    assert desk.calls == []


@pytest.mark.parametrize("way", ["thread", "loop"])
async def test_f14_a_call_is_given_up_after_its_time(way: str) -> None:
    desk, gone_on = Desk(), threading.Event()

    async def never(name: str, arguments: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    tool = never if way == "loop" else lambda name, arguments: gone_on.wait(30)
    done = await aexecute(Act(desk.keeper, desk.state(), TOOL, tool, 0.05))
    gone_on.set()
    assert (done.status, done.reason, done.error) == ("failed", "failed: it was late", None)
    assert desk.execute(desk.state()).status == "held"  # it may still go on


def test_f14_an_interrupt_in_the_tool_leaves_as_it_came_and_is_recorded() -> None:
    desk = Desk()
    with pytest.raises(KeyboardInterrupt):
        desk.execute(desk.state(), call_tool=failing(KeyboardInterrupt()))
    assert [one["reason"] for one in desk.storage.records()] == ["failed: it was cut off"]


def test_f14_an_interrupt_before_the_act_leaves_everything_as_it_was() -> None:
    desk = Desk()
    state = desk.state()
    desk.keeper.claim = failing(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        desk.execute(state)
    desk.keeper.claim = desk.storage.claim
    assert desk.execute(state).status == "executed"


@pytest.mark.parametrize("method", ["take", "free"])
def test_f14_an_interrupt_in_the_lock_leaves_what_was_done_as_it_is(method: str) -> None:
    desk = Desk(lock=Failing(StoreLock(), method, KeyboardInterrupt(), times=1))
    state = desk.state()
    with pytest.raises(KeyboardInterrupt):
        desk.execute(state)
    begun = method == "free"
    assert desk.decisions() == (["executed"] if begun else [])
    assert desk.execute(state).reason == ("held: the same action is being executed just now" if begun else "executed")


def test_f14_an_interrupt_while_it_is_recorded_loses_nothing() -> None:
    interrupted = Failing(MemoryStorage(), "persist", KeyboardInterrupt(), times=1)
    desk = Desk(interrupted)
    with pytest.raises(KeyboardInterrupt):
        desk.execute(desk.state())
    assert desk.decisions() == ["executed"]
    assert desk.execute(desk.state()).status == "executed"  # the key is free again
