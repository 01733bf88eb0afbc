"""Deciding again on other facts: a case that was decided stays as it was, unless the pack says otherwise."""

import json
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authority.asking import evidence
from authority.packs import HELPDESK, INVOICES
from preaction.authority import LocalAuthority
from preaction.authority.packs.decide import decide
from preaction.authority.packs.release import read_release

Opened = Callable[..., LocalAuthority]

ALLOWED = HELPDESK.replace("{fresh_for: PT1H}", "{fresh_for: PT1H, changes: allow}")
KEYED = """
pack: keyed
version: "1"
jobs:
  renew:
    title: Renew
    subject: {kind: contract, identity: derived, match: case-insensitive, key: [vendor]}
    facts:
      vendor: {type: string, from: caller}
      paid: {type: boolean, from: caller}
      note: {type: object, from: caller}
    outcomes:
      - {id: renew, when: facts.paid}
      - {id: wait, when: "!facts.paid"}
    when_unresolved: {next_step: Wait.}
""".lstrip()


def said(decision: dict[str, Any]) -> tuple[str | None, list[str]]:
    """The outcome, and the problems."""
    return decision["outcome"] and decision["outcome"]["id"], decision["problems"]


def on(authority: LocalAuthority, case: str = "HC-1201", **facts: Any) -> dict[str, Any]:
    """Decide on these facts, all from a human."""
    given = {name: {"value": value, "source": "human"} for name, value in facts.items()}
    return authority.decide("triage-ticket", entity_id=case, evidence=given)


CHANGED = (None, ["evidence_changed"])
QUESTION: tuple[str | None, list[str]] = ("billing-question", [])


def test_a_case_is_not_decided_again_on_other_facts(helpdesk: LocalAuthority) -> None:
    assert said(on(helpdesk, topic="billing", amount=240)) == ("refund-review", [])
    second = on(helpdesk, topic="billing", amount=38)
    assert said(second) == CHANGED
    assert second["missing"] == []
    assert second["escalation"]["id"] == "triage-desk"
    assert helpdesk.verify(second["executionId"])["valid"]  # a replay says the same
    assert said(on(helpdesk, topic="billing", amount=240)) == ("refund-review", [])


def test_the_undecided_ones_between_are_not_what_counts(helpdesk: LocalAuthority) -> None:
    assert said(on(helpdesk, topic="outage", amount=1)) == (None, [])  # nothing was decided yet
    assert said(on(helpdesk, topic="billing", amount=38)) == QUESTION
    for amount in (39, 39, 40):
        assert said(on(helpdesk, topic="billing", amount=amount)) == CHANGED
    assert said(on(helpdesk, topic="billing", amount=38)) == QUESTION


@pytest.mark.parametrize("amount", [5, 5.0])
def test_another_spelling_is_the_same_value(helpdesk: LocalAuthority, amount: float) -> None:
    on(helpdesk, topic="billing", amount=5)
    assert said(on(helpdesk, topic="billing", amount=amount)) == QUESTION


def test_another_source_and_another_time_change_no_value(helpdesk: LocalAuthority) -> None:
    helpdesk.decide("triage-ticket", entity_id="HC-1201", evidence=evidence())
    given = evidence()
    given["topic"] = {"value": "billing", "source": "classifier", "observedAt": "2026-11-30T08:30:00Z"}
    assert said(helpdesk.decide("triage-ticket", entity_id="HC-1201", evidence=given)) == QUESTION


def test_a_fact_more_and_a_fact_less_are_a_change(opened: Opened) -> None:
    pack = HELPDESK.replace('facts.topic == "billing" && facts.amount < 100.0', 'facts.topic == "billing"')
    authority = opened(pack)
    assert said(on(authority, topic="billing")) == QUESTION
    assert said(on(authority, topic="billing", amount=5)) == CHANGED
    assert said(on(authority, "HC-2", topic="billing", amount=5)) == QUESTION
    assert said(on(authority, "HC-2", topic="billing")) == CHANGED


def test_other_cases_and_other_spellings_of_a_case_are_told_apart_as_the_subject_says(opened: Opened) -> None:
    exact = opened()
    on(exact, "HC-1", topic="billing", amount=5)
    assert said(on(exact, "hc-1", topic="billing", amount=6)) == QUESTION
    either = opened(HELPDESK.replace("match: exact", "match: case-insensitive"))
    on(either, "HC-1", topic="billing", amount=5)
    assert said(on(either, "hc-1", topic="billing", amount=6)) == CHANGED


def test_a_pack_may_allow_changes(opened: Opened) -> None:
    authority = opened(ALLOWED)
    assert said(on(authority, topic="billing", amount=240)) == ("refund-review", [])
    assert said(on(authority, topic="billing", amount=38)) == QUESTION


def test_stale_and_changed_are_both_told(helpdesk: LocalAuthority, clock: Any) -> None:
    on(helpdesk, topic="billing", amount=5)
    given = evidence()
    given["topic"]["observedAt"] = clock.text(hours=-2)
    decision = helpdesk.decide("triage-ticket", entity_id="HC-1201", evidence=given)
    assert said(decision) == (None, ["evidence_changed", "evidence_stale"])


