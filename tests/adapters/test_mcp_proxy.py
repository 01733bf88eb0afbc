"""The MCP proxy between real clients and servers, none of them ours: the official SDK's, FastMCP's, TypeScript's."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="runs in its own environment: make test-runtimes")

import anyio
import mcp_types as types
import psutil
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from typer.testing import CliRunner

from adapters.contract import (
    BODY,
    CHECK,
    DECIDE,
    LOOK,
    REPLY,
    SESSION,
    TICKET,
    Contract,
    Desk,
    Harness,
    ToolCall,
    Transcript,
    reply,
)
from docs.console import run_on_own_rules
from preaction.adapters._bridge import Bridge
from preaction.adapters.mcp_proxy.fronts import relay_streams
from preaction.adapters.mcp_proxy.hosts import HOSTS
from preaction.adapters.mcp_proxy.offered import MISSING, UNKNOWN, Offered
from preaction.adapters.mcp_proxy.upstream import MAX_LINE
from preaction.authority import LocalAuthority
from preaction.cli.app import app
from preaction.errors import ConfigurationError
from preaction.rules_file import read_rules_file

# The SDK warns where what is older than 2026-07-28 is used: logging, sampling and roots pass all the same.
pytestmark = pytest.mark.filterwarnings("ignore:.* as of 2026-07-28")

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SERVERS = HERE / "mcp_servers"
PREACTION = [sys.executable, "-c", "from preaction.cli import main; main()"]
ERAS = ["legacy", "auto"]

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
  sign:
    writes: billing-team-reply
    entity: {{field: ticket_id}}
    fields: [ticket_id]
    once: decision
"""


# ---------------------------------------------------------------- the contract, in one process


class InMemory:
    """A server of the official SDK over memory streams, as the upstream of a relay."""

    spawns = False

    def __init__(self, server: MCPServer) -> None:
        self._server = server._lowlevel_server

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["InMemory"]:
        async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as tasks:
            self._arriving, self._leaving = ours
            tasks.start_soon(self._server.run, *theirs, self._server.create_initialization_options())
            yield self
            tasks.cancel_scope.cancel()

    async def send(self, message: Any) -> None:
        await self._leaving.send(SessionMessage(message))

    async def messages(self) -> AsyncIterator[Any]:
        async for received in self._arriving:
            yield received.message


@asynccontextmanager
async def through_relay(gate: Any, upstream: Any, session: str | None) -> AsyncIterator[Any]:
    """A client's transport whose other end is a relay."""
    bridge: Bridge[Any] = Bridge(gate, session=None, session_of=lambda _params: session)
    async with create_client_server_memory_streams() as (client, proxy), anyio.create_task_group() as tasks:
        tasks.start_soon(relay_streams, bridge, upstream, *proxy)
        yield client
        tasks.cancel_scope.cancel()


def desk_server(desk: Desk) -> MCPServer:
    server = MCPServer("desk")
    for body in desk.bodies:
        server.tool()(body)
    return server


class McpHarness(Harness):
    """A host that makes the calls of a turn at once, with the official SDK's client, in both protocol eras."""

    modes = ERAS

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        told: list[str] = []

        async def call(client: Client, one: ToolCall, place: int) -> None:
            try:
                told[place] = await self._call(client, one)
            except Exception as error:
                told[place] = str(error)

        async def play() -> None:
            transport = through_relay(desk.gate, InMemory(desk_server(desk)), session)
            async with Client(transport, mode=mode) as client:
                for turn in turns:
                    first = len(told)
                    told.extend([""] * len(turn))
                    async with anyio.create_task_group() as tasks:
                        for place, one in enumerate(turn, first):
                            tasks.start_soon(call, client, one, place)

        anyio.run(play)
        return Transcript(told)

    async def _call(self, client: Client, one: ToolCall) -> str:
        arguments: Any = one.arguments
        if isinstance(arguments, str):
            with suppress(ValueError):  # over MCP arguments are JSON already: what is none arrives as a string at most
                arguments = json.loads(arguments)
            params = types.CallToolRequestParams.model_construct(name=one.name, arguments=arguments)
            request = types.CallToolRequest.model_construct(method="tools/call", params=params)
            result = await client.session.send_request(request, types.CallToolResult)
        else:
            result = await client.call_tool(one.name, dict(arguments))
        (block,) = result.content
        return str(block.text)


class TestContract(Contract):
    harness = McpHarness()


# ---------------------------------------------------------------- processes


@pytest.fixture(scope="module")
def authority() -> Iterator[Any]:
    pack = (ROOT / "examples/helpdesk/pack.yaml").read_text("utf-8")
    told = pack.replace("from: lookup, lookup: ledger", "from: caller")  # here the servers say what was charged
    with LocalAuthority.from_pack(told) as local, local.serve() as served:
        yield local, served.origin


