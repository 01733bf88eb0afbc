"""A decision as data: what was recorded gives the same verdict again, and nothing else does."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeAlias

import pytest

from kit import BODY, COMPANY_SUBJECT, MAIL, REPLY, SESSION, TICKET, company, decided, helpdesk, mail, reply
from preaction import ActionGate, Verdict
from preaction._core.call import Call, read_call
from preaction._core.facts import (
    AnyAsk,
    Ask,
    Describe,
    Procedure,
    Recall,
    RecallTexts,
    Unavailable,
    Use,
    Verify,
    VerifyOutputCheck,
)
from preaction._core.procedure import judge
from preaction._core.record import (
    Round,
    ask_from_json,
    ask_to_json,
    recording,
    replay,
    rounds_from_json,
    rounds_to_json,
)
from preaction._core.trail import Trail
from preaction._core.verdict import verdict_of
from preaction.drive import Facts, run
from preaction.errors import InvalidJSON, RecordMismatch
from preaction.testing import START, FakeAuthority

Scene: TypeAlias = tuple[ActionGate, FakeAuthority, str, dict[str, Any]]


def check(scene: Scene, session: str = SESSION) -> tuple[Verdict, list[Round]]:
    """One check of this call, with its record."""
    gate, authority, tool, args = scene
    rounds: list[Round] = []
    trail = Trail()
    judgement = run(
        recording(judge(session, tool, args, gate._book, trail, take=True), rounds),
        lambda ask: gate._sessions.answer(session, ask),
        Facts(authority, authority, authority),
        5.0,
    )
    return verdict_of(judgement, trail, tool=tool, session_id=session, enforced=True), rounds


def call_of(scene: Scene) -> Call:
    call = read_call(SESSION, scene[2], scene[3])
    assert isinstance(call, Call)
    return call


def through_json(rounds: list[Round]) -> list[Round]:
    return rounds_from_json(json.loads(json.dumps(rounds_to_json(rounds))))


# ---------------------------------------------------------------- scenes, by the code of their verdict


def at_the_helpdesk(args: dict[str, Any] | None = None, *, case: str | None = TICKET, **given: Any) -> Scene:
    rule, options, decision = (given.get(name, {}) for name in ("rule", "options", "decision"))
    gate, authority = helpdesk(rule=rule, **options)
    if case is not None:
        decided(gate, authority, case, **decision)
    return gate, authority, REPLY, reply() if args is None else args


def answering(change: Callable[[FakeAuthority, dict[str, Any]], None]) -> Scene:
    gate, authority = helpdesk()
    made = decided(gate, authority)
    change(authority, made)
    return gate, authority, REPLY, reply()


def changed(kind: str, **changes: Any) -> Callable[[FakeAuthority, dict[str, Any]], None]:
    def change(authority: FakeAuthority, made: dict[str, Any]) -> None:
        ask = Verify(made["executionId"]) if kind == "verify" else VerifyOutputCheck("chk_2")
        authority.answers[ask] = {**authority.good_answer(ask), **changes}

    return change


def late() -> Scene:
    scene = at_the_helpdesk()
    scene[1].clock.advance(hours=2)
    return scene


def used() -> Scene:
    scene = at_the_helpdesk(rule={"once": "decision"})
    assert check(scene)[0].allow
    return scene


def unreadable() -> Scene:
    scene = at_the_helpdesk()
    scene[0].decisions.record(SESSION, result={"case": {"id": TICKET}})
    return scene


def replaced_on_the_way() -> Scene:
    scene = gate, authority, _, _ = at_the_helpdesk()
    authority.before_answer = lambda asks: gate.decisions.record(SESSION, result=authority.decide(TICKET))  # type: ignore[method-assign]
    return scene


def at_the_company(args: dict[str, Any] | None = None, *cases: str, **options: Any) -> Scene:
    gate, authority = company(**options)
    for case in cases or ("acme.example",):
        decided(gate, authority, case)
    return gate, authority, MAIL, mail() if args is None else args


SCENES: dict[str, Callable[[], Scene]] = {
    "allowed": at_the_helpdesk,
    "allowed once": lambda: at_the_helpdesk(rule={"once": "case"}),
    "allowed for a company": at_the_company,
    "field_not_allowed": lambda: at_the_helpdesk(reply(public=True)),
    "field_refused": lambda: at_the_helpdesk(reply(public=True), options={"refuse_fields": ["public"]}),
    "field_value_not_allowed": lambda: at_the_helpdesk(reply(body={"text": BODY})),
    "case_unclear": lambda: at_the_helpdesk(reply(ticketId=True)),
    "case_not_decided": lambda: at_the_helpdesk(case="HC-1", options={"releases": ["2026-11-03.1"]}),
    "recipient_not_plain": lambda: at_the_company(mail(to="Ann <orders@acme.example>")),
    "recipient_not_allowed": lambda: at_the_company(mail(to=["a@acme.example", "b@shop.example"]), "acme.example"),
    "not_a_company": lambda: at_the_company(mail(to="a@gmail.com"), "acme.example", "gmail.com"),
    "subject_unclear": lambda: at_the_company(mail(subject="one\ntwo")),
    "stale": late,
    "stale on the way": replaced_on_the_way,
    "clock_skew": lambda: answering(changed("verify", verifiedAt=None)),
    "verify_failed": lambda: answering(changed("verify", problems="none")),
    "receipt_invalid": lambda: answering(changed("verify", valid=False)),
    "replay_mismatch": lambda: answering(
        lambda authority, made: changed(
            "verify", replay={**authority.good_answer(Verify(made["executionId"]))["replay"], "job": "other"}
        )(authority, made)
    ),
    "release_not_allowed": lambda: at_the_helpdesk(options={"releases": ["2026-12-01.1"]}),
    "undecided": lambda: at_the_helpdesk(decision={"outcome": None}),
    "undecided since unreadable": unreadable,
    "outcome_not_allowed": lambda: at_the_helpdesk(decision={"outcome": "refund-review"}),
    "rule_invalid": lambda: at_the_helpdesk(rule={"outcomes": ["billing-question"]}),
    "output_check_missing": lambda: at_the_helpdesk(reply(body="Something else.")),
    "output_check_failed": lambda: answering(changed("text", passed=False)),
    "already_used": used,
}

every_scene = pytest.mark.parametrize("name", SCENES)


@every_scene
def test_a_recorded_check_replays_to_an_equal_verdict(name: str) -> None:
    scene = SCENES[name]()
    verdict, rounds = check(scene)
    assert verdict.code == name.split()[0]
    assert replay(call_of(scene), scene[0]._book, rounds) == verdict
    assert replay(call_of(scene), scene[0]._book, through_json(rounds)) == verdict


@pytest.mark.parametrize("name", [name for name in SCENES if name != "stale on the way"])
def test_recording_changes_nothing_about_a_verdict(name: str) -> None:
    scene = gate, _, tool, args = SCENES[name]()
    assert gate.preview(SESSION, tool, args) == check(scene)[0]


@every_scene
def test_a_record_comes_back_from_json_as_it_went(name: str) -> None:
    _, rounds = check(SCENES[name]())
    written = rounds_to_json(rounds)
    assert json.loads(json.dumps(written)) == written
    assert rounds_to_json(through_json(rounds)) == written


def test_a_replayed_verdict_knows_its_arguments_and_checks() -> None:
    scene = at_the_helpdesk()
    verdict, rounds = check(scene)
    again = replay(call_of(scene), scene[0]._book, rounds)
    assert (again.arguments, again.call_digest, again.checks) == (
        verdict.arguments,
        verdict.call_digest,
        verdict.checks,
    )


def test_an_observed_check_replays_as_not_enforced() -> None:
    scene = at_the_helpdesk(reply(body="Something else."))
    _, rounds = check(scene)
    again = replay(call_of(scene), scene[0]._book, rounds, enforced=False)
    assert (again.allow, again.blocks) == (False, False)


def test_a_preview_replays_without_taking_the_use() -> None:
    scene = gate, _, tool, args = at_the_helpdesk(rule={"once": "decision"})
    rounds: list[Round] = []
    judging = judge(SESSION, tool, args, gate._book, Trail(), take=False)
    run(recording(judging, rounds), lambda ask: gate._sessions.answer(SESSION, ask), Facts(*[scene[1]] * 3), 5.0)
    assert Use(REPLY, "decision", "exe_1", take=False) in rounds[-1]
    assert replay(call_of(scene), gate._book, rounds).allow


# ---------------------------------------------------------------- tampering


def leaves(value: Any, *path: Any) -> list[tuple[Any, ...]]:
    """The path of every value that isn't a container."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [leaf for name, item in inside for leaf in leaves(item, *path, name)]
    return found or [path]


