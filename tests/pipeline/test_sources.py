"""F15, F16: each argument of a write is what a source holds, or the user is asked; reads aren't asked about."""

import asyncio
import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kit import BODY, REPLY, SESSION, TICKET, decided, helpdesk, reply
from pipeline.office import CONTEXT, WRITE, WRITE_SCHEMA, Office, raising
from preaction.errors import ConfigurationError
from preaction.pipeline import (
    NotExecuted,
    NothingSent,
    ProposedCall,
    PublicToolError,
    Tool,
    ToolPipeline,
    call_through,
    sources_of,
)
from preaction.pipeline.outcome import TEXTS
from preaction.preflight import Done, MemoryStorage, Preflight, Segment, StoreLock, create_preflight
from preaction.preflight.asking import denial_or_question, question
from preaction.preflight.ready import literal_extraction, passed_measurements

WORDS = "please set inv_481 to approved"
PLACES = {"invoice_id": "inv_481", "status": "approved", "ticketId": TICKET}


def preflight(storage: Any = None, lock: Any = None, **changes: Any) -> Preflight:
    """Finds in the user's words what stands there."""
    hooks = {
        "classify_when_case": lambda instruction: "immediate",
        "extract_user_action_name": lambda instruction: "set an invoice",
        "confirm_tool_name_matches_intent": lambda user_action_name, tool: {"approved": True},
        "extract_from_instruction": literal_extraction(lambda field_name, instruction: PLACES.get(field_name)),
        "measure_from_environment": passed_measurements,
        "build_action_key": lambda user_id, fixed: f"{user_id}:{fixed['c3_provider_action_name']}",
        **changes,
    }
    return create_preflight(hooks=hooks, storage=storage or MemoryStorage(), lock=lock)


def inputs(*segments: Segment, **more: Any) -> Any:
    return lambda context: {"instruction": [*segments] or [Segment(WORDS, trust="user")], **more}


def office(*segments: Segment, flight: Preflight | None = None, **more: Any) -> Office:
    return Office(preflight=sources_of(flight or preflight(), inputs(*segments, **more)))


def test_f16_a_call_whose_values_have_a_source_is_executed() -> None:
    storage = MemoryStorage()
    desk = office(flight=preflight(storage))
    assert desk.write().code == "executed"
    assert [command.arguments for command in desk.acts] == [WRITE]
    (record, _) = storage.records("u_7:approve_invoice")
    assert [(one["name"], one["value"], one["source"]) for one in record["fields"]] == [
        ("invoice_id", "inv_481", "instruction"),
        ("status", "approved", "instruction"),
    ]


async def test_f16_in_a_loop_too_and_what_it_is_about_may_be_awaited() -> None:
    async def later(context: Any) -> Mapping[str, Any]:
        return {"instruction": [Segment(WORDS, trust="user")]}

    assert (
        await Office(preflight=sources_of(preflight(), later)).apropose("approve_invoice", WRITE)
    ).code == "executed"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({**WRITE, "invoice_id": "inv_482"}, '"invoice_id"'),
        ({**WRITE, "status": "rejected"}, '"status"'),
        ({"invoice_id": "inv_482", "status": "rejected"}, '"invoice_id", "status"'),
    ],
)
def test_f16_a_value_that_is_not_the_one_looked_up_asks(arguments: Any, named: str) -> None:
    desk = office()
    outcome = desk.write(arguments)
    assert (outcome.disposition, outcome.code, desk.acts) == ("ask", "values_unknown", [])
    said = f"Not executed, nothing was done: {named} isn't what the user gave. Ask the user, and don't guess."
    assert outcome.for_model == said


def test_f16_a_value_that_has_no_source_asks_also_where_the_schema_would_do_without_it() -> None:
    desk = office()
    outcome = desk.write({**WRITE, "reason": "because I say so"})
    assert (outcome.disposition, desk.acts) == ("ask", [])
    assert outcome.for_model == 'Not executed, nothing was done: ask the user for "reason", and don\'t guess.'
    assert desk.record()["detail"] == "ask_user"
    answered = office(user_answers={"reason": "because I say so"})
    assert answered.write({**WRITE, "reason": "because I say so"}).code == "executed"


