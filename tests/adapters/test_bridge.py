"""The bridge that every adapter stands on, by itself: a runtime here is a context that holds an id."""

import asyncio
import gc
import logging
from dataclasses import dataclass
from typing import Any

import pytest

from adapters.contract import BODY, CHECK, DECIDE, LOOK, OTHER, REPLY, SESSION, TICKET, Desk
from preaction import ActionDenied, ConfigurationError
from preaction.adapters import _bridge
from preaction.adapters._bridge import FAILED, Bridge, Go, Stop
from preaction.adapters._turns import inside, turn

CALL = {"ticket_id": TICKET, "body": BODY}


@dataclass
class Context:
    """What a runtime hands over; `id` is its own id of the session."""

    id: Any = SESSION


def bridge_of(desk: Desk, session: Any = None) -> Bridge[Context]:
    return Bridge(desk.gate, session=session, session_of=lambda context: context.id)


async def both(bridge: Bridge[Context], *args: Any, **kwargs: Any) -> Go | Stop:
    """The answer of `ask` and of `aask`, which must be the same."""
    answer, later = bridge.ask(*args, **kwargs), await bridge.aask(*args, **kwargs)
    assert type(answer) is type(later)
    if isinstance(answer, Stop) and isinstance(later, Stop):
        assert answer.text == later.text
    return answer


def decide(desk: Desk, bridge: Bridge[Context], batch: object, session: str = SESSION) -> None:
    """The decision tool runs in `batch` and decides on the ticket."""
    go = bridge.ask(DECIDE, {"entity_id": TICKET}, Context(session), batch=batch)
    assert isinstance(go, Go)
    bridge.ran(go, desk.get_job_decision(TICKET))


def knows_decision(desk: Desk, session: str = SESSION) -> bool:
    return desk.gate.preview(session, REPLY, CALL).code != "case_not_decided"


# Go and Stop


async def test_an_allowed_call_goes_with_a_fresh_copy_of_what_was_checked() -> None:
    desk = Desk().prepared()
    given = dict(CALL)
    answer = await both(bridge_of(desk), REPLY, given, Context(), batch=1)
    assert isinstance(answer, Go)
    assert (answer.tool, answer.session_id, answer.batch, answer.arguments) == (REPLY, SESSION, 1, CALL)
    assert answer.arguments is not given
    again = bridge_of(desk).ask(REPLY, given, Context())
    assert isinstance(again, Go)
    assert again.arguments is not answer.arguments


async def test_a_denied_call_stops_with_exactly_the_denial() -> None:
    desk = Desk().prepared()
    answer = await both(bridge_of(desk), REPLY, {**CALL, "ticket_id": OTHER}, Context())
    assert isinstance(answer, Stop)
    assert answer.text == desk.denial(ticket_id=OTHER, body=BODY)
    assert answer.verdict is not None
    assert str(ActionDenied(answer.verdict)) == answer.text


async def test_a_tool_without_a_rule_goes_with_its_arguments_as_they_came() -> None:
    desk = Desk()
    for arguments in ({"ticket_id": TICKET}, "not even an object"):
        answer = await both(bridge_of(desk), LOOK, arguments, Context())
        assert isinstance(answer, Go)
        assert answer.arguments is None


@pytest.mark.parametrize("arguments", [None, "text", [1], 7])
async def test_arguments_that_are_no_object_are_the_gate_s_to_deny(arguments: object) -> None:
    seen: list[str] = []
    desk = Desk(options={"on_verdict": lambda _, verdict: seen.append(verdict.code)}).prepared()
    answer = await both(bridge_of(desk), REPLY, arguments, Context())
    assert isinstance(answer, Stop)
    assert "one plain JSON object" in answer.text
    assert seen == ["malformed_call"] * 2


@pytest.mark.parametrize("arguments", [{**CALL, "ticket_id": OTHER}, "not even an object", CALL])
async def test_observe_mode_lets_a_call_through_with_its_arguments_as_they_came(arguments: object) -> None:
    desk = Desk(options={"mode": "observe"}).prepared()
    answer = await both(bridge_of(desk), REPLY, arguments, Context())
    assert isinstance(answer, Go)
    allowed = arguments is CALL
    assert answer.arguments == (CALL if allowed else None)


