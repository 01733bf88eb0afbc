"""Lines on what an authority may leave out: reports of verdicts, and tools over MCP. What isn't there isn't checked.

MCP is spoken here as its text says, with the handshake of 2025-06-18 over streamable HTTP, and without an SDK.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from preaction.conformance.asking import NONE, Differs, Reply, Who, path
from preaction.conformance.lines import Differences, NotChecked, line, part, places, read, same, status, there
from preaction.conformance.run import Run
from preaction.conformance.sample import new_case
from preaction.wire.models import Decision, JobDescription, OutputCheck, ReportedVerdict
from preaction.wire.times import write_time

MCP: Final = "/mcp"
PROTOCOL: Final = "2025-06-18"
TOOLS: Final = ("get_job_decision", "check_output", "describe_job")


# Reports ------------------------------------------------------------------------------------------------------------


@line(
    "report-verdict", "POST /v0/verdicts keeps a report, once for one Idempotency-Key, and no other field", makes=True
)
def report_verdict(run: Run) -> Differences:
    """A report, the same again, with each part missing, with one more, and by other keys."""
    described = run.asker.get("/openapi.json", "nobody").body
    if not isinstance(described, dict) or "/v0/verdicts" not in described.get("paths", ()):
        raise NotChecked("the authority takes no reports, which is optional")
    where, report = path("verdicts"), _report(run.job)
    once = {"Idempotency-Key": new_case()}
    first = run.asker.post(where, report, headers=once)
    kept = read(first, ReportedVerdict)
    yield from there(first, "verdictId", "receivedAt")
    again = run.asker.post(where, report, headers=once)
    yield from status(again, 200, 409)
    if again.status == 200:
        yield from same("the second answer", again.body, first.body)
    yield from status(run.asker.post(where, {**report, "allow": True}, headers=once), 422)
    if read(run.asker.post(where, report), ReportedVerdict).verdict_id == kept.verdict_id:
        yield "without an Idempotency-Key two reports have one verdictId"
    for name in report:
        yield from places(
            run.asker.post(where, {part: value for part, value in report.items() if part != name}), f"/{name}"
        )
    yield from places(run.asker.post(where, {**report, "arguments": {"body": "x"}}), "/arguments")
    yield from status(run.asker.post(where, report, "nobody"), 401)
    if run.asker.has("operator"):
        yield from status(run.asker.post(where, report, "operator"), 403)


def _report(job: str) -> dict[str, Any]:
    """All that a report needs, about nothing that there is."""
    said = {"job": job, "tool": "conformance", "code": "case_not_decided", "allow": False, "enforced": True}
    digest = "sha-256:" + "0" * 64
    return {**said, "reason": "Denied.", "callDigest": digest, "at": write_time(datetime.now(UTC))}


# Tools over MCP -----------------------------------------------------------------------------------------------------


@line("mcp-keys", "/mcp takes the same agents' keys: 401 without one, 403 for an operator's", each_job=False)
def mcp_keys(run: Run) -> Differences:
    """Before it looks at anything, as everywhere."""
    _session(run)
    yield from status(_post(run, _rpc("ping"), "nobody"), 401)
    yield from status(_post(run, _rpc("ping"), "nobody", {"Authorization": f"Bearer {run.asker.keys['agent']}x"}), 401)
    if run.asker.has("operator"):
        yield from status(_post(run, _rpc("ping"), "operator"), 403)


@line("mcp-tools", "/mcp has the three tools, and describe_job says what GET /v0/jobs/{job} does")
def mcp_tools(run: Run) -> Differences:
    """The list, a description, and one of a job that nobody has."""
    session = _session(run)
    listed = _result(run, session, "tools/list", {}).get("tools")
    names = [each.get("name") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    for name in TOOLS:
        if name not in names:
            yield f"tools/list lacks {name}"
    described = part("describe_job", _called(run, session, "describe_job", {"job": run.job}), JobDescription)
    yield from same("what describe_job says", described, run.description)
    refused = _result(run, session, "tools/call", {"name": "describe_job", "arguments": {"job": "conformance-none"}})
    yield from same("isError for a job that nobody has", refused.get("isError"), True)


@line("mcp-decides", "What /mcp decides and checks, /v0 answers for as for its own", makes=True)
def mcp_decides(run: Run) -> Differences:
    """A decision, verified over REST; and a text checked for it where one is known."""
    session, case = _session(run), run.case()
    named = {} if case is None else {"entity_id": case}
    asked = _called(run, session, "get_job_decision", {"job": run.job, **named, **run.request})
    run.asker.decisions += 1
    decision = part("get_job_decision", asked, Decision)
    yield from same("job", decision.job, run.job)
    yield from same("status", decision.status, "decided")
    found = run.verified(decision.execution_id)
    yield from same("valid over REST", found.valid, True)
    if found.replay is not None and decision.outcome is not None:
        yield from same("the outcome over REST", found.replay.outcome, decision.outcome.id)
    try:
        arguments = {"execution_id": decision.execution_id, "output": run.output, "content": run.passes}
    except NotChecked:
        return
    check = part("check_output", _called(run, session, "check_output", arguments), OutputCheck)
    run.asker.checks += 1
    yield from same("passed", check.passed, True)
    stands = run.asker.post(path("output-checks", check.check_id, "verify"), {}).body
    yield from same("valid of the check over REST", isinstance(stands, dict) and stands.get("valid"), True)


def _session(run: Run) -> Mapping[str, str]:
    """The headers of all further requests, after the handshake; `NotChecked` where there is no MCP."""
    client = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "conformance", "version": "0"}}
    reply = _post(run, _rpc("initialize", client))
    if reply.status in (404, 405):
        raise NotChecked("the authority has no tools at /mcp, which is optional")
    version = _read(reply).get("protocolVersion")
    session = {"MCP-Protocol-Version": version if isinstance(version, str) else PROTOCOL}
    if "mcp-session-id" in reply.headers:
        session["Mcp-Session-Id"] = reply.headers["mcp-session-id"]
    _post(run, {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
    return session


def _called(run: Run, session: Mapping[str, str], tool: str, arguments: Mapping[str, Any]) -> Any:
    """The structured content of a tool's result; the text is the same JSON."""
    result = _result(run, session, "tools/call", {"name": tool, "arguments": arguments})
    if result.get("isError"):
        raise Differs(f"{tool} is refused")
    return result.get("structuredContent")


def _result(run: Run, session: Mapping[str, str], method: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return _read(_post(run, _rpc(method, parameters), headers=session))


def _read(reply: Reply) -> dict[str, Any]:
    for difference in status(reply, 200):
        raise Differs(difference)
    result = reply.body.get("result") if isinstance(reply.body, dict) else None
    if not isinstance(result, dict):
        raise Differs(f"{reply.asked}: no JSON-RPC result")
    return result


def _rpc(method: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(parameters or {})}


def _post(run: Run, message: Any, who: Who = "agent", headers: Mapping[str, str] = NONE) -> Reply:
    return run.asker.post(MCP, message, who, {"Accept": "application/json, text/event-stream", **headers})
