"""Facts that the authority reads itself: what a decision rests on, whatever callers say and look-ups do."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authority.asking import refusal
from authority.conftest import Clock
from authority.looking import LOOKED_UP, QUERY, TOPIC, Told, desk
from preaction.authority import LocalAuthority, PackError
from preaction.authority.facts.lookups import LookupFailed, Lookups, Settings
from preaction.authority.facts.lookups_sql import SqlLookup
from preaction.authority.packs.release import read_release
from preaction.errors import AuthorityError, ConfigurationError

Opening = Callable[..., LocalAuthority]

PATIENT = timedelta(seconds=30)
"""A deadline for what comes in time, however busy the machine is."""

GOOD = {"amount": 38.0, "twice": True}
FAILED = ("undecided", ["lookup_failed"])


@pytest.fixture
def opening(clock: Clock) -> Iterator[Opening]:
    """Opens an authority with look-ups."""
    with ExitStack() as stack:

        def opened(lookups: Any, pack: str = LOOKED_UP, db: Any = None) -> LocalAuthority:
            if isinstance(lookups, dict):
                lookups = Lookups(lookups, deadline=PATIENT)
            return stack.enter_context(LocalAuthority.from_pack(pack, db, clock, lookups=lookups))

        yield opened


def refund(authority: LocalAuthority, case: str = "HC-1", **options: Any) -> dict[str, Any]:
    return authority.decide("refund", entity_id=case, evidence=TOPIC, **options)


def said(decision: dict[str, Any]) -> tuple[str, list[str]]:
    return decision["status"], decision["problems"]


# ---------------------------------------------------------------- what callers may say


def test_a_case_is_decided_on_what_the_authority_reads(opening: Opening, tmp_path: Path) -> None:
    url = desk(tmp_path / "desk.db", ("HC-1", 38.0, 1), ("HC-2", 240, 1))
    authority = opening({"ledger": SqlLookup(url, QUERY)})
    decision = refund(authority)
    assert (decision["status"], decision["outcome"]["id"], decision["problems"]) == ("decided", "refund", [])
    assert refund(authority, "HC-2")["outcome"]["id"] == "review"


def test_a_caller_who_says_such_a_fact_is_told_where(opening: Opening) -> None:
    ledger = Told(GOOD)
    authority = opening({"ledger": ledger})
    lie = {**TOPIC, "amount": {"value": 1, "source": "ledger"}, "twice": {"value": True, "source": "me"}}
    status, errors = refusal(authority.decide, "refund", entity_id="HC-1", evidence=lie)
    told = "the authority reads this fact itself; leave it out"
    assert (status, errors) == (422, {"/evidence/amount": told, "/evidence/twice": told})
    assert ledger.asked == []


def test_nothing_is_looked_up_for_a_request_that_is_wrong_or_from_somebody_else(opening: Opening) -> None:
    ledger = Told(GOOD)
    authority = opening({"ledger": ledger})
    assert refusal(authority.decide, "refund", entity_id=" HC-1", evidence=TOPIC)[0] == 422
    assert refusal(authority.decide, "refunds", entity_id="HC-1", evidence=TOPIC)[0] == 404
    assert ledger.asked == []


def test_the_description_tells_which_facts_are_not_the_callers(opening: Opening) -> None:
    facts = opening({"ledger": Told(GOOD)}).describe_job("refund")["facts"]
    assert facts["topic"] == {"type": "string"}
    assert facts["amount"] == {"type": "number", "minimum": 0, "readOnly": True}


# ---------------------------------------------------------------- evidence, freshness, replay


def test_evidence_has_source_and_time_and_a_replay_asks_nobody(opening: Opening, clock: Clock, tmp_path: Path) -> None:
    ledger = Told(GOOD)
    authority = opening({"ledger": ledger}, db=tmp_path / "a.db")
    decision = refund(authority)
    assert decision["evidenceFreshUntil"] == "2026-11-30T10:00:00Z"
    ledger.answer = {"amount": 5000, "twice": False}
    clock.forward(minutes=30)
    replay = authority.verify(decision["executionId"])
    assert (replay["valid"], replay["replay"]["outcome"]) == (True, "refund")
    assert len(ledger.asked) == 1
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        (record,) = database.execute("select record from executions").fetchone()
    assert '"amount":{"observedAt":"2026-11-30T09:00:00Z","source":"ledger","value":38}' in record


def test_freshness_counts_from_when_it_was_read(opening: Opening, clock: Clock) -> None:
    def slowly(_seconds: float) -> dict[str, Any]:
        clock.forward(minutes=20)
        return GOOD

    authority = opening({"ledger": Told(slowly)})
    decision = refund(authority)
    assert decision["decidedAt"] == "2026-11-30T09:20:00Z"
    assert decision["evidenceFreshUntil"] == "2026-11-30T10:00:00Z"


def test_a_clock_that_goes_back_makes_nothing_younger(opening: Opening, clock: Clock) -> None:
    def back(_seconds: float) -> dict[str, Any]:
        clock.forward(hours=-3)
        return GOOD

    decision = refund(opening({"ledger": Told(back)}))
    assert (decision["decidedAt"], decision["evidenceFreshUntil"]) == ("2026-11-30T06:00:00Z", "2026-11-30T07:00:00Z")


def test_what_is_looked_up_may_change(opening: Opening) -> None:
    ledger = Told(GOOD)
    authority = opening({"ledger": ledger})
    assert refund(authority)["outcome"]["id"] == "refund"
    ledger.answer = {"amount": 240, "twice": True}
    assert refund(authority)["outcome"]["id"] == "review"  # no caller has said otherwise than before
    other = {"topic": {"value": "outage", "source": "human"}}
    assert said(authority.decide("refund", entity_id="HC-1", evidence=other)) == ("undecided", ["evidence_changed"])


# ---------------------------------------------------------------- whatever goes wrong


@pytest.mark.parametrize(
    ("answer", "missing", "reason"),
    [
        ({}, ["amount", "twice"], "lacking"),
        ({"amount": 38}, ["twice"], "lacking"),
        ({"amount": 38, "twice": None}, ["twice"], "null"),
        ({"amount": "38", "twice": True}, ["amount"], "wrong_type"),
        ({"amount": True, "twice": True}, ["amount"], "wrong_type"),
        ({"amount": -1, "twice": True}, ["amount"], "wrong_type"),
        ({"amount": float("nan"), "twice": True}, ["amount"], "wrong_type"),
        ({"amount": 2**60, "twice": True}, ["amount"], "wrong_type"),
        ({"amount": object(), "twice": True}, ["amount"], "wrong_type"),
        ({"amount": 38, "twice": 1}, ["twice"], "wrong_type"),
        (None, ["amount", "twice"], "error"),
        (RuntimeError("s3cret"), ["amount", "twice"], "error"),
        (LookupFailed("not_found"), ["amount", "twice"], "not_found"),
    ],
)
def test_a_fact_that_cannot_be_read_leaves_the_case_undecided(
    opening: Opening, caplog: pytest.LogCaptureFixture, answer: Any, missing: list[str], reason: str
) -> None:
    authority = opening({"ledger": Told(answer)})
    decision = refund(authority)
    assert (said(decision), decision["missing"]) == (FAILED, missing)
    assert decision["nextStep"] == "Leave it to the desk."
    assert [record.getMessage() for record in caplog.records] == [f"the lookup ledger failed: {reason}"]
    assert authority.verify(decision["executionId"])["valid"]


def test_it_is_undecided_even_where_no_outcome_would_need_the_fact(opening: Opening) -> None:
    pack = LOOKED_UP.replace('facts.topic == "billing" && facts.twice && facts.amount < 100.0', "'!has(facts.amount)'")
    assert said(refund(opening({"ledger": Told({})}, pack))) == FAILED


def test_one_that_hangs_is_left_behind(opening: Opening) -> None:
    free = threading.Event()
    authority = opening(Lookups({"ledger": Told(lambda _seconds: free.wait(60))}, deadline=timedelta(seconds=0.05)))
    decision = refund(authority)
    assert (said(decision), decision["missing"]) == (FAILED, ["amount", "twice"])
    free.set()


def test_those_that_hang_use_up_their_own_threads_only(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    free, slow = threading.Event(), Told(lambda _seconds: free.wait(60))
    pack = LOOKED_UP.replace(
        "twice: {type: boolean, from: lookup, lookup: ledger}", "twice: {type: boolean, from: lookup, lookup: other}"
    )
    short = timedelta(seconds=0.05)
    lookups = Lookups(
        {"ledger": slow, "other": Told({"twice": True})}, deadline=short, settings={"ledger": Settings(timeout=short)}
    )
    authority = opening(lookups, pack)
    for _ in range(18):
        refund(authority)  # on a busy machine even the other one may be late here
    ends = monotonic() + 30
    while len(slow.asked) < 16 and monotonic() < ends:
        sleep(0.01)
    monkeypatch.setattr(lookups, "_deadline", 30.0)
    decision = refund(authority)
    assert (decision["missing"], len(slow.asked)) == (["amount"], 16)
    free.set()


def test_all_are_read_at_once(opening: Opening) -> None:
    together = threading.Barrier(2)

    def meet(answer: dict[str, Any]) -> Told:
        return Told(lambda seconds: together.wait(seconds) >= 0 and answer)

    pack = LOOKED_UP.replace(
        "twice: {type: boolean, from: lookup, lookup: ledger}", "twice: {type: boolean, from: lookup, lookup: other}"
    )
    authority = opening({"ledger": meet({"amount": 38}), "other": meet({"twice": True})}, pack)
    assert refund(authority)["outcome"]["id"] == "refund"


def test_the_database_can_be_written_while_facts_are_read(opening: Opening, tmp_path: Path) -> None:
    def meanwhile(_seconds: float) -> dict[str, Any]:
        if not done:
            done.append(True)
            done.append(refund(authority, "HC-2")["status"])
        return GOOD

    done: list[Any] = []
    authority = opening({"ledger": Told(meanwhile)}, db=tmp_path / "a.db")
    assert refund(authority)["status"] == "decided"
    assert done == [True, "decided"]


def test_a_release_published_meanwhile_is_the_one_that_decides(opening: Opening) -> None:
    def meanwhile(_seconds: float) -> dict[str, Any]:
        if len(ledger.asked) == 1:
            authority.publish(LOOKED_UP.replace('version: "1"', 'version: "2"').replace("100.0", "10.0"))
        return GOOD

    ledger = Told(meanwhile)
    authority = opening({"ledger": ledger})
    decision = refund(authority)
    assert (decision["release"], decision["outcome"]["id"]) == ("2", "review")
    assert len(ledger.asked) == 2


def test_releases_without_end_are_a_503(opening: Opening) -> None:
    def meanwhile(_seconds: float) -> dict[str, Any]:
        authority.publish(LOOKED_UP.replace('version: "1"', f'version: "{len(ledger.asked) + 1}"'))
        return GOOD

    ledger = Told(meanwhile)
    authority = opening({"ledger": ledger})
    assert refusal(refund, authority)[0] == 503
    assert len(ledger.asked) == 3


def test_a_repeated_request_gets_its_answer_without_another_look(opening: Opening) -> None:
    ledger = Told(GOOD)
    authority = opening({"ledger": ledger})
    first = refund(authority, idempotency_key="k")
    assert refund(authority, idempotency_key="k") == first
    assert len(ledger.asked) == 1


# ---------------------------------------------------------------- cache


def cached(ledger: Told) -> Lookups:
    # An hour: the cache's clock is the machine's.
    return Lookups({"ledger": ledger}, deadline=PATIENT, settings={"ledger": Settings(cache=timedelta(hours=1))})


def test_nothing_is_cached_unless_it_is_asked_for(opening: Opening) -> None:
    ledger = Told(GOOD)
    authority = opening({"ledger": ledger})
    refund(authority)
    refund(authority)
    assert len(ledger.asked) == 2


def test_a_cached_answer_keeps_its_time_and_its_case(opening: Opening, clock: Clock) -> None:
    ledger = Told(GOOD)
    authority = opening(cached(ledger))
    refund(authority)
    clock.forward(minutes=10)
    assert refund(authority)["evidenceFreshUntil"] == "2026-11-30T10:00:00Z"
    assert len(ledger.asked) == 1
    refund(authority, "HC-2")
    assert ledger.asked == [{"case_id": "HC-1"}, {"case_id": "HC-2"}]
    clock.forward(hours=1)
    assert said(refund(authority)) == ("undecided", ["evidence_stale"])


def test_a_failure_is_not_cached(opening: Opening) -> None:
    ledger = Told(LookupFailed("unreachable"))
    authority = opening(cached(ledger))
    assert said(refund(authority)) == FAILED
    ledger.answer = GOOD
    assert refund(authority)["status"] == "decided"


# ---------------------------------------------------------------- packs and configurations


UNKNOWN = "no lookup 'ledger' is configured"


@pytest.mark.parametrize("lookups", [None, {"other": Told(GOOD)}])
def test_a_pack_that_names_an_unknown_lookup_is_not_served(opening: Opening, lookups: Any) -> None:
    with pytest.raises(PackError) as caught:
        opening(lookups)
    assert [(each.line, each.column, each.detail) for each in caught.value.problems] == [
        (9, 64, UNKNOWN),
        (10, 52, UNKNOWN),
    ]


def test_it_is_not_published_either(opening: Opening) -> None:
    authority = opening({"ledger": Told(GOOD)})
    with pytest.raises(AuthorityError) as caught:
        authority.publish(LOOKED_UP.replace('version: "1"', 'version: "2"').replace("lookup: ledger", "lookup: ledgr"))
    assert caught.value.status == 422
    problem: Any = caught.value.problem
    assert problem["errors"][0] == {"line": 9, "column": 64, "detail": "no lookup 'ledgr' is configured"}


def test_a_current_release_that_looks_up_what_is_gone_is_not_served(opening: Opening, tmp_path: Path) -> None:
    plain = LOOKED_UP.replace("from: lookup, lookup: ledger", "from: caller").replace('version: "1"', 'version: "0"')
    opening({"ledger": Told(GOOD)}, plain, tmp_path / "a.db")
    opening({"ledger": Told(GOOD)}, LOOKED_UP, tmp_path / "a.db")
    with pytest.raises(ConfigurationError, match="current release 1, job refund, fact amount: no lookup 'ledger'"):
        opening(None, plain, tmp_path / "a.db")


def test_a_release_that_came_from_another_server_with_other_lookups_decides_nothing(
    opening: Opening, tmp_path: Path
) -> None:
    plain = LOOKED_UP.replace("from: lookup, lookup: ledger", "from: caller").replace('version: "1"', 'version: "0"')
    here = opening(None, plain, tmp_path / "a.db")
    there = opening({"ledger": Told(GOOD)}, LOOKED_UP, tmp_path / "a.db")
    assert refund(there)["status"] == "decided"
    assert said(refund(here)) == FAILED


def test_a_lookup_goes_by_the_case_and_its_key_only(opening: Opening) -> None:
    with pytest.raises(PackError, match="the lookup 'ledger' needs topic, vendor, no part of this job's key"):
        opening({"ledger": Told(GOOD, ["case_id", "vendor", "topic"])})


KEYED = """
pack: keyed
version: "1"
jobs:
  pay:
    title: Pay
    subject: {kind: invoice, identity: derived, key: [vendor, number]}
    input: fields
    fields: {vendor: {type: string}, number: {type: integer}, note: {type: string}}
    facts:
      due: {type: boolean, from: lookup, lookup: ledger}
    outcomes: [{id: pay, when: facts.due}]
    when_unresolved: {next_step: Wait.}
  open:
    title: Open
    subject: {kind: case, identity: issued}
    facts:
      due: {type: boolean, from: lookup, lookup: ledger}
    outcomes: [{id: pay, when: facts.due}]
    when_unresolved: {next_step: Wait.}
