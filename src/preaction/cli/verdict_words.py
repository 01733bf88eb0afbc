"""A verdict in words for a person: the six checks, what each saw, and what would make the call go through."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from preaction._core.denied import CheckName, Code
from preaction.cli.screen import Row, ascii_safe, marks, readable

if TYPE_CHECKING:
    from preaction._core.trail import CheckResult
    from preaction._core.verdict import Verdict

_PREFIX: Final = "Denied, nothing was done: "
_WIDTH: Final = 12

WHAT_TO_DO: Final[Mapping[Code, str]] = {
    "allowed": "nothing: the tool runs with these arguments",
    "not_gated": "write a rule if the tool acts, or set unlisted: deny",
    "malformed_call": "send one plain JSON object as arguments",
    "field_not_allowed": "leave the field out, or list it in the rule's 'fields' if the tool needs it",
    "field_repeated": "send the field once: two names differ in capitals only",
    "field_refused": "leave the field out, or take it out of 'refuse_fields'",
    "field_value_not_allowed": "send what the reason says, or open the field in the rule",
    "tool_not_listed": "write a rule for the tool, or don't offer it",
    "tool_name_suspect": "call the tool by its exact name, and look at who offers one that looks like it",
    "no_session": "give a session: an id that isn't empty",
    "case_unclear": "name one case in the call, or give the rule 'entity'",
    "case_not_decided": "get a decision on exactly this case, then call again",
    "recipient_not_plain": "give one plain address in each entry",
    "recipient_not_allowed": "write to the decided company, or to whom 'recipients_at' or 'test_recipients' lists",
    "not_a_company": "a person decides; for names of your own network there is 'own_suffixes'",
    "subject_unclear": "name exactly one decided company in the subject line, without control characters",
    "stale": "get a new decision on fresh evidence",
    "clock_skew": "set the clocks of this machine and of the authority",
    "verify_failed": "look at the authority: it gave no usable answer, or doesn't know this decision",
    "receipt_invalid": "get a new decision: this one was revoked, superseded or altered, or never made",
    "replay_mismatch": "get a new decision; if it stays so, tell the operator of the authority",
    "release_not_allowed": "get a new decision, or add the release to 'releases'",
    "undecided": "give the authority the facts that it lacks, or follow the next step",
    "outcome_not_allowed": "follow the next step: the rule or the pack lets other outcomes do this",
    "rule_invalid": "repair the rule; preaction lint names the place",
    "output_check_missing": "have exactly this text checked for this decision, then send it unchanged",
    "output_check_failed": "fix what the output check flagged, and have the text checked again",
    "already_used": "look at what the tool did before anything is repeated",
    "session_full": "start a new session, and look at the bounds of the store",
    "gate_error": "read the log: the gate itself failed",
}
"""Code → what a developer or an operator does about it, as the page on rules says."""

UNJUDGED: Final = frozenset[Code](("verify_failed", "gate_error", "session_full", "no_session"))
"""Denials that say nothing about the call: it could not be judged."""


def rows(verdict: "Verdict", notes: Sequence[str] = ()) -> Iterator[Row]:
    """The verdict for a terminal."""
    tool = ascii_safe(verdict.tool)
    head = f"{tool}: allowed" if verdict.code == "allowed" else f"{tool}: denied, {verdict.code}"
    head = f"{tool}: let through, {verdict.code}" if verdict.code == "not_gated" else head
    yield Row(head, style="good" if verdict.code == "allowed" else "error")
    reason = readable(verdict.reason.removeprefix(_PREFIX))
    if verdict.failed is None and verdict.code != "allowed":
        yield Row("", reason, indent=2)
    if verdict.code != "not_gated":
        for name, result in verdict.checks.items():
            yield _check(name, result, reason)
    if verdict.escalate:
        yield Row("next step", readable(verdict.escalate), indent=2, width=_WIDTH)
    if (hand_off := verdict.escalation) is not None:
        yield Row(
            "escalation",
            f"{readable(hand_off.id)}: {readable(hand_off.trigger)}. {readable(hand_off.why)}",
            "",
            2,
            _WIDTH,
        )
    if verdict.code != "allowed":
        yield Row("what to do", WHAT_TO_DO[verdict.code], indent=2, width=_WIDTH)
    if not verdict.allow and not verdict.enforced:
        yield Row("note", "mode is 'observe': the call would run all the same", indent=2, width=_WIDTH)
    for note in notes:
        yield Row("note", ascii_safe(note), indent=2, width=_WIDTH)


def _check(name: CheckName, result: "CheckResult", reason: str) -> Row:
    passed, failed, not_reached = marks()
    mark, style = {"passed": (passed, "good"), "failed": (failed, "error")}.get(result.state, (not_reached, ""))
    words = reason if result.state == "failed" else "not reached" if result.state == "not reached" else ""
    return Row(f"{mark} {name}", words or ascii_safe(_SAW[name](result.saw)), style, indent=2, width=_WIDTH)


def _case(saw: Mapping[str, Any]) -> str:
    return f"it is about {saw['case']}" if "case" in saw else "one case"


def _fresh(saw: Mapping[str, Any]) -> str:
    until = saw.get("evidenceFreshUntil")
    return f"decided at {_time(saw['decidedAt'])}" + (f", its evidence counts until {_time(until)}" if until else "")


def _time(text: str) -> str:
    """An RFC 3339 time to the second."""
    return re.sub(r"\.[0-9]+", "", text)


def _pack(saw: Mapping[str, Any]) -> str:
    act = f"may write {saw['writes']}" if saw.get("writes") else "lets the tool act"
    return f"under release {saw.get('release')} the outcome {saw.get('outcome')} {act}"


def _text(saw: Mapping[str, Any]) -> str:
    return f"exactly this text passed {', '.join(saw['outputChecks'])}" if saw.get("outputChecks") else "none to check"


_SAW: Final[Mapping[CheckName, Any]] = {
    "fields": lambda saw: f"sets {', '.join(saw.get('set', ())) or 'nothing'}",
    "case": _case,
    "fresh": _fresh,
    "verified": lambda saw: f"the authority confirms {saw.get('executionId')}",
    "pack": _pack,
    "text": _text,
}


def verdict_json(verdict: "Verdict", notes: Sequence[str] = ()) -> dict[str, Any]:
    """The verdict for programs: without arguments, which the digest stands for."""
    return {
        "tool": verdict.tool,
        "allow": verdict.allow,
        "enforced": verdict.enforced,
        "code": verdict.code,
        "reason": verdict.reason,
        "failed": verdict.failed,
        "checks": {name: {"state": each.state, "saw": dict(each.saw)} for name, each in verdict.checks.items()},
        "nextStep": verdict.escalate,
        "escalation": None if verdict.escalation is None else verdict.escalation.model_dump(mode="json"),
        "whatToDo": WHAT_TO_DO[verdict.code],
        "case": verdict.case,
        "executionId": verdict.execution_id,
        "release": verdict.release,
        "outcome": verdict.outcome,
        "callDigest": verdict.call_digest,
        "notes": list(notes),
    }
