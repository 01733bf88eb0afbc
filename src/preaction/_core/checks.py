"""5 · Checks 3 to 6: one small function per numbered check, from the evidence to a denial or nothing.

`CHECKS` is their order, which is the order of reasons: case, binding, freshness, pack, text. Check 1 stands in
`rule.py`, check 2 in `case.py`.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from preaction._core.call import Call
from preaction._core.case import Sought, check_case, find_candidate
from preaction._core.denied import CheckName, Code, Denied, deny, quote
from preaction._core.facts import Known, KnownText, Memory, Unavailable, is_issued_id
from preaction._core.rule import Rule, RuleBook
from preaction.wire.digest import content_digest
from preaction.wire.models import Decision, JobDescription, Outcome, OutputCheckVerification, Verification

MAX_TEXT_ASKS: Final = 4

DECIDE_AGAIN: Final = "get a new decision on this case, then call again"
TRY_LATER: Final = "call again once more later, or hand the case to a person"


class Text(NamedTuple):
    """The checked text of a call: its digest, what the session knows of it, and what the authority says to that.

    `digest` is None when a checked field is missing or not a string. `confirmed` holds an answer per check asked about.
    """

    digest: str | None = None
    known: tuple[KnownText, ...] = ()
    confirmed: Mapping[str, OutputCheckVerification | Unavailable] = MappingProxyType({})


class Evidence(NamedTuple):
    """All that these checks look at. `memory` is the session before the facts were fetched, `again` after."""

    call: Call
    rule: Rule
    book: RuleBook
    sought: Sought
    candidate: Known
    decision: Decision
    memory: Memory
    again: Memory
    answer: Verification
    descriptions: Mapping[str, JobDescription]
    text: Text

    @property
    def description(self) -> JobDescription:
        """The description of the decision's release."""
        return self.descriptions[self.decision.release]

    @property
    def outcome(self) -> Outcome | None:
        """The decided outcome as the released description has it; None when undecided or not described."""
        if self.decision.outcome is not None:
            for outcome in self.description.outcomes:
                if outcome.id == self.decision.outcome.id:
                    return outcome
        return None

    @property
    def now(self) -> datetime:
        """G18: the later of the gate's clock and the authority's, so that a slow clock can't stretch freshness."""
        at = self.answer.verified_at
        return self.again.now if at is None else max(self.again.now, at)


# 3 Still fresh, before anything is fetched ----------------------------------------------------------------------------


def check_decision_fresh(decision: Decision, now: datetime, book: RuleBook) -> Denied | None:
    """G17, G18: the decision's own limit and `max_decision_age` have not passed, and it isn't from the future."""
    if decision.decided_at - now > book.max_clock_skew:
        return _skew("the decision is dated in the future")
    limit = decision.evidence_fresh_until
    if (limit is not None and now >= limit) or now - decision.decided_at >= book.max_decision_age:
        return deny("stale", "fresh", "the decision on this case has expired", DECIDE_AGAIN)
    return None


# 2 One case -----------------------------------------------------------------------------------------------------------


def g10_one_case(e: Evidence) -> Denied | None:
    """G9, G10: under the released subject, the candidate is the one case, by the session as it is now."""
    return check_case(e.candidate, e.sought, e.again, e.descriptions, e.book)


# 4 Verified now -------------------------------------------------------------------------------------------------------


def g19_askable(decision: Decision) -> Denied | None:
    """G19: an execution id is one that an authority issues; anything else is not asked about at all."""
    if is_issued_id(decision.execution_id):
        return None
    return deny("receipt_invalid", "verified", "the decision's receipt is not one that can be verified", DECIDE_AGAIN)


def g19_receipt_valid(e: Evidence) -> Denied | None:
    """G19: the answer is about the receipt asked for, which is valid, and nothing is wrong with it."""
    answer = e.answer
    if answer.execution_id != e.decision.execution_id:
        return deny("receipt_invalid", "verified", "the authority answered about another receipt")
    if answer.valid is not True or answer.problems or answer.replay is None:
        why = ", ".join(quote(problem) for problem in answer.problems[:4]) or "it is not valid"
        return deny("receipt_invalid", "verified", f"the authority does not confirm the decision ({why})", DECIDE_AGAIN)
    return None