def tampered(value: Any, path: tuple[Any, ...]) -> Any:
    """A copy in which the value at `path` is another one of its type."""
    copy = json.loads(json.dumps(value))
    at = copy
    for step in path[:-1]:
        at = at[step]
    old = at[path[-1]]
    at[path[-1]] = (not old) if isinstance(old, bool) else f"{old}x" if isinstance(old, str) else ["x"]
    return copy


HARMLESS = {
    "0.0.answer.releases",  # of the whole session, which this call with an id doesn't look at
    "3.0.answer.releases",
    "2.0.answer.replay.entity_id",  # the call names the case by its own id (G8)
    "4.0.ask.take",  # the preview of the same call
}
NEEDED = {"job", "release", "subject.identity", "subject.match", "outcomes.0.id", "outcomes.0.outputs.0"}
"""What an allowed verdict needs of a description; the rest is for people, for other outcomes and for denials."""


def test_no_altered_record_of_an_allowed_call_still_allows_it() -> None:
    scene = gate, _, _, _ = at_the_helpdesk(rule={"once": "decision"})
    written = rounds_to_json(check(scene)[1])
    still: set[str] = set()
    for path in leaves(written):
        try:
            verdict = replay(call_of(scene), gate._book, rounds_from_json(tampered(written, path)))
        except (RecordMismatch, InvalidJSON):
            continue
        if verdict.allow:
            still.add(".".join(map(str, path)))
    described = {place.removeprefix("2.1.answer.") for place in still if place.startswith("2.1.answer.")}
    assert not described & NEEDED
    assert {place for place in still if not place.startswith("2.1.answer.")} == HARMLESS


