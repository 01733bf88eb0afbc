"""Whatever is done to two stores, they answer alike: `MemoryStore`, which is plain to read, says what is right."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preaction.errors import SessionFull
from preaction.stores import Slot, Store
from preaction.stores.memory import MemoryStore
from preaction.stores.redis import SCHEMA_VERSION, RedisStore
from preaction.stores.redis_questions import mark
from preaction.stores.sqlite import SQLiteStore
from redis_server import RedisServer

HOUR = timedelta(hours=1)
BOUNDS: dict[str, Any] = {"max_per_kind": 3, "max_claims": 3, "max_texts": 3}

# Names that come again, and such as one store or the other might take for something of its own
names = st.sampled_from(["", "a", "b", "1", "1:a", "a:", ":", ";", "{a}", "0000000000000010", "\u00e4", "\x00"])
values = st.sampled_from(["", "x", "y", "1:x", "\U0001f512", "\x00"])
ranks = st.none() | st.sampled_from(["", "1", "2", "10", "Z", "a", "\u00e4"])
slots = st.builds(Slot, names, names, values, ranks, st.sampled_from(["", "k", "full", "last"]))
acts = st.one_of(
    st.tuples(st.just("put"), names, st.lists(slots, max_size=4)),
    st.tuples(st.just("read"), names, names, st.none() | st.integers(0, 3)),
    st.tuples(st.just("is_full"), names),
    st.tuples(st.just("read_many"), names, names, st.lists(names, max_size=3, unique=True)),
    st.tuples(st.just("claim"), names, st.booleans()),
    st.tuples(st.just("look"), names),
    st.tuples(st.just("swap"), names, st.none() | values, st.none() | values),
)


def answer(store: Store, act: tuple[Any, ...]) -> object:
    match act:
        case ("claim", name, take):
            return store.claim(name, HOUR, take=take)
        case ("swap", name, old, new):
            try:
                return store.swap(name, old, new, HOUR)
            except SessionFull:
                return "full"
        case ("read_many", *given):
            return sorted(store.read_many(*given))
        case _:
            return getattr(store, act[0])(*act[1:])


@pytest.fixture
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """The store that is held against the one in memory."""
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        store: Any = RedisStore(server.url, timeout_s=30, **BOUNDS)
    else:
        store = SQLiteStore(tmp_path / "a.db", timeout_s=30, **BOUNDS)
    yield store
    store.close()


def emptied(store: Store) -> Store:
    """The same connection, and nothing there."""
    if isinstance(store, RedisStore):
        store._prefix = f"{{{uuid.uuid4().hex}}}:"
        store._questions = replace(store._questions, marker=store._ask(mark(SCHEMA_VERSION, uuid.uuid4().hex)))
    else:
        assert isinstance(store, SQLiteStore)
        with store._writing() as db:
            for table in ("sessions", "claims", "texts"):
                db.execute(f"DELETE FROM {table}")
    return store


@pytest.mark.parametrize("other", ["sqlite", "redis"], indirect=True)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(acts, max_size=25))
def test_every_store_answers_as_the_one_in_memory(other: Store, done: list[tuple[Any, ...]]) -> None:
    model, store = MemoryStore(**BOUNDS), emptied(other)
    for act in done:
        assert answer(store, act) == answer(model, act), act
