"""F15: one action key at a time, in this process, in a file, in Redis; who dies with it holds nobody up for ever."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from preaction.errors import ConfigurationError
from preaction.preflight.lock import Lock, StoreLock
from preaction.stores.memory import MemoryStore
from preaction.stores.redis import RedisStore
from preaction.stores.sqlite import SQLiteStore


@pytest.fixture(params=["memory", "sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield MemoryStore()
    else:
        server = request.getfixturevalue("redis_server") if request.param == "redis" else None
        path = tmp_path / "store.db"
        made: Any = SQLiteStore(path) if server is None else RedisStore(server.url, prefix="locks", timeout_s=30)
        yield made
        made.close()


def test_f15_a_key_is_had_by_one(store: Any) -> None:
    one, other = StoreLock(store), StoreLock(store)
    assert isinstance(one, Lock)
    taken = one.take("u_01:transfer")
    assert taken is not None
    assert other.take("u_01:transfer") is None
    assert other.take("u_02:transfer") is not None
    other.free("u_01:transfer", "what somebody else was given")
    assert other.take("u_01:transfer") is None
    one.free("u_01:transfer", taken)
    assert other.take("u_01:transfer") is not None


def test_f15_of_many_at_once_one_has_it(store: Any) -> None:
    start, taken = threading.Barrier(6), []

    def take() -> None:
        start.wait()
        taken.append(StoreLock(store).take("key"))

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(one is not None for one in taken) == 1


@pytest.mark.parametrize("key", ["", "\0", "\ud800", "a" * 100_000])
def test_f15_any_text_is_a_key(store: Any, key: str) -> None:
    lock = StoreLock(store)
    taken = lock.take(key)
    assert taken is not None
    assert lock.take(key) is None
    lock.free(key, taken)


def test_f15_what_is_held_too_long_is_free_and_isnt_given_back_for_another() -> None:
    now = [0.0]
    lock = StoreLock(MemoryStore(clock=lambda: now[0]), keep=timedelta(minutes=1))
    first = lock.take("key")
    assert first is not None
    now[0] = 59.9
    assert lock.take("key") is None
    now[0] = 60
    assert lock.take("key") is not None
    lock.free("key", first)
    assert lock.take("key") is None


@pytest.mark.parametrize(
    "wrong",
    [{"keep": timedelta(0)}, {"keep": -timedelta(1)}, {"keep": 60}, {"store": object()}, {"store": MemoryStore}],
)
def test_f15_what_cannot_lock_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"keep: a timedelta|store: an object"):
        StoreLock(**wrong)
