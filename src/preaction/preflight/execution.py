"""The act: exactly what was decided, with exactly the values that were looked up, and once (F14).

Before it the state is checked, its action key is locked and it is claimed in the storage; whatever fails up to there
holds it. From then on it never runs again, however it ends: a call that failed may have been done all the same.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from preaction.calling import LATE, Answer, Asking, Call, arun, run
from preaction.options import is_async
from preaction.preflight.lock import Lock
from preaction.preflight.record import UNKEYED, State, time_text
from preaction.preflight.signing import Signer
from preaction.preflight.storage import Storage, claim_of
from preaction.preflight.tool import arguments_of
from preaction.preflight.values import log

_TRIES: Final = 2
"""How often a record of what was done is handed to the storage."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a state that was handed over to be executed. Nothing of it is for the model but `result`.

    - "executed": the tool returned `result`.
    - "failed": the tool raised (`error`), or was late. It may have been done all the same: look before trying again.
    - "held": nothing was done; `reason` says why.

    `record` is that of the execution, None when it was held; `recorded` is False where the storage didn't take it.
    """

    status: Literal["executed", "failed", "held"]
    reason: str
    record: dict[str, Any] | None = field(default=None, repr=False)  # values stay out of logs
    result: Any = field(default=None, repr=False)
    recorded: bool = False
    error: BaseException | None = field(default=None, repr=False)


class Keeper:
    """What executing needs beside the state: the storage, the signer, the lock and the clock."""

    def __init__(self, storage: Storage, signer: Signer, lock: Lock, clock: Callable[[], datetime]) -> None:
        self.storage = storage
        self.signer = signer
        self.lock = lock
        self.clock = clock
        self.claim = claim_of(storage)

    def now(self) -> str:
        """The time as records have it."""
        return time_text(self.clock())


class Executing:
    """The part of a preflight that lets a call be made."""

    _keeper: Keeper

    async def execute_if_ready(
        self,
        state: State,
        tool: Mapping[str, Any],
        call_tool: Callable[[str, dict[str, Any]], Any],
        *,
        timeout_s: float | None = None,
    ) -> Done:
        """Call `tool` as `state` says, if it is an "execute" that this preflight wrote, and was never run.

        `call_tool(name, arguments)`, sync or async, gets exactly the values that were looked up. It is called once at
        most, among all processes that share the storage, and its end is recorded. Raises nothing for what the state,
        the tool, the lock or the storage do. A cancellation leaves as it came; what was begun is recorded as failed.
        With `timeout_s` the call is given up after so many seconds; without it, an event loop waits a minute for what
        runs in a thread.
        """
        return await aexecute(Act(self._keeper, state, tool, call_tool, timeout_s))

    def execute_if_ready_sync(
        self,
        state: State,
        tool: Mapping[str, Any],
        call_tool: Callable[[str, dict[str, Any]], Any],
        *,
        timeout_s: float | None = None,
    ) -> Done:
        """As `execute_if_ready`, from a thread. Coroutine functions run in a loop of their own."""
        return execute(Act(self._keeper, state, tool, call_tool, timeout_s))


@dataclass(slots=True)
class Act:
    """One state on its way to its call. `name` is what it is claimed by, `ending` the record of how it ended."""

    keeper: Keeper
    state: object
    tool: object
    call_tool: Callable[[str, dict[str, Any]], Any]
    timeout_s: float | None = None
    record: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    taken: Any = None
    begun_at: str | None = None
    ending: dict[str, Any] | None = None
    kept: bool = False
    runs_on: bool = True

    @property
    def key(self) -> str:
        """What the act is locked and recorded under."""
        return self.record["action_key"] or UNKEYED


async def aexecute(act: Act) -> Done:
    """Execute from an event loop."""
    try:
        return await arun(_procedure(act))
    except BaseException:
        if is_async(act.keeper.storage.persist) or is_async(act.keeper.lock.free):
            await arun(_cut_off(act))
        else:
            run(_cut_off(act))  # at once, so that no second cancellation comes in between
        raise


def execute(act: Act) -> Done:
    """Execute from a thread."""
    try:
        return run(_procedure(act))
    except BaseException:
        run(_cut_off(act))
        raise


def _procedure(act: Act) -> Asking[Done]:
    arguments = _ready(act)
    if isinstance(arguments, str):
        return _held(arguments)
    begun = yield Call(act.keeper.now, quick=True)
    if not begun.good:
        return _failed("the clock", begun)
    taken = yield Call(act.keeper.lock.take, (act.key,))
    if not taken.good or not taken.value:
        return _failed("the lock", taken) if not taken.good else _held("the same action is being executed just now")
    act.taken = taken.value
    claimed = yield Call(act.keeper.claim, (act.name,))
    if not claimed.good or claimed.value is not True:
        yield from _free(act)
        return _failed("the storage", claimed) if not claimed.good else _held("it was executed before")
    act.begun_at = begun.value
    given = (act.record["fixed"]["c3_provider_action_name"], arguments)
    answer = yield Call(act.call_tool, given, limit_s=act.timeout_s)
    act.runs_on = answer.late
    if answer.good:
        return (yield from _end(act, "executed", "executed", answer))
    what = "it was late" if answer.late else f"it raised {type(answer.error).__name__}"
    return (yield from _end(act, "failed", f"failed: {what}", answer))


def _ready(act: Act) -> dict[str, Any] | str:
    """The arguments of a state that may run, or why it may not: all but a signed "execute" of ours."""
    if type(act.state) is not State:
        return "it is no state of a preflight"
    try:
        act.record = act.state.to_json()
        named = act.keeper.signer.act_of(act.state.signature, act.record)
    except (AttributeError, TypeError, ValueError, RecursionError):  # a state made by hand, around its constructors
        named = None
    if named is None:
        return "this preflight didn't write it, or it was altered"
    act.name = named
    if act.record["execution_decision"] != "execute":
        return f"its execution_decision is {act.record['execution_decision']!r}, not 'execute'"
    name = act.tool.get("name") if isinstance(act.tool, Mapping) else None
    if type(name) is not str or name != act.record["fixed"]["c3_provider_action_name"]:
        return "the tool is another one than the one that was decided on"
    call: object = act.call_tool
    if not callable(call) or inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        return "call_tool is no function that acts when it is called"
    return arguments_of((one["name"], one["value"]) for one in act.record["fields"])


def _end(act: Act, status: Literal["executed", "failed"], reason: str, answer: Answer = LATE) -> Asking[Done]:
    now = yield Call(act.keeper.now, quick=True)
    at = now.value if now.good else act.begun_at  # what was done is recorded, whatever the clock does
    act.ending = {**act.record, "execution_decision": status, "reason": reason, "timestamp": at}
    yield from _keep(act)
    yield from _free(act)
    return Done(status, reason, act.ending, answer.value, act.kept, answer.error)


def _keep(act: Act) -> Asking[None]:
    for _ in range(_TRIES):
        kept = yield Call(act.keeper.storage.persist, (act.key, act.ending))
        act.kept = kept.good
        if act.kept:
            return
        told = {"code": "record_not_kept"}
        log.error("preflight: a record of what was done could not be kept: %s", _kind(kept), extra=told)


def _cut_off(act: Act) -> Asking[None]:
    """The caller was interrupted: how the call ended is recorded, and where nobody knows, it failed."""
    if act.begun_at is None:
        if act.taken is not None:
            yield from _free(act)
    elif act.ending is None:
        yield from _end(act, "failed", "failed: it was cut off")
    elif not act.kept:  # it may be kept twice, and never not at all
        yield from _keep(act)
        yield from _free(act)


def _free(act: Act) -> Asking[None]:
    """Free the action key. A call that may still go on keeps it, for as long as the lock lasts by itself."""
    if act.runs_on and act.begun_at is not None:
        return
    freed = yield Call(act.keeper.lock.free, (act.key, act.taken))
    if not freed.good:
        told = {"code": "key_not_freed"}
        log.error("preflight: an action key could not be freed: %s", _kind(freed), extra=told)


def _held(why: str) -> Done:
    return Done("held", f"held: {why}")


def _failed(what: str, answer: Answer) -> Done:
    told = {"code": "preflight_error"}
    log.error("preflight: %s failed and nothing was executed: %s", what, _kind(answer), extra=told)
    return _held(f"{what} could not be asked")


def _kind(answer: Answer) -> str:
    return "late" if answer.late else type(answer.error).__name__
