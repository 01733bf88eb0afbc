"""To decide: a job, a request and a time → a ruling. Pure, so that a replay is the same call on what was stored.

First the request is read against the job (`read_request`): every name declared, every value of its type, every source
one that the pack takes. Then outcomes are tried in order: the first whose condition is true is the outcome; the first
that can't be evaluated leaves the case undecided, and later ones aren't tried.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from preaction.authority.expressions.conditions import cel_value
from preaction.authority.expressions.schemas import Validator
from preaction.authority.packs.release import ReadyJob
from preaction.authority.refusal import invalid, wrong
from preaction.errors import InvalidJSON
from preaction.wire import strict_json
from preaction.wire.digest import canonical
from preaction.wire.models import DecisionRequest, EvidenceItem
from preaction.wire.times import read_time, write_time

MAX_AHEAD: Final = timedelta(seconds=300)
MAX_ID: Final = 200
MAX_SOURCE: Final = 200

_Wrong = tuple[Sequence[object], str]


@dataclass(frozen=True, slots=True)
class Ruling:
    """What was decided, in words that JSON has, so that two rulings are compared by `==`."""

    status: str
    outcome: str | None
    title: str | None
    next_step: str | None
    escalation: str | None
    missing: tuple[str, ...]
    problems: tuple[str, ...]
    evidence_fresh_until: str | None

    def as_json(self) -> dict[str, Any]:
        """As it stands in a record."""
        return {
            "status": self.status,
            "outcome": self.outcome,
            "title": self.title,
            "nextStep": self.next_step,
            "escalation": self.escalation,
            "missing": list(self.missing),
            "problems": list(self.problems),
            "evidenceFreshUntil": self.evidence_fresh_until,
        }


def read_request(job: ReadyJob, request: DecisionRequest, now: datetime) -> dict[str, Any]:
    """The request as it will be stored and decided on, or `Refused` with the place of each error."""
    errors = [*_parts(job, request), *_evidence_errors(job, request.evidence or {}, now)]
    errors += _value_errors(job.fields, request.fields or {}, "fields")
    errors += [
        (("content", name), "this job takes no such field")
        for name in request.content or {}
        if name not in job.rule.content
    ]
    errors += _missing_key(job, request)
    if errors:
        raise invalid(errors)
    stored: dict[str, Any] = {
        "entity_id": request.entity_id,
        "evidence": {name: _evidence(item, now) for name, item in (request.evidence or {}).items()},
        "fields": request.fields or {},
        "content": request.content or {},
    }
    # What is decided on is exactly what a replay reads back: 5.0 is 5 in canonical JSON, and nothing else changes.
    try:
        return strict_json.load_object(canonical(stored))
    except InvalidJSON:
        raise invalid([((), "a number or a text in it has no canonical JSON")]) from None


def derived_id(job: ReadyJob, request: Mapping[str, Any]) -> str:
    """The case's id from the values of its key: different values never give the same id.

    Texts are percent-encoded, other values are `=` and their JSON, joined by `:`, so `["a", 7]` is `a:=7`.
    """
    values = key_values(job, request).values()
    return ":".join(quote(value, safe="") if isinstance(value, str) else _plain(value) for value in values)


def key_values(job: ReadyJob, request: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a job's key by name, in its order."""
    return {name: _key_value(job, request, name) for name in job.rule.subject.key or ()}


def case_key(job: ReadyJob, case_id: str) -> str:
    """What tells this job's cases apart: the id, without ASCII case where the subject says so."""
    if job.rule.subject.match == "exact":
        return case_id
    return "".join(each.lower() if each.isascii() else each for each in case_id)


def decide(job: ReadyJob, request: Mapping[str, Any], now: datetime, before: Mapping[str, Any] | None = None) -> Ruling:
    """Decide on a stored request as of `now`; `before` is what it is compared with, as its record keeps it."""
    fresh_until = _fresh_until(job, request, now)
    limit = write_time(fresh_until) if fresh_until else None
    failed = tuple(sorted(request.get("failed", ())))
    found = {
        "evidence_changed": _changed(job, request, before),
        "evidence_stale": fresh_until is not None and fresh_until <= now,
        "lookup_failed": bool(failed),
    }
    if any(found.values()):
        return _unresolved(job, failed, tuple(problem for problem, there in found.items() if there), limit)
    data = _data(job, request)
    for outcome in job.outcomes:
        holds = outcome.condition.holds(data)
        if holds is None:
            return _unresolved(job, tuple(sorted(_absent(outcome.condition.needs, data))), (), limit)
        if holds:
            rule = outcome.rule
            return Ruling("decided", rule.id, outcome.title, rule.next_step, rule.escalation, (), (), limit)
    return _unresolved(job, (), (), limit)