# Total on exceptions, cancellation, time


async def test_any_exception_stops_with_a_text_and_its_message_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("secret")

    answer = await both(bridge_of(Desk().prepared(), session=broken), REPLY, CALL, Context())
    assert answer == Stop(FAILED)
    desk = Desk().prepared()
    vars(desk.gate).update(check=broken, acheck=broken)
    assert await both(bridge_of(desk), REPLY, CALL, Context()) == Stop(FAILED)
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text


async def test_a_check_that_never_ends_stops_in_time() -> None:
    desk = Desk(options={"deadline_s": 0.1}).prepared()

    async def hang(*_: Any, **__: Any) -> Any:
        await asyncio.sleep(60)

    vars(desk.gate).update(acheck=hang)
    bridge = bridge_of(desk)
    async with asyncio.timeout(desk.gate.time_limit_s + 30):
        assert await bridge.aask(REPLY, CALL, Context()) == Stop(FAILED)


async def test_a_cancellation_leaves_as_it_came() -> None:
    desk = Desk().prepared()
    reached = asyncio.Event()

    async def hang(*_: Any, **__: Any) -> Any:
        reached.set()
        await asyncio.sleep(60)

    vars(desk.gate).update(acheck=hang)
    task = asyncio.create_task(bridge_of(desk).aask(REPLY, CALL, Context()))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# Session and names


async def test_the_user_s_resolver_goes_first_then_the_runtime_s_id_then_the_gate_s_session() -> None:
    desk = Desk()

    async def session(own: Any, runtime: Any) -> Any:
        answer = await both(bridge_of(desk, session=lambda _: own), LOOK, {}, Context(runtime))
        assert isinstance(answer, Go)
        return answer.session_id

    with desk.gate.session("surrounding"):
        assert await session("own", "runtime") == "own"
        assert await session(None, "runtime") == "runtime"
        assert await session(None, None) == "surrounding"
    assert await session(None, None) is None


@pytest.mark.parametrize("session_id", [None, "", 7, ["chat-7"]])
async def test_without_a_usable_session_nothing_is_allowed(session_id: Any) -> None:
    answer = await both(bridge_of(Desk().prepared()), REPLY, CALL, Context(session_id))
    assert isinstance(answer, Stop)


async def test_a_tool_is_judged_by_whichever_of_its_names_the_gate_knows() -> None:
    desk = Desk().prepared()
    renamed = await both(bridge_of(desk), "mcp_desk__reply", {**CALL, "ticket_id": OTHER}, Context(), names=(REPLY,))
    assert isinstance(renamed, Stop)
    assert renamed.verdict is not None
    assert renamed.verdict.tool == REPLY
    twice = await both(bridge_of(desk), LOOK, CALL, Context(), names=(REPLY, REPLY))
    assert isinstance(twice, Go)
    assert twice.tool == REPLY


async def test_a_call_by_two_names_that_the_gate_knows_is_denied() -> None:
    assert await both(bridge_of(Desk().prepared()), DECIDE, CALL, Context(), names=(REPLY,)) == Stop(FAILED)


# Recording


def test_only_results_of_the_authority_s_tools_with_a_session_are_recorded() -> None:
    desk = Desk()
    bridge, decision = bridge_of(desk), desk.authority.decide(TICKET)
    bridge.ran(Go(LOOK, SESSION, None, None), decision)
    bridge.ran(Go(DECIDE, None, None, None), decision)
    assert not knows_decision(desk)
    bridge.ran(Go(DECIDE, SESSION, None, None), decision)
    assert knows_decision(desk)


def test_without_a_batch_a_result_counts_at_once() -> None:
    desk = Desk()
    decide(desk, bridge_of(desk), batch=None)
    assert knows_decision(desk)


