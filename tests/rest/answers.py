"""Good answers in the wire's shape, all about one execution, and the asks that they answer."""

import copy
from typing import Any

from preaction._core.facts import Ask, Describe, Verify, VerifyOutputCheck
from preaction.wire.digest import content_digest
from preaction.wire.models import JobDescription, OutputCheckVerification, Verification

KEY = "agent-key-that-nobody-may-see"
CONTENT = {"body": "Your refund is on its way."}
DIGEST = content_digest(CONTENT)

VERIFY = Verify("exe_1")
DESCRIBE = Describe("triage-ticket", "2026-11-03.1")
CHECK = VerifyOutputCheck("chk_1")
ASKS: list[Ask] = [VERIFY, DESCRIBE, CHECK]

REPLAY: dict[str, Any] = {
    "valid": True,
    "problems": [],
    "executionId": "exe_1",
    "verifiedAt": "2026-11-30T09:05:00Z",
    "replay": {
        "job": "triage-ticket",
        "release": "2026-11-03.1",
        "case": {"id": "HC-1201", "identity": "provided"},
        "status": "decided",
        "outcome": "billing-question",
        "escalation": None,
        "evidenceFreshUntil": "2026-11-30T10:00:00Z",
    },
}
DESCRIPTION: dict[str, Any] = {
    "job": "triage-ticket",
    "pack": "helpdesk",
    "release": "2026-11-03.1",
    "title": "Triage a ticket",
    "outcomes": [{"id": "billing-question", "title": "Billing question", "outputs": ["billing-team-reply"]}],
}
CHECKED: dict[str, Any] = {
    "valid": True,
    "passed": True,
    "checkId": "chk_1",
    "executionId": "exe_1",
    "output": "billing-team-reply",
    "release": "2026-11-03.1",
    "contentDigest": DIGEST,
    "verifiedAt": "2026-11-30T09:05:00Z",
}
OUTPUT_CHECK: dict[str, Any] = {
    "checkId": "chk_1",
    "executionId": "exe_1",
    "output": "billing-team-reply",
    "release": "2026-11-03.1",
    "passed": True,
    "findings": [],
    "contentDigest": DIGEST,
    "checkedAt": "2026-11-30T09:04:00Z",
}
DECISION: dict[str, Any] = {
    "executionId": "exe_1",
    "job": "triage-ticket",
    "release": "2026-11-03.1",
    "case": {"id": "HC-1201", "identity": "provided"},
    "status": "decided",
    "outcome": {"id": "billing-question", "title": "Billing question"},
    "decidedAt": "2026-11-30T09:00:00Z",
}
JOBS: list[dict[str, Any]] = [
    {"job": "triage-ticket", "pack": "helpdesk", "release": "2026-11-03.1", "title": "Triage a ticket"}
]
EVERYTHING: dict[str, Any] = {**REPLAY, "description": DESCRIPTION, "outputChecks": {"chk_1": CHECKED}}

ANSWERS: dict[Ask, object] = {
    VERIFY: Verification.model_validate(REPLAY),
    DESCRIBE: JobDescription.model_validate(DESCRIPTION),
    CHECK: OutputCheckVerification.model_validate(CHECKED),
}
"""What a batch of `ASKS` comes to when all is well."""


def changed(value: dict[str, Any], path: str, to: Any = ...) -> dict[str, Any]:
    """A copy in which the dotted path holds `to`, or nothing when `to` is left out."""
    result = copy.deepcopy(value)
    *steps, last = path.split(".")
    at: Any = result
    for step in steps:
        at = at[int(step)] if isinstance(at, list) else at[step]
    if to is ...:
        del at[last]
    else:
        at[last] = to
    return result
