"""8 · Idempotency: a write is done once per key, whoever repeats it, from whatever process (P8, P9).

One text per key says how far the act has come: reserved → begun → done, or unknown. Every step is one compare-and-set,
so of two at once one goes on. A reservation whose time is over was never begun and may be taken over; an act that was
begun and whose time is over is of unknown outcome, and never runs again by itself.
"""

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from preaction.calling import Asking, arun, run
from preaction.errors import MisuseError
from preaction.pipeline.proposal import ProposedCall, TrustedContext
from preaction.pipeline.texts import Texts, command_digest, name_of_text
from preaction.stores import Store
from preaction.wire.times import read_time, write_time

KEEP_DONE: Final = timedelta(days=7)
"""How long a result is kept: within it the same key is answered with it."""

_KEEP_OPEN: Final = timedelta(days=3650)
"""What was begun is kept until somebody knows its outcome."""

_KEEP_RESERVED: Final = timedelta(hours=1)
_GRACE: Final = timedelta(seconds=5)
"""How much longer than its time limit an act may take to say that it is done."""


@dataclass(frozen=True, slots=True)
class Free:
    """Nothing was done under this key; `held` is what stands there all the same, such as a dead reservation."""

    held: str | None


NEVER_DONE: Final = Free(None)


@dataclass(frozen=True, slots=True)
class Stored:
    """The act is done: the code that it ended with, and its result."""

    code: str
    result: Any


@dataclass(frozen=True, slots=True)
class InProgress:
    """Somebody is at it."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """It was begun, and nobody knows how it ended."""

    held: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """The key belongs to another command."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """The act is ours to do. `held` is what stands in the store."""

    name: str
    command: str
    held: str


Known: TypeAlias = Free | Stored | InProgress | Unknown | Conflict


def key_of(call: ProposedCall, context: TrustedContext, tool: str, arguments: Any, *, repeatable: bool) -> str:
    """The given key, or one from tenant, subject, request, tool and arguments.

    A model gives a retry a fresh call id, so that id counts only where two equal calls are meant to be two acts.
    """
    if call.idempotency_key is not None:
        return call.idempotency_key
    parts = [context.tenant, context.subject, context.request_id, tool, call.id if repeatable else None, arguments]
    return command_digest(parts)


class Acts:
    """The acts of a pipeline by their keys. Safe between processes that share the store, whose clocks agree roughly."""

    def __init__(self, store: Store, clock: Callable[[], datetime], keep_done: timedelta = KEEP_DONE) -> None:
        self._texts = Texts(store)
        self._clock = clock
        self._keep_done = keep_done

    @staticmethod
    def name(tenant: str, tool: str, key: str) -> str:
        """Where an act is kept: keys of different tenants and tools are different keys."""
        return name_of_text("act", tenant, tool, key)

    def recall(self, name: str, command: str) -> Asking[Known]:
        """How far the act under `name` has come, for the command with this digest."""
        return self._read((yield from self._texts.look(name)), command)

    def reserve(self, name: str, command: str, free: Free, seconds: float) -> Asking[Reserved | Known]:
        """Make the act ours, or say why not. A reservation is over after `seconds` and the grace."""
        text = self._text("reserved", command, seconds)
        swapped = yield from self._texts.swap(name, free.held, text, _KEEP_RESERVED + timedelta(seconds=seconds))
        return Reserved(name, command, text) if swapped.done else self._read(swapped.value, command)

    def begin(self, reserved: Reserved, seconds: float) -> Asking[Reserved | None]:
        """Say that the act starts now; None when the reservation was taken over, and it must not."""
        text = self._text("begun", reserved.command, seconds)
        swapped = yield from self._texts.swap(reserved.name, reserved.held, text, _KEEP_OPEN)
        return Reserved(reserved.name, reserved.command, text) if swapped.done else None

    def release(self, reserved: Reserved) -> Asking[bool]:
        """Nothing was done: free the key."""
        return (yield from self._texts.swap(reserved.name, reserved.held, None, _GRACE)).done

    def finish(self, reserved: Reserved, code: str, result: Any) -> Asking[bool]:
        """The act is done; later calls get this result. False when the text isn't ours any more."""
        return (yield from self._done(reserved.name, reserved.held, reserved.command, code, result))

    def lose(self, reserved: Reserved) -> Asking[bool]:
        """Nobody knows whether the act is done."""
        text = self._text("unknown", reserved.command, 0)
        return (yield from self._texts.swap(reserved.name, reserved.held, text, _KEEP_OPEN)).done

    def settle_done(self, name: str, command: str, unknown: Unknown, code: str, result: Any) -> Asking[bool]:
        """It turned out to be done, with this result."""
        return (yield from self._done(name, unknown.held, command, code, result))

    def settle_undone(self, name: str, unknown: Unknown) -> Asking[bool]:
        """It turned out that nothing was done: free the key."""
        return (yield from self._texts.swap(name, unknown.held, None, _GRACE)).done

    def settle(self, key: str, *, tenant: str, tool: str, done: bool, result: Any = None) -> None:
        """For a person who has looked: settle an act of unknown outcome, as done with `result`, or as not done.

        Raises `MisuseError` where no act of unknown outcome is known under this key.
        """
        run(self._settle(self.name(tenant, tool, key), done, result))

    async def asettle(self, key: str, *, tenant: str, tool: str, done: bool, result: Any = None) -> None:
        """`settle`, from an event loop."""
        await arun(self._settle(self.name(tenant, tool, key), done, result))

    def _settle(self, name: str, done: bool, result: Any) -> Asking[None]:
        held = yield from self._texts.look(name)
        command = "" if held is None else str(json.loads(held)["command"])
        known = self._read(held, command)
        if not isinstance(known, Unknown):
            raise MisuseError("settle: no act of unknown outcome is known under this key")
        settled = (
            self.settle_done(name, command, known, "executed", result) if done else self.settle_undone(name, known)
        )
        if not (yield from settled):
            raise MisuseError("settle: the act was settled just now")

    def _done(self, name: str, held: str, command: str, code: str, result: Any) -> Asking[bool]:
        text = json.dumps({"state": "done", "command": command, "code": code, "result": result})
        return (yield from self._texts.swap(name, held, text, self._keep_done)).done

    def _text(self, state: str, command: str, seconds: float) -> str:
        until = self._clock() + timedelta(seconds=seconds) + _GRACE
        # The owner makes each text one of a kind: nobody takes an older state for the one that was read
        return json.dumps(
            {"state": state, "command": command, "owner": secrets.token_hex(8), "until": write_time(until)}
        )

    def _read(self, held: str | None, command: str) -> Known:
        if held is None:
            return Free(None)
        state = json.loads(held)
        if state["command"] != command:
            return Conflict()
        if state["state"] == "done":
            return Stored(state["code"], state["result"])
        if state["state"] != "unknown" and self._clock() < read_time(state["until"]):
            return InProgress()
        return Free(held) if state["state"] == "reserved" else Unknown(held)
