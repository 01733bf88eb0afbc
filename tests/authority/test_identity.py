"""How a case gets its id: provided, issued or derived."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authority.asking import refusal
from authority.packs import INVOICES, TEXTS
from preaction.authority import LocalAuthority
from preaction.authority.packs.decide import derived_id
from preaction.authority.packs.release import read_release

LEDGER = read_release(INVOICES)


@pytest.fixture
def ledger(opened: Callable[..., LocalAuthority]) -> LocalAuthority:
    return opened(INVOICES)


def test_a_derived_id_comes_from_its_key(ledger: LocalAuthority) -> None:
    decision = ledger.decide("pay-invoice", fields={"vendor": "Acme & Co", "invoice": 7, "amount": 5})
    assert decision["case"] == {"id": "Acme%20%26%20Co:=7", "identity": "derived"}
    assert "entity_id" not in decision
    assert decision["status"] == "decided"
    replay = ledger.verify(decision["executionId"])
    assert replay["valid"]
    assert replay["replay"]["case"] == decision["case"]
    assert "entity_id" not in replay["replay"]


def test_equal_numbers_are_one_case(ledger: LocalAuthority) -> None:
    first, second = (ledger.decide("pay-invoice", fields={"vendor": "a", "invoice": each}) for each in (7, 7.0))
    assert first["case"] == second["case"]
    assert ledger.verify(first["executionId"])["problems"] == ["superseded"]


@pytest.mark.parametrize(
    ("request_", "pointer"),
    [
        ({"fields": {"vendor": "a"}}, "/fields/invoice"),
        ({"fields": {"vendor": "a", "invoice": None}}, "/fields/invoice"),
        ({"fields": {"vendor": "a", "invoice": 1.5}}, "/fields/invoice"),
        ({"fields": {"vendor": "a", "invoice": 1, "amount": -1}}, "/fields/amount"),
        ({"fields": {"vendor": "a", "invoice": 1, "colour": "red"}}, "/fields/colour"),
        ({"fields": {"vendor": "a", "invoice": 1}, "entity_id": "x"}, "/entity_id"),
        ({"fields": {"vendor": "é" * 600, "invoice": 1}}, ""),
        ({}, "/fields"),
        ({"content": {"body": "x"}}, "/fields"),
    ],
)
def test_a_key_that_is_missing_or_wrong_is_refused(
    ledger: LocalAuthority, request_: dict[str, Any], pointer: str
) -> None:
    status, errors = refusal(ledger.decide, "pay-invoice", **request_)
    assert status == 422
    assert pointer in errors


def test_a_missing_field_is_told_with_its_part(ledger: LocalAuthority) -> None:
    assert ledger.decide("pay-invoice", fields={"vendor": "a", "invoice": 1})["missing"] == ["fields.amount"]


def test_content_decides_too(ledger: LocalAuthority) -> None:
    decision = ledger.decide("sort-mail", content={"subject": "Hi", "body": "you win"})
    assert (decision["outcome"]["id"], decision["case"]["id"]) == ("spam", "Hi")
    assert ledger.decide("sort-mail", content={"subject": "Hi"})["missing"] == ["content.body"]
    assert list(refusal(ledger.decide, "sort-mail", content={"subject": "Hi", "foot": "x"})[1]) == ["/content/foot"]
    assert list(refusal(ledger.decide, "sort-mail", content={"body": "Hi"})[1]) == ["/content/subject"]


def test_a_derived_id_may_come_from_evidence(opened: Callable[..., LocalAuthority]) -> None:
    text = INVOICES.replace("identity: issued, match: case-insensitive", "identity: derived, key: [urgent]")
    authority = opened(text)
    decision = authority.decide("open-case", evidence={"urgent": {"value": True, "source": "x"}})
    assert decision["case"]["id"] == "=true"
    assert authority.verify(decision["executionId"])["valid"]
    assert list(refusal(authority.decide, "open-case", evidence={})[1]) == ["/evidence/urgent"]


def test_an_issued_id_is_made_first_and_named_later(ledger: LocalAuthority) -> None:
    urgent = {"urgent": {"value": True, "source": "x"}}
    first = ledger.decide("open-case", evidence=urgent)
    case = first["case"]["id"]
    assert case.startswith("case_01")
    assert "entity_id" not in first
    later = ledger.decide("open-case", entity_id=case.lower(), evidence=urgent)
    assert later["entity_id"] == case.lower()
    assert ledger.verify(first["executionId"])["problems"] == ["superseded"]
    assert ledger.verify(later["executionId"])["replay"]["entity_id"] == case.lower()
    assert ledger.decide("open-case")["case"]["id"] != case


def test_an_id_that_was_never_issued_is_refused(ledger: LocalAuthority) -> None:
    assert refusal(ledger.decide, "open-case", entity_id="case_1") == (
        422,
        {"/entity_id": "this job issues its ids, and never issued this one"},
    )


@pytest.mark.parametrize(("pack", "job", "same"), [(TEXTS, "write", True), (None, "triage-ticket", False)])
def test_the_match_rule_tells_cases_apart(
    opened: Callable[..., LocalAuthority], pack: str | None, job: str, same: bool
) -> None:
    authority = opened(pack) if pack else opened()
    first = authority.decide(job, entity_id="HC-1é")
    authority.decide(job, entity_id="hc-1é")
    assert authority.verify(first["executionId"])["valid"] is not same
    other = authority.decide(job, entity_id="HC-2é")
    authority.decide(job, entity_id="HC-2É")
    assert authority.verify(other["executionId"])["valid"]


exact = st.integers(1 - 2**53, 2**53 - 1)  # what RFC 8785 can write
values = st.tuples(st.text(max_size=8), exact | st.booleans() | st.text(":=%a7", max_size=4))


@given(values, values)
def test_different_keys_give_different_ids(one: tuple[Any, Any], other: tuple[Any, Any]) -> None:
    job = LEDGER.jobs["pay-invoice"]
    first, second = (
        derived_id(job, {"fields": {"vendor": vendor, "invoice": number}}) for vendor, number in (one, other)
    )
    alike = one == other and isinstance(one[1], bool) == isinstance(other[1], bool)
    assert (first == second) is alike
