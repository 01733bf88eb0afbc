"""7 · Verdict: what the gate says about one call, and the text that the model is shown.

Requirements G31–G36. A verdict is a value; `ActionDenied` carries one where something has to be stopped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from preaction._core.call import plain
from preaction._core.denied import CheckName, Code, Denied
from preaction._core.trail import CheckResult, Trail
from preaction.errors import InvalidJSON, PreactionError
from preaction.wire.digest import digest, spelled_out
from preaction.wire.models import Escalation

FIX_THE_TEXT = "Fix what check_output flagged, check it again, then retry."
"""The next step of G28, word for word."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Every check passed. Built in one line of the whole package, at the end of the procedure."""

    reason: str = "Allowed: every check passed."


@dataclass(frozen=True, slots=True)
class Ungated:
    """The tool has no rule, and the gate was told to leave such tools alone."""

    reason: str = "Not gated: no rule names this tool."


Judgement = Allowed | Denied | Ungated


@dataclass(frozen=True)
class Verdict:
    """The gate's answer for one call. `str(verdict)` is its reason.

    `allow` is the verdict, `enforced` whether it is binding (`mode="observe"` reports without it; `blocks` is the
    two together). `escalate` and `escalation` are the policy's own next step and hand-off, quoted from the release.
    `checks`, `case` and the ids are for logs and people, never for the model.
    """

    allow: bool
    reason: str
    code: Code
    tool: str
    session_id: Any
    enforced: bool = True
    escalate: str | None = None
    escalation: Escalation | None = None
    case: str | None = None
    execution_id: str | None = None
    release: str | None = None
    outcome: str | None = None
    failed: CheckName | None = None
    _trail: Trail = field(default_factory=Trail, repr=False, compare=False)

    @property
    def blocks(self) -> bool:
        """Whether the call must not run: denied, and the verdict is binding."""
        return not self.allow and self.enforced

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that were checked, as a new plain copy at each access.

        Empty where they could not be read, and where no rule names the tool: then nothing was checked.
        """
        call = self._trail.call
        return {} if call is None else plain(call.arguments)

    @cached_property
    def call_digest(self) -> str:
        """`sha-256:…` of tool and arguments in canonical JSON: equal for equal calls, whatever their layout.

        Integers beyond ±2⁵³ have no RFC 8785 form; they enter as their digits, with their places beside them:
        JSON pointers in the order of their code points.
        """
        return call_digest(self.tool, self.arguments)

    @cached_property
    def checks(self) -> Mapping[CheckName, CheckResult]:
        """The six checks by name, in order."""
        return self._trail.results(self.failed)

    def __str__(self) -> str:
        return self.reason

    def __getstate__(self) -> dict[str, Any]:  # what a copy in another process needs: the checks, not the rule book
        return {**self.__dict__, "checks": self.checks, "_trail": Trail(call=self._trail.call)}


def call_digest(tool: str, arguments: Mapping[str, Any]) -> str:
    """`sha-256:…` of a call: see `Verdict.call_digest`."""
    call = {"tool": tool, "arguments": dict(arguments)}
    try:
        return digest(call)
    except InvalidJSON:
        spelled, large = spelled_out(call["arguments"])
        return digest({**call, "arguments": spelled, "integers": large})


def verdict_of(judgement: Judgement, trail: Trail, *, tool: Any, session_id: Any, enforced: bool) -> Verdict:
    """The public verdict on one call. Only `Allowed` and `Ungated` allow."""
    denied = judgement if isinstance(judgement, Denied) else None
    decision = trail.decision
    code: Code = denied.code if denied else "not_gated" if isinstance(judgement, Ungated) else "allowed"
    return Verdict(
        allow=isinstance(judgement, (Allowed, Ungated)),
        reason=judgement.reason,
        code=code,
        tool=tool_name(tool),
        session_id=session_id,
        enforced=enforced,
        escalate=trail.escalate,
        escalation=trail.escalation,
        case=trail.candidate.case_id if trail.candidate is not None else None,
        execution_id=decision.execution_id if decision is not None else None,
        release=decision.release if decision is not None else None,
        outcome=decision.outcome.id if decision is not None and decision.outcome is not None else None,
        failed=denied.check if denied else None,
        _trail=trail,
    )


def tool_name(tool: object) -> str:
    """The tool as a text to log and to hash, whatever was given for it; no code of the object itself runs."""
    if not issubclass(type(tool), str):
        return type(tool).__name__
    return str.__str__(cast("str", tool)).encode("utf-8", "backslashreplace").decode()


def denial_text(verdict: Verdict) -> str:
    """G31: what the model is shown: the reason, then the policy's next step and escalation id, a line each."""
    lines = [verdict.reason]
    if verdict.escalate:
        lines.append("Next step: " + " ".join(verdict.escalate.split()))
    if verdict.escalation:
        lines.append("Escalation " + " ".join(verdict.escalation.id.split()))
    return "\n".join(lines)


class ActionDenied(PreactionError):
    """A guarded call was denied and did not run. Its text is `denial_text(verdict)`."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(denial_text(verdict))
        self.verdict = verdict

    def __reduce__(self) -> tuple[type["ActionDenied"], tuple[Verdict]]:
        return type(self), (self.verdict,)  # by default only the text would come over to another process