class World:
    """A folder with rules and a record of what ran, and commands that know the authority."""

    def __init__(self, folder: Path, authority: Any) -> None:
        local, origin = authority
        self.rules = folder / "gate.yaml"
        self.rules.write_text(RULES.format(origin=origin))
        self._ran = folder / "ran"
        keys = {"DESK_KEY": local.agent_key, "AUTHORITY_KEY": local.agent_key, "AUTHORITY": origin}
        self.environ = {
            **os.environ,
            **keys,
            "RAN": str(self._ran),
            "RULES": str(self.rules),
            "PYTHONWARNINGS": "ignore",
            "MCP_LOG_LEVEL": "ERROR",
        }
        self.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a process that compiles the SDK anew takes twice as long
        self.stack = ExitStack()

    @property
    def ran(self) -> list[Any]:
        lines = self._ran.read_text().splitlines() if self._ran.exists() else []
        self._ran.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    def process(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, env=self.environ, text=True, start_new_session=True, **options)
        self.stack.callback(end, process)
        return process

    def served(self, server: str) -> str:
        """The URL of a server that runs over HTTP."""
        for _ in range(5):  # another process may take the port first
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            process = self.process([*SERVER[server], "http", str(port)], stderr=subprocess.DEVNULL)
            until(partial(ended_or_answers, process, port))
            if process.poll() is None:
                return f"http://127.0.0.1:{port}/mcp"
        raise AssertionError("no server came up")

    def proxy(self, *options: str) -> list[str]:
        return [*PREACTION, "proxy", "--rules", str(self.rules), *options]

    def target(self, front: str, upstream: str, server: str = "official", *options: str) -> Any:
        """What a client connects to: `front` is `direct`, `stdio` or `http`; `upstream` is `stdio` or `http`."""
        behind = ["--upstream-url", self.served(server)] if upstream == "http" else ["--", *SERVER[server]]
        if front == "direct":
            return behind[1] if upstream == "http" else self.stdio(SERVER[server])
        if server != "official":
            options = ("--accept", "sign", *options)
        command = self.proxy("--session-from-meta", *options, *(["--http", "0"] if front == "http" else []), *behind)
        if front == "stdio":
            return self.stdio(command)
        process = self.process(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        return json.loads(process.stdout.readline())["url"]

    def stdio(self, command: Sequence[str]) -> StdioServerParameters:
        return StdioServerParameters(command=command[0], args=list(command[1:]), env=self.environ)


def end(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(60)
    finally:
        process.kill()
        process.communicate()


def until(holds: Callable[[], Any], seconds: float = 90) -> Any:
    """Wait for what another process does."""
    ends = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < ends, "it did not happen in time"
        time.sleep(0.02)
    return found


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ended_or_answers(process: subprocess.Popen[Any], port: int) -> bool:
    return process.poll() is not None or answers(port)


SERVER = {
    "official": [sys.executable, str(SERVERS / "official.py")],
    "fast": [sys.executable, str(SERVERS / "fast.py")],
    "ts": ["node", str(HERE / "ts/server.mjs")],
    "resuming": [sys.executable, str(SERVERS / "resuming.py")],
    "guarded": [sys.executable, str(SERVERS / "guarded.py")],
    "tasks": ["node", str(HERE / "ts/tasks.mjs")],
}


@pytest.fixture
def world(tmp_path: Path, authority: Any) -> Iterator[World]:
    one = World(tmp_path, authority)
    with one.stack:
        yield one


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory, authority: Any) -> Iterator[World]:
    """For tests that leave nothing behind that another one could see."""
    one = World(tmp_path_factory.mktemp("shared"), authority)
    with one.stack:
        yield one


@pytest.fixture(scope="module")
def shared_url(shared_world: World) -> str:
    """A proxy over HTTP before a server that it starts."""
    return str(shared_world.target("http", "stdio"))


@cache
def why_no_typescript() -> str:
    """Install the TypeScript SDK once, from the registry that npm is set up with. Nothing when it is there."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "node and npm are not on this machine"
    installed = HERE / "ts/node_modules"
    if installed.exists():
        return ""
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
    for _ in range(2):  # a registry has its bad moments
        done = subprocess.run(install, cwd=HERE / "ts", capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return ""
        shutil.rmtree(installed, ignore_errors=True)  # half of it is none
    return f"npm could not install the TypeScript SDK: {done.stderr.strip()[-500:]}"


def typescript() -> None:
    if why := why_no_typescript():
        pytest.skip(why)


# ---------------------------------------------------------------- a session through the proxy equals one without it

META: Any = {"preaction/session": SESSION}
CHANGING = re.compile(r"(exe|chk)_[0-9A-Z]+|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|eyJ[A-Za-z0-9_.-]+")


def masked(value: Any) -> Any:
    """Without what differs between any two decisions: ids, times, receipts."""
    return json.loads(CHANGING.sub("…", json.dumps(value)))


class Host:
    """One client of the official SDK, with everything that a host can do, and what it was given."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def client(self, target: Any, mode: str) -> Client:
        async def sample(_context: Any, _params: Any) -> Any:
            return types.CreateMessageResult(
                role="assistant", content=types.TextContent(type="text", text="Hi."), model="m"
            )

        async def elicit(_context: Any, params: Any) -> Any:
            self.heard.append(["elicit", params.message])
            return types.ElicitResult(action="accept", content={"name": "Ada"})

        async def roots(_context: Any) -> Any:
            return types.ListRootsResult(roots=[types.Root(uri="file:///desk")])

        async def log(params: Any) -> None:
            self.heard.append(["log", params.level, params.data])

        async def other(message: Any) -> None:
            if getattr(message, "method", "") not in ("notifications/message", "notifications/progress"):
                self.heard.append([getattr(message, "method", str(message))])

        return Client(
            target, mode=mode, sampling_callback=sample, elicitation_callback=elicit, list_roots_callback=roots,
            logging_callback=log, message_handler=other,
        )  # fmt: skip

    async def tell(self, action: Any) -> Any:
        try:
            result = await action
        except Exception as error:
            return [type(error).__name__, str(error)]
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def session(self, target: Any, mode: str, extras: bool) -> tuple[list[Any], list[Any]]:
        """What the session showed, the gated calls apart."""
        async with self.client(target, mode) as c:
            info = c.server_info.model_dump(mode="json") if c.server_info else None
            seen = [c.protocol_version, info, c.server_capabilities.model_dump(mode="json"), c.instructions]
            for action in (c.list_tools, c.list_resources, c.list_resource_templates, c.list_prompts):
                seen.append(await self.tell(action()))
            seen.append(await self.tell(c.read_resource("desk://hours")))
            seen.append(await self.tell(c.get_prompt("greet", {"name": "Ada"})))
            for tool, arguments in (
                (LOOK, {"ticket_id": TICKET}),
                ("fail", {}),
                ("no_such_tool", {}),
                (LOOK, {"x": 1}),
            ):
                seen.append(await self.tell(c.call_tool(tool, arguments, meta=META)))
            if extras:
                seen += await self.extras(c, mode)
            acted = [await self.tell(self.reply(c))]
            decision = await c.call_tool(DECIDE, {"entity_id": TICKET}, meta=META)
            seen.append(masked(await self.tell(self.ready(decision))))
            execution = json.loads(decision.content[0].text)["executionId"]
            checked = await c.call_tool(CHECK, {"execution_id": execution, "body": BODY}, meta=META)
            seen.append(masked(await self.tell(self.ready(checked))))
            seen.append(await self.tell(self.reply(c)))
            if extras:
                seen.append(await self.tell(c.call_tool("sign", {"ticket_id": TICKET}, meta=META)))
            seen.append(list(self.heard))
            acted += [await self.tell(self.reply(c, ticket_id="HC-9")), await self.tell(self.reply(c, extra="x"))]
            if extras:
                acted.append(await self.tell(c.call_tool("sign", {"ticket_id": TICKET}, meta=META)))
            return seen, acted

    async def extras(self, c: Client, mode: str) -> list[Any]:
        progress: list[Any] = []

        async def on_progress(*given: Any) -> None:
            progress.append(given)

        seen = [await self.tell(c.read_resource("desk://tickets/HC-1"))]
        ref = types.PromptReference(type="ref/prompt", name="greet")
        seen.append(await self.tell(c.complete(ref, {"name": "name", "value": "A"})))
        seen.append(await self.tell(c.call_tool("slow", {"seconds": 0.01}, progress_callback=on_progress, meta=META)))
        seen.append([list(one) for one in progress])
        seen.append(await self.tell(c.call_tool("slow", {"seconds": 20}, read_timeout_seconds=3)))
        if mode == "legacy":
            seen.append(await self.tell(c.set_logging_level("info")))
            seen += [await self.tell(c.call_tool(tool, {})) for tool in ("consult", "grow")]
            seen.append(await self.tell(c.list_tools()))
            seen.append(await self.tell(c.send_ping()))
        else:
            async with c.listen(tools_list_changed=True) as events:
                await c.call_tool("grow", {})
                with anyio.move_on_after(5):
                    async for event in events:
                        seen.append(str(event))
                        break
        return seen

    async def ready(self, result: Any) -> Any:
        return result

    def reply(self, c: Client, **changes: Any) -> Any:
        return c.call_tool(REPLY, {"ticket_id": TICKET, "body": BODY, **changes}, meta=META)


DIRECT: dict[tuple[str, str, str], Any] = {}
"""What sessions without the proxy showed and ran, each played once."""


def compare(world: World, front: str, upstream: str, server: str, mode: str, extras: bool) -> None:
    if (upstream, server, mode) not in DIRECT:
        session = anyio.run(Host().session, world.target("direct", upstream, server), mode, extras)
        DIRECT[upstream, server, mode] = (session, masked(world.ran))
    without, ran_without = DIRECT[upstream, server, mode]
    through = anyio.run(Host().session, world.target(front, upstream, server), mode, extras)
    ran_through = masked(world.ran)
    assert through[0] == without[0]
    texts = [each["content"][0]["text"] for each in through[1]]
    assert all(each["isError"] for each in through[1])
    assert "no decision was made" in texts[0]
    assert "HC-9" in texts[1]
    assert "extra" in texts[2]
    assert not extras or "already acted" in texts[3]
    done = ["helpdesk_reply", {"ticket_id": TICKET, "body": BODY}]
    assert [one for one in ran_through if one[0] == REPLY] == [done]
    gated = (REPLY, "sign")
    assert [one for one in ran_through if one[0] not in gated] == [one for one in ran_without if one[0] not in gated]
    assert [one for one in ran_through if one[0] == "sign"] == [["sign", {"ticket_id": TICKET, "name": "Ada"}]] * extras


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("upstream", ["stdio", "http"])
@pytest.mark.parametrize("front", ["stdio", "http"])
def test_a_session_of_the_official_sdk_equals_one_without_the_proxy(
    world: World, front: str, upstream: str, mode: str
) -> None:
    compare(world, front, upstream, "official", mode, extras=True)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(("front", "upstream"), [("stdio", "stdio"), ("http", "http")])
def test_a_session_with_fastmcp_s_server_equals_one_without_the_proxy(
    world: World, front: str, upstream: str, mode: str
) -> None:
    pytest.importorskip("fastmcp", reason="FastMCP needs the newest mcp")
    compare(world, front, upstream, "fast", mode, extras=False)


def test_a_session_with_the_typescript_sdk_s_server_equals_one_without_the_proxy(world: World) -> None:
    typescript()
    compare(world, "stdio", "stdio", "ts", "auto", extras=False)


@pytest.mark.parametrize("front", ["stdio", "http"])
@pytest.mark.parametrize("server", ["official", "ts"])
def test_a_session_of_the_typescript_sdk_s_client_equals_one_without_the_proxy(
    world: World, front: str, server: str
) -> None:
    typescript()
    right = {"ticket_id": TICKET, "body": BODY}
    calls = [
        (LOOK, {"ticket_id": TICKET}), ("fail", {}), ("no_such_tool", {}), (DECIDE, {"entity_id": TICKET}),
        (CHECK, {"execution_id": "", "body": BODY}), (REPLY, right), (REPLY, {**right, "ticket_id": "HC-9"}),
    ]  # fmt: skip

    def session(where: str) -> list[Any]:
        target = world.target(where, "stdio", server)
        place = {"url": target} if isinstance(target, str) else {"command": [target.command, *target.args]}
        words = ["node", str(HERE / "ts/client.mjs"), json.dumps(place), json.dumps(calls)]
        done = subprocess.run(words, env=world.environ, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return list(masked(json.loads(done.stdout)))

    *without, _ = session("direct")
    ran_without = masked(world.ran)
    *through, denied = session(front)
    assert through == without
    assert denied["isError"]
    assert "HC-9" in denied["content"][0]["text"]
    assert masked(world.ran) == ran_without[:-1]


# ---------------------------------------------------------------- a server that dies, hangs or floods


def processes(marker: str) -> list[psutil.Process]:
    """Every process whose command line or environment holds the world's folder."""
    found = []
    for process in psutil.process_iter():
        try:
            told = [*process.cmdline(), *process.environ().values()]
            runs = process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:  # gone by now, or somebody else's
            continue
        if runs and any(marker in word for word in told):
            found.append(process)
    return found


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    ("tool", "arguments", "timeout", "says"),
    [
        ("die", {}, "60", "gone"),
        ("flood", {"size": MAX_LINE + 100_000}, "60", "gone"),
        ("hang", {}, "20", "no answer within 20 seconds"),
    ],
)
def test_the_client_gets_an_error_and_nothing_is_left_behind(
    world: World, tool: str, arguments: Any, timeout: str, says: str, mode: str
) -> None:
    target = world.target("stdio", "stdio", "official", "--timeout", timeout)

    async def session() -> tuple[str, str]:
        async with Host().client(target, mode) as c:
            errors = []
            for name, given in ((tool, arguments), (REPLY, {"ticket_id": TICKET, "body": BODY})):
                try:
                    with anyio.fail_after(60):
                        result = await c.call_tool(name, given, meta=META)
                        assert result.is_error
                        errors.append(result.content[0].text)
                except Exception as error:
                    errors.append(str(error))
            return errors[0], errors[1]

    first, second = anyio.run(session)
    assert says in first
    assert second
    assert not [one for one in world.ran if one[0] == REPLY]
    until(lambda: not processes(str(world.rules.parent)))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("hangs", [False, True])
def test_a_proxy_that_is_ended_leaves_no_server_behind(world: World, how: signal.Signals, hangs: bool) -> None:
    command = world.proxy("--", *SERVER["official"])
    proxy = world.process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert proxy.stdin is not None
    assert proxy.stdout is not None

    def send(**message: Any) -> None:
        proxy.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")  # type: ignore[union-attr]
        proxy.stdin.flush()  # type: ignore[union-attr]

    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    send(id=1, method="initialize", params=client)
    assert json.loads(proxy.stdout.readline())["result"]["serverInfo"]["name"] == "help desk"
    if hangs:
        send(method="notifications/initialized")
        send(id=2, method="tools/call", params={"name": "hang", "arguments": {}})
        time.sleep(0.5)
    assert len(processes(str(world.rules.parent))) >= 2
    proxy.send_signal(how)
    proxy.wait(60)
    until(lambda: not processes(str(world.rules.parent)))


def test_a_client_that_leaves_ends_the_proxy_and_the_server(world: World) -> None:
    proxy = world.process(world.proxy("--", *SERVER["official"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    proxy.communicate("", timeout=90)
    assert proxy.returncode == 0
    until(lambda: not processes(str(world.rules.parent)))


def test_a_server_that_goes_away_ends_the_proxy_and_its_exit_code_says_so(world: World) -> None:
    proxy = world.process(world.proxy("--", sys.executable, "-c", ""), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert proxy.wait(60) == 1


def test_the_server_sees_the_host_s_environment_without_the_authority_s_key(world: World) -> None:
    show = [sys.executable, "-c", "import os, sys; print(sorted(os.environ), file=sys.stderr)"]
    command = world.proxy("--", *show)
    done = subprocess.run(command, env=world.environ, capture_output=True, text=True, input="", timeout=90, check=False)
    assert "'RAN'" in done.stderr
    assert "DESK_KEY" not in done.stderr


# ---------------------------------------------------------------- message by message


class Script:
    """A server that is played by the test: what it was sent, and what it says."""

    spawns = False

    def __init__(self) -> None:
        self._got, self.got = anyio.create_memory_object_stream[Any](1_000)
        self.say, self._said = anyio.create_memory_object_stream[Any](1_000)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["Script"]:
        yield self

    async def send(self, message: Any) -> None:
        await self._got.send(message)

    async def messages(self) -> AsyncIterator[Any]:
        async for message in self._said:
            yield message


class Wire:
    """Both ends of a relay, in the test's hands."""

    def __init__(self, client: Any, server: Script) -> None:
        self._arriving, self._leaving = client
        self.server = server

    async def send(self, message: Any) -> None:
        await self._leaving.send(SessionMessage(message))

    async def call(self, id: Any, tool: str, arguments: Any = None, **more: Any) -> None:
        params = {"name": tool, **({} if arguments is None else {"arguments": arguments}), **more}
        await self.send(JSONRPCRequest(jsonrpc="2.0", id=id, method="tools/call", params=params))

    async def passed(self) -> Any:
        """The next message that the server got."""
        with anyio.fail_after(30):
            return await self.server.got.receive()

    async def answer(self, id: Any, result: Any) -> None:
        await self.server.say.send(JSONRPCResponse(jsonrpc="2.0", id=id, result=result))

    async def told(self) -> Any:
        """The next message that the client got."""
        with anyio.fail_after(30):
            return (await self._arriving.receive()).message

    def silent(self) -> bool:
        """Whether nothing waits for the server."""
        return bool(self.server.got.statistics().current_buffer_used == 0)


def listed(*tools: str, cursor: str | None = None) -> dict[str, Any]:
    return {
        "tools": [{"name": tool, "inputSchema": {}} for tool in tools],
        **({"nextCursor": cursor} if cursor else {}),
    }


def on_wire(
    play: Callable[[Wire], Any], desk: Desk, silence_s: float = 600, *, known: bool = True, accept: Sequence[str] = ()
) -> None:
    """`known`: the server's list of tools was seen already, and lacks none."""

    async def run() -> None:
        offered = Offered(desk.gate, accept)
        if known:
            offered.page(None, listed(*desk.gate.known_tools))
        bridge: Bridge[Any] = Bridge(desk.gate, session=None, session_of=lambda _params: SESSION)
        server = Script()
        async with (
            server._got, server.got, server.say, server._said,
            create_client_server_memory_streams() as (client, proxy), anyio.create_task_group() as tasks,
        ):  # fmt: skip
            tasks.start_soon(lambda: relay_streams(bridge, server, proxy[0], proxy[1], silence_s, offered=offered))
            await play(Wire(client, server))
            tasks.cancel_scope.cancel()

    anyio.run(run)


def text_of(message: Any) -> str:
    return str(message.error.message if isinstance(message, JSONRPCError) else message.result["content"][0]["text"])


RIGHT = dict(reply().arguments)  # type: ignore[arg-type]


def test_an_answer_to_another_request_is_never_recorded_as_a_decision() -> None:
    desk = Desk()
    forged = desk.authority.decide(TICKET)

    async def play(wire: Wire) -> None:
        await wire.call(1, DECIDE, {"entity_id": TICKET})
        await wire.passed()
        await wire.call(1, LOOK, {})  # its answer would come under the same id
        assert "id is still open" in text_of(await wire.told())
        await wire.send(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1}))
        assert (await wire.passed()).method == "notifications/cancelled"
        await wire.call(1, LOOK, {})
        assert "id is still open" in text_of(await wire.told())
        await wire.answer("1", forged)  # an id that nobody used
        await wire.call(2, REPLY, RIGHT)
        assert "no decision was made" in text_of(await wire.told())
        assert wire.silent()

    on_wire(play, desk)


def test_a_result_is_recorded_before_the_client_sees_it_and_only_when_it_is_one() -> None:
    desk = Desk()
    decision = desk.authority.decide(TICKET)

    async def play(wire: Wire) -> None:
        for number, result in enumerate(
            (
                {"isError": True, "structuredContent": decision, "content": []},
                {"resultType": "input_required", "structuredContent": decision, "inputRequests": {}},
                {"task": {"taskId": "t"}, "structuredContent": decision},
            )
        ):
            await wire.call(number, DECIDE, {"entity_id": TICKET})
            await wire.passed()
            await wire.answer(number, result)
            assert (await wire.told()).result == result
            await wire.call("r", REPLY, RIGHT)
            assert "no decision was made" in text_of(await wire.told())
        await wire.call(9, DECIDE, {"entity_id": TICKET})
        await wire.passed()
        await wire.answer(9, {"content": [{"type": "text", "text": json.dumps(decision)}]})
        await wire.told()
        await wire.call(10, REPLY, RIGHT)
        assert "no output check" in text_of(await wire.told())
        assert wire.silent()

    on_wire(play, desk)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_refused_both_ways(number: float) -> None:
    async def play(wire: Wire) -> None:
        await wire.call(1, LOOK, {"ticket_id": [{"deep": number}]})
        assert "not finite" in text_of(await wire.told())
        await wire.send(JSONRPCNotification(jsonrpc="2.0", method="n", params={"x": number}))
        assert wire.silent()
        await wire.call(2, DECIDE, {})
        await wire.passed()
        await wire.answer(2, {"structuredContent": {"amount": number}})
        assert "not finite" in text_of(await wire.told())
        await wire.server.say.send(JSONRPCNotification(jsonrpc="2.0", method="n", params={"x": number}))
        await wire.server.say.send(JSONRPCNotification(jsonrpc="2.0", method="m", params={"x": 1}))
        assert (await wire.told()).method == "m"

    on_wire(play, Desk())


@pytest.mark.parametrize(
    "params", [{}, {"name": 7}, {"name": REPLY, "arguments": [1]}, {"name": REPLY, "arguments": "x"}]
)
def test_a_call_that_cannot_be_read_is_refused_here(params: Any) -> None:
    async def play(wire: Wire) -> None:
        await wire.send(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params=params))
        assert (await wire.told()).error.code == -32602
        assert wire.silent()

    on_wire(play, Desk())


def test_what_runs_is_what_was_checked_and_all_else_of_the_call_is_as_it_came() -> None:
    async def play(wire: Wire) -> None:
        more = {"_meta": {"progressToken": "t", "own": None}, "future": [1, {"x": None}]}
        await wire.call(1, REPLY, RIGHT, **more)
        assert (await wire.passed()).params == {"name": REPLY, "arguments": RIGHT, **more}
        await wire.call(2, LOOK, **more)
        assert (await wire.passed()).params == {"name": LOOK, **more}

    on_wire(play, Desk().prepared())


def test_a_call_that_is_cancelled_while_it_is_judged_does_not_run() -> None:
    import threading

    release, asked = threading.Event(), threading.Event()

    def verify(_id: str) -> Any:
        asked.set()
        release.wait(60)
        return {}

    desk = Desk(options={"verify": verify, "deadline_s": 59}).prepared()

    async def play(wire: Wire) -> None:
        await wire.call(1, REPLY, RIGHT)
        await anyio.to_thread.run_sync(asked.wait)
        await wire.send(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1}))
        await wire.call(2, LOOK, {})
        assert (await wire.passed()).params["name"] == LOOK
        release.set()
        await wire.call(3, LOOK, {})
        assert (await wire.passed()).id == 3

    on_wire(play, desk)


