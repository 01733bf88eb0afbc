"""The pipeline: the object that a team's loop holds. Whatever happens inside, no exception leaves `handle`.

What fails before the act is a denial; what fails once the act has begun is of unknown outcome. A cancellation or an
interrupt leaves as it came, and what was begun then is of unknown outcome, too.
"""

import inspect
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from preaction.calling import arun, run
from preaction.errors import ConfigurationError
from preaction.gate import ActionGate
from preaction.options import names_of, read_clock, read_store
from preaction.pipeline.audit import Sink
from preaction.pipeline.confirm import Confirmations
from preaction.pipeline.idempotency import KEEP_DONE, Acts
from preaction.pipeline.identity import RESERVED, reserved_in_schema, squashed_all
from preaction.pipeline.outcome import Ending, Outcome
from preaction.pipeline.proposal import Limits, ProposedCall, TrustedContext
from preaction.pipeline.record import record_of
from preaction.pipeline.steps import outcome_of, procedure
from preaction.pipeline.texts import Texts
from preaction.pipeline.tool import Tool
from preaction.pipeline.work import Parts, Work, log
from preaction.stores import Store
from preaction.stores.memory import MemoryStore


class ToolPipeline:
    """One gate in front of some tools' executors. Safe in threads and tasks; processes share what their store shares.

    `gate` is an action gate; `preflight(tool, arguments, context)` says "execute" where every value has a source (as
    itself or as its `execution_decision`), and is asked about writes alone; `store` keeps counts, confirmations and
    results, by default in this process. `audit` takes each record, `diagnostics` what neither the record nor the model
    may hold: raw results and errors. `reserved` are the names that no schema and no call may have. A result is kept for
    `keep_results`. Raises `ConfigurationError` for what can't be right.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        gate: ActionGate | None = None,
        preflight: Callable[..., Any] | None = None,
        store: Store | None = None,
        audit: Sink | None = None,
        limits: Limits | None = None,
        reserved: Sequence[str] = RESERVED,
        diagnostics: Callable[[dict[str, Any]], object] | None = None,
        keep_results: timedelta = KEEP_DONE,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        names = squashed_all(names_of(reserved, "reserved"))
        now, kept = read_clock(clock), MemoryStore() if store is None else read_store(store)
        limits = Limits() if limits is None else limits
        for option, value in {"preflight": preflight, "audit": audit, "diagnostics": diagnostics}.items():
            if value is not None and not callable(value):
                raise ConfigurationError(f"{option}: a function is needed")
        if keep_results <= timedelta(0):
            raise ConfigurationError("keep_results: a timedelta above 0 is needed")
        self.confirmations = Confirmations(kept, limits.confirmation_s, now)
        self.acts = Acts(kept, now, keep_results)
        self._parts = Parts(
            tools=_registered(tools, names),
            gate=gate,
            preflight=preflight,
            texts=Texts(kept),
            acts=self.acts,
            confirmations=self.confirmations,
            audit=audit,
            diagnostics=diagnostics,
            limits=limits,
            reserved=names,
            clock=now,
        )

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Name, description and input schema of each tool, to be shown to a model."""
        return [tool.definition() for tool in self._parts.tools.values()]

    async def handle(self, call: ProposedCall, context: TrustedContext) -> Outcome:
        """What becomes of one proposal. Never raises for anything that a call, a hook or a tool does."""
        work = self._open(call, context)
        try:
            return await arun(procedure(work, self._parts))
        except BaseException as error:  # noqa: BLE001 - the pipeline's door
            return self._broken(work, error)

    def handle_sync(self, call: ProposedCall, context: TrustedContext) -> Outcome:
        """As `handle`, from a thread. Coroutine functions run in a loop of their own."""
        work = self._open(call, context)
        try:
            return run(procedure(work, self._parts))
        except BaseException as error:  # noqa: BLE001 - the pipeline's door
            return self._broken(work, error)

    def _open(self, call: ProposedCall, context: TrustedContext) -> Work:
        return Work(call, context, secrets.token_hex(16), self._parts.clock())

    def _broken(self, work: Work, error: BaseException) -> Outcome:
        """The pipeline itself has failed, or was interrupted, which goes on as it came.

        Only the type is told: a message or a trace could hold what it failed on.
        """
        ending = self._leave(work, Ending("internal", detail=type(error).__name__))
        if not isinstance(error, Exception):
            raise error
        told = {"code": "pipeline_error", "part": "pipeline", "id": work.id}
        log.error("the pipeline failed and the call was denied: %s", type(error).__name__, extra=told)
        return outcome_of(work, ending)

    def _leave(self, work: Work, ending: Ending) -> Ending:
        """Leave a proposal in the middle: what was begun is of unknown outcome, what was reserved is free."""
        if work.begun and work.known_tool is not None and work.known_tool.acts:
            ending = Ending("outcome_unknown", detail=ending.detail)
        told = {"code": "left_unrecorded", "id": work.id}
        try:
            if work.reserved is not None:
                run((self.acts.lose if work.begun else self.acts.release)(work.reserved))
            left = (
                None if self._parts.audit is None else self._parts.audit(record_of(work, self._parts, ending, "after"))
            )
            if inspect.iscoroutine(left):
                left.close()
                log.error("a call was left in the middle, and its record could not be completed", extra=told)
        except Exception as error:  # noqa: BLE001 - a store or sink that is down changes nothing of how it is left
            log.error("a call was left in the middle, and that could not be kept: %s", type(error).__name__, extra=told)
        return ending


def _registered(tools: Sequence[Tool], reserved: frozenset[str]) -> dict[str, Tool]:
    """The tools by name. Identity has no place in a schema (P4)."""
    found: dict[str, Tool] = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            raise ConfigurationError("tools: a list of Tool is needed")
        if tool.name in found:
            raise ConfigurationError(f"tools.{tool.name}: registered twice")
        named = sorted(set(reserved_in_schema(tool.input.schema, reserved)))
        if named:
            raise ConfigurationError(f"tools.{tool.name}.input_schema: {', '.join(named)} comes from the session alone")
        found[tool.name] = tool
    return found
