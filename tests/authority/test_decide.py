"""A request is read against the job, then decided on."""

from types import MappingProxyType
from typing import Any

import pytest

from authority.asking import evidence, refusal
from authority.conftest import Clock
from preaction.authority import LocalAuthority


def decided(authority: LocalAuthority, **request: Any) -> dict[str, Any]:
    return authority.decide("triage-ticket", **{"entity_id": "HC-1201", "evidence": evidence(), **request})


def test_the_first_outcome_whose_condition_is_true_is_the_outcome(helpdesk: LocalAuthority, clock: Clock) -> None:
    decision = decided(helpdesk)
    execution_id, receipt = decision.pop("executionId"), decision.pop("receipt")
    assert execution_id.startswith("exe_01")
    assert receipt.count(".") == 2
    assert decision == {
        "job": "triage-ticket",
        "pack": "helpdesk",
        "release": "2026-11-03.1",
        "case": {"id": "HC-1201", "identity": "provided"},
        "entity_id": "HC-1201",
        "status": "decided",
        "outcome": {"id": "billing-question", "title": "Billing question"},
        "nextStep": "Answer with the billing team's reply.",
        "escalation": None,
        "missing": [],
        "problems": [],
        "decidedAt": "2026-11-30T09:00:00Z",
        "evidenceFreshUntil": "2026-11-30T10:00:00Z",
    }


def test_an_outcome_hands_off_with_trigger_and_reason(helpdesk: LocalAuthority) -> None:
    decision = decided(helpdesk, evidence=evidence(amount=100))
    assert decision["outcome"]["id"] == "refund-review"
    assert decision["escalation"] == {
        "id": "refunds-lead",
        "trigger": "a refund of 100 or more",
        "why": "Refunds of this size need a person's name on them.",
    }


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (None, ["amount", "topic"]),
        ({}, ["amount", "topic"]),
        ({"topic": {"value": "billing", "source": "human"}}, ["amount"]),
        ({"topic": {"value": "other", "source": "human"}}, []),
        ({"amount": {"value": 5, "source": "erp"}}, ["topic"]),
        (evidence(topic="outage"), []),
    ],
)
def test_a_case_without_an_outcome_takes_the_unresolved_path(
    helpdesk: LocalAuthority, given: dict[str, Any] | None, missing: list[str]
) -> None:
    decision = decided(helpdesk, evidence=given)
    assert (decision["status"], decision["outcome"], decision["missing"]) == ("undecided", None, missing)
    assert decision["problems"] == []
    assert decision["nextStep"] == "Leave the ticket to the triage desk."
    assert decision["escalation"]["id"] == "triage-desk"


def test_freshness_counts_from_the_oldest_evidence(helpdesk: LocalAuthority, clock: Clock) -> None:
    given = evidence()
    given["topic"]["observedAt"] = clock.text(minutes=-50)
    given["amount"]["observedAt"] = clock.text(minutes=4)
    assert decided(helpdesk, evidence=given)["evidenceFreshUntil"] == "2026-11-30T09:10:00Z"


def test_evidence_that_is_stale_already_decides_nothing(helpdesk: LocalAuthority, clock: Clock) -> None:
    given = evidence()
    given["topic"]["observedAt"] = clock.text(hours=-1)
    decision = decided(helpdesk, evidence=given)
    assert (decision["status"], decision["problems"]) == ("undecided", ["evidence_stale"])
    assert decision["escalation"]["id"] == "triage-desk"
    assert decision["evidenceFreshUntil"] == "2026-11-30T09:00:00Z"


def test_evidence_of_the_future_is_refused_beyond_300_seconds(helpdesk: LocalAuthority, clock: Clock) -> None:
    given = evidence()
    given["topic"]["observedAt"] = clock.text(seconds=300)
    assert decided(helpdesk, evidence=given)["status"] == "decided"
    given["topic"]["observedAt"] = clock.text(seconds=300, microseconds=1)
    status, errors = refusal(decided, helpdesk, evidence=given)
    assert (status, list(errors)) == (422, ["/evidence/topic/observedAt"])


