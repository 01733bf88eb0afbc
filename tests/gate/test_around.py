"""G37–G43a: scripts, sessions, threads and tasks, callbacks, observing, results in every shape, and what goes wrong."""

import asyncio
import contextlib
import copy
import functools
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias

import pytest
from pydantic import BaseModel, RootModel

from kit import (
    BODY,
    DECISION_TOOL,
    OUTPUT_CHECK_TOOL,
    REPLY,
    SESSION,
    TICKET,
    decided,
    gate_for,
    helpdesk,
    reply,
    reply_rule,
    run_interrupted,
    shown,
)
from preaction import ActionGate, ConfigurationError, Verdict, acheck_action, check_action
from preaction._core.facts import Describe, Verify, VerifyOutputCheck
from preaction.errors import MisuseError
from preaction.stores import Slot
from preaction.stores.memory import MemoryStore
from preaction.testing import START, FakeAuthority, FakeClock
from preaction.wire.models import Decision, JobDescription, OutputCheck, OutputCheckVerification, Verification
from preaction.wire.times import write_time

RELEASE = "2026-11-03.1"
SOON = 0.2  # seconds: the deadline of what never answers
Way: TypeAlias = Literal["check", "acheck"]
every_way = pytest.mark.parametrize("way", ["check", "acheck"])


async def ask(gate: ActionGate, way: Way = "check", **changes: Any) -> Verdict:
    args = reply(**changes)
    return gate.check(SESSION, REPLY, args) if way == "check" else await gate.acheck(SESSION, REPLY, args)


def check(gate: ActionGate, session: Any = SESSION, tool: str = REPLY, **changes: Any) -> Verdict:
    return gate.check(session, tool, reply(**changes))


# G37: without a session -----------------------------------------------------------------------------------------------


def action(authority: FakeAuthority, rule: Any = None, args: Any = None, **options: Any) -> dict[str, Any]:
    """Arguments of `check_action` that allow, save for the changes."""
    decision = authority.decide(TICKET)
    return {
        "rule": reply_rule() if rule is None else rule,
        "args": reply() if args is None else args,
        "decision": decision,
        "output_checks": [authority.check_output(decision, {"body": BODY})],
        "job": "triage-ticket",
        "verify": authority,
        "describe": authority,
        "verify_output_check": authority,
        "clock": authority.clock,
        **options,
    }


async def test_g37_an_action_is_checked_without_a_session() -> None:
    authority = FakeAuthority()
    verdict = check_action(**action(authority))
    assert (verdict.allow, verdict.code, verdict.case) == (True, "allowed", TICKET)
    assert set(authority.asked) == {Verify("exe_1"), Describe("triage-ticket", RELEASE), VerifyOutputCheck("chk_2")}
    assert (await acheck_action(**action(authority))).allow


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"args": {**reply(), "to": "a@b.example"}}, "field_not_allowed"),
        ({"args": reply(ticketId="HC-2")}, "case_not_decided"),
        ({"args": reply(body="Another text.")}, "output_check_missing"),
        ({"output_checks": []}, "output_check_missing"),
        ({"decision": None}, "case_not_decided"),
        ({"decision": {"isError": True}}, "case_not_decided"),
        ({"job": "another-job"}, "case_not_decided"),
        ({"releases": ["next"]}, "release_not_allowed"),
        ({"rule": {"fields": ["ticketId", "body"]}}, "rule_invalid"),
        ({"refuse_fields": ["body"]}, "field_refused"),
    ],
    ids=shown,
)
async def test_g37_the_same_checks_deny(changes: dict[str, Any], code: str) -> None:
    for verdict in (
        check_action(**action(FakeAuthority(), **changes)),
        await acheck_action(**action(FakeAuthority(), **changes)),
    ):
        assert (verdict.allow, verdict.code) == (False, code)


def test_g37_decisions_do_not_stay_behind_for_the_next_action() -> None:
    authority, store = FakeAuthority(), MemoryStore()
    assert check_action(**action(authority, store=store)).allow
    assert check_action(**action(authority, store=store, decision=None)).code == "case_not_decided"


@pytest.mark.parametrize("once", ["decision", "case"])
def test_g37_a_use_is_stored_in_the_store_that_is_given(once: str) -> None:
    authority, store = FakeAuthority(), MemoryStore()
    given = action(authority, reply_rule(once=once), store=store)
    assert check_action(**given).allow
    assert check_action(**given).code == "already_used"
    again = action(authority, reply_rule(once=once), store=store)
    assert check_action(**again).code == ("already_used" if once == "case" else "allowed")


def test_g37_a_rule_that_acts_once_needs_a_store_to_keep_the_use_in() -> None:
    with pytest.raises(ConfigurationError, match="store: a rule with 'once'"):
        check_action(**action(FakeAuthority(), reply_rule(once="decision")))


def test_a_decision_in_the_place_of_the_entity_raises() -> None:
    gate, authority = helpdesk()
    with pytest.raises(MisuseError, match="result="):
        gate.decisions.record("s", authority.decide("HC-1201"))  # type: ignore[arg-type]


def test_g37_what_can_not_be_right_raises_here_too() -> None:
    with pytest.raises(ConfigurationError, match=r"tools\.action\.writs: unknown key"):
        check_action(**action(FakeAuthority(), {"writs": "x", "fields": []}))
    with pytest.raises(ConfigurationError, match="deadline"):
        check_action(**action(FakeAuthority(), deadline=1))


# G38: sessions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("session", [None, "", 0, 7, b"chat-7", ["chat-7"], {}, object(), True])
@every_way
async def test_g38_a_call_without_a_session_id_is_denied(session: Any, way: Way) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    verdict = check(gate, session) if way == "check" else await gate.acheck(session, REPLY, reply())
    assert (verdict.allow, verdict.code, verdict.failed) == (False, "no_session", "case")
    assert authority.asked == []


@pytest.mark.parametrize("session", [None, "", 0, b"chat-7"])
def test_g38_nothing_is_recorded_without_a_session_id(session: Any) -> None:
    gate, authority = helpdesk()
    decision = authority.decide(TICKET)
    with pytest.raises(MisuseError):
        gate.decisions.record(session, result=decision)
    with pytest.raises(MisuseError):
        gate.output_checks.record(session, authority.check_output(decision, {"body": BODY}))
    with pytest.raises(MisuseError):
        gate.record_result(session, DECISION_TOOL, {}, decision)
    gate.record_result(session, "some_other_tool", {}, decision)