def test_a_result_does_not_count_for_its_own_batch_and_counts_for_every_other() -> None:
    desk = Desk()
    bridge = bridge_of(desk)
    decide(desk, bridge, batch=1)
    assert knows_decision(desk), "it is on record at once: another process may ask next"
    first = bridge.ask(REPLY, CALL, Context(), batch=1)
    assert isinstance(first, Stop)
    assert "no decision" in first.text
    second = bridge.ask(REPLY, CALL, Context(), batch=2)
    assert isinstance(second, Stop)
    assert "check_output" in second.text
    again = bridge.ask(REPLY, CALL, Context(), batch=1)
    assert again.text == first.text if isinstance(again, Stop) else False, "a later batch asked meanwhile"


def test_an_output_check_does_not_count_for_its_own_batch_either() -> None:
    desk = Desk()
    bridge = bridge_of(desk)
    decide(desk, bridge, batch=1)
    go = bridge.ask(CHECK, {"body": BODY}, Context(), batch=2)
    assert isinstance(go, Go)
    bridge.ran(go, desk.check_output(BODY))
    late = bridge.ask(REPLY, CALL, Context(), batch=2)
    assert isinstance(late, Stop)
    assert "no output check" in late.text
    assert isinstance(bridge.ask(REPLY, CALL, Context(), batch=3), Go)


async def test_a_sibling_that_waits_does_not_get_what_an_agent_of_its_turn_decided() -> None:
    """The agent that a call runs goes on to its next turns, while the outer model has seen nothing yet."""
    desk = Desk().prepared()
    desk.gate = Desk(authority=desk.authority).gate  # what was prepared isn't on record here
    bridge = bridge_of(desk)
    outer = Go("ask_a_colleague", SESSION, turn(1), None)
    with inside(outer):
        decide(desk, bridge, turn(1))
        go = bridge.ask(CHECK, {"body": BODY}, Context(), batch=turn(2))
        assert isinstance(go, Go)
        bridge.ran(go, desk.check_output(BODY))
        assert isinstance(await both(bridge, REPLY, CALL, Context(), batch=turn(3)), Go), "the agent may act on it"
    for sibling in (turn(1), outer.batch):
        answer = await both(bridge, REPLY, CALL, Context(), batch=sibling)
        assert isinstance(answer, Stop)
        assert "no decision" in answer.text
    with inside(Go("ask_a_colleague", SESSION, turn(1), None)):
        assert isinstance(await both(bridge, REPLY, CALL, Context(), batch=turn(9)), Stop), "nor does its other agent"
    assert isinstance(await both(bridge, REPLY, CALL, Context(), batch=turn(2)), Go), "the outer model's next turn"


def test_two_runs_that_share_a_session_don_t_open_each_other_s_turns() -> None:
    desk = Desk()
    bridge = bridge_of(desk)
    decide(desk, bridge, batch="run a, turn 1")
    assert isinstance(bridge.ask(LOOK, {}, Context(), batch="run b, turn 1"), Go)
    late = bridge.ask(REPLY, CALL, Context(), batch="run a, turn 1")
    assert isinstance(late, Stop)
    assert "no decision" in late.text


def test_a_decision_that_comes_while_a_call_of_its_batch_is_checked_does_not_count() -> None:
    desk = Desk()
    desk.decided = desk.authority.decide(TICKET)
    check = desk.check_output(BODY)
    bridge, store = bridge_of(desk), desk.gate._sessions._store
    came: list[bool] = []
    read = store.read

    def meanwhile(*given: Any) -> Any:
        """Just before the session is read, what the siblings got is put there."""
        if not came:
            came.append(True)
            bridge.ran(Go(DECIDE, SESSION, 1, None), desk.decided)
            bridge.ran(Go(CHECK, SESSION, 1, None), check)
        return read(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "read", meanwhile)
        answer = bridge.ask(REPLY, CALL, Context(), batch=1)
    assert came
    assert isinstance(answer, Stop)
    assert "no decision" in answer.text
    assert isinstance(bridge.ask(REPLY, CALL, Context(), batch=2), Go)


def test_sessions_are_told_apart() -> None:
    desk = Desk()
    bridge = bridge_of(desk)
    decide(desk, bridge, batch=1, session="chat-7")
    decide(desk, bridge, batch=2, session="chat-8")
    assert "no decision" in str(bridge.ask(REPLY, CALL, Context("chat-7"), batch=1))
    assert "check_output" in str(bridge.ask(REPLY, CALL, Context("chat-8"), batch=1))


