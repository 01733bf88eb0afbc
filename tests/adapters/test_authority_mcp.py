"""The authority's own MCP tools: at `/mcp`, over stdin and stdout, and beside another server's in the proxy.

Clients are the official SDK's, in both eras of the protocol, and FastMCP's.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="runs in its own environment: make test-runtimes")

import anyio
import httpx
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, TypeAdapter
from typer.testing import CliRunner

from authority.asking import REPLY, evidence
from authority.packs import HELPDESK, INVOICES
from docs.pages import ROOT, run_page
from preaction.adapters.mcp_proxy.authority import AuthorityTools, WithAuthority
from preaction.authority import LocalAuthority
from preaction.authority.keys import Keyring
from preaction.cli.app import app
from preaction.gate import ActionGate
from preaction.mcp_tools import FAILED, TOOLS, ToolRefused
from preaction.rest.felspar import Felspar
from preaction.results import read_result
from preaction.wire.models import Decision, JobDescription, OutputCheck

pytestmark = pytest.mark.filterwarnings("ignore:.* as of 2026-07-28")

HERE = Path(__file__).parent
PREACTION = [sys.executable, "-c", "from preaction.cli import main; main()"]
DESK = [sys.executable, str(HERE / "mcp_servers/official.py")]
JOB = "triage-ticket"
OUTPUT = "billing-team-reply"
FACTS = {"job": JOB, "entity_id": "HC-1201", "evidence": evidence()}
SEND = {"ticket_id": "HC-1201", **REPLY}

RULES = """\
origin: {origin}
agent_key_env: DESK_KEY
job: triage-ticket
decision_tool: get_job_decision
output_check_tool: check_output
deadline_s: 60
tools:
  helpdesk_reply:
    writes: billing-team-reply
    entity: {{field: ticket_id}}
    fields: [ticket_id, body]
    output_check: {{fields: [body]}}
