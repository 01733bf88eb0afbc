"""P8 and P9: a write is done once per key; what may have been done is never done again by itself."""

import asyncio
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.office import CONTEXT, READ, WRITE, Office, raising
from preaction.errors import MisuseError
from preaction.pipeline import Command, NothingSent, ProposedCall, PublicToolError
from preaction.pipeline.idempotency import key_of
from preaction.stores import Store
from preaction.stores.memory import MemoryStore
from preaction.stores.sqlite import SQLiteStore
from preaction.testing import FakeClock

NOT_HELD = "settle: no act of unknown outcome is known under this key"


def tool(**changes: Any) -> dict[str, dict[str, Any]]:
    return {"approve_invoice": changes}


# ---------------------------------------------------------------- keys


def test_p08_a_retry_with_a_fresh_call_id_is_the_same_act() -> None:
    office = Office()
    first = office.write(call_id="call_1")
    again = office.write(call_id="call_9")
    assert (first.code, again.code) == ("executed", "replayed")
    assert first.idempotency_key == again.idempotency_key
    assert len(office.acts) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"request_id": "req_2"},
        {"subject": "u_8"},
        {"arguments": {**WRITE, "reason": "as agreed"}},
        {"arguments": {**WRITE, "invoice_id": "inv_482"}},
    ],
)
def test_p08_what_was_asked_for_otherwise_is_another_act(other: dict[str, Any]) -> None:
    office = Office()
    assert office.write().code == "executed"
    assert office.write(**other).code == "executed"
    assert len(office.acts) == 2


def test_p08_another_run_of_the_same_request_is_the_same_act() -> None:
    office = Office()
    office.write()
    assert office.write(run_id="run_2", policy_version="8").code == "replayed"


def test_p08_two_equal_calls_of_a_repeatable_tool_are_two_acts() -> None:
    office = Office(tools=tool(repeatable=True))
    assert [office.write(call_id=call).code for call in ("a", "b", "a")] == ["executed", "executed", "replayed"]
    assert len(office.acts) == 2


def test_p08_numbers_that_json_writes_alike_are_one_key_and_large_integers_are_two() -> None:
    keys = [
        key_of(ProposedCall("c", "t"), CONTEXT, "t", {"n": value}, repeatable=False)
        for value in (1, 1.0, 2**53, 2**53 + 1, str(2**53))
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4


def test_p08_a_given_key_counts_for_its_tenant_and_its_tool() -> None:
    office = Office(tools={"get_invoice": {"effect": "write"}, **tool(confirm=False)})
    assert office.write(key="k-1").code == "executed"
    assert office.read(key="k-1").code == "executed"
    assert office.write({**WRITE, "invoice_id": "inv_foreign"}, key="k-1", tenant="t_2").code == "executed"
    assert office.acts[-1].idempotency_key == "k-1"


@pytest.mark.parametrize(
    "other",
    [{"arguments": {**WRITE, "status": "rejected"}}, {"subject": "u_8"}, {"arguments": {**WRITE, "reason": ""}}],
)
def test_p08_a_key_with_another_command_is_a_conflict(other: dict[str, Any]) -> None:
    office = Office()
    office.write(key="k-1")
    outcome = office.write(key="k-1", **other)
    assert (outcome.disposition, outcome.code, outcome.result) == ("deny", "key_conflict", None)
    assert len(office.acts) == 1


@pytest.mark.parametrize("key", ["", " ", "k" * 256, "\ud800", 7, b"k"])
def test_p08_a_key_that_cannot_be_one_is_refused_before_anything(key: Any) -> None:
    with pytest.raises(ValueError, match="idempotency_key"):
        ProposedCall("call_1", "approve_invoice", WRITE, idempotency_key=key)
    assert ProposedCall("call_1", "approve_invoice", WRITE, idempotency_key="k" * 255)


def test_p08_a_replay_is_for_those_who_may_see_the_object_still() -> None:
    office = Office()
    office.write()
    assert office.write(roles=("viewer",)).code == "not_authorized"


# ---------------------------------------------------------------- at once


def test_p08_of_two_at_once_one_acts_and_the_other_hears_in_progress() -> None:
    entered, over = threading.Event(), threading.Event()

    def run(command: Command) -> Any:
        entered.set()
        over.wait(10)
        return office.approve(command)

    office = Office(tools=tool(run=run))
    outcomes: list[Any] = []
    first = threading.Thread(target=lambda: outcomes.append(office.write(call_id="call_1")))
    first.start()
    assert entered.wait(10)
    second = office.write(call_id="call_2")
    over.set()
    first.join(10)
    assert (second.disposition, second.code) == ("deny", "in_progress")
    assert outcomes[0].code == "executed"
    assert office.write(call_id="call_3").result == outcomes[0].result
    assert len(office.acts) == 1


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_p08_many_at_once_act_once(kind: str, tmp_path: Path) -> None:
    store: Store = MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "s")
    office = Office(store=store)
    together = threading.Barrier(12, timeout=20)
    outcomes: list[Any] = []

    def one(number: int) -> None:
        together.wait()
        outcomes.append(office.write(call_id=f"call_{number}"))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(office.acts) == 1
    assert len(outcomes) == 12
    codes = [outcome.code for outcome in outcomes]
    assert codes.count("executed") == 1
    assert set(codes) <= {"executed", "replayed", "in_progress"}
    assert office.write().code == "replayed"