def test_two_bridges_of_one_gate_know_each_other_s_batches() -> None:
    desk = Desk()
    decide(desk, bridge_of(desk), batch=1)
    assert "no decision" in str(bridge_of(desk).ask(REPLY, CALL, Context(), batch=1))
    assert "check_output" in str(bridge_of(desk).ask(REPLY, CALL, Context(), batch=2))


def test_what_is_known_of_batches_goes_with_its_gate() -> None:
    gc.collect()  # of what earlier tests left
    before = len(_bridge._results)
    desk = Desk()
    decide(desk, bridge_of(desk), batch=1)
    assert len(_bridge._results) == before + 1
    del desk
    gc.collect()
    assert len(_bridge._results) <= before


def test_the_batches_of_the_oldest_sessions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bridge, "MAX_SESSIONS", 2)
    desk = Desk()
    bridge = bridge_of(desk)
    for number in range(3):
        decide(desk, bridge, batch=1, session=f"chat-{number}")
    told = [str(bridge.ask(REPLY, CALL, Context(f"chat-{number}"), batch=1)) for number in range(3)]
    assert ["no decision" in text for text in told] == [False, True, True]


def test_of_one_session_old_batches_are_forgotten_and_the_present_one_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bridge, "MAX_RESULTS", 2)
    results = _bridge.Results()
    for batch, result in [(1, "a"), (2, "b"), (2, "c"), (2, "d")]:
        results.add(SESSION, batch, result)
    assert results.of_batch(SESSION, 1) == set()
    assert results.of_batch(SESSION, 2) == {"b", "c", "d"}


@pytest.mark.parametrize("batch", [None, 1])
async def test_a_session_whose_result_could_not_be_recorded_is_denied(
    batch: object, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk().prepared()
    bridge = bridge_of(desk)

    def full(*_: Any, **__: Any) -> None:
        raise OSError("secret: the store is gone")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(desk.gate, "record_result", full)
        decide(desk, bridge, batch)
        assert await both(bridge, REPLY, CALL, Context(), batch=2) == Stop(FAILED)
    assert await both(bridge, REPLY, CALL, Context(), batch=3) == Stop(FAILED)  # the store is back, the hole stays
    assert await both(bridge_of(desk), LOOK, {}, Context()) == Stop(FAILED)
    assert isinstance(await both(bridge, LOOK, {}, Context("chat-8")), Go)
    assert "OSError" in caplog.text
    assert "secret" not in caplog.text


# Installing


def test_what_is_no_gate_and_an_async_resolver_are_refused() -> None:
    async def session(_: Any) -> str:
        return SESSION

    with pytest.raises(ConfigurationError, match="gate: an ActionGate is needed"):
        Bridge("gate", session=None, session_of=session)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="session: a plain function"):
        bridge_of(Desk(), session=session)


def test_an_installation_with_a_gap_is_refused_and_the_gap_named() -> None:
    bridge = bridge_of(Desk())
    bridge.require([REPLY, DECIDE, CHECK, LOOK])
    bridge.require([REPLY, DECIDE], uncovered=["web_search"], accept=[CHECK, "web_search"])
    with pytest.raises(ConfigurationError, match=f"no tool here is called {CHECK}, {DECIDE}; the tools are: {REPLY}"):
        bridge.require([REPLY])
    with pytest.raises(ConfigurationError, match="the tools are: none"):
        bridge.require([])
    with pytest.raises(ConfigurationError, match="not covered by the gate, to be listed in accept=: web_search"):
        bridge.require([REPLY, DECIDE, CHECK], uncovered=["web_search"])


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="preaction")


def test_in_observe_mode_an_adapter_that_fails_stops_nothing() -> None:
    def raises(_: object) -> str:
        raise RuntimeError("secret")

    bridge: Bridge[object] = Bridge(Desk(options={"mode": "observe"}).gate, session=raises, session_of=lambda _: None)
    assert bridge.ask(REPLY, {}, None) == Go(REPLY, None, None, None)
