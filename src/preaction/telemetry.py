"""OpenTelemetry's view of a gate (extra `otel`): for each check a span, two metrics and a log record. Decides nothing.

Told are names, codes, ids and digests; no argument, no case, no session and no reason. What telemetry itself breaks on
is counted in `failed` and changes no verdict; what the gate raises goes on as it came.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from preaction._core.facts import is_issued_id
from preaction._core.verdict import Verdict
from preaction.errors import ConfigurationError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["Telemetry"]

SPAN: Final = "preaction.decide"
DURATION: Final = "preaction.decide.duration"
ACTIVE: Final = "preaction.decide.active"

_LOG: Final = logging.getLogger("preaction.decide")
_OTHER: Final = "_OTHER"
"""OpenTelemetry's word for a value that isn't one of those known. The name of a tool without a rule is the model's."""

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SHORT: Final = 200

Tell: TypeAlias = Callable[[Verdict], Verdict]
"""Takes the verdict that stands, and gives it back."""

Watch: TypeAlias = Callable[[], AbstractContextManager[Tell]]
"""Made around each check of one gate."""

_OFF: Final = contextlib.nullcontext[Tell](lambda verdict: verdict)


class Telemetry:
    """Spans, metrics and log records of the checks of one gate or several: `create_action_gate(telemetry=Telemetry())`.

    The providers are by default OpenTelemetry's global ones; log records go to Python's logger `preaction.decide`. A
    span is the current one while its check waits for the authority. `failed` counts what could not be told. Raises
    `ConfigurationError` without OpenTelemetry's API.
    """

    def __init__(
        self, *, tracer_provider: "TracerProvider | None" = None, meter_provider: "MeterProvider | None" = None
    ) -> None:
        try:
            from opentelemetry import context, metrics, trace
        except ImportError:
            raise ConfigurationError("telemetry: OpenTelemetry's API is needed: install the extra otel") from None
        meter = metrics.get_meter("preaction", meter_provider=meter_provider)
        self._context, self._trace = context, trace
        self._tracer = trace.get_tracer("preaction", tracer_provider=tracer_provider)
        self._duration = meter.create_histogram(
            DURATION,
            unit="s",
            description="From a call's arrival at the gate to its verdict, by decision and code.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._active = meter.create_up_down_counter(
            ACTIVE, unit="{check}", description="Checks that have no verdict yet."
        )
        self.failed = 0
        self._lock = threading.Lock()

    def watch(self, job: str, tools: Collection[str]) -> Watch:
        """What a gate for `job` makes around each check; a tool that isn't among `tools` is told as `_OTHER`."""
        return lambda: _Deciding(self, job, tools)

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        """What an SDK, a processor or a handler of the user's own raises changes no verdict."""
        try:
            yield
        except Exception:  # noqa: BLE001 - not logged: a handler may be what failed
            with self._lock:
                self.failed += 1


class _Deciding:
    """One check, from its arrival to its verdict; one that was interrupted has none, and so no decision to tell."""

    __slots__ = ("_began", "_job", "_span", "_telemetry", "_token", "_tools", "_verdict")

    def __init__(self, telemetry: Telemetry, job: str, tools: Collection[str]) -> None:
        self._telemetry, self._job, self._tools = telemetry, job, tools
        self._verdict: Verdict | None = None
        self._span: Any = None
        self._token: Any = None

    def __enter__(self) -> Tell:
        telemetry, self._began = self._telemetry, time.monotonic()
        with telemetry._harmless():
            telemetry._active.add(1, {"preaction.policy.id": self._job})
        with telemetry._harmless():
            self._span = telemetry._tracer.start_span(SPAN)
            self._token = telemetry._context.attach(telemetry._trace.set_span_in_context(self._span))
        return self._hear

    def _hear(self, verdict: Verdict) -> Verdict:
        self._verdict = verdict
        return verdict

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        telemetry, verdict, seconds = self._telemetry, self._verdict, time.monotonic() - self._began
        with telemetry._harmless():
            telemetry._active.add(-1, {"preaction.policy.id": self._job})
        if verdict is not None:
            with telemetry._harmless():  # while the span is current: exemplars and log records name it
                telemetry._duration.record(seconds, self._labels(verdict))
            with telemetry._harmless():
                self._log(verdict)
        if self._token is not None:
            with telemetry._harmless():
                telemetry._context.detach(self._token)
        if self._span is not None:
            with telemetry._harmless():
                self._describe(verdict, kind)
            with telemetry._harmless():
                self._span.end()

    def _labels(self, verdict: Verdict) -> dict[str, str | bool]:
        """What there are few values of, so that a metric can be kept for each."""
        labels: dict[str, str | bool] = {
            "gen_ai.tool.name": self._tool(verdict),
            "preaction.decision": "allow" if verdict.allow else "deny",
            "preaction.enforced": verdict.enforced,
            "preaction.reason_code": verdict.code,
            "preaction.policy.id": self._job,
        }
        return labels | ({"error.type": verdict.code} if verdict.code == "gate_error" else {})

    def _tool(self, verdict: Verdict) -> str:
        return verdict.tool if verdict.tool in self._tools else _OTHER

    def _describe(self, verdict: Verdict | None, kind: type[BaseException] | None) -> None:
        """The span's attributes. A denial is no error; the gate's own failure is."""
        if not self._span.is_recording():
            return
        if verdict is None:
            self._span.set_attribute("preaction.policy.id", self._job)
            self._span.set_attribute("error.type", _OTHER if kind is None else kind.__name__)
            return
        self._span.set_attributes({**self._labels(verdict), **_ids(verdict)})
        if verdict.code == "gate_error":
            self._span.set_status(self._telemetry._trace.StatusCode.ERROR, verdict.code)

    def _log(self, verdict: Verdict) -> None:
        """One record with its code; a formatter finds the rest beside it."""
        if _LOG.isEnabledFor(logging.INFO):
            tool, code = self._tool(verdict), verdict.code
            told = {"code": code, "tool": tool, "job": self._job, "allow": verdict.allow, "enforced": verdict.enforced}
            _LOG.info("%s: %s", tool, code, extra=told)


def _ids(verdict: Verdict) -> Mapping[str, str]:
    """By what a verdict is found again at the authority and in the audit."""
    ids = {
        "preaction.policy.version": verdict.release if _is_plain(verdict.release) else None,
        "preaction.receipt.id": verdict.execution_id if is_issued_id(verdict.execution_id or "") else None,
        "preaction.action.hash": verdict.call_digest,
    }
    return {name: value for name, value in ids.items() if value is not None}


def _is_plain(text: str | None) -> bool:
    return text is not None and len(text) <= _SHORT and text.isprintable()


def watch_of(telemetry: object, job: str, tools: Collection[str]) -> Watch:
    """What a gate makes around each check, for the option as it was given; `ConfigurationError` for what is none."""
    if telemetry is None:
        return lambda: _OFF
    if not isinstance(telemetry, Telemetry):
        raise ConfigurationError("telemetry: a preaction.telemetry.Telemetry is needed")
    return telemetry.watch(job, tools)