async def test_p08_tasks_at_once_act_once() -> None:
    async def run(command: Command) -> Any:
        await asyncio.sleep(0)
        return office.approve(command)

    office = Office(tools=tool(run=run))
    outcomes = await asyncio.gather(*(office.apropose("approve_invoice", WRITE, call_id=str(n)) for n in range(10)))
    assert sorted({outcome.code for outcome in outcomes} - {"in_progress", "replayed"}) == ["executed"]
    assert len(office.acts) == 1


def test_p08_a_reservation_that_was_taken_over_meanwhile_does_not_act() -> None:
    raced: list[str] = []

    def slow_audit(record: dict[str, Any]) -> None:
        if record["phase"] == "before" and not raced:
            office.clock.advance(seconds=200)
            raced.append(heir.write(call_id="call_2").code)

    store = MemoryStore()
    office = Office(store=store, audit=slow_audit)
    heir = Office(store=store, clock=office.clock)
    assert office.write().code == "in_progress"
    assert raced == ["executed"]
    assert (office.acts, len(heir.acts)) == ([], 1)
    assert office.write().code == "replayed"


def test_p08_a_result_outlives_the_process(tmp_path: Path) -> None:
    first = Office(store=SQLiteStore(tmp_path / "s"))
    done = first.write()
    after = Office(store=SQLiteStore(tmp_path / "s"))
    again = after.write(call_id="call_2")
    assert (again.code, again.result, again.for_model) == ("replayed", done.result, done.for_model)
    assert after.acts == []


def test_p08_a_result_is_kept_for_its_time() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=lambda: clock.now.timestamp())
    office = Office(store=store, clock=clock, keep_results=timedelta(hours=1))
    assert office.write().code == "executed"
    clock.advance(minutes=59)
    assert office.write().code == "replayed"


# ---------------------------------------------------------------- what fails


@pytest.mark.parametrize("error", [NothingSent(), PublicToolError("it is paid already"), PublicToolError()])
def test_p09_a_tool_that_did_nothing_frees_its_key(error: Exception) -> None:
    tries: list[int] = []

    def run(command: Command) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise error
        return office.approve(command)

    office = Office(tools=tool(run=run))
    first = office.write(key="k-1")
    assert first.code == ("tool_failed" if isinstance(error, NothingSent) else "tool_error")
    assert office.write(key="k-1", call_id="call_2").code == "executed"
    assert len(office.acts) == 1


FAILURES = [RuntimeError("SECRET"), ConnectionError("SECRET"), TimeoutError("SECRET"), SystemExit(1), StopIteration(1)]


