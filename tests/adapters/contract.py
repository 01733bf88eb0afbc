"""The contract that every adapter keeps (A9): one table of situations, run in every runtime.

A runtime's test module brings a `Harness`, which plays a scripted model in the real runtime, and inherits the rows:

    class TestLangchain(Contract):
        harness = LangchainHarness()

Rows that only one runtime has (its own hooks, traps and bypasses) stand in its module.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from preaction import ActionGate, create_action_gate, denial_text
from preaction.adapters._bridge import FAILED
from preaction.testing import FakeAuthority

SESSION = "chat-7"
TICKET, OTHER = "HC-1201", "HC-9999"
BODY = "Hello, line 3 is the service fee. The billing team"

REPLY, DECIDE, CHECK, LOOK = "helpdesk_reply", "get_job_decision", "check_output", "look_up"

RULE: dict[str, Any] = {
    "writes": "billing-team-reply",
    "entity": {"field": "ticket_id"},
    "fields": ["ticket_id", "body"],
    "output_check": {"fields": ["body"]},
}


@dataclass(frozen=True)
class ToolCall:
    """One call that the scripted model makes; `arguments` is a mapping, or a text for what a model gets wrong."""

    name: str
    arguments: Mapping[str, Any] | str


@dataclass
class Transcript:
    """What the model was given back, in the order of the calls, and whether the loop went on to its end."""

    told: list[str]
    ended: bool = True


@dataclass
class Desk:
    """A help desk with four tools, real bodies, and a gate before one of them; `ran` are the bodies that ran."""

    authority: FakeAuthority = field(default_factory=FakeAuthority)
    ran: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    decide_fails: bool = False
    decided: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gate: ActionGate = create_action_gate(
            job=self.authority.job,
            decision_tool=DECIDE,
            output_check_tool=CHECK,
            **{
                "tools": {REPLY: RULE},
                "verify": self.authority,
                "describe": self.authority,
                "verify_output_check": self.authority,
                "clock": self.authority.clock,
                "deadline_s": 30,  # no test waits for it; what hangs on purpose has a shorter one
                **self.options,
            },
        )

    # The bodies. A harness makes its runtime's tools from them: same names, parameters and types.

    def helpdesk_reply(self, ticket_id: str, body: str) -> str:
        """Send a reply on a ticket."""
        self.ran.append((REPLY, {"ticket_id": ticket_id, "body": body}))
        return f"sent on {ticket_id}"

    def get_job_decision(self, entity_id: str) -> dict[str, Any]:
        """Ask for a decision on a ticket."""
        self.ran.append((DECIDE, {"entity_id": entity_id}))
        if self.decide_fails:
            raise RuntimeError("the decision service is down")
        self.decided = self.authority.decide(entity_id)
        return self.decided

    def check_output(self, body: str) -> dict[str, Any]:
        """Have a text checked for the latest decision."""
        self.ran.append((CHECK, {"body": body}))
        return self.authority.check_output(self.decided, {"body": body})

    def look_up(self, ticket_id: str) -> str:
        """Read a ticket."""
        self.ran.append((LOOK, {"ticket_id": ticket_id}))
        return f"{ticket_id}: a question on an invoice"

    @property
    def bodies(self) -> list[Callable[..., Any]]:
        """The four tools, as plain functions."""
        return [self.helpdesk_reply, self.get_job_decision, self.check_output, self.look_up]

    def replies(self) -> list[dict[str, Any]]:
        """The arguments with which the gated body ran."""
        return [arguments for tool, arguments in self.ran if tool == REPLY]

    def prepared(self) -> "Desk":
        """With a decision and a passed check on record, so that the right reply is allowed."""
        decision = self.authority.decide(TICKET)
        self.gate.decisions.record(SESSION, result=decision)
        self.gate.output_checks.record(SESSION, self.authority.check_output(decision, {"body": BODY}))
        return self

    def denial(self, **arguments: Any) -> str:
        """Exactly what a model must be shown for this reply, as things stand."""
        verdict = self.gate.preview(SESSION, REPLY, arguments)
        assert not verdict.allow
        return denial_text(verdict)


class Harness:
    """A scripted model in a real runtime."""

    modes: Sequence[str] = ("async",)
    """How the runtime can be driven: any of `sync`, `async`, `stream`."""

    shows_plain_text = True
    """Whether the model is given the denial as it is, or inside something of the runtime's (then `told` unwraps it)."""

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        """Play `turns` (the calls of one turn are made at once), then a final answer."""
        raise NotImplementedError


def reply(ticket_id: str = TICKET, body: str = BODY, **more: Any) -> ToolCall:
    return ToolCall(REPLY, {"ticket_id": ticket_id, "body": body, **more})