def _changed(job: ReadyJob, request: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    """Whether the caller says something else than before: another value, one more, or one less.

    Compared is canonical JSON: 5.0 is 5, and true is not 1. A fact that only one of the two releases takes from callers
    could only be said once, so it doesn't count.
    """
    if before is None or job.rule.evidence.changes == "allow":
        return False
    if before["values"] is None:
        return True
    taken = {name for name, fact in job.rule.facts.items() if fact.origin == "caller"}
    then = {name: value for name, value in before["values"].items() if name in taken}
    taken.difference_update(before["notAsked"])
    now = {name: item["value"] for name, item in request["evidence"].items() if name in taken}
    return canonical(now) != canonical(then)


def _parts(job: ReadyJob, request: DecisionRequest) -> Iterator[_Wrong]:
    kind, identity = job.rule.input, job.rule.subject.identity
    for part in ("fields", "content"):
        given = getattr(request, part) is not None
        if given != (kind == part):
            yield (part,), f"this job needs `{part}`" if kind == part else f"this job takes no `{part}`"
    if identity == "provided" and request.entity_id is None:
        yield ("entity_id",), "this job needs the id of the case"
    if identity == "derived" and request.entity_id is not None:
        yield ("entity_id",), "this job takes the case's id from its key"
    if request.entity_id is not None and (detail := _bad_id(request.entity_id)):
        yield ("entity_id",), detail


def _bad_id(entity_id: str) -> str | None:
    if not 1 <= len(entity_id) <= MAX_ID:
        return f"an id has 1 to {MAX_ID} characters"
    if entity_id != entity_id.strip() or not entity_id.isprintable():
        return "an id has no blanks around it and no control characters"
    return None


def _evidence_errors(job: ReadyJob, evidence: Mapping[str, EvidenceItem], now: datetime) -> Iterator[_Wrong]:
    for name, item in evidence.items():
        fact = job.rule.facts.get(name)
        if fact is None:
            yield ("evidence", name), "this job has no such fact"
            continue
        if fact.origin == "lookup":
            yield ("evidence", name), "the authority reads this fact itself; leave it out"
            continue
        if fact.sources is not None and item.source not in fact.sources:
            yield ("evidence", name, "source"), f"this fact comes from one of: {', '.join(fact.sources)}"
        elif not 1 <= len(item.source) <= MAX_SOURCE:
            yield ("evidence", name, "source"), f"a source has 1 to {MAX_SOURCE} characters"
        if item.observed_at is not None and item.observed_at - now > MAX_AHEAD:
            yield ("evidence", name, "observedAt"), f"more than {MAX_AHEAD.seconds} s ahead of the authority's clock"
        for place, detail in job.facts[name].errors(item.value):
            yield ("evidence", name, "value", *place), detail


def _value_errors(schemas: Mapping[str, Validator], values: Mapping[str, Any], part: str) -> Iterator[_Wrong]:
    for name, value in values.items():
        if name not in schemas:
            yield (part, name), "this job takes no such field"
            continue
        for place, detail in schemas[name].errors(value):
            yield (part, name, *place), detail


def _missing_key(job: ReadyJob, request: DecisionRequest) -> Iterator[_Wrong]:
    part = "evidence" if job.rule.input == "entity" else job.rule.input
    given: Mapping[str, Any] = getattr(request, part) or {}
    for name in job.rule.subject.key or ():
        if name not in given:
            yield (part, name), "the case's id comes from this, so it is needed"


def _evidence(item: EvidenceItem, now: datetime) -> dict[str, Any]:
    return {"value": item.value, "source": item.source, "observedAt": write_time(item.observed_at or now)}


def _key_value(job: ReadyJob, request: Mapping[str, Any], name: str) -> Any:
    if job.rule.input == "entity":
        return request["evidence"][name]["value"]
    return request[job.rule.input][name]


def _plain(value: Any) -> str:
    return "=" + quote(canonical(value).decode(), safe="")


def _data(job: ReadyJob, request: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        "facts": {name: cel_value(job.facts[name].schema, item["value"]) for name, item in request["evidence"].items()},
        "fields": {name: cel_value(job.fields[name].schema, item) for name, item in request["fields"].items()},
        "content": dict(request["content"]),
    }


def _absent(needs: frozenset[str], data: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Facts by their own names, as the wire has them; names of the input with its part before them."""
    for need in needs:
        part, _, name = need.partition(".")
        if name not in data[part]:
            yield name if part == "facts" else need


def _fresh_until(job: ReadyJob, request: Mapping[str, Any], now: datetime) -> datetime | None:
    if job.rule.evidence.fresh_for is None:
        return None
    observed = [read_time(item["observedAt"]) for item in request["evidence"].values()]
    return min(observed, default=now) + job.rule.evidence.fresh_for


def _unresolved(job: ReadyJob, missing: tuple[str, ...], problems: tuple[str, ...], limit: str | None) -> Ruling:
    path = job.rule.when_unresolved
    return Ruling("undecided", None, None, path.next_step, path.escalation, missing, problems, limit)


def check_key_length(case_id: str) -> str:
    """Refuse with 422 a derived id too long to be one."""
    if len(case_id) > 10 * MAX_ID:
        wrong((), f"the values of the case's key are too long: an id has at most {10 * MAX_ID} characters")
    return case_id
