"""Records judged again, offline: by the rules that they hold, or by others; with the answers that they hold.

What the record doesn't hold is never guessed: `RecordMismatch` says what is missing.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

from preaction._core.call import Call, fold, read_call
from preaction._core.checks import read_text
from preaction._core.denied import Denied
from preaction._core.paths import Path
from preaction._core.record import Round, replay, rounds_from_json
from preaction._core.rule import Rule, RuleBook, check_fields, check_rule
from preaction._core.verdict import Verdict, call_digest
from preaction.audit.record import AuditRecord
from preaction.audit.redaction import has_unknown, paths_of_case, paths_of_fixed, stand_in, words_of
from preaction.errors import ConfigurationError, InvalidJSON, RecordMismatch
from preaction.options import read_book

_OPTIONS: Final[Mapping[str, str]] = {
    "releases": "releases",
    "refuseFields": "refuse_fields",
    "testRecipients": "test_recipients",
    "unlisted": "unlisted",
    "ownSuffixes": "own_suffixes",
    "sharedDomains": "shared_domains",
    "maxDecisionAgeSeconds": "max_decision_age",
    "maxClockSkewSeconds": "max_clock_skew_s",
}


def replay_record(record: AuditRecord) -> Verdict:
    """The verdict that the core gives on a record: its own call, rules and answers.

    Raises `RecordMismatch` where the record doesn't hold all that the verdict hangs on, or can't be of one check.
    """
    if record.verdict.code == "gate_error":
        raise RecordMismatch("the gate itself failed on this call, or its record could not be kept")
    if record.rules.rule is None:
        raise RecordMismatch("no rule names this tool, and a record holds the rule of its own tool alone")
    book = own_book(record)
    call = call_of(record, book)
    return replay(call, book, rounds_for(record, call, book), enforced=record.verdict.enforced)


def own_book(record: AuditRecord) -> RuleBook:
    """The rules that a record holds; `RecordMismatch` for what can't be rules."""
    options = record.rules.options
    if options.keys() != _OPTIONS.keys():
        raise RecordMismatch("its options are not those of this preaction")
    tools = {} if record.rules.rule is None else {record.tool: record.rules.rule}
    try:
        return _book(record.job, json.dumps(tools), json.dumps(options))
    except (ConfigurationError, TypeError, ValueError, OverflowError) as error:
        why = str(error) if isinstance(error, ConfigurationError) else "a value of another type than an option has"
        raise RecordMismatch(f"its rules can't be read: {why}") from None


@lru_cache(maxsize=256)
def _book(job: str, tools: str, options: str) -> RuleBook:
    given = {_OPTIONS[name]: value for name, value in json.loads(options).items()}
    given["max_decision_age"] = timedelta(seconds=given["max_decision_age"])
    return read_book(job=job, tools=json.loads(tools), **given)


def call_of(record: AuditRecord, book: RuleBook) -> Call:
    """The recorded call of a tool that `book` has a rule for, with stand-ins for the arguments that were left out.

    Raises `RecordMismatch` where the decision looks, by these rules, at a value that isn't there.
    """
    given = record.arguments
    if given is None:
        raise RecordMismatch("its arguments are not kept: they were no plain JSON object, or no rule named the tool")
    try:
        arguments = stand_in(given.view, given.left_out)
    except ValueError as error:
        raise RecordMismatch(f"its arguments can't be read: {error}") from None
    session = None if record.session is None else "chat"
    call = read_call(session, record.tool, arguments)
    if isinstance(call, Denied):
        raise RecordMismatch("its arguments can't be read")
    if not given.left_out and call_digest(call.tool, call.arguments) != given.digest:
        raise RecordMismatch("its arguments are not those of its digest")
    rule = book.rules[record.tool]
    _require_names(record, given.left_out, rule, book)
    _require(record, paths_of_fixed(rule))
    if check_rule(rule) is None and check_fields(call, rule, book.refused) is None:
        _require(record, paths_of_case(rule, book))
    return call


def _require_names(record: AuditRecord, left_out: Mapping[str, Any], rule: Rule, book: RuleBook) -> None:
    """A name that the recorded rule didn't know isn't kept: rules that know more names might know it."""
    if not has_unknown(left_out):
        return
    own = own_book(record)
    recorded = own.rules.get(record.tool)
    known = set() if recorded is None else {*words_of(recorded)}
    if not (known.issuperset(words_of(rule)) and book.refused <= own.refused):
        raise RecordMismatch("a field that its rule didn't know is kept without its name, and these rules know others")


