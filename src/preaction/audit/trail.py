"""The option `audit` of a gate: where its records go, what they keep, and whether a call may go through without one."""

import inspect
import logging
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from importlib import metadata
from typing import Any, Literal, TypeAlias

from preaction._core.call import Call
from preaction._core.denied import quote
from preaction._core.record import Round
from preaction._core.rule import RuleBook
from preaction._core.verdict import Verdict
from preaction.audit.record import (
    AuditRecord,
    RulesUsed,
    arguments_of,
    rounds_of,
    rule_to_json,
    rules_digest,
    said,
    session_digest,
)
from preaction.audit.redaction import Redaction
from preaction.errors import ConfigurationError, MisuseError
from preaction.options import is_async, names_of

log = logging.getLogger("preaction")

Sink: TypeAlias = Callable[[dict[str, Any]], object]


class AuditTrail:
    """Where a gate's records go: `sink` is a plain function that takes a dict, such as `JsonlAudit("trail.jsonl")`.

    A record holds of the arguments the fields in `keep` (names of the top level), the id of the case and what the rule
    fixes; of all else the shape. With `arguments="whole"` it holds them all, and reasons with what they quote: they may
    be personal, or secret. With `required` a call whose record the sink doesn't take is denied, `gate_error`; without,
    it goes through and Python's log says that its record is lost. Raises `ConfigurationError`.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        keep: Sequence[str] = (),
        arguments: Literal["redacted", "whole"] = "redacted",
        required: bool = True,
    ) -> None:
        given: object = sink
        if not callable(given) or is_async(given):
            raise ConfigurationError("audit: a plain function that takes a record is needed, not a coroutine function")
        if arguments not in ("redacted", "whole"):
            raise ConfigurationError(f"audit: arguments: 'redacted' or 'whole', not {arguments!r}")
        self._sink = sink
        self._required = bool(required)
        self.keep = None if arguments == "whole" else names_of(keep, "audit: keep")

    def write(self, record: dict[str, Any]) -> None:
        """Hand a record to the sink; raises what it raises where the record is required."""
        try:
            _hand_over(self._sink, record)
        except Exception as error:
            if self._required:
                raise
            told = {"code": "audit_lost"}
            log.error("a record of the gate's audit is lost: %s", type(error).__name__, extra=told)


def _hand_over(sink: Sink, record: dict[str, Any]) -> None:
    if inspect.iscoroutine(left := sink(record)):
        left.close()
        raise MisuseError("the sink gave a coroutine, which nobody awaits: nothing was recorded")


class Recorder:
    """Writes the records of one gate."""

    def __init__(
        self, trail: AuditTrail, book: RuleBook, options: dict[str, Any], clock: Callable[[], datetime]
    ) -> None:
        self._trail = trail
        self._book = book
        self._clock = clock
        digest = rules_digest(book, options)
        self._rules = {
            tool: RulesUsed(digest=digest, rule=rule_to_json(book, tool), options=options) for tool in book.rules
        }
        self._no_rule = RulesUsed(digest=digest, rule=None, options=options)
        self._redactions = {tool: Redaction(rule, book, trail.keep) for tool, rule in book.rules.items()}

    def record(self, verdict: Verdict, call: Call | None, rounds: Sequence[Round]) -> None:
        """Write the record of one verdict; raises where it is required and can't be written."""
        redaction, whole = self._redactions.get(verdict.tool), self._trail.keep is None
        record = AuditRecord(
            kind="check",
            id=uuid.uuid4().hex,
            at=self._clock(),
            preaction=version(),
            job=self._book.job,
            tool=verdict.tool if redaction is not None else quote(verdict.tool)[1:-1],
            session=session_digest(verdict.session_id),
            arguments=arguments_of(call, verdict.call_digest, redaction),
            rules=self._rules.get(verdict.tool, self._no_rule),
            rounds=rounds_of(rounds, whole=whole),
            verdict=said(verdict, redaction, whole=whole),
        )
        self._trail.write(record.model_dump(mode="json"))


def recorder_of(
    audit: object,
    book: RuleBook,
    clock: Callable[[], datetime],
    own_suffixes: Sequence[str],
    shared_domains: Sequence[str],
) -> Recorder | None:
    """The recorder for the option as it was given, an `AuditTrail` or a sink alone; `ConfigurationError` otherwise."""
    if audit is None:
        return None
    if not callable(audit) and not isinstance(audit, AuditTrail):
        raise ConfigurationError("audit: an AuditTrail is needed, or a plain function that takes a record")
    trail = audit if isinstance(audit, AuditTrail) else AuditTrail(audit)
    return Recorder(trail, book, options_to_json(book, own_suffixes, shared_domains), clock)


def options_to_json(book: RuleBook, own_suffixes: Sequence[str], shared_domains: Sequence[str]) -> dict[str, Any]:
    """The options of a gate that its verdicts hang on, named as in the vectors."""
    testing = book.test_recipients
    return {
        "releases": None if book.releases is None else sorted(book.releases),
        "refuseFields": sorted(book.refused),
        "testRecipients": None if testing is None else sorted("@".join(each) for each in testing),
        "unlisted": "deny" if book.deny_unlisted else "allow",
        "ownSuffixes": list(own_suffixes),
        "sharedDomains": list(shared_domains),
        "maxDecisionAgeSeconds": book.max_decision_age.total_seconds(),
        "maxClockSkewSeconds": book.max_clock_skew.total_seconds(),
    }


@cache
def version() -> str:
    """This release of preaction."""
    try:
        return metadata.version("preaction")
    except metadata.PackageNotFoundError:  # its files were copied, not installed
        return "unknown"