def test_a_record_of_another_call_is_refused() -> None:
    scene = gate, _, _, _ = at_the_helpdesk()
    _, rounds = check(scene)
    for args in (reply(ticketId="HC-1"), reply(body="Something else.")):
        call = read_call(SESSION, REPLY, args)
        assert isinstance(call, Call)
        with pytest.raises(RecordMismatch) as raised:
            replay(call, gate._book, rounds)
        number, asks = (0, "Recall") if "HC-1" in args.values() else (1, "RecallTexts")
        assert str(raised.value) == f"round {number}: the decision asks for another {asks} than was recorded"


def test_a_record_that_ends_too_early_is_refused() -> None:
    scene = gate, _, _, _ = at_the_helpdesk()
    _, rounds = check(scene)
    for length, asks in enumerate(["Recall", "RecallTexts", "Verify, Describe, VerifyOutputCheck", "Recall"]):
        with pytest.raises(RecordMismatch) as raised:
            replay(call_of(scene), gate._book, rounds[:length])
        assert str(raised.value) == f"round {length}: the decision asks for {asks}, but the record ends"


def test_a_record_that_goes_on_after_the_decision_is_refused() -> None:
    scene = gate, _, _, _ = at_the_helpdesk()
    _, rounds = check(scene)
    with pytest.raises(RecordMismatch) as raised:
        replay(call_of(scene), gate._book, [*rounds, rounds[0]])
    assert str(raised.value) == "round 4: the decision is made, but the record goes on"


def test_a_record_that_lacks_one_answer_is_refused() -> None:
    scene = gate, _, _, _ = at_the_helpdesk()
    _, rounds = check(scene)
    for number, one in enumerate(rounds):
        for ask in one:
            lacking = [*rounds]
            lacking[number] = {other: answer for other, answer in one.items() if other != ask}
            with pytest.raises(RecordMismatch):
                replay(call_of(scene), gate._book, lacking)


