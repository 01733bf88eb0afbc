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


def test_a_decision_on_the_longest_content_stands(opened: Callable[..., LocalAuthority]) -> None:
    authority = opened(INVOICES)
    mail = {"subject": "s", "body": "x" * (MOST["decide_job"] - KIB)}
    made = authority.decide("sort-mail", content=mail)
    assert authority.verify(made["executionId"])["valid"]
