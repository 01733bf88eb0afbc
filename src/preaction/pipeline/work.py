"""A proposal on its way through the steps, and the parts of the pipeline that they use."""

import logging
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, runtime_checkable

from preaction._core.call import plain
from preaction.calling import Answer, Asking, Call
from preaction.gate import ActionGate
from preaction.pipeline.audit import Sink
from preaction.pipeline.confirm import Confirmations, Given
from preaction.pipeline.idempotency import NEVER_DONE, Acts, Free, Reserved
from preaction.pipeline.outcome import Ending
from preaction.pipeline.proposal import Limits, ProposedCall, TrustedContext
from preaction.pipeline.texts import Texts
from preaction.pipeline.tool import Command, Hook, Tool

log = logging.getLogger("preaction")

NO_TOOL: Final = "a step was taken out of its order: no tool is known yet"


@runtime_checkable
class Deciding(Protocol):
    """A preflight that makes the calls itself that it has decided on, such as `Sources`."""

    async def execute_decided(self, state: Any, command: Command, run: Hook, limit_s: float) -> Any:
        """What the tool gives; `NothingSent` where nothing was done."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What the steps of one pipeline work with."""

    tools: Mapping[str, Tool]
    gate: ActionGate | None
    preflight: Callable[..., Any] | None
    texts: Texts
    acts: Acts
    confirmations: Confirmations
    audit: Sink | None
    diagnostics: Callable[[dict[str, Any]], object] | None
    limits: Limits
    reserved: frozenset[str]
    clock: Callable[[], datetime]


@dataclass(slots=True)
class Work:
    """One proposal, and what the steps have found out about it so far. Nothing of it is for the model."""

    call: ProposedCall
    context: TrustedContext
    id: str
    at: datetime
    known_tool: Tool | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    unparsed: dict[str, Any] | None = None
    command: str = ""
    arguments_digest: str = ""
    objects: dict[str, Any] = field(default_factory=dict)
    object_ids: dict[str, str] = field(default_factory=dict)
    key: str | None = None
    act: str = ""
    free: Free = NEVER_DONE
    given: Given | None = None
    reserved: Reserved | None = None
    decided: Any = None
    begun: bool = False
    audited: bool = False
    began_at: datetime | None = None
    raw: Any = None
    operation_id: str | None = None
    redactions: list[str] = field(default_factory=list)

    @property
    def tool(self) -> Tool:
        """The registered tool; only steps after the first ask for it."""
        if self.known_tool is None:
            raise LookupError(NO_TOOL)
        return self.known_tool

    def copy_of_arguments(self) -> dict[str, Any]:
        """The checked arguments as a new plain copy, so that no hook can alter those that run."""
        copied: dict[str, Any] = plain(self.arguments)
        return copied


StepResult = Ending | None
"""Why the way of the proposal ends here, or nothing, and it goes on."""

Stepping = Generator[Call, Answer, StepResult]


def ask_hook(parts: Parts, function: Callable[..., Any], *arguments: Any) -> Asking[Answer]:
    """What a hook says, within the limit on execution time."""
    return (yield Call(function, arguments, limit_s=parts.limits.execution_s))


def ask_store(parts: Parts, procedure: Asking[Any]) -> Asking[Answer]:
    """What a procedure over the store gives."""
    return (yield parts.texts.call(procedure))


def failed(work: Work, parts: Parts, where: str, answer: Answer) -> Ending:
    """The ending for a part of the pipeline that failed before anything was done; the error goes to diagnostics."""
    what = "late" if answer.late else type(answer.error).__name__
    tell(work, parts, where, answer.error)
    told = {"code": "pipeline_error", "part": where, "id": work.id}
    log.error("the pipeline's %s failed and the call was denied: %s", where, what, extra=told)
    return Ending("internal", detail=f"{where}: {what}")


def tell(work: Work, parts: Parts, where: str, raw: object) -> None:
    """Hand what neither the model nor the record may hold to the restricted channel, if there is one."""
    if parts.diagnostics is None:
        return
    try:
        parts.diagnostics({"id": work.id, "request_id": work.context.request_id, "where": where, "raw": raw})
    except Exception as error:  # noqa: BLE001 - a channel of the user's own that is down stops no call
        told = {"code": "diagnostics_failed", "part": where, "id": work.id}
        log.error("the pipeline's diagnostics failed: %s", type(error).__name__, extra=told)
