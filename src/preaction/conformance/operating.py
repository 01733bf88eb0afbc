"""Lines on what operators do. They revoke one decision of their own and publish nothing."""

from pydantic import RootModel

from preaction.conformance.asking import path
from preaction.conformance.lines import Differences, NotChecked, line, read, same, status
from preaction.conformance.run import Run
from preaction.wire.models import (
    ExecutionPage,
    ExecutionSummary,
    OutputCheck,
    OutputCheckVerification,
    ReleaseSummary,
)
from preaction.wire.times import write_time


class Releases(RootModel[list[ReleaseSummary]]):
    """The answer of `list_releases`."""


def _operator(run: Run) -> None:
    if not run.asker.has("operator"):
        raise NotChecked("it needs an operator's key: --operator-key-env")


@line("releases", "GET /v0/packs/{pack}/releases lists the releases; another pack is 404")
def releases(run: Run) -> Differences:
    """The current one is among them."""
    _operator(run)
    pack = run.description.pack
    listed = read(run.asker.get(path("packs", pack, "releases"), "operator"), Releases).root
    if run.description.release not in [each.release for each in listed]:
        yield f"the current release {run.description.release!r} is not listed"
    if any(each.pack != pack for each in listed):
        yield "a release of another pack is listed"
    yield from status(run.asker.get(path("packs", "conformance-none", "releases"), "operator"), 404)


@line("bad-pack", "POST /v0/packs answers 422 with line and column for what is no pack", each_job=False)
def bad_pack(run: Run) -> Differences:
    """Nothing is published."""
    _operator(run)
    for text in (b"pack: [", b"conformance: 1\n", b"\xff"):
        reply = run.asker.post(path("packs"), text, "operator", {"Content-Type": "application/yaml"})
        yield from status(reply, 422)
        errors = reply.body.get("errors") if isinstance(reply.body, dict) else None
        first = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}
        if text != b"\xff" and not (isinstance(first.get("line"), int) and isinstance(first.get("column"), int)):
            yield "the 422 names no line and column"


@line("executions", "GET /v0/executions finds executions by case, job and time, newest first", makes=True)
def executions(run: Run) -> Differences:
    """The decision that was made is found, by each of the three."""
    _operator(run)
    decision = run.decision
    where = path("executions")
    query = {"case": decision.case.id, "job": run.job, "since": write_time(decision.decided_at)}
    for given in ({"case": query["case"]}, query):
        text = "&".join(f"{name}={_quoted(value)}" for name, value in given.items())
        page = read(run.asker.get(f"{where}?{text}", "operator"), ExecutionPage)
        if decision.execution_id not in [each.execution_id for each in page.items]:
            yield f"{', '.join(given)}: the decision isn't found"
        if any(each.case.id != decision.case.id for each in page.items):
            yield f"{', '.join(given)}: another case is found, too"
        times = [each.decided_at for each in page.items]
        if times != sorted(times, reverse=True):
            yield f"{', '.join(given)}: not newest first"
    yield from status(run.asker.get(f"{where}?since=yesterday", "operator"), 422)


def _quoted(value: str) -> str:
    return path(value).removeprefix("/v0/")


@line("revoke", "A revoked execution doesn't verify, its checks don't stand, and no text is checked for it", makes=True)
def revoke(run: Run) -> Differences:
    """A decision of its own, with a check where a text is known."""
    _operator(run)
    decision = run.fresh()
    run.forget()
    check_id = _checked(run, decision.execution_id)
    where = path("executions", decision.execution_id, "revoke")
    yield from same("revoked", read(run.asker.post(where, {}, "operator"), ExecutionSummary).revoked, True)
    yield from status(run.asker.post(where, {}, "operator"), 200)
    found = run.verified(decision.execution_id)
    yield from same("valid", found.valid, False)
    if "revoked" not in found.problems:
        yield "problems don't say revoked"
    if check_id is not None:
        verified = read(run.asker.post(path("output-checks", check_id, "verify"), {}), OutputCheckVerification)
        yield from same("valid of its output check", verified.valid, False)
        yield from status(run.check(decision.execution_id, run.passes), 409)
    yield from status(run.asker.post(path("executions", "exe_none", "revoke"), {}, "operator"), 404)


def _checked(run: Run, execution_id: str) -> str | None:
    try:
        reply = run.check(execution_id, run.passes)
    except NotChecked:
        return None
    return read(reply, OutputCheck).check_id if reply.status == 200 else None