@pytest.mark.parametrize("other", ["chat-8", "Chat-7", "chat-7 ", " ", "chat-7/", "chat-7\x00", "чат-7"])
def test_g38_sessions_know_nothing_of_each_other(other: str) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    assert check(gate, other).code == "case_not_decided"
    decided(gate, authority, session=other, outcome=None)
    assert check(gate).allow
    assert check(gate, other).code == "undecided"


def test_g38_two_gates_share_sessions_through_one_store_and_only_then() -> None:
    authority, store = FakeAuthority(), MemoryStore()
    first, _ = helpdesk(authority=authority, store=store)
    second, _ = helpdesk(authority=authority, store=store)
    apart, _ = helpdesk(authority=authority)
    decided(first, authority)
    assert check(second).allow
    assert check(apart).code == "case_not_decided"


def test_g38_decisions_of_another_job_in_the_same_session_do_not_count() -> None:
    authority, store = FakeAuthority(), MemoryStore()
    gate, _ = helpdesk(authority=authority, store=store)
    other = gate_for(authority, {REPLY: reply_rule()}, job="close-ticket", store=store)
    decided(gate, authority)
    assert check(other).code == "case_not_decided"


def test_g38_a_session_at_its_bound_takes_no_more_and_denies_everything() -> None:
    gate, authority = helpdesk(store=MemoryStore(max_per_kind=3))
    for case in (TICKET, "HC-2", "HC-3"):
        decided(gate, authority, case)
    assert check(gate).allow
    gate.decisions.record(SESSION, result=authority.decide("HC-2", outcome=None))  # an old case takes no room
    assert check(gate).allow
    gate.decisions.record(SESSION, result=authority.decide("HC-4"))
    authority.asked.clear()
    for case in (TICKET, "HC-2", "HC-4"):
        assert check(gate, ticketId=case).code == "session_full"
    assert authority.asked == []
    gate.decisions.record(SESSION, result=authority.decide(TICKET))
    assert check(gate).code == "session_full"
    decided(gate, authority, session="another")
    assert check(gate, "another").allow


def test_g38_output_checks_have_a_bound_of_their_own() -> None:
    gate, authority = helpdesk(store=MemoryStore(max_per_kind=2))
    decision = decided(gate, authority)
    gate.output_checks.record(SESSION, authority.check_output(decision, {"body": "2"}))
    assert check(gate).allow
    gate.output_checks.record(SESSION, authority.check_output(decision, {"body": "3"}))
    assert check(gate).code == "session_full"


@pytest.mark.parametrize("kind", ["decision", "output_check"])
def test_g38_by_default_a_session_holds_20_000_of_each(kind: str) -> None:
    store = MemoryStore()
    assert store.put(SESSION, [Slot("group", str(number), "", kind=kind) for number in range(20_000)])
    assert not store.is_full(SESSION)
    assert not store.put(SESSION, [Slot("group", "one more", "", kind=kind)])
    assert store.is_full(SESSION)


def test_g38_a_session_ages_out_as_a_whole() -> None:
    now = [0.0]
    gate, authority = helpdesk(store=MemoryStore(max_sessions=1, clock=lambda: now[0]))
    decided(gate, authority)
    now[0] += 1
    decided(gate, authority, session="another")
    assert check(gate).code == "case_not_decided"
    assert check(gate, "another").allow


