"""The gate in the Claude Agent SDK: `options = install(ClaudeAgentOptions(…), gate)`.

Two places. A `PreToolUse` hook sees every tool call of the CLI, sub-agents' included, asks the gate and speaks the
denial. Tools of in-process servers are held at their handler as well: what was allowed there is one call by its id with
one set of arguments, so neither another hook's rewriting nor a CLI that skips hooks gets past it.
"""

import asyncio
import copy
import dataclasses
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any, Final

from cachetools import LRUCache

from preaction.adapters._bridge import Bridge, Go, SessionOf, Stop
from preaction.adapters._turns import Turn
from preaction.adapters.claude_code_hook import names_of
from preaction.errors import ConfigurationError
from preaction.gate import ActionGate

try:
    import mcp.types as mcp_types
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
except ImportError as error:
    raise ImportError(
        "preaction.adapters.claude_agent_sdk needs the Claude Agent SDK: pip install 'preaction[claude-agent-sdk]'"
    ) from error

__all__ = ["install"]

CHANGED: Final = "Denied, nothing was done: this call is not the one that was checked; something changed it on the way."
SIMPLE: Final = "CLAUDE_CODE_SIMPLE"
MAX_OPEN: Final = 10_000
"""Calls and batches on their way; a call dropped at this bound is denied."""

HookInput = Mapping[str, Any]
Run = Callable[[dict[str, Any]], Awaitable[Any]]


def install(
    options: ClaudeAgentOptions,
    gate: ActionGate,
    *,
    session: SessionOf[HookInput] | None = None,
    accept: Collection[str] = (),
) -> ClaudeAgentOptions:
    """A copy of `options` in which every tool call passes `gate`; for `query` and `ClaudeSDKClient` alike.

    A rule may name a tool as the CLI does (`mcp__desk__reply`) or without its front (`desk__reply`, `reply`). The
    session is the CLI's `session_id`, unless `session` reads another one off the hook's input. Raises
    `ConfigurationError` for options under which the CLI skips hooks, for rules that name no tool here, and, when a tool
    that the gate knows runs outside of this process, for whatever else could change its arguments after the check:
    `PreToolUse`, `can_use_tool`, `permission_prompt_tool_name`, `setting_sources` other than `[]`, `settings`,
    `plugins`, `extra_args`. What you list in `accept` is left open.
    """
    _refuse(options)
    guard = _Guard(Bridge(gate, session=session, session_of=lambda given: given.get("session_id")))
    hooks = {event: list(matchers) for event, matchers in (options.hooks or {}).items()}
    own = [hook for matcher in hooks.get("PreToolUse", ()) for hook in getattr(matcher, "hooks", ())]
    owners = [getattr(hook, "__self__", None) for hook in own]
    if any(isinstance(owner, _Guard) and owner.bridge.gate is gate for owner in owners):
        raise ConfigurationError("this gate is installed in these options already")
    given = options.mcp_servers if isinstance(options.mcp_servers, Mapping) else {}
    servers = {name: guard.server(name, config) for name, config in given.items()}
    inside = {alias for tool in guard.inside for alias in guard.names(tool)}
    outside = {tool for tool in gate.known_tools - inside if _runs_outside(tool, options, given)}
    found = (gate.known_tools & inside) | set(guard.inside) | outside
    guard.bridge.require(found, uncovered=_rewriters(options) if outside else (), accept=accept)
    for event, hook in guard.hooks():
        # No matcher: names are judged here. A failure blocks: by default the CLI would run the tool.
        limit = gate.time_limit_s + 5
        hooks.setdefault(event, []).append(HookMatcher(hooks=[hook], timeout=limit, on_failure="block"))
    return dataclasses.replace(
        options, hooks=hooks, mcp_servers=servers if given else options.mcp_servers, env={**options.env, SIMPLE: ""}
    )


