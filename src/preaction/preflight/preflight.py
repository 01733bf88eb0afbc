"""Preflight: the object that a user holds. It asks, before the gate does, whether a call rests on anything."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from preaction.calling import Asking, Call, arun, run
from preaction.errors import ConfigurationError, StoreUnavailable
from preaction.options import read_clock
from preaction.preflight.deferral import Now, at_trigger
from preaction.preflight.execution import Executing, Keeper
from preaction.preflight.hooks import Hook, Hooks, read_hooks
from preaction.preflight.lock import Lock, StoreLock
from preaction.preflight.procedure import procedure
from preaction.preflight.record import UNKEYED, State
from preaction.preflight.run import Request
from preaction.preflight.signing import Signer
from preaction.preflight.storage import MemoryStorage, Storage
from preaction.preflight.values import log


def create_preflight(
    *,
    hooks: Mapping[str, Hook],
    storage: Storage | None = None,
    strict: bool = False,
    clock: Callable[[], datetime] | None = None,
    secret: bytes | None = None,
    lock: Lock | None = None,
) -> "Preflight":
    """A preflight over `hooks` (see `Hooks`) and a storage for its records.

    `strict` takes no default that verifies nothing. `clock` gives aware datetimes. `secret` signs what was decided, and
    is the same in every process that executes it; None makes one that is gone when the process ends. `lock`
    keeps the calls under one action key apart, by default in this process (`StoreLock`). Raises `ConfigurationError`
    with the place for what can't be right (F1).
    """
    read = read_hooks(hooks, strict=strict)
    if storage is None or isinstance(storage, type) or not isinstance(storage, Storage):
        raise ConfigurationError("storage: an object with persist and load is needed")
    if lock is not None and (isinstance(lock, type) or not isinstance(lock, Lock)):
        raise ConfigurationError("lock: an object with take and free is needed")
    keeper = Keeper(storage, Signer(secret), StoreLock() if lock is None else lock, read_clock(clock))
    return Preflight(read, keeper)


class Preflight(Executing):
    """Looks every required value up, asks for what is missing, and keeps a record. Safe in threads and tasks.

    `unsafe_defaults` are the hooks left to a default that verifies nothing.
    """

    def __init__(self, hooks: Hooks, keeper: Keeper) -> None:
        self._hooks = hooks
        self._keeper = keeper
        self.unsafe_defaults = hooks.unsafe_defaults

    async def run_and_record(
        self,
        *,
        user_id: str,
        instruction: Any,
        tool: Mapping[str, Any] | None,
        pre_set_data: Mapping[str, Any] | None = None,
        measured_data: Mapping[str, Any] | None = None,
        prior_state: State | Mapping[str, Any] | None = None,
        user_checklist: Sequence[Mapping[str, Any]] | None = None,
        user_answers: Mapping[str, Any] | None = None,
        checklist_answers: Mapping[str, Any] | None = None,
        tool_attempt: int = 0,
        intent_attempt: int = 0,
    ) -> State:
        """What has to happen before this call may be made, recorded before it is said.

        - `instruction`: a list of `Segment`; `tool`: a mapping with `name`, `description` and `inputSchema`.
        - `user_answers`: what the user answered, by field; `pre_set_data`, `measured_data`: see `lookup_field`.
        - `prior_state`: what `prior_state` gave, if the field policy is to take anything over from it.
        - `user_checklist`: mappings with a stable `id`, and `description`; `checklist_answers` are for its hook.
        - `tool_attempt`, `intent_attempt`: how often the user was asked for the tool, or the intent, already.

        Only `execution_decision` "execute" lets the call be made. Raises `MisuseError` for what no caller can mean, and
        `StoreUnavailable` when the record could not be kept: then nothing may be done.
        """
        request = Request(
            user_id=user_id,
            instruction=instruction,
            tool=tool,
            pre_set_data=pre_set_data,
            measured_data=measured_data,
            prior_state=prior_state,
            user_checklist=user_checklist,
            user_answers=user_answers,
            checklist_answers=checklist_answers,
            tool_attempt=tool_attempt,
            intent_attempt=intent_attempt,
        )
        return await arun(self._recorded(request))

    def run_and_record_sync(
        self,
        *,
        user_id: str,
        instruction: Any,
        tool: Mapping[str, Any] | None,
        pre_set_data: Mapping[str, Any] | None = None,
        measured_data: Mapping[str, Any] | None = None,
        prior_state: State | Mapping[str, Any] | None = None,
        user_checklist: Sequence[Mapping[str, Any]] | None = None,
        user_answers: Mapping[str, Any] | None = None,
        checklist_answers: Mapping[str, Any] | None = None,
        tool_attempt: int = 0,
        intent_attempt: int = 0,
    ) -> State:
        """As `run_and_record`, from a thread. Coroutine functions run in a loop of their own."""
        request = Request(
            user_id=user_id,
            instruction=instruction,
            tool=tool,
            pre_set_data=pre_set_data,
            measured_data=measured_data,
            prior_state=prior_state,
            user_checklist=user_checklist,
            user_answers=user_answers,
            checklist_answers=checklist_answers,
            tool_attempt=tool_attempt,
            intent_attempt=intent_attempt,
        )
        return run(self._recorded(request))

    async def resume(
        self,
        deferred_record: State | Mapping[str, Any],
        *,
        tool: Mapping[str, Any] | None,
        pre_set_data: Mapping[str, Any] | None = None,
        measured_data: Mapping[str, Any] | None = None,
        prior_state: State | Mapping[str, Any] | None = None,
        checklist_answers: Mapping[str, Any] | None = None,
        user_answers: Mapping[str, Any] | None = None,
        occurrence: str | None = None,
    ) -> State:
        """The run of a deferred record, now that its time has come; everything is as in `run_and_record` (F12).

        The record brings what the user meant; all else is given as it is now. Where a run asks, resume it again with
        the `user_answers`; they go before those of the record. However often its trigger fires, the act is executed
        once in all. For what recurs, `occurrence` names the time that this is, such as `2026-12`, and each is executed
        once; without it, each resumed run is an act. Raises `InvalidJSON` and `MisuseError` for what is no record of a
        deferred run.
        """
        now = Now(tool, pre_set_data, measured_data, prior_state, checklist_answers, user_answers)
        return await arun(self._recorded(*at_trigger(deferred_record, now, occurrence)))

    def resume_sync(
        self, deferred_record: State | Mapping[str, Any], *, tool: Any, occurrence: str | None = None, **more: Any
    ) -> State:
        """As `resume`, from a thread."""
        return run(self._recorded(*at_trigger(deferred_record, Now(tool, **more), occurrence)))

    async def prior_state(self, action_key: str) -> dict[str, Any] | None:
        """The record that was executed last under this key, or None. `StoreUnavailable` when it can't be read."""
        return await arun(self._loaded(action_key))

    def prior_state_sync(self, action_key: str) -> dict[str, Any] | None:
        """As `prior_state`, from a thread."""
        return run(self._loaded(action_key))

    def _recorded(self, request: Request, act: str | None = None) -> Asking[State]:
        state = yield from procedure(request, self._hooks, self._keeper.clock)
        yield from self._keep(state)
        return replace(state, signature=self._keeper.signer.sign_state(state.to_json(), act))

    def _keep(self, state: State) -> Asking[None]:
        key = UNKEYED if state.action_key is None else state.action_key
        yield from self._stored(self._keeper.storage.persist, key, state.to_json())

    def _loaded(self, action_key: str) -> Asking[dict[str, Any] | None]:
        found: dict[str, Any] | None = yield from self._stored(self._keeper.storage.load, action_key)
        return found

    def _stored(self, function: Callable[..., Any], *given: Any) -> Asking[Any]:
        answer = yield Call(function, given, quick=isinstance(self._keeper.storage, MemoryStorage))
        if not answer.good:
            what = "it was late" if answer.late else type(answer.error).__name__
            log.error("preflight: the storage failed: %s", what, extra={"code": "storage_failed"})
            if isinstance(answer.error, StoreUnavailable):  # one of ours says what the operator has to know
                raise answer.error from None
            raise StoreUnavailable(f"storage: the record could not be kept or read: {what}")
        return answer.value