@pytest.mark.parametrize("error", [*FAILURES, asyncio.CancelledError()], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("is_async", [False, True])
def test_p09_any_other_failure_of_a_write_is_of_unknown_outcome(error: BaseException, is_async: bool) -> None:
    started: list[Command] = []

    def run(command: Command) -> Any:
        started.append(command)
        raise error

    async def arun(command: Command) -> Any:
        return run(command)

    office = Office(tools=tool(run=arun if is_async and not isinstance(error, StopIteration) else run))
    for outcome in (office.write(), asyncio.run(office.apropose("approve_invoice", WRITE)), office.write()):
        assert (outcome.disposition, outcome.code) == ("deny", "outcome_unknown")
        assert "SECRET" not in outcome.for_model
        assert "nothing was done" not in outcome.for_model
    assert len(started) == 1, "held for a person"
    assert office.audit.records()[0]["outcome"] == "unknown"


def test_p09_a_retry_asks_reconcile_which_knows_the_result() -> None:
    asked: list[str] = []

    def reconcile(key: str) -> Any:
        asked.append(key)
        return {"id": "inv_481", "status": "approved\x00"}

    office = Office(tools=tool(run=raising(ConnectionError()), reconcile=reconcile))
    lost = office.write(key="k-1")
    found = office.write(key="k-1")
    assert (lost.code, found.code, found.replayed) == ("outcome_unknown", "replayed", True)
    assert found.result == {"id": "inv_481", "status": "approved"}
    assert office.write(key="k-1").result == found.result
    assert asked == ["k-1"]


def test_p09_a_retry_asks_reconcile_which_knows_that_nothing_was_done() -> None:
    tries: list[int] = []

    def run(command: Command) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError
        return office.approve(command)

    async def reconcile(key: str) -> Any:
        return None

    office = Office(tools=tool(run=run, reconcile=reconcile))
    assert [office.write().code for _ in range(3)] == ["outcome_unknown", "executed", "replayed"]
    assert len(office.acts) == 1


@pytest.mark.parametrize("answer", [raising(RuntimeError("SECRET")), raising(asyncio.CancelledError())])
def test_p09_a_reconcile_that_fails_holds_the_act(answer: Any) -> None:
    office = Office(tools=tool(run=raising(ConnectionError()), reconcile=answer))
    assert [office.write().code for _ in range(3)] == ["outcome_unknown"] * 3


def test_p09_a_person_settles_what_is_held() -> None:
    office = Office(tools=tool(run=raising(ConnectionError())))
    held = office.write()
    assert held.idempotency_key is not None
    who = {"tenant": "t_1", "tool": "approve_invoice"}
    with pytest.raises(MisuseError, match=f"^{NOT_HELD}$"):
        office.pipeline.acts.settle("k-2", done=True, **who)
    office.pipeline.acts.settle(held.idempotency_key, done=True, result={"id": "inv_481"}, **who)
    assert (office.write().code, office.write().result) == ("replayed", {"id": "inv_481"})
    with pytest.raises(MisuseError, match=f"^{NOT_HELD}$"):
        office.pipeline.acts.settle(held.idempotency_key, done=False, **who)


async def test_p09_a_cancelled_handle_leaves_the_outcome_unknown_and_passes_the_cancellation_on() -> None:
    began = asyncio.Event()

    async def run(command: Command) -> Any:
        began.set()
        await asyncio.Event().wait()

    office = Office(tools=tool(run=run))
    task = asyncio.create_task(office.apropose("approve_invoice", WRITE))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await office.apropose("approve_invoice", WRITE)).code == "outcome_unknown"
    assert [record["outcome"] for record in office.audit.records()] == ["unknown", "unknown"]


async def test_p09_a_handle_cancelled_before_the_act_leaves_the_key_free() -> None:
    asked = asyncio.Event()

    async def slow_audit(record: dict[str, Any]) -> None:
        if not asked.is_set():
            asked.set()
            await asyncio.Event().wait()

    office = Office(audit=slow_audit)
    task = asyncio.create_task(office.apropose("approve_invoice", WRITE))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert office.acts == []
    assert (await office.apropose("approve_invoice", WRITE)).code == "executed"


def test_p09_an_interrupt_leaves_the_outcome_unknown_and_goes_on() -> None:
    office = Office(tools=tool(run=raising(KeyboardInterrupt())))
    with pytest.raises(KeyboardInterrupt):
        office.write()
    assert office.write().code == "outcome_unknown"


KILLED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pipeline.office import Office
from preaction.stores.sqlite import SQLiteStore
Office(store=SQLiteStore(sys.argv[2]), tools={"approve_invoice": {"run": lambda command: os._exit(9)}}).write()
"""


def test_p09_a_process_killed_between_act_and_record_never_acts_twice(tmp_path: Path) -> None:
    tests, path = Path(__file__).resolve().parents[1], tmp_path / "s"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tests), str(path)], check=False, capture_output=True)
    assert killed.returncode == 9, killed.stderr
    asked: list[str] = []
    after = Office(store=SQLiteStore(path), tools=tool(reconcile=lambda key: asked.append(key)))
    assert after.write().code == "in_progress", "nobody can tell yet that it was killed"
    assert after.acts == []
    after.clock.advance(seconds=60)
    held = Office(store=SQLiteStore(path), clock=after.clock)
    assert held.write().code == "outcome_unknown"
    assert held.acts == []
    assert after.write().code == "executed", "reconcile says that nothing was done"
    assert len(asked) == 1


def test_p09_a_read_that_fails_may_be_tried_again() -> None:
    office = Office(tools={"get_invoice": {"run": raising(RuntimeError("SECRET"))}})
    outcomes = [office.read(READ) for _ in range(2)]
    assert [(outcome.disposition, outcome.code) for outcome in outcomes] == [("deny", "tool_failed")] * 2
    assert "SECRET" not in outcomes[0].for_model
