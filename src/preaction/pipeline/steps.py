"""The order, in one list: what is seen first, what is trusted next, and that nothing acts before all of it has passed.

Each step takes the work and the parts, and ends the way of the proposal or lets it go on. `conclude` ends every way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from preaction.calling import Asking
from preaction.pipeline import acting, checking
from preaction.pipeline.outcome import Ending, Outcome, disposition_of
from preaction.pipeline.record import write_record
from preaction.pipeline.texts import name_of_text
from preaction.pipeline.work import Parts, Stepping, StepResult, Work, ask_store, failed


@dataclass(frozen=True, slots=True)
class Step:
    """One step by its number in the order; what stands between two of them has that of the one before."""

    number: int
    name: str
    take: Callable[[Work, Parts], StepResult | Stepping]


STEPS: Final = (
    Step(1, "capture the raw proposal", checking.capture),
    Step(2, "parse the arguments", checking.parse),
    Step(3, "validate them against the registered schema", checking.check_schema),
    Step(4, "attach identity from the authenticated session", checking.attach_identity),
    Step(5, "resolve business objects in that scope", checking.resolve),
    Step(6, "authorize", checking.authorize),
    Step(6, "recall an act that was done before", acting.recall),
    Step(6, "ask where the values come from", checking.ask_preflight),
    Step(6, "ask the action gate", checking.ask_gate),
    Step(7, "classify the side effect and have it confirmed", checking.confirm),
    Step(8, "reserve the idempotency key", acting.reserve),
    Step(9, "execute with a time limit", acting.execute),
    Step(10, "validate and sanitise the result", acting.finish),
)
"""The eleventh step, the record, is `conclude`: every way ends there."""

_STANDS: Final = ("in_progress", "outcome_unknown", "tool_failed", "timed_out", "audit_failed")


def procedure(work: Work, parts: Parts) -> Asking[Outcome]:
    """The whole way of one proposal."""
    ending = Ending("internal", detail="no step has ended it")
    for step in STEPS:
        ended = step.take(work, parts)
        if ended is not None and not isinstance(ended, Ending):
            ended = yield from ended
        if ended is not None:
            ending = ended
            break
    return (yield from conclude(work, parts, ending))


def conclude(work: Work, parts: Parts, ending: Ending) -> Asking[Outcome]:
    """11: a repair is counted, and the disposition and outcome are recorded."""
    if disposition_of(ending.code) == "repair":
        ending = yield from _within_repairs(work, parts, ending)
    if parts.audit is not None:
        written = yield from write_record(work, parts, parts.audit, ending, "after")
        if not written.good:
            failed(work, parts, "audit", written)
            # What was done, or may have been, is said all the same: to deny it would have it done again
            if disposition_of(ending.code) != "execute" and ending.code not in _STANDS:
                ending = Ending("audit_failed")
    return outcome_of(work, ending)


def _within_repairs(work: Work, parts: Parts, ending: Ending) -> Asking[Ending]:
    """The ending while repairs are left; all unknown names of a run share one count (P3)."""
    context, tool = work.context, work.known_tool
    counter = name_of_text(
        "repairs", context.tenant, context.subject, context.run_id, "" if tool is None else tool.name
    )
    counted = yield from ask_store(parts, parts.texts.count_one_more(counter))
    if not counted.good:
        return failed(work, parts, "count of repairs", counted)
    return ending if counted.value <= parts.limits.repairs else Ending("repairs_exhausted", detail=ending.code)


def outcome_of(work: Work, ending: Ending) -> Outcome:
    """What the caller gets."""
    return Outcome(
        disposition=disposition_of(ending.code),
        code=ending.code,
        for_model=ending.for_model(),
        result=ending.result,
        confirmation=ending.confirmation,
        idempotency_key=work.key,
        replayed=ending.code == "replayed",
    )


def names() -> list[tuple[int, Any]]:
    """The order as numbers and names, for pages and tests."""
    return [(step.number, step.name) for step in STEPS] + [(11, "record disposition and outcome")]