# ---------------------------------------------------------------- the shape


def test_every_kind_of_ask_has_its_json() -> None:
    asks: dict[AnyAsk, dict[str, Any]] = {
        Verify("exe_1"): {"kind": "verify", "executionId": "exe_1"},
        Describe("j", "r"): {"kind": "describe", "job": "j", "release": "r"},
        VerifyOutputCheck("chk_1"): {"kind": "verifyOutputCheck", "checkId": "chk_1"},
        Recall("j", ("a", "b"), True): {"kind": "recall", "job": "j", "names": ["a", "b"], "whole": True},
        RecallTexts("exe_1", "sha-256:0"): {"kind": "recallTexts", "executionId": "exe_1", "digest": "sha-256:0"},
        Use("t", "case", "c", False): {"kind": "use", "tool": "t", "per": "case", "name": "c", "take": False},
    }
    for ask, written in asks.items():
        assert ask_to_json(ask) == written
        assert ask_from_json(written) == ask


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "an ask needs one of the known kinds"),
        ("verify", "an ask needs one of the known kinds"),
        ({}, "an ask needs one of the known kinds"),
        ({"kind": ["verify"], "executionId": "exe_1"}, "an ask needs one of the known kinds"),
        ({"kind": "other"}, "an ask needs one of the known kinds"),
        ({"kind": "verify"}, "an object with exactly executionId is needed"),
        ({"kind": "verify", "executionId": "exe_1", "more": 1}, "an object with exactly executionId is needed"),
        ({"kind": "verify", "execution_id": "exe_1"}, "an object with exactly executionId is needed"),
        ({"kind": "verify", "executionId": 1}, "Input should be a valid string"),
        ({"kind": "recall", "job": "j", "names": "a", "whole": True}, "Input should be a valid tuple"),
        ({"kind": "recall", "job": "j", "names": [1], "whole": True}, "0: Input should be a valid string"),
        ({"kind": "recall", "job": "j", "names": [], "whole": 1}, "Input should be a valid boolean"),
        ({"kind": "use", "tool": "t", "per": "day", "name": "c", "take": True}, "Input should be 'decision' or 'case'"),
    ],
)
def test_an_ask_of_another_shape_is_refused(given: object, why: str) -> None:
    assert refused(ask_from_json, given) == why
    assert refused(rounds_from_json, [[{"ask": given, "answer": {}}]]) == f"rounds[0][0]: {why}"


def refused(read: Callable[[object], object], given: object) -> str:
    """What is wrong with it, in words."""
    with pytest.raises(InvalidJSON) as raised:
        read(given)
    return str(raised.value)


RECALL = {"kind": "recall", "job": "j", "names": [], "whole": False}
TEXTS = {"kind": "recallTexts", "executionId": "exe_1", "digest": "sha-256:0"}
USE = {"kind": "use", "tool": "t", "per": "case", "name": "c", "take": True}
MEMORY: dict[str, Any] = {"now": "2026-11-30T09:00:00Z", "named": [], "first": [], "releases": [], "full": False}


NO_MEMORY = "an object with exactly first, full, named, now, releases is needed"


@pytest.mark.parametrize(
    ("ask", "answer", "why"),
    [
        (RECALL, None, NO_MEMORY),
        (RECALL, {}, NO_MEMORY),
        (RECALL, {**MEMORY, "more": 1}, NO_MEMORY),
        (RECALL, {**MEMORY, "now": "2026-11-30T09:00:00"}, "not an RFC 3339 time with a zone"),
        (RECALL, {**MEMORY, "full": "no"}, "Input should be a valid boolean"),
        (RECALL, {**MEMORY, "releases": [1]}, "0: Input should be a valid string"),
        (RECALL, {**MEMORY, "named": {}}, "a list is needed"),
        (RECALL, {**MEMORY, "first": [{"caseId": "HC-1"}]}, "an object with exactly caseId, decision is needed"),
        (RECALL, {**MEMORY, "named": [{"caseId": 1, "decision": None}]}, "Input should be a valid string"),
        (
            RECALL,
            {**MEMORY, "named": [{"caseId": "HC-1", "decision": {"job": "j"}}]},
            "executionId: Field required",
        ),
        (TEXTS, {}, "a list is needed"),
        (TEXTS, [{"checkId": "chk_1"}], "an object with exactly checkId, output, passed, release is needed"),
        (
            TEXTS,
            [{"checkId": "chk_1", "output": "o", "release": "r", "passed": "yes"}],
            "Input should be a valid boolean",
        ),
        (USE, "maybe", "a use is free, taken or full"),
        (USE, None, "a use is free, taken or full"),
        (USE, ["free"], "a use is free, taken or full"),
    ],
)
def test_an_answer_of_another_shape_is_refused(ask: dict[str, Any], answer: object, why: str) -> None:
    given = [[], [{"ask": {**USE, "take": False}, "answer": "free"}, {"ask": ask, "answer": answer}]]
    assert refused(rounds_from_json, given) == f"rounds[1][1]: {why}"