# G39: threads and tasks -----------------------------------------------------------------------------------------------


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """`work(number)` in so many threads that start at the same moment."""
    barrier = threading.Barrier(count, timeout=60)

    def start(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


@pytest.mark.parametrize("callables", [False, True])
def test_g39_one_gate_serves_many_sessions_in_many_threads(callables: bool) -> None:
    authority = FakeAuthority()
    gate, _ = helpdesk(authority=authority, **(functions(authority) if callables else {}), deadline_s=60)

    def work(number: int) -> list[str]:
        session, case = f"chat-{number}", f"HC-{number}"
        outcome = "billing-question" if number % 2 else None
        decided(gate, authority, case, session=session, outcome=outcome)
        mine = check(gate, session, ticketId=case)
        others = check(gate, session, ticketId=f"HC-{number + 1}")
        assert mine.case == (case if mine.allow else mine.case)
        return [mine.code, others.code]

    assert in_threads(50, work) == [
        ["allowed" if number % 2 else "undecided", "case_not_decided"] for number in range(50)
    ]


@pytest.mark.parametrize("once", ["decision", "case"])
@pytest.mark.parametrize("callables", [False, True])
def test_g39_of_fifty_threads_that_race_for_one_use_exactly_one_is_allowed(once: str, callables: bool) -> None:
    authority = FakeAuthority()
    options = functions(authority) if callables else {}
    gate, _ = helpdesk(authority=authority, rule={"once": once}, deadline_s=60, **options)
    decided(gate, authority)
    codes = [verdict.code for verdict in in_threads(50, lambda _: check(gate))]
    assert sorted(codes) == ["allowed"] + ["already_used"] * 49


async def test_g39_of_fifty_tasks_that_race_for_one_use_exactly_one_is_allowed() -> None:
    gate, authority = helpdesk(rule={"once": "decision"})
    decided(gate, authority)
    verdicts = await asyncio.gather(*[gate.acheck(SESSION, REPLY, reply()) for _ in range(50)])
    assert sorted(verdict.code for verdict in verdicts) == ["allowed"] + ["already_used"] * 49


async def test_g39_one_gate_serves_many_sessions_in_many_tasks() -> None:
    authority = FakeAuthority()
    gate, _ = helpdesk(authority=authority, **coroutine_functions(authority))

    async def work(number: int) -> str:
        with gate.session(f"chat-{number}") as session:
            decided(
                gate, authority, f"HC-{number}", session=session, outcome="billing-question" if number % 2 else None
            )
            await asyncio.sleep(0)
            assert gate.current_session == session
            return (await gate.acheck(gate.current_session, REPLY, reply(ticketId=f"HC-{number}"))).code

    codes = await asyncio.gather(*[work(number) for number in range(50)])
    assert codes == ["allowed" if number % 2 else "undecided" for number in range(50)]


def test_g39_decisions_recorded_in_many_threads_are_all_there() -> None:
    gate, authority = helpdesk()
    in_threads(50, lambda number: decided(gate, authority, f"HC-{number}"))
    assert all(check(gate, ticketId=f"HC-{number}").allow for number in range(50))


# G40: on_verdict ------------------------------------------------------------------------------------------------------


@every_way
async def test_g40_the_callback_sees_every_verdict_on_a_gated_tool(way: Way) -> None:
    seen: list[tuple[str, Verdict]] = []
    gate, authority = helpdesk(on_verdict=lambda tool, verdict: seen.append((tool, verdict)))
    decided(gate, authority)
    verdicts = [await ask(gate, way), await ask(gate, way, ticketId="HC-2"), await ask(gate, way, body=1)]
    verdicts.append(check(gate, tool="HELPDESK reply"))
    assert [verdict.code for verdict in verdicts] == [
        *("allowed", "case_not_decided", "output_check_missing", "tool_name_suspect"),
    ]
    assert seen == [(verdict.tool, verdict) for verdict in verdicts]


async def test_g40_the_callback_sees_neither_previews_nor_tools_without_a_rule() -> None:
    seen: list[Verdict] = []
    gate, authority = helpdesk(on_verdict=lambda tool, verdict: seen.append(verdict))
    decided(gate, authority)
    assert gate.preview(SESSION, REPLY, reply()).allow
    assert (await gate.apreview(SESSION, REPLY, reply())).allow
    assert gate.check(SESSION, "search", {}).code == "not_gated"
    assert seen == []


ERRORS = [ValueError("secret"), KeyError("secret"), StopIteration("secret"), TypeError(), RecursionError(), OSError()]
INTERRUPTS = [KeyboardInterrupt, SystemExit, GeneratorExit]


def raising(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("error", ERRORS, ids=shown)
@every_way
async def test_g40_a_callback_that_raises_on_an_allow_denies_the_call_and_the_use_stays(
    error: Exception, way: Way
) -> None:
    failing = [True]
    seen: list[str] = []

    def on_verdict(tool: str, verdict: Verdict) -> None:
        seen.append(verdict.code)
        if failing.pop():
            raise error

    gate, authority = helpdesk(rule={"once": "decision"}, on_verdict=on_verdict)
    decided(gate, authority)
    verdict = await ask(gate, way)
    assert (verdict.allow, verdict.blocks, verdict.code) == (False, True, "gate_error")
    assert "secret" not in repr(verdict)
    assert seen == ["allowed"]
    failing.append(False)
    assert (await ask(gate, way)).code == "already_used"


@pytest.mark.parametrize("error", ERRORS, ids=shown)
@every_way
async def test_g40_a_callback_that_raises_on_a_denial_leaves_the_denial_as_it_is(error: Exception, way: Way) -> None:
    quiet, authority = helpdesk()
    gate, _ = helpdesk(authority=authority, on_verdict=raising(error))
    for one in (quiet, gate):
        decided(one, authority, outcome="refund-review", executionId="exe_1")
    verdict = await ask(gate, way)
    assert verdict == await ask(quiet, way)
    assert (verdict.code, verdict.escalate) == (
        "outcome_not_allowed",
        "Hand the ticket to the refunds lead. Don't reply.",
    )


@pytest.mark.parametrize("error", INTERRUPTS)
def test_g40_an_interrupt_in_the_callback_leaves_as_it_came_and_the_use_stays(error: type[BaseException]) -> None:
    gate, authority = helpdesk(rule={"once": "decision"}, on_verdict=raising(error))
    decided(gate, authority)
    with pytest.raises(error):
        check(gate)
    assert gate.preview(SESSION, REPLY, reply()).code == "already_used"


def test_g40_the_callback_runs_after_a_use_is_stored() -> None:
    codes: list[str] = []
    gate: ActionGate

    def on_verdict(tool: str, verdict: Verdict) -> None:
        codes.append(gate.preview(SESSION, REPLY, reply()).code)

    gate, authority = helpdesk(rule={"once": "decision"}, on_verdict=on_verdict)
    decided(gate, authority)
    assert check(gate).allow
    assert codes == ["already_used"]


async def audit(tool: str, verdict: Verdict) -> None:
    """A coroutine function, which a gate can't await."""


class Audit:
    async def __call__(self, tool: str, verdict: Verdict) -> None:
        """An object with an async call."""


@pytest.mark.parametrize("callback", [audit, Audit(), functools.partial(audit), functools.partial(Audit()), "log", 7])
def test_g40_a_callback_that_must_be_awaited_or_called_in_vain_is_refused_at_creation(callback: Any) -> None:
    with pytest.raises(ConfigurationError, match="on_verdict"):
        helpdesk(on_verdict=callback)


def test_g40_a_callback_that_turns_out_to_give_a_coroutine_recorded_nothing_so_the_call_is_denied() -> None:
    gate, authority = helpdesk(on_verdict=lambda tool, verdict: audit(tool, verdict))
    decided(gate, authority)
    assert check(gate).code == "gate_error"
    assert check(gate, ticketId="HC-2").code == "case_not_decided"


# G41: answers ---------------------------------------------------------------------------------------------------------

MORE = {"somethingNew": [1, {"x": None}], "allow": True, "": 0}


def answers(authority: FakeAuthority) -> dict[Any, dict[str, Any]]:
    """The three answers that a reply needs, once `decided`."""
    questions = (Verify("exe_1"), Describe("triage-ticket", RELEASE), VerifyOutputCheck("chk_2"))
    return {question: authority.good_answer(question) for question in questions}


def test_g41_fields_that_nobody_knows_are_ignored() -> None:
    gate, authority = helpdesk()
    decision = authority.decide(TICKET)
    gate.decisions.record(SESSION, result=decision | MORE | {"case": decision["case"] | MORE})
    gate.output_checks.record(SESSION, authority.check_output(decision, {"body": BODY}) | MORE)
    for question, answer in answers(authority).items():
        authority.answers[question] = answer | MORE
    replay = authority.answers[Verify("exe_1")]
    assert isinstance(replay, dict)
    replay["replay"] |= MORE
    assert check(gate).allow


def snake(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            "".join(f"_{c.lower()}" if c.isupper() else c for c in name): snake(item) for name, item in value.items()
        }
    return [snake(item) for item in value] if isinstance(value, list) else value


def test_g41_names_in_snake_case_are_read_too() -> None:
    gate, authority = helpdesk()
    decision = authority.decide(TICKET)
    gate.decisions.record(SESSION, result=snake(decision))
    gate.output_checks.record(SESSION, snake(authority.check_output(decision, {"body": BODY})))
    for question, answer in answers(authority).items():
        authority.answers[question] = snake(answer)
    assert check(gate).allow


def test_g41_our_models_are_read_as_well_as_mappings() -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    models: list[type[BaseModel]] = [Verification, JobDescription, OutputCheckVerification]
    for question, model in zip(answers(authority), models, strict=True):
        authority.answers[question] = model.model_validate(authority.good_answer(question))
    assert check(gate).allow


NEEDED = {
    "verify": ["valid", "problems", "executionId", "verifiedAt", "replay"],
    "replay": ["job", "release", "case", "case.id", "case.identity", "status", "outcome"],
    "describe": ["job", "release", "outcomes", "outcomes.0.id", "outcomes.0.outputs"],
    "confirm": ["valid", "passed", "checkId", "executionId", "output", "release", "contentDigest", "verifiedAt"],
}


@pytest.mark.parametrize(("which", "place"), [(which, place) for which, places in NEEDED.items() for place in places])
@pytest.mark.parametrize("value", ["absent", None, 7, [], {}], ids=shown)
def test_g41_a_needed_field_that_is_missing_or_of_a_wrong_type_denies(which: str, place: str, value: object) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    questions = list(answers(authority))
    question = questions[{"verify": 0, "replay": 0, "describe": 1, "confirm": 2}[which]]
    authority.answers[question] = answer = authority.good_answer(question)
    *way, last = place.split(".")
    at: Any = answer["replay"] if which == "replay" else answer
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    at.pop(last)
    if value != "absent":
        at[last] = value
    harmless = (place, value) == ("problems", [])  # what it always is
    assert check(gate).allow == harmless


@pytest.mark.parametrize("name", ["executionId", "release", "case", "status", "outcome", "decidedAt", "job"])
@pytest.mark.parametrize("value", ["absent", None, 7, [], {}], ids=shown)
def test_g41_a_decision_that_lacks_or_mistypes_something_allows_nothing(name: str, value: object) -> None:
    gate, authority = helpdesk()
    decision = decided(gate, authority) | {name: value}
    if value == "absent":
        del decision[name]
    assert check(gate).allow
    gate.decisions.record(SESSION, result=decision)
    assert check(gate).code in ("undecided", "case_unclear", "receipt_invalid", "replay_mismatch")


# G42: observing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["billing-question", "refund-review", None])
@every_way
async def test_g42_observing_gives_the_verdict_that_it_would_enforce(outcome: str | None, way: Way) -> None:
    seen: list[Verdict] = []
    observing, authority = helpdesk(mode="observe", on_verdict=lambda tool, verdict: seen.append(verdict))
    decision = decided(observing, authority, outcome=outcome)
    enforcing, _ = helpdesk(authority=authority)
    enforcing.decisions.record(SESSION, result=decision)
    enforcing.output_checks.record(SESSION, authority.check_output(decision, {"body": BODY}))
    observed, enforced = await ask(observing, way), await ask(enforcing, way)
    assert (observed.allow, observed.code, observed.reason) == (enforced.allow, enforced.code, enforced.reason)
    assert (observed.escalate, observed.escalation) == (enforced.escalate, enforced.escalation)
    assert (observed.enforced, observed.blocks) == (False, False)
    assert (enforced.enforced, enforced.blocks) == (True, not enforced.allow)
    assert seen == [observed]


@pytest.mark.parametrize("once", ["decision", "case"])
@every_way
async def test_g42_observing_stores_no_use(once: str, way: Way) -> None:
    store = MemoryStore()
    observing, authority = helpdesk(mode="observe", rule={"once": once}, store=store)
    enforcing, _ = helpdesk(authority=authority, rule={"once": once}, store=store)
    decided(observing, authority)
    assert (await ask(observing, way)).allow
    assert (await ask(observing, way)).allow
    assert (await ask(enforcing, way)).allow
    assert (await ask(observing, way)).code == "already_used"


@pytest.mark.parametrize("mode", ["Observe", "observing", "off", "", None, False, True, 0, [], ["observe"], "enforce "])
def test_g42_nothing_but_the_word_turns_enforcement_off(mode: Any) -> None:
    with pytest.raises(ConfigurationError, match="mode"):
        helpdesk(mode=mode)


def test_g42_by_default_a_gate_enforces() -> None:
    assert check(helpdesk()[0]).blocks


# G43: results in every shape ------------------------------------------------------------------------------------------


class Result(BaseModel):
    """As an MCP client library has it."""

    content: list[Any] = []
    structuredContent: dict[str, Any] | None = None  # noqa: N815
    isError: bool = False  # noqa: N815


class Anything(RootModel[Any]):
    """A model whose content is any JSON."""


def text(value: Any) -> dict[str, Any]:
    return {"type": "text", "text": json.dumps(value)}


IMAGE = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}

SHAPES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a mapping": lambda value: value,
    "a JSON string": json.dumps,
    "JSON bytes": lambda value: json.dumps(value).encode(),
    "a model of any JSON": Anything,
    "a model of a JSON string": lambda value: Anything(json.dumps(value)),
    "a model of blocks": lambda value: Anything([text(value)]),
    "an MCP mapping": lambda value: {"content": [text(value)], "structuredContent": value, "isError": False},
    "an MCP mapping in snake_case": lambda value: {"content": [], "structured_content": value, "is_error": False},
    "an MCP mapping with text alone": lambda value: {"content": [text(value)]},
    "an MCP mapping with null": lambda value: {"content": [text(value)], "structuredContent": None, "isError": None},
    "an MCP object": lambda value: SimpleNamespace(content=[], structuredContent=value, isError=False),
    "an MCP object in snake_case": lambda value: SimpleNamespace(content=[], structured_content=value, is_error=False),
    "an MCP object with blocks": lambda value: SimpleNamespace(content=[SimpleNamespace(**text(value))], isError=False),
    "an MCP model": lambda value: Result(structuredContent=value),
    "an MCP model with text alone": lambda value: Result(content=[text(value)]),
    "structured content first": lambda value: {"content": [text({"another": 1}), IMAGE], "structuredContent": value},
    "structured content under result": lambda value: {"structuredContent": {"result": value}, "content": []},
    "structured JSON under result": lambda value: {"structuredContent": {"result": json.dumps(value)}, "content": []},
    "a list of one block": lambda value: [text(value)],
    "a tuple of one block": lambda value: (text(value),),
    "a list of one block object": lambda value: [SimpleNamespace(**text(value))],
    "one text block among others": lambda value: [IMAGE, text(value), IMAGE],
}