""".lstrip()


def test_the_parts_of_a_key_are_handed_over_as_they_are(opening: Opening) -> None:
    ledger = Told({"due": True})
    authority = opening({"ledger": ledger}, KEYED)
    decision = authority.decide("pay", fields={"vendor": "a:b", "number": 7.0, "note": "x"})
    assert decision["outcome"]["id"] == "pay"
    assert ledger.asked == [{"vendor": "a:b", "number": 7, "case_id": "a%3Ab:=7"}]


def test_an_issued_case_is_looked_up_by_the_id_that_the_answer_names(opening: Opening) -> None:
    ledger = Told({"due": True})
    authority = opening({"ledger": ledger}, KEYED)
    first = authority.decide("open")
    assert ledger.asked == [{"case_id": first["case"]["id"]}]
    assert authority.decide("open", entity_id=first["case"]["id"])["status"] == "decided"
    assert refusal(authority.decide, "open", entity_id="case_none")[0] == 422
    assert len(ledger.asked) == 2


def test_closing_closes_the_lookups(opening: Opening) -> None:
    ledger = Told(GOOD)
    with opening({"ledger": ledger}):
        assert not ledger.closed
    assert ledger.closed


JOB = read_release(LOOKED_UP).jobs["refund"]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(["amount", "twice", "other"]), anything) | anything)
def test_whatever_a_lookup_says_a_fact_is_of_its_type_or_missing(answer: Any) -> None:
    clock = Clock()
    reads = Lookups({"ledger": Told(answer)}, deadline=PATIENT).read(JOB.lookups, {"case_id": "1"}, clock)
    assert {*reads.values, *reads.failed} == {"amount", "twice"}
    assert not {*reads.values} & {*reads.failed}
    for name, (value, source, at) in reads.values.items():
        assert not list(JOB.facts[name].errors(value))
        assert (source, at) == ("ledger", clock.now)