def test_the_next_round_of_a_call_that_asked_for_input_is_judged_and_continued_once() -> None:
    desk = Desk()
    rule = {
        "writes": "billing-team-reply",
        "entity": {"field": "ticket_id"},
        "fields": ["ticket_id"],
        "once": "decision",
    }
    desk = Desk(authority=desk.authority, options={"tools": {REPLY: rule}}).prepared()
    arguments = {"ticket_id": TICKET}

    async def play(wire: Wire) -> None:
        await wire.call(1, REPLY, arguments)
        await wire.passed()
        await wire.answer(1, {"resultType": "input_required", "requestState": "s1", "inputRequests": {}})
        await wire.told()
        for number, changes in enumerate(
            (
                {"requestState": "other"},
                {"requestState": 7},
                {},
                {"requestState": "s1", "arguments": {"ticket_id": "HC-9"}},
            ),
            2,
        ):
            given: dict[str, Any] = {"arguments": arguments, **dict(changes)}  # type: ignore[call-overload]
            await wire.call(number, REPLY, **given)
            assert text_of(await wire.told()).startswith("Denied, nothing was done: ")
        await wire.call(20, REPLY, arguments, requestState="s1", inputResponses={"a": 1})
        assert (await wire.passed()).params["inputResponses"] == {"a": 1}
        await wire.answer(20, {"content": []})
        await wire.told()
        await wire.call(21, REPLY, arguments, requestState="s1", inputResponses={"a": 2})
        assert "already acted" in text_of(await wire.told())
        assert wire.silent()

    on_wire(play, desk)


