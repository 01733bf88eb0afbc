"""The models of the wire: one spelling out, two in, nothing converted, nothing guessed."""

import copy
import json
from typing import Any

import pytest
from pydantic import ValidationError

from preaction.wire import models
from preaction.wire.models import (
    Decision,
    DecisionRequest,
    JobDescription,
    OutputCheck,
    OutputCheckRequest,
    OutputCheckVerification,
    VerdictReport,
    Verification,
    VerifyRequest,
    Wire,
)

CASE = {"id": "HC-1201", "identity": "provided"}
ESCALATION = {"id": "triage-desk", "trigger": "the ticket fits no outcome", "why": "People decide these."}
REPORT = {
    "job": "triage-ticket",
    "tool": "desk__note",
    "code": "allowed",
    "allow": True,
    "enforced": True,
    "case": "HC-1201",
    "executionId": "exe_1",
    "checkId": "chk_1",
    "reason": "Allowed: every check passed.",
    "callDigest": "sha-256:" + "0" * 64,
    "at": "2026-11-30T09:05:00Z",
}
GOOD: list[tuple[type[Wire], dict[str, Any]]] = [
    (
        Decision,
        {
            "executionId": "exe_1",
            "job": "triage-ticket",
            "pack": "helpdesk",
            "release": "2026-11-03.1",
            "case": CASE,
            "entity_id": "HC-1201",
            "status": "decided",
            "outcome": {"id": "billing-question", "title": "Billing question"},
            "nextStep": "Answer.",
            "escalation": ESCALATION,
            "missing": [],
            "problems": [],
            "decidedAt": "2026-11-30T09:00:00Z",
            "evidenceFreshUntil": "2026-11-30T10:00:00Z",
            "receipt": "a.b.c",
        },
    ),
    (
        Verification,
        {
            "valid": True,
            "problems": [],
            "executionId": "exe_1",
            "verifiedAt": "2026-11-30T09:05:00Z",
            "replay": {
                "job": "triage-ticket",
                "release": "2026-11-03.1",
                "case": CASE,
                "entity_id": "HC-1201",
                "status": "decided",
                "outcome": "billing-question",
                "escalation": None,
                "decidedAt": "2026-11-30T09:00:00Z",
                "evidenceFreshUntil": None,
            },
            "description": None,
            "outputChecks": None,
        },
    ),
    (
        JobDescription,
        {
            "job": "triage-ticket",
            "pack": "helpdesk",
            "release": "2026-11-03.1",
            "title": "Triage a ticket",
            "subject": {"kind": "ticket", "identity": "provided", "match": "exact"},
            "facts": {"topic": {"type": "string"}},
            "evidenceFreshFor": "PT1H",
            "outcomes": [
                {"id": "billing-question", "title": "", "nextStep": None, "outputs": ["reply"], "escalation": None}
            ],
            "outputs": [{"id": "reply", "title": "", "fields": ["body"], "rules": ["in words"]}],
            "whenUnresolved": {"nextStep": "Leave it.", "escalation": "triage-desk"},
            "escalations": [ESCALATION],
        },
    ),
    (
        OutputCheck,
        {
            "checkId": "chk_1",
            "executionId": "exe_1",
            "output": "reply",
            "release": "2026-11-03.1",
            "passed": False,
            "findings": [{"rule": "no-promises", "field": "body", "span": [12, 31], "message": "…"}],
            "contentDigest": "sha-256:" + "0" * 64,
            "checkedAt": "2026-11-30T09:04:00Z",
        },
    ),
    (
        OutputCheckVerification,
        {
            "valid": True,
            "passed": True,
            "checkId": "chk_1",
            "executionId": "exe_1",
            "output": "reply",
            "release": "2026-11-03.1",
            "contentDigest": "sha-256:" + "0" * 64,
            "verifiedAt": "2026-11-30T09:05:00Z",
        },
    ),
]
every_model = pytest.mark.parametrize(("model", "value"), GOOD, ids=[model.__name__ for model, _ in GOOD])


def places(value: Any, *at: str | int) -> list[tuple[str | int, ...]]:
    """Every place in a JSON value, but for the inside of what the models leave open."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, part in inner for place in [(*at, key), *(places(part, *at, key) if key != "facts" else [])]]


def put(value: Any, place: tuple[str | int, ...], to: Any) -> Any:
    result = copy.deepcopy(value)
    at = result
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = to
    return result


@every_model
def test_what_is_written_is_what_was_read(model: type[Wire], value: dict[str, Any]) -> None:
    read = model.model_validate(value)
    assert read.model_dump(mode="json") == value
    assert model.model_validate(read.model_dump(mode="json", by_alias=False)) == read
    assert model.model_validate_json(json.dumps(value)) == read


@every_model
def test_what_is_unknown_is_ignored(model: type[Wire], value: dict[str, Any]) -> None:
    assert model.model_validate({**value, "unknown": [1]}) == model.model_validate(value)


@every_model
@pytest.mark.parametrize("bad", [object(), 1.5, 1, b"true"], ids=["object", "float", "int", "bytes"])
def test_nothing_is_converted(model: type[Wire], value: dict[str, Any], bad: object) -> None:
    """The standard tampering: each field in turn holds something of another type."""
    typed = [place for place in places(value) if place[-1] not in {"facts", "description", "outputChecks", "span"}]
    for place in typed:
        if not (bad == 1 and "span" in place):
            with pytest.raises(ValidationError):
                model.model_validate(put(value, place, bad))


@pytest.mark.parametrize("bad", ["true", "false", "", 0, 1, None])
def test_a_bool_is_true_or_false(bad: object) -> None:
    for model, value in GOOD[3:]:
        with pytest.raises(ValidationError):
            model.model_validate({**value, "passed": bad})


@every_model
def test_a_model_cannot_be_changed(model: type[Wire], value: dict[str, Any]) -> None:
    read = model.model_validate(value)
    with pytest.raises(ValidationError, match="frozen"):
        read.release = "other"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("model", "value"),
    [
        (DecisionRequest, {"entity_id": "HC-1", "evidence": {"t": {"value": 1, "source": "human"}}}),
        (OutputCheckRequest, {"output": "reply", "content": {"body": "x"}}),
        (VerifyRequest, {"include": {"description": True, "outputChecks": ["a", "b", "c", "d"]}}),
        (VerifyRequest, {}),
        (VerdictReport, REPORT),
    ],
)
def test_a_request_means_all_that_it_says(model: type[Wire], value: dict[str, Any]) -> None:
    model.model_validate(value)
    with pytest.raises(ValidationError, match="unknown"):
        model.model_validate({**value, "unknown": 1})


def test_at_most_four_output_checks_are_included() -> None:
    with pytest.raises(ValidationError):
        VerifyRequest.model_validate({"include": {"outputChecks": ["a", "b", "c", "d", "e"]}})


def test_every_model_says_what_it_is_and_can_be_described() -> None:
    for model in vars(models).values():
        if isinstance(model, type) and issubclass(model, Wire):
            assert model.__doc__
            assert model.model_json_schema(by_alias=True)