def test_a_place_inside_of_what_is_refused_is_named() -> None:
    decision = FakeAuthority().decide(TICKET) | {"case": {"id": 7, "identity": "provided"}}
    given = {**MEMORY, "named": [{"caseId": "HC-1", "decision": decision}]}
    why = refused(rounds_from_json, [[{"ask": RECALL, "answer": given}]])
    assert why == "rounds[0][0]: case: id: Input should be a valid string"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "a list is needed"),
        ({}, "a list is needed"),
        ([{}], "a list is needed"),
        ([[1]], "rounds[0][0]: an object with exactly answer, ask is needed"),
        ([[{"ask": USE}]], "rounds[0][0]: an object with exactly answer, ask is needed"),
        ([[{"ask": USE, "answer": "free"}] * 2], "rounds[0][1]: the ask stands in its round already"),
    ],
)
def test_rounds_of_another_shape_are_refused(given: object, why: str) -> None:
    assert refused(rounds_from_json, given) == why


def test_what_an_answer_holds_besides_is_written_as_json() -> None:
    given = FakeAuthority().description() | {"facts": {"seen": (1, 2), "at": START}}
    ((written,),) = rounds_to_json([{Describe("triage-ticket", "2026-11-03.1"): given}])
    assert written["answer"]["facts"] == {"seen": [1, 2], "at": "2026-11-30T09:00:00Z"}


@pytest.mark.parametrize("asked", [Verify("exe_1"), Describe("j", "r"), VerifyOutputCheck("chk_1")])
def test_what_was_unavailable_is_recorded_with_its_reason(asked: Ask) -> None:
    for answer in (Unavailable("it did not answer in time"), "no object", {"valid": True}, object()):
        ((written,),) = rounds_to_json([{asked: answer}])
        assert list(written["answer"]) == ["unavailable"]
    assert rounds_from_json([[written]])[0][asked] == Unavailable("the answer was not an object")


@pytest.mark.parametrize("answers", [[], [1, 2]])
def test_a_driver_that_answers_less_or_more_than_was_asked_is_an_error(answers: list[object]) -> None:
    scene = gate, _, _, _ = at_the_helpdesk()
    call = call_of(scene)
    procedure = recording(judge(call.session_id, call.tool, call.arguments, gate._book, Trail(), take=True), [])
    next(procedure)
    with pytest.raises(ValueError, match="zip"):
        procedure.send(answers)


def test_closing_a_recording_closes_what_it_records() -> None:
    closed: list[bool] = []

    def asks() -> Procedure[None]:
        try:
            yield (Verify("exe_1"),)
        finally:
            closed.append(True)

    rounds: list[Round] = []
    procedure = recording(asks(), rounds)
    next(procedure)
    procedure.close()
    assert closed == [True]
    assert rounds == []


def test_a_subject_that_ignores_capitals_replays_by_its_own_rule() -> None:
    authority = FakeAuthority(subject=COMPANY_SUBJECT, fresh_for=timedelta(minutes=5))
    gate, _ = helpdesk(authority=authority)
    decided(gate, authority, "hc-1201")
    scene = gate, authority, REPLY, reply()
    verdict, rounds = check(scene)
    assert verdict.allow
    assert replay(call_of(scene), gate._book, through_json(rounds)) == verdict