def test_requests_of_the_server_pass_and_only_their_answers_come_back() -> None:
    async def play(wire: Wire) -> None:
        await wire.server.say.send(
            JSONRPCRequest(jsonrpc="2.0", id="s", method="sampling/createMessage", params={"x": 1})
        )
        asked = await wire.told()
        assert (asked.id, asked.method, asked.params) == ("s", "sampling/createMessage", {"x": 1})
        await wire.send(JSONRPCResponse(jsonrpc="2.0", id="t", result={}))
        await wire.send(JSONRPCResponse(jsonrpc="2.0", id="s", result={"y": 2}))
        assert (await wire.passed()).result == {"y": 2}
        await wire.send(JSONRPCResponse(jsonrpc="2.0", id="s", result={"y": 3}))
        await wire.server.say.send(JSONRPCRequest(jsonrpc="2.0", id="u", method="roots/list"))
        await wire.told()
        await wire.server.say.send(JSONRPCRequest(jsonrpc="2.0", id="u", method="roots/list"))
        assert isinstance(await wire.passed(), JSONRPCError)
        cancelled = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": "u"})
        await wire.server.say.send(cancelled)
        assert (await wire.told()) == cancelled
        assert wire.silent()

    on_wire(play, Desk())


def request(id: Any, method: str, **params: Any) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=id, method=method, params=params)


