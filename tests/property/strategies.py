"""Good calls to spoil, and ways to spoil a value: what the property tests have in common."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from hypothesis import strategies as st

from kit import BODY, MAIL, REPLY, SESSION, TICKET, company, helpdesk, mail, reply
from preaction import ActionGate, Verdict
from preaction._core.facts import Describe, Verify, VerifyOutputCheck
from preaction.testing import FakeAuthority

Place: TypeAlias = tuple[str | int, ...]
Way: TypeAlias = Literal["thread", "loop"]
WAYS: tuple[Way, ...] = ("thread", "loop")


@dataclass(slots=True)
class Scene:
    """A call that is allowed as it stands, before its records were made: any part can be spoilt first."""

    gate: ActionGate
    authority: FakeAuthority
    tool: str
    arguments: dict[str, Any]
    decision: dict[str, Any]
    check: dict[str, Any]
    session: object = SESSION
    recorded: list[tuple[Callable[..., None], Any]] = field(default_factory=list)

    def record(self) -> "Scene":
        """Record the decision and the output check, as they are by now."""
        self.gate.decisions.record(SESSION, result=self.decision)
        self.gate.output_checks.record(SESSION, self.check)
        return self

    async def verdict(self, way: Way) -> Verdict:
        """What the gate says, by `check` or `acheck`."""
        if way == "thread":
            return self.gate.check(self.session, self.tool, self.arguments)  # type: ignore[arg-type]
        return await self.gate.acheck(self.session, self.tool, self.arguments)  # type: ignore[arg-type]

    @property
    def asks(self) -> dict[str, Verify | Describe | VerifyOutputCheck]:
        """The three questions that this call puts to the authority."""
        return {
            "replay": Verify(self.decision["executionId"]),
            "description": Describe(self.authority.job, self.authority.release),
            "output-check verification": VerifyOutputCheck(self.check["checkId"]),
        }


def ticket_scene(**options: Any) -> Scene:
    """A reply on a ticket that a field names."""
    gate, authority = helpdesk(**options)
    return _scene(gate, authority, REPLY, reply(), TICKET)


def company_scene(**options: Any) -> Scene:
    """A mail to a company that its recipients tell."""
    gate, authority = company(**options)
    return _scene(gate, authority, MAIL, mail(), "acme.example")


def _scene(
    gate: ActionGate, authority: FakeAuthority, tool: str, arguments: dict[str, Any], case: str, **changes: Any
) -> Scene:
    decision = authority.decide(case, **changes)
    return Scene(gate, authority, tool, arguments, decision, authority.check_output(decision, {"body": BODY}))


def entity_scene(**options: Any) -> Scene:
    """A reply on a ticket that is known by another id than its case."""
    gate, authority = helpdesk(**options)
    return _scene(gate, authority, REPLY, reply(), "case_1", entity_id=TICKET)


SCENES: Mapping[str, Callable[..., Scene]] = {
    "ticket": ticket_scene,
    "entity": entity_scene,
    "company": company_scene,
}


# Tampering ------------------------------------------------------------------------------------------------------------

REMOVED = object()

Kind: TypeAlias = Literal[
    "another", "later", "null", "empty", "'false'", "'true'", "0", "1", "flipped", "a list", "an object", "bigger",
    "an unknown field", "removed",
]  # fmt: skip


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every place in a JSON value, at every depth, the top left out."""
    inner: Sequence[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    for name, item in inner:
        yield (*at, name)
        yield from places(item, (*at, name))


def dotted(place: Place) -> str:
    """`replay.case.id`, `outcomes[0].id`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")


def spoilt(value: Any) -> dict[Kind, Any]:
    """What `value` is changed into, by the kind of change; only changes that make a difference."""
    changes: dict[Kind, Any] = {
        "null": None,
        "'false'": "false",
        "'true'": "true",
        "0": 0,
        "1": 1,
        "a list": [value],
        "an object": {"id": value},
        "removed": REMOVED,
    }
    match value:
        case bool():
            changes["flipped"] = not value
        case str():
            changes |= {"another": f"another-{value}", "empty": "", "flipped": True, "bigger": value + "x"}
            if _is_time(value):
                changes |= {"another": f"2025{value[4:]}", "later": value.replace("00:00Z", "01:00Z")}
        case list():
            changes |= {"empty": [], "bigger": [*value, *(value or ["x"])]}
        case dict():
            changes |= {"empty": {}, "an unknown field": {**value, "unknown": 1}}
        case None:
            changes |= {"another": "x"}
    return {kind: change for kind, change in changes.items() if type(change) is not type(value) or change != value}


def _is_time(text: str) -> bool:
    return text.startswith("2026-") and text.endswith("00:00Z")


def replaced(value: Any, place: Place, change: Any) -> Any:
    """A copy of `value` with `change` at `place`."""
    first, *rest = place
    copy: Any = list(value) if isinstance(value, list) else dict(value)
    if rest:
        copy[first] = replaced(value[first], tuple(rest), change)
    elif change is REMOVED:
        del copy[first]
    else:
        copy[first] = change
    return copy


# Anything ------------------------------------------------------------------------------------------------------------

names = st.sampled_from(["ticketId", "body", "to", "subject", "case", "id", "valid", "job", "content", "isError"])
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from([TICKET, BODY]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.text(max_size=6), inner, max_size=4),
    max_leaves=10,
)
