"""The largest request that is taken leaves a record that is confirmed like any other."""

from collections.abc import Callable

import pytest

from authority.asking import REPLY, evidence
from authority.packs import INVOICES
from preaction.authority import LocalAuthority
from preaction.authority.server.operations import KIB, OPERATIONS

MOST = {operation.name: operation.max_bytes for operation in OPERATIONS}


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\U0001f600"])
def test_a_check_of_the_longest_text_stands(helpdesk: LocalAuthority, letter: str) -> None:
    made = helpdesk.decide("triage-ticket", entity_id="HC-1", evidence=evidence())
    body = letter * ((MOST["check_output"] - KIB) // len(letter.encode())) + REPLY["body"]
    check = helpdesk.check_output(made["executionId"], output="billing-team-reply", content={"body": body})
    assert helpdesk.verify_output_check(check["checkId"])["valid"]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_decision_on_the_longest_id_stands_and_is_found(opened: Callable[..., LocalAuthority], kind: str) -> None:
    authority = opened(INVOICES)
    unlike = "".join(chr(0x4E00 + number * 97 % 20_000) for number in range(219))  # no database makes this shorter
    fields = {"vendor": unlike, "invoice": 1, "amount": 1.0}
    decision = authority.decide("pay-invoice", fields=fields)
    assert 1950 < len(decision["case"]["id"]) <= 2000
    assert authority.verify(decision["executionId"])["valid"]
    found = authority._operators.executions(authority._operator, {"case": decision["case"]["id"]})
    assert [each.execution_id for each in found.items] == [decision["executionId"]]


def test_a_decision_on_the_longest_content_stands(opened: Callable[..., LocalAuthority]) -> None:
    authority = opened(INVOICES)
    mail = {"subject": "s", "body": "x" * (MOST["decide_job"] - KIB)}
    made = authority.decide("sort-mail", content=mail)
    assert authority.verify(made["executionId"])["valid"]
