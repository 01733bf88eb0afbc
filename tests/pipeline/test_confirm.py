"""P7: a person confirms one exact command, once, for a while, and only trusted code can say that they did."""

from dataclasses import replace
from typing import Any

import pytest

from kit import BODY, MAIL, REPLY, SESSION, TICKET, decided, helpdesk, reply
from pipeline.office import CONTEXT, LARGE, Office, raising
from preaction.calling import Asking, run
from preaction.pipeline import Confirmation, ConfirmationError, Outcome, ProposedCall, Tool, ToolPipeline
from preaction.pipeline.confirm import Confirmations, Given, Wanted, summary_of
from preaction.stores.memory import MemoryStore
from preaction.testing import FakeClock


def asked(outcome: Outcome) -> Confirmation:
    assert outcome.disposition == "confirm", outcome.code
    assert outcome.confirmation is not None
    return outcome.confirmation


def test_p07_a_person_is_shown_the_action_the_target_and_the_effect() -> None:
    confirmation = asked(Office().write(LARGE))
    assert confirmation.summary == "approved: 9000\nTarget: invoice inv_900"
    assert confirmation.digest.startswith("sha-256:")
    plain = asked(Office(tools={"approve_invoice": {"summary": None}}).write(LARGE))
    said = 'approve_invoice {"invoice_id": "inv_900", "status": "approved"}; target: invoice inv_900; effect: write'
    assert plain.summary == said


def test_p07_what_a_person_is_shown_cannot_be_dressed_up() -> None:
    office = Office(tools={"approve_invoice": {"summary": lambda arguments, objects: f"why: {arguments['reason']}"}})
    confirmation = asked(office.write({**LARGE, "reason": "\N{RIGHT-TO-LEFT OVERRIDE}fine\x1b[2J\x00"}))
    assert confirmation.summary == "why: fine[2J\nTarget: invoice inv_900"


@pytest.mark.parametrize(
    ("said", "targets", "shown"),
    [
        ("pay inv_4 now", {"invoice": "inv_4"}, "pay inv_4 now"),
        ("pay inv_48 now", {"invoice": "inv_4"}, "pay inv_48 now\nTarget: invoice inv_4"),
        ("pay", {}, 'pay\npay {"a": "\\u202e"}'),
        (None, {}, 'pay {"a": "\\u202e"}; target: as in the arguments; effect: write'),
    ],
)
def test_p07_a_summary_always_names_the_target(said: str | None, targets: dict[str, str], shown: str) -> None:
    assert summary_of("pay", {"a": "\u202e"}, targets, "write", said) == shown


@pytest.mark.parametrize("answer", [None, 0, "", "no", 1, [], object()])
def test_p07_anything_but_false_needs_a_confirmation(answer: Any) -> None:
    assert Office(tools={"approve_invoice": {"confirm": lambda *given: answer}}).write().disposition == "confirm"


@pytest.mark.parametrize("summary", [raising(RuntimeError("SECRET")), lambda *given: 7, lambda *given: " "])
def test_p07_without_a_summary_nobody_is_asked(summary: Any) -> None:
    outcome = Office(tools={"approve_invoice": {"summary": summary}}).write(LARGE)
    assert (outcome.code, outcome.confirmation) == ("internal", None)


def test_p07_a_confirmation_is_used_once() -> None:
    office = Office(tools={"approve_invoice": {"repeatable": True}})
    first = asked(office.write(LARGE))
    office.pipeline.confirmations.approve(first.id, by="u_9")
    assert office.write(LARGE).code == "executed"
    second = asked(office.write(LARGE, call_id="call_2"))
    assert second.id != first.id
    with pytest.raises(ConfirmationError, match="used"):
        office.pipeline.confirmations.approve(first.id, by="u_9")
    assert len(office.acts) == 1


def test_p07_a_confirmation_expires_and_the_next_is_a_new_one() -> None:
    office = Office()
    first = asked(office.write(LARGE))
    office.clock.advance(seconds=900)
    with pytest.raises(ConfirmationError, match="expired"):
        office.pipeline.confirmations.approve(first.id, by="u_9")
    expired = office.write(LARGE)
    assert expired.code == "confirmation_expired"
    assert asked(expired).id != first.id


