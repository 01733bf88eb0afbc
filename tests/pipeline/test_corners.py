"""What hardly ever happens: stores that fail at any one moment, races between two steps, cancellations in a thread."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from kit import helpdesk
from pipeline.office import CONTEXT, LARGE, READ, WRITE, Office, raising
from preaction import calling
from preaction.calling import Asking, run
from preaction.errors import ConfigurationError, SessionFull, StoreUnavailable
from preaction.pipeline import Command, ConfirmationError, ProposedCall, PublicToolError, Tool, ToolPipeline
from preaction.pipeline.result import Unreadable, require_fit
from preaction.pipeline.texts import Texts
from preaction.pipeline.work import Work
from preaction.stores import Swapped
from preaction.stores.memory import MemoryStore
from preaction.testing import START


class FailsOnce(MemoryStore):
    """A store that fails at its nth use, before or after what it was to do."""

    def __init__(self, nth: int, after: bool) -> None:
        super().__init__()
        self.left, self.after = nth, after

    def look(self, name: str) -> str | None:
        self._count(False)
        return super().look(name)

    def swap(self, name: str, old: str | None, new: str | None, keep: timedelta) -> Swapped:
        self._count(False)
        swapped = super().swap(name, old, new, keep)
        self._count(True)
        return swapped

    def _count(self, after: bool) -> None:
        if after == self.after:
            self.left -= 1
            if self.left == 0:
                raise OSError("SECRET")


def refused(*given: Any) -> Asking[bool]:
    """A procedure over the store that comes too late."""
    return False
    yield


def refuses(command: Command) -> Any:
    raise PublicToolError("closed")


def loses(command: Command) -> Any:
    raise ConnectionError


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("nth", range(1, 19))
@pytest.mark.parametrize("run", [None, refuses, loses])
def test_p10_a_store_that_fails_at_any_moment_never_lets_an_act_happen_twice(run: Any, nth: int, after: bool) -> None:
    begun: list[Command] = []

    def runs(command: Command) -> Any:
        begun.append(command)
        return (run or office.approve)(command)

    tools = {
        "approve_invoice": {
            "run": runs,
            "reconcile": lambda key: None if not office.acts else {"id": "x", "status": "y"},
        }
    }
    office: Office = Office(store=FailsOnce(nth, after), tools=tools)
    agreed = 0
    for _ in range(6):
        outcome = office.write(LARGE)
        assert "SECRET" not in outcome.for_model
        if outcome.disposition == "execute":
            assert office.acts
        if outcome.confirmation is not None:
            try:
                office.pipeline.confirmations.approve(outcome.confirmation.id, by="u_9")
            except (OSError, ConfirmationError):
                continue
            finally:
                agreed += 1
        office.clock.advance(seconds=200)
    assert len(office.acts) <= 1
    assert len(begun) <= agreed


def test_p10_a_store_that_gives_up_by_itself_denies(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(store, "look", raising(asyncio.CancelledError()))
    office = Office(store=store)
    assert [office.write().code, asyncio.run(office.apropose("approve_invoice", WRITE)).code] == ["internal"] * 2
    with pytest.raises(StoreUnavailable, match="no answer"):
        run(Texts(store).look("n"))


def test_p03_a_repair_that_cannot_be_counted_is_denied() -> None:
    assert Office(store=FailsOnce(4, after=False)).read("{").code == "internal"


async def test_p09_a_cancelled_handle_whose_tool_runs_in_a_thread() -> None:
    began, over = threading.Event(), threading.Event()

    def run(command: Command) -> Any:
        began.set()
        over.wait(10)

    office = Office(tools={"approve_invoice": {"run": run}})
    task = asyncio.create_task(office.apropose("approve_invoice", WRITE))
    await asyncio.to_thread(began.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    over.set()
    assert (await office.apropose("approve_invoice", WRITE)).code == "outcome_unknown"


async def test_p09_a_cancelled_handle_whose_store_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    began = asyncio.Event()

    async def run(command: Command) -> Any:
        began.set()
        await asyncio.Event().wait()

    office = Office(tools={"approve_invoice": {"run": run}})
    task = asyncio.create_task(office.apropose("approve_invoice", WRITE))
    await began.wait()
    monkeypatch.setattr(office.pipeline.acts, "lose", raising(OSError()))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await office.apropose("approve_invoice", WRITE)).code == "in_progress"
    office.clock.advance(seconds=60)
    assert (await office.apropose("approve_invoice", WRITE)).code == "outcome_unknown"


@pytest.fixture
def no_thread_is_free(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(calling, "MAX_THREADS", 1)
    monkeypatch.setattr(calling, "STUCK_S", 0.02)
    calling._forget_pool()
    over, took = threading.Event(), threading.Event()

    def hangs() -> calling.Answer:
        took.set()
        over.wait(10)
        return calling.LATE

    calling._submit(hangs)
    assert took.wait(10)
    yield
    over.set()
    calling._forget_pool()


HOOKLESS: dict[str, Any] = {**dict.fromkeys(["resolve", "authorize", "object_ids", "operation_id"]), "confirm": False}


@pytest.mark.usefixtures("no_thread_is_free")
def test_a_tool_that_never_got_a_thread_did_nothing() -> None:
    office = Office(tools={"approve_invoice": {**HOOKLESS, "timeout_s": 0.02}}, audit=None)
    assert [office.write().code, asyncio.run(office.apropose("approve_invoice", WRITE)).code] == ["tool_failed"] * 2
    assert office.acts == []


@pytest.mark.usefixtures("no_thread_is_free")
def test_a_record_that_never_got_a_thread_was_not_written() -> None:
    records: list[dict[str, Any]] = []
    office = Office(tools={"approve_invoice": HOOKLESS}, audit=lambda record: records.append(record))
    assert asyncio.run(office.apropose("approve_invoice", WRITE)).code == "audit_failed"
    assert (office.acts, records) == ([], [])


def test_what_fails_while_it_is_reconciled_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(tools={"approve_invoice": {"run": loses, "reconcile": lambda key: None}})
    office.write()
    monkeypatch.setattr(office.pipeline.acts, "settle_undone", refused)
    assert office.write().code == "in_progress", "somebody else settles it all the time"
    monkeypatch.setattr(office.pipeline.acts, "settle_undone", raising(OSError()))
    assert office.write().code == "internal"


def test_two_that_ask_a_person_at_once_get_one_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office()
    confirmations = office.pipeline.confirmations
    make, others = confirmations._make, []

    def raced(*given: Any) -> Any:
        monkeypatch.undo()
        others.append(office.write(LARGE).confirmation)
        return (yield from make(*given))

    monkeypatch.setattr(confirmations, "_make", raced)
    assert office.write(LARGE).confirmation == others[0]


def test_two_that_ask_about_different_things_get_two(monkeypatch: pytest.MonkeyPatch) -> None:
    confirmations = Office().pipeline.confirmations
    make = confirmations._make

    def raced(*given: Any) -> Any:
        monkeypatch.undo()
        run(confirmations.find("sha-256:a", "other"))
        return (yield from make(*given))

    monkeypatch.setattr(confirmations, "_make", raced)
    wanted: Any = run(confirmations.find("sha-256:a", "mine"))
    confirmations.approve(wanted.confirmation.id, by="u_9")
    later: Any = run(confirmations.find("sha-256:a", "mine"))
    assert later.confirmation.id != wanted.confirmation.id, "what nothing leads to confirms nothing"


def test_two_people_who_approve_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office()
    confirmation = office.write(LARGE).confirmation
    assert confirmation is not None
    monkeypatch.setattr(office.pipeline.confirmations, "_swap", refused)
    with pytest.raises(ConfirmationError, match="just now"):
        office.pipeline.confirmations.approve(confirmation.id, by="u_9")


def test_a_public_error_that_cannot_be_read_says_nothing() -> None:
    class Mute(PublicToolError):
        def __str__(self) -> str:
            raise RuntimeError("SECRET")

    outcome = Office(tools={"approve_invoice": {"run": raising(Mute())}}).write()
    assert (outcome.code, outcome.for_model) == ("tool_error", "Not executed, nothing was done.")
    said = Office(tools={"approve_invoice": {"run": raising(PublicToolError("a\ud800"))}}).write().for_model
    assert said == "Not executed, nothing was done: a?"


def test_a_decision_that_the_gate_could_not_record_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, authority = helpdesk()
    name = "felspar__get_job_decision"
    made = authority.decide("HC-1201")
    tool = Tool(name=name, run=lambda command: made, input_schema={"type": "object"}, effect="read")
    monkeypatch.setattr(gate, "record_result", raising(OSError("SECRET")))
    outcome = ToolPipeline([tool], gate=gate).handle_sync(ProposedCall("c", name), CONTEXT)
    assert (outcome.code, outcome.result) == ("result_invalid", None)


def test_an_audit_that_gives_something_to_await_is_awaited_from_a_thread_too() -> None:
    written: list[str] = []

    async def write(record: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        written.append(record["phase"])

    office = Office(audit=lambda record: write(record))
    assert office.write().code == "executed"
    assert asyncio.run(office.apropose("get_invoice", READ)).code == "executed"
    assert written == ["before", "after"] * 2


def test_preflight_that_fails_denies_and_the_log_says_which_call(caplog: pytest.LogCaptureFixture) -> None:
    office = Office(preflight=raising(RuntimeError()))
    assert office.write().code == "internal"
    (record,) = [vars(each) for each in caplog.records]
    assert (record["code"], record["part"], record["id"]) == ("pipeline_error", "preflight", office.record()["id"])


@pytest.mark.parametrize("hook", [raising(RuntimeError()), lambda result: {"id": 1}])
def test_an_operation_id_that_cannot_be_found_is_left_out(hook: Any) -> None:
    office = Office(tools={"approve_invoice": {"operation_id": hook}})
    assert office.write().code == "executed"
    assert office.record()["operation_id"] is None


def test_objects_without_ids_are_not_named() -> None:
    office = Office(tools={"get_invoice": {"object_ids": None}})
    assert office.read(READ).code == "executed"
    assert office.record()["objects"] == {}


def test_a_list_of_steps_that_leads_nowhere_denies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("preaction.pipeline.steps.STEPS", ())
    assert Office().write().code == "internal"


def test_a_step_out_of_its_order_is_an_error() -> None:
    with pytest.raises(LookupError, match="order"):
        _ = Work(ProposedCall("c", "t"), CONTEXT, "id", START).tool


def test_a_count_that_others_change_all_the_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(store, "swap", lambda *given: Swapped(False, "1"))
    with pytest.raises(SessionFull, match="at the same time"):
        run(Texts(store).count_one_more("n"))


def test_a_result_that_its_validator_cannot_take_does_not_fit() -> None:
    class Validator:
        def is_valid(self, value: object) -> bool:
            raise ValueError

    with pytest.raises(Unreadable):
        require_fit(Validator(), {})


def test_results_are_kept_for_some_time() -> None:
    with pytest.raises(ConfigurationError, match="keep_results"):
        Office(keep_results=timedelta(0))