def test_f16_a_mail_gives_nothing() -> None:
    desk = office(Segment(WORDS, trust="untrusted", origin="gmail:msg_881"))
    outcome = desk.write()
    assert (outcome.disposition, desk.acts) == ("ask", [])
    assert "inv_481" not in outcome.for_model


def test_f15_reads_are_not_asked_about() -> None:
    desk = office(flight=preflight(classify_when_case=raising(RuntimeError())))
    assert desk.read().code == "executed"
    assert desk.write().disposition == "ask"


def test_f16_what_is_undetermined_asks_without_the_tools_name_and_what_holds_tells_so() -> None:
    unsure = preflight(
        confirm_tool_name_matches_intent=lambda user_action_name, tool: {"approved": False, "reason": "SECRET"}
    )
    outcome = office(flight=unsure).write()
    assert outcome.disposition == "ask"
    assert not re.search("SECRET|approve_invoice", outcome.for_model)
    held = office(flight=unsure, tool_attempt=2).write()
    expected = "Not executed, nothing was done: it can't go on by itself. Tell the user so, and don't try it again."
    assert (held.disposition, held.for_model) == ("ask", expected)


def test_f16_a_run_that_is_put_off_is_not_executed_now() -> None:
    desk = office(flight=preflight(classify_when_case=lambda instruction: "scheduled"))
    assert (desk.write().disposition, desk.record()["detail"], desk.acts) == ("ask", "deferred", [])


@pytest.mark.parametrize(
    "given",
    [raising(RuntimeError("SECRET")), lambda context: None, lambda context: {"more": 1}, lambda context: {"tool": {}}],
)
def test_f16_inputs_that_fail_deny(given: Any) -> None:
    desk = Office(preflight=sources_of(preflight(), given))
    outcome = desk.write()
    assert (outcome.code, desk.acts) == ("internal", [])
    assert "SECRET" not in outcome.for_model


def test_f16_a_storage_that_is_down_denies() -> None:
    class Down(MemoryStorage):
        def persist(self, action_key: str, record: Any) -> None:
            raise OSError("SECRET")

    desk = office(flight=preflight(Down()))
    assert (desk.write().code, desk.acts) == ("internal", [])


@pytest.mark.parametrize("answer", [True, 1, [], object(), b"execute", ["execute"], {"execution_decision": "execute"}])
def test_f16_only_the_word_execute_lets_a_call_on(answer: Any) -> None:
    desk = Office(preflight=lambda tool, arguments, context: answer)
    assert (desk.write().for_model, desk.acts) == (TEXTS["values_unknown"], [])


def test_f16_what_equals_everything_is_not_the_word() -> None:
    class Everything:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    desk = Office(preflight=lambda tool, arguments, context: Everything())
    assert (desk.write().disposition, desk.acts) == ("ask", [])


@pytest.mark.parametrize("given", [(None, len), (preflight(), None), (lambda tool, arguments, context: "execute", len)])
def test_f16_what_cannot_ask_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="sources_of"):
        sources_of(*given)


def test_f15_nested_values_have_sources_too() -> None:
    schema = {
        "type": "object",
        "properties": {
            "to": {
                "type": "object",
                "properties": {"iban": {"type": "string"}, "name": {"type": "string"}},
                "required": ["iban"],
            }
        },
        "required": ["to"],
    }
    ran: list[Any] = []
    tool = Tool(name="pay", run=lambda command: ran.append(command.arguments), input_schema=schema)
    answers = {"/to/iban": "DE88", "/to/name": "Kim"}
    pipeline = ToolPipeline([tool], preflight=sources_of(preflight(), inputs(user_answers=answers)))
    for number, to in enumerate([{"iban": "DE77"}, {"iban": "DE88", "name": "Eve"}, {"iban": "DE88", "bic": "X"}]):
        assert pipeline.handle_sync(ProposedCall(f"c{number}", "pay", {"to": to}), CONTEXT).disposition == "ask"
    whole = {"to": {"iban": "DE88", "name": "Kim"}}
    for number, arguments in enumerate([whole, {"to": {"iban": "DE88"}}]):
        assert pipeline.handle_sync(ProposedCall(f"d{number}", "pay", arguments), CONTEXT).code == "executed"
    assert ran == [whole, {"to": {"iban": "DE88"}}]