def under_result(shape: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda value: {"result": shape(value)}


UNDER_RESULT = {f"{name} under result": under_result(shape) for name, shape in SHAPES.items()}
every_shape = pytest.mark.parametrize("shape", (SHAPES | UNDER_RESULT).values(), ids=SHAPES | UNDER_RESULT)


@every_shape
def test_g43_results_are_read_from_every_shape_that_runtimes_hand_over(shape: Callable[[Any], Any]) -> None:
    gate, authority = helpdesk()
    decision = authority.decide(TICKET)
    gate.record_result(SESSION, DECISION_TOOL, {}, shape(decision))
    gate.record_result(SESSION, OUTPUT_CHECK_TOOL, {}, shape(authority.check_output(decision, {"body": BODY})))
    assert check(gate).allow


def test_g43_our_own_models_are_read() -> None:
    gate, authority = helpdesk()
    decision = authority.decide(TICKET)
    gate.decisions.record(SESSION, result=Decision.model_validate(decision))
    checked = OutputCheck.model_validate(authority.check_output(decision, {"body": BODY}))
    gate.output_checks.record(SESSION, {"result": checked})
    assert check(gate).allow


class Opaque:
    """Nothing that a runtime would hand over."""


class Unwritable(BaseModel):
    """A model that holds what JSON can't."""

    model_config = {"arbitrary_types_allowed": True}
    what: Opaque


UNREADABLE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "nothing": lambda value: None,
    "a number": lambda value: 7,
    "an object": lambda value: Opaque(),
    "a model that is no JSON": lambda value: Unwritable(what=Opaque()),
    "a model of a list": lambda value: Anything([1, 2]),
    "an empty string": lambda value: "",
    "prose": lambda value: "The decision is billing-question.",
    "JSON with prose around it": lambda value: f"Here it is: {json.dumps(value)}",
    "JSON in a code fence": lambda value: f"```json\n{json.dumps(value)}\n```",
    "repeated keys": lambda value: json.dumps(value).replace("{", '{"release": "next", ', 1),
    "two JSON values": lambda value: json.dumps(value) * 2,
    "not a number": lambda value: json.dumps(value | {"extra": float("nan")}),
    "a byte order mark": lambda value: b"\xef\xbb\xbf" + json.dumps(value).encode(),
    "no UTF-8": lambda value: json.dumps(value).encode("utf-16"),
    "two text blocks": lambda value: [text(value), text(value)],
    "two text blocks of one MCP result": lambda value: {"content": [text(value), text({"note": 1})]},
    "no text block": lambda value: [IMAGE],
    "no block": lambda value: [],
    "an empty MCP result": lambda value: {"content": []},
    "empty structured content first": lambda value: {"content": [text(value)], "structuredContent": {}},
    "two keys beside result": lambda value: {"result": value, "note": 1},
    "too many wrappings": lambda value: functools.reduce(lambda inner, _: {"result": inner}, range(10), value),
    "a set": lambda value: {1, 2},
    "keys that are no strings": lambda value: {**value, 1: 2},
    "a value that is no JSON": lambda value: {**value, "extra": {1}},
}