def test_a_case_named_by_its_facts(opened: Opened) -> None:
    authority = opened(KEYED)

    def renew(vendor: str, paid: bool, **more: Any) -> tuple[str | None, list[str]]:
        facts = {"vendor": vendor, "paid": paid, **more}
        given = {name: {"value": value, "source": "erp"} for name, value in facts.items()}
        return said(authority.decide("renew", evidence=given))

    assert renew("acme", True, note={"b": 1, "a": [1.0]}) == ("renew", [])
    assert renew("acme", True, note={"a": [1], "b": 1.0}) == ("renew", [])
    assert renew("acme", True, note={"a": [True], "b": 1}) == CHANGED  # true is not 1
    assert renew("acme", False, note={"a": [1], "b": 1}) == CHANGED
    assert renew("Acme", True, note={"a": [1], "b": 1}) == CHANGED  # the same case, and another value of `vendor`
    assert renew("other", False) == ("wait", [])


def test_a_case_that_the_authority_issued(opened: Opened) -> None:
    authority = opened(INVOICES)

    def open_case(urgent: bool, case: str | None = None) -> dict[str, Any]:
        return authority.decide("open-case", entity_id=case, evidence={"urgent": {"value": urgent, "source": "desk"}})

    first = open_case(True)
    assert said(open_case(True)) == ("urgent", [])  # another case
    assert said(open_case(False, first["case"]["id"])) == CHANGED
    assert said(open_case(True, first["case"]["id"].upper())) == ("urgent", [])


def test_revoking_a_decision_opens_no_way_to_other_facts(helpdesk: LocalAuthority) -> None:
    first = on(helpdesk, topic="billing", amount=240)
    helpdesk.revoke(first["executionId"])
    assert said(on(helpdesk, topic="billing", amount=38)) == CHANGED


def test_a_later_release_compares_what_both_ask_for(opened: Opened) -> None:
    authority = opened()
    on(authority, topic="billing", amount=5)
    second = HELPDESK.replace("11-03.1", "11-03.2")
    more = second.replace("amount: {type: number, from: caller}", "urgent: {type: boolean, from: caller}")
    authority.publish(more.replace("facts.amount < 100.0", "facts.urgent").replace("facts.amount >= 100.0", "true"))
    assert said(on(authority, topic="outage", urgent=True)) == CHANGED
    new_word = on(authority, topic="billing", urgent=True)  # nobody could say that before, nor `amount` now
    assert said(new_word) == QUESTION
    assert authority.verify(new_word["executionId"])["valid"]
    assert said(on(authority, topic="billing", urgent=False)) == CHANGED
    authority.publish(HELPDESK.replace("11-03.1", "11-03.3"))
    assert said(on(authority, topic="billing", amount=6)) == QUESTION  # it is compared with the last, not the first


def test_a_release_may_close_and_open_the_door(opened: Opened) -> None:
    authority = opened()
    on(authority, topic="billing", amount=5)
    changed = on(authority, topic="billing", amount=6)
    authority.publish(ALLOWED.replace("11-03.1", "11-03.2"))
    assert said(on(authority, topic="billing", amount=6)) == QUESTION
    assert authority.verify(changed["executionId"])["problems"] == ["superseded"]  # it still replays
    authority.publish(HELPDESK.replace("11-03.1", "11-03.3"))
    assert said(on(authority, topic="billing", amount=5)) == CHANGED


def test_what_it_was_compared_with_is_in_the_record(opened: Opened, tmp_path: Path) -> None:
    authority = opened(db=f"sqlite:///{tmp_path / 'a.db'}")
    first = on(authority, topic="billing", amount=5)
    second = on(authority, topic="billing", amount=6)
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        # The decision before is altered, and then gone: the replay needs neither
        database.execute("update executions set record = '{}' where id = ?", [first["executionId"]])
        database.commit()
    assert authority.verify(second["executionId"])["valid"]


@pytest.mark.parametrize("column", ["record", "status", "outcome", "seal"])
def test_after_an_altered_decision_everything_has_changed(opened: Opened, tmp_path: Path, column: str) -> None:
    authority = opened(db=f"sqlite:///{tmp_path / 'a.db'}")
    on(authority, topic="billing", amount=5)
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute(f"update executions set {column} = 'undecided'")
        database.commit()
    assert said(on(authority, topic="billing", amount=5)) == CHANGED
    assert said(on(authority, topic="billing", amount=5)) == CHANGED  # and it stays so
    assert said(on(authority, "HC-2", topic="billing", amount=5)) == QUESTION


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
def test_of_several_at_once_one_is_decided(opened: Opened) -> None:
    authority = opened()
    asks = 8
    start = Barrier(asks)

    def ask(number: int) -> tuple[str | None, list[str]]:
        start.wait(60)
        return said(on(authority, topic="billing", amount=number))

    with ThreadPoolExecutor(asks) as pool:
        answers = sorted(pool.map(ask, range(asks)), key=str)
    assert answers == [QUESTION, *[CHANGED] * (asks - 1)]


JOB = read_release(KEYED).jobs["renew"]
VALUES = st.fixed_dictionaries(
    {"vendor": st.sampled_from(["a", "A", "é", "é"]), "paid": st.booleans()},
    optional={"note": st.dictionaries(st.sampled_from("xy"), st.sampled_from([0, 1, True, False, "1", None]))},
)


@given(VALUES, VALUES)
def test_it_has_changed_exactly_when_the_canonical_json_differs(then: Any, now: Any) -> None:
    request = {"evidence": {name: {"value": value} for name, value in now.items()}, "fields": {}, "content": {}}
    before = {"executionId": "exe_1", "release": "1", "values": then, "notAsked": []}
    ruling = decide(JOB, request, datetime(2026, 11, 30, tzinfo=UTC), before)
    same = json.dumps(then, sort_keys=True) == json.dumps(now, sort_keys=True)
    assert (ruling.problems == ()) == same
