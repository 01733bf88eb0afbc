"""A session and an authority in memory for `verdicts/`: real procedure, fixed clock, every round recorded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from preaction._core.facts import AnyAsk, Ask, Unavailable
from preaction._core.procedure import judge
from preaction._core.record import Round, ask_to_json, recording, rounds_to_json
from preaction._core.rule import RuleBook
from preaction._core.trail import Trail
from preaction._core.verdict import Verdict, verdict_of
from preaction.drive import Facts, run
from preaction.options import read_book
from preaction.sessions import Sessions
from preaction.stores.memory import MemoryStore
from preaction.testing import FakeAuthority, FakeClock

SESSION = "chat-7"
BODY = "Hello, the second invoice is cancelled."
AGE = timedelta(hours=24)

OPTIONS: Mapping[str, str] = {
    "releases": "releases",
    "refuseFields": "refuse_fields",
    "testRecipients": "test_recipients",
    "unlisted": "unlisted",
    "ownSuffixes": "own_suffixes",
    "sharedDomains": "shared_domains",
    "maxDecisionAgeSeconds": "max_decision_age",
    "maxClockSkewSeconds": "max_clock_skew_s",
}


def book_of(job: str, rules: Mapping[str, Any], options: Mapping[str, Any]) -> RuleBook:
    """The rule book of a vector's rules and options."""
    given: dict[str, Any] = {
        "releases": None,
        "refuse_fields": (),
        "test_recipients": None,
        "unlisted": "deny",
        "own_suffixes": (),
        "shared_domains": (),
        "max_decision_age": AGE,
        "max_clock_skew_s": 300,
    }
    given.update({OPTIONS[name]: value for name, value in options.items()})
    if "maxDecisionAgeSeconds" in options:
        given["max_decision_age"] = timedelta(seconds=options["maxDecisionAgeSeconds"])
    return read_book(job=job, tools=rules, **given)


@dataclass
class World:
    """Where a vector's rounds come from. `decide` makes, checks and records; `raw` puts an answer on the wire."""

    authority: FakeAuthority
    store: MemoryStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        """Sessions over the store, on the authority's clock."""
        self.sessions = Sessions(self.store, self.authority.job, self.authority.clock, AGE)

    @property
    def clock(self) -> FakeClock:
        """The one clock of gate and authority."""
        return self.authority.clock

    def decide(self, case: str, *, text: str | None = BODY, passed: bool = True, **decision: Any) -> dict[str, Any]:
        """A decision, recorded, with an output check of `text` unless that is None."""
        made = self.authority.decide(case, **decision)
        self.sessions.record_decision(SESSION, made)
        if text is not None:
            check = self.authority.check_output(made, {"body": text}, passed=passed)
            self.sessions.record_output_check(SESSION, check)
        return made

    def answer(self, ask: Any, change: Callable[[dict[str, Any]], Any]) -> None:
        """From now on `ask` is answered by what `change` makes of the good answer."""
        self.authority.answers[ask] = change(self.authority.good_answer(ask))

    def check(
        self, book: RuleBook, session: str | None, tool: str, args: Any, *, take: bool
    ) -> tuple[Verdict, list[list[dict[str, Any]]]]:
        """The verdict on a call, and its rounds as JSON, with odd answers as they were on the wire."""
        rounds: list[Round] = []
        trail = Trail()
        judgement = run(
            recording(judge(session, tool, args, book, trail, take=take), rounds),
            lambda ask: self.sessions.answer(str(session), ask),
            Facts(self.authority, self.authority, self.authority),
            5.0,
        )
        verdict = verdict_of(judgement, trail, tool=tool, session_id=session, enforced=True)
        written = zip(rounds_to_json(rounds), rounds, strict=True)
        return verdict, [[self._as_sent(*entry) for entry in zip(one, asked, strict=True)] for one, asked in written]

    def _as_sent(self, entry: dict[str, Any], ask: AnyAsk) -> dict[str, Any]:
        sent = self.authority.answers.get(ask) if isinstance(ask, Ask) else None
        return entry if sent is None or isinstance(sent, Unavailable) else {"ask": ask_to_json(ask), "answer": sent}