# ---------------------------------------------------------------- with the gate


def test_f16_a_call_that_the_gate_would_deny_asks_where_a_value_is_missing() -> None:
    gate, authority = helpdesk()
    schema = {"type": "object", "properties": {"ticketId": {}, "body": {}}, "required": ["ticketId", "body"]}
    tool = Tool(name=REPLY, run=lambda command: "sent", input_schema=schema)
    words = Segment(f"answer {TICKET}", trust="user")
    context = replace(CONTEXT, session_id=SESSION)

    def handled(**given: Any) -> Any:
        pipeline = ToolPipeline([tool], gate=gate, preflight=sources_of(preflight(), inputs(words, **given)))
        return pipeline.handle_sync(ProposedCall("c", REPLY, reply()), context)

    missing = handled()
    assert (missing.disposition, missing.code) == ("ask", "values_unknown")
    assert missing.for_model == 'Not executed, nothing was done: ask the user for "body", and don\'t guess.'
    sourced = {"pre_set_data": {"body": {"value": BODY, "trust": "user"}}}
    assert handled(**sourced).code == "gate_denied"
    decided(gate, authority)
    assert handled(**sourced).code == "executed"


def test_f16_beside_a_gate_of_ones_own_loop_the_question_goes_before_the_denial() -> None:
    gate, _ = helpdesk()
    verdict = gate.check(SESSION, REPLY, reply())
    assert verdict.blocks
    tool = {"name": REPLY, "inputSchema": {"type": "object", "required": ["body"]}}
    given: dict[str, Any] = {"user_id": "u_7", "instruction": [], "tool": tool}
    asks = preflight().run_and_record_sync(**given)
    knows = preflight().run_and_record_sync(**given, user_answers={"body": BODY})
    assert denial_or_question(verdict, asks) == question(asks) is not None
    assert question(knows) is None
    assert denial_or_question(verdict, knows).startswith("Denied, nothing was done")


def test_f16_an_item_that_is_not_confirmed_is_asked_for_by_its_id() -> None:
    checklist = [{"id": "chk_limit", "description": "within the limit"}]
    outcome = office(user_checklist=checklist, user_answers={}).write({**WRITE, "reason": "x"})
    said = 'ask the user for "reason", and don\'t guess; "chk_limit" of the user\'s checklist isn\'t confirmed.'
    assert outcome.for_model == f"Not executed, nothing was done: {said}"


# ---------------------------------------------------------------- the act, by the preflight's hands


def decisions(storage: MemoryStorage) -> list[str]:
    return [one["execution_decision"] for one in storage.records("u_7:approve_invoice")]


def test_f13_the_act_is_recorded_as_executed_and_is_a_baseline() -> None:
    flight = preflight(storage := MemoryStorage())
    asked = office(Segment("please do it", trust="user"), flight=flight)
    assert asked.write().disposition == "ask"
    desk = office(flight=flight)
    assert (desk.write().code, desk.write().code) == ("executed", "replayed")
    assert decisions(storage) == ["ask_user", "execute", "executed"]
    prior = flight.prior_state_sync("u_7:approve_invoice")
    assert prior is not None
    assert [one["value"] for one in prior["fields"]] == ["inv_481", "approved"]


@pytest.mark.parametrize(
    ("error", "code", "again"),
    [
        (NothingSent(), "tool_failed", "tool_failed"),
        (PublicToolError("It is closed."), "tool_error", "tool_error"),
        (ConnectionError("SECRET"), "outcome_unknown", "outcome_unknown"),
        (SystemExit(3), "outcome_unknown", "outcome_unknown"),
        (asyncio.CancelledError(), "outcome_unknown", "outcome_unknown"),
        (StopIteration(), "outcome_unknown", "outcome_unknown"),
    ],
)
def test_f13_a_tool_that_raises_ends_as_it_does_without_preflight(error: BaseException, code: str, again: str) -> None:
    flight = preflight(storage := MemoryStorage())
    desk = Office(preflight=sources_of(flight, inputs()), tools={"approve_invoice": {"run": raising(error)}})
    first = desk.write()
    assert (first.code, decisions(storage)) == (code, ["execute", "failed"])
    assert "SECRET" not in first.for_model + str(storage.records())
    assert desk.write().code == again