@pytest.mark.parametrize("shape", UNREADABLE.values(), ids=UNREADABLE)
def test_g43_anything_else_is_not_recorded_and_raises_nothing(shape: Callable[[Any], Any]) -> None:
    gate, authority = helpdesk()
    decision = authority.decide(TICKET)
    gate.record_result(SESSION, DECISION_TOOL, {}, shape(decision))
    assert not check(gate).allow
    gate.decisions.record(SESSION, result=decision)
    gate.record_result(SESSION, OUTPUT_CHECK_TOOL, {}, shape(authority.check_output(decision, {"body": BODY})))
    assert check(gate).code == "output_check_missing"


ERROR_MARKS: dict[str, Callable[[Any], Any]] = {
    "a mapping": lambda value: value | {"isError": True},
    "in snake_case": lambda value: value | {"is_error": True},
    "an MCP mapping": lambda value: {"content": [text(value)], "structuredContent": value, "isError": True},
    "an MCP object": lambda value: SimpleNamespace(content=[], structuredContent=value, isError=True),
    "an MCP object in snake_case": lambda value: SimpleNamespace(content=[], structured_content=value, is_error=True),
    "an MCP model": lambda value: Result(structuredContent=value, isError=True),
    "under result": lambda value: {"result": {"structuredContent": value, "isError": True}},
    "inside structured content": lambda value: {"structuredContent": value | {"isError": True}, "content": []},
    "inside a JSON string": lambda value: json.dumps(value | {"isError": True}),
    "by a word": lambda value: value | {"isError": "false"},
}


@pytest.mark.parametrize("shape", ERROR_MARKS.values(), ids=ERROR_MARKS)
def test_g43_a_result_marked_as_an_error_records_nothing(shape: Callable[[Any], Any]) -> None:
    gate, authority = helpdesk()
    gate.record_result(SESSION, DECISION_TOOL, {}, shape(authority.decide(TICKET)))
    assert check(gate).code == "case_not_decided"
    decision = decided(gate, authority)
    gate.record_result(SESSION, DECISION_TOOL, {}, shape(authority.decide(TICKET, outcome=None)))
    gate.record_result(
        SESSION, OUTPUT_CHECK_TOOL, {}, shape(authority.check_output(decision, {"body": BODY}, passed=False))
    )
    assert check(gate).allow


@every_shape
def test_g43_an_unreadable_decision_that_names_its_case_undoes_an_older_one_in_every_shape(
    shape: Callable[[Any], Any],
) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    assert check(gate).allow
    authority.asked.clear()
    gate.record_result(SESSION, DECISION_TOOL, {}, shape(authority.decide(TICKET) | {"outcome": 7}))
    assert check(gate).code == "undecided"
    assert authority.asked == []