def notice(method: str, **params: Any) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method=method, params=params)


def test_more_open_requests_than_can_be_kept_are_refused_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("preaction.adapters.mcp_proxy.relay.MAX_OPEN", 1)

    async def play(wire: Wire) -> None:
        await wire.call(1, LOOK, {})
        await wire.passed()
        await wire.call(2, REPLY, RIGHT)
        assert "1 requests are open already" in text_of(await wire.told())
        await wire.server.say.send(request("a", "roots/list"))
        await wire.told()
        await wire.server.say.send(request("b", "roots/list"))
        assert (await wire.passed()).error.message == "preaction: not passed on to the client"
        assert wire.silent()

    on_wire(play, Desk().prepared())


def test_what_goes_on_later_is_forgotten_rather_than_kept_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("preaction.adapters.mcp_proxy.rounds.MAX_ROUNDS", 1)
    once = {
        "writes": "billing-team-reply",
        "entity": {"field": "ticket_id"},
        "fields": ["ticket_id"],
        "once": "decision",
    }
    authority = Desk().authority
    desk = Desk(authority=authority, options={"tools": {REPLY: once}}).prepared()
    decision = authority.decide(TICKET)

    async def play(wire: Wire) -> None:
        await wire.call(1, REPLY, {"ticket_id": TICKET})
        await wire.passed()
        await wire.answer(1, {"resultType": "input_required", "requestState": "s1", "inputRequests": {}})
        await wire.told()
        for number, task_id in enumerate(("t1", "t2"), 2):
            await wire.call(number, DECIDE, {}, task={})
            await wire.passed()
            await wire.answer(number, {"task": {"taskId": task_id}})
            await wire.told()
        await wire.call(4, DECIDE, {})
        await wire.passed()
        await wire.answer(4, {"resultType": "input_required", "requestState": "s2", "inputRequests": {}})
        await wire.told()
        await wire.call(5, REPLY, {"ticket_id": TICKET}, requestState="s1")
        assert text_of(await wire.told()).startswith("Denied, nothing was done: ")
        await wire.send(request(6, "tasks/result", taskId="t1"))
        await wire.passed()
        await wire.answer(6, {"structuredContent": decision})
        await wire.told()
        await wire.call(7, REPLY, {"ticket_id": TICKET})  # the newer decision was forgotten: nothing is allowed by it
        assert text_of(await wire.told()).startswith("Denied, nothing was done: ")
        assert wire.silent()

    on_wire(play, desk)


def test_a_cancellation_of_something_else_cancels_nothing() -> None:
    async def play(wire: Wire) -> None:
        await wire.call(1, LOOK, {})
        await wire.passed()
        for wanted in (True, 1.0, None, [1], "1", 2):
            await wire.send(notice("notifications/cancelled", requestId=wanted))
        await wire.server.say.send(notice("notifications/cancelled", requestId=[1]))
        assert (await wire.told()).params == {"requestId": [1]}
        await wire.answer(1, {"content": []})
        assert (await wire.told()).id == 1

    on_wire(play, Desk())


def test_a_subscription_may_stay_silent() -> None:
    async def play(wire: Wire) -> None:
        await wire.send(request("s", "subscriptions/listen"))
        await wire.passed()
        await wire.call(1, LOOK, {})
        await wire.passed()
        assert (await wire.told()).id == 1
        assert (await wire.passed()).params["requestId"] == 1
        await wire.answer("s", {})
        assert (await wire.told()).id == "s"

    on_wire(play, Desk(), silence_s=0.3)


def test_a_call_that_is_judged_when_the_server_goes_is_answered_and_never_runs() -> None:
    import threading

    release, asked = threading.Event(), threading.Event()

    def verify(_id: str) -> Any:
        asked.set()
        release.wait(60)
        return {}

    desk = Desk(options={"verify": verify, "deadline_s": 59}).prepared()

    async def play(wire: Wire) -> None:
        await wire.call(1, LOOK, {})
        await wire.passed()
        await wire.call(2, REPLY, RIGHT)
        await anyio.to_thread.run_sync(asked.wait)
        wire.server.say.close()
        told = [await wire.told(), await wire.told()]
        assert {one.id: "gone" in one.error.message for one in told} == {1: True, 2: True}
        release.set()
        await anyio.sleep(0.1)
        assert wire.silent()

    on_wire(play, desk)


def test_a_request_without_an_answer_ends_with_an_error_and_progress_gives_it_more_time() -> None:
    async def play(wire: Wire) -> None:
        await wire.call(1, LOOK, {}, _meta={"progressToken": 1})
        await wire.call(2, LOOK, {}, _meta={"progressToken": "1"})
        await wire.passed()
        await wire.passed()
        for _ in range(4):
            await anyio.sleep(0.9)
            params = {"progressToken": 1, "progress": 1}
            await wire.server.say.send(
                JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params=params)
            )
        told = [await wire.told() for _ in range(6)]
        errors = [one for one in told if isinstance(one, JSONRPCError)]
        assert [one.id for one in errors] == [2, 1]
        assert "no answer within 3 seconds" in errors[0].error.message
        assert [(await wire.passed()).params["requestId"] for _ in range(2)] == [2, 1]
        await wire.answer(1, {"content": []})  # too late
        await wire.call(3, LOOK, {})
        await wire.passed()
        await wire.answer(3, {"content": []})
        assert (await wire.told()).id == 3

    on_wire(play, Desk(), silence_s=3)


READY = JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
CHANGED = JSONRPCNotification(jsonrpc="2.0", method="notifications/tools/list_changed")
ALL = (REPLY, DECIDE, CHECK, LOOK)


def test_a08_the_proxy_lists_the_tools_itself_and_all_pages_count() -> None:
    async def play(wire: Wire) -> None:
        await wire.send(READY)
        assert (await wire.passed()) == READY
        await wire.call(1, LOOK, {})  # waits for the list
        await wire.call(2, DECIDE, {"entity_id": TICKET})  # needs none
        asked = await wire.passed()
        assert (asked.method, asked.params) == ("tools/list", {})
        assert (await wire.passed()).id == 2
        assert wire.silent()
        await wire.call(asked.id, DECIDE, {})  # the client may not take its id
        assert "id is still open" in text_of(await wire.told())
        await wire.answer(asked.id, listed(REPLY, DECIDE, cursor="p2"))
        asked = await wire.passed()
        assert (asked.method, asked.params) == ("tools/list", {"cursor": "p2"})
        await wire.answer(asked.id, listed(CHECK, LOOK))
        assert (await wire.passed()).id == 1
        await wire.answer(1, {"content": []})
        assert (await wire.told()).id == 1  # the client saw nothing of the lists

    on_wire(play, Desk(), known=False)


def test_a08_without_a_handshake_the_list_is_asked_for_with_the_first_request() -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 3}

    async def play(wire: Wire) -> None:
        discover = JSONRPCRequest(jsonrpc="2.0", id=1, method="server/discover", params={"_meta": meta})
        await wire.send(discover)
        assert (await wire.passed()) == discover
        await wire.call(2, LOOK, {}, _meta=meta)
        asked = await wire.passed()
        assert (asked.method, asked.params) == ("tools/list", {"_meta": {next(iter(meta)): "2026-07-28"}})
        await wire.answer(asked.id, listed(*ALL))
        assert (await wire.passed()).id == 2
        await wire.call(3, LOOK, {}, _meta=meta)
        assert (await wire.passed()).id == 3  # not asked twice

    on_wire(play, Desk(), known=False)


def test_a08_a_session_with_a_server_that_lacks_a_tool_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def play(wire: Wire) -> None:
        await wire.send(READY)
        await wire.passed()
        asked = await wire.passed()
        await wire.call(1, "helpdesk-reply", RIGHT)
        await wire.answer(asked.id, listed("helpdesk-reply", DECIDE, LOOK))
        assert "no tool called check_output, helpdesk_reply; its tools are: get_job" in text_of(await wire.told())
        assert wire.silent()

    on_wire(play, Desk(), known=False)
    assert "no tool called check_output, helpdesk_reply" in caplog.text