def g20_replay_matches(e: Evidence) -> Denied | None:
    """G20: the replay names the gate's job and the decision's case, identity mode, release, status and outcome.

    Where it says when the decision was made, that is when: `max_decision_age` counts from there.
    """
    replay, decision = e.answer.replay, e.decision
    outcome = None if decision.outcome is None else decision.outcome.id
    if replay is None or replay.job != e.book.job or replay.case != decision.case:
        return _mismatch("another job or case")
    if (replay.release, replay.status, replay.outcome) != (decision.release, decision.status, outcome):
        return _mismatch("another release, status or outcome")
    if replay.decided_at not in (None, decision.decided_at):
        return _mismatch("another time")
    if e.book.releases is not None and replay.release not in e.book.releases:
        why = "the decision was made under a release that this gate does not accept"
        return deny("release_not_allowed", "verified", why, DECIDE_AGAIN)
    return None


def _mismatch(what: str) -> Denied:
    return deny("replay_mismatch", "verified", f"the authority's replay names {what} than the decision", DECIDE_AGAIN)


def g8_entity_confirmed(e: Evidence) -> Denied | None:
    """G8: where the call names the case by the decision's `entity_id` alone, the replay names the same one."""
    replay = e.answer.replay
    if replay is None or replay.entity_id == e.decision.entity_id or _named_by_case_id(e):
        return None
    why = "the authority does not confirm that the given id names the decided case"
    return deny("case_not_decided", "case", why, "use the case id that the decision returned", next_step="unresolved")


def _named_by_case_id(e: Evidence) -> bool:
    """Whether the case would be found as well if the decision's `entity_id` were not known."""
    bare = Known(e.candidate.case_id, e.decision.model_copy(update={"entity_id": None}))
    named = tuple(bare if known.case_id == bare.case_id else known for known in e.again.named)
    return check_case(bare, e.sought, e.again._replace(named=named), e.descriptions, e.book) is None


def g18_clock(e: Evidence) -> Denied | None:
    """G18: the authority's clock and this one agree, so an old answer played back by something in between shows."""
    return _check_clock(e, e.answer.verified_at, "verified")


def _check_clock(e: Evidence, at: datetime | None, check: CheckName) -> Denied | None:
    if at is None:
        return _skew("the authority did not say when it verified", check)
    if abs(at - e.again.now) > e.book.max_clock_skew:
        return _skew("the authority's clock and this one disagree, or its answer is an old one", check)
    return None


def _skew(why: str, check: CheckName = "fresh") -> Denied:
    return deny("clock_skew", check, why, "call again; if it stays so, tell the operator to set the clocks")


# 3 Still fresh, after the fetch ---------------------------------------------------------------------------------------


def g17_still_fresh(e: Evidence) -> Denied | None:
    """G17: neither the decision's limits nor the replay's have passed by now."""
    limit = None if e.answer.replay is None else e.answer.replay.evidence_fresh_until
    if limit is not None and e.now >= limit:
        return deny("stale", "fresh", "the decision on this case has expired", DECIDE_AGAIN)
    return check_decision_fresh(e.decision, e.now, e.book)


def g7_still_latest(e: Evidence) -> Denied | None:
    """G7: no other decision on the case was recorded while the facts were fetched, nor, without `entity`, a case."""
    found = find_candidate(e.sought, e.again, e.book)
    another = e.sought.entity is None and len(e.again.first) != len(e.memory.first)
    if found == e.candidate and not another:
        return None
    return deny("stale", "fresh", "another decision was recorded while this call was checked", "call again")


# 5 The pack allows it -------------------------------------------------------------------------------------------------


def g25_decided(e: Evidence) -> Denied | None:
    """G25: an undecided case allows nothing."""
    if e.decision.status == "decided" and e.decision.outcome is not None:
        return None
    return deny("undecided", "pack", "the authority left this case undecided", next_step="unresolved")


def g22_writes_listed(e: Evidence) -> Denied | None:
    """G22: the released description lists the rule's output under the decided outcome."""
    wanted = e.rule.source.writes
    if wanted is None or (e.outcome is not None and wanted in e.outcome.outputs):
        return None
    return _not_allowed()


