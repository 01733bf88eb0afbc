"""The bounds of the store in memory: whole sessions age out, live ones lose nothing, claims outlive them all."""

import math
from collections.abc import Iterable
from datetime import timedelta

import pytest

from preaction.errors import SessionFull
from preaction.stores import Slot, Swapped
from preaction.stores.memory import MemoryStore

HOUR = timedelta(hours=1)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def put(store: MemoryStore, session: str, *names: str) -> bool:
    return store.put(session, [Slot("g", name, name, kind="decision") for name in names])


def live(store: MemoryStore, sessions: Iterable[str]) -> str:
    """Those of `sessions` that are held, found without reading them, which would keep them alive."""
    return "".join(session for session in sessions if session in store._sessions)


def test_a_session_takes_twenty_thousand_decisions_by_default() -> None:
    store = MemoryStore()
    assert put(store, "s", *map(str, range(20_000)))
    assert not put(store, "s", "one more")
    assert len(store.read("s", "g")) == 20_000


def test_of_too_many_sessions_those_idle_longest_go_whole() -> None:
    store = MemoryStore(max_sessions=3)
    for session in "abc":
        put(store, session, "1", "2")
    put(store, "d", "1")
    assert live(store, "abcd") == "bcd"
    assert store.read("a", "g") == []
    assert len(store.read("b", "g")) == 2


def test_reading_and_writing_keep_a_session_alive() -> None:
    store = MemoryStore(max_sessions=3)
    for session in "abc":
        put(store, session, "1")
    store.read("a", "g")
    store.read_many("b", "g", ["1"])
    put(store, "d", "1")
    assert live(store, "abcd") == "abd"
    put(store, "a", "1")
    put(store, "e", "1")
    assert live(store, "abcde") == "ade"


def test_of_too_many_slots_the_sessions_idle_longest_go_whole() -> None:
    store = MemoryStore(max_slots=5)
    put(store, "a", "1", "2")
    put(store, "b", "1", "2")
    put(store, "c", "1", "2", "3")
    assert live(store, "abc") == "bc"


def test_as_many_sessions_go_as_room_is_needed_for() -> None:
    store = MemoryStore(max_slots=5)
    for session in "abcd":
        put(store, session, "1")
    put(store, "e", "1", "2", "3", "4")
    assert live(store, "abcde") == "de"


def test_the_session_being_written_to_is_never_dropped() -> None:
    store = MemoryStore(max_slots=3, idle=timedelta(seconds=0))
    assert put(store, "a", "1", "2", "3", "4", "5")
    assert put(store, "a", "6")
    assert len(store.read("a", "g")) == 6
    put(store, "b", "1")
    assert live(store, "ab") == "b"


def test_sessions_idle_for_too_long_go_even_where_there_is_room() -> None:
    clock = Clock()
    store = MemoryStore(idle=HOUR, clock=clock)
    put(store, "a", "1")
    clock.now += 1800
    put(store, "b", "1")
    clock.now += 1801
    put(store, "c", "1")
    assert live(store, "abc") == "bc"


def test_slots_are_counted_right_however_often_sessions_come_and_go() -> None:
    store = MemoryStore(max_slots=10)
    for round_ in range(50):
        put(store, str(round_), "1", "2", "3")
        put(store, str(round_), "3", "2", "4", "4")
        store.put(str(round_), [Slot("h", "x", ""), Slot("h", "x", "", rank=None)])
    assert live(store, map(str, range(50))) == "4849"
    assert store._slots == sum(len(group) for held in store._sessions.values() for group in held.groups.values())


def test_a_session_that_aged_out_begins_anew() -> None:
    store = MemoryStore(max_per_kind=1, max_sessions=1)
    put(store, "a", "1")
    put(store, "a", "2")
    assert store.is_full("a")
    put(store, "b", "1")
    assert not store.is_full("a")
    assert put(store, "a", "2")


def test_claims_outlive_the_sessions_and_are_never_dropped_before_their_time() -> None:
    clock = Clock()
    store = MemoryStore(max_sessions=1, max_slots=1, max_claims=2, idle=timedelta(seconds=1), clock=clock)
    store.claim("use", HOUR, take=True)
    for session in "abc":
        clock.now += 10
        put(store, session, "1")
    assert store.claim("use", HOUR, take=True) == "taken"
    clock.now = math.nextafter(HOUR.total_seconds(), 0)
    assert store.claim("use", HOUR, take=True) == "taken"
    clock.now = HOUR.total_seconds()
    assert store.claim("use", HOUR, take=True) == "free"


def test_an_answer_is_the_callers_own() -> None:
    store = MemoryStore()
    store.read("s", "g").append(("made", "up"))
    store.read_many("s", "g", ["x"]).append(("made", "up"))
    put(store, "s", "1")
    store.read("s", "g").clear()
    assert store.read("s", "g") == [("1", "1")]
    assert store.read("t", "g") == store.read_many("t", "g", ["made"]) == []


def test_all_texts_together_are_bounded_by_their_characters() -> None:
    clock = Clock()
    store = MemoryStore(max_text_chars=10, clock=clock)
    store.swap("a", None, "12345", HOUR / 2)
    store.swap("b", None, "12345", HOUR)
    for name, old, new in (("c", None, "1"), ("b", "12345", "123456")):
        with pytest.raises(SessionFull):
            store.swap(name, old, new, HOUR)
    assert store.look("b") == "12345", "what didn't fit left the old in its place"
    assert store.swap("b", "12345", "1", HOUR).done
    assert store.swap("c", None, "1234", HOUR).done
    clock.now = HOUR.total_seconds() / 2
    assert store.swap("d", None, "12345", HOUR) == Swapped(True, "12345"), "that of a text whose time is over is free"
    assert store._text_chars == 10
    for name in "bcd":
        store.swap(name, store.look(name), None, HOUR)
    assert (store._text_chars, store._texts) == (0, {})
