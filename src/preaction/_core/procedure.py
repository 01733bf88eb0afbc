"""8 · Procedure: the whole decision on one screen.

It asks for what it needs to know and is sent the answers; where they come from and how they are fetched is the
driver's affair. The same rounds of asks and answers always give the same verdict (G36).
"""

from collections.abc import Mapping

from preaction._core.call import Call, read_call
from preaction._core.case import MAX_RELEASES, find_candidate, releases_to_describe, seek
from preaction._core.checks import (
    CHECKS,
    TRY_LATER,
    Evidence,
    Text,
    check_decision_fresh,
    g19_askable,
    read_text,
    texts_to_confirm,
)
from preaction._core.denied import Code, Denied, deny
from preaction._core.facts import (
    OTHER_DESCRIPTION,
    Describe,
    Procedure,
    Recall,
    RecallTexts,
    Unavailable,
    Use,
    Verify,
    VerifyOutputCheck,
    description,
    text_check,
    verification,
)
from preaction._core.rule import Rule, RuleBook, check_fields, check_rule, check_tool
from preaction._core.trail import Trail
from preaction._core.verdict import FIX_THE_TEXT, Allowed, Judgement, Ungated
from preaction.wire.models import Decision, Escalation, JobDescription, Verification


def judge(
    session_id: object, tool: object, arguments: object, book: RuleBook, trail: Trail, *, take: bool
) -> Procedure[Judgement]:
    """Judge whatever a runtime proposes: a tool without a rule (G6), a call that can't be read (G1, G3), a call."""
    if not isinstance(tool, str) or tool not in book.rules:
        return check_tool(tool, book) or Ungated()
    call = read_call(session_id, tool, arguments)
    if isinstance(call, Denied):
        return call
    trail.call = call
    return (yield from decide(call, book, trail, take=take))


def decide(call: Call, book: RuleBook, trail: Trail, *, take: bool) -> Procedure[Allowed | Denied]:
    """Judge one call on a gated tool; `take` uses up a `once` rule. `trail` is filled for the verdict."""
    denied = yield from _judge(call, book.rules[call.tool], book, trail, take)
    if denied is None:
        return Allowed()
    yield from _quote_next_step(denied, book, trail)
    return denied


def _judge(call: Call, rule: Rule, book: RuleBook, trail: Trail, take: bool) -> Procedure[Denied | None]:
    """The stages in order. The first check that fails gives the reason."""
    denied = check_rule(rule) or check_fields(call, rule, book.refused)  # 1 fields
    if denied is not None:
        return denied
    trail.passed = 0

    sought = seek(call, rule, book)  # 2 case: what the call says, and what the session recorded on it
    if isinstance(sought, Denied):
        return sought
    recall = Recall(book.job, sought.names, whole=sought.entity is None)
    (memory,) = yield (recall,)
    candidate = find_candidate(sought, memory, book)
    if isinstance(candidate, Denied):
        return candidate
    trail.candidate, decision = candidate, candidate.decision
    if decision is None:
        return deny("undecided", "pack", "the latest decision on this case could not be read")

    denied = check_decision_fresh(decision, memory.now, book) or g19_askable(decision)  # 3 fresh, before any request
    if denied is not None:
        return denied

    text = yield from _recall_text(call, rule, decision)
    facts = yield from _fetch(rule, book, decision, releases_to_describe(sought, memory), text)
    if isinstance(facts, Denied):
        return facts
    (again,) = yield (recall,)

    evidence = Evidence(call, rule, book, sought, candidate, decision, memory, again, *facts)
    trail.evidence = evidence
    for _, check in CHECKS:  # 2 case, 4 verified, 3 fresh, 5 pack, 6 text
        denied = check(evidence)
        if denied is not None:
            return denied
        trail.passed += 1
    return (yield from _use_up(evidence, take))