@pytest.mark.parametrize(
    ("request_", "pointers"),
    [
        ({"entity_id": None}, ["/entity_id"]),
        ({"entity_id": ""}, ["/entity_id"]),
        ({"entity_id": " HC-1"}, ["/entity_id"]),
        ({"entity_id": "HC\n1"}, ["/entity_id"]),
        ({"entity_id": "x" * 201}, ["/entity_id"]),
        ({"entity_id": 5}, ["/entity_id"]),
        ({"fields": {}}, ["/fields"]),
        ({"content": {}}, ["/content"]),
        ({"evidence": []}, ["/evidence"]),
        ({"evidence": evidence(topic="refund")}, ["/evidence/topic/value"]),
        ({"evidence": evidence(topic=None)}, ["/evidence/topic/value", "/evidence/topic/value"]),
        ({"evidence": evidence(amount="5")}, ["/evidence/amount/value"]),
        ({"evidence": evidence(amount=True)}, ["/evidence/amount/value"]),
        ({"evidence": evidence(amount=2**60)}, [""]),
        ({"evidence": evidence(amount=float("nan"))}, [""]),
        ({"evidence": evidence(amount=object())}, [""]),
        ({"evidence": {"mood": {"value": 1, "source": "human"}}}, ["/evidence/mood"]),
        ({"evidence": {"topic": {"value": "billing", "source": "model"}}}, ["/evidence/topic/source"]),
        ({"evidence": {"amount": {"value": 1, "source": ""}}}, ["/evidence/amount/source"]),
        ({"evidence": {"amount": {"value": 1, "source": "x" * 201}}}, ["/evidence/amount/source"]),
        ({"evidence": {"amount": {"value": 1}}}, ["/evidence/amount/source"]),
        ({"evidence": {"amount": {"source": "erp"}}}, ["/evidence/amount/value"]),
        ({"evidence": {"amount": {"value": 1, "source": "erp", "sure": True}}}, ["/evidence/amount/sure"]),
        (
            {"evidence": {"amount": {"value": 1, "source": "erp", "observedAt": "2026-11-30T08:00:00"}}},
            ["/evidence/amount/observedAt"],
        ),
        ({"evidence": {"a/b~c": {"value": 1, "source": "erp"}}}, ["/evidence/a~1b~0c"]),
        ({"content": {"body": 5}}, ["/content/body"]),
    ],
)
def test_a_wrong_request_is_told_where(helpdesk: LocalAuthority, request_: dict[str, Any], pointers: list[str]) -> None:
    status, errors = refusal(decided, helpdesk, **request_)
    assert status == 422
    assert list(errors) == list(dict.fromkeys(pointers))


def test_a_refusal_repeats_nothing_of_the_values(helpdesk: LocalAuthority) -> None:
    for given in (evidence(topic="s3cret"), evidence(amount="s3cret")):
        _, errors = refusal(decided, helpdesk, evidence=given)
        assert "s3cret" not in str(errors)
    given = {"topic": {"value": "billing", "source": "s3cret"}}
    assert refusal(decided, helpdesk, evidence=given)[1] == {
        "/evidence/topic/source": "this fact comes from one of: classifier, human"
    }


def test_all_places_are_told_at_once(helpdesk: LocalAuthority) -> None:
    given = {"topic": {"value": "x", "source": "y"}, "amount": {"value": "z", "source": "erp"}}
    _, errors = refusal(decided, helpdesk, entity_id=None, evidence=given)
    assert list(errors) == ["/entity_id", "/evidence/topic/source", "/evidence/topic/value", "/evidence/amount/value"]


def test_an_unknown_job_is_not_found(helpdesk: LocalAuthority) -> None:
    assert refusal(helpdesk.decide, "triage", entity_id="1")[0] == 404
    assert refusal(helpdesk.decide, "\ud800", entity_id="1")[0] == 404


def test_python_callers_may_give_any_mapping_and_aware_times(helpdesk: LocalAuthority, clock: Clock) -> None:
    given = evidence()
    given["topic"]["observed_at"] = clock.now
    assert decided(helpdesk, evidence=MappingProxyType(given))["status"] == "decided"
    given["topic"]["observed_at"] = clock.now.replace(tzinfo=None)
    assert refusal(decided, helpdesk, evidence=given)[0] == 422


async def test_the_async_methods_give_the_same_answers(helpdesk: LocalAuthority) -> None:
    decision = await helpdesk.adecide("triage-ticket", entity_id="HC-1", evidence=evidence())
    execution_id = decision["executionId"]
    text = {"body": "The billing team"}
    check = await helpdesk.acheck_output(execution_id, output="billing-team-reply", content=text)
    assert await helpdesk.averify(execution_id) == helpdesk.verify(execution_id)
    assert await helpdesk.averify_output_check(check["checkId"]) == helpdesk.verify_output_check(check["checkId"])
    assert await helpdesk.alist_jobs() == helpdesk.list_jobs()
    assert await helpdesk.adescribe_job("triage-ticket") == helpdesk.describe_job("triage-ticket")
