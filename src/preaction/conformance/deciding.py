"""Lines on decisions."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from preaction.conformance.asking import path
from preaction.conformance.lines import Differences, NotChecked, line, read, same, status, there
from preaction.conformance.run import Run
from preaction.conformance.sample import new_case
from preaction.errors import InvalidJSON
from preaction.wire.models import Decision, Escalation
from preaction.wire.strict_json import loads

SKEW: timedelta = timedelta(minutes=5)


@line("decide", "POST /v0/jobs/{job}/decisions decides, with every field of a decision", makes=True)
def decide(run: Run) -> Differences:
    """The answer to a request that decides."""
    case = run.case()
    reply = run.ask(run.request, case)
    decision = read(reply, Decision)
    names = ("executionId", "job", "pack", "release", "case", "status", "outcome", "nextStep", "escalation")
    yield from there(reply, *names, "problems", "decidedAt", "receipt")
    yield from same("job", decision.job, run.job)
    yield from same("release", decision.release, run.description.release)
    yield from same("status", decision.status, "decided")
    yield from same("problems", decision.problems, [])
    yield from same("case.identity", decision.case.identity, run.identity)
    if case is not None:
        yield from same("case.id", decision.case.id, case)
        yield from same("entity_id", decision.entity_id, case)
    if abs(datetime.now(UTC) - decision.decided_at) > SKEW:
        yield "decidedAt is more than five minutes from now"
    yield from _of_description(run, decision)


def _of_description(run: Run, decision: Decision) -> Differences:
    """Outcome, next step and escalation are those of the release."""
    decided = decision.outcome.id if decision.outcome else None
    outcome = next((each for each in run.description.outcomes if each.id == decided), None)
    if outcome is None:
        yield f"the outcome {decided!r} is not described"
        return
    yield from same("nextStep", decision.next_step, outcome.next_step)
    yield from same("escalation", decision.escalation, _escalation(run, outcome.escalation))


def _escalation(run: Run, wanted: str | None) -> Escalation | None:
    return next((each for each in run.description.escalations if each.id == wanted), None)


@line(
    "decide-without-facts",
    "Without the facts that it needs, a decision is undecided, and says what is missing",
    makes=True,
)
def decide_without_facts(run: Run) -> Differences:
    """A request without any evidence."""
    if not run.description.facts:
        raise NotChecked("the job has no facts")
    if run.identity == "derived":
        raise NotChecked("the case's id comes from the facts")
    case = new_case() if run.identity == "provided" else None
    reply = run.ask({"evidence": {}}, case)
    decision = read(reply, Decision)
    if decision.status == "decided":
        raise NotChecked("this job decides without evidence of the caller")
    yield from same("outcome", decision.outcome, None)
    if not decision.missing and not decision.problems:
        yield "neither missing nor problems says why it is undecided"
    for name in decision.missing:
        if name.partition(".")[0] not in {*run.description.facts, "fields", "content"}:
            yield f"missing names {name!r}, which is no fact of the job"
    path_ = run.description.when_unresolved
    if path_ is not None:
        yield from same("nextStep", decision.next_step, path_.next_step)
        yield from same("escalation", decision.escalation, _escalation(run, path_.escalation))


@line("decide-on-the-right-case", "A case is named as the job's identity mode says", makes=True)
def decide_on_the_right_case(run: Run) -> Differences:
    """With an id where none may be, without one where one has to be, and with one that was never issued."""
    if run.identity == "provided":
        yield from status(run.ask(run.request, None), 422)
        for wrong in ("", " ", " x", "x\n", "x\u0000"):
            yield from status(run.ask(run.request, wrong), 422)
    elif run.identity == "issued":
        yield from status(run.ask(run.request, new_case()), 422)
        case = run.decision.case.id
        again = read(run.ask(run.request, case), Decision)
        yield from same("case.id", again.case.id, case)
    else:
        yield from status(run.ask(run.request, new_case()), 422)
        yield from same("case.id of the same request", run.fresh().case.id, run.fresh().case.id)


@line("decide-once", "Idempotency-Key gives the first answer again, and 422 for another body", makes=True)
def decide_once(run: Run) -> Differences:
    """Twice the same, then something else, then another key."""
    case, key = run.case(), new_case()
    first = run.ask(run.request, case, key=key)
    yield from status(first, 200)
    second = run.ask(run.request, case, key=key)
    yield from status(second, 200, 409)
    if second.status == 200:
        yield from same("the second answer", second.body, first.body)
    yield from status(run.ask({**run.request, "entity_id": f"{case}-2"}, None, key=key), 422)
    third = run.ask(run.request, case, key=f"{key}-2")
    if third.status == 200 and first.status == 200 and _id(third.body) == _id(first.body):
        yield "another Idempotency-Key got the first answer"
    for wrong in ("", "x" * 4096):
        yield from status(run.ask(run.request, case, key=wrong), 422)


def _id(body: Any) -> Any:
    return body.get("executionId") if isinstance(body, dict) else None


@line("receipt", "A decision's receipt is a compact JWS over it, signed with a key of the JWK set", makes=True)
def receipt(run: Run) -> Differences:
    """Ed25519, by a key of the set; what is signed is about this execution."""
    try:
        from joserfc import jws
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet
    except ModuleNotFoundError:
        raise NotChecked("it needs more packages: pip install 'preaction[authority]'") from None
    decision = run.decision
    if decision.receipt is None:
        yield "there is no receipt"
        return
    keys = run.asker.get("/.well-known/jwks.json", "nobody").body
    try:
        opened = jws.deserialize_compact(decision.receipt, KeySet.import_key_set(keys), algorithms=["Ed25519", "EdDSA"])
        signed = loads(opened.payload)
    except (JoseError, InvalidJSON, ValueError, TypeError, KeyError, AttributeError) as error:
        yield f"no key of the set opens it: {type(error).__name__}"
        return
    text = json.dumps(signed)
    for name, value in {"executionId": decision.execution_id, "job": decision.job, "case": decision.case.id}.items():
        if json.dumps(value) not in text:
            yield f"what is signed doesn't name the {name}"


@line("case-rule", "Ids match as the description's subject.match says: exactly, or whatever their case", makes=True)
def case_rule(run: Run) -> Differences:
    """A decision on the id in other letters supersedes the first one, or it doesn't."""
    if run.identity != "provided" or run.description.subject is None:
        raise NotChecked("the caller doesn't name the case, or it is a company")
    case = run.sample.entity_id or new_case()
    if case == case.swapcase():
        raise NotChecked("the sample's entity_id has no letters")
    first = run.made(run.ask(run.request, case))
    run.made(run.ask(run.request, case.swapcase()))
    superseded = "superseded" in run.verified(first.execution_id).problems
    if run.description.subject.match == "exact" and superseded:
        yield "match is exact, and a decision on the id in other letters superseded this one"
    if run.description.subject.match != "exact" and not superseded:
        yield "match is case-insensitive, and a decision on the id in other letters didn't supersede this one"


@line("decide-nothing-on-get", "A decision is asked for with POST and nothing else")
def decide_nothing_on_get(run: Run) -> Differences:
    """GET on the path."""
    yield from status(run.asker.get(path("jobs", run.job, "decisions")), 404, 405)
