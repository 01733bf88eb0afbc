"""From a line of `calls.jsonl` to a gate, its session and its authority."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from preaction import ActionGate, Verdict, create_action_gate
from preaction.errors import InvalidJSON
from preaction.stores.memory import MemoryStore
from preaction.testing import FakeAuthority
from preaction.wire import strict_json

COMPANY = {"kind": "company", "identity": "provided", "match": "case-insensitive"}
TICKET = {"kind": "ticket", "identity": "provided", "match": "exact"}
OUTPUT = "billing-team-reply"

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parent / "calls.jsonl").read_text("ascii").splitlines())
}


def arguments_of(given: Mapping[str, Any]) -> object:
    """What the gate is handed: parsed arguments, or None for a text that isn't strict JSON."""
    if "args" in given:
        return given["args"]
    text = given["args_raw"] if "args_raw" in given else _evaluated(given["args_py"])
    try:
        return strict_json.loads(text, max_bytes=given.get("limits", {}).get("max_argument_bytes", 1 << 18))
    except InvalidJSON:
        return None


def _evaluated(expression: str) -> str:
    text = eval(expression, {"__builtins__": {}, "chr": chr})
    assert isinstance(text, str)
    return text


def tools_of(given: Mapping[str, Any], **more: Any) -> dict[str, dict[str, Any]]:
    """The rules of a case: `allowed_fields` are a rule's `fields`; the decision says whether a field names the case."""
    policy = given.get("policy", {"allowed_fields": ["to", "subject", "body"]})
    tools = policy.get("tools", {given["tool"]: policy})
    return {name: {**_rule(rule, given.get("decision", {})), **more} for name, rule in tools.items()}


def _rule(policy: Mapping[str, Any], decision: Mapping[str, Any]) -> dict[str, Any]:
    named = {"allowed_fields": "fields"}
    rule: dict[str, Any] = {"writes": OUTPUT, **{named.get(name, name): value for name, value in policy.items()}}
    record = decision.get("case", {}).get("record")
    if record is not None:
        rule["entity"] = {"field": record["field"]}
    if "checked_text" in decision:
        rule["output_check"] = {"fields": ["body"]}
    return rule


def case_of(decision: Mapping[str, Any]) -> str:
    """The id that was decided on."""
    case = decision["case"]
    return str(case["record"]["id"] if "record" in case else case["company"])


@dataclass
class World:
    """One company's authority for tickets and one for companies, and a gate for each, over one store."""

    options: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)
    store: MemoryStore = field(default_factory=MemoryStore)
    tickets: FakeAuthority = field(default_factory=lambda: FakeAuthority(subject=TICKET))
    companies: FakeAuthority = field(default_factory=lambda: FakeAuthority(job="answer-company", subject=COMPANY))
    recorded: list[tuple[FakeAuthority, Any]] = field(default_factory=list)

    def authority(self, given: Mapping[str, Any]) -> FakeAuthority:
        """The one whose job decides on the kind of case that this call is about."""
        return self.tickets if "record" in given.get("decision", {}).get("case", {}) else self.companies

    def gate(self, given: Mapping[str, Any]) -> ActionGate:
        """The gate of a case. Tools without a rule count as denied."""
        authority = self.authority(given)
        options = {
            "job": authority.job,
            "tools": tools_of(given, **self.rules),
            "verify": authority,
            "describe": authority,
            "verify_output_check": authority,
            "unlisted": "deny",
            "clock": authority.clock,
            "store": self.store,
            "test_recipients": given.get("test_recipients"),
        }
        return create_action_gate(**{**options, **self.options})

    def record(self, gate: ActionGate, given: Mapping[str, Any]) -> None:
        """The decision of a case, and the check of its text. A decision that stands already isn't made again."""
        decision = given.get("decision")
        authority = self.authority(given)
        if decision is None or (authority, decision) in self.recorded:
            return
        self.recorded.append((authority, decision))
        session = session_of(given)
        made = authority.decide(case_of(decision))
        gate.decisions.record(session, result=made)
        if "checked_text" in decision and _encodable(decision["checked_text"]):
            gate.output_checks.record(session, authority.check_output(made, {"body": decision["checked_text"]}))

    def check(self, given: Mapping[str, Any]) -> Verdict:
        """Decide, check the text, and propose the call."""
        gate = self.gate(given)
        self.record(gate, given)
        return gate.check(session_of(given), given["tool"], arguments_of(given))  # type: ignore[arg-type]


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def session_of(given: Mapping[str, Any]) -> str:
    """The session of a step."""
    return str(given.get("session", "s-1"))


def shared_parents(addresses: Sequence[str]) -> Iterator[str]:
    """Every name that all of these addresses' domains equal or lie under: what a bad gate could take for a company."""
    hosts = [address.rpartition("@")[2].lower().split(".") for address in addresses]
    for length in range(1, min(map(len, hosts)) + 1):
        tails = {tuple(host[-length:]) for host in hosts}
        if len(tails) == 1:
            yield ".".join(tails.pop())
