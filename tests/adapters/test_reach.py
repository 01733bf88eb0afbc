"""What an agent reaches: through the runtime's own objects, functions, methods, partials and containers."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CellType, FunctionType, MethodType

import pytest

from preaction.adapters._reach import reached


class Agent:
    """The one kind of object that the runtime of these tests knows: it leads to what it holds."""

    def __init__(self, *holds: object) -> None:
        self.holds = list(holds)


def leads(thing: object) -> Iterable[object] | None:
    return thing.holds if isinstance(thing, Agent) else None


def agents(start: object) -> list[Agent]:
    return [thing for thing in reached(start, leads) if isinstance(thing, Agent)]


class Tools:
    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def act(self) -> Agent:
        return self.agent


class Slotted:
    __slots__ = ()


AT_HAND = Agent()
OUT_OF_SIGHT = Tools(AT_HAND)


def closes_over(agent: Agent) -> Callable[[], Agent]:
    return lambda: agent


def names_a_global() -> Agent:
    return AT_HAND


def names_what_the_runtime_does_not_know() -> int:
    return len(vars(OUT_OF_SIGHT))  # the builtin is no global


def makes_anew(*_: object, **__: object) -> Agent:
    return Agent()


def with_an_empty_cell() -> Callable[[], Agent]:
    made = closes_over(AT_HAND)
    assert isinstance(made, FunctionType)
    return FunctionType(made.__code__, {}, closure=(CellType(),))


HELD = Agent()


@pytest.mark.parametrize(
    ("start", "found"),
    [
        pytest.param(Agent(HELD), [HELD], id="what the runtime leads to"),
        pytest.param({"a": HELD}, [HELD], id="mapping"),
        *(pytest.param(kind([HELD]), [HELD], id=kind.__name__) for kind in (list, tuple, set, frozenset)),
        pytest.param(partial(names_a_global), [AT_HAND], id="partial, its function"),
        pytest.param(partial(makes_anew, HELD, key=AT_HAND), [HELD, AT_HAND], id="partial, its arguments"),
        pytest.param(Tools(HELD).act, [HELD], id="method, what its object holds"),
        pytest.param(MethodType(names_a_global, HELD), [AT_HAND, HELD], id="method, its function and object"),
        pytest.param(MethodType(names_a_global, Slotted()), [AT_HAND], id="method of an object without attributes"),
        pytest.param(closes_over(HELD), [HELD], id="closure"),
        pytest.param(names_a_global, [AT_HAND], id="global"),
        pytest.param(with_an_empty_cell(), [], id="empty cell"),
        pytest.param(names_what_the_runtime_does_not_know, [], id="other globals"),
        pytest.param(makes_anew, [], id="made anew in each call"),
        pytest.param(Tools(HELD), [], id="an object that nobody knows"),
        pytest.param(len, [], id="a function without Python code"),
        pytest.param([[{"a": partial(closes_over(HELD))}]], [HELD], id="any depth"),
    ],
)
def test_what_leads_to_an_agent(start: object, found: list[Agent]) -> None:
    start_too = [start] if isinstance(start, Agent) else []
    assert sorted(map(id, agents(start))) == sorted(map(id, [*start_too, *found]))


def test_the_start_comes_first_and_everything_once_though_it_leads_in_circles() -> None:
    first, second = Agent(), Agent()
    first.holds = [second, second, [first]]
    second.holds = [first]
    assert agents(first) == [first, second]


def test_a_thing_made_on_the_way_is_not_taken_for_one_that_is_gone() -> None:
    """Each is kept while the walk lasts, so that the id of one isn't given to the next."""

    def one_by_one(thing: object) -> Iterator[object] | None:
        return None if not isinstance(thing, Agent) or not thing.holds else iter([Agent(*thing.holds[1:])])

    assert len(list(reached(Agent(*range(50)), one_by_one))) == 51
