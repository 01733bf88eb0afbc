"""`preaction lint --mcp`: a rules file against the tools that a real MCP server lists, over stdio and HTTP."""

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("mcp_types", reason="runs in its own environment: make test-runtimes")

from typer.testing import CliRunner

from authority.packs import HELPDESK
from preaction.authority import LocalAuthority
from preaction.cli.app import app
from preaction.lint.mcp_listing import list_tools

ROOT = Path(__file__).resolve().parents[2]
SERVER = """\
import os, sys
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

desk = MCPServer("help desk")

@desk.tool()
def helpdesk_reply(ticket_id: str, body: str) -> str:
    return "sent"

@desk.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True))
def tickets(ticket_id: str) -> str:
    return "gone"

@desk.tool(annotations=ToolAnnotations(read_only_hint=True))
def status(ticket_id: str) -> str:
    return "open"

if "DESK_KEY" in os.environ:
    @desk.tool()
    def send_the_key() -> str:
        return "known"

if sys.argv[1] == "stdio":
    desk.run("stdio")
desk.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
"""


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["lint", *words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The proxy's example, with an authority behind it, and a server beside it."""
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    (tmp_path / "server.py").write_text(SERVER)
    path = tmp_path / "gate.yaml"
    example = (ROOT / "examples/mcp_proxy/gate.yaml").read_text("utf-8").replace("FELSPAR_AGENT_KEY", "DESK_KEY")
    with LocalAuthority.from_pack(HELPDESK) as local, local.serve() as served:
        monkeypatch.setenv("DESK_KEY", local.agent_key)
        path.write_text(example.replace("http://127.0.0.1:8000", served.origin))
        yield path


def server(rules: Path, how: str = "stdio") -> list[str]:
    return [sys.executable, str(rules.with_name("server.py")), how]


def found(out: str) -> list[str]:
    return [line.split(": ")[1] for line in out.splitlines() if line.startswith(("/", "gate"))]


UNKNOWN = ["error unknown-tool"] * 2  # the authority's tools, which this server doesn't have
ACCEPTED = ("--accept", "get_job_decision", "--accept", "check_output")


def test_the_example_is_right_with_its_own_server(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTHORITY", "http://127.0.0.1:9")
    monkeypatch.setenv("AUTHORITY_KEY", "none")
    own = shlex.join([sys.executable, str(ROOT / "examples/mcp_proxy/server.py")])
    code, out, _ = run(str(rules), "--mcp", own)
    assert (code, out.splitlines()[0]) == (0, "nothing is wrong")
    assert out.endswith(", 3 tools\n")


def test_a_server_that_a_command_starts(rules: Path) -> None:
    code, out, _ = run(str(rules), "--mcp", shlex.join(server(rules)))
    assert (code, found(out)) == (1, [*UNKNOWN, "error destructive-tool-without-rule"])
    assert "send_the_key" not in out, "the server has no use for the key"
    code, out, _ = run(str(rules), "--mcp", shlex.join(server(rules)), *ACCEPTED)
    assert (code, found(out)) == (1, ["error destructive-tool-without-rule"])


def serving(rules: Path) -> tuple["subprocess.Popen[bytes]", int]:
    """A server over HTTP that answers. Another process may take its port first: then it ends, and gets another one."""
    environment, null, ends = {**os.environ, "DESK_KEY": ""}, subprocess.DEVNULL, time.monotonic() + 90
    while True:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen(server(rules, str(port)), env=environment, stdout=null, stderr=null)
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return process, port
            if time.monotonic() > ends:
                process.kill()
                process.wait()
            time.sleep(0.1)
        assert time.monotonic() < ends, "no server came up"


def test_a_server_over_http(rules: Path) -> None:
    process, port = serving(rules)
    try:
        code, out, err = run(str(rules), "--mcp", f"http://127.0.0.1:{port}/mcp", *ACCEPTED)
    finally:
        process.terminate()
        process.wait(60)
    assert (code, err) == (1, "")
    assert "error destructive-tool-without-rule" in found(out)


@pytest.mark.parametrize(
    ("mcp", "says"),
    [
        ("no-such-command", "FileNotFoundError (No such file or directory)"),
        (f"{sys.executable} -c pass", "the MCP server can't be asked for its tools: MCPError"),
        ("http://127.0.0.1:9/mcp", "the MCP server can't be asked for its tools: ConnectError"),
        ("", "the command of the MCP server is empty"),
        ("'", "the MCP server can't be asked for its tools: ValueError"),
    ],
)
def test_a_server_that_cannot_be_asked_is_one_line(rules: Path, mcp: str, says: str) -> None:
    code, out, err = run(str(rules), "--mcp", mcp)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_a_header_needs_its_variable(rules: Path) -> None:
    code, out, err = run(str(rules), "--mcp", "http://127.0.0.1:9", "--mcp-header", "Authorization=NOT_SET")
    assert (code, out, err) == (2, "", "preaction: --mcp-header: the environment has no NOT_SET\n")


def test_a_tool_is_read_as_it_goes_over_the_wire(rules: Path) -> None:
    tools = {tool.name: tool for tool in list_tools(shlex.join(server(rules)), {}, "DESK_KEY")}
    assert (tools["tickets"].read_only, tools["tickets"].destructive) == (False, True)
    assert tools["helpdesk_reply"].needed == {"ticket_id", "body"}
    assert tools["status"].read_only is True
