"""A record of the gate's audit: one check, as JSON, with all that its verdict hangs on.

Of texts there are digests, of what the authority and the session answered only what the decision looks at.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from preaction._core.call import Call
from preaction._core.denied import CHECK_NAMES, CheckName, Code, unquoted
from preaction._core.record import Round, rounds_to_json
from preaction._core.rule import RuleBook
from preaction._core.trail import CheckResult
from preaction._core.verdict import Verdict
from preaction.audit.redaction import Redaction, is_id
from preaction.wire.digest import content_digest, digest, spelled_out
from preaction.wire.models import Escalation, Wire
from preaction.wire.times import Time


class Arguments(Wire):
    """`digest` is the call's; `view` the fields that are kept, `left_out` the shapes of the others."""

    digest: str
    view: dict[str, Any]
    left_out: dict[str, Any]


class RulesUsed(Wire):
    """The tool's rule and the gate's options; `digest` is that of all rules together."""

    digest: str
    rule: dict[str, Any] | None
    options: dict[str, Any]


class Seen(Wire):
    """One of the six checks."""

    state: Literal["passed", "failed", "not reached"]
    saw: dict[str, Any]


class Said(Wire):
    """The verdict. `reason` is without what it quotes of the call, unless the arguments are kept whole."""

    allow: bool
    enforced: bool
    code: Code
    reason: str
    failed: CheckName | None
    checks: dict[CheckName, Seen]
    next_step: str | None
    escalation: Escalation | None
    case: str | None
    execution_id: str | None
    release: str | None
    outcome: str | None


class AuditRecord(Wire):
    """One check. `session` is the digest of the session's id, `arguments` are null where they could not be read."""

    kind: Literal["check"]
    id: str
    at: Time
    preaction: str
    job: str
    tool: str
    session: str | None
    arguments: Arguments | None
    rules: RulesUsed
    rounds: list[Any]
    verdict: Said


def session_digest(session_id: object) -> str | None:
    """The digest that stands for a session; None for what is no session id."""
    if not isinstance(session_id, str) or not session_id:
        return None
    return content_digest({"session": session_id.encode("utf-8", "backslashreplace").decode()})


def arguments_of(call: Call | None, digest: str, redaction: Redaction | None) -> Arguments | None:
    """The call's arguments, redacted; None where there is no call that could be read."""
    if call is None or redaction is None:
        return None
    view, left_out = redaction.split(call)
    return Arguments(digest=digest, view=view, left_out=left_out)


def said(verdict: Verdict, redaction: Redaction | None, *, whole: bool) -> Said:
    """The verdict as a record has it."""
    checks = {name: Seen(state=each.state, saw=dict(each.saw)) for name, each in verdict.checks.items()}
    names = checks["fields"].saw.get("set")
    if names is not None and redaction is not None:
        checks["fields"] = Seen(state=checks["fields"].state, saw={"set": redaction.names(names)})
    return Said(
        allow=verdict.allow,
        enforced=verdict.enforced,
        code=verdict.code,
        reason=verdict.reason if whole else unquoted(verdict.reason),
        failed=verdict.failed,
        checks=checks,
        next_step=verdict.escalate,
        escalation=verdict.escalation,
        case=verdict.case,
        execution_id=verdict.execution_id,
        release=verdict.release,
        outcome=verdict.outcome,
    )


def verdict_from(said: Said, tool: str, call_digest: str) -> Verdict:
    """The verdict that a record says; of the call it knows the digest alone."""
    verdict = Verdict(
        allow=said.allow,
        reason=said.reason,
        code=said.code,
        tool=tool,
        session_id=None,
        enforced=said.enforced,
        escalate=said.next_step,
        escalation=said.escalation,
        case=said.case,
        execution_id=said.execution_id,
        release=said.release,
        outcome=said.outcome,
        failed=said.failed,
    )
    checks = {name: CheckResult(said.checks[name].state, said.checks[name].saw) for name in CHECK_NAMES}
    verdict.__dict__.update(checks=checks, call_digest=call_digest)  # both are kept, instead of being found again
    return verdict


def rules_digest(book: RuleBook, options: Mapping[str, Any]) -> str:
    """The digest of all rules and options of a gate."""
    rules, large = spelled_out({tool: rule_to_json(book, tool) for tool in book.rules})
    given = {"job": book.job, "ownTools": sorted(book.own_tools), "options": dict(options)}
    return digest({**given, "rules": rules, "integers": large})


def rule_to_json(book: RuleBook, tool: str) -> dict[str, Any] | None:
    """A tool's rule as it is written, in camelCase and without what is left at its default."""
    rule = book.rules.get(tool)
    return None if rule is None else rule.source.model_dump(mode="json", by_alias=True, exclude_defaults=True)


# What was asked and answered ------------------------------------------------------------------------------------------

_DECISION: Final = (
    *("executionId", "job", "release", "case", "entity_id", "status", "outcome", "decidedAt", "evidenceFreshUntil"),
)
_KEPT: Final[Mapping[str, Sequence[str]]] = {
    "verify": ("valid", "problems", "executionId", "verifiedAt", "replay", "unavailable"),
    "describe": ("job", "release", "subject", "outcomes", "whenUnresolved", "escalations", "unavailable"),
}


def rounds_of(rounds: Sequence[Round], *, whole: bool) -> list[list[dict[str, Any]]]:
    """Rounds as JSON, without words that the decision doesn't look at.

    Names that are no ids become digests, unless the arguments are kept `whole`.
    """
    return [[_entry(each, whole) for each in one] for one in rounds_to_json(rounds)]


def _entry(entry: dict[str, Any], whole: bool) -> dict[str, Any]:
    ask, answer = entry["ask"], entry["answer"]
    if ask["kind"] == "recall":
        names = [name if whole or is_id(name) else content_digest({"name": name}) for name in ask["names"]]
        answer = {**answer, "named": [*map(_known, answer["named"])], "first": [*map(_known, answer["first"])]}
        return {"ask": {**ask, "names": names}, "answer": answer}
    kept = _KEPT.get(ask["kind"])
    return {"ask": ask, "answer": answer if kept is None else _only(kept, answer)}


def _known(known: dict[str, Any]) -> dict[str, Any]:
    decision = known["decision"]
    return {**known, "decision": None if decision is None else _only(_DECISION, decision)}


def _only(names: Sequence[str], given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}