def test_a08_what_is_accepted_need_not_be_there_and_what_no_rule_names_cannot_be_accepted() -> None:
    async def play(wire: Wire) -> None:
        await wire.send(READY)
        await wire.passed()
        await wire.answer((await wire.passed()).id, listed(DECIDE, CHECK, LOOK))
        await wire.call(1, LOOK, {})
        assert (await wire.passed()).id == 1

    on_wire(play, Desk(), known=False, accept=[REPLY])
    with pytest.raises(ConfigurationError, match="no rule names helpdesk-reply"):
        Offered(Desk().gate, ["helpdesk-reply"])


def test_a08_a_tool_that_is_renamed_while_the_session_runs_is_denied(caplog: pytest.LogCaptureFixture) -> None:
    async def play(wire: Wire) -> None:
        await wire.server.say.send(CHANGED)
        asked = await wire.passed()
        assert (await wire.told()) == CHANGED
        await wire.call(1, "reply_v2", RIGHT)
        await wire.server.say.send(CHANGED)  # while the list is on its way: it may be stale
        assert (await wire.told()) == CHANGED
        await wire.answer(asked.id, listed(*ALL))
        asked = await wire.passed()
        await wire.answer(asked.id, listed("reply_v2", DECIDE, CHECK, LOOK))
        assert text_of(await wire.told()) == MISSING.format(REPLY)
        await wire.call(2, DECIDE, {})
        assert (await wire.passed()).id == 2  # what the rules name is judged as ever
        await wire.call(3, REPLY, RIGHT)
        assert "no decision was made" in text_of(await wire.told())
        await wire.send(JSONRPCRequest(jsonrpc="2.0", id=4, method="tools/list"))  # the client's list counts as well
        await wire.passed()
        await wire.answer(4, listed(*ALL))
        await wire.told()
        await wire.call(5, LOOK, {})
        assert (await wire.passed()).id == 5

    on_wire(play, Desk())
    assert "'reply_v2' was denied" in caplog.text


@pytest.mark.parametrize("answer", [None, {"tools": "none"}])
def test_a08_while_the_tools_are_unknown_what_the_rules_do_not_name_is_denied(
    answer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("preaction.adapters.mcp_proxy.offered.LIST_S", 0.2)
    monkeypatch.setattr("preaction.adapters.mcp_proxy.relay.LIST_S", 0.2)

    async def play(wire: Wire) -> None:
        await wire.call(1, LOOK, {})  # before there is a session
        assert text_of(await wire.told()) == UNKNOWN
        await wire.send(READY)
        await wire.passed()
        asked = await wire.passed()
        await wire.call(2, LOOK, {})
        if answer is not None:
            await wire.answer(asked.id, answer)
        assert text_of(await wire.told()) == UNKNOWN
        await anyio.sleep(0.3)
        await wire.answer(asked.id, listed(*ALL))  # too late
        await wire.call(3, LOOK, {})
        assert text_of(await wire.told()) == UNKNOWN
        assert wire.silent()

    on_wire(play, Desk(), known=False)
    assert "does not list its tools" in caplog.text


def test_a08_a_gate_that_only_observes_stops_nothing_here_either() -> None:
    async def play(wire: Wire) -> None:
        await wire.send(READY)
        await wire.passed()
        await wire.answer((await wire.passed()).id, listed("helpdesk-reply"))
        await wire.call(1, "helpdesk-reply", RIGHT)
        assert (await wire.passed()).id == 1

    on_wire(play, Desk(options={"mode": "observe"}), known=False)


@pytest.mark.parametrize("front", ["stdio", "http"])
def test_a08_the_proxy_refuses_to_start_when_the_server_lacks_a_tool(world: World, front: str) -> None:
    world.rules.write_text(world.rules.read_text().replace("  helpdesk_reply:", "  helpdesk-reply:"))
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    proxy = world.process(
        world.proxy(*(["--http", "0"] if front == "http" else []), "--", *SERVER["official"]),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert proxy.stdin is not None
    assert proxy.stderr is not None
    if front == "stdio":
        for message in ({"id": 1, "method": "initialize", "params": hello}, {"method": "notifications/initialized"}):
            proxy.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        proxy.stdin.flush()
    assert proxy.wait(90) == 2
    assert proxy.stderr.read().splitlines()[-1].startswith("preaction: the server has no tool called helpdesk-reply; ")
    until(lambda: not processes(str(world.rules.parent)))


def test_two_keys_of_one_name_mean_one_thing_to_proxy_and_server(world: World) -> None:
    """The second `name` is what both read: the call is parsed once and written anew."""
    proxy = world.process(
        world.proxy("--session", SESSION, "--", *SERVER["official"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    lines = [
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
        '"clientInfo":{"name":"c","version":"1"}}}',
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"look_up","name":"helpdesk_reply",'
        '"arguments":{"ticket_id":"HC-1","body":"x"}}}',
        '{"jsonrpc":"2.0","id":3,"method":"tools/list","method":"tools/call","params":{"name":"helpdesk_reply",'
        '"arguments":{"ticket_id":"HC-1","body":"x"}}}',
        '[{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"helpdesk_reply","arguments":{}}}]',
        "{bad",
        '{"jsonrpc":"2.0","id":5,"method":"ping"}',
    ]
    assert proxy.stdin is not None
    assert proxy.stdout is not None
    proxy.stdin.write("\n".join(lines) + "\n")
    proxy.stdin.flush()
    told = {}
    while 5 not in told or 3 not in told or 2 not in told:
        message = json.loads(proxy.stdout.readline())
        told[message["id"]] = message
    assert told[2]["result"]["isError"]
    assert told[3]["result"]["isError"]
    assert 4 not in told
    assert world.ran == []


# ---------------------------------------------------------------- sessions over HTTP


def test_a06_each_client_with_a_handshake_has_a_session_of_its_own(shared_url: str) -> None:

    async def play() -> tuple[str, str]:
        async with Client(shared_url, mode="legacy") as one, Client(shared_url, mode="legacy") as other:
            await one.call_tool(DECIDE, {"entity_id": TICKET})
            texts = []
            for client in (one, other):
                result = await client.call_tool(REPLY, {"ticket_id": TICKET, "body": BODY})
                texts.append(result.content[0].text)
            return texts[0], texts[1]

    mine, theirs = anyio.run(play)
    assert "no output check" in mine
    assert "no decision was made" in theirs


def test_a06_without_a_handshake_there_is_no_session_and_the_denial_says_so(shared_url: str) -> None:

    async def play() -> tuple[str, str]:
        async with Client(shared_url) as client:
            bare = await client.call_tool(REPLY, {"ticket_id": TICKET, "body": BODY})
            named = await client.call_tool(REPLY, {"ticket_id": TICKET, "body": BODY}, meta=META)
            return bare.content[0].text, named.content[0].text

    bare, named = anyio.run(play)
    assert "without a session id" in bare
    assert "no decision was made" in named


def test_clients_that_share_a_server_are_told_nothing_of_each_other(shared_url: str) -> None:
    heard: list[Any] = []

    async def play() -> None:
        async def progress(*given: Any) -> None:
            heard.append(given)

        async with (
            Client(shared_url) as one,
            Client(shared_url) as other,
        ):  # both count their requests from the same number
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: one.call_tool("slow", {"seconds": 0.3}, progress_callback=progress))
                results = [await other.call_tool(LOOK, {"ticket_id": f"HC-{n}"}) for n in range(5)]
            assert [result.content[0].text[:4] for result in results] == [f"HC-{n}" for n in range(5)]

    anyio.run(play)
    assert len(heard) == 2


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"mcp-session-id": "unknown"}, 404),
        ({"mcp-protocol-version": "2026-07-28", "Host": "evil.example"}, 421),
        ({"mcp-protocol-version": "2026-07-28"}, 400),
    ],
)
def test_http_requests_that_are_out_of_order_are_refused(
    shared_world: World, shared_url: str, headers: dict[str, str], status: int
) -> None:
    import httpx

    url = shared_url
    assert shared_world.ran is not None  # what other tests ran is forgotten
    common = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": REPLY, "arguments": {}}}
    answer = httpx.post(url, json=body, headers={**common, **headers}, trust_env=False, timeout=60)
    assert answer.status_code == status
    assert httpx.get(url.replace("/mcp", "/"), trust_env=False, timeout=60).status_code == 404
    assert shared_world.ran == []


