"""What the decision asks for, and in which order: nothing that it doesn't need, and nothing twice."""

from collections.abc import Sequence
from typing import Any

import pytest

from kit import REPLY, SESSION, TICKET, decided, helpdesk, reply
from preaction import ActionGate
from preaction._core.denied import Denied
from preaction._core.facts import AnyAsk, Batch, Describe, Procedure, Recall, RecallTexts, Use, Verify
from preaction._core.procedure import judge
from preaction._core.trail import Trail
from preaction._core.verdict import Judgement
from preaction.testing import FakeAuthority

RELEASE = "2026-11-03.1"


def asked(gate: ActionGate, authority: FakeAuthority, given: Any = None) -> tuple[list[Batch], Judgement]:
    """The batches that one call asks for, well answered, and what it comes to."""
    procedure = judge(SESSION, REPLY, reply() if given is None else given, gate._book, Trail(), take=True)
    batches: list[Batch] = []
    answers: Sequence[Any] | None = None
    while True:
        try:
            batch = procedure.send(answers) if answers is not None else next(procedure)
        except StopIteration as end:
            return batches, end.value
        batches.append(batch)
        answers = [answer(gate, authority, ask) for ask in batch]


def answer(gate: ActionGate, authority: FakeAuthority, ask: AnyAsk) -> object:
    if isinstance(ask, (Recall, RecallTexts, Use)):
        return gate._sessions.answer(SESSION, ask)
    return authority.fetch([ask], 1.0)[ask]


def kinds(batches: Sequence[Batch]) -> list[list[str]]:
    return [[type(ask).__name__ for ask in batch] for batch in batches]


def test_all_facts_are_fetched_at_once_and_the_session_is_read_before_and_after() -> None:
    desk = helpdesk(rule={"once": "decision"})
    decided(*desk)
    batches, judgement = asked(*desk)
    assert kinds(batches) == [
        ["Recall"],
        ["RecallTexts"],
        ["Verify", "Describe", "VerifyOutputCheck"],
        ["Recall"],
        ["Use"],
    ]
    assert judgement.reason == "Allowed: every check passed."


def test_without_a_checked_text_none_is_asked_about() -> None:
    desk = helpdesk(rule={"output_check": None})
    decided(*desk)
    assert kinds(asked(*desk)[0]) == [["Recall"], ["Verify", "Describe"], ["Recall"]]


def test_where_a_checked_text_is_missing_none_is_asked_about() -> None:
    desk = helpdesk()
    decided(*desk)
    assert kinds(asked(*desk, {"ticketId": TICKET})[0]) == [["Recall"], ["Verify", "Describe"], ["Recall"]]


@pytest.mark.parametrize(("release", "more"), [(RELEASE, []), ("another", [["Describe"]])])
def test_g33_a_description_that_was_fetched_already_is_not_asked_for_again(release: str, more: list[list[str]]) -> None:
    desk = _, authority = helpdesk(releases=[RELEASE], rule={"output_check": None})
    decided(*desk, release=release)
    authority.answers[Describe("triage-ticket", RELEASE)] = authority.description()
    batches, judgement = asked(*desk, reply(ticketId=TICKET.lower()))
    assert "capitals included" in judgement.reason
    assert kinds(batches)[3:] == more


@pytest.mark.parametrize(
    ("decision", "given", "step"),
    [
        ({"outcome": "refund-review"}, {}, "outcome"),
        ({"outcome": None}, {}, "unresolved"),
        ({}, {"body": "Another text."}, "text"),
        ({}, {"ticketId": None}, None),
    ],
)
def test_g32_a_denial_says_whose_next_step_it_quotes(decision: dict[str, Any], given: Any, step: str | None) -> None:
    desk = helpdesk(rule={"fields": ["ticketId", "body"]})
    decided(*desk, **decision)
    judgement = asked(*desk, reply(**given))[1]
    assert isinstance(judgement, Denied)
    assert judgement.next_step == step


@pytest.mark.parametrize(("rule", "answered"), [({}, 0), ({}, 1), ({}, 2), ({"output_check": None}, 1)])
def test_g25_answers_that_are_fewer_than_the_asks_are_an_error(rule: dict[str, Any], answered: int) -> None:
    gate, authority = helpdesk(rule=rule)
    decided(gate, authority)
    procedure: Procedure[Judgement] = judge(SESSION, REPLY, reply(), gate._book, Trail(), take=True)
    batch = next(procedure)
    while not isinstance(batch[0], Verify):
        batch = procedure.send([answer(gate, authority, ask) for ask in batch])
    answers = [answer(gate, authority, ask) for ask in batch]
    with pytest.raises(ValueError):  # noqa: PT011 (of `zip`, and of unpacking; the gate's door makes a denial of it)
        procedure.send(answers[:answered])


def test_g43a_a_use_is_of_the_decision_or_of_the_case() -> None:
    for once, name in {"decision": "exe_3", "case": TICKET}.items():
        desk = helpdesk(rule={"once": once})
        decided(*desk)
        decided(*desk)
        assert asked(*desk)[0][-1] == (Use(REPLY, once, name, take=True),)  # type: ignore[arg-type]


def test_g08_an_unconfirmed_entity_leaves_another_case_that_differs_by_capitals_alone() -> None:
    desk = gate, authority = helpdesk()
    decided(*desk, TICKET.lower())
    decided(*desk)
    verify = authority.good_answer(Verify("exe_3"))
    authority.answers[Verify("exe_3")] = verify | {"replay": verify["replay"] | {"entity_id": None}}
    assert gate.check(SESSION, REPLY, reply()).allow
