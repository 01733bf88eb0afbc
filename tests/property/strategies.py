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
    """A call that is allowed once its records are made; any part can be spoilt first, or afterwards.

    `asks` are the three questions that it puts to the authority as long as nothing is spoilt.
    """

    gate: ActionGate
    authority: FakeAuthority
    tool: str
    arguments: dict[str, Any]
    decision: dict[str, Any]
    check: dict[str, Any]
    session: object = SESSION
    asks: dict[str, Verify | Describe | VerifyOutputCheck] = field(init=False)

    def __post_init__(self) -> None:
        self.asks = {
            "replay": Verify(self.decision["executionId"]),
            "description": Describe(self.authority.job, self.authority.release),
            "output-check verification": VerifyOutputCheck(self.check["checkId"]),
        }

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


# Good calls -----------------------------------------------------------------------------------------------------------

Sources: TypeAlias = Literal["one source", "plain functions", "coroutine functions", "objects with both"]


@dataclass(frozen=True, slots=True)
class GoodCall:
    """A recipe for a call that must be allowed: which rule, which spelling, which company it keeps."""

    scene: str
    rule: Mapping[str, Any]
    options: Mapping[str, Any]
    arguments: Mapping[str, Any]
    sources: Sources
    others: int
    minutes: int
    skew_s: int

    @property
    def checks_text(self) -> bool:
        """Whether its rule asks for a checked text."""
        return self.rule.get("output_check", {}) is not None

    def make(self) -> Scene:
        """The scene, nothing recorded yet; made anew it is the same again."""
        authority = _authority(self.scene)
        options = {**self.options, **sources_of(authority, self.sources)}
        scene = SCENES[self.scene](authority=authority, rule=self.rule, **options)
        scene.arguments = dict(self.arguments)
        return scene

    def record(self, scene: Scene) -> None:
        """Other cases in this session and this case in others; then the decision and the check; then time passes."""
        for number in range(self.others):
            other = f"firm{number}.example" if self.scene == "company" else f"HC-other-{number}"
            scene.gate.decisions.record(SESSION, result=scene.authority.decide(other, outcome=None))
        scene.gate.decisions.record("another chat", result=scene.authority.decide("elsewhere.example"))
        scene.record()
        scene.authority.clock.advance(minutes=self.minutes)


def _authority(scene: str) -> FakeAuthority:
    return company()[1] if scene == "company" else FakeAuthority()


def sources_of(authority: FakeAuthority, kind: Sources) -> dict[str, Any]:
    """The three callables of a gate over `authority`, in one of the forms that they may have."""
    if kind == "one source":
        return {}

    def function(kind_of_ask: Callable[..., Any]) -> Callable[..., object]:
        def ask_it(*asked: str) -> object:
            ask = kind_of_ask(*asked)
            return authority.fetch([ask], 1.0)[ask]

        return ask_it

    def acall(kind_of_ask: Callable[..., Any]) -> Callable[..., Any]:
        async def ask_it(*asked: str) -> object:
            return function(kind_of_ask)(*asked)

        return ask_it

    class Both:
        def __init__(self, kind_of_ask: Callable[..., Any]) -> None:
            self._function, self.acall = function(kind_of_ask), acall(kind_of_ask)

        def __call__(self, *asked: str) -> object:
            return self._function(*asked)

    form = {"plain functions": function, "coroutine functions": acall, "objects with both": Both}[kind]
    return {"verify": form(Verify), "describe": form(Describe), "verify_output_check": form(VerifyOutputCheck)}


@st.composite
def good_calls(draw: st.DrawFn) -> GoodCall:
    """Any of the calls that a gate has to allow."""
    scene = draw(st.sampled_from(sorted(SCENES)))
    rule: dict[str, Any] = {}
    arguments = dict(draw(_mails if scene == "company" else _replies))
    text: dict[str, Any] | None = draw(st.sampled_from([None, {"fields": ["body"]}]))
    if draw(st.booleans()):
        rule |= {
            "writes": None,
            "outcomes": draw(st.sampled_from([["billing-question"], ["other", "billing-question"]])),
        }
        text = text and {**text, **draw(st.sampled_from([{}, {"output": "billing-team-reply"}]))}
    rule |= {"output_check": text, "once": draw(st.sampled_from([None, "decision", "case"]))}
    if draw(st.booleans()):
        rule["fixed"] = {"public": False}
        arguments["public"] = False
    if draw(st.booleans()):
        rule["null_only"] = ["attachmentUrl"]
        arguments |= draw(st.sampled_from([{}, {"attachmentUrl": None}]))
    releases = draw(st.sampled_from([None, ["2026-11-03.1"], ["2026-11-03.1", "2026-11-03.2"]]))
    options = {"releases": releases, "unlisted": draw(st.sampled_from(["allow", "deny"]))}
    options |= draw(st.sampled_from([{}, {"refuse_fields": ["internal"]}]))
    return GoodCall(
        scene=scene,
        rule=rule,
        options=options,
        arguments=arguments,
        sources=draw(st.sampled_from(["one source", "plain functions", "coroutine functions", "objects with both"])),
        others=draw(st.integers(0, 2)),
        minutes=draw(st.integers(0, 58)),
        skew_s=draw(st.integers(-300, 60)),
    )


_replies = st.builds(
    lambda id_name, id, body_name: {id_name: id, body_name: BODY},
    st.sampled_from(["ticketId", "TicketID", "ticketid"]),
    st.sampled_from([TICKET, f" {TICKET}\n"]),
    st.sampled_from(["body", "Body", "BODY"]),
)
_mails = st.fixed_dictionaries(
    {
        "to": st.sampled_from(
            [
                "orders@acme.example",
                "Orders@ACME.Example",
                ["a@acme.example", "b@shop.acme.example"],
                "x@a.b.acme.example",
            ]
        ),
        "body": st.just(BODY),
    },
    optional={
        "subject": st.sampled_from(["Your invoice", "", "Rechnung f\u00fcr acme.example"]),
        "cc": st.sampled_from([None, [], "cc@acme.example", ["cc@acme.example"]]),
        "bcc": st.just(None),
    },
)
