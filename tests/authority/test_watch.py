"""What is written and counted of each request, and that nothing of a caller's own is in it."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from authority.asking import REPLY, evidence
from authority.packs import HELPDESK
from preaction.authority import LocalAuthority
from preaction.authority.server.logs import JsonLines, log_as_json, log_request
from preaction.authority.server.metrics import Metrics
from preaction.authority.server.watch import Seen, Watch
from preaction.errors import ConfigurationError

SECRET = "s3ntinel"
DECISIONS = "/v0/jobs/triage-ticket/decisions"


class Asked:
    """An authority over ASGI under watch, with what was noted of each request."""

    def __init__(self, authority: LocalAuthority) -> None:
        self.authority = authority
        self.noted: list[Seen] = []
        self.metrics = Metrics()
        app = Watch(authority.app, [self.noted.append, self.metrics.count, log_request])
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://authority")

    async def ask(self, method: str, path: str, key: str | None = None, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key or self.authority.agent_key}", **options.pop("headers", {})}
        return await self.http.request(method, path, headers=headers, **options)


@pytest.fixture
async def asked(helpdesk: LocalAuthority) -> Any:
    asked = Asked(helpdesk)
    yield asked
    await asked.http.aclose()


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged as JSON, and the logging that was there before."""
    root, requests = logging.getLogger(), logging.getLogger("preaction.requests")
    before = root.handlers[:], root.level, requests.level, logging.raiseExceptions
    for handler in before[0]:
        root.removeHandler(handler)  # kept open: they are pytest's
    stream = io.StringIO()
    log_as_json(stream)
    yield stream
    root.handlers[:], root.level = before[0], before[1]
    requests.setLevel(before[2])
    logging.raiseExceptions = before[3]


async def decide(asked: Asked, **options: Any) -> dict[str, Any]:
    answer = await asked.ask("POST", DECISIONS, json={"entity_id": "HC-1", "evidence": evidence()}, **options)
    decision: dict[str, Any] = answer.json()
    return decision


async def test_each_request_is_one_line(asked: Asked, lines: io.StringIO) -> None:
    decision = await decide(asked)
    await asked.ask("POST", f"/v0/executions/{decision['executionId']}/verify", json={})
    await asked.ask("GET", "/v0/executions?case=HC-1", asked.authority.operator_key)
    await asked.ask("GET", "/nowhere")
    await asked.ask("GET", "/v0/jobs", "pa_agent_0123_x")
    written = [json.loads(line) for line in lines.getvalue().splitlines()]
    agent, operator = (key.split("_")[2] for key in (asked.authority.agent_key, asked.authority.operator_key))
    assert [list(each) for each in written] == [
        ["time", "level", "method", "route", "status", "ms", "keyId", "executionId"]
    ] * 5
    assert [tuple(each.values())[2:5] + tuple(each.values())[6:] for each in written] == [
        ("POST", "/v0/jobs/{job}/decisions", 200, agent, decision["executionId"]),
        ("POST", "/v0/executions/{id}/verify", 200, agent, decision["executionId"]),
        ("GET", "/v0/executions", 200, operator, None),
        ("GET", "", 404, None, None),
        ("GET", "/v0/jobs", 401, None, None),
    ]
    assert all(each["ms"] >= 0 and each["time"].endswith("Z") for each in written)


async def test_no_value_of_a_request_is_logged_or_counted(asked: Asked, lines: io.StringIO) -> None:
    decision = await decide(asked)
    path = f"/v0/executions/{decision['executionId']}/output-checks"
    requests: list[tuple[str, str, Any]] = [
        ("POST", DECISIONS, {"json": {"entity_id": SECRET, "evidence": evidence()}}),
        ("POST", DECISIONS, {"json": {SECRET: SECRET}}),
        ("POST", DECISIONS, {"content": SECRET.encode()}),
        ("POST", DECISIONS, {"json": {"entity_id": "HC-2"}, "headers": {"Idempotency-Key": SECRET}}),
        ("POST", path, {"json": {"output": "billing-team-reply", "content": {"body": SECRET}}}),
        ("POST", path, {"json": {"output": SECRET, "content": REPLY}}),
        ("POST", f"/v0/executions/{SECRET}/verify", {"json": {}}),
        ("GET", f"/v0/jobs/{SECRET}", {}),
        ("GET", f"/{SECRET}", {}),
        ("GET", f"/v0/jobs?{SECRET}={SECRET}", {}),
        (SECRET.upper(), "/v0/jobs", {}),
        ("GET", "/v0/jobs", {"headers": {"X-Any": SECRET}}),
        ("POST", f"/mcp?{SECRET}", {"content": SECRET.encode()}),
    ]
    for method, where, options in requests:
        await asked.ask(method, where, **options)
    operator = asked.authority.operator_key
    for where in (f"/v0/executions?case={SECRET}", f"/v0/executions?{SECRET}=1", f"/v0/packs/{SECRET}/releases"):
        await asked.ask("GET", where, operator)
    await asked.ask("POST", "/v0/packs", operator, content=f"pack: {SECRET}")
    await asked.ask("GET", "/v0/jobs", f"pa_agent_{SECRET}_{SECRET}")
    await asked.ask("POST", "/console/sign-in", data={"key": operator, "form": SECRET})
    assert len(asked.noted) == 1 + 13 + 3 + 3
    secrets = [asked.authority.agent_key.split("_", 3)[3], operator.split("_", 3)[3]]
    for shown in (lines.getvalue(), asked.metrics.text()):
        assert shown
        assert SECRET not in shown.lower()
        assert all(secret not in shown for secret in secrets)


