"""P8 and P9: the states of an act, alone, and what they are in a store."""

import asyncio
import json
import re
from datetime import timedelta
from typing import Any

import pytest

from preaction.calling import run
from preaction.errors import MisuseError
from preaction.pipeline.idempotency import Acts, Conflict, Free, InProgress, Reserved, Stored, Unknown
from preaction.stores import Swapped
from preaction.stores.memory import MemoryStore
from preaction.testing import FakeClock

NOT_HELD = "settle: no act of unknown outcome is known under this key"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def acts(clock: FakeClock) -> Acts:
    return Acts(MemoryStore(), clock)


def test_an_act_alone(acts: Acts, clock: FakeClock) -> None:
    name = acts.name("t_1", "pay", "k-1")
    free = run(acts.recall(name, "c"))
    assert free == Free(None)
    assert isinstance(free, Free)
    reserved = run(acts.reserve(name, "c", free, 10))
    assert isinstance(reserved, Reserved)
    assert run(acts.recall(name, "c")) == InProgress() == run(acts.reserve(name, "c", free, 10))
    assert run(acts.recall(name, "other")) == Conflict()
    begun = run(acts.begin(reserved, 10))
    assert begun is not None
    assert run(acts.begin(reserved, 10)) is None
    assert not run(acts.release(reserved))
    assert run(acts.finish(begun, "executed", {"a": 1}))
    assert run(acts.recall(name, "c")) == Stored("executed", {"a": 1})
    assert not run(acts.finish(begun, "executed", {"a": 2}))
    assert not run(acts.lose(begun))


def test_a_dead_reservation_is_taken_over_and_its_owner_must_not_begin(acts: Acts, clock: FakeClock) -> None:
    name = acts.name("t_1", "pay", "k-1")
    dead = run(acts.reserve(name, "c", Free(None), 10))
    assert isinstance(dead, Reserved)
    clock.advance(seconds=16)
    free = run(acts.recall(name, "c"))
    assert free == Free(dead.held)
    assert isinstance(free, Free)
    heir = run(acts.reserve(name, "c", free, 10))
    assert isinstance(heir, Reserved)
    assert run(acts.begin(dead, 10)) is None
    assert run(acts.begin(heir, 10)) is not None


def test_an_act_that_was_begun_and_never_ended_is_unknown_for_good(acts: Acts, clock: FakeClock) -> None:
    name = acts.name("t_1", "pay", "k-1")
    reserved = run(acts.reserve(name, "c", Free(None), 10))
    assert isinstance(reserved, Reserved)
    begun = run(acts.begin(reserved, 10))
    assert begun is not None
    clock.advance(days=300)
    unknown = run(acts.recall(name, "c"))
    assert unknown == Unknown(begun.held)
    assert isinstance(unknown, Unknown)
    assert run(acts.finish(begun, "executed", None)), "its owner may still say how it ended"
    assert not run(acts.settle_undone(name, unknown)), "and then nobody else's word counts any more"


def held(acts: Acts) -> str:
    """An act of unknown outcome, and its name."""
    name = acts.name("t_1", "pay", "k-1")
    reserved = run(acts.reserve(name, "c", Free(None), 10))
    assert isinstance(reserved, Reserved)
    begun = run(acts.begin(reserved, 10))
    assert begun is not None
    assert run(acts.lose(begun))
    return name


@pytest.mark.parametrize(("done", "known"), [(True, Stored("executed", {"a": 1})), (False, Free(None))])
@pytest.mark.parametrize("awaited", [False, True])
def test_p09_a_person_says_of_an_act_that_is_held_whether_it_was_done(
    acts: Acts, awaited: bool, done: bool, known: object
) -> None:
    def settle() -> None:
        asked: dict[str, Any] = {"tenant": "t_1", "tool": "pay", "done": done, "result": {"a": 1}}
        if awaited:
            asyncio.run(acts.asettle("k-1", **asked))
        else:
            acts.settle("k-1", **asked)

    name = held(acts)
    settle()
    assert run(acts.recall(name, "c")) == known
    with pytest.raises(MisuseError, match=f"^{NOT_HELD}$"):
        settle()


@pytest.mark.parametrize("done", [True, False])
def test_p09_of_two_people_who_settle_an_act_at_once_one_is_told_so(acts: Acts, clock: FakeClock, done: bool) -> None:
    class Quicker(MemoryStore):
        """Somebody else settles what was looked at before it is answered."""

        def look(self, name: str) -> str | None:
            text = super().look(name)
            self.swap(name, text, None, timedelta(seconds=1))
            return text

    acts = Acts(Quicker(), clock)
    held(acts)
    with pytest.raises(MisuseError, match=r"^settle: the act was settled just now$"):
        acts.settle("k-1", tenant="t_1", tool="pay", done=done)


def test_p08_a_reservation_is_over_after_its_seconds_and_the_grace_however_many(clock: FakeClock) -> None:
    for seconds in (10, 7200):
        acts = Acts(MemoryStore(clock=lambda: clock().timestamp()), clock)
        name = acts.name("t_1", "pay", "k-1")
        reserved = run(acts.reserve(name, "c", Free(None), seconds))
        assert isinstance(reserved, Reserved)
        clock.advance(seconds=seconds + 4.999)
        assert run(acts.recall(name, "c")) == InProgress()
        clock.advance(seconds=0.001)
        assert run(acts.recall(name, "c")) == Free(reserved.held)


class Written(MemoryStore):
    """Remembers what was written, and for how long."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[tuple[str, str | None, timedelta]] = []

    def swap(self, name: str, old: str | None, new: str | None, keep: timedelta) -> Swapped:
        self.texts.append((name, new, keep))
        return super().swap(name, old, new, keep)


def test_p08_what_an_act_is_in_the_store_is_the_same_for_all_versions_that_share_it(clock: FakeClock) -> None:
    store = Written()
    acts = Acts(store, clock, timedelta(days=2))
    name = held(acts)
    acts.settle("k-1", tenant="t_1", tool="pay", done=True, result=[1])
    assert {written for written, _, _ in store.texts} == {
        name,
        "pipeline/act/6aecd0c7d4ae423cdd4d0035d222c792fff39a2512469cb395877543f38cfdd5",
    }
    texts = [json.loads(text or "") for _, text, _ in store.texts]
    owners = [text.pop("owner") for text in texts[:3]]
    assert all(re.fullmatch("[0-9a-f]{16}", owner) for owner in owners)
    assert len(set(owners)) == 3
    assert texts == [
        {"state": "reserved", "command": "c", "until": "2026-11-30T09:00:15Z"},
        {"state": "begun", "command": "c", "until": "2026-11-30T09:00:15Z"},
        {"state": "unknown", "command": "c", "until": "2026-11-30T09:00:05Z"},
        {"state": "done", "command": "c", "code": "executed", "result": [1]},
    ]
    assert [keep for _, _, keep in store.texts] == [
        timedelta(hours=1, seconds=10),
        timedelta(days=3650),
        timedelta(days=3650),
        timedelta(days=2),
    ]


def test_p08_a_key_is_freed_by_the_rules_of_a_store(clock: FakeClock) -> None:
    """Which are that nothing is kept for no time, not even nothing."""
    store = Written()
    acts = Acts(store, clock)
    name = held(acts)
    acts.settle("k-1", tenant="t_1", tool="pay", done=False)
    reserved = run(acts.reserve(name, "c", Free(None), 10))
    assert isinstance(reserved, Reserved)
    assert run(acts.release(reserved))
    freed = [keep for _, text, keep in store.texts if text is None]
    assert len(freed) == 2
    assert min(freed) > timedelta(0)
