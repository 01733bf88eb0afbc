"""Reports of verdicts to the authority, for people to look at: an `on_verdict` that never holds a call up.

A report says what the gate said, about which case and decision; of the arguments it has their digest alone, and what a
reason quotes of a call is left out. Without `required` a report waits in a bounded queue for a thread that sends it: a
slow or absent authority costs reports, never calls, and what was lost is counted and logged.
"""

import atexit
import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Protocol, Self

from preaction._core.denied import unquoted
from preaction._core.facts import is_issued_id
from preaction._core.verdict import Verdict
from preaction.errors import AuthorityError, ConfigurationError
from preaction.rest.ports import client_of
from preaction.wire.times import write_time

_LOG: Final = logging.getLogger("preaction")

_LOST: Final = {"code": "reports_lost"}
_TRIES: Final = 4
_PAUSE_S: Final = 0.25
"""Before the second try; twice as long before each further one."""

_LONG: Final = 2000
_SHORT: Final = 200


class _Reports(Protocol):
    def report_verdict(self, report: Mapping[str, Any], *, idempotency_key: str | None = None) -> object: ...


class VerdictReporter:
    """An `on_verdict` for one gate; close it when the gate's work is done. Threads share it.

    `dropped` counts the reports that found the queue full, `failed` those that the authority would not take or could
    not be sent to.
    """

    def __init__(self, client: _Reports, job: str, *, required: bool, max_waiting: int) -> None:
        """Use `felspar_verdict_reporter`."""
        self._client = client
        self._job = job
        self._required = required
        self._max_waiting = max_waiting
        self._waiting: deque[dict[str, Any]] = deque()
        self._sending = False
        self._closing = False
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self.dropped = 0
        self.failed = 0

    def __call__(self, tool: str, verdict: Verdict) -> None:
        """Report one verdict. Raises only with `required`, when it allows and the authority did not take the report."""
        report = report_of(self._job, verdict)
        if self._required and verdict.allow:
            self._client.report_verdict(report, idempotency_key=secrets.token_urlsafe(16))
            return
        with self._changed:
            if self._closing or len(self._waiting) >= self._max_waiting:
                self.dropped += 1
                dropped = self.dropped
            else:
                dropped = 0
                self._waiting.append(report)
                self._start()
                self._changed.notify_all()
        if dropped and dropped & (dropped - 1) == 0:  # 1, 2, 4, 8, …: a full queue must not fill the log
            _LOG.warning(
                "%d reports of verdicts were dropped: the authority takes them too slowly", dropped, extra=_LOST
            )

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until all that was reported is sent or given up; whether that came within `timeout_s` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._sending, timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Send what waits, for at most `timeout_s` seconds, and stop; what is left then counts as dropped."""
        atexit.unregister(self.close)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self.flush(timeout_s)
        self._stopped.set()
        with self._changed:
            left = len(self._waiting)
            self._waiting.clear()
            self.dropped += left
            self._changed.notify_all()
        if left:
            _LOG.warning("%d reports of verdicts were dropped: there was no time to send them", left, extra=_LOST)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> None:
        """Have a thread that sends; made when first needed."""
        if self._thread is None:
            atexit.register(self.close)  # for whoever forgets; a thread that isn't a daemon would keep the process
            self._thread = threading.Thread(target=self._send_all, name="preaction-reports", daemon=True)
            self._thread.start()

    def _send_all(self) -> None:
        while (report := self._next()) is not None:
            try:
                self._send(report)
            finally:
                with self._changed:
                    self._sending = False
                    self._changed.notify_all()

    def _next(self) -> dict[str, Any] | None:
        """The next report to send, once there is one; None when there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            if not self._waiting:
                return None
            self._sending = True
            return self._waiting.popleft()

    def _send(self, report: dict[str, Any]) -> None:
        """Send one report, again after a while where that may help; the same key each time, so it is kept once."""
        key, pause, why = secrets.token_urlsafe(16), _PAUSE_S, ""
        for left in range(_TRIES - 1, -1, -1):
            try:
                self._client.report_verdict(report, idempotency_key=key)
            except AuthorityError as error:
                why = str(error)
                if not left or not _may_help(error) or self._stopped.wait(pause):
                    break
                pause *= 2
            except Exception as error:  # noqa: BLE001 - a client of the user's own; the thread must live on
                why = type(error).__name__
                break
            else:
                return
        with self._changed:
            self.failed += 1
            failed = self.failed
        if failed & (failed - 1) == 0:
            _LOG.warning("%d reports of verdicts failed, the last one so: %s", failed, why, extra=_LOST)


def felspar_verdict_reporter(
    felspar: Any, *, job: str, required: bool = False, max_waiting: int = 1000
) -> VerdictReporter:
    """An `on_verdict` that reports to the authority what a gate for `job` says.

    `felspar` is a `Felspar`, a `LocalAuthority`, or a mapping `{origin, agent_key}`, for which one client is shared.
    With `required` an allowed call
    waits until the authority has taken the report, for as long as the client's deadline, and is denied if it doesn't;
    in an event loop, the loop waits too. All else is sent in the background, and at most `max_waiting` reports wait.
    Raises `ConfigurationError` for what can't be right.
    """
    _check_options(job, max_waiting)
    return VerdictReporter(client_of(felspar, "report_verdict"), job, required=bool(required), max_waiting=max_waiting)


def _check_options(job: Any, max_waiting: Any) -> None:
    if not (isinstance(job, str) and 0 < len(job) <= _SHORT):
        raise ConfigurationError("job: the name of the gate's job is needed")
    if isinstance(max_waiting, bool) or not isinstance(max_waiting, int) or max_waiting < 1:
        raise ConfigurationError("max_waiting: needs a whole number above zero")


def report_of(job: str, verdict: Verdict, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> dict[str, Any]:
    """A verdict as the wire has it, without anything of the call's arguments but the case and their digest."""
    ids = {"executionId": verdict.execution_id, "checkId": _check_id(verdict)}
    report = {
        "job": job,
        "tool": _plain(verdict.tool, _SHORT) or "?",
        "code": verdict.code,
        "allow": verdict.allow,
        "enforced": verdict.enforced,
        "case": None if verdict.case is None else _plain(verdict.case, _LONG),
        "reason": _plain(unquoted(verdict.reason), _LONG),
        "callDigest": verdict.call_digest,
        "at": write_time(clock()),
    }
    return report | {name: value for name, value in ids.items() if value is not None and is_issued_id(value)}


def _check_id(verdict: Verdict) -> str | None:
    """The output check that counted, where there was only one to count."""
    known = verdict.checks["text"].saw.get("outputChecks") or []
    return known[0] if verdict.allow and len(known) == 1 else None


def _plain(text: str, longest: int) -> str:
    """A text that every authority can keep: cut, without NUL and without halves of surrogate pairs."""
    return text[:longest].replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def _may_help(error: AuthorityError) -> bool:
    """Whether the same request may get another answer later."""
    return error.kind in {"timeout", "connection"} or error.status == 429 or (error.status or 0) >= 500