async def test_a_warning_is_a_line_without_a_trace(lines: io.StringIO) -> None:
    try:
        raise LookupError(SECRET)
    except LookupError:
        logging.getLogger("other").warning("went %s", "wrong", exc_info=True, stack_info=True)
    logging.getLogger("other").info("unheard")
    [written] = [json.loads(line) for line in lines.getvalue().splitlines()]
    del written["time"]
    assert written == {"level": "warning", "logger": "other", "message": "went wrong"}


async def test_an_answer_does_not_depend_on_its_log(asked: Asked, lines: io.StringIO) -> None:
    lines.close()
    assert (await asked.ask("GET", "/v0/jobs")).status_code == 200


def test_a_line_break_in_a_message_stays_in_its_line() -> None:
    record = logging.LogRecord("x", logging.WARNING, "", 0, "a\nb", None, None)
    assert json.loads(JsonLines().format(record))["message"] == "a\nb"
    assert "\n" not in JsonLines().format(record)


# ---------------------------------------------------------------- counters


async def test_requests_decisions_and_refusals_are_counted(asked: Asked) -> None:
    await decide(asked)
    await decide(asked)
    await asked.ask("POST", DECISIONS, json={"entity_id": "HC-2"})
    await asked.ask("GET", "/v0/jobs/none")
    text = asked.metrics.text()
    route = 'method="POST",route="/v0/jobs/{job}/decisions"'
    for line in (
        f'preaction_requests_total{{{route},status="200"}} 3.0',
        'preaction_requests_total{method="GET",route="/v0/jobs/{job}",status="404"} 1.0',
        'preaction_request_seconds_count{route="/v0/jobs/{job}/decisions"} 3.0',
        'preaction_decisions_total{job="triage-ticket",outcome="billing-question",pack="helpdesk"} 2.0',
        'preaction_decisions_total{job="triage-ticket",outcome="",pack="helpdesk"} 1.0',
        'preaction_refusals_total{status="404"} 1.0',
    ):
        assert line in text.splitlines()


def test_metrics_are_served_on_their_own_listener_only(asked: Asked) -> None:
    with asked.metrics.serving("127.0.0.1", 0) as url, httpx.Client(trust_env=False, timeout=60) as http:
        assert "preaction_requests" in http.get(url).text
        port = int(url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(ConfigurationError, match="can't listen"), asked.metrics.serving("127.0.0.1", port):
            pass


async def test_the_authority_itself_shows_no_metrics(asked: Asked) -> None:
    assert (await asked.ask("GET", "/metrics", asked.authority.operator_key)).status_code == 404


# ---------------------------------------------------------------- health


async def test_ready_is_who_has_a_database_and_a_current_release(asked: Asked) -> None:
    answer = await asked.http.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})
    with asked.authority._storage.writing() as connection:
        connection.exec_driver_sql("UPDATE releases SET published_at = 'x'")
    answer = await asked.http.get("/readyz")
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    with asked.authority._storage.writing() as connection:
        connection.exec_driver_sql("DROP TABLE releases")
    assert (await asked.http.get("/readyz")).status_code == 503
    assert (await asked.http.get("/healthz")).status_code == 200


def test_a_release_that_was_removed_is_none() -> None:
    with LocalAuthority.from_pack(HELPDESK) as authority, authority.serve() as served:
        with authority._storage.writing() as connection:
            connection.exec_driver_sql("DELETE FROM releases")
        assert httpx.get(f"{served.origin}/readyz", trust_env=False, timeout=60).status_code == 503
