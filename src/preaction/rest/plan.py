"""How a batch of asks becomes requests: one for everything where the authority can, else one each, together.

An authority that can answers a verification with the description and the output checks included; one that can't
ignores the wish. Then the parts are asked for on their own, at once, and not wished for again. Nothing is sent here:
threads and event loops put the same questions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from preaction._core.facts import Ask, Describe, Unavailable, Verify, VerifyOutputCheck
from preaction.rest.exchange import Failure, Question, body_of, misshapen, question_for, shaped
from preaction.wire.models import JobDescription, OutputCheckVerification, Verification

DESCRIPTION: Final = "description"
OUTPUT_CHECKS: Final = "outputChecks"
_PARTS: Final = frozenset({DESCRIPTION, OUTPUT_CHECKS, "output_checks"})
_MOST_CHECKS: Final = 4
_REFUSALS: Final = frozenset({400, 422})


class Plan:
    """Asks on their way to answers: `while questions := plan.questions(): plan.settle(outcomes)`, at most twice.

    `outcomes` are what became of the questions, in their order. `ignored` names the parts that this authority is known
    not to include; what is learnt of it is added. In the end `answers` holds a model of the wire, or `Unavailable`,
    for each ask.
    """

    def __init__(self, asks: Iterable[Ask], ignored: set[str]) -> None:
        self.answers: dict[Ask, object] = {}
        self._ignored = ignored
        found = {ask: question_for(ask) for ask in asks}
        self._take({ask: failure for ask, failure in found.items() if isinstance(failure, Failure)})
        self._open: dict[Ask, Question[Any]] = {
            ask: question for ask, question in found.items() if isinstance(question, Question)
        }
        self._joint = Joint.of(self._open, ignored)
        self._refused: Joint | None = None

    def questions(self) -> list[Question[Any]]:
        """What to put next, all at the same time; nothing when every ask has its answer."""
        if self._joint is None:
            return list(self._open.values())
        apart = [self._open[ask] for ask in self._apart(self._joint)]
        return [self._joint.question(self._open[self._joint.verify]), *apart]

    def settle(self, outcomes: Sequence[object]) -> None:
        """Take what became of the questions that were put."""
        if self._joint is None:
            self._take(dict(zip(self._open, outcomes, strict=True)))
            if self._refused and not isinstance(self.answers[self._refused.verify], Unavailable):
                self._ignored.update(self._refused.wishes)  # what it refused was the wish, not the question
        else:
            joint, self._joint = self._joint, None
            self._take(dict(zip(self._apart(joint), outcomes[1:], strict=True)))
            if isinstance(outcomes[0], Failure) and outcomes[0].status in _REFUSALS:
                self._refused = joint
            else:
                self._take(joint.answers(outcomes[0], self._ignored))
        self._open = {ask: question for ask, question in self._open.items() if ask not in self.answers}

    def _apart(self, joint: "Joint") -> list[Ask]:
        return [ask for ask in self._open if ask not in joint.asks]

    def _take(self, outcomes: Mapping[Ask, object]) -> None:
        for ask, outcome in outcomes.items():
            self.answers[ask] = Unavailable(outcome.why) if isinstance(outcome, Failure) else outcome


@dataclass(frozen=True, slots=True)
class Joint:
    """One verification, and what its answer shall include: at most one description and four output checks."""

    verify: Verify
    describe: Describe | None
    checks: tuple[VerifyOutputCheck, ...]

    @classmethod
    def of(cls, asks: Collection[Ask], ignored: Collection[str]) -> "Joint | None":
        """What of these asks goes into one request; `None` where nothing can be joined.

        Of several descriptions the first rides along, and the others are asked for beside it.
        """
        verifies = [ask for ask in asks if isinstance(ask, Verify)]
        describes = [ask for ask in asks if isinstance(ask, Describe) and DESCRIPTION not in ignored]
        checks = [ask for ask in asks if isinstance(ask, VerifyOutputCheck) and OUTPUT_CHECKS not in ignored]
        if len(verifies) != 1 or not (describes or checks):
            return None
        return cls(verifies[0], describes[0] if describes else None, tuple(checks[:_MOST_CHECKS]))

    @property
    def asks(self) -> tuple[Ask, ...]:
        """The asks that this one request may answer."""
        return (self.verify, *self.checks) if self.describe is None else (self.verify, self.describe, *self.checks)

    @property
    def wishes(self) -> dict[str, object]:
        """The `include` of the request."""
        wishes: dict[str, object] = {DESCRIPTION: True} if self.describe else {}
        if self.checks:
            wishes[OUTPUT_CHECKS] = [check.check_id for check in self.checks]
        return wishes

    def question(self, verify: Question[Any]) -> Question[Any]:
        """The verification's question with the wishes in its body; its answer is left as JSON, for `answers`."""
        body = body_of(verify.request.operation, {"include": self.wishes})
        return Question(replace(verify.request, body=body), lambda value: value)

    def answers(self, outcome: Any, ignored: set[str]) -> dict[Ask, object]:
        """The answers that this outcome holds; an ask without one is to be put on its own.

        A part that lacks although the receipt is valid is one that the authority doesn't include, which goes to
        `ignored`. With a receipt that isn't valid there may have been no release to describe.
        """
        if not isinstance(outcome, Mapping):
            return dict.fromkeys(self.asks, outcome if isinstance(outcome, Failure) else misshapen())
        alone = {name: part for name, part in outcome.items() if name not in _PARTS}
        parts = {
            DESCRIPTION: outcome.get(DESCRIPTION),
            OUTPUT_CHECKS: outcome.get(OUTPUT_CHECKS, outcome.get("output_checks")),
        }
        if outcome.get("valid") is True:
            ignored.update(name for name in self.wishes if parts[name] is None)
        return {
            self.verify: shaped(Verification, alone),
            **self._described(parts[DESCRIPTION]),
            **self._checked(parts[OUTPUT_CHECKS]),
        }

    def _described(self, part: object) -> dict[Ask, object]:
        """The included description, which is of the replay's release, where that is the one asked for."""
        if self.describe is None or part is None:
            return {}
        found = shaped(JobDescription, part, DESCRIPTION)
        asked = (self.describe.job, self.describe.release)
        return (
            {} if isinstance(found, JobDescription) and (found.job, found.release) != asked else {self.describe: found}
        )

    def _checked(self, part: object) -> dict[Ask, object]:
        """The included output checks; one that isn't among them is not known to the authority."""
        if part is None:
            return {}
        if not isinstance(part, Mapping):
            return dict.fromkeys(self.checks, misshapen(OUTPUT_CHECKS))
        unknown = Unavailable("the authority does not know the output check")
        return {
            check: shaped(OutputCheckVerification, part[check.check_id], OUTPUT_CHECKS, check.check_id)
            if check.check_id in part
            else unknown
            for check in self.checks
        }