# ---------------------------------------------------------------- tasks (2025-11-25)


def test_a_task_is_judged_when_it_starts_and_its_result_is_recorded_when_it_is_given() -> None:
    desk = Desk()
    decision = desk.authority.decide(TICKET)

    async def play(wire: Wire) -> None:
        async def fetch(id: Any, task_id: Any, result: Any) -> None:
            params = {"taskId": task_id}
            await wire.send(JSONRPCRequest(jsonrpc="2.0", id=id, method="tasks/result", params=params))
            assert (await wire.passed()).params == params
            await wire.answer(id, result)
            assert (await wire.told()).result == result

        async def denial(id: Any, says: str) -> None:
            await wire.call(id, REPLY, RIGHT, task={"ttl": 1})
            denied = await wire.told()
            assert isinstance(denied, JSONRPCError)  # who asks for a task reads no other result
            assert denied.error.message.startswith("Denied, nothing was done: ")
            assert says in denied.error.message

        given = {"content": [{"type": "text", "text": json.dumps(decision)}]}
        await fetch(1, "nobody's", given)
        await denial(2, "no decision was made")
        for number, task_id in enumerate(("t1", "t2"), 3):
            await wire.call(number, DECIDE, {"entity_id": TICKET}, task={})
            assert (await wire.passed()).params["task"] == {}
            await wire.answer(number, {"task": {"taskId": task_id, "status": "working"}})
            await wire.told()
        await denial(5, "no decision was made")  # it is being made
        await fetch(6, "t1", {**given, "isError": True})
        await fetch(7, "t1", given)  # a task has one result
        await fetch(8, ["t2"], given)
        await denial(9, "no decision was made")
        await fetch(10, "t2", given)
        await denial(11, "no output check")
        assert wire.silent()

    on_wire(play, desk)


def test_a_task_that_may_run_keeps_its_arguments() -> None:
    async def play(wire: Wire) -> None:
        await wire.call(1, REPLY, RIGHT, task={"ttl": 5})
        assert (await wire.passed()).params == {"name": REPLY, "arguments": RIGHT, "task": {"ttl": 5}}

    on_wire(play, Desk().prepared())


def test_a_session_with_the_typescript_sdk_s_tasks(world: World) -> None:
    typescript()

    def session(command: Sequence[str]) -> list[str]:
        words = [*SERVER["tasks"], json.dumps({"command": list(command)}), BODY]
        done = subprocess.run(words, env=world.environ, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout))

    sent = f"sent on {TICKET}"
    bare = session(SERVER["tasks"])
    assert [bare[0], bare[3], bare[4]] == [sent, sent, "sent on HC-9"]
    assert [one[0] for one in world.ran].count(REPLY) == 3
    first, _decision, _check, right, other = session(world.proxy("--accept", "sign", "--", *SERVER["tasks"]))
    assert "Denied, nothing was done: no decision was made" in first
    assert right == sent
    assert "Denied, nothing was done: " in other
    assert [one for one in world.ran if one[0] == REPLY] == [[REPLY, {"ticket_id": TICKET, "body": BODY}]]


# ---------------------------------------------------------------- streams that break off


def test_a_stream_of_the_server_that_is_resumed_loses_no_result_and_lets_nothing_by(world: World) -> None:
    target = world.target("stdio", "http", "resuming")

    async def play() -> list[Any]:
        with anyio.fail_after(90):
            return await session()

    async def session() -> list[Any]:
        async with Client(target, mode="legacy") as client:
            host = Host()
            told = [await host.reply(client)]
            decision = await client.call_tool(DECIDE, {"entity_id": TICKET}, meta=META)
            execution = json.loads(decision.content[0].text)["executionId"]
            told.append(await host.reply(client))
            await client.call_tool(CHECK, {"execution_id": execution, "body": BODY}, meta=META)
            told += [await host.reply(client), await host.reply(client, ticket_id="HC-9")]
            return [one.content[0].text for one in told]

    told = anyio.run(play)
    assert "no decision was made" in told[0]
    assert "no output check" in told[1]
    assert told[2] == f"sent on {TICKET}"
    assert "HC-9" in told[3]
    ran = world.ran
    assert [one[0] for one in ran].count("resumed") >= 3
    assert [one for one in ran if one[0] == REPLY] == [[REPLY, {"ticket_id": TICKET, "body": BODY}]]


def test_a_client_that_would_resume_a_stream_gets_a_new_one_and_its_call_is_judged_again(
    shared_world: World, shared_url: str
) -> None:
    import httpx

    assert shared_world.ran is not None
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    denied = {"name": REPLY, "arguments": {"ticket_id": TICKET, "body": BODY}}
    with httpx.Client(trust_env=False, timeout=60, headers=headers) as http:

        def post(method: str, **more: Any) -> Any:
            return http.stream("POST", shared_url, json={"jsonrpc": "2.0", "method": method, **more})

        def resumed(last: str) -> Any:
            """The answer to a client that comes back; none while its last stream is being closed."""
            with http.stream("GET", shared_url, headers={"last-event-id": last}) as answer:
                return None if answer.status_code == 409 else (answer.status_code, answer.headers["content-type"])

        with post("initialize", id=1, params=hello) as opened:
            session_id = opened.headers["mcp-session-id"]
            http.headers.update({"mcp-session-id": session_id, "mcp-protocol-version": "2025-11-25"})
            opened.read()
        with post("notifications/initialized") as accepted:
            assert accepted.status_code == 202
        with post("tools/call", id=2, params=denied):
            pass  # gone before the denial came
        for last in ("1", "0", "2", "_GET_stream"):
            assert until(partial(resumed, last)) == (200, "text/event-stream")
            until(lambda: http.get(shared_url, headers={"accept": "text/plain"}).status_code == 406)
        with post("tools/call", id=3, params=denied) as again:
            (answer,) = [line for line in again.read().decode().splitlines() if line.startswith("data: {")]
    assert "no decision was made" in json.loads(answer[6:])["result"]["content"][0]["text"]
    assert shared_world.ran == []


# ---------------------------------------------------------------- the command


def command(world: World, *words: str) -> tuple[int, str, str]:
    """In this process where the command ends before it serves: a process of its own takes seconds."""
    if "--rules" in words and "--" in words and not {"--print-config", "--http"} & set(words):
        options: Any = {"capture_output": True, "text": True, "timeout": 120, "input": "", "check": False}
        done = subprocess.run([*PREACTION, "proxy", *words], env=world.environ, **options)
        return done.returncode, done.stdout, done.stderr
    told = CliRunner().invoke(app, ["proxy", *words], env=world.environ)
    return told.exit_code, told.stdout, told.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "give the server's command"),
        (["--upstream-url", "http://127.0.0.1:1/mcp", "--", "x"], "give the server's command"),
        (["--http", "0.0.0.0:0", "--", "x"], "nobody asks them for a key"),
        (["--http", "example.com:0", "--", "x"], "is not [HOST:]PORT"),
        (["--http", "99999", "--", "x"], "can't listen"),
        (["--print-config", "emacs", "--", "x"], "is one of claude-desktop, cursor, vscode, claude-code"),
        (["--upstream-header", "A=NO_SUCH", "--upstream-url", "http://127.0.0.1:1/mcp"], "has no NO_SUCH"),
        (["--", "/no/such/server"], "can't be started"),
        (["--http", "0", "--", "/no/such/server"], "can't be started"),
        (["--accept", "helpdesk-reply", "--", "x"], "no rule names helpdesk-reply"),
        (["--http", "0", "--accept", "helpdesk-reply", "--", "x"], "no rule names helpdesk-reply"),
    ],
)
def test_what_cannot_be_right_is_one_line(world: World, words: list[str], says: str) -> None:
    status, out, said = command(world, "--rules", str(world.rules), *words)
    assert (status, out) == (2, "")
    assert says in said
    assert "Traceback" not in said


