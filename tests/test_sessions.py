"""What a session knows: which records get in, which stand, and what the decision is told of them."""

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import MAIL, REPLY, SESSION, TICKET, company, decided, helpdesk, mail, reply, shown
from preaction._core.facts import Memory, Recall, RecallTexts, Use
from preaction.errors import MisuseError
from preaction.sessions import Sessions, write_rank
from preaction.stores import Slot
from preaction.stores.memory import MemoryStore
from preaction.testing import START, FakeAuthority, FakeClock
from preaction.wire.models import Decision
from preaction.wire.times import write_time

JOB = "triage-ticket"
DAY = timedelta(hours=24)


def sessions(store: MemoryStore | None = None, *, clock: FakeClock | None = None) -> Sessions:
    return Sessions(MemoryStore() if store is None else store, JOB, clock or FakeClock(), DAY)


def recall(held: Sessions, *names: str, session: str = SESSION, whole: bool = True) -> Memory:
    memory = held.answer(session, Recall(JOB, names, whole))
    assert isinstance(memory, Memory)
    return memory


def outcomes(held: Sessions, session: str = SESSION) -> dict[str, str | None]:
    """The outcome that stands for each of the first two cases; None for one that couldn't be read or is undecided."""
    found = {}
    for case_id, decision in recall(held, session=session).first:
        outcome = None if decision is None else decision.outcome
        found[case_id] = None if outcome is None else outcome.id
    return found


@pytest.fixture
def authority() -> FakeAuthority:
    return FakeAuthority()


@pytest.fixture
def held() -> Sessions:
    return sessions()


UNREADABLE = ("a decision result could not be read", "result_unreadable")
NAMED = ({"id": 7}, {"id": TICKET})  # also an id that is none is something said of a case


def unreadable(decision: Mapping[str, Any]) -> dict[str, Any]:
    return {**decision, "status": "decided-ish"}


# ---------------------------------------------------------------- decisions


def test_a_decision_is_remembered_as_the_authority_returned_it(held: Sessions, authority: FakeAuthority) -> None:
    decision = authority.decide(TICKET, entity_id="ticket-1", outcome="refund-review")
    held.record_decision(SESSION, decision)
    (known,) = recall(held).first
    wanted = Decision.model_validate({**decision, "outcome": {"id": "refund-review"}})
    assert known.case_id == TICKET
    kept = ("execution_id", "job", "release", "case", "entity_id", "status", "outcome", "decided_at")
    for name in (*kept, "evidence_fresh_until"):
        assert getattr(known.decision, name) == getattr(wanted, name), name


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))


@given(
    case=texts,
    entity=st.none() | texts,
    release=texts,
    outcome=st.none() | texts,
    identity=st.sampled_from(["provided", "issued", "derived"]),
    decided_at=times,
    limit=st.none() | times,
)
def test_whatever_a_decision_says_is_what_is_known(
    case: str, entity: str | None, release: str, outcome: str | None, identity: str, decided_at: datetime, limit: Any
) -> None:
    held = sessions()
    decision = FakeAuthority().decide(case, outcome=outcome, release=release)
    decision["entity_id"], decision["case"]["identity"] = entity, identity
    decision["decidedAt"] = write_time(decided_at)
    decision["evidenceFreshUntil"] = None if limit is None else write_time(limit)
    held.record_decision(SESSION, decision)
    (known,) = recall(held).first
    assert (known.case_id, recall(held).releases) == (case, (release,))
    assert known.decision is not None
    assert (known.decision.case.identity, known.decision.entity_id) == (identity, entity)
    assert (known.decision.decided_at, known.decision.evidence_fresh_until) == (decided_at, limit)
    assert (None if known.decision.outcome is None else known.decision.outcome.id) == outcome


@given(times, times, st.integers(-14 * 60, 14 * 60))
def test_a_rank_sorts_like_the_time_that_it_stands_for(one: datetime, other: datetime, minutes: int) -> None:
    assert (write_rank(one) < write_rank(other)) == (one < other)
    assert (write_rank(one) == write_rank(other)) == (one == other)
    decision = FakeAuthority().decide(TICKET, decidedAt=one.astimezone(UTC).isoformat())
    moved = START.astimezone(timezone(timedelta(minutes=minutes)))
    assert write_rank(Decision.model_validate({**decision, "decidedAt": moved.isoformat()}).decided_at) == write_rank(
        START
    )