"""


class World:
    """A running authority, and the ways to its tools."""

    def __init__(self, local: LocalAuthority, origin: str, folder: Path) -> None:
        self.local, self.origin = local, origin
        self.rules = folder / "gate.yaml"
        self.rules.write_text(RULES.format(origin=origin))
        self.ran = folder / "ran"
        own = {"DESK_KEY": local.agent_key, "AUTHORITY": origin, "AUTHORITY_KEY": "none", "RAN": str(self.ran)}
        self.environ = {**os.environ, **own, "PYTHONWARNINGS": "ignore"}

    def gate(self) -> ActionGate:
        return ActionGate.from_file(self.rules, environ=self.environ)

    def stdio(self, *words: str) -> StdioServerParameters:
        command = [*PREACTION, *words]
        return StdioServerParameters(command=command[0], args=command[1:], env=self.environ)

    @asynccontextmanager
    async def client(self, way: str, era: str, key: str | None = None) -> AsyncIterator[Client]:
        if way == "http":
            async with self.http(era, key or self.local.agent_key) as client:
                yield client
            return
        words = ["mcp", "--origin", self.origin, "--agent-key-env", "DESK_KEY"]
        async with Client(self.stdio(*words), mode=era) as client:
            yield client

    @asynccontextmanager
    async def http(self, era: str, key: str) -> AsyncIterator[Client]:
        async with (
            create_mcp_http_client(headers={"Authorization": f"Bearer {key}"}) as http,
            Client(streamable_http_client(f"{self.origin}/mcp", http_client=http), mode=era) as client,
        ):
            yield client


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with LocalAuthority.from_pack(HELPDESK) as local, local.serve() as served:
        yield World(local, served.origin, tmp_path)


def words(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def same_json(result: types.CallToolResult, model: type[BaseModel]) -> dict[str, Any]:
    """What the result says, which it says twice."""
    assert not result.is_error
    assert isinstance(result.structured_content, dict)
    assert json.loads(words(result)) == result.structured_content
    TypeAdapter(model).validate_python(result.structured_content)
    return result.structured_content


def refusal(result: types.CallToolResult) -> str:
    assert result.is_error
    assert result.structured_content is None
    return words(result)


WAYS = [(way, era) for way in ("http", "stdio") for era in ("legacy", "auto")]


@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_a_gate_lets_through_what_was_decided_and_checked_over_mcp(world: World, way: str, era: str) -> None:
    gate = world.gate()
    async with world.client(way, era) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(listed) == set(TOOLS) == {"get_job_decision", "check_output", "describe_job"}
        assert "Jobs: triage-ticket (Triage a ticket)." in (listed["get_job_decision"].description or "")
        assert (listed["describe_job"].annotations or types.ToolAnnotations()).read_only_hint is True
        described = same_json(await client.call_tool("describe_job", {"job": JOB}), JobDescription)
        assert described["outcomes"][0]["outputs"] == [OUTPUT]

        assert not (await gate.acheck("s", "helpdesk_reply", SEND)).allow
        decided = await client.call_tool("get_job_decision", FACTS)
        decision = same_json(decided, Decision)
        assert decision["outcome"]["id"] == "billing-question"
        assert read_result(decided).content == decision
        gate.record_result("s", "get_job_decision", FACTS, decided)

        asked = {"execution_id": decision["executionId"], "output": OUTPUT, "content": REPLY}
        checked = await client.call_tool("check_output", asked)
        assert same_json(checked, OutputCheck)["passed"]
        gate.record_result("s", "check_output", asked, checked)
        assert (await gate.acheck("s", "helpdesk_reply", SEND)).allow
        assert not (await gate.acheck("s", "helpdesk_reply", {**SEND, "body": "I guarantee it"})).allow


@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_refusals_are_errors_with_the_words_of_the_problem(world: World, way: str, era: str) -> None:
    async with world.client(way, era) as client:
        wrong = {**FACTS, "evidence": evidence(topic="weather")}
        said = refusal(await client.call_tool("get_job_decision", wrong))
        assert said.splitlines()[0] == "The request can't be used."
        assert said.splitlines()[1].startswith("/evidence/topic/value: ")
        assert "/entity_id" in refusal(await client.call_tool("get_job_decision", {"job": JOB, "evidence": evidence()}))
        assert "/a~1b: " in refusal(await client.call_tool("describe_job", {"job": JOB, "a/b": 1}))
        assert "/job: " in refusal(await client.call_tool("get_job_decision", {}))
        unknown = refusal(await client.call_tool("describe_job", {"job": "../v0/jobs"}))
        assert unknown == "There is nothing here that this key may see."
        decision = same_json(await client.call_tool("get_job_decision", FACTS), Decision)
        world.local.revoke(decision["executionId"])
        asked = {"execution_id": decision["executionId"], "output": OUTPUT, "content": REPLY}
        assert refusal(await client.call_tool("check_output", asked)) == "This execution was revoked."
        with pytest.raises(MCPError, match="no such tool"):
            await client.call_tool("publish_pack", {})


async def test_what_fails_inside_stays_inside(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(world.local._service, "decide", fail)
    for era in ("legacy", "auto"):
        async with world.client("http", era) as client:
            assert refusal(await client.call_tool("get_job_decision", FACTS)) == FAILED
    assert "secret" not in caplog.text
    assert "RuntimeError" in caplog.text


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_another_tenants_key_sees_nothing(tmp_path: Path, era: str) -> None:
    with (
        LocalAuthority.from_pack(HELPDESK, tmp_path / "one.db") as local,
        LocalAuthority.from_pack(INVOICES, tmp_path / "one.db"),
        local.serve() as served,
    ):
        world = World(local, served.origin, tmp_path)
        keyring = Keyring(local._storage)
        other = keyring.create("agent", "ledger", None, datetime.now(UTC))
        some = keyring.create("agent", "helpdesk", ["something-else"], datetime.now(UTC))
        async with world.client("http", era) as client:
            decision = same_json(await client.call_tool("get_job_decision", FACTS), Decision)
        nothing = "There is nothing here that this key may see."
        for key in (other, some):
            async with world.client("http", era, key) as client:
                assert JOB not in str((await client.list_tools()).tools)
                assert refusal(await client.call_tool("describe_job", {"job": JOB})) == nothing
                assert refusal(await client.call_tool("get_job_decision", FACTS)) == nothing
                asked = {"execution_id": decision["executionId"], "output": OUTPUT, "content": REPLY}
                theirs = refusal(await client.call_tool("check_output", asked))
                unknown = refusal(await client.call_tool("check_output", {**asked, "execution_id": "exe_none"}))
                assert theirs == unknown == nothing
        assert keyring.revoke(other.split("_")[2], datetime.now(UTC))
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {other}"}, trust_env=False, timeout=30) as http:
            assert (await http.post(f"{served.origin}/mcp", content=b"{}")).status_code == 401


async def test_fastmcps_client_reads_the_same(world: World) -> None:
    fastmcp = pytest.importorskip("fastmcp", reason="in the newest set")
    from fastmcp.client.transports import StreamableHttpTransport

    headers = {"Authorization": f"Bearer {world.local.agent_key}"}
    gate = world.gate()
    async with fastmcp.Client(StreamableHttpTransport(f"{world.origin}/mcp", headers=headers)) as client:
        assert {tool.name for tool in await client.list_tools()} == set(TOOLS)
        decided = await client.call_tool("get_job_decision", FACTS)
        gate.record_result("s", "get_job_decision", FACTS, decided)
        asked = {
            "execution_id": decided.structured_content["executionId"],
            "output": OUTPUT,
            "content": REPLY,
        }
        gate.record_result("s", "check_output", asked, await client.call_tool("check_output", asked))
        assert (await gate.acheck("s", "helpdesk_reply", SEND)).allow
        refused = await client.call_tool("describe_job", {"job": "none"}, raise_on_error=False)
        assert refused.is_error


# ---------------------------------------------------------------- over stdin and stdout


INITIALIZE = (
    '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"host","version":"1"}}}\n'
)


def run(world: World, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    options: Any = {"capture_output": True, "text": True, "timeout": 120, "input": "", "check": False}
    return subprocess.run([*PREACTION, "mcp", *words], env={**world.environ, **environ}, **options)


def test_the_command_ends_with_its_stdin_and_says_what_it_lacks(world: World) -> None:
    done = run(world, "--origin", world.origin, "--agent-key-env", "DESK_KEY")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = run(world, "--origin", world.origin)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "preaction: --agent-key-env: the environment has no PREACTION_AGENT_KEY\n"
    done = run(world, "--origin", "http://desk.example", "--agent-key-env", "DESK_KEY")
    assert done.returncode == 2
    assert done.stderr.startswith("preaction: origin")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_while_it_waits_for_its_client(world: World, number: signal.Signals) -> None:
    words = [*PREACTION, "mcp", "--origin", world.origin, "--agent-key-env", "DESK_KEY"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=world.environ, **pipes) as waiting:
        assert waiting.stdin is not None
        assert waiting.stdout is not None
        waiting.stdin.write(INITIALIZE)
        waiting.stdin.flush()
        assert "get_job_decision" in waiting.stdout.readline()
        waiting.send_signal(number)
        assert waiting.wait(60) == -number


def test_the_page_of_the_authority_shows_what_it_answers() -> None:
    assert "$ preaction mcp " in (ROOT / "docs/authority.md").read_text("utf-8")
    run_page(ROOT / "docs/authority.md")


async def test_an_authority_that_is_away_or_takes_no_key_is_named(world: World) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{unused.getsockname()[1]}"
    says = {}
    for name, felspar in {
        "away": Felspar(away, world.local.agent_key, deadline_s=2),
        "no key": Felspar(world.origin, "pa_agent_0_x", deadline_s=60),
    }.items():
        with felspar, pytest.raises(ToolRefused) as caught:
            await AuthorityTools(felspar).answer(None, TOOLS["describe_job"], {"job": JOB})
        says[name] = str(caught.value)
    assert says["no key"] == "A valid key is needed, as a bearer token."
    assert says["away"] == "describe_job: the authority could not be reached"


# ---------------------------------------------------------------- beside another server's tools


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_the_proxy_offers_them_beside_the_servers_own(world: World, era: str) -> None:
    proxied = world.stdio("proxy", "--rules", str(world.rules), "--session-from-meta", "--with-authority", "--", *DESK)
    meta: Any = {"preaction/session": "s"}
    async with Client(proxied, mode=era) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert len(listed) == len(set(listed))
        assert {"helpdesk_reply", "look_up", *TOOLS} <= set(listed)
        assert words(await client.call_tool("look_up", {"ticket_id": "HC-1201"})).startswith("HC-1201")

        denied = await client.call_tool("helpdesk_reply", SEND, meta=meta)
        assert words(denied).startswith("Denied, nothing was done")
        decision = same_json(await client.call_tool("get_job_decision", FACTS, meta=meta), Decision)
        asked = {"execution_id": decision["executionId"], "output": OUTPUT, "content": REPLY}
        assert same_json(await client.call_tool("check_output", asked, meta=meta), OutputCheck)["passed"]
        assert words(await client.call_tool("helpdesk_reply", SEND, meta=meta)) == "sent on HC-1201"
        assert "/job" in refusal(await client.call_tool("describe_job", {}, meta=meta))
    ran = [json.loads(line)[0] for line in world.ran.read_text().splitlines()]
    assert ran == ["look_up", "helpdesk_reply"]  # the server's own tools of the other names never ran


@contextmanager
def proxy_over_http(world: World) -> Iterator[str]:
    options = ["--http", "0", "--session-from-meta", "--with-authority", "--", *DESK]
    command = [*PREACTION, "proxy", "--rules", str(world.rules), *options]
    with subprocess.Popen(command, env=world.environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_the_proxy_offers_them_over_http_too(world: World, era: str) -> None:
    meta: Any = {"preaction/session": "s"}
    with proxy_over_http(world) as url:
        async with Client(url, mode=era) as client:
            assert set(TOOLS) <= {tool.name for tool in (await client.list_tools()).tools}
            decision = same_json(await client.call_tool("get_job_decision", FACTS, meta=meta), Decision)
            asked = {"execution_id": decision["executionId"], "output": OUTPUT, "content": REPLY}
            await client.call_tool("check_output", asked, meta=meta)
            assert words(await client.call_tool("helpdesk_reply", SEND, meta=meta)) == "sent on HC-1201"


def test_the_settings_of_a_host_have_the_option(world: World) -> None:
    words_ = ["proxy", "--rules", str(world.rules), "--print-config", "cursor", "--with-authority", "--", *DESK]
    done = CliRunner().invoke(app, words_)
    (entry,) = json.loads(done.stdout)["mcpServers"].values()
    assert entry["args"][-len(DESK) - 2 :] == ["--with-authority", "--", *DESK]


def test_the_proxy_says_what_it_lacks(world: World) -> None:
    environ = {name: value for name, value in world.environ.items() if name != "DESK_KEY"}
    words_ = ["proxy", "--rules", str(world.rules), "--with-authority", "--", *DESK]
    done = subprocess.run(
        [*PREACTION, *words_], env=environ, capture_output=True, text=True, timeout=120, input="", check=False
    )
    assert done.returncode == 2
    assert "--with-authority" in done.stderr


class Lonely:
    """A server that is played by the test."""

    spawns = False

    def __init__(self, *said: Any) -> None:
        self.said, self.sent = said, list[Any]()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["Lonely"]:
        yield self

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def messages(self) -> AsyncIterator[Any]:
        for message in self.said:
            yield message


def answered(id: int, **result: Any) -> types.JSONRPCResponse:
    return types.JSONRPCResponse(jsonrpc="2.0", id=id, result=result)


def asked(id: int, method: str, **params: Any) -> types.JSONRPCRequest:
    return types.JSONRPCRequest(jsonrpc="2.0", id=id, method=method, params=params)


async def both(world: World, questions: list[Any], *said: Any) -> tuple[Lonely, list[Any]]:
    server = Lonely(*said)
    with Felspar(world.origin, world.local.agent_key, deadline_s=60) as felspar:
        async with WithAuthority(server, AuthorityTools(felspar)).connect() as connection:
            for question in questions:
                await connection.send(question)
            return server, [message async for message in connection.messages()]


async def test_a_server_without_tools_gets_some(world: World) -> None:
    missing = types.JSONRPCError(jsonrpc="2.0", id=2, error=types.ErrorData(code=-32601, message="no such method"))
    questions = [asked(1, "initialize"), asked(2, "tools/list")]
    server, (opened, listed) = await both(world, questions, answered(1, capabilities={"logging": {}}), missing)
    assert server.sent == questions
    assert opened.result["capabilities"] == {"tools": {}, "logging": {}}
    assert [tool["name"] for tool in listed.result["tools"]] == list(TOOLS)


async def test_they_come_on_the_last_page_and_other_errors_stay(world: World) -> None:
    broken = types.JSONRPCError(jsonrpc="2.0", id=3, error=types.ErrorData(code=-32603, message="broken"))
    questions = [asked(n, "tools/list") for n in (1, 2, 3)]
    theirs = {"name": "check_output", "inputSchema": {}}, {"name": "look_up", "inputSchema": {}}
    first, last = answered(1, tools=list(theirs), nextCursor="2"), answered(2, tools=[theirs[1]])
    _, (one, two, three) = await both(world, questions, first, last, broken)
    assert [tool["name"] for tool in one.result["tools"]] == ["look_up"]
    assert [tool["name"] for tool in two.result["tools"]] == ["look_up", *TOOLS]
    assert three is broken


async def test_a_task_of_theirs_is_refused(world: World) -> None:
    server = Lonely()
    with Felspar(world.origin, world.local.agent_key, deadline_s=60) as felspar:
        async with WithAuthority(Hanging(), AuthorityTools(felspar)).connect() as connection:
            await connection.send(asked(1, "tools/call", name="describe_job", arguments={"job": JOB}, task={}))
            async for message in connection.messages():
                assert "no tasks" in message.error.message
                break
    assert server.sent == []


class Hanging(Lonely):
    async def messages(self) -> AsyncIterator[Any]:
        await anyio.sleep_forever()
        yield


class Slow(AuthorityTools):
    """Never answers."""

    async def answer(self, _request: object, _tool: Any, _arguments: Any) -> Any:
        await anyio.sleep_forever()


def cancelled(id: int) -> types.JSONRPCNotification:
    return types.JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": id})


async def test_a_call_of_theirs_can_be_cancelled(world: World) -> None:
    server = Hanging()
    with Felspar(world.origin, world.local.agent_key, deadline_s=60) as felspar:
        async with WithAuthority(server, Slow(felspar)).connect() as connection:
            await connection.send(asked(1, "tools/call", name="describe_job", arguments={"job": JOB}))
            await anyio.wait_all_tasks_blocked()
            await connection.send(cancelled(1))
            await connection.send(cancelled(9))  # not one of theirs, so it is the server's
            await connection.send(asked(2, "tools/call", name="describe_job", task={}))
            async for message in connection.messages():
                assert message.id == 2
                break
    assert server.sent == [cancelled(9)]
