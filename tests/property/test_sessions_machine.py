"""A session over time, against a model of a few lines that says when a call may act."""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kit import SESSION, gate_for, reply_rule
from preaction import ActionGate
from preaction.testing import FakeAuthority, FakeClock
from preaction.wire.times import write_time

FRESH = timedelta(hours=1)
AGE = timedelta(hours=2)
TOOLS: dict[str, Literal["decision", "case"] | None] = {"reply": None, "reply_once": "decision", "close_once": "case"}
TEXTS = ("Hello.", "Good-bye.")
CASES = ("HC-1", "HC-2")

cases = st.sampled_from(CASES)
texts = st.sampled_from(TEXTS)


@dataclass
class Standing:
    """What stands on a case: the decision, when it was made, and whether it lets a reply be written."""

    decision: dict[str, Any] | None
    at: datetime
    allows: bool


class Session(RuleBasedStateMachine):
    """Records come in, time passes, calls are made: a call acts exactly when the model says that it may."""

    def __init__(self) -> None:
        super().__init__()
        logging.getLogger("preaction").setLevel(logging.CRITICAL)
        self.clock = FakeClock()
        self.authority = FakeAuthority(self.clock, fresh_for=FRESH)
        self.gate: ActionGate
        self.standing: dict[str, Standing] = {}
        self.passed: dict[tuple[str, str], bool] = {}
        self.used: set[tuple[str, str]] = set()

    @initialize(shared=st.booleans())
    def open_the_gate(self, shared: bool) -> None:
        tools = {
            tool: reply_rule(once=once, output_check=None if once == "case" else {"fields": ["body"]})
            for tool, once in TOOLS.items()
        }
        self.gate = gate_for(self.authority, tools, max_decision_age=AGE)
        if shared:  # what another session knows must make no difference
            self.gate.decisions.record("another chat", result=self.authority.decide("HC-1", outcome=None))

    def teardown(self) -> None:
        logging.getLogger("preaction").setLevel(logging.NOTSET)

    # What the authority's tools return --------------------------------------------------------------------------------

    @rule(case=cases, outcome=st.sampled_from(["billing-question", "refund-review", None]), late=st.integers(0, 90))
    def record_a_decision(self, case: str, outcome: str | None, late: int) -> None:
        """One made some minutes ago, so that it can be older than the one that stands."""
        at = self.clock.now - timedelta(minutes=late)
        decision = self.authority.decide(
            case, outcome=outcome, decidedAt=write_time(at), evidenceFreshUntil=write_time(at + FRESH)
        )
        self.gate.record_result(SESSION, "felspar__get_job_decision", {}, decision)
        held = self.standing.get(case)
        if held is None or at >= held.at:
            self.standing[case] = Standing(decision, at, outcome == "billing-question")

    @rule(case=cases, text=texts)
    def decide_and_check(self, case: str, text: str) -> None:
        """All that a reply needs, so that calls are allowed often enough to be denied for a reason."""
        self.record_a_decision(case, "billing-question", 0)
        self.check_a_text(case, text, True)

    @rule(case=cases)
    def record_one_that_can_not_be_read(self, case: str) -> None:
        decision = self.authority.decide(case)
        self.gate.record_result(SESSION, "felspar__get_job_decision", {}, {**decision, "outcome": "billing-question"})
        at = self.standing[case].at if case in self.standing else datetime.min.replace(tzinfo=self.clock.now.tzinfo)
        self.standing[case] = Standing(None, at, False)

    @rule(case=cases)
    def record_an_error(self, case: str) -> None:
        decision = self.authority.decide(case, outcome=None)
        self.gate.record_result(SESSION, "felspar__get_job_decision", {}, {**decision, "isError": True})

    @rule(case=cases, text=texts, passed=st.booleans())
    def check_a_text(self, case: str, text: str, passed: bool) -> None:
        held = self.standing.get(case)
        if held is not None and held.decision is not None:
            check = self.authority.check_output(held.decision, {"body": text}, passed=passed)
            self.gate.record_result(SESSION, "felspar__check_output", {}, check)
            self.passed[held.decision["executionId"], text] = passed

    @rule(minutes=st.sampled_from([1, 1, 20, 60]))
    def let_time_pass(self, minutes: int) -> None:
        self.clock.advance(minutes=minutes)

    # What an agent does -----------------------------------------------------------------------------------------------

    def may_act(self, tool: str, case: str, text: str) -> bool:
        """The model: decided, for this, fresh, the text passed, and not used up."""
        held = self.standing.get(case)
        if held is None or held.decision is None or not held.allows:
            return False
        if self.clock.now >= held.at + FRESH or self.clock.now - held.at >= AGE:
            return False
        execution = held.decision["executionId"]
        if TOOLS[tool] != "case" and not self.passed.get((execution, text), False):
            return False
        return (tool, execution if TOOLS[tool] == "decision" else case) not in self.used

    @rule(tool=st.sampled_from(sorted(TOOLS)), case=cases, text=texts)
    def act(self, tool: str, case: str, text: str) -> None:
        expected = self.may_act(tool, case, text)
        verdict = self.gate.check(SESSION, tool, {"ticketId": case, "body": text})
        assert verdict.allow == expected, verdict
        held = self.standing.get(case)
        if verdict.allow and TOOLS[tool] and held is not None and held.decision is not None:
            self.used.add((tool, held.decision["executionId"] if TOOLS[tool] == "decision" else case))

    @invariant()
    def a_preview_says_the_same_and_uses_nothing_up(self) -> None:
        for case in CASES:
            for tool in TOOLS:
                call = {"ticketId": case, "body": TEXTS[0]}
                assert self.gate.preview(SESSION, tool, call).allow == self.may_act(tool, case, TEXTS[0])
                assert not self.gate.preview("yet another chat", tool, call).allow


TestSession = Session.TestCase
