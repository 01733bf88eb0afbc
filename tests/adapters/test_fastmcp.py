"""FastMCP: real servers, clients and proxies; the client's script stands in for a host's model."""

import asyncio
import json
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastmcp", reason="runs in its own environment: make test-runtimes")

import fastmcp
import uvicorn
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.contrib.bulk_tool_caller import BulkToolCaller
from fastmcp.server import create_proxy
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.server.middleware.caching import ResponseCachingMiddleware
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.server.transforms import ToolTransform
from fastmcp.server.transforms.search import RegexSearchTransform
from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult
from fastmcp.tools.tool_transform import ToolTransformConfig
from mcp.types import CallToolRequestParams

from adapters.around import FAILURES, HANGS, answering, broken, changing, checks_of, how_it_ends, undecided, until
from adapters.contract import (
    BODY,
    CHECK,
    DECIDE,
    LOOK,
    OTHER,
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
from preaction import ConfigurationError, create_action_gate, denial_text
from preaction._core.verdict import Verdict
from preaction.adapters._bridge import FAILED
from preaction.adapters._json_schema import MISFIT
from preaction.adapters.fastmcp import ASIDE, LATER, install
from preaction.testing import FakeAuthority

MODERN = int(fastmcp.__version__.split(".")[0]) >= 4
ERAS = ["auto", "legacy"] if MODERN else [None]


def desk_server(desk: Desk) -> FastMCP:
    server = FastMCP("desk")
    for body in desk.bodies:
        server.tool(body)
    return server


def chat(context: Any) -> str | None:
    """The host's own id of its chat, as it sends it along."""
    meta = context.fastmcp_context.request_context.meta
    meta = meta if isinstance(meta, dict) else (meta.model_dump() if meta else {})
    return meta.get("chat") or None


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


async def call_all(client: Client[Any], calls: Sequence[ToolCall], meta: dict[str, Any] | None) -> list[str]:
    async def call(one: ToolCall) -> str:
        arguments = one.arguments
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except ValueError:
                return "not JSON: the host never calls"
        try:
            return text_of(await client.call_tool(one.name, arguments, raise_on_error=False, meta=meta, timeout=20))
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    return list(await asyncio.gather(*(call(one) for one in calls)))


async def talk(
    server: Any, turns: Sequence[Sequence[ToolCall]], *, meta: dict[str, Any] | None, era: str | None = None
) -> list[str]:
    async with Client(server, **({"mode": era} if era else {})) as client:
        return [text for calls in turns for text in await call_all(client, calls, meta)]


class ServerHarness(Harness):
    """A host's client straight to a server, in the era that it negotiates by default."""

    era: str | None = None

    def server(self, desk: Desk) -> FastMCP:
        server = desk_server(desk)
        install(server, desk.gate, session=lambda context: chat(context) or "")
        return server

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        meta = {"chat": session} if session else None
        return Transcript(asyncio.run(talk(self.server(desk), turns, meta=meta, era=self.era)))


class LegacyHarness(ServerHarness):
    era = "legacy" if MODERN else None


class ProxyHarness(ServerHarness):
    """The gate in a proxy, and the tools behind it."""

    def server(self, desk: Desk) -> FastMCP:
        proxy = create_proxy(desk_server(desk), name="gate")
        install(proxy, desk.gate, session=lambda context: chat(context) or "")
        return proxy


class MountedHarness(ServerHarness):
    """The gate in a server that mounts the one with the tools, under a namespace."""

    def server(self, desk: Desk) -> FastMCP:
        outer = FastMCP("outer")
        outer.mount(desk_server(desk), namespace="ns")
        install(outer, desk.gate, session=lambda context: chat(context) or "")
        return outer

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        turns = [[ToolCall(f"ns_{call.name}", call.arguments) for call in calls] for calls in turns]
        return super().run(desk, turns, mode=mode, session=session)


class TestFastMcp(Contract):
    harness = ServerHarness()


class TestFastMcpLegacy(Contract):
    harness = LegacyHarness()


class TestFastMcpProxy(Contract):
    harness = ProxyHarness()


class TestFastMcpMounted(Contract):
    harness = MountedHarness()


# What a middleware of one's own lets through, and the adapter does not ------------------------------------------------


class Hook(Middleware):
    def __init__(self, does: Any) -> None:
        self.does = does

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        return await self.does(context, call_next)


class MiddlewareGate(Middleware):
    """A gate as one would write it: it asks before `call_next` and records what comes out of it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        name, arguments = context.message.name, context.message.arguments
        verdict = await self.desk.gate.acheck(SESSION, name, arguments)
        if verdict.blocks:
            return ToolResult(content=denial_text(verdict), is_error=True)
        result = await call_next(context)
        if self.desk.gate.records(name):
            self.desk.gate.record_result(SESSION, name, None, result)
        return result


@pytest.mark.parametrize("what", FAILURES)
def test_what_middleware_does_wrong_is_an_error_of_the_protocol_and_a_gate_that_does_it_denies(what: str) -> None:
    bare, told = Desk(), list[str]()
    server = desk_server(bare)
    server.add_middleware(Hook(answering(FAILURES[what])))

    async def ask() -> bool:
        told.extend(await talk(server, [[reply()]], meta=META))
        return True

    hangs = FAILURES[what] is HANGS
    assert asyncio.run(how_it_ends(ask(), hangs=hangs)) == (HANGS if hangs else "ended")
    assert hangs or not told[0].startswith("Denied")
    assert bare.replies() == []

    desk = broken(Desk().prepared(), FAILURES[what])
    server = desk_server(desk)
    install(server, desk.gate, session=chat)
    assert asyncio.run(talk(server, [[reply()]], meta=META)) == [FAILED]
    assert desk.replies() == []


@pytest.mark.parametrize("gated", [False, True])
def test_arguments_that_change_while_the_gate_checks_do_not_reach_the_body(gated: bool) -> None:
    held: list[dict[str, Any]] = []

    async def hold(context: Any, call_next: Any) -> Any:
        held.append(context.message.arguments)
        return await call_next(context)

    desk = changing(held)
    server = desk_server(desk)
    server.add_middleware(Hook(hold))
    if gated:
        install(server, desk.gate, session=chat)
    else:
        server.add_middleware(MiddlewareGate(desk))
    asyncio.run(talk(server, [[reply()]], meta=META))
    assert desk.replies() == [{"ticket_id": TICKET if gated else OTHER, "body": BODY}]


@pytest.mark.parametrize("gated", [False, True])
def test_a_decision_that_another_middleware_makes_up_is_not_recorded(gated: bool) -> None:
    desk = undecided()
    made_up = ToolResult(structured_content=desk.authority.decide(TICKET))

    async def pretend(context: Any, call_next: Any) -> Any:
        return made_up if context.message.name == DECIDE else await call_next(context)

    server = desk_server(desk)
    if gated:
        server.add_middleware(Hook(pretend))
        install(server, desk.gate, session=chat)  # after it: a decision that it makes up never comes here
    else:
        server.add_middleware(MiddlewareGate(desk))
        server.add_middleware(Hook(pretend))
    asyncio.run(talk(server, [[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]], meta=META))
    assert len(desk.replies()) == (0 if gated else 1)


def test_bare_a_cache_answers_in_the_place_of_all_that_comes_after_it() -> None:
    desk = Desk()
    server = desk_server(desk)
    server.add_middleware(ResponseCachingMiddleware())
    first, second = asyncio.run(talk(server, [[ToolCall(DECIDE, {"entity_id": TICKET})]] * 2, meta=META))
    assert "executionId" in first
    assert first == second
    assert len(desk.ran) == 1  # `install` refuses it: see below


@pytest.mark.parametrize("era", ERAS)
def test_bare_what_looks_like_a_session_or_like_the_host_s_id_is_none(era: str | None) -> None:
    sessions, metas = list[str](), list[Any]()

    async def see(context: Any, call_next: Any) -> Any:
        sessions.append(context.fastmcp_context.session_id)
        metas.append(getattr(context.message, "meta", None))
        return await call_next(context)

    server = desk_server(Desk())
    server.add_middleware(Hook(see))
    asyncio.run(talk(server, [[ToolCall(LOOK, {"ticket_id": TICKET})]] * 3, meta=META, era=era))
    assert len(set(sessions)) == (3 if era == "auto" else 1)  # in the 2026-07-28 protocol another one for every request
    assert metas == [None] * 3  # it is in the request's context


def test_a_number_that_is_none_arrives_as_null_and_is_checked_as_that() -> None:
    got: list[Any] = []

    def helpdesk_reply(ticket_id: str, body: str | None) -> str:
        got.append(body)
        return "sent"

    desk = Desk().prepared()
    server = FastMCP("desk")
    for body in (helpdesk_reply, *desk.bodies[1:]):
        server.tool(body)
    call = ToolCall(REPLY, {"ticket_id": TICKET, "body": float("nan")})
    asyncio.run(talk(server, [[call]], meta=META))
    assert got == [None]
    install(server, desk.gate, session=chat)
    assert asyncio.run(talk(server, [[call]], meta=META))[0].startswith("Denied")
    assert got == [None]


@pytest.mark.parametrize("way", ["search", "bulk"])
@pytest.mark.parametrize("gated", [False, True])
def test_tools_that_call_other_tools_come_by_the_gate(way: str, gated: bool) -> None:
    desk = Desk().prepared()
    server = desk_server(desk)
    sent = reply(OTHER).arguments
    if way == "search":
        server.add_transform(RegexSearchTransform())
        call = ToolCall("call_tool", {"name": REPLY, "arguments": sent})
    else:
        BulkToolCaller().register_tools(server)
        call = ToolCall("call_tools_bulk", {"tool_calls": [{"tool": REPLY, "arguments": sent}]})
    if gated:
        install(server, desk.gate, session=lambda _: SESSION, accept=[REPLY, DECIDE, CHECK])
    seen = asyncio.run(talk(server, [[call]], meta=META))
    assert len(desk.replies()) == (0 if gated else 1)
    assert not gated or desk.denial(ticket_id=OTHER, body=BODY)[:60] in seen[0]


class ByName(Middleware):
    """A gate as one would write it: it denies the tool by its name."""

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        if context.message.name == REPLY:
            return ToolResult(content="no", is_error=True)
        return await call_next(context)


def mounted(desk: Desk) -> tuple[FastMCP, str]:
    outer = FastMCP("outer")
    outer.mount(desk_server(desk), namespace="ns")
    return outer, f"ns_{REPLY}"


def twice_mounted(desk: Desk) -> tuple[FastMCP, str]:
    outer = FastMCP("outer")
    outer.mount(mounted(desk)[0], namespace="far")
    return outer, f"far_ns_{REPLY}"


def renamed(desk: Desk) -> tuple[FastMCP, str]:
    server = desk_server(desk)
    server.add_tool(Tool.from_tool(Tool.from_function(desk.helpdesk_reply), name="answer"))
    return server, "answer"


def twice_renamed(desk: Desk) -> tuple[FastMCP, str]:
    server = desk_server(desk)
    once = Tool.from_tool(Tool.from_function(desk.helpdesk_reply), name="answer")
    server.add_tool(Tool.from_tool(once, name="again"))
    return server, "again"


def transformed(desk: Desk) -> tuple[FastMCP, str]:
    server = desk_server(desk)
    server.add_transform(ToolTransform({REPLY: ToolTransformConfig(name="answer")}))
    return server, "answer"


def proxied_and_mounted(desk: Desk) -> tuple[FastMCP, str]:
    outer = FastMCP("outer")
    outer.mount(create_proxy(desk_server(desk)), namespace="ns")
    return outer, f"ns_{REPLY}"


def second_name(desk: Desk) -> tuple[FastMCP, str]:
    server = desk_server(desk)
    server.tool(desk.helpdesk_reply, name="answer")
    return server, "answer"


OTHER_NAMES = pytest.mark.parametrize(
    "build", [mounted, twice_mounted, renamed, twice_renamed, transformed, proxied_and_mounted, second_name]
)
META = {"chat": SESSION}
SENT = {"ticket_id": TICKET, "body": BODY}


@OTHER_NAMES
def test_bare_a_tool_is_reached_by_another_name(build: Any) -> None:
    desk = Desk()
    server, name = build(desk)
    server.add_middleware(ByName())
    asyncio.run(talk(server, [[ToolCall(name, reply(OTHER).arguments)]], meta=META))
    assert len(desk.replies()) == 1


@OTHER_NAMES
def test_a07_a_tool_is_judged_by_every_name_it_has(build: Any) -> None:
    desk = Desk().prepared()
    server, name = build(desk)
    install(server, desk.gate, session=chat)
    calls = [ToolCall(name, reply(OTHER).arguments), ToolCall(name, reply().arguments)]
    seen = asyncio.run(talk(server, [[one] for one in calls], meta=META))
    assert seen == [desk.denial(ticket_id=OTHER, body=BODY), f"sent on {TICKET}"]
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]


def test_a07_an_app_s_hashed_name_is_judged_by_the_tool_s_own() -> None:
    app_of = pytest.importorskip("fastmcp.apps", reason="this version has no apps")
    if not hasattr(app_of, "FastMCPApp"):
        pytest.skip("this version has no apps")
    from fastmcp.server.providers.addressing import hashed_backend_name

    def build(desk: Desk) -> FastMCP:
        app, server = app_of.FastMCPApp("panel"), FastMCP("outer")
        for body in desk.bodies:
            app.tool()(body)
        server.add_provider(app)
        return server

    name = hashed_backend_name("panel", REPLY)
    bare = Desk()
    server = build(bare)
    server.add_middleware(ByName())
    asyncio.run(talk(server, [[ToolCall(name, reply(OTHER).arguments)]], meta=META))
    assert len(bare.replies()) == 1

    desk = Desk().prepared()
    server = build(desk)
    install(server, desk.gate, session=chat, accept=[REPLY, DECIDE, CHECK])
    seen = asyncio.run(talk(server, [[ToolCall(name, reply(OTHER).arguments)]], meta=META))
    assert seen == [desk.denial(ticket_id=OTHER, body=BODY)]
    assert desk.replies() == []


class Rewrites(Middleware):
    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        message = context.message.model_copy(update={"arguments": {"ticket_id": OTHER, "body": "Changed."}})
        return await call_next(context.copy(message=message))


class Later(Middleware):
    """Does nothing."""


def test_a_middleware_after_the_gate_could_change_the_call_so_nothing_runs() -> None:
    class ByTicket(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            assert context.message.arguments["ticket_id"] == TICKET
            return await call_next(context)

    bare = Desk()
    server = desk_server(bare)
    server.add_middleware(ByTicket())
    server.add_middleware(Rewrites())
    asyncio.run(talk(server, [[reply()]], meta=META))
    assert bare.replies() == [{"ticket_id": OTHER, "body": "Changed."}]

    desk = Desk().prepared()
    server = desk_server(desk)
    install(server, desk.gate, session=chat)
    server.add_middleware(Rewrites())
    assert asyncio.run(talk(server, [[reply()]], meta=META)) == [LATER]
    assert desk.ran == []

    desk = Desk(options={"mode": "observe"}).prepared()
    server = desk_server(desk)
    install(server, desk.gate, session=chat)
    server.add_middleware(Rewrites())
    asyncio.run(talk(server, [[reply()]], meta=META))
    assert len(desk.replies()) == 1


def test_g42_in_observe_mode_a_server_that_the_rules_do_not_fit_and_a_call_that_does_not_fit_run() -> None:
    desk = Desk(options={"mode": "observe"}).prepared()
    server = desk_server(desk)
    install(server, desk.gate, session=chat)
    server.local_provider.remove_tool(DECIDE)
    asyncio.run(talk(server, [[reply()]], meta=META))
    assert len(desk.replies()) == 1

    seen: list[Verdict] = []
    desk = Desk(options={"mode": "observe", "on_verdict": lambda _, verdict: seen.append(verdict)}).prepared()
    server = desk_server(desk)
    install(server, desk.gate, session=chat)
    (said,) = asyncio.run(talk(server, [[ToolCall(REPLY, {"ticket_id": TICKET, "body": ["not a text"]})]], meta=META))
    assert "Denied" not in said  # the server's own words for what doesn't fit
    assert [verdict.allow for verdict in seen] == [False]


def test_a_later_middleware_that_is_accepted_is_let_through_and_an_earlier_one_is_no_danger() -> None:
    desk = Desk().prepared()
    server = desk_server(desk)
    server.add_middleware(Rewrites())
    install(server, desk.gate, session=chat, accept=["Later"])
    server.add_middleware(Later())
    seen = asyncio.run(talk(server, [[reply()]], meta=META))
    assert desk.replies() == []
    assert seen == [desk.denial(ticket_id=OTHER, body="Changed.")]


def test_what_the_server_would_coerce_is_sent_back_and_defaults_are_checked() -> None:
    ran: list[tuple[int, bool]] = []

    def refund(cents: int, public: bool = True) -> str:
        ran.append((cents, public))
        return "done"

    authority = FakeAuthority()
    rule = {"outcomes": ["billing-question"], "fields": ["cents"], "fixed": {"public": False}}
    gate = create_action_gate(
        job=authority.job, tools={"refund": rule}, verify=authority, describe=authority, clock=authority.clock
    )
    gate.decisions.record(SESSION, result=authority.decide(TICKET))
    server = FastMCP("desk")
    server.tool(refund)
    asyncio.run(talk(server, [[ToolCall("refund", {"cents": "500"})]], meta=META))
    assert ran == [(500, True)]  # bare: what runs is not what was sent

    install(server, gate, session=chat)
    calls: list[dict[str, Any]] = [{"cents": "500", "public": False}, {"cents": 500}, {"cents": 500, "public": False}]
    seen = asyncio.run(talk(server, [[ToolCall("refund", one)] for one in calls], meta=META))
    assert seen[0] == MISFIT
    assert "public" in seen[1]  # the default of the schema is a value that the rule doesn't allow
    assert seen[2] == "done"
    assert ran[1:] == [(500, False)]


def test_a04_a_decision_whose_call_fails_after_the_body_is_not_recorded() -> None:
    desk = Desk()

    class Wrong(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            result = await call_next(context)
            if context.message.name == DECIDE:
                raise RuntimeError("after the body")
            return result

    server = desk_server(desk)
    install(server, desk.gate, session=chat, accept=["Wrong"])
    server.add_middleware(Wrong())
    asyncio.run(talk(server, [[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]], meta=META))
    assert desk.ran[0][0] == DECIDE
    assert desk.replies() == []


@pytest.mark.skipif(not MODERN, reason="rounds of input came with the 2026-07-28 protocol")
@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_input_beside_the_arguments_is_not_checked_so_it_is_refused(mode: str) -> None:
    desk = Desk(options={"mode": mode}).prepared()
    server = desk_server(desk)
    install(server, desk.gate, session=chat)

    class Round(Middleware):  # as the server builds the message of a second round
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            return await call_next(context.copy(message=context.message.model_copy(update={"request_state": "s"})))

    server.middleware.insert(0, Round())
    said = asyncio.run(talk(server, [[reply()]], meta=META))
    assert (said == [ASIDE], len(desk.replies())) == ((True, 0) if mode == "enforce" else (False, 1))


# Installing -----------------------------------------------------------------------------------------------------------


def test_a08_rules_that_name_no_tool_are_refused_at_once_and_behind_a_proxy_on_the_first_call() -> None:
    desk = Desk()
    with pytest.raises(ConfigurationError, match=f"no tool here is called {CHECK}, {DECIDE}, {REPLY}"):
        install(FastMCP("empty"), desk.gate)
    install(FastMCP("empty"), desk.gate, accept=[REPLY, DECIDE, CHECK])

    other = FastMCP("other")
    other.tool(desk.look_up)
    proxy = create_proxy(other)
    install(proxy, desk.gate, session=chat)
    seen = asyncio.run(talk(proxy, [[ToolCall(LOOK, {"ticket_id": TICKET})]], meta=META))
    assert f"no tool here is called {CHECK}" in seen[0]
    assert desk.ran == []


def test_a08_installing_within_a_running_loop() -> None:
    async def main() -> None:
        desk = Desk()
        install(desk_server(desk), desk.gate)

    asyncio.run(main())


def test_a08_middleware_that_answers_by_itself_is_refused() -> None:
    kinds: dict[Any, dict[str, Any]] = {ResponseCachingMiddleware: {}, ToolInjectionMiddleware: {"tools": []}}
    for kind, given in kinds.items():
        desk = Desk()
        server = desk_server(desk)
        server.add_middleware(kind(**given))
        with pytest.raises(ConfigurationError, match=kind.__name__):
            install(server, desk.gate)
        install(server, desk.gate, accept=[kind.__name__])


def test_a08_middleware_of_a_mounted_server_is_refused() -> None:
    desk = Desk()
    inner, outer = desk_server(desk), FastMCP("outer")
    inner.add_middleware(Rewrites())
    outer.mount(inner, namespace="ns")
    with pytest.raises(ConfigurationError, match="Rewrites"):
        install(outer, desk.gate)
    install(outer, desk.gate, accept=["Rewrites"])


def test_a08_one_gate_is_installed_once() -> None:
    desk = Desk()
    inner, outer = desk_server(desk), FastMCP("outer")
    install(inner, desk.gate)
    outer.mount(inner, namespace="ns")
    for server in (inner, outer):
        with pytest.raises(ConfigurationError, match="already"):
            install(server, desk.gate)


def test_a08_a_gated_tool_that_may_run_in_the_background_is_refused() -> None:
    desk = Desk()
    server = FastMCP("desk")
    for body in desk.bodies[1:]:
        server.tool(body)

    async def later(ticket_id: str, body: str) -> str:
        return "sent"

    try:
        server.tool(later, name=REPLY, task=True)
    except ImportError:
        pytest.skip("background tasks need a further package here")
    with pytest.raises(ConfigurationError, match=f"{REPLY}:task"):
        install(server, desk.gate)
    install(server, desk.gate, accept=[f"{REPLY}:task"])


# Sessions -------------------------------------------------------------------------------------------------------------

DECIDES_AND_REPLIES = [[ToolCall(DECIDE, {"entity_id": TICKET})], [ToolCall(CHECK, {"body": BODY})], [reply()]]


async def over_http(server: FastMCP, turns: Any, *, era: str | None, meta: dict[str, Any] | None = None) -> list[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    http = uvicorn.Server(uvicorn.Config(server.http_app(), log_level="critical", ws="none"))
    serving = asyncio.create_task(http.serve(sockets=[listener]))  # closes it
    try:
        await until(lambda: http.started)
        return await talk(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", turns, meta=meta, era=era)
    finally:
        http.should_exit = True
        await serving


@pytest.mark.parametrize("era", ERAS)
def test_a06_over_http_the_session_is_the_protocol_s_where_it_has_one(era: str | None) -> None:
    desk = Desk()
    server = desk_server(desk)
    install(server, desk.gate)
    seen = asyncio.run(over_http(server, DECIDES_AND_REPLIES, era=era))
    if era == "auto":  # 2026-07-28: there is none
        assert "session" in seen[-1]
        assert desk.replies() == []
    else:
        assert seen[-1] == f"sent on {TICKET}"


@pytest.mark.parametrize("era", ERAS)
def test_a06_over_http_the_host_s_own_id_serves_in_every_era(era: str | None) -> None:
    desk = Desk()
    server = desk_server(desk)
    install(server, desk.gate, session=chat)
    assert asyncio.run(over_http(server, DECIDES_AND_REPLIES, era=era, meta=META))[-1] == f"sent on {TICKET}"


@pytest.mark.parametrize("era", ERAS)
def test_a06_in_memory_a_connection_is_a_session_where_the_protocol_keeps_one(era: str | None) -> None:
    desk = Desk()
    server = desk_server(desk)
    install(server, desk.gate)
    seen = asyncio.run(talk(server, DECIDES_AND_REPLIES, meta=None, era=era))
    assert desk.replies() == ([] if era == "auto" else [{"ticket_id": TICKET, "body": BODY}]), seen
    desk.ran.clear()
    asyncio.run(talk(server, [[reply()]], meta=None, era=era))
    assert desk.replies() == []  # another connection


def test_a06_without_a_request_the_session_is_the_surrounding_one() -> None:
    desk = Desk().prepared()
    server = desk_server(desk)
    install(server, desk.gate)

    async def direct() -> Any:
        return text_of(await server.call_tool(REPLY, SENT))

    assert "session" in asyncio.run(direct())
    with desk.gate.session(SESSION):
        assert asyncio.run(direct()) == f"sent on {TICKET}"


def test_not_covered_the_server_s_own_code_can_run_a_tool_directly() -> None:
    desk = Desk()
    server = desk_server(desk)
    install(server, desk.gate)

    async def direct() -> None:
        tool = await server.get_tool(REPLY)
        await tool.run({**SENT, "ticket_id": OTHER})
        await server.call_tool(REPLY, {**SENT, "ticket_id": OTHER}, run_middleware=False)

    asyncio.run(direct())
    assert len(desk.replies()) == 2  # as the page says


# The example over stdio, the page, the cost ---------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("era", ERAS)
def test_the_example_is_gated_over_stdio_where_the_process_is_the_session(era: str | None) -> None:
    async def main() -> list[str]:
        transport = StdioTransport(sys.executable, [str(ROOT / "examples" / "fastmcp" / "server.py")])
        calls = [
            ToolCall("reply", {"ticket_id": TICKET, "body": BODY}),
            ToolCall("decide", {"entity_id": TICKET}),
            ToolCall("check_output", {"body": BODY}),
            ToolCall("reply", {"ticket_id": TICKET, "body": BODY}),
        ]
        return await talk(transport, [[one] for one in calls], meta=None, era=era)

    seen = asyncio.run(main())
    assert "no decision was made in this session" in seen[0]
    assert seen[-1] == f"sent on {TICKET}"


def test_the_example_host_runs() -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / "fastmcp" / "host.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "sent on HC-1201"
    assert "no decision was made in this session" in ran.stdout


def test_the_page_s_code_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = Path("docs/adapters/fastmcp.md").read_text("utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "fastmcp.md", "exec"), {})


def test_a10_without_fastmcp_the_import_says_what_to_install() -> None:
    code = "import sys; sys.modules['fastmcp'] = None; import preaction.adapters.fastmcp"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'preaction[fastmcp]'" in failed.stderr


def test_what_the_adapter_adds_to_a_check() -> None:
    """The middleware against one plain check; FastMCP's own work on a call is in neither."""
    desk = Desk().prepared()
    server = desk_server(desk)
    install(server, desk.gate, session=lambda _: SESSION)
    guard, arguments = server.middleware[-1], {"ticket_id": TICKET, "body": BODY}
    message = CallToolRequestParams(name=REPLY, arguments=arguments)
    context = MiddlewareContext(message=message, method="tools/call")

    async def run(_: Any) -> ToolResult:
        return done

    done = ToolResult(content="sent")

    async def through() -> None:
        assert await guard.on_call_tool(context, run) is done

    async def plain() -> None:
        assert (await desk.gate.acheck(SESSION, REPLY, arguments)).allow

    async def timed(step: Any) -> float:
        start = time.perf_counter()
        for _ in range(50):
            await step()
        return time.perf_counter() - start

    async def ratio() -> float:
        return statistics.median([await timed(through) / await timed(plain) for _ in range(15)])

    asked = checks_of(desk)
    asyncio.run(through())
    assert asked == [REPLY]
    found = asyncio.run(ratio())
    print(f"fastmcp: the middleware costs {found:.2f} x one gate.acheck")