class _Guard:
    """One installation: the hooks, the in-process servers' handlers, and the calls that are on their way."""

    def __init__(self, bridge: Bridge[HookInput]) -> None:
        self.bridge = bridge
        self.inside: dict[str, tuple[str, ...]] = {}  # the CLI's name of an in-process tool → its names as written
        self._allowed: LRUCache[str, tuple[str, Go]] = LRUCache(MAX_OPEN)
        self._batches: LRUCache[tuple[object, object], object] = LRUCache(MAX_OPEN)

    def hooks(self) -> Iterator[tuple[str, Any]]:
        """Every hook by its event. `PostToolBatch` ends a turn of the model; so does what the user says next."""
        yield "PreToolUse", self.before
        yield "PostToolUse", self.after
        yield "PostToolUseFailure", self.after
        yield "PostToolBatch", self.batch_over
        yield "UserPromptSubmit", self.batch_over

    def names(self, tool: str) -> tuple[str, ...]:
        """Every name by which a rule may mean this tool."""
        return (*names_of(tool), *self.inside.get(tool, ()))

    # Hooks ------------------------------------------------------------------------------------------------------------

    async def before(self, given: HookInput, tool_use_id: str | None, context: object) -> dict[str, Any]:
        """Deny in the CLI's own words, or have no opinion: an "allow" would skip the user's own permissions."""
        answer = await self.bridge.total("", self._ask(given))
        if isinstance(answer, Go):
            return {}
        denial = {"permissionDecision": "deny", "permissionDecisionReason": answer.text}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **denial}}

    async def _ask(self, given: HookInput) -> Go | Stop:
        tool, turn = given["tool_name"], self._turn(given["session_id"], given.get("agent_id"))
        answer = await self.bridge.aask(tool, given["tool_input"], given, names=self.names(tool), batch=turn)
        if isinstance(answer, Go):
            self._allowed[given["tool_use_id"]] = (tool, answer)
        return answer

    async def after(self, given: HookInput, tool_use_id: str | None, context: object) -> dict[str, Any]:
        """A tool outside of this process ran, or failed; inside, `call` records and takes the entry."""
        _, go = self._allowed.pop(str(given.get("tool_use_id")), ("", None))
        if go is not None and given.get("hook_event_name") == "PostToolUse":
            self.bridge.ran(go, given.get("tool_response"))
        return {}

    async def batch_over(self, given: HookInput, tool_use_id: str | None, context: object) -> dict[str, Any]:
        """The model sees the results of its calls: from now on they count."""
        self._batches.pop((given.get("session_id"), given.get("agent_id")), None)
        return {}

    def _turn(self, session_id: str, agent_id: str | None) -> Turn:
        """The batch of calls that one belongs to; a sub-agent's stand within the batch that its caller is in."""
        own = [(session_id, None)] if agent_id is None else [(session_id, None), (session_id, agent_id)]
        path = ((agent and sys.intern(agent), self._batches.setdefault((of, agent), object())) for of, agent in own)
        return Turn(tuple(path))

    # In-process servers -----------------------------------------------------------------------------------------------

    def server(self, name: str, config: Any) -> Any:
        """`config` with the tools of an in-process server held at their handler; others as they are."""
        if not isinstance(config, Mapping) or config.get("type") != "sdk":
            return config
        server = copy.copy(config["instance"])  # the user's own may serve other options, with another gate
        if modern := hasattr(server, "get_request_handler"):  # mcp 2; before, handlers stand in a public mapping
            server._request_handlers = dict(server._request_handlers)
            listing, entry = (server.get_request_handler(method) for method in ("tools/list", "tools/call"))
            listed = None if listing is None else listing.handler(None, None)
        else:
            server.request_handlers = dict(server.request_handlers)
            listing = server.request_handlers.get(mcp_types.ListToolsRequest)
            entry = server.request_handlers.get(mcp_types.CallToolRequest)
            listed = None if listing is None else listing(mcp_types.ListToolsRequest(method="tools/list"))
        for tool in _now(listed):
            full = _full(name, tool)
            if full in self.inside:
                raise ConfigurationError(f"two in-process tools are called {full}: rename one")
            self.inside[full] = (tool, f"{name}__{tool}", f"mcp__{name}__{tool}")
        if entry is None:
            return config
        if modern:

            async def handle(context: Any, params: Any) -> Any:
                async def run(arguments: dict[str, Any]) -> Any:
                    return await entry.handler(context, params.model_copy(update={"arguments": arguments}))

                return await self.call(_full(name, params.name), params, run)

            server.add_request_handler("tools/call", entry.params_type, handle)
        else:

            async def handle_legacy(request: Any) -> Any:
                async def run(arguments: dict[str, Any]) -> Any:
                    params = request.params.model_copy(update={"arguments": arguments})
                    return await entry(request.model_copy(update={"params": params}))

                result = await self.call(_full(name, request.params.name), request.params, run)
                return mcp_types.ServerResult(result) if isinstance(result, mcp_types.CallToolResult) else result

            server.request_handlers[mcp_types.CallToolRequest] = handle_legacy
        return {**config, "instance": server}

    async def call(self, tool: str, params: Any, run: Run) -> Any:
        """The last place before the act: run what the hook allowed; a call that no hook saw is asked about here."""
        arguments = params.arguments or {}
        answer = await self.bridge.total(tool, self._hold(tool, params, arguments))
        if isinstance(answer, Stop):
            content = [{"type": "text", "text": answer.text}]
            return mcp_types.CallToolResult.model_validate({"content": content, "isError": True})
        result = await run(arguments if answer.arguments is None else answer.arguments)
        self.bridge.ran(answer, getattr(result, "root", result))
        return result

    async def _hold(self, tool: str, params: Any, arguments: dict[str, Any]) -> Go | Stop:
        """The hook's answer, if this is the call that it saw."""
        checked, go = self._allowed.pop(_tool_use_id(params), ("", None))
        if go is None:
            return await self.bridge.aask(tool, arguments, {}, names=self.names(tool))
        return go if checked == tool and _same(go.arguments, arguments) else self.bridge.refused(tool, CHANGED)