@pytest.mark.parametrize(
    ("minutes", "stands"),
    [([0, 1], 1), ([1, 0], 0), ([0, 0], 1), ([0, 2, 1], 1), ([2, 1, 2], 2)],
    ids=["newer", "older", "as old", "newest in the middle", "as old as the newest"],
)
def test_g7_of_several_on_one_case_the_latest_decided_and_then_the_latest_recorded_stands(
    minutes: list[int], stands: int, held: Sessions, authority: FakeAuthority
) -> None:
    for number, minute in enumerate(minutes):
        at = write_time(START + timedelta(minutes=minute))
        held.record_decision(SESSION, authority.decide(TICKET, outcome=f"outcome {number}", decidedAt=at))
    assert outcomes(held) == {TICKET: f"outcome {stands}"}


def test_g7_a_later_undecided_one_stands_too(held: Sessions, authority: FakeAuthority) -> None:
    held.record_decision(SESSION, authority.decide(TICKET))
    held.record_decision(SESSION, authority.decide(TICKET, outcome=None))
    (known,) = recall(held).first
    assert known.decision is not None
    assert known.decision.status == "undecided"


@pytest.mark.parametrize(
    "error",
    [{"isError": True}, {"is_error": True}, {"content": [], "isError": True}],
    ids=["isError", "is_error", "without content"],
)
def test_g7_a_result_marked_as_an_error_records_nothing_and_is_logged(
    error: Mapping[str, Any], held: Sessions, authority: FakeAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    held.record_decision(SESSION, authority.decide(TICKET))
    held.record_decision(SESSION, {**authority.decide(TICKET, outcome=None), **error})
    assert outcomes(held) == {TICKET: "billing-question"}
    assert _logged(caplog) == [("a decision result marked as an error was not recorded", "result_is_error")]


def _logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """The text and the code of each record, all of which are warnings about the session."""
    given = [vars(record) for record in caplog.records]
    assert {(record["levelno"], record["session_id"]) for record in given} <= {(logging.WARNING, SESSION)}
    return [(record["msg"], record["code"]) for record in given]


def test_g7_one_that_can_not_be_read_but_names_a_case_makes_it_undecided(
    held: Sessions, authority: FakeAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    held.record_decision(SESSION, authority.decide(TICKET))
    held.record_decision(SESSION, unreadable(authority.decide(TICKET)))
    (known,) = recall(held, TICKET.lower()).named
    assert (known.case_id, known.decision) == (TICKET, None)
    assert _logged(caplog) == [UNREADABLE]
    assert vars(caplog.records[0])["names_case"] is True


def test_g7_an_unreadable_one_stands_until_one_at_least_as_late_as_those_before_it(
    held: Sessions, authority: FakeAuthority
) -> None:
    held.record_decision(SESSION, authority.decide(TICKET))
    held.record_decision(SESSION, unreadable(authority.decide(TICKET)))
    older = write_time(START - timedelta(minutes=1))
    held.record_decision(SESSION, authority.decide(TICKET, decidedAt=older))
    assert outcomes(held) == {TICKET: None}
    held.record_decision(SESSION, authority.decide(TICKET))
    assert outcomes(held) == {TICKET: "billing-question"}


def test_g7_an_unreadable_one_is_found_by_its_entity_as_well(held: Sessions, authority: FakeAuthority) -> None:
    held.record_decision(SESSION, unreadable(authority.decide("case_1", entity_id="Ticket-1")))
    assert [known.case_id for known in recall(held, "ticket-1").named] == ["case_1"]


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"case": None},
        {"case": "HC-1201"},
        {"case": {"identity": "provided"}},
        {"case": {"id": 7}},
        {"case": {"id": TICKET}, "job": "answer-company"},
        "The case is decided.",
        None,
    ],
    ids=shown,
)
def test_one_that_can_not_be_read_and_names_no_case_of_this_job_records_nothing(
    content: object, held: Sessions, authority: FakeAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    held.record_decision(SESSION, authority.decide(TICKET))
    held.record_decision(SESSION, content)
    assert outcomes(held) == {TICKET: "billing-question"}
    assert _logged(caplog) == [UNREADABLE]
    assert vars(caplog.records[0])["names_case"] is (isinstance(content, dict) and content.get("case") in NAMED)


@pytest.mark.parametrize("job", [{}, {"job": None}, {"job": 7}], ids=shown)
def test_one_that_can_not_be_read_and_names_no_job_counts_for_this_one(job: dict[str, Any], held: Sessions) -> None:
    held.record_decision(SESSION, {"case": {"id": TICKET}, **job})
    assert outcomes(held) == {TICKET: None}


@pytest.mark.parametrize("case", [{}, {"case": None}, {"case": {"id": 7}}], ids=shown)
def test_one_that_can_not_be_read_and_names_an_entity_alone_counts_for_its_case(
    case: dict[str, Any], held: Sessions, authority: FakeAuthority
) -> None:
    held.record_decision(SESSION, authority.decide("case_1", entity_id="Ticket-1"))
    held.record_decision(SESSION, authority.decide("case_2", entity_id="ticket-1"))
    held.record_decision(SESSION, {"entity_id": "Ticket-1", **case})
    assert outcomes(held) == {"case_1": None, "case_2": "billing-question"}


def test_one_that_can_not_be_read_and_names_an_unknown_entity_alone_is_a_case_of_its_own(held: Sessions) -> None:
    held.record_decision(SESSION, {"entity_id": TICKET})
    assert outcomes(held) == {TICKET: None}
    assert [known.case_id for known in recall(held, TICKET.lower()).named] == [TICKET]


def test_an_entity_of_the_wrong_type_names_nothing(held: Sessions) -> None:
    held.record_decision(SESSION, {"case": {"id": TICKET}, "entity_id": 7})
    assert outcomes(held) == {TICKET: None}
    assert recall(held, "7").named == ()


@pytest.mark.parametrize("wanted", [{"entity": "HC-1202"}, {"entity": ""}, {"job": "answer-company"}], ids=shown)
@pytest.mark.parametrize("readable", [True, False], ids=["readable", "unreadable"])
def test_g7_a_record_for_another_entity_or_job_than_the_one_given_raises_and_records_nothing(
    readable: bool, wanted: dict[str, Any], held: Sessions, authority: FakeAuthority
) -> None:
    decision = authority.decide(TICKET)
    with pytest.raises(MisuseError) as raised:
        held.record_decision(SESSION, decision if readable else unreadable(decision), **wanted)
    ((name, other),) = wanted.items()
    assert str(raised.value) == f"the result is about another {name} than the {other!r} given; nothing was recorded"
    assert recall(held).first == ()


def test_g7_a_record_for_the_entity_and_job_given_is_kept(held: Sessions, authority: FakeAuthority) -> None:
    held.record_decision(SESSION, authority.decide("case_1", entity_id=TICKET), entity=TICKET, job=JOB)
    held.record_decision(SESSION, unreadable(authority.decide("case_2", entity_id=TICKET)), entity=TICKET, job=JOB)
    assert outcomes(held) == {"case_1": "billing-question", "case_2": None}


def test_decisions_of_another_job_do_not_count(held: Sessions, authority: FakeAuthority) -> None:
    held.record_decision(SESSION, authority.decide(TICKET, job="answer-company", release="r9"))
    memory = recall(held, TICKET.lower())
    assert (memory.named, memory.first, memory.releases) == ((), (), ())


def test_g38_sessions_are_isolated(held: Sessions, authority: FakeAuthority) -> None:
    held.record_decision("one", authority.decide(TICKET))
    assert recall(held, TICKET.lower(), session="other").named == ()
    assert outcomes(held, "other") == {}


# ---------------------------------------------------------------- what a call is told


def test_a_case_is_found_by_its_own_id_and_by_its_entity_whatever_their_case(
    held: Sessions, authority: FakeAuthority
) -> None:
    held.record_decision(SESSION, authority.decide("Case_1", entity_id="Ticket-1"))
    held.record_decision(SESSION, authority.decide("Case_2", entity_id=None))
    for name, found in {"case_1": ["Case_1"], "ticket-1": ["Case_1"], "case_2": ["Case_2"], "case": []}.items():
        assert [known.case_id for known in recall(held, name).named] == found
    both = recall(held, "ticket-1", "case_1", "case_2").named
    assert [known.case_id for known in both] == ["Case_1", "Case_2"]


def test_only_ascii_case_is_ignored_in_names(held: Sessions, authority: FakeAuthority) -> None:
    held.record_decision(SESSION, authority.decide("\u212a-1"))  # a Kelvin sign
    assert recall(held, "k-1", session=SESSION).first != ()
    assert recall(held, "\u212a-1").named != ()


def test_g12_a_company_is_found_by_its_host_name_as_well(held: Sessions, authority: FakeAuthority) -> None:
    held.record_decision(SESSION, authority.decide("BÜCHER.example."))
    assert [known.case_id for known in recall(held, "xn--bcher-kva.example").named] == ["BÜCHER.example."]


def test_a_call_that_names_its_case_is_not_told_of_the_others(held: Sessions, authority: FakeAuthority) -> None:
    held.record_decision(SESSION, authority.decide(TICKET))
    memory = recall(held, TICKET.lower(), whole=False)
    assert len(memory.named) == 1
    assert (memory.first, memory.releases) == ((), ())


def test_of_all_cases_two_are_told_and_of_all_releases_nine(held: Sessions, authority: FakeAuthority) -> None:
    for number in range(12):
        held.record_decision(SESSION, authority.decide(f"HC-{number}", release=f"r{number}"))
    memory = recall(held)
    assert [known.case_id for known in memory.first] == ["HC-0", "HC-1"]
    assert memory.releases == tuple(f"r{number}" for number in range(9))


def test_the_time_told_is_the_gates(authority: FakeAuthority) -> None:
    clock = FakeClock()
    held = sessions(clock=clock)
    clock.advance(minutes=5)
    assert recall(held).now == START + timedelta(minutes=5)


# ---------------------------------------------------------------- output checks


def known_texts(held: Sessions, check: Mapping[str, Any], session: str = SESSION) -> list[tuple[str, str, bool]]:
    found: Any = held.answer(session, RecallTexts(check["executionId"], check["contentDigest"]))
    return [(known.check_id, known.output, known.passed) for known in found]


def test_g26_the_latest_check_of_an_output_counts_also_when_it_failed(held: Sessions) -> None:
    authority = FakeAuthority()
    decision = authority.decide(TICKET)
    passed = authority.check_output(decision, {"body": "x"})
    held.record_output_check(SESSION, passed)
    assert known_texts(held, passed) == [(passed["checkId"], "billing-team-reply", True)]
    failed = authority.check_output(decision, {"body": "x"}, passed=False)
    held.record_output_check(SESSION, failed)
    assert known_texts(held, passed) == [(failed["checkId"], "billing-team-reply", False)]
    older = {**passed, "checkedAt": write_time(START - timedelta(seconds=1))}
    held.record_output_check(SESSION, older)
    assert known_texts(held, passed) == [(failed["checkId"], "billing-team-reply", False)]


def test_g26_checks_of_several_outputs_are_told_the_latest_first(held: Sessions) -> None:
    authority = FakeAuthority()
    decision = authority.decide(TICKET)
    for seconds, output in ((1, "b"), (3, "a"), (2, "c")):
        check = authority.check_output(decision, {"body": "x"}, output=output)
        held.record_output_check(SESSION, {**check, "checkedAt": write_time(START + timedelta(seconds=seconds))})
    assert [output for _, output, _ in known_texts(held, check)] == ["a", "c", "b"]


def test_g26_a_check_counts_for_its_execution_its_text_and_its_session_alone(held: Sessions) -> None:
    authority = FakeAuthority()
    check = authority.check_output(authority.decide(TICKET), {"body": "x"})
    held.record_output_check(SESSION, check)
    assert known_texts(held, {**check, "executionId": "exe_9"}) == []
    assert known_texts(held, {**check, "contentDigest": "sha-256:" + 64 * "0"}) == []
    assert known_texts(held, check, session="other") == []


@pytest.mark.parametrize("spoilt", [{"passed": "true"}, {"checkedAt": None}, {"isError": True}], ids=shown)
def test_an_output_check_that_can_not_be_read_or_is_an_error_is_logged_and_not_recorded(
    spoilt: Mapping[str, Any], held: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    authority = FakeAuthority()
    check = authority.check_output(authority.decide(TICKET), {"body": "x"})
    held.record_output_check(SESSION, {**check, **spoilt})
    assert known_texts(held, check) == []
    assert _logged(caplog) == [("an output check could not be read", "output_check_unreadable")]


# ---------------------------------------------------------------- what the store is asked


class Asked(MemoryStore):
    """A store that notes what it is asked to keep and to read."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Slot] = []
        self.reads: list[tuple[object, ...]] = []

    def put(self, session: str, slots: Sequence[Slot]) -> bool:
        self.kept += slots
        return super().put(session, slots)

    def read(self, session: str, group: str, at_most: int | None = None) -> list[tuple[str, str]]:
        self.reads.append((group, at_most))
        return super().read(session, group, at_most)

    def read_many(self, session: str, group: str, names: Sequence[str]) -> list[tuple[str, str]]:
        self.reads.append((group, *names))
        return super().read_many(session, group, names)


RANK = "20261130090000000000"


def test_what_is_kept_of_a_decision_is_compact_and_counted_once(authority: FakeAuthority) -> None:
    store = Asked()
    held = sessions(store)
    held.record_decision(SESSION, authority.decide(TICKET, entity_id="Ticket-1"))
    held.record_decision(SESSION, unreadable(authority.decide(TICKET, entity_id="Ticket-1")))
    value = (
        f'["exe_1","{JOB}","2026-11-03.1","provided","Ticket-1","decided","billing-question",'
        '"2026-11-30T09:00:00Z","2026-11-30T10:00:00Z"]'
    )
    names = [Slot(f"name/{JOB}/{name}", TICKET, "") for name in ("hc-1201", "ticket-1")]
    assert store.kept[0] == Slot(f"release/{JOB}", "2026-11-03.1", "")
    assert sorted(store.kept[1:3], key=lambda slot: slot.group) == names
    assert store.kept[3] == Slot(f"decision/{JOB}", TICKET, value, RANK, "decision")
    assert sorted(store.kept[4:6], key=lambda slot: slot.group) == names
    assert store.kept[6:] == [Slot(f"decision/{JOB}", TICKET, "", None, "decision")]


def test_what_is_kept_of_an_output_check_is_counted_and_holds_no_text(authority: FakeAuthority) -> None:
    store = Asked()
    check = authority.check_output(authority.decide(TICKET), {"body": "x"})
    sessions(store).record_output_check(SESSION, check)
    group = f"text/{check['executionId']}/{check['contentDigest']}"
    value = json.dumps([check["checkId"], check["release"], True, RANK])
    assert store.kept == [Slot(group, "billing-team-reply", value, RANK, "output_check")]


def test_no_more_is_read_than_the_decision_needs(authority: FakeAuthority) -> None:
    store = Asked()
    held = sessions(store)
    for number in range(3):
        held.record_decision(SESSION, authority.decide(f"HC-{number}"))
    recall(held, "hc-9")
    assert store.reads == [(f"name/{JOB}/hc-9", None), (f"release/{JOB}", 9), (f"decision/{JOB}", 2)]
    store.reads.clear()
    recall(held, "hc-1", whole=False)
    assert store.reads == [(f"name/{JOB}/hc-1", None), (f"decision/{JOB}", "HC-1")]


# ---------------------------------------------------------------- uses


def use(held: Sessions, per: Any, *, session: str = SESSION, take: bool = True, tool: str = REPLY) -> object:
    return held.answer(session, Use(tool, per, "exe_1", take))


def test_g43a_a_decision_is_used_up_in_every_session_and_a_case_in_its_own(held: Sessions) -> None:
    for per, elsewhere in {"decision": "taken", "case": "free"}.items():
        assert use(held, per, take=False) == "free"
        assert use(held, per) == "free"
        assert use(held, per) == use(held, per, take=False) == "taken"
        assert use(held, per, session="other", take=False) == elsewhere
        assert use(held, per, tool=MAIL, take=False) == "free"


def test_g43a_names_in_a_use_are_kept_apart(held: Sessions) -> None:
    held.answer(SESSION, Use("a", "case", 'b", "c', True))
    assert held.answer("c", Use("a", "case", "b", False)) == "free"
    held.answer("", Use("a", "decision", "case", True))
    assert held.answer("decision", Use("a", "case", "case", False)) == "free"


def test_g43a_a_use_is_kept_as_long_as_it_was_said() -> None:
    now = [0.0]
    held = sessions(MemoryStore(clock=lambda: now[0]))
    use(held, "decision")
    now[0] = DAY.total_seconds() - 1
    assert use(held, "decision") == "taken"
    now[0] += 1
    assert use(held, "decision") == "free"


# ---------------------------------------------------------------- through the gate


def test_g38_a_session_at_its_bound_logs_what_it_can_not_take_and_denies(caplog: pytest.LogCaptureFixture) -> None:
    gate, authority = helpdesk(store=MemoryStore(max_per_kind=2))
    decided(gate, authority, "HC-1200")
    decided(gate, authority)
    assert gate.check(SESSION, REPLY, reply()).allow
    decided(gate, authority, "HC-1202")
    assert _logged(caplog) == [("the session is full and takes no more records", "session_full")] * 2
    verdict = gate.check(SESSION, REPLY, reply())
    assert (verdict.allow, verdict.code) == (False, "session_full")
    decided(gate, authority, session="other")
    assert gate.check("other", REPLY, reply()).allow


def test_g7_no_request_is_made_for_a_case_whose_latest_result_can_not_be_read() -> None:
    gate, authority = helpdesk()
    gate.decisions.record(SESSION, result=unreadable(decided(gate, authority)))
    verdict = gate.check(SESSION, REPLY, reply())
    assert (verdict.allow, verdict.code, authority.asked) == (False, "undecided", [])


def test_g38_two_sessions_of_one_gate_never_help_each_other() -> None:
    gate, authority = company()
    decided(gate, authority, "acme.example")
    decided(gate, authority, "other.example", session="other")
    assert gate.check(SESSION, MAIL, mail()).allow
    assert gate.check("other", MAIL, mail()).code == "recipient_not_allowed"


@pytest.mark.parametrize("session", ["", None, 7, b"chat-7", ["chat-7"]], ids=shown)
def test_a_session_id_that_is_none_raises(session: Any) -> None:
    gate, authority = helpdesk()
    with pytest.raises(MisuseError) as raised:
        gate.decisions.record(session, result=authority.decide(TICKET))
    assert str(raised.value) == "a session id is a string that isn't empty"


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"entity_id": {"job": JOB}}, "entity_id is a string; give the decision as result=…; nothing was recorded"),
        (
            {"entity_id": "ticket-1", "entity": "ticket-2"},
            "entity_id and entity name two entities; nothing was recorded",
        ),
        *(
            ({name: "HC-9"}, "the result is about another entity than the 'HC-9' given; nothing was recorded")
            for name in ("entity_id", "entity")
        ),
        ({"job": "x"}, "the result is about another job than the 'x' given; nothing was recorded"),
    ],
)
def test_g7_a_gates_record_for_another_entity_or_job_raises_and_records_nothing(
    wanted: dict[str, Any], why: str
) -> None:
    gate, authority = helpdesk()
    with pytest.raises(MisuseError) as raised:
        gate.decisions.record(SESSION, result=authority.decide(TICKET, entity_id="ticket-1"), **wanted)
    assert str(raised.value) == why
    assert gate.check(SESSION, REPLY, reply()).code == "case_not_decided"


@pytest.mark.parametrize(
    "wanted", [{"entity_id": "t"}, {"entity": "t"}, {"entity_id": "t", "entity": "t"}, {"job": JOB}, {}], ids=shown
)
def test_g7_a_gates_record_for_the_entity_and_job_given_is_kept(wanted: dict[str, Any]) -> None:
    gate, authority = helpdesk(rule={"output_check": None})
    gate.decisions.record(SESSION, result=authority.decide(TICKET, entity_id="t"), **wanted)
    assert gate.check(SESSION, REPLY, reply()).allow


class Chat(str, Enum):  # noqa: UP042 (the one whose `str()` is another text)
    SEVEN = "chat-7"


class Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        return self.upper()


@pytest.mark.parametrize("session", [Chat.SEVEN, Loud("chat-7")], ids=["an enum", "another kind of string"])
def test_a_session_id_is_its_characters_whatever_kind_of_string_it_is(session: Any) -> None:
    gate, authority = helpdesk()
    decided(gate, authority, session=session)
    assert gate.check(session, REPLY, reply()).allow
    assert gate.check("chat-7", REPLY, reply()).allow
    decided(gate, authority, "HC-1", session="chat-9")
    assert not gate.check(session, REPLY, reply(ticketId="HC-1")).allow


# ---------------------------------------------------------------- what a caller could not have seen


def test_the_id_is_told_just_before_the_record(held: Sessions, authority: FakeAuthority) -> None:
    decision = authority.decide(TICKET)
    check = authority.check_output(decision, {"body": "Hello"})
    heard: list[tuple[str, int]] = []

    def before(id: str) -> None:
        heard.append((id, len(recall(held).first)))

    held.record_decision(SESSION, decision, before=before)
    held.record_output_check(SESSION, check, before=before)
    assert heard == [(decision["executionId"], 0), (check["checkId"], 1)]
    for nothing in ({"isError": True, "content": []}, unreadable(decision)):
        held.record_decision(SESSION, nothing, before=before)
    held.record_output_check(SESSION, {**check, "passed": "yes"}, before=before)
    assert len(heard) == 2, "nothing of these has an id"


def test_what_nobody_could_be_told_of_is_not_recorded(held: Sessions, authority: FakeAuthority) -> None:
    def before(_: str) -> None:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError):
        held.record_decision(SESSION, authority.decide(TICKET), before=before)
    assert recall(held).first == ()


def test_unseen_decisions_are_not_there_and_the_next_case_takes_their_place(
    held: Sessions, authority: FakeAuthority
) -> None:
    decisions = [authority.decide(f"HC-{number}") for number in range(4)]
    for decision in decisions:
        held.record_decision(SESSION, decision)
    hidden = {decisions[0]["executionId"], decisions[2]["executionId"]}
    memory = held.answer(SESSION, Recall(JOB, ("hc-0", "hc-1"), whole=True), lambda: hidden)
    assert isinstance(memory, Memory)
    assert [known.case_id for known in memory.named] == ["HC-1"]
    assert [known.case_id for known in memory.first] == ["HC-1", "HC-3"]
    assert recall(held).first[0].case_id == "HC-0", "for others it stands"


def test_a_case_decided_again_unseen_has_no_decision_at_all(held: Sessions, authority: FakeAuthority) -> None:
    held.record_decision(SESSION, authority.decide(TICKET))
    newer = authority.decide(TICKET, outcome="refund-review")
    held.record_decision(SESSION, newer)
    memory = held.answer(SESSION, Recall(JOB, (TICKET.lower(),), whole=True), lambda: {newer["executionId"]})
    assert isinstance(memory, Memory)
    assert (memory.named, memory.first) == ((), ())


def test_what_could_not_be_read_is_never_unseen(held: Sessions, authority: FakeAuthority) -> None:
    decision = authority.decide(TICKET)
    held.record_decision(SESSION, unreadable(decision))
    memory = held.answer(SESSION, Recall(JOB, (), whole=True), lambda: {decision["executionId"], ""})
    assert isinstance(memory, Memory)
    assert [known.decision for known in memory.first] == [None]


def test_unseen_output_checks_are_not_there(held: Sessions, authority: FakeAuthority) -> None:
    decision = authority.decide(TICKET)
    check = authority.check_output(decision, {"body": "Hello"})
    held.record_output_check(SESSION, check)
    ask = RecallTexts(check["executionId"], check["contentDigest"])
    assert held.answer(SESSION, ask, lambda: {check["checkId"]}) == ()
    assert held.answer(SESSION, ask, lambda: {"another"}) == held.answer(SESSION, ask) != ()


def test_a_list_of_the_unseen_that_fails_is_an_error(held: Sessions, authority: FakeAuthority) -> None:
    held.record_decision(SESSION, authority.decide(TICKET))

    def broken() -> set[str]:
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError):
        held.answer(SESSION, Recall(JOB, (), whole=True), broken)
