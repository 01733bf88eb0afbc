"""What every store does (`preaction.stores.Store`), whichever it is. A further store joins by an entry in `STORES`."""

import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import pytest

from preaction.errors import SessionFull
from preaction.stores import Slot, Store, Swapped
from preaction.stores.memory import MemoryStore
from preaction.stores.redis import RedisStore
from preaction.stores.sqlite import SQLiteStore
from redis_server import make_older
from stores.awaited import Awaited

R = TypeVar("R")
THREADS = 16
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Made:
    """A store under test, and how to let time pass for it."""

    store: Store
    pass_time: Callable[[timedelta], None]


class Factory(Protocol):
    """Makes an empty store; its bounds are given where the default is too large for a test."""

    def __call__(self, *, max_per_kind: int = ..., max_claims: int = ..., max_texts: int = ...) -> Made: ...


def memory(_: pytest.FixtureRequest, **bounds: Any) -> Made:
    now = [1_000.0]

    def pass_time(by: timedelta) -> None:
        now[0] += by.total_seconds()

    return Made(MemoryStore(clock=lambda: now[0], **bounds), pass_time)


def sqlite(request: pytest.FixtureRequest, **bounds: Any) -> Made:
    folder = request.getfixturevalue("tmp_path")
    now = [1_000.0]

    def pass_time(by: timedelta) -> None:
        now[0] += by.total_seconds()

    path = folder / f"{len(list(folder.iterdir()))}.db"
    store = SQLiteStore(path, clock=lambda: now[0], timeout_s=30, **bounds)
    request.addfinalizer(store.close)
    return Made(store, pass_time)


def redis(request: pytest.FixtureRequest, **bounds: Any) -> Made:
    server = request.getfixturevalue("redis_server")
    prefix = uuid.uuid4().hex
    store = RedisStore(server.url, prefix=prefix, timeout_s=30, **bounds)
    request.addfinalizer(store.close)
    return Made(store, lambda by: make_older(server, prefix, by))


def redis_awaited(request: pytest.FixtureRequest, **bounds: Any) -> Made:
    server = request.getfixturevalue("redis_server")
    prefix = uuid.uuid4().hex
    store = Awaited(RedisStore(server.url, prefix=prefix, timeout_s=30, **bounds))
    request.addfinalizer(store.close)
    return Made(store, lambda by: make_older(server, prefix, by))


STORES: dict[str, Callable[..., Made]] = {
    "memory": memory,
    "sqlite": sqlite,
    "redis": redis,
    "redis, awaited": redis_awaited,
}


@pytest.fixture(params=STORES)
def make(request: pytest.FixtureRequest) -> Factory:
    def one(**bounds: Any) -> Made:
        return STORES[request.param](request, **bounds)

    return one


@pytest.fixture
def store(make: Factory) -> Store:
    return make().store


def slots(*names: str, group: str = "g", kind: str = "") -> list[Slot]:
    return [Slot(group, name, f"value of {name}", kind=kind) for name in names]


def at_once(act: Callable[[int], R]) -> list[R]:
    """What `act` returns for each thread's number, all of them let go at the same moment."""
    gate = threading.Barrier(THREADS, timeout=30)

    def one(number: int) -> R:
        gate.wait()
        return act(number)

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(one, range(THREADS)))


# ---------------------------------------------------------------- keeping and reading


def test_what_was_never_put_reads_as_nothing(store: Store) -> None:
    assert store.read("s", "g") == []
    assert store.read_many("s", "g", ["a"]) == []
    assert store.is_full("s") is False


def test_a_group_is_read_in_the_order_of_first_puts(store: Store) -> None:
    assert store.put("s", slots("c", "a")) is True
    assert store.put("s", slots("b", "c")) is True
    assert store.put("s", [Slot("g", "a", "changed")]) is True
    assert store.read("s", "g") == [("c", "value of c"), ("a", "changed"), ("b", "value of b")]


