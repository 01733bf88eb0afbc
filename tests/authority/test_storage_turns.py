"""Writers come in the order in which they asked, and none waits for ever."""

import threading
import time

import pytest

from preaction.authority.storage.turns import NoTurn, Turns


def waiting(turns: Turns, count: int) -> None:
    """Until so many wait."""
    deadline = time.monotonic() + 60
    while len(turns._waiting) < count and time.monotonic() < deadline:
        time.sleep(0.001)
    assert len(turns._waiting) == count


def test_they_come_in_the_order_in_which_they_asked() -> None:
    turns, came = Turns(1), list[int]()

    def work(number: int) -> None:
        with turns.turn(60):
            came.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    with turns.turn(60):
        for number, thread in enumerate(threads, 1):
            thread.start()
            waiting(turns, number)
    for thread in threads:
        thread.join(60)
    assert came == list(range(8))


def test_as_many_as_there_are_places_and_no_more() -> None:
    turns = Turns(2)
    with turns.turn(0), turns.turn(0), pytest.raises(NoTurn), turns.turn(0):
        pass
    with turns.turn(0), turns.turn(0):
        pass


def test_one_that_gave_up_takes_no_place() -> None:
    turns = Turns(1)
    with turns.turn(0):
        for _ in range(3):
            with pytest.raises(NoTurn), turns.turn(0.001):
                pass
        waiting(turns, 0)
    with turns.turn(0):
        pass


def test_a_turn_that_ends_in_an_error_is_given_back() -> None:
    turns = Turns(1)
    with pytest.raises(RuntimeError), turns.turn(0):
        raise RuntimeError
    with turns.turn(0):
        pass


def test_nobody_starves_among_many() -> None:
    turns, taken = Turns(1), [0] * 8
    stop = threading.Event()

    def work(number: int) -> None:
        while not stop.is_set():
            with turns.turn(60):
                taken[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while min(taken) < 20 and time.monotonic() < deadline:
        time.sleep(0.005)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert min(taken) >= 20
