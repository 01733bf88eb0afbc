"""Lines on verifying an execution."""

from preaction.conformance.asking import path
from preaction.conformance.describing import told_apart
from preaction.conformance.lines import Differences, NotChecked, line, part, places, read, same, status, there
from preaction.conformance.run import Run
from preaction.wire.models import Decision, JobDescription, OutputCheckVerification, Replay, Verification


@line(
    "verify", "POST /v0/executions/{id}/verify replays the decision: the same job, case, outcome and times", makes=True
)
def verify(run: Run) -> Differences:
    """A decision that stands."""
    decision = run.decision
    reply = run.verify(decision.execution_id)
    found = read(reply, Verification)
    yield from there(reply, "valid", "problems", "executionId", "verifiedAt", "replay")
    yield from same("valid", found.valid, True)
    yield from same("problems", found.problems, [])
    yield from same("executionId", found.execution_id, decision.execution_id)
    if found.replay is not None:
        yield from _as_decided(found.replay, decision)


def _as_decided(replay: Replay, decision: Decision) -> Differences:
    yield from same("replay.job", replay.job, decision.job)
    yield from same("replay.release", replay.release, decision.release)
    yield from same("replay.case", replay.case, decision.case)
    yield from same("replay.entity_id", replay.entity_id, decision.entity_id)
    yield from same("replay.status", replay.status, decision.status)
    yield from same("replay.outcome", replay.outcome, decision.outcome.id if decision.outcome else None)
    yield from same("replay.escalation", replay.escalation, decision.escalation)
    yield from same("replay.evidenceFreshUntil", replay.evidence_fresh_until, decision.evidence_fresh_until)
    if replay.decided_at is not None:
        yield from same("replay.decidedAt", replay.decided_at, decision.decided_at)


@line("verify-undecided", "An undecided execution is replayed as undecided, without an outcome", makes=True)
def verify_undecided(run: Run) -> Differences:
    """One without evidence."""
    if not run.description.facts or run.identity == "derived":
        raise NotChecked("there is no undecided execution to be had")
    decision = run.made(run.ask({"evidence": {}}, run.case()))
    if decision.status == "decided":
        raise NotChecked("this job decides without evidence of the caller")
    replay = run.verified(decision.execution_id).replay
    if replay is None:
        yield "there is no replay"
        return
    yield from _as_decided(replay, decision)


@line("superseded", "A later decision on the same case supersedes the one before", makes=True)
def superseded(run: Run) -> Differences:
    """Twice the same."""
    case = run.case()
    first = run.made(run.ask(run.request, case))
    again = case if case is not None else (first.case.id if run.identity == "issued" else None)
    second = run.made(run.ask(run.request, again))
    if first.execution_id == second.execution_id:
        yield "two decisions have one executionId"
    before, after = run.verified(first.execution_id), run.verified(second.execution_id)
    yield from same("valid of the first", before.valid, False)
    if "superseded" not in before.problems:
        yield "the first one's problems don't say superseded"
    yield from same("valid of the second", after.valid, True)


@line("verify-body", "The body of a verify request is an object without unknown fields", makes=True)
def verify_body(run: Run) -> Differences:
    """Everything else is 422."""
    where = path("executions", run.decision.execution_id, "verify")
    for body in (b"", b"[]", b"{", b'{"include": 1}'):
        yield from status(run.asker.post(where, body), 422)
    yield from places(run.asker.post(where, {"conformance": 1}), "/conformance")


@line("include", "What include asks for is answered as if it had come alone, or left out", makes=True)
def include(run: Run) -> Differences:
    """The description and an output check, one that nobody has, and too many."""
    decision = run.decision
    asked = {"description": True, "outputChecks": ["chk_none"]}
    found = run.verified(decision.execution_id, {"include": asked})
    if found.description is not None:
        pinned = path("jobs", decision.job, "releases", decision.release)
        alone = read(run.asker.get(pinned), JobDescription)
        yield from same("description", part("description", found.description, JobDescription), alone)
    if found.output_checks is None:
        return
    yield from same("outputChecks of one that nobody has", found.output_checks, {})
    many = {"outputChecks": [f"chk_{number}" for number in range(5)]}
    yield from status(run.verify(decision.execution_id, {"include": many}), 422)
    try:
        checked = run.checked
    except NotChecked:
        return
    asked = {"outputChecks": [checked.check_id]}
    together = run.verified(decision.execution_id, {"include": asked}).output_checks
    inner = together.get(checked.check_id) if isinstance(together, dict) else None
    if inner is None:
        yield "outputChecks lacks the check that was asked for"
        return
    alone_ = read(run.asker.post(path("output-checks", checked.check_id, "verify"), {}), OutputCheckVerification)
    found_ = part("outputChecks", inner, OutputCheckVerification)
    moment = {"verified_at": None}
    yield from same("the check in it", found_.model_copy(update=moment), alone_.model_copy(update=moment))


@line("foreign-execution", "Another tenant's key gets the same 404 on this execution as on nothing", makes=True)
def foreign_execution(run: Run) -> Differences:
    """Verifying it, and having a text checked for it."""
    if not run.asker.has("other"):
        raise NotChecked("it needs another tenant's key: --other-key-env")
    execution_id = run.decision.execution_id
    nothing = run.asker.post(path("executions", "exe_none", "verify"), {}, "other")
    yield from told_apart(run.asker.post(path("executions", execution_id, "verify"), {}, "other"), nothing)
    body = {"output": "none", "content": {}}
    yield from told_apart(run.asker.post(path("executions", execution_id, "output-checks"), body, "other"), nothing)
