"""The wire contract, held against our own authority and against authorities that are wrong on purpose."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typer.testing import CliRunner

from authority.packs import HELPDESK, INVOICES
from conformance.faults import FAULTS, MCP_FAULTS, Fault, Faulty, first_is_429
from preaction.authority import LocalAuthority
from preaction.authority.keys import Keyring
from preaction.authority.server.mcp import installed
from preaction.authority.server.serve import serving
from preaction.cli.app import app
from preaction.conformance.asking import Who
from preaction.conformance.report import Report, all_lines, examine
from preaction.conformance.sample import JobSample, Samples, read_samples
from preaction.errors import ConfigurationError

NO_MCP = [] if installed() else ["mcp-keys", "mcp-tools", "mcp-decides"]
"""The SDK is in an environment of its own, where `test_mcp_lines` runs."""
FACTS = {"topic": {"value": "billing", "source": "human"}, "amount": {"value": 20.5, "source": "erp"}}
PASSES = {"body": "Here is your answer.\nThe billing team"}
FAILS = {"body": "Hello, I guarantee it.\nThe billing team"}
TRIAGE = JobSample(request={"evidence": FACTS}, passes=PASSES, fails=FAILS)
SAMPLES = Samples(jobs={"triage-ticket": TRIAGE})
LEDGER = Samples(
    jobs={
        "pay-invoice": JobSample(request={"fields": {"vendor": "Acme", "invoice": 7, "amount": 20}}),
        "sort-mail": JobSample(request={"content": {"subject": "Hello", "body": "You win"}}),
    }
)


def keys_of(local: LocalAuthority) -> dict[Who, str]:
    other = Keyring(local._storage).create("agent", "another", None, datetime.now(UTC))
    return {"agent": local.agent_key, "operator": local.operator_key, "other": other}


@pytest.fixture(scope="module")
def authority() -> Iterator[tuple[str, dict[Who, str]]]:
    with LocalAuthority.from_pack(HELPDESK) as local, local.serve() as served:
        yield served.origin, keys_of(local)


def states(report: Report, state: str) -> list[str]:
    return [each.line for each in report.outcomes if each.state == state]


# ---------------------------------------------------------------- ours


def test_our_authority_keeps_every_line(authority: tuple[str, dict[Who, str]]) -> None:
    report = examine(*authority, samples=SAMPLES)
    assert states(report, "not checked") == NO_MCP
    assert [each.line for each in report.outcomes] == [each.name for each in all_lines()]
    assert report.conforms
    assert (report.decisions, report.checks) == (14, 9)


def test_requests_that_decide_are_found_where_none_is_given(authority: tuple[str, dict[Who, str]]) -> None:
    report = examine(*authority)
    assert report.conforms
    assert {"decide", "bad-facts", "verify", "receipt", "revoke"} <= set(states(report, "holds"))
    assert set(states(report, "not checked")) == {
        "check-output", "check-output-fails", "check-output-content", "output-not-allowed", "check-once",
        "verify-output-check", "verify-failed-check", "foreign-check", *NO_MCP,
    }  # fmt: skip


def test_jobs_of_every_identity_and_input_conform() -> None:
    with LocalAuthority.from_pack(INVOICES) as local, local.serve() as served:
        report = examine(served.origin, keys_of(local), samples=LEDGER)
    assert report.conforms, [each for each in report.outcomes if each.state == "differs"]
    held = {(each.job, each.line) for each in report.outcomes if each.state == "holds"}
    for job in ("pay-invoice", "open-case", "sort-mail"):
        assert {
            (job, line) for line in ("decide", "decide-once", "decide-on-the-right-case", "verify", "superseded")
        } <= held


def test_a_case_that_may_be_decided_again_is_used_where_one_is_given(authority: tuple[str, dict[Who, str]]) -> None:
    samples = Samples(jobs={"triage-ticket": TRIAGE.model_copy(update={"entity_id": "HC-1201"})})
    assert examine(*authority, samples=samples).conforms


def test_read_only_makes_nothing(authority: tuple[str, dict[Who, str]]) -> None:
    report = examine(*authority, read_only=True)
    assert report.conforms
    assert (report.decisions, report.checks) == (0, 0)
    assert set(states(report, "not checked")) == {*NO_MCP, *(each.name for each in all_lines() if each.makes)}


# ---------------------------------------------------------------- wrong ones


def faulty(fault: Fault, lines: tuple[str, ...] = ()) -> Report:
    with LocalAuthority.from_pack(HELPDESK) as local:
        keys = keys_of(local)
        with serving(Faulty(local.app, fault, keys), "127.0.0.1", 0) as served:
            return examine(served.origin, keys, jobs=["triage-ticket"], samples=SAMPLES, lines=lines)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_wrong_authority_fails_at_the_right_line(fault: Fault) -> None:
    report = faulty(fault, (*fault.lines, *fault.beside))
    assert not report.conforms
    assert set(states(report, "differs")) == set(fault.lines)
    assert all(each.details for each in report.outcomes if each.state == "differs")


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_it_fails_there_among_all_lines_too(fault: Fault) -> None:
    assert set(fault.lines) <= set(states(faulty(fault), "differs"))


def test_every_line_has_a_fault() -> None:
    assert {line for fault in FAULTS + MCP_FAULTS for line in fault.lines} == {each.name for each in all_lines()}


def test_who_is_told_to_wait_waits() -> None:
    slow = Fault("slow", (), before=lambda exchange: first_is_429(exchange, **{"retry-after": "0"}))
    report = faulty(slow, ("list-jobs", "too-many"))
    assert states(report, "holds") == ["list-jobs", "too-many"]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(200, b"null", marks=pytest.mark.long),
        (200, b"[]"),
        pytest.param(200, b"{}", marks=pytest.mark.long),
        pytest.param(200, b"\xff", marks=pytest.mark.long),
        (200, b'[{"job": 1}]'),
        pytest.param(200, b'{"keys": [1], "errors": [1]}', marks=pytest.mark.long),
        pytest.param(302, b"", marks=pytest.mark.long),
        pytest.param(404, b'{"errors": {"pointer": 1}}', marks=pytest.mark.long),
        (422, b'{"errors": [{"pointer": 1}, 2]}'),
        pytest.param(500, b"oops", marks=pytest.mark.long),
    ],
)
def test_odd_answers_differ_and_break_nothing(status: int, body: bytes) -> None:
    async def odd(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(body, status, media_type="application/json")(scope, receive, send)

    with serving(odd, "127.0.0.1", 0) as served:
        report = examine(served.origin, {"agent": "a", "operator": "o", "other": "x"}, jobs=["j"], samples=SAMPLES)
    assert not report.conforms


# ---------------------------------------------------------------- the command


def run(origin: str, keys: dict[Who, str], *words: str) -> Any:
    environ = {"AGENT": keys["agent"], "OPERATOR": keys.get("operator", ""), "OTHER": keys.get("other", "")}
    return CliRunner().invoke(app, ["conformance", "--origin", origin, "--agent-key-env", "AGENT", *words], env=environ)


def test_the_command_prints_line_by_line(authority: tuple[str, dict[Who, str]], tmp_path: Path) -> None:
    file = tmp_path / "samples.yaml"
    file.write_text(yaml_of(SAMPLES))
    words = ["--operator-key-env", "OPERATOR", "--other-key-env", "OTHER", "--samples", str(file)]
    done = run(*authority, *words)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "holds        openapi: GET /openapi.json describes every operation in OpenAPI 3.1, without a key"
    assert lines[-2:] == [
        f"{53 - len(NO_MCP)} hold, 0 differ, {len(NO_MCP)} not checked",
        "made: 14 decisions, 9 output checks",
    ]
    assert not any(key in done.stdout for key in authority[1].values())


def yaml_of(samples: Samples) -> str:
    return json.dumps(samples.model_dump(exclude_unset=True))  # which is YAML, too


def test_the_command_fails_when_a_line_differs(authority: tuple[str, dict[Who, str]]) -> None:
    with LocalAuthority.from_pack(HELPDESK) as local:
        keys = keys_of(local)
        (fault,) = [each for each in FAULTS if each.name == "OpenAPI 3.0"]
        with serving(Faulty(local.app, fault, keys), "127.0.0.1", 0) as served:
            done = run(served.origin, keys, "--line", "openapi", "--line", "jwks", "--json")
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    assert (report["conforms"], report["made"]) == (False, {"decisions": 0, "outputChecks": 0})
    assert [(each["line"], each["state"], each["details"]) for each in report["lines"]] == [
        ("openapi", "differs", ["openapi is '3.0.3' instead of 3.1"]),
        ("jwks", "holds", []),
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--operator-key-env", "NOBODY"], "--operator-key-env: the environment has no NOBODY"),
        (["--line", "none"], "there is no line none"),
        (["--samples", "none.yaml"], "none.yaml can't be read: No such file or directory"),
        (["--origin", "http://desk.example"], "origin"),
        (["--origin", "http://127.0.0.1:9"], "the authority can't be asked"),
    ],
)
def test_the_command_says_why_it_cannot_check(
    authority: tuple[str, dict[Who, str]], words: list[str], says: str
) -> None:
    done = run(*authority, *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr


def test_a_wrong_key_is_said_at_once(authority: tuple[str, dict[Who, str]]) -> None:
    done = run(authority[0], {"agent": "pa_agent_0_x"})
    assert done.exit_code == 2
    assert "doesn't take the agent's key: 401" in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("s.json", "{", "s.json: "),
        ("s.yaml", "jobs: [", "not YAML"),
        ("s.yaml", "jobs: {a: {requests: 1}}", "jobs.a.requests"),
        ("s.yaml", "jobs: {a: {request: {evidence: {x: {value: 1}}}}}", "jobs.a.request.evidence.x.source"),
        ("s.yaml", "jobs: {a: {passes: {body: 1}}}", "jobs.a.passes.body"),
        ("s.yaml", "jobs: {a: {entity_id: 2026-11-30}}", "not YAML of plain values"),
    ],
)
def test_a_wrong_samples_file_is_named(tmp_path: Path, name: str, text: str, says: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_samples(file)
    assert says in str(caught.value)