def test_p07_a_confirmation_that_was_given_expires_too() -> None:
    office = Office()
    first = asked(office.write(LARGE))
    office.pipeline.confirmations.approve(first.id, by="u_9")
    office.clock.advance(seconds=901)
    assert office.write(LARGE).code == "confirmation_expired"
    assert office.acts == []


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": {**LARGE, "status": "rejected"}},
        {"arguments": {**LARGE, "reason": ""}},
        {"subject": "u_8"},
    ],
)
def test_p07_what_changed_needs_a_new_one(change: dict[str, Any]) -> None:
    office = Office()
    office.pipeline.confirmations.approve(asked(office.write(LARGE)).id, by="u_9")
    assert office.write(**{"arguments": LARGE, **change}).code == "needs_confirmation"
    assert office.acts == []


def test_p07_what_the_person_saw_is_part_of_what_was_confirmed() -> None:
    office = Office()
    office.pipeline.confirmations.approve(asked(office.write(LARGE)).id, by="u_9")
    office.database.execute("UPDATE invoices SET amount = 90000 WHERE id = 'inv_900'")
    assert "90000" in asked(office.write(LARGE)).summary
    assert office.acts == []


def test_p07_a_text_that_is_no_unicode_is_confirmed_as_any_other() -> None:
    office = Office(tools={"approve_invoice": {"summary": lambda *given: "inv_900: \ud800"}})
    office.pipeline.confirmations.approve(asked(office.write(LARGE)).id, by="u_9")
    assert office.write(LARGE).code == "executed"


def test_p07_another_schema_needs_a_new_one() -> None:
    store = MemoryStore()
    office = Office(store=store)
    office.pipeline.confirmations.approve(asked(office.write(LARGE)).id, by="u_9")
    schema = {**office.tools[1].input.schema, "title": "Approve"}
    after = Office(store=store, clock=office.clock, tools={"approve_invoice": {"input_schema": schema}})
    assert after.write(LARGE).code == "needs_confirmation"


@pytest.mark.parametrize("by", ["", "  ", None, 7])
def test_p07_who_confirms_is_named(by: Any) -> None:
    office = Office()
    confirmation = asked(office.write(LARGE))
    with pytest.raises(ConfirmationError, match="by"):
        office.pipeline.confirmations.approve(confirmation.id, by=by)
    assert office.write(LARGE).disposition == "confirm"


@pytest.mark.parametrize("unknown", ["", "nothing", None, 7, "\ud800"])
def test_p07_an_unknown_id_confirms_nothing(unknown: Any) -> None:
    with pytest.raises(ConfirmationError, match="unknown"):
        Office().pipeline.confirmations.approve(unknown, by="u_9")


def test_p07_a_confirmation_is_given_once() -> None:
    office = Office()
    confirmation = asked(office.write(LARGE))
    office.pipeline.confirmations.approve(confirmation.id, by="u_9")
    with pytest.raises(ConfirmationError):
        office.pipeline.confirmations.approve(confirmation.id, by="u_10")
    office.write(LARGE)
    assert office.record()["confirmation"]["by"] == "u_9"


def test_p07_one_confirmation_serves_one_of_two_requests() -> None:
    office = Office()
    office.pipeline.confirmations.approve(asked(office.write(LARGE)).id, by="u_9")
    assert office.write(LARGE, request_id="req_2").code == "executed"
    assert office.write(LARGE).code == "needs_confirmation"


def test_p07_of_two_requests_at_once_one_has_the_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office()
    confirmations = office.pipeline.confirmations
    confirmations.approve(asked(office.write(LARGE)).id, by="u_9")
    use = confirmations.use

    def too_late(given: Given) -> Asking[bool]:
        monkeypatch.undo()
        assert office.write(LARGE, request_id="req_2").code == "executed"
        return (yield from use(given))

    monkeypatch.setattr(confirmations, "use", too_late)
    again = asked(office.write(LARGE))
    assert len(office.acts) == 1
    confirmations.approve(again.id, by="u_9")
    assert office.write(LARGE).code == "executed", "its key was free again"


def test_p07_confirmations_alone() -> None:
    clock = FakeClock()
    kept = Confirmations(MemoryStore(), 60, clock)
    wanted = run(kept.find("sha-256:a", "pay"))
    assert isinstance(wanted, Wanted)
    kept.approve(wanted.confirmation.id, by="u_9")
    given = run(kept.find("sha-256:a", "pay"))
    assert isinstance(given, Given)
    assert run(kept.use(given))
    assert not run(kept.use(given)), "used up by somebody else meanwhile"
    again = run(kept.find("sha-256:a", "pay"))
    assert isinstance(again, Wanted)
    assert not again.expired
    kept.approve(again.confirmation.id, by="u_9")
    late = run(kept.find("sha-256:a", "pay"))
    clock.advance(seconds=61)
    assert isinstance(late, Given)
    assert not run(kept.use(late))


