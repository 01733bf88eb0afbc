"""0 · Denied: why a call doesn't go through, as a value. Every stage may return one."""

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

CheckName: TypeAlias = Literal["fields", "case", "fresh", "verified", "pack", "text"]
CHECK_NAMES: tuple[CheckName, ...] = ("fields", "case", "fresh", "verified", "pack", "text")

Code: TypeAlias = Literal[
    "malformed_call",
    "field_not_allowed",
    "field_repeated",
    "field_refused",
    "field_value_not_allowed",
    "not_gated",
    "tool_not_listed",
    "tool_name_suspect",
    "case_unclear",
    "case_not_decided",
    "recipient_not_plain",
    "recipient_not_allowed",
    "not_a_company",
    "subject_unclear",
    "stale",
    "clock_skew",
    "verify_failed",
    "receipt_invalid",
    "replay_mismatch",
    "release_not_allowed",
    "undecided",
    "outcome_not_allowed",
    "rule_invalid",
    "output_check_missing",
    "output_check_failed",
    "no_session",
    "session_full",
    "already_used",
    "gate_error",
    "allowed",
]

NextStep: TypeAlias = Literal["outcome", "unresolved", "text"]
"""Whose next step a denial quotes: the outcome's, the unresolved path's, or the fixed one for texts (G32, G33)."""


@dataclass(frozen=True, slots=True)
class Denied:
    """A failed check. `reason` is one line and one sentence, for a model."""

    code: Code
    check: CheckName | None
    reason: str
    next_step: NextStep | None = None


def deny(
    code: Code, check: CheckName | None, why: str, change: str = "", *, next_step: NextStep | None = None
) -> Denied:
    """Build the reason: that nothing was done, `why`, and what to `change` where the model can repair the call."""
    reason = f"Denied, nothing was done: {why}; {change}." if change else f"Denied, nothing was done: {why}."
    return Denied(code, check, reason, next_step)


def quote(value: object) -> str:
    """A value or name of the call, escaped to ASCII on one line and cut at 80 characters, so that it can't speak."""
    shown = _ENCODER.encode(value[:80] if isinstance(value, str) else value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def unquoted(reason: str) -> str:
    """A reason without what it quotes, which may be of the call. A quotation that was cut has no end: so has this."""
    head, quotation, rest = reason.partition('"')
    if not quotation:
        return reason
    _, end, tail = rest.rpartition('"')
    return head + '"…"' + (tail if end and "..." not in rest else "")


_ENCODER = json.JSONEncoder(default=lambda other: type(other).__name__)
