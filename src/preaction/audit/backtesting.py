"""Recorded calls under other rules, or another release of the pack: what would be allowed now, and what denied.

The core judges each call anew, with the answers that its record holds. What other rules ask for beyond that was never
answered: then it can't be told, and isn't guessed.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from preaction._core.facts import AnyAsk, Describe, Recall, RecallTexts, Use, Verify, VerifyOutputCheck
from preaction._core.procedure import judge
from preaction._core.record import Round
from preaction._core.rule import RuleBook
from preaction._core.trail import Trail
from preaction._core.verdict import Judgement, Verdict, verdict_of
from preaction.audit.record import AuditRecord
from preaction.audit.replaying import call_of, rounds_for
from preaction.drive import Done, step
from preaction.errors import RecordMismatch
from preaction.wire.models import JobDescription

Became: TypeAlias = Literal["now allowed", "now denied", "still allowed", "still denied", "can't be told"]

_WHAT: Final[Mapping[type[AnyAsk], str]] = {
    Recall: "what the session knew of this case",
    RecallTexts: "which checks of this text were recorded",
    Use: "whether a use is still free",
    Verify: "the replay of this decision",
    Describe: "the description of this release",
    VerifyOutputCheck: "whether this output check holds",
}


class Judged(NamedTuple):
    """One recorded call under the other rules; `code` is None where it can't be told, and `why` says why."""

    record: AuditRecord
    became: Became
    code: str | None
    why: str

    @property
    def changed(self) -> bool:
        """Whether the call would be let through and wasn't, or the other way round."""
        return self.became in ("now allowed", "now denied")


@dataclass(slots=True)
class Backtest:
    """Judges records by `book`, and counts what became of them.

    `release` is a description to go by in place of the recorded ones, as if each case had been decided alike under it.
    """

    book: RuleBook
    release: JobDescription | None = None
    became: Counter[Became] = field(default_factory=Counter)
    codes: Counter[tuple[str, str]] = field(default_factory=Counter)
    untold: Counter[str] = field(default_factory=Counter)

    def judge(self, record: AuditRecord) -> Judged:
        """What becomes of one recorded call."""
        try:
            verdict = judge_by(record, self.book, self.release)
        except RecordMismatch as error:
            judged = Judged(record, "can't be told", None, str(error))
            self.untold[judged.why] += 1
        else:
            judged = Judged(record, _became(record.verdict.allow, verdict.allow), verdict.code, verdict.reason)
            if verdict.code != record.verdict.code:
                self.codes[record.verdict.code, verdict.code] += 1
        self.became[judged.became] += 1
        return judged

    @property
    def total(self) -> int:
        """How many calls were judged, or could not be."""
        return sum(self.became.values())


def _became(before: bool, now: bool) -> Became:
    if now:
        return "still allowed" if before else "now allowed"
    return "now denied" if before else "still denied"


def judge_by(record: AuditRecord, book: RuleBook, release: JobDescription | None = None) -> Verdict:
    """The verdict on a recorded call by other rules. `RecordMismatch` where that can't be told from the record."""
    if record.verdict.code == "gate_error":
        raise RecordMismatch("the gate itself failed on this call, or its record could not be kept")
    if record.job != book.job:
        raise RecordMismatch(f"it was recorded for another job than {book.job!r}")
    known: list[Round] = []
    arguments: object = {}
    if record.tool in book.rules:
        call = call_of(record, book)
        arguments, known = call.arguments, rounds_for(record, call, book)
    session = None if record.session is None else "chat"
    trail = Trail()
    procedure = judge(session, record.tool, arguments, book, trail, take=_takes(known))
    with closing(procedure):
        batch = step(procedure, None)
        answers = _Answers(known, release)
        while not isinstance(batch, Done):
            batch = step(procedure, answers.to(batch))
    judgement: Judgement = batch.value
    return verdict_of(judgement, trail, tool=record.tool, session_id=session, enforced=record.verdict.enforced)


def _takes(rounds: Sequence[Round]) -> bool:
    return all(ask.take for ask in _asks(rounds) if isinstance(ask, Use))


def _asks(rounds: Sequence[Round]) -> Iterator[AnyAsk]:
    for one in rounds:
        yield from one


class _Answers:
    """What was answered in a record: to an ask that comes again, what was answered the next time."""

    def __init__(self, rounds: Sequence[Round], release: JobDescription | None) -> None:
        self._known: dict[AnyAsk, list[object]] = {}
        self._release = release
        for one in rounds:
            for ask, answer in one.items():
                self._known.setdefault(ask, []).append(answer)

    def to(self, batch: Sequence[AnyAsk]) -> list[object]:
        return [self._answer(ask) for ask in batch]

    def _answer(self, ask: AnyAsk) -> object:
        if isinstance(ask, Describe) and self._release is not None:
            return self._release.model_copy(update={"release": ask.release})
        answers = self._known.get(ask)
        if answers is None:
            raise RecordMismatch(f"these rules ask {_WHAT[type(ask)]}, which was not recorded")
        return answers.pop(0) if len(answers) > 1 else answers[0]
