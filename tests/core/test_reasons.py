"""G35: every reason that the decision can give, word for word; those of `test_denials.py` aside."""

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kit import BODY, COMPANY_SUBJECT, MAIL, REPLY, SESSION, TICKET, company, decided, helpdesk, mail, reply
from preaction import ActionGate, Verdict, denial_text
from preaction._core.call import MAX_BYTES, MAX_DEPTH
from preaction._core.facts import Describe, Verify, VerifyOutputCheck
from preaction.stores.memory import MemoryStore
from preaction.testing import FakeAuthority

Desk = tuple[ActionGate, FakeAuthority]


def ready(**options: Any) -> Desk:
    """A help desk whose ticket is decided, its text checked."""
    desk = helpdesk(**options)
    decided(*desk)
    return desk


def writing(**options: Any) -> Desk:
    """The gate of a mail tool, its company decided."""
    desk = company(**options)
    decided(*desk, "acme.example")
    return desk


def answered(ask: Any, **changes: Any) -> Desk:
    """A help desk whose authority answers one ask otherwise."""
    desk = _, authority = ready()
    authority.answers[ask] = authority.good_answer(ask) | changes
    return desk


def replayed(**changes: Any) -> Desk:
    """A help desk whose authority replays the decision otherwise."""
    desk = _, authority = ready()
    answer = authority.good_answer(VERIFY)
    authority.answers[VERIFY] = answer | {"replay": answer["replay"] | changes}
    return desk


def called(desk: Desk, **changes: Any) -> Verdict:
    return desk[0].check(SESSION, REPLY, reply(**changes))


def mailed(desk: Desk, **changes: Any) -> Verdict:
    return desk[0].check(SESSION, MAIL, mail(**changes))


RELEASE = "2026-11-03.1"
VERIFY = Verify("exe_1")
CHECK = VerifyOutputCheck("chk_2")
DEEP: Any = "x"
for _ in range(MAX_DEPTH):
    DEEP = [DEEP]
ANYTHING = {"fields": ["ticketId", "body", "to", "options.*"], "output_check": None}


def open_call(**changes: Any) -> Verdict:
    return called(ready(rule=ANYTHING), **changes)


class Twice(Mapping[str, Any]):
    """A mapping that holds two equal names apart."""

    def __getitem__(self, name: str) -> Any:
        return 1

    def __iter__(self) -> Iterator[str]:
        return iter(("a", "a"))

    def __len__(self) -> int:
        return 2


def full_of_uses() -> Verdict:
    desk = ready(rule={"once": "case"}, store=MemoryStore(max_claims=1))
    decided(*desk, "HC-2")
    assert called(desk).allow
    return called(desk, ticketId="HC-2")


def used_for_a_case() -> Verdict:
    desk = ready(rule={"once": "case"})
    assert called(desk).allow
    return called(desk)


def of_releases(count: int, **rule: Any) -> Desk:
    """A desk on whose one ticket decisions were made under so many releases."""
    desk = helpdesk(rule=rule)
    for number in range(count):
        decided(*desk, release=f"r{number}")
    return desk


def disagreeing() -> Verdict:
    desk = _, authority = of_releases(2, entity=None)
    ask = Describe("triage-ticket", "r0")
    authority.answers[ask] = authority.good_answer(ask) | {"subject": COMPANY_SUBJECT}
    return called(desk)


def two_of_one_id() -> Verdict:
    desk = helpdesk()
    decided(*desk, "case_1", entity_id=TICKET)
    decided(*desk, "case_2", entity_id=TICKET)
    return called(desk)


def both(**options: Any) -> Desk:
    desk = writing(**options)
    decided(*desk, "other.example")
    return desk


def two_of_a_company() -> Desk:
    desk = company()
    decided(*desk, "acme.example")
    decided(*desk, "ACME.example")
    return desk


def unconfirmed() -> Verdict:
    desk = _, authority = helpdesk(releases=[RELEASE])
    decided(*desk, "case_1", entity_id=TICKET)
    answer = authority.good_answer(VERIFY)
    authority.answers[VERIFY] = answer | {"replay": answer["replay"] | {"entity_id": "HC-1"}}
    return called(desk)


def full() -> Verdict:
    desk = ready(store=MemoryStore(max_per_kind=1))
    decided(*desk, "HC-2")
    return called(desk)


def to_another(releases: int) -> Verdict:
    """Two companies decided under so many releases, and a mail to a third."""
    desk = company()
    for number in range(releases):
        decided(*desk, "acme.example" if number else "other.example", release=f"r{number}")
    return mailed(desk, to="ann@third.example")


def meanwhile(desk: Desk, result: Mapping[str, Any]) -> Desk:
    """A desk to which this decision is recorded while the facts are fetched."""
    gate, authority = desk
    authority.before_answer = lambda asks: gate.decisions.record(SESSION, result=result)  # type: ignore[method-assign]
    return desk