@pytest.mark.parametrize(
    "more",
    [{"content": []}, {"content": [text({})]}, {"structuredContent": {}}, {"structured_content": "x"}],
    ids=shown,
)
def test_g43_a_decision_that_has_a_field_of_such_a_name_is_still_the_decision(more: dict[str, Any]) -> None:
    gate, authority = helpdesk()
    decision = authority.decide(TICKET)
    gate.decisions.record(SESSION, result=decision | more)
    gate.output_checks.record(SESSION, authority.check_output(decision, {"body": BODY}) | more)
    assert check(gate).allow
    gate.decisions.record(SESSION, result=authority.decide(TICKET, outcome=None) | more)
    assert check(gate).code == "undecided"


@pytest.mark.parametrize("tool", ["search", DECISION_TOOL.upper(), f" {DECISION_TOOL}", OUTPUT_CHECK_TOOL, "", None])
def test_g43_only_the_decision_tools_own_results_are_recorded_as_decisions(tool: Any) -> None:
    gate, authority = helpdesk()
    gate.record_result(SESSION, tool, {}, authority.decide(TICKET))
    assert check(gate).code == "case_not_decided"


def test_g43_what_a_model_passed_to_the_decision_tool_is_never_read() -> None:
    gate, authority = helpdesk()
    decision = authority.decide("HC-2")
    gate.record_result(SESSION, DECISION_TOOL, {"entity_id": TICKET, "result": authority.decide(TICKET)}, decision)
    assert check(gate).code == "case_not_decided"
    assert gate.preview(SESSION, REPLY, reply(ticketId="HC-2")).case == "HC-2"


def test_g43_a_recorded_result_that_changes_afterwards_changes_nothing() -> None:
    gate, authority = helpdesk()
    decision = authority.decide(TICKET, outcome="refund-review")
    gate.decisions.record(SESSION, result=decision)
    decision |= {"outcome": {"id": "billing-question"}, "executionId": "exe_9"}
    assert check(gate).code == "outcome_not_allowed"


# G43a: once -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("once", ["decision", "case"])
@every_way
async def test_g43a_a_tool_acts_once(once: str, way: Way) -> None:
    gate, authority = helpdesk(rule={"once": once})
    decided(gate, authority)
    assert gate.preview(SESSION, REPLY, reply()).allow
    assert (await ask(gate, way, body="Another text.")).code == "output_check_missing"  # uses nothing up
    assert (await ask(gate, way)).allow
    verdict = await ask(gate, way)
    assert (verdict.allow, verdict.code, verdict.failed) == (False, "already_used", "fresh")
    assert "look at what it did" in verdict.reason
    assert gate.preview(SESSION, REPLY, reply()).code == "already_used"


def test_g43a_without_once_a_tool_acts_as_often_as_it_is_called() -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    assert all(check(gate).allow for _ in range(3))


@pytest.mark.parametrize(("once", "code"), [("decision", "allowed"), ("case", "already_used")])
def test_g43a_a_new_decision_lets_it_act_again_only_once_per_decision(once: str, code: str) -> None:
    gate, authority = helpdesk(rule={"once": once})
    decided(gate, authority)
    assert check(gate).allow
    decided(gate, authority)
    assert check(gate).code == code


@pytest.mark.parametrize(("once", "code"), [("decision", "already_used"), ("case", "allowed")])
def test_g43a_a_decision_is_used_up_in_every_session_and_a_case_in_its_own(once: str, code: str) -> None:
    gate, authority = helpdesk(rule={"once": once})
    decision = decided(gate, authority)
    gate.decisions.record("another", result=decision)
    gate.output_checks.record("another", authority.check_output(decision, {"body": BODY}))
    assert check(gate).allow
    assert check(gate, "another").code == code


@pytest.mark.parametrize("once", ["decision", "case"])
def test_g43a_another_case_and_another_tool_have_uses_of_their_own(once: str) -> None:
    authority = FakeAuthority()
    gate = gate_for(authority, {REPLY: reply_rule(once=once), "note": reply_rule(once=once)})
    decided(gate, authority)
    decided(gate, authority, "HC-2")
    assert check(gate).allow
    assert check(gate, ticketId="HC-2").allow
    assert check(gate, tool="note").allow
    assert check(gate, tool="note").code == "already_used"


@pytest.mark.parametrize("once", ["decision", "case"])
def test_g43a_gates_that_share_a_store_share_its_uses(once: str) -> None:
    authority, store = FakeAuthority(), MemoryStore()
    first, _ = helpdesk(authority=authority, rule={"once": once}, store=store)
    second, _ = helpdesk(authority=authority, rule={"once": once}, store=store)
    decided(first, authority)
    assert check(first).allow
    assert check(second).code == "already_used"


@pytest.mark.parametrize("spelling", [TICKET, f" {TICKET} ", f"{TICKET}\n"])
def test_g43a_a_case_is_used_up_however_its_id_is_spelt(spelling: str) -> None:
    gate, authority = helpdesk(rule={"once": "case"})
    decided(gate, authority)
    assert check(gate).allow
    assert check(gate, ticketId=spelling).code == "already_used"


@pytest.mark.parametrize("dated_ahead_s", [0, 300])
def test_g43a_a_use_outlives_the_decision(dated_ahead_s: int) -> None:
    clock = FakeClock()
    authority = FakeAuthority(clock, fresh_for=None)
    store = MemoryStore(clock=lambda: clock.now.timestamp())
    gate, _ = helpdesk(authority=authority, rule={"once": "decision"}, store=store)
    decided(gate, authority, decidedAt=write_time(START + timedelta(seconds=dated_ahead_s)))
    assert check(gate).allow
    clock.advance(hours=24)
    clock.advance(seconds=-1)
    codes = []
    for _ in range(400):  # second by second over the moment when the decision gets too old
        codes.append(check(gate).code)
        clock.advance(seconds=1)
    assert set(codes) == {"already_used", "stale"}


def test_g43a_a_full_store_of_uses_denies() -> None:
    gate, authority = helpdesk(rule={"once": "decision"}, store=MemoryStore(max_claims=1))
    decided(gate, authority)
    decided(gate, authority, "HC-2")
    assert check(gate).allow
    verdict = check(gate, ticketId="HC-2")
    assert (verdict.allow, verdict.code) == (False, "session_full")