def _recall_text(call: Call, rule: Rule, decision: Decision) -> Procedure[Text]:
    """What the session knows of the text that this call carries, where the rule checks one."""
    digest = read_text(call, rule) if rule.texts else None
    if digest is None:
        return Text()
    (known,) = yield (RecallTexts(decision.execution_id, digest),)
    return Text(digest, known)


def _fetch(
    rule: Rule, book: RuleBook, decision: Decision, releases: tuple[str, ...], text: Text
) -> Procedure[tuple[Verification, Mapping[str, JobDescription], Text] | Denied]:
    """Replay, descriptions and output checks, all in one round; each description bound to what was asked for (G25)."""
    if len(releases) > MAX_RELEASES:
        return deny("case_unclear", "case", "this session was decided under too many releases to compare")
    describe = [Describe(book.job, release) for release in releases]
    checks = [known.check_id for known in texts_to_confirm(rule, decision, text.known)]
    given, *more = yield (Verify(decision.execution_id), *describe, *map(VerifyOutputCheck, checks))
    described: dict[str, JobDescription] = {}
    for ask, one in zip(describe, more[: len(describe)], strict=True):
        found = description(one, ask)
        if isinstance(found, Unavailable):
            code: Code = "replay_mismatch" if found == OTHER_DESCRIPTION else "verify_failed"
            return deny(code, "verified", f"the released policy could not be read ({found.why})", TRY_LATER)
        described[ask.release] = found
    answer = verification(given)
    if isinstance(answer, Unavailable):
        return deny("verify_failed", "verified", f"the decision could not be verified ({answer.why})", TRY_LATER)
    confirmed = dict(zip(checks, map(text_check, more[len(describe) :]), strict=True))
    return answer, described, Text(text.digest, text.known, confirmed)


def _use_up(e: Evidence, take: bool) -> Procedure[Denied | None]:
    """G43a: a `once` rule acts once per decision or case; the use is stored before the call is let through."""
    once = e.rule.source.once
    if once is None:
        return None
    use = Use(e.call.tool, once, e.decision.execution_id if once == "decision" else e.candidate.case_id, take)
    (answer,) = yield (use,)
    if answer == "free":
        return None
    if answer == "taken":
        why = f"this tool already acted on this {once}"
        return deny("already_used", "fresh", why, "look at what it did before you repeat anything")
    return deny("session_full", "fresh", "no more uses can be recorded, and this tool may act only once")


# What the policy says to do instead -----------------------------------------------------------------------------------


def _quote_next_step(denied: Denied, book: RuleBook, trail: Trail) -> Procedure[None]:
    """G32–G34: the company's own next step and hand-off, quoted from the released description."""
    e = trail.evidence
    if denied.next_step == "unresolved":
        undecided = denied.code == "undecided" and e is not None
        found = e.description if undecided and e is not None else (yield from _describe_pinned(book, trail))
        unresolved = None if found is None else found.when_unresolved
        if found is not None and unresolved is not None:
            trail.escalate = unresolved.next_step
            trail.escalation = _escalation(found, unresolved.escalation)
    elif denied.next_step is not None and e is not None:
        outcome_says = None if e.outcome is None else e.outcome.next_step
        trail.escalate = FIX_THE_TEXT if denied.next_step == "text" else outcome_says
        named = e.answer.replay.escalation if e.answer.replay is not None else None
        trail.escalation = _escalation(e.description, None if named is None else named.id)


def _describe_pinned(book: RuleBook, trail: Trail) -> Procedure[JobDescription | None]:
    """The description of the single pinned release, for a case that nothing was decided on."""
    if book.pinned is None:
        return None
    if trail.evidence is not None and book.pinned in trail.evidence.descriptions:
        return trail.evidence.descriptions[book.pinned]
    ask = Describe(book.job, book.pinned)
    (given,) = yield (ask,)
    found = description(given, ask)
    return None if isinstance(found, Unavailable) else found


def _escalation(found: JobDescription, wanted: str | None) -> Escalation | None:
    return next((escalation for escalation in found.escalations if escalation.id == wanted), None)
