"""The table of `verdicts/`: scenes, and by hand what each must come to. No expectation here is taken from a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from _world import BODY, SESSION, World

from preaction._core.denied import CheckName, Code
from preaction._core.facts import Describe, Unavailable, Verify, VerifyOutputCheck
from preaction.stores.memory import MemoryStore
from preaction.testing import FakeAuthority

REPLY, MAIL = "helpdesk__reply", "email_send"
TICKET, ACME = "HC-1201", "acme.example"
RELEASE, LATER = "2026-11-03.1", "2026-12-01.1"

TICKETS = {"kind": "ticket", "identity": "provided", "match": "exact"}
COMPANIES = {"kind": "company", "identity": "provided", "match": "case-insensitive"}

FIX = "Fix what check_output flagged, check it again, then retry."
HAND_OVER = "Hand the ticket to the refunds lead. Don't reply."
ANSWER = "Answer with the billing team's reply."
LEAVE_IT = "Leave the ticket to the triage desk."

HAND_OFFS = {
    "refunds-lead": {
        "id": "refunds-lead",
        "trigger": "a refund of 100 or more",
        "why": "Refunds of this size need a person's name.",
    },
    "triage-desk": {
        "id": "triage-desk",
        "trigger": "the ticket fits no outcome",
        "why": "Somebody has to read it.",
    },
}


def rule(**changes: Any) -> dict[str, Any]:
    """The help desk's rule; a change to None takes the key away."""
    whole = {
        "writes": "billing-team-reply",
        "entity": {"field": "ticketId"},
        "fields": ["ticketId", "body"],
        "outputCheck": {"fields": ["body"]},
        **changes,
    }
    return {name: value for name, value in whole.items() if value is not None}


def mail_rule(**changes: Any) -> dict[str, Any]:
    """The mail tool's rule: its case is the company of the recipients."""
    return rule(entity=None, fields=["to", "cc", "bcc", "subject", "body"], unchecked=["subject"], **changes)


def reply(**changes: Any) -> dict[str, Any]:
    """A reply that is allowed."""
    return {"ticketId": TICKET, "body": BODY, **changes}


def mail(**changes: Any) -> dict[str, Any]:
    """A mail that is allowed."""
    return {"to": "orders@acme.example", "subject": "Your invoice", "body": BODY, **changes}


@dataclass(frozen=True)
class Scene:
    """One vector: what it is about, what must come of it, and how to get there."""

    about: str
    code: Code = "allowed"
    check: CheckName | None = None
    escalate: str | None = None
    hand_off: str | None = None
    case: str | None = None
    args: Any = field(default_factory=reply)
    rule: Mapping[str, Any] = field(default_factory=rule)
    tool: str = REPLY
    options: Mapping[str, Any] = field(default_factory=dict)
    subject: Mapping[str, Any] | None = None
    fresh_for: timedelta | None = timedelta(hours=1)
    session: str | None = SESSION
    take: bool = True
    store: Callable[[], MemoryStore] = MemoryStore
    before: Callable[[World], object] = lambda world: world.decide(TICKET)

    @property
    def job(self) -> str:
        """The gate's job."""
        return "answer-company" if self.tool == MAIL else "triage-ticket"

    def world(self) -> World:
        """The world in which the call is proposed, five minutes after what was decided."""
        subject = self.subject or (COMPANIES if self.tool == MAIL else TICKETS)
        world = World(FakeAuthority(job=self.job, subject=subject, fresh_for=self.fresh_for), self.store())
        self.before(world)
        world.clock.advance(minutes=5)
        return world


def company(about: str, code: Code = "allowed", *cases: str, **given: Any) -> Scene:
    """A scene of the mail tool, with these companies decided (by default Acme)."""

    def before(world: World) -> None:
        for case in cases or (ACME,):
            world.decide(case)

    given = {"args": mail(), "rule": mail_rule(), "tool": MAIL, "before": before, **given}
    return Scene(about, code, **given)


