"""11 · The record of a proposal: who, what, why, what came of it. No argument that isn't listed, no result (P13)."""

from typing import Any, Final, Literal

from preaction._core.denied import quote
from preaction._core.verdict import tool_name
from preaction.calling import Answer, Asking, Call
from preaction.pipeline.audit import MemoryAudit, Sink
from preaction.pipeline.outcome import Ending, disposition_of
from preaction.pipeline.work import Parts, Work
from preaction.wire.times import write_time

_OUTCOMES: Final = {
    "executed": "done",
    "result_invalid": "done",
    "result_too_large": "done",
    "replayed": "replayed",
    "outcome_unknown": "unknown",
    "tool_error": "failed",
    "tool_failed": "failed",
    "timed_out": "failed",
}


def record_of(work: Work, parts: Parts, ending: Ending | None, phase: str) -> dict[str, Any]:
    """The record, as plain JSON. Before the act there is no ending, and the outcome is "started"."""
    context, call, tool, given = work.context, work.call, work.known_tool, work.given
    code = None if ending is None else ending.code
    return {
        "id": work.id,
        "phase": phase,
        "at": write_time(work.at),
        "request_id": _text(getattr(context, "request_id", None)),
        "run_id": _text(getattr(context, "run_id", None)),
        "call_id": _text(getattr(call, "id", None)),
        "subject": _text(getattr(context, "subject", None)),
        "tenant": _text(getattr(context, "tenant", None)),
        "tool": tool.name if tool is not None else quote(tool_name(getattr(call, "name", None))),
        "schema_version": None if tool is None else tool.input.version,
        "effect": None if tool is None else tool.effect,
        "policy_version": _text(getattr(context, "policy_version", None)),
        "disposition": None if code is None else disposition_of(code),
        "code": code,
        "detail": None if ending is None else ending.detail,
        "objects": dict(work.object_ids),
        "confirmation": None if given is None else {"id": given.id, "by": given.by, "at": given.at},
        "idempotency_key": work.key,
        "started_at": None if work.began_at is None else write_time(work.began_at),
        "ended_at": None if ending is None else write_time(parts.clock()),
        "outcome": "started" if code is None else _OUTCOMES.get(code, "not_run"),
        "operation_id": work.operation_id,
        "arguments": _arguments(work),
        "unparsed": work.unparsed,
        "redactions": [*_left_out(work), *work.redactions],
    }


def write_record(
    work: Work, parts: Parts, sink: Sink, ending: Ending | None, phase: Literal["before", "after"]
) -> Asking[Answer]:
    """Hand the record to the sink. Memory never blocks, and needs no thread."""
    return (yield Call(sink, (record_of(work, parts, ending, phase),), quick=isinstance(sink, MemoryAudit)))


def _arguments(work: Work) -> dict[str, Any] | None:
    if not work.command:
        return None
    listed = () if work.known_tool is None else work.known_tool.audit_fields
    return {
        "digest": work.arguments_digest,
        "command": work.command,
        "view": {name: work.arguments[name] for name in listed if name in work.arguments},
    }


def _left_out(work: Work) -> list[str]:
    """The names of the arguments that the view leaves out."""
    listed = () if work.known_tool is None else work.known_tool.audit_fields
    return [f"arguments.{quote(name)[1:-1]}" for name in work.arguments if name not in listed]


def _text(value: object) -> str | None:
    """An id as the record can hold it, whatever was given for it."""
    return None if value is None else tool_name(value)[:500]