@pytest.mark.parametrize(("at_most", "names"), [(0, []), (1, ["c"]), (2, ["c", "a"]), (9, ["c", "a", "b"])])
def test_at_most_so_many_are_read_from_the_front(at_most: int, names: list[str], store: Store) -> None:
    store.put("s", slots("c", "a", "b"))
    assert [name for name, _ in store.read("s", "g", at_most)] == names


def test_of_many_names_those_that_exist_are_read(store: Store) -> None:
    store.put("s", slots("a", "b", "c"))
    found = store.read_many("s", "g", ["c", "none", "a"])
    assert sorted(found) == [("a", "value of a"), ("c", "value of c")]
    assert store.read_many("s", "g", []) == []


def test_sessions_and_groups_are_kept_apart(store: Store) -> None:
    store.put("s", slots("a"))
    store.put("s", slots("a", group="h"))
    store.put("t", [Slot("g", "a", "another session's")])
    assert store.read("s", "g") == [("a", "value of a")]
    assert store.read("t", "g") == [("a", "another session's")]
    assert store.read("t", "h") == store.read_many("t", "h", ["a"]) == []


@pytest.mark.parametrize(
    "text",
    ["", " ", "a/b", "a:b", "%", "_", "*", "'; --", "Ä\u0308", "\u212a", "\U0001f512", "\n\t", "x" * 100_000],
    ids=["empty", "blank", "slash", "colon", "percent", "underscore", "star", "quote", "combining", "Kelvin sign",
         "astral", "control", "long"],
)  # fmt: skip
def test_names_and_values_are_kept_character_by_character(text: str, store: Store) -> None:
    assert store.put(text, [Slot(text, text, text), Slot("g", "b", "beside")])
    assert store.read(text, text) == store.read_many(text, text, [text, "b"]) == [(text, text)]
    assert store.claim(text, HOUR, take=True) == "free"
    assert store.claim(text, HOUR, take=False) == "taken"
    assert store.claim(text + "'", HOUR, take=False) == "free"
    assert store.swap(text, None, text, HOUR) == Swapped(True, text)
    assert store.look(text) == text
    assert store.look(text + "'") is None


def test_names_are_told_apart_by_case_and_composition(store: Store) -> None:
    names = ["hc-1", "HC-1", "\u00e4", "a\u0308", "hc-1 "]
    store.put("s", slots(*names))
    assert [name for name, _ in store.read("s", "g")] == names
    assert store.read("S", "g") == []


# ---------------------------------------------------------------- ranks


@pytest.mark.parametrize(
    ("ranks", "stays"),
    [
        (["1", "2"], 1),
        (["2", "1"], 0),
        (["2", "2"], 1),
        (["", ""], 1),
        (["", "1"], 1),
        (["1", ""], 0),
        (["10", "9"], 1),  # texts, not numbers
        (["1", "3", "2"], 1),
        (["2", None], 1),
        (["2", None, "1"], 1),
        (["2", None, "2"], 2),
        (["2", None, "3"], 2),
        (["2", None, None], 2),
        ([None, ""], 1),
        ([None, None], 1),
        ([None, "1", ""], 1),
    ],
)
def test_the_higher_or_equal_rank_stays_and_none_takes_its_place(
    ranks: list[str | None], stays: int, store: Store
) -> None:
    for number, rank in enumerate(ranks):
        assert store.put("s", [Slot("g", "a", str(number), rank)])
    assert store.read("s", "g") == [("a", str(stays))]


def test_ranks_hold_within_one_put_as_well(store: Store) -> None:
    store.put("s", [Slot("g", "a", "newer", "2"), Slot("g", "a", "older", "1"), Slot("g", "b", "other", "0")])
    assert store.read("s", "g") == [("a", "newer"), ("b", "other")]


# ---------------------------------------------------------------- bounds