def g23_outcome_listed(e: Evidence) -> Denied | None:
    """G23: the decided outcome is one that the rule lists."""
    wanted, decided = e.rule.source.outcomes, e.decision.outcome
    if wanted is None or (decided is not None and decided.id in wanted):
        return None
    return _not_allowed()


def _not_allowed() -> Denied:
    why = "the decision on this case does not let this tool do that"
    return deny("outcome_not_allowed", "pack", why, next_step="outcome")


# 6 Checked text -------------------------------------------------------------------------------------------------------


def read_text(call: Call, rule: Rule) -> str | None:
    """G26: the digest of exactly the text in the checked fields, or None where one is missing or not a string."""
    content = {path.text: path.value(call) for path in rule.texts}
    return content_digest(content) if all(isinstance(text, str) for text in content.values()) else None


def texts_to_confirm(rule: Rule, decision: Decision, known: tuple[KnownText, ...]) -> tuple[KnownText, ...]:
    """G26: the passed checks worth asking about: of the rule's output, else the latest of each output, at most four."""
    passed = (k for k in known if k.passed and k.release == decision.release and rule.output in (None, k.output))
    return tuple([k for k in passed if is_issued_id(k.check_id)])[:MAX_TEXT_ASKS]


def g26_text_recorded(e: Evidence) -> Denied | None:
    """G26: the session holds a passed output check of exactly this text, for this execution, release and output."""
    if not e.rule.texts:
        return None
    if e.text.digest is None:
        names = ", ".join(path.text for path in e.rule.texts)
        return _text("output_check_missing", f"the call lacks a checked text ({quote(names)} must hold it)")
    known = [k for k in e.text.known if k.release == e.decision.release and _output_counts(e, k)]
    if not known:
        return _text("output_check_missing", "no output check was made of exactly this text for this decision")
    if not any(k.passed for k in known):
        return _text("output_check_failed", "the output check of this text did not pass")
    return None


def g27_text_confirmed(e: Evidence) -> Denied | None:
    """G27: the authority confirms, now, one such check: same id, execution, output, release and digest."""
    if not e.rule.texts:
        return None
    denied: Denied | None = _text("output_check_missing", "no output check of this text could be asked about")
    for known in texts_to_confirm(e.rule, e.decision, e.text.known):
        if _output_counts(e, known):
            denied = _confirm(e, known, e.text.confirmed[known.check_id])
            if denied is None:
                return None
    return denied


def _output_counts(e: Evidence, known: KnownText) -> bool:
    if e.rule.output is not None:
        return known.output == e.rule.output
    return e.outcome is not None and known.output in e.outcome.outputs


def _confirm(e: Evidence, known: KnownText, found: OutputCheckVerification | Unavailable) -> Denied | None:
    if isinstance(found, Unavailable):
        return deny("verify_failed", "text", f"the output check could not be verified ({found.why})", TRY_LATER)
    wanted = (known.check_id, e.decision.execution_id, known.output, e.decision.release, e.text.digest)
    given = (found.check_id, found.execution_id, found.output, found.release, found.content_digest)
    if found.valid is not True or found.passed is not True or given != wanted:
        return _text("output_check_failed", "the authority does not confirm the output check of this text")
    return _check_clock(e, found.verified_at, "text")


def _text(code: Code, why: str) -> Denied:
    return deny(code, "text", why, next_step="text")


# In order -------------------------------------------------------------------------------------------------------------

Check = Callable[[Evidence], Denied | None]

CHECKS: Final[tuple[tuple[CheckName, Check], ...]] = (
    ("case", g10_one_case),
    ("verified", g19_receipt_valid),
    ("verified", g20_replay_matches),
    ("case", g8_entity_confirmed),
    ("verified", g18_clock),
    ("fresh", g17_still_fresh),
    ("fresh", g7_still_latest),
    ("pack", g25_decided),
    ("pack", g22_writes_listed),
    ("pack", g23_outcome_listed),
    ("text", g26_text_recorded),
    ("text", g27_text_confirmed),
)