def _require(record: AuditRecord, paths: Iterable[Path]) -> None:
    for path in paths:
        if _is_left_out(record, path):
            raise RecordMismatch(f"the value of {path.text!r}, which the decision looks at, is not kept")


def _is_left_out(record: AuditRecord, path: Path) -> bool:
    """Whether a stand-in is where `path` begins. What is empty needs none."""
    left_out = {} if record.arguments is None else record.arguments.left_out
    return any(fold(name) == path.steps[0][0] and shape not in (None, [], {}) for name, shape in left_out.items())


# Answers --------------------------------------------------------------------------------------------------------------


def rounds_for(record: AuditRecord, call: Call, book: RuleBook) -> list[Round]:
    """The recorded rounds, so that they answer what the decision asks about this call.

    Where a checked text was left out, its stand-in has another digest: the two digests change places. What is equal
    stays equal so, and what isn't doesn't become it.
    """
    try:
        rounds = record.rounds
        rule = book.rules[record.tool]
        if any(_is_left_out(record, path) for path in rule.texts):
            recorded, wanted = _recorded_digest(record, rule), read_text(call, rule)
            rounds = _swapped(rounds, recorded, wanted) if recorded and wanted else rounds
        return rounds_from_json(rounds)
    except (InvalidJSON, AttributeError, KeyError, TypeError) as error:
        why = str(error) if isinstance(error, InvalidJSON) else "not rounds as an audit writes them"
        raise RecordMismatch(f"its rounds can't be read: {why}") from None


def _recorded_digest(record: AuditRecord, rule: Rule) -> str | None:
    """The digest of the text as the session was asked for it; None where it wasn't asked."""
    digests = {entry["ask"]["digest"] for entry in _entries(record.rounds) if entry["ask"]["kind"] == "recallTexts"}
    if not digests:
        return None
    own = own_book(record).rules.get(record.tool)
    if own is None or {path.steps for path in own.texts} != {path.steps for path in rule.texts}:
        raise RecordMismatch("the text that these rules check stands in other fields than the one recorded")
    if len(digests) > 1:
        raise RecordMismatch("it holds two digests of one text")
    return str(digests.pop())


def _entries(rounds: list[Any]) -> Iterator[dict[str, Any]]:
    for one in rounds:
        yield from one


def _swapped(rounds: list[Any], one: str, other: str) -> list[Any]:
    places = {one: other, other: one}

    def swap(entry: dict[str, Any]) -> dict[str, Any]:
        ask, answer = entry["ask"], entry["answer"]
        if ask["kind"] == "recallTexts":
            return {**entry, "ask": {**ask, "digest": places.get(ask["digest"], ask["digest"])}}
        if ask["kind"] == "verifyOutputCheck" and isinstance(answer, dict) and "contentDigest" in answer:
            given = answer["contentDigest"]
            return {**entry, "answer": {**answer, "contentDigest": places.get(given, given)}}
        return entry

    return [[swap(entry) for entry in one] for one in rounds]


# The two verdicts -----------------------------------------------------------------------------------------------------


def differences(record: AuditRecord, verdict: Verdict) -> list[str]:
    """In what a verdict is another one than the recorded, in words; of a reason, up to what it quotes of the call."""
    said = record.verdict
    pairs: dict[str, tuple[object, object]] = {
        "allow": (said.allow, verdict.allow),
        "code": (said.code, verdict.code),
        "failed": (said.failed, verdict.failed),
        "reason": (said.reason.partition('"')[0], verdict.reason.partition('"')[0]),
        "nextStep": (said.next_step, verdict.escalate),
        "escalation": (said.escalation, verdict.escalation),
        "case": (said.case, verdict.case),
        "executionId": (said.execution_id, verdict.execution_id),
        "release": (said.release, verdict.release),
        "outcome": (said.outcome, verdict.outcome),
        "checks": (
            {name: each.state for name, each in said.checks.items()},
            {name: each.state for name, each in verdict.checks.items()},
        ),
    }
    return [name for name, (recorded, again) in pairs.items() if recorded != again]