def test_a_session_at_its_bound_refuses_and_stays_marked(make: Factory) -> None:
    store = make(max_per_kind=2).store
    assert store.put("s", slots("a", "b", kind="decision"))
    assert not store.is_full("s"), "at its bound, but nothing was refused yet"
    assert store.put("s", slots("c", kind="decision")) is False
    assert store.is_full("s")
    for refused in (slots("a", kind="decision"), slots("d"), slots("d", kind="other")):
        assert store.put("s", refused) is False
    assert store.read("s", "g") == [("a", "value of a"), ("b", "value of b")]
    assert store.put("t", slots("a", kind="decision")), "its neighbour has room"
    assert not store.is_full("t")


def test_a_put_is_kept_whole_or_not_at_all(make: Factory) -> None:
    store = make(max_per_kind=2).store
    store.put("s", slots("a", kind="decision"))
    more = [Slot("g", "a", "changed", kind="decision"), Slot("h", "x", ""), *slots("b", "c", kind="decision")]
    assert store.put("s", more) is False
    assert store.read("s", "g") == [("a", "value of a")]
    assert store.read("s", "h") == []


def test_the_bound_counts_new_slots_of_each_kind(make: Factory) -> None:
    store = make(max_per_kind=2).store
    assert store.put("s", slots("a", "b", kind="decision"))
    assert store.put("s", slots("a", "b", kind="decision")), "they are there already"
    assert store.put("s", slots("a", "b", group="text", kind="output_check")), "another kind"
    assert store.put("s", slots(*"abcdef", group="name")), "no kind, no bound"
    assert store.put("s", slots("c", group="elsewhere", kind="decision")) is False, "the same kind in another group"


def test_a_slot_named_twice_in_one_put_counts_once(make: Factory) -> None:
    store = make(max_per_kind=2).store
    assert store.put("s", slots("a", "a", "b", kind="decision"))
    assert store.put("s", slots("a", "a", "b", kind="decision"))
    assert not store.is_full("s")


# ---------------------------------------------------------------- claims


def test_looking_at_a_claim_does_not_take_it(store: Store) -> None:
    assert [store.claim("use", HOUR, take=False) for _ in range(2)] == ["free", "free"]
    assert store.claim("use", HOUR, take=True) == "free"
    assert store.claim("use", HOUR, take=True) == "taken"
    assert store.claim("use", HOUR, take=False) == "taken"
    assert store.claim("another use", HOUR, take=False) == "free"


def test_a_claim_is_kept_for_its_time_and_then_free_again(make: Factory) -> None:
    made = make()
    made.store.claim("use", HOUR, take=True)
    made.pass_time(HOUR - timedelta(minutes=1))
    assert made.store.claim("use", HOUR, take=True) == "taken"
    made.pass_time(timedelta(minutes=2))
    assert made.store.claim("use", HOUR, take=False) == "free"
    assert made.store.claim("use", HOUR, take=True) == "free"
    assert made.store.claim("use", HOUR, take=True) == "taken"


def test_asking_again_does_not_stretch_a_claim(make: Factory) -> None:
    made = make()
    made.store.claim("use", HOUR, take=True)
    made.pass_time(HOUR - timedelta(minutes=1))
    made.store.claim("use", HOUR, take=True)
    made.pass_time(timedelta(minutes=2))
    assert made.store.claim("use", HOUR, take=False) == "free"


def test_a_store_full_of_claims_takes_no_more_until_some_have_run_out(make: Factory) -> None:
    made = make(max_claims=2)
    made.store.claim("short", HOUR / 2, take=True)
    made.store.claim("long", HOUR, take=True)
    assert made.store.claim("third", HOUR, take=True) == "full"
    assert made.store.claim("third", HOUR, take=False) == "full"
    assert made.store.claim("long", HOUR, take=True) == "taken", "full, but it still knows"
    made.pass_time(HOUR * 0.75)
    assert made.store.claim("third", HOUR, take=True) == "free"
    assert made.store.claim("long", HOUR, take=False) == "taken"


def test_claims_and_sessions_know_nothing_of_each_other(make: Factory) -> None:
    made = make(max_per_kind=1, max_claims=1)
    made.store.put("s", slots("a", kind="decision"))
    made.store.put("s", slots("b", kind="decision"))
    assert made.store.claim("s", HOUR, take=True) == "free"
    assert made.store.claim("t", HOUR, take=True) == "full"
    assert made.store.put("t", slots("a", kind="decision"))
    assert not made.store.is_full("t")