# ---------------------------------------------------------------- the action gate as one step


def sending(ran: list[Any]) -> Any:
    def send(command: Any) -> str:
        ran.append(command)
        return "sent"

    return send


def desk(gate: Any, ran: list[Any], **changes: Any) -> ToolPipeline:
    schema = {"type": "object", "properties": {"ticketId": {"type": "string"}, "body": {"type": "string"}}}
    given: dict[str, Any] = {"name": REPLY, "run": sending(ran), "input_schema": schema}
    return ToolPipeline([Tool(**{**given, **changes})], gate=gate)


def replied(pipeline: ToolPipeline, **changes: Any) -> Outcome:

    call = ProposedCall("call_1", REPLY, reply(**changes))
    return pipeline.handle_sync(call, replace(CONTEXT, session_id=SESSION))


def test_the_gate_denies_in_its_own_words_and_allows_what_was_decided() -> None:
    gate, authority = helpdesk()
    ran: list[Any] = []
    pipeline = desk(gate, ran)
    denied = replied(pipeline)
    assert (denied.disposition, denied.code) == ("deny", "gate_denied")
    assert denied.for_model.startswith("Denied, nothing was done: no decision was made in this session")
    assert ran == []
    decided(gate, authority)
    assert replied(pipeline).code == "executed"
    assert [command.arguments for command in ran] == [reply()]


async def test_the_gate_is_asked_from_an_event_loop_too() -> None:
    gate, authority = helpdesk()
    ran: list[Any] = []
    pipeline = desk(gate, ran)
    decided(gate, authority)
    outcome = await pipeline.handle(ProposedCall("call_1", REPLY, reply()), CONTEXT)
    assert outcome.code == "gate_denied", "another session"
    assert ran == []


def test_before_a_person_is_asked_the_gate_is_only_previewed() -> None:
    gate, authority = helpdesk(rule={"once": "decision"})
    ran: list[Any] = []
    pipeline = desk(gate, ran, confirm=True)
    assert replied(pipeline).code == "gate_denied", "nobody is asked about what the gate denies"
    decided(gate, authority)
    for _ in range(3):
        outcome = replied(pipeline)
        assert outcome.disposition == "confirm"
    pipeline.confirmations.approve(asked(outcome).id, by="u_9")
    assert replied(pipeline).code == "executed"
    assert replied(pipeline).code == "replayed", "the decision is used up, and the act is done"
    assert len(ran) == 1


def test_a_decision_that_runs_out_while_a_person_thinks_denies() -> None:
    gate, authority = helpdesk()
    ran: list[Any] = []
    pipeline = desk(gate, ran, confirm=True)
    decided(gate, authority)
    pipeline.confirmations.approve(asked(replied(pipeline)).id, by="u_9")
    authority.clock.advance(hours=2)
    assert replied(pipeline).code == "gate_denied"
    assert ran == []


def test_a_gate_that_only_observes_stops_nothing() -> None:
    gate, _ = helpdesk(mode="observe")
    ran: list[Any] = []
    assert replied(desk(gate, ran)).code == "executed"


def test_what_the_decision_tool_returned_is_recorded_by_the_gate() -> None:
    gate, authority = helpdesk()
    made = authority.decide(TICKET)
    check = authority.check_output(made, {"body": BODY})
    ran: list[Any] = []
    names = ["felspar__get_job_decision", "felspar__check_output"]
    decide = [
        Tool(name=name, run=lambda command, one=one: one, input_schema={"type": "object"}, effect="read")
        for name, one in zip(names, (made, check), strict=True)
    ]
    act = Tool(name=REPLY, run=sending(ran), input_schema={"type": "object"})
    pipeline = ToolPipeline([*decide, act], gate=gate)
    assert replied(pipeline).code == "gate_denied"

    for name in names:
        outcome = pipeline.handle_sync(ProposedCall("c", name, {}), replace(CONTEXT, session_id=SESSION))
        assert outcome.code == "executed"
    assert replied(pipeline).code == "executed"


def test_the_kit_has_a_tool_that_this_gate_does_not_know() -> None:
    gate, _ = helpdesk(unlisted="deny")
    pipeline = ToolPipeline([Tool(name=MAIL, run=lambda command: 1, input_schema={"type": "object"})], gate=gate)
    assert pipeline.handle_sync(ProposedCall("c", MAIL, {}), CONTEXT).code == "gate_denied"