def decided(*cases: str, **decision: Any) -> Callable[[World], None]:
    """These cases were decided like this."""

    def before(world: World) -> None:
        for case in cases or (TICKET,):
            world.decide(case, **decision)

    return before


def answered(kind: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[World], None]:
    """The one decision stands, and the authority answers this ask like that."""

    def before(world: World) -> None:
        world.decide(TICKET)
        asks = {
            "verify": Verify("exe_1"),
            "text": VerifyOutputCheck("chk_2"),
            "describe": Describe("triage-ticket", RELEASE),
        }
        world.clock.advance(minutes=5)
        world.answer(asks[kind], change)
        world.clock.advance(minutes=-5)

    return before


def put(path: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Put `value` at the dotted path of an answer."""

    def change(answer: dict[str, Any]) -> dict[str, Any]:
        *way, last = path.split(".")
        at = answer
        for step in way:
            at = at[step]
        at[last] = value
        return answer

    return change


def without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Leave this field out of an answer."""
    return lambda answer: {key: value for key, value in answer.items() if key != name}


def unavailable(why: str) -> Callable[[dict[str, Any]], Unavailable]:
    """No answer at all."""
    return lambda answer: Unavailable(why)


def nothing(world: World) -> None:
    """Nothing was decided."""


def used_before(world: World) -> None:
    """The rule's one use was taken by an earlier call."""
    world.decide(TICKET)
    world.store.claim('["helpdesk__reply", "decision", "exe_1"]', timedelta(hours=24), take=True)


def used_for_the_case(world: World) -> None:
    """The case's one use was taken, and the case was decided again since."""
    world.store.claim(f'["helpdesk__reply", "case", "{TICKET}", "{SESSION}"]', timedelta(hours=24), take=True)
    world.decide(TICKET)


def replaced(world: World) -> None:
    """While the facts are fetched, the case is decided again."""
    world.decide(TICKET)

    def again(asks: object) -> None:
        world.decide(TICKET, text=None)

    world.authority.before_answer = again  # type: ignore[method-assign]


def joined(world: World) -> None:
    """While the facts are fetched, another company is decided."""
    world.decide(ACME)

    def again(asks: object) -> None:
        world.decide("shop.example", text=None)

    world.authority.before_answer = again  # type: ignore[method-assign]


def unreadable(world: World) -> None:
    """After a good decision came one on the same case that can't be read."""
    world.decide(TICKET)
    world.sessions.record_decision(SESSION, {"case": {"id": TICKET}, "status": "decided"})


def by_entity(*cases: str, confirmed: bool = True) -> Callable[[World], None]:
    """These cases were decided for the entity `order-7`."""

    def before(world: World) -> None:
        for case in cases:
            made = world.decide(case, entity_id="order-7")
            if not confirmed:
                world.clock.advance(minutes=5)
                world.answer(Verify(made["executionId"]), put("replay.entity_id", None))
                world.clock.advance(minutes=-5)

    return before


def releases(count: int) -> Callable[[World], None]:
    """As many companies, each decided under a release of its own; Acme is the first."""

    def before(world: World) -> None:
        for number in range(count):
            world.decide(ACME if number == 0 else f"shop{number}.example", release=f"2026-11-{number + 1:02}.1")

    return before


def subjects_disagree(world: World) -> None:
    """Acme was decided under one subject, another company under a later release with another."""
    world.decide(ACME)
    world.decide("shop.example", release=LATER)
    world.answer(Describe("answer-company", LATER), put("subject", {**TICKETS, "identity": "issued"}))


def later(**by: float) -> Callable[[World], None]:
    """The decision was made, and time went by before the call was proposed."""

    def before(world: World) -> None:
        world.decide(TICKET)
        world.clock.advance(**by)

    return before


def from_the_future(world: World) -> None:
    """The decision is dated ten minutes ahead of the gate's clock."""
    world.clock.advance(minutes=10)
    world.decide(TICKET)
    world.clock.advance(minutes=-15)
