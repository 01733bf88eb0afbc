"""For tests, ours and yours: an authority in memory that implements the port `Source`, and a clock that stands still.

`FakeAuthority` answers well by default. `answers` replaces any one answer, `asked` lists what was asked for.
"""

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from preaction._core.facts import Ask, Describe, Unavailable, Verify, VerifyOutputCheck
from preaction.wire.digest import content_digest
from preaction.wire.times import write_time

__all__ = ["START", "FakeAuthority", "FakeClock"]

START = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


class FakeClock:
    """A clock that moves when it is told to."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """The time as it was last set."""
        return self.now

    def advance(self, **by: float) -> None:
        """Move by a `timedelta` given in its own words, such as `minutes=5`."""
        self.now += timedelta(**by)


class FakeAuthority:
    """One job of an authority. `decide` and `check_output` return results in wire shape and know how to confirm them.

    Raise or block in `before_answer(asks)`, which both `fetch` and `afetch` call, to play a failure.
    """

    keeps_deadline = True

    def __init__(
        self,
        clock: FakeClock | None = None,
        *,
        job: str = "triage-ticket",
        release: str = "2026-11-03.1",
        subject: Mapping[str, Any] | None = None,
        fresh_for: timedelta | None = timedelta(hours=1),
    ) -> None:
        self.clock = FakeClock() if clock is None else clock
        self.job = job
        self.release = release
        self.subject = (
            {"kind": "ticket", "identity": "provided", "match": "exact"} if subject is None else dict(subject)
        )
        self.fresh_for = fresh_for
        self.answers: dict[Ask, object] = {}
        self.asked: list[Ask] = []
        self.batches = 0
        self._known: dict[Ask, Any] = {}
        self._ids: Iterator[int] = itertools.count(1)

    def decide(
        self,
        case_id: str,
        *,
        entity_id: str | None = "",
        outcome: str | None = "billing-question",
        release: str | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """A decision on `case_id`; `outcome=None` leaves it undecided, `entity_id=None` comes without one."""
        number = next(self._ids)
        release = self.release if release is None else release
        now, limit = self.clock.now, self.fresh_for
        decision: dict[str, Any] = {
            "executionId": f"exe_{number}",
            "job": self.job,
            "pack": "helpdesk",
            "release": release,
            "case": {"id": case_id, "identity": self.subject.get("identity", "provided")},
            "entity_id": case_id if entity_id == "" else entity_id,
            "status": "undecided" if outcome is None else "decided",
            "outcome": None if outcome is None else {"id": outcome, "title": outcome},
            "nextStep": "…",
            "escalation": None,
            "missing": [],
            "problems": [],
            "decidedAt": write_time(now),
            "evidenceFreshUntil": None if limit is None else write_time(now + limit),
            "receipt": None,
        }
        decision.update(changes)
        self._known[Verify(f"exe_{number}")] = {
            "valid": True,
            "problems": [],
            "executionId": f"exe_{number}",
            "replay": {
                "job": self.job,
                "release": release,
                "case": copy.deepcopy(decision["case"]),
                "entity_id": decision["entity_id"],
                "status": decision["status"],
                "outcome": outcome,
                "escalation": ESCALATIONS[0] if outcome == "refund-review" else None,
                "decidedAt": decision["decidedAt"],
                "evidenceFreshUntil": decision["evidenceFreshUntil"],
            },
        }
        self._known.setdefault(Describe(self.job, release), self.description(release))
        return decision

    def check_output(
        self,
        decision: Mapping[str, Any],
        content: Mapping[str, str],
        *,
        output: str = "billing-team-reply",
        passed: bool = True,
    ) -> dict[str, Any]:
        """An output check of `content` for `decision`."""
        check_id = f"chk_{next(self._ids)}"
        check = {
            "checkId": check_id,
            "executionId": decision["executionId"],
            "output": output,
            "release": decision["release"],
            "passed": passed,
            "findings": [],
            "contentDigest": content_digest(content),
            "checkedAt": write_time(self.clock.now),
        }
        kept = ("checkId", "executionId", "output", "release", "passed", "contentDigest")
        self._known[VerifyOutputCheck(check_id)] = {"valid": True, **{name: check[name] for name in kept}}
        return check

    def description(self, release: str | None = None) -> dict[str, Any]:
        """The job's description at `release`."""
        return {
            "job": self.job,
            "pack": "helpdesk",
            "release": self.release if release is None else release,
            "title": "Triage a ticket",
            "subject": self.subject,
            "facts": {},
            "outcomes": copy.deepcopy(OUTCOMES),
            "outputs": [{"id": "billing-team-reply", "title": "A reply", "fields": ["body"], "rules": []}],
            "whenUnresolved": {"nextStep": "Leave the ticket to the triage desk.", "escalation": "triage-desk"},
            "escalations": copy.deepcopy(ESCALATIONS),
        }

    def before_answer(self, asks: Sequence[Ask]) -> None:
        """Called before every answer; does nothing."""

    def fetch(self, asks: Sequence[Ask], deadline_s: float) -> Mapping[Ask, object]:
        """Answer as `Source` says."""
        self.batches += 1
        self.asked += asks
        self.before_answer(asks)
        return {ask: self.answers.get(ask, self._answer(ask)) for ask in asks}

    async def afetch(self, asks: Sequence[Ask], deadline_s: float) -> Mapping[Ask, object]:
        """Answer as `Source` says."""
        return self.fetch(asks, deadline_s)

    def good_answer(self, ask: Ask) -> dict[str, Any]:
        """What is answered to `ask` unless `answers` says otherwise; a copy, to be changed and put there."""
        answer: dict[str, Any] = copy.deepcopy(self._known[ask])
        return answer if isinstance(ask, Describe) else {**answer, "verifiedAt": write_time(self.clock.now)}

    def _answer(self, ask: Ask) -> object:
        return self.good_answer(ask) if ask in self._known else Unavailable("the authority answered with status 404")


ESCALATIONS = [
    {"id": "refunds-lead", "trigger": "a refund of 100 or more", "why": "Refunds of this size need a person's name."},
    {"id": "triage-desk", "trigger": "the ticket fits no outcome", "why": "Somebody has to read it."},
]

OUTCOMES = [
    {
        "id": "billing-question",
        "title": "Billing question",
        "nextStep": "Answer with the billing team's reply.",
        "outputs": ["billing-team-reply"],
        "escalation": None,
    },
    {
        "id": "refund-review",
        "title": "Refund review",
        "nextStep": "Hand the ticket to the refunds lead. Don't reply.",
        "outputs": [],
        "escalation": "refunds-lead",
    },
]
