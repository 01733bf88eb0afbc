"""F14 over generated ways: however runs, deferrals, processes and forgers mix, each act is done once, as decided."""

import copy
import json
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from preaction.preflight import MemoryStorage, State, create_preflight
from preflight.bank import INSTRUCTION, TRANSFER, hooks
from preflight.test_signing import SECRET, altered

accounts = st.sampled_from(["1", "22", "333"])
sides = st.integers(0, 1)


class Acts(RuleBasedStateMachine):
    """Two preflights, as two processes have them, over one storage. An act is a state, or a deferred record."""

    states, deferred = Bundle("states"), Bundle("deferred")

    def __init__(self) -> None:
        super().__init__()
        self.storage = MemoryStorage()
        self.case = "immediate"
        given = hooks(classify_when_case=lambda instruction: self.case)
        self.sides = [create_preflight(hooks=given, storage=self.storage, secret=SECRET) for _ in range(2)]
        self.calls: Counter[str] = Counter()
        self.called: str | None = None
        self.put_off_as: dict[str | None, str] = {}

    def call_tool(self, fails: bool) -> Any:
        def call(name: str, arguments: dict[str, Any]) -> str:
            self.called = json.dumps(arguments, sort_keys=True)
            if fails:
                raise ConnectionError
            return "receipt"

        return call

    def run(self, side: int, account: str | None) -> State:
        answers = {} if account is None else {"to_account": account}
        settled = {"from_account": {"value": "1102534471", "trust": "user"}}
        given: dict[str, Any] = {
            "user_id": "u_01",
            "instruction": INSTRUCTION,
            "tool": TRANSFER,
            "pre_set_data": settled,
        }
        return self.sides[side].run_and_record_sync(user_answers=answers, **given)

    @rule(target=states, side=sides, account=st.none() | accounts)
    def decide(self, side: int, account: str | None) -> State:
        self.case = "immediate"
        return self.run(side, account)

    @rule(target=deferred, side=sides, account=accounts)
    def put_off(self, side: int, account: str) -> dict[str, Any]:
        self.case = "scheduled"
        return self.run(side, account).to_json()

    @rule(target=states, side=sides, record=deferred)
    def resume(self, side: int, record: dict[str, Any]) -> State:
        settled = {"from_account": {"value": "1102534471", "trust": "user"}}
        state = self.sides[side].resume_sync(copy.deepcopy(record), tool=TRANSFER, pre_set_data=settled)
        self.put_off_as[state.signature] = json.dumps(record)
        return state

    @rule(state=states, data=st.data())
    def forge(self, state: State, data: st.DataObject) -> None:
        """An altered record under a good signature; a signature of another state; none."""
        record = data.draw(st.sampled_from([one for one in altered(state.to_json()) if isinstance(one, dict)]))
        forged = State(json.dumps(record), state.signature)
        kinds = [forged, State.from_json(state.to_json()), replace(state, signature=f"0.{state.signature}")]
        for one in kinds:
            self.execute(0, one, fails=False, good=False)

    @rule(side=sides, state=states, fails=st.booleans())
    def execute(self, side: int, state: State, fails: bool, good: bool = True) -> None:
        self.called = None
        tried = self.sides[side].execute_if_ready_sync(state, TRANSFER, self.call_tool(fails))
        if self.called is None:
            assert tried.status == "held"
            return
        assert good
        assert tried.status == ("failed" if fails else "executed")
        fields = {one["name"]: one["value"] for one in state.fields or ()}
        assert (state.execution_decision, self.called) == ("execute", json.dumps(fields, sort_keys=True))
        self.calls[self.put_off_as.get(state.signature, str(state.signature))] += 1

    @invariant()
    def each_act_is_done_once_and_recorded(self) -> None:
        assert set(self.calls.values()) <= {1}
        ended = [one for one in self.storage.records() if one["execution_decision"] in ("executed", "failed")]
        assert len(ended) == len(self.calls)


TestActs = Acts.TestCase
TestActs.settings = settings(stateful_step_count=10)