# ---------------------------------------------------------------- texts that are swapped


def test_a_text_takes_the_place_only_of_the_one_that_is_there(store: Store) -> None:
    assert store.look("n") is None
    assert store.swap("n", "a", "b", HOUR) == Swapped(False, None)
    assert store.swap("n", None, "a", HOUR) == Swapped(True, "a")
    assert store.swap("n", None, "b", HOUR) == Swapped(False, "a")
    assert store.swap("n", "b", "c", HOUR) == Swapped(False, "a")
    assert store.swap("n", "a", "b", HOUR) == Swapped(True, "b")
    assert store.look("n") == "b"
    assert store.look("m") is None


def test_a_text_is_removed_only_where_it_is_the_one_that_is_there(store: Store) -> None:
    assert store.swap("n", None, None, HOUR) == Swapped(True, None)
    assert store.swap("n", "a", None, HOUR) == Swapped(False, None)
    store.swap("n", None, "a", HOUR)
    assert store.swap("n", None, None, HOUR) == Swapped(False, "a")
    assert store.swap("n", "b", None, HOUR) == Swapped(False, "a")
    assert store.swap("n", "a", None, HOUR) == Swapped(True, None)
    assert store.look("n") is None
    assert store.swap("n", None, "b", HOUR) == Swapped(True, "b")


def test_an_empty_text_is_a_text(store: Store) -> None:
    assert store.swap("n", None, "", HOUR) == Swapped(True, "")
    assert store.look("n") == ""
    assert store.swap("n", None, "a", HOUR) == Swapped(False, "")
    assert store.swap("n", "", "a", HOUR) == Swapped(True, "a")


def test_a_text_stands_for_its_time_and_then_for_nothing(make: Factory) -> None:
    made = make()
    made.store.swap("n", None, "a", HOUR)
    made.pass_time(HOUR - timedelta(minutes=1))
    assert made.store.look("n") == "a"
    made.pass_time(timedelta(minutes=2))
    assert made.store.look("n") is None
    assert made.store.swap("n", "a", "b", HOUR) == Swapped(False, None)
    assert made.store.swap("n", None, "b", HOUR) == Swapped(True, "b")


def test_a_swap_begins_a_new_time_and_a_look_or_a_swap_that_fails_does_not(make: Factory) -> None:
    made = make()
    made.store.swap("swapped", None, "a", HOUR)
    made.store.swap("shortened", None, "a", HOUR)
    made.store.swap("asked for", None, "a", HOUR)
    made.pass_time(HOUR / 2)
    made.store.swap("swapped", "a", "a", HOUR)
    made.store.swap("shortened", "a", "b", HOUR / 4)
    made.store.swap("asked for", None, "b", HOUR)
    made.store.look("asked for")
    made.pass_time(HOUR / 3)
    assert made.store.look("shortened") is None
    assert made.store.look("asked for") == "a"
    made.pass_time(HOUR / 3)
    assert made.store.look("swapped") == "a"
    assert made.store.look("asked for") is None


def test_a_store_full_of_texts_takes_no_further_name_until_some_have_gone(make: Factory) -> None:
    made = make(max_texts=2)
    made.store.swap("short", None, "a", HOUR / 2)
    made.store.swap("long", None, "a", HOUR)
    with pytest.raises(SessionFull):
        made.store.swap("third", None, "a", HOUR)
    assert made.store.swap("third", "b", "c", HOUR) == Swapped(False, None), "what it can answer it does"
    assert made.store.swap("third", None, None, HOUR) == Swapped(True, None)
    assert made.store.swap("long", "a", "b", HOUR) == Swapped(True, "b")
    made.pass_time(HOUR * 0.75)
    assert made.store.swap("third", None, "a", HOUR) == Swapped(True, "a")
    with pytest.raises(SessionFull):
        made.store.swap("fourth", None, "a", HOUR)
    assert made.store.swap("third", "a", None, HOUR) == Swapped(True, None)
    assert made.store.swap("fourth", None, "a", HOUR) == Swapped(True, "a")
    assert made.store.look("long") == "b"


