"""7 · Confirmation: a person agrees to one exact command, once, for a while (P7).

A confirmation is bound to the digest of the command and to the text that the person was shown: what changed since then
needs a new one. Only trusted code holds this object.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from preaction.calling import Asking, arun, run
from preaction.errors import MisuseError
from preaction.pipeline.outcome import Confirmation
from preaction.pipeline.proposal import is_text
from preaction.pipeline.texts import Texts, name_of_text
from preaction.stores import Store
from preaction.wire.times import read_time, write_time

_REMEMBERED: Final = timedelta(days=1)
"""How long an expired confirmation is still known as one."""


class ConfirmationError(MisuseError, ValueError):
    """What can't be approved: an unknown, used or expired confirmation, or nobody who approves."""


@dataclass(frozen=True, slots=True)
class Given:
    """A confirmation that was given: its id, who gave it and when, and its text in the store, to be used up."""

    id: str
    by: str
    at: str
    _text: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """A confirmation that is still to be given; `expired` says that another one ran out before."""

    confirmation: Confirmation
    expired: bool


class Confirmations:
    """The confirmations of one pipeline, in a store that its processes may share. `valid_s` in seconds."""

    def __init__(self, store: Store, valid_s: float, clock: Callable[[], datetime]) -> None:
        self._texts = Texts(store)
        self._valid = timedelta(seconds=valid_s)
        self._clock = clock

    def approve(self, confirmation_id: str, *, by: str) -> None:
        """Confirm, as the person `by`. Raises `ConfirmationError` unless it waits to be confirmed, and is in time."""
        run(self._approve(confirmation_id, by))

    async def aapprove(self, confirmation_id: str, *, by: str) -> None:
        """`approve`, from an event loop."""
        await arun(self._approve(confirmation_id, by))

    def _approve(self, confirmation_id: str, by: str) -> Asking[None]:
        if not is_text(by):
            raise ConfirmationError("by: who confirms has to be named")
        held, state = yield from self._read(confirmation_id)
        if held is None or state["state"] != "waiting":
            raise ConfirmationError("the confirmation is unknown, or was given or used already")
        now = self._clock()
        if now >= read_time(state["expires_at"]):
            raise ConfirmationError("the confirmation has expired")
        given = {**state, "state": "given", "by": by, "at": write_time(now)}
        if not (yield from self._swap(confirmation_id, held, given)):
            raise ConfirmationError("the confirmation was given or used just now")

    def find(self, digest: str, summary: str) -> Asking[Given | Wanted]:
        """The confirmation for this command, if one was given; else the one to give, made if there is none."""
        shown = hashlib.sha256(json.dumps(summary).encode()).hexdigest()  # the store need not know the text
        pointer = name_of_text("confirm-for", digest)
        known = yield from self._texts.look(pointer)
        held, state = yield from self._read(known)
        expired = False
        if held is not None and known is not None and state["shown"] == shown and state["digest"] == digest:
            expires_at = read_time(state["expires_at"])
            expired = state["state"] != "used" and self._clock() >= expires_at
            if state["state"] == "given" and not expired:
                return Given(known, state["by"], state["at"], held)
            if state["state"] == "waiting" and not expired:
                return Wanted(Confirmation(known, summary, digest, expires_at), expired=False)
        return Wanted((yield from self._make(pointer, known, digest, shown, summary)), expired)

    def use(self, given: Given) -> Asking[bool]:
        """Use a confirmation up; False when somebody else has, or it ran out."""
        state = json.loads(given._text)
        if self._clock() >= read_time(state["expires_at"]):
            return False
        return (yield from self._swap(given.id, given._text, {**state, "state": "used"}))

    def _make(self, pointer: str, known: str | None, digest: str, shown: str, summary: str) -> Asking[Confirmation]:
        """A new one. Of two made at once the later is found; the other one leads nowhere, and runs out."""
        made, expires_at = secrets.token_urlsafe(18), self._clock() + self._valid
        state = {"state": "waiting", "digest": digest, "shown": shown, "expires_at": write_time(expires_at)}
        yield from self._swap(made, None, state)
        swapped = yield from self._texts.swap(pointer, known, made, self._valid + _REMEMBERED)
        if not swapped.done and swapped.value is not None:
            held, other = yield from self._read(swapped.value)
            if held is not None and other["state"] == "waiting" and other["shown"] == shown:
                return Confirmation(swapped.value, summary, digest, read_time(other["expires_at"]))
        return Confirmation(made, summary, digest, expires_at)

    def _read(self, confirmation_id: object) -> Asking[tuple[str | None, dict[str, Any]]]:
        if not is_text(confirmation_id):
            return None, {}
        held = yield from self._texts.look(name_of_text("confirmation", str(confirmation_id)))
        return held, {} if held is None else json.loads(held)

    def _swap(self, confirmation_id: str, old: str | None, state: dict[str, Any]) -> Asking[bool]:
        name = name_of_text("confirmation", confirmation_id)
        return (yield from self._texts.swap(name, old, json.dumps(state), self._valid + _REMEMBERED)).done


def summary_of(
    tool: str, arguments: dict[str, Any], targets: dict[str, str], effect: Literal["read", "write"], said: str | None
) -> str:
    """What a person is shown: what the hook said, and the target wherever it isn't named in that; without a hook, all.

    Values of the model's are written as JSON in ASCII, so that none of them can look like something else.
    """
    named = ", ".join(f"{name} {target}" for name, target in targets.items())
    action = f"{tool} {json.dumps(arguments, sort_keys=True)}"
    if said is None:
        return f"{action}; target: {named or 'as in the arguments'}; effect: {effect}"
    if not targets:
        return f"{said}\n{action}"
    return said if all(_names(said, target) for target in targets.values()) else f"{said}\nTarget: {named}"


def _names(said: str, target: str) -> bool:
    """Whether the target stands there as a whole: `inv_4` isn't named by `inv_481`."""
    return re.search(rf"(?<![\w-]){re.escape(target)}(?![\w-])", said) is not None
