"""Lines on jobs: which there are, and what one is."""

from pydantic import RootModel

from preaction.conformance.asking import Reply, path
from preaction.conformance.lines import Differences, NotChecked, line, read, same, status, there
from preaction.conformance.run import Run
from preaction.wire.models import JobDescription, JobSummary


class Jobs(RootModel[list[JobSummary]]):
    """The answer of `list_jobs`."""


@line("list-jobs", "GET /v0/jobs lists job, pack, release and title of each job", each_job=False)
def list_jobs(run: Run) -> Differences:
    """The list is there, and has the jobs that are to be checked."""
    listed = read(run.asker.get(path("jobs")), Jobs).root
    names = [each.job for each in listed]
    if len(names) != len(set(names)):
        yield "a job is listed twice"
    for job in run.jobs:
        if job not in names:
            yield f"{job!r} is not listed"


@line("describe", "GET /v0/jobs/{job} describes the job at its current release")
def describe(run: Run) -> Differences:
    """Its names are there, and what it refers to."""
    reply = run.asker.get(path("jobs", run.job))
    description = read(reply, JobDescription)
    yield from there(reply, "job", "pack", "release", "title", "facts", "outcomes", "outputs", "whenUnresolved")
    yield from same("job", description.job, run.job)
    listed = read(run.asker.get(path("jobs")), Jobs).root
    yield from same("release", description.release, next((e.release for e in listed if e.job == run.job), None))
    outputs = {output.id for output in description.outputs}
    escalations = {escalation.id for escalation in description.escalations}
    for outcome in description.outcomes:
        for output in outcome.outputs:
            if output not in outputs:
                yield f"outcome {outcome.id!r} lists the output {output!r}, which is not described"
        if outcome.escalation not in {None, *escalations}:
            yield f"outcome {outcome.id!r} names the escalation {outcome.escalation!r}, which is not described"


@line("describe-at-release", "GET /v0/jobs/{job}/releases/{release} says the same, and is immutable")
def describe_at_release(run: Run) -> Differences:
    """Equal to the current one as long as it is current; kept for good."""
    reply = run.asker.get(path("jobs", run.job, "releases", run.description.release))
    yield from same("the description", read(reply, JobDescription), run.description)
    if "immutable" not in reply.headers.get("cache-control", ""):
        yield "its Cache-Control doesn't say immutable"
    if "public" in reply.headers.get("cache-control", ""):
        yield "its Cache-Control says public, though a key is needed"


def told_apart(known: Reply, unknown: Reply) -> Differences:
    """Whether an answer about what is somebody else's can be told from one about nothing."""
    yield from status(known, 404)
    if known.status == unknown.status and (known.body, known.media_type) != (unknown.body, unknown.media_type):
        yield f"{known.asked}: its 404 differs from that about nothing"


@line("unknown-job", "What this key may not see, or nobody has, is one and the same 404")
def unknown_job(run: Run) -> Differences:
    """A job and a release that nobody has."""
    nothing = run.asker.get(path("jobs", "conformance-none"))
    yield from status(nothing, 404)
    yield from told_apart(run.asker.get(path("jobs", run.job, "releases", "conformance-none")), nothing)
    yield from told_apart(run.asker.post(path("jobs", "conformance-none", "decisions"), {}), nothing)
    for where in ("verify", "output-checks"):
        body = {} if where == "verify" else {"output": "none", "content": {}}
        yield from told_apart(run.asker.post(path("executions", "exe_none", where), body), nothing)
    yield from told_apart(run.asker.post(path("output-checks", "chk_none", "verify"), {}), nothing)


@line("foreign-job", "Another tenant's key gets the same 404 on this job as on nothing")
def foreign_job(run: Run) -> Differences:
    """With a key that isn't for this job."""
    if not run.asker.has("other"):
        raise NotChecked("it needs another tenant's key: --other-key-env")
    nothing = run.asker.get(path("jobs", "conformance-none"), "other")
    yield from told_apart(run.asker.get(path("jobs", run.job), "other"), nothing)
    yield from told_apart(run.asker.post(path("jobs", run.job, "decisions"), {}, "other"), nothing)
    listed = read(run.asker.get(path("jobs"), "other"), Jobs).root
    if run.job in [each.job for each in listed]:
        yield "the job is in the other tenant's list"


@line("ids-are-one-segment", "An id is one encoded segment: with / .. or ? in it, it reaches no other path")
def ids_are_one_segment(run: Run) -> Differences:
    """Ids that would name this job if they were decoded before the path is cut."""
    for job in (
        f"{run.job}/releases/{run.description.release}",
        f"../jobs/{run.job}",
        f"./{run.job}",
        f"{run.job}?x",
        f"{run.job}#x",
        f"{run.job}/",
        "..",
        ".",
        "%2e%2e",
    ):
        yield from status(run.asker.get(path("jobs", job)), 404)
    yield from status(run.asker.post(path("executions", f"x/../../jobs/{run.job}", "verify"), {}), 404)