class Contract:
    """The rows. Every subclass runs each of them in every mode of its harness."""

    harness: Harness

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "mode" in metafunc.fixturenames:
            metafunc.parametrize("mode", self.harness.modes)

    def test_a03_allowed_the_body_runs_once_with_what_was_checked(self, mode: str) -> None:
        desk = Desk().prepared()
        seen = self.harness.run(desk, [[reply()]], mode=mode)
        assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
        assert f"sent on {TICKET}" in seen.told[0]
        assert seen.ended

    def test_a03_denied_the_body_does_not_run_and_the_model_reads_exactly_the_denial(self, mode: str) -> None:
        desk = Desk().prepared()
        seen = self.harness.run(desk, [[reply(OTHER)]], mode=mode)
        assert desk.replies() == []
        assert seen.told == [desk.denial(ticket_id=OTHER, body=BODY)]
        assert seen.ended

    def test_a03_the_loop_goes_on_after_many_denials(self, mode: str) -> None:
        desk = Desk().prepared()
        seen = self.harness.run(desk, [[reply(OTHER)]] * 5 + [[reply()]], mode=mode)
        assert len(desk.replies()) == 1
        assert seen.told[:5] == [desk.denial(ticket_id=OTHER, body=BODY)] * 5
        assert seen.ended

    def test_a03_an_extra_field_is_denied_or_never_reaches_the_gate(self, mode: str) -> None:
        desk = Desk().prepared()
        seen = self.harness.run(desk, [[reply(attachment_url="https://files.example/x")]], mode=mode)
        assert all(run == {"ticket_id": TICKET, "body": BODY} for run in desk.replies())
        assert seen.told[0]

    def test_a04_decision_and_check_are_recorded_from_the_runtime_s_own_results(self, mode: str) -> None:
        desk = Desk()
        turns = [
            [reply()],
            [ToolCall(DECIDE, {"entity_id": TICKET})],
            [reply()],
            [ToolCall(CHECK, {"body": BODY})],
            [reply()],
        ]
        seen = self.harness.run(desk, turns, mode=mode)
        assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
        assert "no decision" in seen.told[0]
        assert "no output check" in seen.told[2]
        assert f"sent on {TICKET}" in seen.told[4]

    def test_a04_a_decision_tool_that_fails_records_nothing(self, mode: str) -> None:
        desk = Desk(decide_fails=True)
        self.harness.run(desk, [[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]], mode=mode)
        assert desk.replies() == []
        assert desk.denial(ticket_id=TICKET, body=BODY).startswith("Denied, nothing was done: no decision")

    def test_a05_a_decision_of_the_same_batch_does_not_count(self, mode: str) -> None:
        """One after the other they have all that the act needs, and side by side as well: only the turn denies."""
        desk = Desk()
        desk.decided = desk.authority.decide(TICKET)  # not on record; where tools run side by side, what is checked for
        turn = [ToolCall(DECIDE, {"entity_id": TICKET}), ToolCall(CHECK, {"body": BODY}), reply()]
        seen = self.harness.run(desk, [turn], mode=mode)
        assert desk.replies() == []
        assert seen.told[2].startswith("Denied, nothing was done: no decision")

    def test_a06_without_a_session_the_call_is_denied_and_says_what_is_missing(self, mode: str) -> None:
        desk = Desk().prepared()
        seen = self.harness.run(desk, [[reply()]], mode=mode, session=None)
        assert desk.replies() == []
        assert "session" in seen.told[0]

    def test_a02_a_gate_that_raises_denies_with_a_text(self, mode: str) -> None:
        desk = Desk().prepared()
        fail = RuntimeError("secret")

        def broken(*_: Any, **__: Any) -> Any:
            raise fail

        desk.gate.check = desk.gate.acheck = broken  # type: ignore[method-assign]
        seen = self.harness.run(desk, [[reply()]], mode=mode)
        assert desk.replies() == []
        assert seen.told == [FAILED]

    def test_a02_a_gate_that_hangs_denies_in_time(self, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
        # The gate's own deadline is meant: on a busy machine the bridge's, a second later, could come first.
        monkeypatch.setattr(ActionGate, "time_limit_s", property(lambda _: 60.0))
        release = threading.Event()
        desk = Desk(options={"verify": lambda _: release.wait(60), "deadline_s": 0.5}).prepared()
        try:
            seen = self.harness.run(desk, [[reply()]], mode=mode)
        finally:
            release.set()
        assert desk.replies() == []
        assert "did not answer in time" in seen.told[0]

    @pytest.mark.parametrize("text", ["{bad", "[1]", "null", '"text"', '{"ticket_id": NaN}'])
    def test_a02_malformed_arguments_never_run(self, mode: str, text: str) -> None:
        desk = Desk().prepared()
        self.harness.run(desk, [[ToolCall(REPLY, text)]], mode=mode)
        assert desk.replies() == []

    def test_tools_without_a_rule_run_as_before(self, mode: str) -> None:
        desk = Desk()
        seen = self.harness.run(desk, [[ToolCall(LOOK, {"ticket_id": TICKET})]], mode=mode)
        assert desk.ran == [(LOOK, {"ticket_id": TICKET})]
        assert "a question on an invoice" in seen.told[0]

    def test_two_allowed_and_denied_calls_of_one_turn_each_meet_their_own_verdict(self, mode: str) -> None:
        desk = Desk().prepared()
        seen = self.harness.run(desk, [[reply(), reply(OTHER)]], mode=mode)
        assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
        assert f"sent on {TICKET}" in seen.told[0]
        assert seen.told[1] == desk.denial(ticket_id=OTHER, body=BODY)

    def test_the_right_call_after_a_denial_is_allowed(self, mode: str) -> None:
        desk = Desk().prepared()
        seen = self.harness.run(desk, [[reply(body="Another text.")], [reply()]], mode=mode)
        assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
        assert "check_output" in seen.told[0]


def as_json(arguments: Mapping[str, Any] | str) -> str:
    """A model's arguments as the text that it sends."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