def closer_company_meanwhile() -> Verdict:
    desk = _, authority = writing()
    return mailed(meanwhile(desk, authority.decide("shop.acme.example")), to="orders@shop.acme.example")


def another_company_meanwhile() -> Verdict:
    desk = _, authority = writing()
    return mailed(meanwhile(desk, authority.decide("other.example")))


def another_case_meanwhile() -> Verdict:
    desk = _, authority = ready(rule={"entity": None})
    return called(meanwhile(desk, authority.decide("HC-9")))


def another_case_of_the_id_meanwhile() -> Verdict:
    subject = {"kind": "ticket", "identity": "issued", "match": "case-insensitive"}
    desk = ready(authority=FakeAuthority(subject=subject))
    return called(meanwhile(desk, {"case": {"id": "case_9"}, "entity_id": TICKET}))


def capitals_without_a_subject() -> Verdict:
    desk = _, authority = ready()
    ask = Describe("triage-ticket", RELEASE)
    authority.answers[ask] = authority.good_answer(ask) | {"subject": None}
    return called(desk, ticketId="hc-1201")


def from_the_future() -> Verdict:
    desk = helpdesk()
    decided(*desk, decidedAt="2026-11-30T09:05:01Z")
    return called(desk)


def decided_again() -> Verdict:
    desk = gate, authority = ready()
    newer = authority.decide(TICKET)
    authority.before_answer = lambda asks: gate.decisions.record(SESSION, result=newer)  # type: ignore[method-assign]
    return called(desk)


def not_issued() -> Verdict:
    desk = helpdesk()
    decided(*desk, executionId="../exe_1")
    return called(desk)


def undecided_by_status() -> Verdict:
    desk = helpdesk()
    decided(*desk, status="undecided", outcome=None)
    return called(desk)


def unaskable_check() -> Verdict:
    desk = gate, authority = helpdesk()
    decision = authority.decide(TICKET)
    gate.decisions.record(SESSION, result=decision)
    gate.output_checks.record(SESSION, authority.check_output(decision, {"body": BODY}) | {"checkId": "../x"})
    return called(desk)


def two_texts() -> Verdict:
    rule = {"fields": ["ticketId", "body", "note"], "output_check": {"fields": ["body", "note"]}}
    return called(ready(rule=rule))


