"""Whatever is proposed, confirmed, changed, retried or cut off, in whatever order: an act happens once, and as agreed.

The machine keeps its own book of what a person agreed to and of what came to the tool; the rules hold after every step.
"""

import asyncio
import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pipeline.office import CONTEXT, READ_SCHEMA, WRITE_SCHEMA, Office
from preaction.pipeline import Command, ConfirmationError, Limits, NothingSent, Outcome, PublicToolError
from preaction.pipeline.schema import InputSchema
from preaction.stores.memory import MemoryStore

SCHEMAS = {"get_invoice": InputSchema(READ_SCHEMA), "approve_invoice": InputSchema(WRITE_SCHEMA)}
NAMES = st.sampled_from(["invoice_id", "status", "part", "reason", "tenant_id", "x"])
VALUES = st.sampled_from(["inv_481", "inv_900", "approved", "rejected", "head", "paid", 7, None, ["a"]])
LIKELY = st.dictionaries(NAMES, VALUES, max_size=4)
RAW = st.one_of(
    st.binary(max_size=80), st.text(max_size=80), LIKELY, LIKELY.map(json.dumps), st.none(), st.just(object())
)


@given(st.sampled_from([*SCHEMAS, "other"]), RAW, st.booleans())
def test_p01_p02_whatever_is_proposed_nothing_raises_and_nothing_unvalidated_reaches_a_tool(
    name: str, raw: Any, in_a_loop: bool
) -> None:
    office = Office(tools={"approve_invoice": {"confirm": False}})
    outcome = asyncio.run(office.apropose(name, raw)) if in_a_loop else office.propose(name, raw)
    assert isinstance(outcome, Outcome)
    assert outcome.for_model
    for command in [*office.reads, *office.acts]:
        assert SCHEMAS[command.tool].check(command.arguments) == command.arguments
        assert command.objects["invoice"]["tenant"] == CONTEXT.tenant
    assert office.calls == (1 if outcome.code == "executed" else 0)
    assert len(office.audit.records()) == 1


class Crash(BaseException):
    """The process ends here."""


CHOICES = st.builds(
    lambda invoice, status: {"invoice_id": invoice, "status": status},
    st.sampled_from(["inv_481", "inv_900"]),
    st.sampled_from(["approved", "rejected"]),
)


HOW = ["works", "refuses", "not sent", "fails before", "fails after", "interrupted after", "killed after", "can't tell"]


class Machine(RuleBasedStateMachine):
    """One request's writes, each known by its arguments; invoice 900 needs a confirmation.

    What the tool finds wrong it only notes, since whatever it raised would be taken for its own failure.
    """

    def __init__(self) -> None:
        super().__init__()
        self.how = "works"
        self.begun: list[str] = []
        self.done: list[str] = []
        self.agreed: Counter[str] = Counter()
        self.waiting: dict[str, str] = {}
        self.arguments: dict[str | None, str] = {}
        self.store = MemoryStore()
        self.office = self.another()

    def another(self) -> Office:
        tools = {"approve_invoice": {"run": self.run_tool, "reconcile": self.reconcile}}
        return Office(tools=tools, store=self.store, limits=Limits(calls_per_run=10_000))

    @rule()
    def restart(self) -> None:
        """Another process, with the same store and a clock that goes on."""
        now = self.office.clock.now
        self.office = self.another()
        self.office.clock.now = now

    def run_tool(self, command: Command) -> Any:
        act = json.dumps(command.arguments, sort_keys=True)
        self.begun.append(act)
        self.arguments[command.idempotency_key] = act
        if self.how == "refuses":
            raise PublicToolError("closed")
        if self.how == "not sent":
            raise NothingSent
        if self.how == "fails before":
            raise RuntimeError
        self.done.append(act)
        if self.how == "fails after":
            raise RuntimeError
        if self.how == "killed after":  # nothing of the pipeline's own runs any more
            self.office.pipeline._leave = lambda work, ending: ending  # type: ignore[method-assign]
        if self.how in ("interrupted after", "killed after"):
            raise Crash
        return {"id": command.arguments["invoice_id"], "status": command.arguments["status"]}

    def reconcile(self, key: str) -> Any:
        """The system behind knows what was done under a key."""
        if self.how == "can't tell":
            raise RuntimeError
        return {"id": "x", "status": "done"} if self.arguments.get(key) in self.done else None

    @rule(arguments=CHOICES, call_id=st.sampled_from(["a", "b"]), in_a_loop=st.booleans())
    def propose(self, arguments: dict[str, Any], call_id: str, in_a_loop: bool) -> None:
        act, before = json.dumps(arguments, sort_keys=True), len(self.done)
        try:
            if in_a_loop:
                outcome = asyncio.run(self.office.apropose("approve_invoice", arguments, call_id=call_id))
            else:
                outcome = self.office.write(arguments, call_id=call_id)
        except Crash:
            assert self.how in ("interrupted after", "killed after")
            self.restart()
            return
        assert outcome.code != "internal"
        if outcome.confirmation is not None:
            self.waiting[act] = outcome.confirmation.id
        if outcome.disposition == "execute":
            assert act in self.done
        if "nothing was done" in outcome.for_model:
            assert len(self.done) == before

    @rule(arguments=CHOICES)
    def agree(self, arguments: dict[str, Any]) -> None:
        act = json.dumps(arguments, sort_keys=True)
        if (waiting := self.waiting.pop(act, None)) is not None:
            try:
                self.office.pipeline.confirmations.approve(waiting, by="u_9")
            except ConfirmationError:  # it ran out, or another one took its place
                return
            self.agreed[act] += 1

    @rule(how=st.sampled_from(HOW))
    def change(self, how: str) -> None:
        self.how = how

    @rule(seconds=st.sampled_from([1, 60, 1000]))
    def wait(self, seconds: int) -> None:
        self.office.clock.advance(seconds=seconds)

    @invariant()
    def nothing_was_done_twice(self) -> None:
        assert len(set(self.done)) == len(self.done)

    @invariant()
    def nothing_large_was_begun_that_nobody_had_agreed_to(self) -> None:
        large = Counter(act for act in self.begun if "inv_900" in act)
        assert large <= self.agreed


TestMachine = Machine.TestCase
TestMachine.settings = settings(stateful_step_count=30)