def test_g43a_a_use_that_can_not_be_stored_denies() -> None:
    class Broken(MemoryStore):
        claim = staticmethod(raising(ConnectionError("redis is gone")))

    gate, authority = helpdesk(rule={"once": "decision"}, store=Broken())
    decided(gate, authority)
    assert check(gate).code == "gate_error"


# What goes wrong ------------------------------------------------------------------------------------------------------

CALLABLES = ["verify", "describe", "verify_output_check"]
ASKS: dict[str, Callable[..., Any]] = {"verify": Verify, "describe": Describe, "verify_output_check": VerifyOutputCheck}


class Both:
    """An object that can be called and awaited."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.called: list[str] = []

    def __call__(self, *args: str) -> Any:
        self.called.append("check")
        return self.function(*args)

    async def acall(self, *args: str) -> Any:
        self.called.append("acheck")
        return self.function(*args)


class AsyncOnly:
    """An object whose call must be awaited."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    async def __call__(self, *args: str) -> Any:
        return self.function(*args)


def as_coroutine(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def call(*args: str) -> Any:
        await asyncio.sleep(0)
        return function(*args)

    return call


FORMS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "a plain function": lambda function: lambda *args: function(*args),
    "a coroutine function": as_coroutine,
    "an object with both": Both,
    "an object with an async call": AsyncOnly,
    "a partial": functools.partial,
    "a partial of a coroutine function": lambda function: functools.partial(as_coroutine(function)),
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
Form: TypeAlias = Callable[[Callable[..., Any]], Any]


def functions(authority: FakeAuthority, form: Form = FORMS["a plain function"], **own: Any) -> Any:
    """The three callables in one form, answering as `authority`, save for those of one's `own`."""

    def answer(which: str) -> Callable[..., Any]:
        return lambda *args: authority.answers.get(ASKS[which](*args), authority.good_answer(ASKS[which](*args)))

    return {which: form(own.get(which, answer(which))) for which in CALLABLES}


def coroutine_functions(authority: FakeAuthority) -> Any:
    return functions(authority, as_coroutine)


@every_form
@every_way
async def test_the_three_callables_come_in_every_form(form: Form, way: Way) -> None:
    authority = FakeAuthority()
    callables = functions(authority, form)
    gate, _ = helpdesk(authority=authority, **callables)
    decided(gate, authority)
    assert (await ask(gate, way)).allow
    if form is Both:
        assert [callables[which].called for which in CALLABLES] == [[way]] * 3


@pytest.mark.parametrize("which", CALLABLES)
@pytest.mark.parametrize("error", [*ERRORS, StopAsyncIteration(), asyncio.CancelledError()], ids=shown)
@every_form
@every_way
async def test_a_callable_that_raises_denies(which: str, error: BaseException, form: Form, way: Way) -> None:
    authority = FakeAuthority()
    gate, _ = helpdesk(authority=authority, **functions(authority, form, **{which: raising(copy.copy(error))}))
    decided(gate, authority)
    verdict = await ask(gate, way)
    assert (verdict.allow, verdict.code) == (False, "verify_failed")
    assert "secret" not in repr(verdict)


@pytest.mark.parametrize("which", CALLABLES)
@pytest.mark.parametrize("error", INTERRUPTS)
@pytest.mark.parametrize("form", list(FORMS.values())[:3], ids=list(FORMS)[:3])
@every_way
def test_an_interrupt_in_a_callable_decides_nothing(which: str, error: Any, form: Form, way: Way) -> None:
    authority = FakeAuthority()
    store, callables = MemoryStore(), functions(authority, form, **{which: raising(error)})
    gate, _ = helpdesk(authority=authority, rule={"once": "decision"}, store=store, **callables)
    decided(gate, authority)
    with pytest.raises(error):
        check(gate) if way == "check" else run_interrupted(gate.acheck(SESSION, REPLY, reply()))
    sound, _ = helpdesk(authority=authority, rule={"once": "decision"}, store=store)
    assert check(sound).allow  # nothing was used up


@pytest.mark.parametrize("which", CALLABLES)
@pytest.mark.parametrize("answer", [None, True, "allow", [], {}, 7, object()], ids=shown)
@every_way
async def test_an_odd_answer_of_a_callable_denies(which: str, answer: object, way: Way) -> None:
    authority = FakeAuthority()
    gate, _ = helpdesk(authority=authority, **functions(authority, **{which: lambda *args: answer}))
    decided(gate, authority)
    assert (await ask(gate, way)).code == "verify_failed"


@pytest.mark.parametrize("which", CALLABLES)
@every_way
async def test_a_callable_with_another_signature_denies(which: str, way: Way) -> None:
    authority = FakeAuthority()
    gate, _ = helpdesk(authority=authority, **{**functions(authority), which: lambda: None})
    decided(gate, authority)
    assert (await ask(gate, way)).code == "verify_failed"


@pytest.mark.parametrize("which", CALLABLES)
@every_way
async def test_a_plain_function_that_hangs_denies_at_the_deadline(which: str, way: Way) -> None:
    authority, released, left = FakeAuthority(), threading.Event(), threading.Event()

    def hang(*args: str) -> Mapping[str, Any]:
        released.wait(10)
        left.set()
        return authority.good_answer(ASKS[which](*args))

    store, callables = MemoryStore(), {**functions(authority), which: hang}
    gate, _ = helpdesk(authority=authority, store=store, deadline_s=SOON, **callables)
    decided(gate, authority)
    try:
        verdict = await ask(gate, way)
        assert not left.is_set()
    finally:
        released.set()
        assert left.wait(10)
    assert (verdict.allow, verdict.code) == (False, "verify_failed")
    assert "in time" in verdict.reason
    patient, _ = helpdesk(authority=authority, store=store, deadline_s=30, **callables)
    assert (await ask(patient, way)).allow  # it answers now


@pytest.mark.parametrize("which", CALLABLES)
@every_way
async def test_a_coroutine_function_that_hangs_denies_at_the_deadline(which: str, way: Way) -> None:
    authority, cancelled = FakeAuthority(), threading.Event()

    async def hang(*args: str) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()

    callables = {**functions(authority), which: hang}
    gate, _ = helpdesk(authority=authority, deadline_s=SOON, **callables)
    decided(gate, authority)
    verdict = await ask(gate, way)
    assert (verdict.allow, verdict.code) == (False, "verify_failed")
    await asyncio.sleep(0)
    assert cancelled.wait(10)


@every_way
async def test_one_deadline_holds_for_the_quoted_description_too(way: Way) -> None:
    released = threading.Event()

    def hang(*args: str) -> None:
        released.wait(10)

    authority = FakeAuthority()
    gate, _ = helpdesk(authority=authority, deadline_s=SOON, releases=[RELEASE], **functions(authority, describe=hang))
    try:
        verdict = await ask(gate, way)
    finally:
        released.set()
    assert (verdict.code, verdict.escalate) == ("case_not_decided", None)


STORE_METHODS = ["read", "read_many", "is_full", "claim"]


@pytest.mark.parametrize("method", STORE_METHODS)
@pytest.mark.parametrize("error", ERRORS, ids=shown)
@every_way
async def test_a_store_that_raises_denies(method: str, error: Exception, way: Way) -> None:
    store = type("Broken", (MemoryStore,), {})()
    gate, authority = helpdesk(rule={"once": "decision"}, store=store)
    decided(gate, authority)
    setattr(store, method, raising(error))
    verdict = await ask(gate, way)
    assert (verdict.allow, verdict.code) == (False, "gate_error")
    assert "secret" not in repr(verdict)


@pytest.mark.parametrize("method", STORE_METHODS)
@pytest.mark.parametrize("answer", [None, "yes", 7, [("a",)], True])
def test_a_store_that_answers_nonsense_never_allows_what_it_would_deny(method: str, answer: object) -> None:
    store = type("Broken", (MemoryStore,), {})()
    gate, authority = helpdesk(rule={"once": "decision"}, store=store)
    decided(gate, authority, outcome="refund-review")
    setattr(store, method, lambda *args, **kwargs: answer)
    assert not check(gate).allow


@pytest.mark.parametrize("answer", [None, "yes", 7, [], True, "FREE", ""])
def test_only_the_word_free_lets_a_use_through(answer: object) -> None:
    store = type("Broken", (MemoryStore,), {})()
    gate, authority = helpdesk(rule={"once": "decision"}, store=store)
    decided(gate, authority)
    store.claim = lambda *args, **kwargs: answer
    assert not check(gate).allow


def test_a_recorder_hears_of_a_store_that_raises() -> None:
    store = type("Broken", (MemoryStore,), {})()
    gate, authority = helpdesk(store=store)
    store.put = raising(ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        gate.record_result(SESSION, DECISION_TOOL, {}, authority.decide(TICKET))


class FailingClock(FakeClock):
    """Fails, or tells nonsense, once it is told to; the authority's own clock goes on."""

    tells: Callable[[], Any] | None = None

    def __call__(self) -> datetime:
        return super().__call__() if self.tells is None else self.tells()


@pytest.mark.parametrize("error", ERRORS, ids=shown)
@every_way
async def test_a_clock_that_raises_denies(error: Exception, way: Way) -> None:
    clock = FailingClock()
    gate, authority = helpdesk(authority=FakeAuthority(clock))
    decided(gate, authority)
    assert (await ask(gate, way)).allow
    clock.tells = raising(error)
    assert (await ask(gate, way)).code == "gate_error"


@pytest.mark.parametrize("time", [None, 0, "2026-11-30T09:00:00Z", datetime(2026, 11, 30, 9, 0)], ids=shown)
def test_a_clock_that_tells_no_time_with_a_zone_denies(time: object) -> None:
    clock = FailingClock()
    gate, authority = helpdesk(authority=FakeAuthority(clock))
    decided(gate, authority)
    clock.tells = lambda: time
    assert check(gate).code == "gate_error"


@pytest.mark.parametrize("error", INTERRUPTS)
@pytest.mark.parametrize("where", ["clock", "store"])
@every_way
def test_an_interrupt_in_clock_or_store_decides_nothing(error: type[BaseException], where: str, way: Way) -> None:
    clock, store = FailingClock(), type("Broken", (MemoryStore,), {})()
    gate, authority = helpdesk(authority=FakeAuthority(clock), store=store)
    decided(gate, authority)
    if where == "clock":
        clock.tells = raising(error)
    else:
        store.is_full = raising(error)
    with pytest.raises(error):
        check(gate) if way == "check" else run_interrupted(gate.acheck(SESSION, REPLY, reply()))


class Hostile(Mapping[str, Any]):
    """Arguments that fail while they are read."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __getitem__(self, name: str) -> Any:
        raise self.error

    def __iter__(self) -> Any:
        return iter(["ticketId", "body"])

    def __len__(self) -> int:
        return 2


@pytest.mark.parametrize("error", ERRORS, ids=shown)
@every_way
async def test_arguments_that_fail_while_they_are_read_deny(error: Exception, way: Way) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    hostile = Hostile(error)
    verdict = gate.check(SESSION, REPLY, hostile) if way == "check" else await gate.acheck(SESSION, REPLY, hostile)
    assert (verdict.allow, verdict.code) == (False, "gate_error")


class Unspeakable:
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


@pytest.mark.parametrize(
    "tool", [None, 7, b"helpdesk__reply", ["helpdesk__reply"], {1: 2}, {(): 2}, Unspeakable()], ids=lambda _: ""
)
def test_a_tool_name_that_is_no_string_denies(tool: Any) -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    assert not check(gate, tool=tool).allow


def test_what_changes_between_check_and_act_changes_nothing_that_was_checked() -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    args = reply()
    verdict = gate.check(SESSION, REPLY, args)
    args["body"] = "Another text."
    first = verdict.arguments
    first["ticketId"] = "HC-2"
    assert verdict.arguments == reply()


async def test_a_cancelled_check_has_no_verdict_and_uses_nothing_up() -> None:
    started = asyncio.Event()

    async def hang(execution_id: str) -> None:
        started.set()
        await asyncio.get_running_loop().create_future()

    authority, store = FakeAuthority(), MemoryStore()
    options = {**coroutine_functions(authority), "verify": hang}
    gate, _ = helpdesk(authority=authority, rule={"once": "decision"}, store=store, **options)
    decided(gate, authority)
    task = asyncio.create_task(gate.acheck(SESSION, REPLY, reply()))
    await started.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    sound, _ = helpdesk(authority=authority, rule={"once": "decision"}, store=store)
    assert check(sound).allow
