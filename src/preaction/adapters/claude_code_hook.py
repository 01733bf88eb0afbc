"""The gate in Claude Code's settings hooks: each event of the CLI is a process of its own, `preaction hook`.

What the processes must know of each other stands in the store that they share: the session itself, which turn of the
model is going on, and in which turn each result came (A5).
"""

import json
import sys
from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import uuid4

from preaction.adapters._bridge import Bridge, Go, Results
from preaction.adapters._turns import Turn
from preaction.errors import MisuseError
from preaction.gate import ActionGate
from preaction.stores import Slot, Store

EVENTS: Final = ("PreToolUse", "PostToolUse", "PostToolBatch", "UserPromptSubmit")
"""The events that the hook needs. Without one of the last two no result ever counts, and so nothing is allowed."""

LOST: Final = "What the authority answered could not be recorded, so this session ends: start a new one."

_TURNS: Final = "hook/turn"
_RESULTS: Final = "hook/result"

HookInput = Mapping[str, Any]


def answer(gate: ActionGate, store: Store, given: HookInput) -> dict[str, Any] | None:
    """What to tell the CLI about one event; None where there is nothing to say.

    `given` is the event as the CLI describes it. A result that can't be recorded ends the session: what it knows has a
    hole. Raises `MisuseError` for what is no such event, and what the store raises.
    """
    event, session_id = given.get("hook_event_name"), given.get("session_id")
    if not isinstance(session_id, str) or not session_id:
        raise MisuseError("the event has no session_id")
    results = _StoredResults(store)
    bridge: Bridge[HookInput] = Bridge(gate, session=None, session_of=lambda _: session_id, results=results)
    agent = given.get("agent_id")
    if event == "PreToolUse":
        return _before(bridge, given, str(given.get("tool_name")), _turn(store, session_id, agent))
    if event == "PostToolUse":
        tool = next((name for name in names_of(str(given.get("tool_name"))) if gate.records(name)), None)
        if tool is not None:
            go = Go(tool, session_id, _turn(store, session_id, agent), None)
            bridge.ran(go, given.get("tool_response"))
        if results.lost:
            return {"continue": False, "stopReason": LOST}
    elif event in ("PostToolBatch", "UserPromptSubmit"):
        _next_turn(store, session_id, agent)
    else:
        raise MisuseError(f"the hook is for {', '.join(EVENTS)}")
    return None


def names_of(tool: str) -> tuple[str, ...]:
    """Every name by which a rule may mean a tool of the CLI: `mcp__desk__reply`, `desk__reply`, `reply`."""
    parts = tool.split("__")
    return tuple("__".join(parts[start:]) for start in range(len(parts)))


def _before(bridge: Bridge[HookInput], given: HookInput, tool: str, turn: Turn) -> dict[str, Any] | None:
    verdict = bridge.ask(tool, given.get("tool_input"), given, names=names_of(tool), batch=turn)
    if isinstance(verdict, Go):
        return None  # no opinion: an "allow" would skip the user's own permissions
    denial = {"permissionDecision": "deny", "permissionDecisionReason": verdict.text}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **denial}}


def settings(command: str) -> dict[str, Any]:
    """The hooks for Claude Code's settings file, which run `command`.

    A hook that ends with any error but 2 is taken for no opinion, and the tool runs; hence what follows the command.
    """
    hook = {"type": "command", "command": f"{command} || exit 2", "timeout": 60}
    return {"hooks": {event: [{"matcher": "*", "hooks": [hook]}] for event in EVENTS}}


# Across processes -----------------------------------------------------------------------------------------------------


class _StoredResults(Results):
    """In which turn each result came, in the store."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    def of_batch(self, session_id: str, batch: object) -> Collection[str]:
        """The ids of the results that a call of `batch` could not have seen."""
        found = (json.loads(value) for _, value in self._store.read(session_id, _RESULTS))
        return {id for id, path in found if _as_turn(path) == batch}

    def add(self, session_id: str, batch: object, id: str) -> None:
        """A result with this `id` comes in `batch`. To be said before it is recorded."""
        path = batch.path if isinstance(batch, Turn) else ()
        if not self._store.put(session_id, [Slot(_RESULTS, uuid4().hex, json.dumps([id, path]))]):
            raise MisuseError("the session takes no more records")


def _turn(store: Store, session_id: str, agent: object) -> Turn:
    """The turn of the model that goes on; a sub-agent's stand within that of the agent that runs it."""
    levels = [None] if agent is None else [None, str(agent)]
    going_on = dict(store.read(session_id, _TURNS))
    return _as_turn([(level, going_on.get(level or "", "")) for level in levels])


def _next_turn(store: Store, session_id: str, agent: object) -> None:
    """The model has seen the results of its calls."""
    store.put(session_id, [Slot(_TURNS, "" if agent is None else str(agent), uuid4().hex)])


def _as_turn(path: Any) -> Turn:
    # A turn compares who runs an agent by identity
    return Turn(tuple((None if level is None else sys.intern(level), turn) for level, turn in path))
