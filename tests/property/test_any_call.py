"""Whatever comes in, as a call, an answer or a result: a check never raises, and never allows."""

import asyncio
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from kit import REPLY, SESSION, helpdesk, reply, reply_rule
from preaction import ActionGate, Verdict, denial_text
from preaction.wire.models import Decision, JobDescription, OutputCheckVerification, Replay, Verification
from property.strategies import SCENES, WAYS, Scene, json_like, ticket_scene


class Hostile:
    """Raises at whatever is done with it."""

    def __getattribute__(self, name: str) -> Any:
        raise ValueError(name)

    def __str__(self) -> str:
        raise ValueError("str")

    def __repr__(self) -> str:
        return "Hostile()"

    def __hash__(self) -> int:
        raise ValueError("hash")

    def __eq__(self, other: object) -> bool:
        raise ValueError("eq")

    def __bool__(self) -> bool:
        raise ValueError("bool")


class HostileMapping(Mapping[str, Any]):
    """A mapping that raises, by default something that could be taken for a result."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = StopIteration("allowed") if error is None else error

    def __getitem__(self, name: str) -> Any:
        raise self.error

    def __iter__(self) -> Any:
        raise self.error

    def __len__(self) -> int:
        raise self.error

    def __repr__(self) -> str:
        return f"HostileMapping({self.error!r})"


class Word(str):
    """A string that answers for itself."""

    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError("str")

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


class Colour(Enum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


class Model(BaseModel):
    x: Any = None


def _endless() -> list[Any]:
    endless: list[Any] = []
    endless.append({"again": endless})
    return endless


def _deep() -> Any:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    return deep


def _unread(model: Any, **fields: Any) -> Any:
    """A model of ours that nobody read: it may lack fields, or hold anything in them."""
    return model.model_construct(**fields)


ODD: list[Callable[[], Any]] = [
    Hostile,
    HostileMapping,
    lambda: HostileMapping(KeyError("x")),
    lambda: Word("chat-7"),
    lambda: Word(REPLY),
    lambda: Colour.RED,
    lambda: Number.ONE,
    lambda: Model(x=object()),
    lambda: Decimal("1.5"),
    lambda: 10**5000,
    lambda: float("inf"),
    lambda: "\ud800",
    lambda: {"\ud800": "\ud800"},
    lambda: {1: "x", None: "y"},
    lambda: b"\xff",
    lambda: range(3),
    lambda: lambda: True,
    lambda: object,
    lambda: ...,
    lambda: NotImplemented,
    lambda: ValueError("x"),
    lambda: iter([1]),
    _endless,
    _deep,
    lambda: _unread(Verification),
    lambda: _unread(JobDescription),
    lambda: _unread(OutputCheckVerification),
    lambda: _unread(Decision),
    lambda: _unread(Verification, valid="true", problems=None, execution_id="exe_1", replay={"job": "x"}),
    lambda: _unread(Verification, valid=True, problems=[], execution_id="exe_1", replay=_unread(Replay, case=None)),
]

# Hypothesis looks at what it draws, so odd objects are drawn as what makes them.
anything = json_like.map(lambda value: lambda: value) | st.sampled_from(ODD)
Maker = Callable[[], Any]


def checked(gate: ActionGate, session: Any, tool: Any, arguments: Any) -> list[Verdict]:
    """The verdicts of both drivers and their previews, whose every part can be looked at."""
    verdicts = [
        gate.check(session, tool, arguments),
        asyncio.run(gate.acheck(session, tool, arguments)),
        gate.preview(session, tool, arguments),
        asyncio.run(gate.apreview(session, tool, arguments)),
    ]
    for verdict in verdicts:
        assert isinstance(verdict.allow, bool)
        for look in (denial_text(verdict), verdict.call_digest, verdict.reason, str(verdict)):
            assert isinstance(look, str)
        assert isinstance(verdict.arguments, dict)
        assert len(verdict.checks) == 6
        assert "\n" not in verdict.reason
        denial_text(verdict).encode()
    return verdicts


def denied(scene: Scene) -> None:
    for verdict in checked(scene.gate, scene.session, scene.tool, scene.arguments):
        assert not verdict.allow, verdict


@given(session=anything, arguments=anything)
def test_any_session_with_any_arguments_is_denied(session: Maker, arguments: Maker) -> None:
    scene = ticket_scene().record()
    scene.session, scene.arguments = session(), arguments()
    denied(scene)


@given(anything)
def test_good_arguments_in_any_session_are_denied(session: Maker) -> None:
    scene = ticket_scene().record()
    scene.session = session()
    if type(scene.session) is not Word:  # its characters are those of the session's id
        denied(scene)


@given(name=st.sampled_from(["ticketId", "body"]), value=anything)
def test_any_value_in_a_field_is_denied_unless_it_was_decided_and_checked(name: str, value: Maker) -> None:
    scene = ticket_scene().record()
    good, scene.arguments = scene.arguments[name], reply(**{name: value()})
    if not (type(scene.arguments[name]) is str and scene.arguments[name].strip() == good):
        denied(scene)


@given(session=anything, tool=anything, arguments=anything)
def test_any_tool_is_denied_where_unlisted_ones_are(session: Maker, tool: Maker, arguments: Maker) -> None:
    gate, _ = helpdesk(unlisted="deny")
    assert not any(verdict.allow for verdict in checked(gate, session(), tool(), arguments()))


@given(session=anything, tool=anything, arguments=anything)
def test_any_tool_is_allowed_only_as_one_that_is_not_gated(session: Maker, tool: Maker, arguments: Maker) -> None:
    gate, _ = helpdesk()
    for verdict in checked(gate, session(), tool(), arguments()):
        assert (verdict.code == "not_gated") == verdict.allow
        assert not verdict.allow or (issubclass(type(tool()), str) and verdict.tool.isascii())


@pytest.mark.parametrize("odd", range(len(ODD)))
def test_odd_objects_in_every_place_of_a_call_are_denied(odd: int) -> None:
    gate, _ = helpdesk(unlisted="deny")
    for call in (
        (ODD[odd](), REPLY, reply()),
        (SESSION, ODD[odd](), reply()),
        (SESSION, REPLY, ODD[odd]()),
        (SESSION, REPLY, reply(body=ODD[odd]())),
        (SESSION, REPLY, reply(ticketId=[ODD[odd]()])),
    ):
        assert not any(verdict.allow for verdict in checked(gate, *call))


ANSWERS = ["replay", "description", "output-check verification"]


@given(scene=st.sampled_from(sorted(SCENES)), answer=st.sampled_from(ANSWERS), given_=anything)
def test_any_answer_of_the_authority_is_denied(scene: str, answer: str, given_: Maker) -> None:
    made = SCENES[scene]().record()
    made.authority.answers[made.asks[answer]] = given_()
    denied(made)


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("odd", range(len(ODD)))
def test_odd_objects_as_answers_are_denied(odd: int, answer: str) -> None:
    made = ticket_scene().record()
    made.authority.answers[made.asks[answer]] = ODD[odd]()
    denied(made)
    made.authority.answers[made.asks[answer]] = {**made.authority.good_answer(made.asks[answer]), "release": ODD[odd]()}
    made.authority.answers[made.asks["replay"]] = {
        **made.authority.good_answer(made.asks["replay"]),
        "problems": ODD[odd](),
    }
    denied(made)


def recorded(scene: Scene, result: Any, tool: str) -> None:
    """Record a result; one of an object that raises of its own accord may raise, and is then not recorded."""
    try:
        scene.gate.record_result(SESSION, tool, {}, result)
    except (ValueError, KeyError, StopIteration, RuntimeError):
        assert any(type(part) in (Hostile, HostileMapping) for part in (result, *_inside(result)))


def _inside(result: Any) -> list[Any]:
    if type(result) is dict:
        return [part for item in result.values() for part in (item if type(item) is list else [item])]
    return []


@given(decision=anything, check=anything)
def test_any_recorded_result_allows_nothing(decision: Maker, check: Maker) -> None:
    for decided in (True, False):
        scene = ticket_scene()
        recorded(scene, scene.decision if decided else decision(), "felspar__get_job_decision")
        recorded(scene, check(), "felspar__check_output")
        denied(scene)


@pytest.mark.parametrize("odd", range(len(ODD)))
def test_odd_objects_as_results_allow_nothing(odd: int) -> None:
    for wrap in (lambda made: made, lambda made: {"content": [made]}, lambda made: {"result": made}):
        scene = ticket_scene()
        recorded(scene, wrap(ODD[odd]()), "felspar__get_job_decision")
        recorded(scene, wrap(ODD[odd]()), "felspar__check_output")
        denied(scene)


def test_the_rule_that_all_of_this_is_about_does_allow() -> None:
    gate, _ = helpdesk()
    assert gate.problems == ()
    assert reply_rule()["fields"] == list(reply())
    assert all(verdict.allow for verdict in checked(*_good()))


def _good() -> tuple[ActionGate, Any, Any, Any]:
    scene = ticket_scene().record()
    return scene.gate, scene.session, scene.tool, scene.arguments


@pytest.mark.parametrize("way", WAYS)
async def test_a_gate_that_met_any_call_still_allows_the_good_one(way: Any) -> None:
    scene = ticket_scene().record()
    for make in ODD:
        scene.gate.check(make(), make(), make())
    assert (await scene.verdict(way)).allow