@pytest.mark.parametrize("way", ["thread", "loop"])
async def test_f13_a_tool_that_is_late_is_of_unknown_outcome_and_failed(way: str) -> None:
    gone_on = threading.Event()

    def hanging(command: Any) -> None:
        gone_on.wait(30)

    async def never(command: Any) -> None:
        await asyncio.Event().wait()

    flight = preflight(storage := MemoryStorage())
    tools = {"approve_invoice": {"run": hanging if way == "thread" else never, "timeout_s": 0.5}}
    desk = Office(preflight=sources_of(flight, inputs()), tools=tools)
    assert (await desk.apropose("approve_invoice", WRITE)).code == "outcome_unknown"
    gone_on.set()
    assert [one["reason"] for one in storage.records()][1] == "failed: it was late"


def test_f15_an_action_that_is_being_executed_elsewhere_is_not_begun_beside_it() -> None:
    lock = StoreLock()
    desk = office(flight=preflight(lock=lock))
    taken = lock.take("u_7:approve_invoice")
    assert taken is not None
    assert (desk.write().code, desk.acts) == ("tool_failed", [])
    lock.free("u_7:approve_invoice", taken)
    assert desk.write().code == "executed"


async def test_f14_of_many_at_once_one_acts_by_the_key_of_the_pipeline() -> None:
    flight = preflight(storage := MemoryStorage())
    desk = office(flight=flight)
    outcomes = await asyncio.gather(*(desk.apropose("approve_invoice", WRITE, call_id=f"c{n}") for n in range(5)))
    assert len(desk.acts) == 1
    assert [one.code for one in outcomes].count("executed") == 1
    assert decisions(storage).count("executed") == 1


async def test_f13_a_call_that_is_cut_off_is_recorded() -> None:
    began = asyncio.Event()

    async def never(command: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    flight = preflight(storage := MemoryStorage())
    desk = Office(preflight=sources_of(flight, inputs()), tools={"approve_invoice": {"run": never}})
    running = asyncio.create_task(desk.apropose("approve_invoice", WRITE))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
    assert decisions(storage) == ["execute", "failed"]
    assert desk.record()["code"] == "outcome_unknown"


# ---------------------------------------------------------------- the pipeline as the hands


def ready(flight: Preflight, invoice: str = "inv_481") -> Any:
    tool = {"name": "approve_invoice", "inputSchema": WRITE_SCHEMA}
    answers = {"invoice_id": invoice, "status": "approved"}
    state = flight.run_and_record_sync(user_id="u_7", instruction=[], tool=tool, user_answers=answers)
    return state, tool


def test_f15_two_decisions_of_one_request_act_once_by_their_idempotency_key() -> None:
    desk, flight = Office(), preflight(storage := MemoryStorage())
    hands = call_through(desk.pipeline, CONTEXT)

    def decide_and_act(call_tool: Any) -> Done:
        state, tool = ready(flight)
        return flight.execute_if_ready_sync(state, tool, call_tool)

    done = [decide_and_act(hands) for _ in range(2)]
    assert [(one.status, one.result["status"]) for one in done] == [("executed", "approved")] * 2
    assert [command.arguments for command in desk.acts] == [WRITE]
    assert [record["code"] for record in desk.audit.records()] == ["executed", "replayed"]
    assert [one["execution_decision"] for one in storage.records()] == ["execute", "executed"] * 2
    other = call_through(desk.pipeline, replace(CONTEXT, request_id="req_2"))
    assert decide_and_act(other).status == "executed"
    assert len(desk.acts) == 2


async def test_f15_what_the_pipeline_does_not_execute_failed() -> None:
    desk, flight = Office(), preflight()
    hands = call_through(desk.pipeline, replace(CONTEXT, roles=()))
    state, tool = ready(flight)
    done = await flight.execute_if_ready(state, tool, hands)
    assert (done.status, done.reason) == ("failed", "failed: it raised NotExecuted")
    with pytest.raises(NotExecuted, match="the pipeline did not execute the call: not_authorized"):
        await hands("approve_invoice", WRITE)
    assert desk.acts == []
