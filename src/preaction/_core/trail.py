"""6 · Trail: what the procedure found on its way, kept as it is and put into words only when somebody looks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from preaction._core.call import Call
from preaction._core.checks import CHECKS, Evidence
from preaction._core.denied import CHECK_NAMES, CheckName
from preaction._core.facts import Known
from preaction.wire.models import Decision, Escalation
from preaction.wire.times import write_time


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One of the six checks: how it went, and what it saw (for logs and people, never for the model)."""

    state: Literal["passed", "failed", "not reached"]
    saw: Mapping[str, Any]


@dataclass(slots=True)
class Trail:
    """Filled by the procedure: how far it came, on which case, with which evidence and next step."""

    call: Call | None = None
    candidate: Known | None = None
    evidence: Evidence | None = None
    passed: int = -1
    """How many of `CHECKS` passed; -1 before check 1, fields, did."""
    used: bool = True
    escalate: str | None = None
    escalation: Escalation | None = None

    @property
    def decision(self) -> Decision | None:
        """The recorded decision on the candidate case."""
        return self.candidate.decision if self.candidate is not None else None

    def results(self, failed: CheckName | None) -> dict[CheckName, CheckResult]:
        """The six checks by name, in order; `failed` is the one that denied."""
        remaining = {name for name, _ in CHECKS[max(self.passed, 0) :]} | ({"fields"} if self.passed < 0 else set())
        return {
            name: CheckResult(
                "failed" if name == failed else "not reached" if name in remaining else "passed", self._saw(name)
            )
            for name in CHECK_NAMES
        }

    def _saw(self, name: CheckName) -> dict[str, Any]:
        if name == "fields":
            return {} if self.call is None else {"set": sorted(self.call.arguments)}
        if self.candidate is None:
            return {}
        if name == "case":
            return {"case": self.candidate.case_id}
        decision, e = self.decision, self.evidence
        if name == "fresh" and decision is not None:
            limit = decision.evidence_fresh_until
            return {
                "decidedAt": write_time(decision.decided_at),
                "evidenceFreshUntil": None if limit is None else write_time(limit),
                **({} if e is None else {"now": write_time(e.now)}),
            }
        return {} if e is None else _saw_evidence(name, e)


def _saw_evidence(name: CheckName, e: Evidence) -> dict[str, Any]:
    if name == "verified":
        at = e.answer.verified_at
        return {
            "executionId": e.answer.execution_id,
            "valid": e.answer.valid,
            "problems": e.answer.problems,
            "verifiedAt": None if at is None else write_time(at),
        }
    if name == "pack":
        return {
            "release": e.decision.release,
            "outcome": None if e.outcome is None else e.outcome.id,
            "outputs": [] if e.outcome is None else e.outcome.outputs,
            "writes": e.rule.source.writes,
            "outcomes": e.rule.source.outcomes,
        }
    return {} if not e.rule.texts else {"digest": e.text.digest, "outputChecks": [k.check_id for k in e.text.known]}
