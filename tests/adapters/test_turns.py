"""Turns: which calls may have been made side by side, at any depth of agents that are tools."""

from preaction.adapters._bridge import Go
from preaction.adapters._turns import Turn, inside, outer_session, turn


def call(which: object, session: str = "chat-7") -> Go:
    return Go("tool", session, turn(which), None)


def test_without_an_outer_call_a_turn_is_its_own_and_there_is_no_outer_session() -> None:
    assert outer_session() is None
    assert turn(1) == turn(1)
    assert turn(1) != turn(2)
    assert turn(1) != 1


def test_an_inner_agent_s_turns_follow_each_other_and_stand_within_the_outer_turn() -> None:
    outer = call(1)
    with inside(outer):
        assert outer_session() == "chat-7"
        first, second = turn(1), turn(2)
    assert outer_session() is None
    assert first != second
    assert first == outer.batch == second
    assert first != turn(2)


def test_the_agents_of_two_calls_made_side_by_side_do_not_see_each_other() -> None:
    inner: list[Turn] = []
    for one in (call(1), call(1)):  # equal in all they hold, yet two calls
        with inside(one):
            inner += [turn(1), turn(2)]
    assert inner[0] == inner[2]
    assert inner[0] == inner[3]
    assert inner[1] == inner[2]


def test_a_call_without_a_turn_gives_its_session_alone() -> None:
    with inside(Go("tool", "chat-7", None, None)):
        assert outer_session() == "chat-7"
        assert len(turn(1).path) == 1


def test_three_levels() -> None:
    with inside(call(1)):
        middle = call(1)
        with inside(middle):
            deep = turn(1)
        later = turn(2)
    assert len(deep.path) == 3
    assert deep == middle.batch
    assert deep != later