SCENARIOS: dict[str, Callable[[], Verdict]] = {
    # the call itself
    "not an object": lambda: helpdesk()[0].check(SESSION, REPLY, "x"),  # type: ignore[arg-type]
    "not finite": lambda: open_call(options={"to": [1, math.inf]}),
    "too long a number": lambda: open_call(options=10**4300),
    "not JSON": lambda: open_call(options=object()),
    "not JSON deeper": lambda: open_call(options={"x": {1}}),
    "too deep": lambda: open_call(options=DEEP),
    "a lone surrogate": lambda: open_call(to="\ud800"),
    "a name that is no string": lambda: open_call(options={1: 2}),
    "a name that is no string, at the top": lambda: helpdesk()[0].check(SESSION, REPLY, {1: 2}),  # type: ignore[dict-item]
    "not finite, in a name with an X": lambda: open_call(Xmas=math.nan),
    "a name twice": lambda: open_call(options=Twice()),
    "a name twice, folded": lambda: open_call(options={"x": [{"a": 1, "A": 2}]}),
    "too large": lambda: open_call(to="x" * MAX_BYTES),
    "too many": lambda: open_call(to=[1] * MAX_BYTES),
    # rules and fields
    "a rule that never allows": lambda: called(ready(rule={"outcomes": ["x"], "output_check": {"fields": ["note"]}})),
    "a look-alike tool": lambda: ready()[0].check(SESSION, "Helpdesk-Reply", reply()),
    "a tool without a rule": lambda: ready(unlisted="deny")[0].check(SESSION, "shell", reply()),
    "a field below": lambda: called(ready(rule={"fields": ["ticketId", "body", "o.a"]}), o={"b": 1}),
    "a field of an item": lambda: called(ready(rule={"fields": ["ticketId", "body", "o[].a"]}), o=[{"a": 1}, {"b": 1}]),
    "an object": lambda: called(ready(), body={"x": 1}),
    "a list of objects": lambda: called(ready(), body=["x", {"x": 1}]),
    "a list": lambda: called(ready(rule={"fields": ["ticketId", "body", "o.a"]}), o=["x"]),
    "an empty list": lambda: called(ready(rule={"fields": ["ticketId", "body", "o.a"]}), o=[]),
    "null": lambda: called(ready(rule={"fields": ["ticketId", "body", "o[].a"]}), o=None),
    "a value": lambda: called(ready(rule={"fields": ["ticketId", "body", "o.a"]}), o="x"),
    "not null": lambda: called(ready(rule={"null_only": ["o"]}), o="x"),
    "not null in an opened one": lambda: called(
        ready(rule={"fields": ["ticketId", "body", "o.*"], "null_only": ["o.a"]}), o={"a": 1}
    ),
    "not the fixed value": lambda: called(ready(rule={"fixed": {"o.a": {"b": [1, None]}}})),
    "refused below": lambda: called(
        ready(rule={"fields": ["ticketId", "body", "o.*"]}, refuse_fields=["Bcc"]), o=[{"bcc": 1}]
    ),
    # one case
    "no session": lambda: helpdesk()[0].check("", REPLY, reply()),
    "a session that is no text": lambda: helpdesk()[0].check(7, REPLY, reply()),  # type: ignore[arg-type]
    "an id that is none": lambda: called(ready(), ticketId=True),
    "an id that is left out": lambda: ready()[0].check(SESSION, REPLY, {"body": BODY}),
    "two cases of one id": two_of_one_id,
    "no case at all": lambda: called(helpdesk(rule={"entity": None})),
    "capitals": lambda: called(ready(), ticketId="hc-1201"),
    "no recipient": lambda: writing()[0].check(SESSION, MAIL, {"subject": "x", "body": BODY}),
    "a control character": lambda: mailed(writing(), subject="a\nb"),
    "recipients out of place": lambda: mailed(
        writing(rule={"recipients": ["to[].address"], "fields": ["to.*", "subject", "body"]}), to={"address": "x"}
    ),
    "a recipient that is no string": lambda: mailed(writing(), to=["orders@acme.example", 7]),
    "elsewhere": lambda: mailed(writing(rule={"recipients_at": ["other.example"]})),
    "not a test recipient": lambda: mailed(writing(test_recipients=["me@test.example"])),
    "no test recipient": lambda: writing(test_recipients=["me@test.example"])[0].check(
        SESSION, MAIL, {"subject": "acme.example", "body": BODY}
    ),
    "two companies in the subject": lambda: mailed(
        both(test_recipients=["me@test.example"]), to="me@test.example", subject="acme.example other.example"
    ),
    "two cases of a company": lambda: mailed(two_of_a_company()),
    "releases that disagree": disagreeing,
    "too many releases": lambda: called(of_releases(9, entity=None)),
    "an id that the authority does not confirm": unconfirmed,
    # fresh and verified
    "a session that is full": full,
    "another company, under eight releases": lambda: to_another(8),
    "another company, under nine releases": lambda: to_another(9),
    "a closer company meanwhile": closer_company_meanwhile,
    "another company meanwhile": another_company_meanwhile,
    "another case meanwhile": another_case_meanwhile,
    "another case of the id meanwhile": another_case_of_the_id_meanwhile,
    "capitals without a subject": capitals_without_a_subject,
    "from the future": from_the_future,
    "no time": lambda: called(answered(VERIFY, verifiedAt=None)),
    "another time": lambda: called(answered(VERIFY, verifiedAt="2026-11-30T09:10:00Z")),
    "expired by the replay": lambda: called(replayed(evidenceFreshUntil="2026-11-30T09:00:00Z")),
    "decided again": decided_again,
    "an id that is not issued": not_issued,
    "about another": lambda: called(answered(VERIFY, executionId="exe_9")),
    "not valid": lambda: called(answered(VERIFY, valid=False)),
    "with problems": lambda: called(answered(VERIFY, problems=["a", 'b"', "c", "d", "e"])),
    "no replay": lambda: called(answered(VERIFY, replay=None)),
    "replays another job": lambda: called(replayed(job="x")),
    "replays another status": lambda: called(replayed(status="undecided")),
    "replays another moment": lambda: called(replayed(decidedAt="2026-11-30T08:59:59Z")),
    "described otherwise": lambda: called(answered(Describe("triage-ticket", RELEASE), job="x")),
    # pack and text
    "undecided by status alone": undecided_by_status,
    "a text that is left out": two_texts,
    "a text that is not confirmed": lambda: called(answered(CHECK, passed=False)),
    "a text confirmed at no time": lambda: called(answered(CHECK, verifiedAt=None)),
    "a text confirmed at another time": lambda: called(answered(CHECK, verifiedAt="2026-11-30T09:10:00Z")),
    "a text whose check can not be asked about": unaskable_check,
    "used for a case": used_for_a_case,
    "no room for uses": full_of_uses,
}

REASONS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("reasons.toml").read_text("utf-8"))


def test_every_scenario_has_its_reason() -> None:
    assert list(SCENARIOS) == list(REASONS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_g35_a_reason_says_what_is_wrong_and_what_to_change_word_for_word(name: str) -> None:
    verdict = SCENARIOS[name]()
    wanted = REASONS[name]
    assert (verdict.code, verdict.failed) == (wanted["code"], wanted.get("failed"))
    assert denial_text(verdict) == f"Denied, nothing was done: {wanted['text']}"
