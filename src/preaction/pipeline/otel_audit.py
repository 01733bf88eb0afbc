"""Audit records as OpenTelemetry log records (extra `otel`), in the traces of the agent. A convenience, no guarantee.

Names are those of the GenAI conventions for the execution of tools, which are still in development, and `preaction.*`
where they have none. A denial is no error, and is never told as an executed tool.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from preaction.errors import ConfigurationError
from preaction.wire.times import read_time

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider

EVENT: Final = "preaction.audit"
"""The name of each event."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_PLAIN: Final = (
    "id",
    "phase",
    "request_id",
    "run_id",
    "subject",
    "tenant",
    "schema_version",
    "effect",
    "policy_version",
    "disposition",
    "code",
    "outcome",
    "operation_id",
    "redactions",
)
_FAILED: Final = ("failed", "unknown")
_OWN_FAILURES: Final = ("internal", "audit_failed")


class OtelAudit:
    """Hands each record to OpenTelemetry as a log record, in the trace that the proposal was made in.

    `provider` is a logger provider, by default the global one. What is told are ids, codes and digests; with
    `arguments` also the values that `Tool.audit_fields` lets be seen. Details, object ids and keys stay in the full
    record, which has the same `preaction.id`. Whether a record arrives nobody says: an SDK keeps an exporter's errors
    to itself, so this belongs among `best_effort` of `Audits`. Raises `ConfigurationError` without OpenTelemetry's API.
    """

    def __init__(self, provider: "LoggerProvider | None" = None, *, arguments: bool = False) -> None:
        try:
            from opentelemetry import _logs as logs
        except ImportError:
            raise ConfigurationError("audit: OtelAudit needs OpenTelemetry's API: install the extra otel") from None
        self._logs, self._arguments = logs, arguments
        self._logger = logs.get_logger("preaction", logger_provider=provider)

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Emit a record."""
        error = _error(record)
        severity = self._logs.SeverityNumber.INFO if error is None else self._logs.SeverityNumber.ERROR
        self._logger.emit(
            self._logs.LogRecord(
                timestamp=_nanoseconds(read_time(record["ended_at"] or record["at"])),
                severity_number=severity,
                severity_text=severity.name,
                body=f"{record['tool']}: {record['code'] or record['outcome']}",
                attributes=self._attributes(record, error),
                event_name=EVENT,
            )
        )

    def _attributes(self, record: Mapping[str, Any], error: str | None) -> dict[str, Any]:
        confirmation, arguments = record["confirmation"] or {}, record["arguments"] or {}
        ran = record["phase"] == "before" or record["started_at"] is not None
        told = {
            "gen_ai.operation.name": "execute_tool" if ran else None,
            "gen_ai.tool.name": record["tool"],
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": record["call_id"],
            "error.type": error,
            **{f"preaction.{name}": record[name] for name in _PLAIN},
            "preaction.confirmation.id": confirmation.get("id"),
            "preaction.confirmation.by": confirmation.get("by"),
            "preaction.arguments.digest": arguments.get("digest"),
        }
        if self._arguments and arguments:
            told["gen_ai.tool.call.arguments"] = json.dumps(arguments["view"])
        return {name: value for name, value in told.items() if value is not None}


def _error(record: Mapping[str, Any]) -> str | None:
    """The code of a proposal that ended in an error: of the tool, or of the pipeline itself."""
    failed = record["outcome"] in _FAILED or record["code"] in _OWN_FAILURES
    return str(record["code"]) if failed else None


def _nanoseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000