def test_texts_claims_and_sessions_know_nothing_of_each_other(make: Factory) -> None:
    made = make(max_per_kind=1, max_claims=1, max_texts=1)
    made.store.put("s", slots("a", kind="decision"))
    assert made.store.claim("s", HOUR, take=True) == "free"
    assert made.store.look("s") is None
    assert made.store.swap("s", None, "a", HOUR) == Swapped(True, "a")
    assert made.store.claim("t", HOUR, take=True) == "full"
    assert made.store.swap("s", "a", None, HOUR) == Swapped(True, None)
    assert made.store.claim("s", HOUR, take=False) == "taken"
    assert made.store.read("s", "g") == [("a", "value of a")]


# ---------------------------------------------------------------- at the same time


def test_of_many_threads_one_gets_a_claim(store: Store) -> None:
    for round_ in range(20):
        got = at_once(lambda number, name=f"use {round_}": store.claim(name, HOUR, take=True))  # type: ignore[misc]
        assert sorted(got) == ["free"] + ["taken"] * (THREADS - 1)


def test_threads_that_claim_at_the_same_time_do_not_pass_the_bound(make: Factory) -> None:
    store = make(max_claims=100).store
    got = at_once(lambda number: [store.claim(f"{number} {each}", HOUR, take=True) for each in range(10)])
    assert sum(answer == "free" for answers in got for answer in answers) == 100


def test_of_many_threads_that_swap_one_gets_it_and_all_see_the_same(store: Store) -> None:
    for round_ in range(20):
        act = lambda number, name=f"text {round_}": store.swap(name, None, str(number), HOUR)  # noqa: E731
        got = at_once(act)
        assert sum(one.done for one in got) == 1
        assert {one.value for one in got} == {store.look(f"text {round_}")}


def test_threads_that_count_in_a_text_lose_none(store: Store) -> None:
    def count(_: int) -> None:
        for _ in range(10):
            held = store.look("count")
            while not (swapped := store.swap("count", held, str(int(held or 0) + 1), HOUR)).done:
                held = swapped.value

    at_once(count)
    assert store.look("count") == str(10 * THREADS)


def test_threads_that_swap_at_the_same_time_do_not_pass_the_bound(make: Factory) -> None:
    store = make(max_texts=100).store

    def fill(number: int) -> int:
        kept = 0
        with suppress(SessionFull):
            for each in range(10):
                kept += store.swap(f"{number} {each}", None, "a", HOUR).done
        return kept

    assert sum(at_once(fill)) == 100


def test_threads_that_put_at_the_same_time_fill_a_session_exactly(make: Factory) -> None:
    store = make(max_per_kind=100).store
    got = at_once(lambda number: [store.put("s", slots(f"{number} {each}", kind="decision")) for each in range(10)])
    assert sum(kept for answers in got for kept in answers) == len(store.read("s", "g")) == 100
    assert store.is_full("s")


def test_of_many_threads_the_highest_rank_stays(store: Store) -> None:
    def put(number: int) -> None:
        for each in range(20):
            rank = f"{(each * 7 + number * 3) % 50:02}"
            store.put("s", [Slot("g", "a", rank, rank)])

    at_once(put)
    assert store.read("s", "g") == [("a", "49")]


def test_nobody_reads_half_a_put(store: Store) -> None:
    def act(number: int) -> Sequence[Any]:
        if number % 2:
            for each in range(50):
                value = f"{number} {each}"
                store.put("s", [Slot("g", "a", value), Slot("g", "b", value)])
            return ()
        by_name = [[value for _, value in store.read_many("s", "g", ["a", "b"])] for _ in range(50)]
        return [*by_name, *([value for _, value in store.read("s", "g")] for _ in range(50))]

    for seen in at_once(act):
        assert all(len(values) in (0, 2) and len(set(values)) <= 1 for values in seen)