def _refuse(options: ClaudeAgentOptions) -> None:
    """Under these the CLI skips the SDK's hooks and says nothing."""
    if any(name.lstrip("-").partition("=")[0] == "bare" for name in options.extra_args):
        raise ConfigurationError("extra_args: with --bare the CLI skips hooks")
    if {**os.environ, **options.env}.get(SIMPLE):
        raise ConfigurationError(f"env: with {SIMPLE} the CLI skips hooks")


def _rewriters(options: ClaudeAgentOptions) -> Iterator[str]:
    """What could change a call after the hook allowed it."""
    if (options.hooks or {}).get("PreToolUse"):
        yield "PreToolUse"
    for name in ("can_use_tool", "permission_prompt_tool_name", "settings", "plugins", "extra_args"):
        if getattr(options, name):
            yield name
    if options.setting_sources != []:
        yield "setting_sources"


def _runs_outside(tool: str, options: ClaudeAgentOptions, servers: Mapping[str, Any]) -> bool:
    """Whether this is a tool of a server that the CLI connects to, or a built-in one that the options list."""
    names = [_clean(name) for name, config in servers.items() if config.get("type") != "sdk"]
    if any(tool.startswith((f"mcp__{name}__", f"{name}__")) for name in names):
        return tool == _clean(tool)
    listed = [*(options.tools if isinstance(options.tools, list) else ()), *options.allowed_tools]
    return tool in {entry.partition("(")[0] for entry in listed if not entry.startswith("mcp__")}


def _full(server: str, tool: str) -> str:
    return f"mcp__{_clean(server)}__{_clean(tool)}"


def _clean(name: str) -> str:
    """As the CLI does."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)


def _tool_use_id(params: Any) -> str:
    meta = getattr(params, "meta", None)
    extra = meta if isinstance(meta, Mapping) else getattr(meta, "model_extra", None) or {}
    return str(extra.get("claudecode/toolUseId"))


def _same(checked: dict[str, Any] | None, arguments: dict[str, Any]) -> bool:
    """Type included: `1` is not `true`. None: nothing was checked, so nothing can differ."""
    return checked is None or json.dumps(checked, sort_keys=True) == json.dumps(arguments, sort_keys=True)


def _now(listed: Any) -> list[str]:
    """The tools that a server lists, where it can say so without waiting; then none are known by name."""
    if not asyncio.iscoroutine(listed):
        return []
    try:
        listed.send(None)
    except StopIteration as done:
        result = getattr(done.value, "root", done.value)
        return [tool.name for tool in result.tools]
    except Exception:  # noqa: BLE001 - a server of the user's own that wants a request's context
        return []
    finally:
        listed.close()
    return []