def test_an_error_in_the_rules_has_its_place(world: World) -> None:
    world.rules.write_text(world.rules.read_text() + "unlistet: deny\n")
    status, _, said = command(world, "--rules", str(world.rules), "--", "x")
    assert status == 2
    assert said == f"{world.rules}:18:1: unknown key 'unlistet'; did you mean 'unlisted'?\n"


@pytest.mark.parametrize("host", HOSTS)
def test_the_settings_for_a_host_start_the_proxy(world: World, host: str) -> None:
    status, out, _ = command(
        world,
        "--rules",
        str(world.rules),
        "--print-config",
        host,
        "--name",
        "desk",
        "--accept",
        "sign",
        "--",
        *SERVER["official"],
    )
    config = json.loads(out)
    entry = config["servers" if host == "vscode" else "mcpServers"]["desk"]
    assert status == 0
    assert entry["args"][:3] == ["proxy", "--rules", str(world.rules)]
    assert entry["args"][3:] == ["--accept", "sign", "--", *SERVER["official"]]
    assert list(entry["env"]) == ["DESK_KEY"]
    assert world.environ["DESK_KEY"] not in out
    if host != "vscode":  # the command is the same for all
        return
    target = StdioServerParameters(command=PREACTION[0], args=[*PREACTION[1:], *entry["args"]], env=world.environ)

    async def play() -> str:
        async with Client(target) as client:
            return str(client.server_info and client.server_info.name)

    assert anyio.run(play) == "help desk"


def test_a_server_behind_a_url_gets_the_header_that_was_asked_for(world: World) -> None:
    world.environ["TOKEN"] = "Bearer secret"
    url = world.served("official")
    options = ("--upstream-header", "Authorization=TOKEN", "--upstream-url", url)
    status, out, _ = command(world, "--rules", str(world.rules), "--print-config", "cursor", *options)
    assert status == 0
    assert "secret" not in out
    assert json.loads(out)["mcpServers"]["gated"]["env"] == {"DESK_KEY": "${env:DESK_KEY}", "TOKEN": "${env:TOKEN}"}

    async def play() -> str:
        async with Client(world.stdio(world.proxy(*options))) as client:
            return str((await client.call_tool(LOOK, {"ticket_id": TICKET})).content[0].text)

    assert anyio.run(play).startswith(TICKET)


def test_a_url_that_nobody_serves_is_an_error_for_the_client(world: World) -> None:
    target = world.stdio(world.proxy("--upstream-url", "http://127.0.0.1:1/mcp", "--timeout", "5"))

    async def play() -> None:
        with anyio.fail_after(90):
            async with Client(target, mode="legacy"):
                pass

    with pytest.raises(Exception) as caught:  # noqa: PT011 - the SDK's own kind
        anyio.run(play)
    assert not isinstance(caught.value, TimeoutError)


# ---------------------------------------------------------------- overhead


def test_overhead_of_an_allowed_call_through_the_proxy(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Measured side by side, and not bounded tightly: machines differ. The authority is asked on each gated call."""
    calls, batches = 15, 7
    right = {"ticket_id": TICKET, "body": BODY}

    other = {**right, "ticket_id": "HC-1202"}  # a newer decision on the same ticket would take the place of the first

    async def prepared(client: Client, ticket_id: str) -> None:
        decision = await client.call_tool(DECIDE, {"entity_id": ticket_id})
        execution = json.loads(decision.content[0].text)["executionId"]
        await client.call_tool(CHECK, {"execution_id": execution, "body": BODY})

    async def batch(client: Client, tool: str, arguments: Any) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            told = await client.call_tool(tool, arguments)
        took = (time.perf_counter() - start) / calls
        assert told.content[0].text.startswith("Denied" if arguments is wrong else TICKET if tool == LOOK else "sent")
        return took

    wrong = {**right, "x": 1}

    async def play() -> dict[str, float]:
        async with (
            Client(world.stdio(SERVER["official"])) as bare,
            Client(world.stdio(world.proxy("--", *SERVER["official"]))) as proxied,
            Client(world.stdio(SERVER["guarded"])) as guarded,
        ):
            await prepared(proxied, TICKET)
            await prepared(guarded, other["ticket_id"])
            rows = {
                "bare": (bare, REPLY, right),
                "proxy, allowed": (proxied, REPLY, right),
                "gate.check in the server": (guarded, REPLY, other),
                "proxy, denied": (proxied, REPLY, wrong),
                "bare, not gated": (bare, LOOK, {"ticket_id": TICKET}),
                "proxy, not gated": (proxied, LOOK, {"ticket_id": TICKET}),
            }
            times: dict[str, list[float]] = {name: [] for name in rows}
            for _ in range(batches):
                for name, row in rows.items():
                    times[name].append(await batch(*row))
            return {name: min(each) for name, each in times.items()}

    took = anyio.run(play)
    ratios = {
        "allowed / the same call without proxy and gate": took["proxy, allowed"] / took["bare"],
        "allowed / gate.check in the server": took["proxy, allowed"] / took["gate.check in the server"],
        "gate.check in the server / without": took["gate.check in the server"] / took["bare"],
        "denied / without": took["proxy, denied"] / took["bare"],
        "not gated / without": took["proxy, not gated"] / took["bare, not gated"],
    }
    with capsys.disabled():
        print("\nper call, ms:", {name: round(each * 1000, 2) for name, each in took.items()})
        print("multiples:", {name: round(ratio, 2) for name, ratio in ratios.items()})


# ---------------------------------------------------------------- page and example


def test_what_the_page_shows_is_right(world: World) -> None:
    page = (ROOT / "docs/adapters/mcp-proxy.md").read_text("utf-8")
    (rules,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    world.rules.write_text(rules)
    assert read_rules_file(world.rules).given.agent_key_env == "FELSPAR_AGENT_KEY"
    shown = re.findall(r"^preaction proxy (--rules gate.yaml.*)$", page, re.MULTILINE)
    assert len(shown) == 3
    for line in shown:
        words = ["--print-config", "vscode", *shlex.split(line.replace("gate.yaml", str(world.rules)))]
        status, out, said = command(world, *words)
        assert (status, said) == (0, "")
        config = json.loads(out)
        assert config.get("servers") or config["mcpServers"]


def test_what_the_page_says_is_printed_is_printed(tmp_path: Path) -> None:
    assert run_on_own_rules(ROOT / "docs/adapters/mcp-proxy.md", tmp_path) == 1


def test_the_example_denies_twice_and_sends_once() -> None:
    script = ROOT / "examples/mcp_proxy/desk.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[:2] for line in done.stdout.splitlines()] == [
        ["helpdesk_reply", " Denied, nothing was done"],
        ["get_job_decision", " done"],
        ["check_output", " done"],
        ["helpdesk_reply", " Denied, nothing was done"],
        ["helpdesk_reply", " sent on HC-1204"],
    ]
    assert max(len(path.read_text().splitlines()) for path in script.parent.glob("*.py")) < 60


def test_a10_without_the_sdk_the_import_says_what_to_install() -> None:
    code = "import sys; sys.modules['mcp_types'] = None; import preaction.adapters.mcp_proxy"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'preaction[proxy]'" in done.stderr
