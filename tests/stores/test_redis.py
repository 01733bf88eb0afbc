"""What only the store in Redis does: several machines, a server that is away or new, and servers that can't be."""

import asyncio
import logging
import os
import subprocess
import sys
import textwrap
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

from kit import REPLY, SESSION, TICKET, decided, helpdesk, reply
from preaction.errors import ConfigurationError, StoreUnavailable
from preaction.stores import Slot, Swapped
from preaction.stores.redis import SCHEMA_VERSION, RedisStore
from preaction.testing import FakeAuthority
from redis_server import PASSWORD, RedisServer, make_older, running

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

Open = Callable[..., RedisStore]


@pytest.fixture
def prefix() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def opened(prefix: str) -> Iterator[Open]:
    """Makes stores with one prefix, which are closed in the end."""
    made: list[RedisStore] = []

    def one(server: RedisServer, **options: Any) -> RedisStore:
        made.append(RedisStore(server.url, **{"prefix": prefix, "timeout_s": 30, **options}))
        return made[-1]

    yield one
    for each in made:
        each.close()


def process(code: str, url: str, prefix: str) -> subprocess.Popen[str]:
    """Another process that runs `code`, which finds `store` made."""
    start = """
        import os, sys
        from datetime import timedelta
        from preaction.stores import Slot
        from preaction.stores.redis import RedisStore
        store = RedisStore(os.environ["REDIS_URL"], prefix=sys.argv[1], timeout_s=60)
    """
    text = textwrap.dedent(start) + textwrap.dedent(code)
    environ = {**os.environ, "REDIS_URL": url}
    return subprocess.Popen(
        [sys.executable, "-c", text, prefix], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env=environ
    )


def output(one: subprocess.Popen[str]) -> str:
    said, _ = one.communicate(timeout=120)
    assert one.returncode == 0
    return said.strip()


# ---------------------------------------------------------------- several processes


def test_processes_that_claim_and_count_get_each_claim_once_and_lose_no_count(
    redis_server: RedisServer, prefix: str, opened: Open
) -> None:
    code = """
        print("ready", flush=True)
        sys.stdin.readline()
        hour = timedelta(hours=1)
        got = [store.claim(f"use {number}", hour, take=True) for number in range(100)]
        for _ in range(50):
            held = store.look("count")
            while not (swapped := store.swap("count", held, str(int(held or 0) + 1), hour)).done:
                held = swapped.value
        print(got.count("free"), got.count("taken"))
    """
    others = [process(code, redis_server.url, prefix) for _ in range(2)]
    for one in others:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in others:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    got = [tuple(map(int, output(one).split())) for one in others]
    assert (sum(free for free, _ in got), sum(taken for _, taken in got)) == (100, 100)
    assert opened(redis_server).look("count") == "100"


def test_a_decision_recorded_in_one_process_allows_in_another_and_is_used_up_for_both(
    redis_server: RedisServer, prefix: str, opened: Open
) -> None:
    authority = FakeAuthority()
    gate, _ = helpdesk(authority=authority, store=opened(redis_server), rule={"once": "decision"})
    decision = authority.decide(TICKET)
    check = authority.check_output(decision, {"body": reply()["body"]})
    code = f"""
        sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
        from kit import SESSION, helpdesk
        gate, _ = helpdesk(store=store)
        gate.decisions.record(SESSION, result={decision!r})
        gate.output_checks.record(SESSION, {check!r})
    """
    assert gate.check(SESSION, REPLY, reply()).code == "case_not_decided"
    output(process(code, redis_server.url, prefix))
    assert gate.check(SESSION, REPLY, reply()).code == "allowed"
    assert gate.check(SESSION, REPLY, reply()).code == "already_used"
    other, _ = helpdesk(authority=authority, store=opened(redis_server), rule={"once": "decision"})
    assert other.check(SESSION, REPLY, reply()).code == "already_used"


def test_after_a_fork_the_child_connects_for_itself(redis_server: RedisServer, opened: Open) -> None:
    store = opened(redis_server)
    store.put("s", [Slot("g", "a", "parent")])
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if store.put("s", [Slot("g", "b", "child")]) else 3)
        finally:
            os._exit(4)
    assert os.waitpid(child, 0)[1] == 0
    assert store.read("s", "g") == [("a", "parent"), ("b", "child")]


# ---------------------------------------------------------------- away, and back


def test_stopped_denies_and_back_it_works(own_redis: RedisServer, opened: Open) -> None:
    gate, authority = helpdesk(store=opened(own_redis), rule={"once": "decision"})
    decided(gate, authority)
    own_redis.stop()
    for _ in range(2):
        assert gate.check(SESSION, REPLY, reply()).code == "gate_error"
    with pytest.raises(StoreUnavailable, match="ConnectionError"):
        gate.decisions.record(SESSION, result=authority.decide(TICKET))
    own_redis.start()
    assert gate.check(SESSION, REPLY, reply()).code == "allowed"
    own_redis.kill()
    assert gate.check(SESSION, REPLY, reply()).code == "gate_error"
    own_redis.start()
    assert gate.check(SESSION, REPLY, reply()).code == "already_used"


async def test_an_event_loop_is_told_as_well(own_redis: RedisServer, opened: Open) -> None:
    gate, authority = helpdesk(store=opened(own_redis), rule={"once": "decision"})
    decided(gate, authority)
    own_redis.stop()
    assert (await gate.acheck(SESSION, REPLY, reply())).code == "gate_error"
    own_redis.start()
    codes = [
        verdict.code for verdict in await asyncio.gather(*(gate.acheck(SESSION, REPLY, reply()) for _ in range(5)))
    ]
    assert sorted(codes) == ["allowed", *["already_used"] * 4]


def test_a_server_that_does_not_answer_denies_within_the_time_out(own_redis: RedisServer, opened: Open) -> None:
    gate, authority = helpdesk(store=opened(own_redis, timeout_s=1.0), rule={"once": "decision"})
    decided(gate, authority)
    own_redis.freeze()
    before = time.monotonic()
    assert gate.check(SESSION, REPLY, reply()).code == "gate_error"
    first = time.monotonic() - before
    assert gate.check(SESSION, REPLY, reply()).code == "gate_error", "connecting anew takes no longer either"
    own_redis.thaw()
    assert 1.0 <= first < 4, "a loaded machine is slow, but five seconds is what redis-py would wait"
    assert gate.check(SESSION, REPLY, reply()).code == "allowed"


def test_what_got_no_answer_is_not_sent_again(own_redis: RedisServer, opened: Open) -> None:
    store = opened(own_redis, timeout_s=1.0)
    with own_redis.client() as client:
        before = client.info("stats")["total_connections_received"]
        own_redis.freeze()
        with pytest.raises(StoreUnavailable, match="TimeoutError"):
            store.claim("use", HOUR, take=True)
        own_redis.thaw()
        assert client.info("stats")["total_connections_received"] == before


def test_killed_in_the_middle_nothing_is_given_twice(own_redis: RedisServer, opened: Open) -> None:
    store = opened(own_redis)
    taken: list[int] = []
    unknown: list[int] = []

    def claim_all(_: int) -> None:
        for number in range(300):
            if number == 100 and not unknown:
                own_redis_killed()
            try:
                if store.claim(f"use {number}", DAY, take=True) == "free":
                    taken.append(number)
            except StoreUnavailable:
                unknown.append(number)

    def own_redis_killed() -> None:
        unknown.append(-1)
        own_redis.kill()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(claim_all, range(4)))
    assert len(unknown) > 1
    own_redis.start()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(claim_all, range(4)))
    assert len(taken) == len(set(taken)), "each at most once, over the restart"
    assert len(taken) >= 200


def test_a_text_survives_a_kill_and_is_swapped_once(own_redis: RedisServer, opened: Open) -> None:
    store = opened(own_redis)
    assert store.swap("key", None, "running", DAY).done
    own_redis.kill()
    with pytest.raises(StoreUnavailable):
        store.swap("key", None, "running", DAY)
    own_redis.start()
    assert store.swap("key", None, "running", DAY) == Swapped(False, "running")


def test_a_server_that_was_emptied_denies_until_the_store_is_made_anew(own_redis: RedisServer, opened: Open) -> None:
    store = opened(own_redis)
    gate, authority = helpdesk(store=store, rule={"once": "case"})
    decided(gate, authority)
    assert gate.check(SESSION, REPLY, reply()).code == "allowed"
    with own_redis.client() as client:
        client.flushall()
    with pytest.raises(StoreUnavailable, match="emptied"):
        decided(gate, authority)
    assert gate.check(SESSION, REPLY, reply()).code == "gate_error"
    opened(own_redis)
    for ask in (
        lambda: store.put("s", [Slot("g", "a", "value")]),
        lambda: store.read("s", "g"),
        lambda: store.read_many("s", "g", ["a"]),
        lambda: store.is_full("s"),
        lambda: store.claim("use", HOUR, take=False),
        lambda: store.look("n"),
        lambda: store.swap("n", None, "a", HOUR),
    ):
        with pytest.raises(StoreUnavailable, match="is another one"):
            ask()


def test_a_server_that_became_a_replica_answers_nothing(own_redis: RedisServer, opened: Open) -> None:
    store = opened(own_redis)
    store.put("s", [Slot("g", "a", "value")])
    with own_redis.client() as client:
        client.replicaof("127.0.0.1", "1")
        for ask in (
            lambda: store.read("s", "g"),
            lambda: store.claim("use", HOUR, take=False),
            lambda: store.look("n"),
        ):
            with pytest.raises(StoreUnavailable, match=r"ReadOnlyError|ResponseError"):
                ask()
        store.close()
        with pytest.raises(StoreUnavailable, match="replica"):
            store.look("n")
        client.replicaof("NO", "ONE")
    assert store.read("s", "g") == [("a", "value")]


def test_a_server_without_room_takes_nothing_and_forgets_nothing(own_redis: RedisServer, opened: Open) -> None:
    store = opened(own_redis)
    store.put("s", [Slot("g", "a", "value")])
    store.claim("use", HOUR, take=True)
    with own_redis.client() as client:
        client.config_set("maxmemory", "1")
        for ask in (
            lambda: store.put("s", [Slot("g", "a", "changed"), Slot("g", "b", "more")]),
            lambda: store.claim("another", HOUR, take=True),
            lambda: store.swap("n", None, "a", HOUR),
        ):
            with pytest.raises(StoreUnavailable, match=r"OutOfMemoryError|ResponseError"):
                ask()
        assert store.claim("use", HOUR, take=True) == "taken"
        client.config_set("maxmemory", "0")
    assert store.read("s", "g") == [("a", "value")]
    assert store.claim("another", HOUR, take=True) == "free"
    assert store.look("n") is None


# ---------------------------------------------------------------- servers that can't be


@pytest.mark.parametrize(
    ("setting", "value", "usual", "why"),
    [
        ("appendonly", "no", "yes", "a restart would forget which acts were done: set appendonly to yes"),
        ("maxmemory-policy", "volatile-lru", "noeviction", "set maxmemory-policy to noeviction"),
        ("maxmemory-policy", "allkeys-random", "noeviction", "set maxmemory-policy to noeviction"),
    ],
)
def test_a_server_that_would_forget_is_refused_at_creation_and_when_it_comes_back(
    setting: str, value: str, usual: str, why: str, own_redis: RedisServer, opened: Open
) -> None:
    store = opened(own_redis)
    with own_redis.client() as client:
        client.config_set(setting, value)
        with pytest.raises(ConfigurationError, match=why):
            opened(own_redis)
        store.close()
        with pytest.raises(StoreUnavailable, match=why):
            store.look("n")
        client.config_set(setting, usual)
    assert store.look("n") is None


def test_what_is_unsafe_has_to_be_said(own_redis: RedisServer, opened: Open) -> None:
    with own_redis.client() as client:
        client.config_set("appendonly", "no")
    store = opened(own_redis, unsafe_without_append_only_file=True)
    assert store.swap("n", None, "a", HOUR).done
    own_redis.stop()
    own_redis.start()
    with pytest.raises(StoreUnavailable, match="Uses may be forgotten"):
        store.look("n")


@pytest.mark.parametrize("schema", ["0", "99", "x", ""])
def test_an_earlier_or_later_schema_is_refused_and_left_alone(
    schema: str, redis_server: RedisServer, prefix: str, opened: Open
) -> None:
    store = opened(redis_server)
    with redis_server.client() as client:
        assert client.get(f"{{{prefix}}}:marker").decode().split()[0] == str(SCHEMA_VERSION)
        client.set(f"{{{prefix}}}:marker", f"{schema} abc")
        with pytest.raises(ConfigurationError, match=f"schema '{schema}', and this version of preaction knows 1"):
            opened(redis_server)
        assert client.get(f"{{{prefix}}}:marker").decode() == f"{schema} abc"
    with pytest.raises(StoreUnavailable, match="another one"):
        store.look("n")


def test_a_user_who_may_not_ask_what_is_needed_is_refused(redis_server: RedisServer, prefix: str) -> None:
    with redis_server.client() as client:
        client.acl_setuser(prefix, enabled=True, passwords=["+pw"], keys=["*"], commands=["+@all", "-info"])
        with pytest.raises(ConfigurationError, match="must be allowed to ask INFO"):
            RedisStore(f"redis://{prefix}:pw@127.0.0.1:{redis_server.port}", prefix=prefix, timeout_s=30)
        client.acl_setuser(prefix, enabled=True, commands=["+info", "-eval", "-evalsha"])
        with pytest.raises(ConfigurationError, match="NoPermissionError"):
            RedisStore(f"redis://{prefix}:pw@127.0.0.1:{redis_server.port}", prefix=prefix, timeout_s=30)
        client.acl_deluser(prefix)


def test_a_user_with_no_more_than_the_docs_say_can_do_all(redis_server: RedisServer, prefix: str) -> None:
    with redis_server.client() as client:
        commands = ["+@read", "+@write", "+@connection", "+@scripting", "+info", "+time", "-@dangerous", "+info"]
        client.acl_setuser(prefix, enabled=True, passwords=["+pw"], keys=[f"{{{prefix}}}:*"], commands=commands)
        store = RedisStore(f"redis://{prefix}:pw@127.0.0.1:{redis_server.port}", prefix=prefix, timeout_s=30)
        assert store.put("s", [Slot("g", "a", "value", kind="k")])
        assert store.read("s", "g") == store.read_many("s", "g", ["a"]) == [("a", "value")]
        assert not store.is_full("s")
        assert store.claim("use", HOUR, take=True) == "free"
        assert store.swap("n", None, "a", HOUR).done
        assert store.swap("n", store.look("n"), None, HOUR).done
        store.close()
        client.acl_deluser(prefix)


@pytest.mark.parametrize(
    "url",
    [
        7,
        "",
        "localhost:6379",
        "http://localhost:6379",
        "redis://",
        "unix://",
        "redis://localhost:port",
        "redis://localhost/sessions",
        f"redis://:{PASSWORD}/@localhost:6379",
        f"redis://:{PASSWORD}#@localhost:6379",
        f"redis://:{PASSWORD}?@localhost:6379",
        "redis://localhost?decode_responses=yes",
        "redis://localhost?socket_timeout=100",
        "redis://localhost?protocol=3",
    ],
)
def test_an_url_that_would_mean_something_else_is_refused(url: Any) -> None:
    with pytest.raises(ConfigurationError, match="URL of Redis") as refused:
        RedisStore(url)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize("prefix", ["", "a{b}", "a b", "\u00e4", "a" * 65])
def test_a_prefix_that_would_not_keep_its_keys_together_is_refused(prefix: str, redis_server: RedisServer) -> None:
    with pytest.raises(ConfigurationError, match="prefix"):
        RedisStore(redis_server.url, prefix=prefix)


@pytest.mark.parametrize("timeout_s", [0, -1, None, "5", float("inf"), float("nan")])
def test_a_time_out_that_would_never_come_is_refused(timeout_s: Any, redis_server: RedisServer) -> None:
    with pytest.raises(ConfigurationError, match="timeout_s"):
        RedisStore(redis_server.url, timeout_s=timeout_s)


def test_no_server_is_refused_at_creation(own_redis: RedisServer, opened: Open) -> None:
    own_redis.stop()
    with pytest.raises(ConfigurationError, match="Redis can't be asked: ConnectionError"):
        opened(own_redis)


def test_a_password_is_in_no_message_no_log_and_no_representation(
    own_redis: RedisServer, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = "another-pass-word"
    with pytest.raises(ConfigurationError, match="AuthenticationError") as refused:
        RedisStore(own_redis.url.replace(PASSWORD, wrong), timeout_s=30)
    store = opened(own_redis)
    gate, authority = helpdesk(store=store)
    decided(gate, authority)
    with own_redis.client() as client:
        client.config_set("requirepass", "it-was-changed")
    store.close()
    with pytest.raises(StoreUnavailable, match="AuthenticationError") as failed:
        store.look("n")
    verdict = gate.check(SESSION, REPLY, reply())
    assert verdict.code == "gate_error"
    assert refused.value.__suppress_context__
    assert failed.value.__suppress_context__
    traces = [text for each in (refused, failed) for text in traceback.format_exception(each.value)]
    for text in (*traces, caplog.text, repr(store), repr(vars(store)), str(verdict)):
        assert PASSWORD not in text
        assert wrong not in text


# ---------------------------------------------------------------- the keys


def test_all_keys_begin_with_the_prefix_in_one_slot_and_another_prefix_is_another_store(
    redis_server: RedisServer, prefix: str, opened: Open
) -> None:
    store, other = opened(redis_server), opened(redis_server, prefix=f"{prefix}2")
    for text in ("plain", "{other}", "}{"):
        store.put(text, [Slot(text, text, text, kind="k")])
        store.claim(text, HOUR, take=True)
        store.swap(text, None, text, HOUR)
        assert other.read(text, text) == []
        assert other.look(text) is None
        assert other.claim(text, HOUR, take=False) == "free"
    with redis_server.client() as client:
        keys = list(client.scan_iter(match=f"{{{prefix}}}:*", count=1000))
        assert len(keys) == 3 + 3 * 4
        assert {key_slot(key) for key in keys} == {key_slot(prefix.encode())}


def test_a_server_in_cluster_mode_that_holds_the_slot_will_do(redis_binary: Path, tmp_path: Path) -> None:
    with running(redis_binary, tmp_path, cluster_enabled="yes") as server, server.client() as client:
        with pytest.raises(ConfigurationError, match="Redis can't be asked: Cluster"):
            RedisStore(server.url, timeout_s=30)
        client.execute_command("CLUSTER", "ADDSLOTS", *range(16384))
        while client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
            pass
        store = RedisStore(server.url, timeout_s=30)
        assert store.put("s", [Slot("g", "a", "value", kind="k")])
        assert store.read("s", "g") == store.read_many("s", "g", ["a"]) == [("a", "value")]
        assert store.claim("use", HOUR, take=True) == "free"
        assert store.swap("n", None, "a", HOUR).done
        store.close()


def test_to_ask_writes_nothing_so_that_it_waits_for_no_disk(own_redis: RedisServer, opened: Open) -> None:
    store = opened(own_redis)
    store.put("s", [Slot("g", "a", "value")])
    store.claim("use", HOUR, take=True)
    store.swap("n", None, "a", HOUR)

    def written() -> int:
        with own_redis.client() as client:
            return int(client.info("persistence")["rdb_changes_since_last_save"])

    before = written()
    store.read("s", "g")
    store.read_many("s", "g", ["a"])
    store.is_full("s")
    store.look("n")
    store.swap("n", None, "b", HOUR)
    for take in (False, True):
        assert store.claim("use", HOUR, take=take) == "taken"
    assert store.claim("another", HOUR, take=False) == "free"
    assert written() == before


def test_sessions_that_nobody_asks_for_go_whole_and_others_stay(
    redis_server: RedisServer, prefix: str, opened: Open
) -> None:
    store = opened(redis_server, idle=HOUR)
    for session in ("left", "read", "written"):
        store.put(session, [Slot("g", "a", "value", kind="decision")])
    make_older(redis_server, prefix, HOUR / 2)
    assert store.read("read", "g")
    store.put("written", [Slot("g", "b", "value")])
    make_older(redis_server, prefix, HOUR * 0.6)
    assert store.read("left", "g") == []
    assert store.read_many("read", "g", ["a"]) == [("a", "value")]
    assert len(store.read("written", "g")) == 2
    with redis_server.client() as client:
        kept = {key.rpartition(b":")[2] for key in client.scan_iter(match=f"{{{prefix}}}:*:*", count=1000)}
        assert kept == {b"read", b"written"}
        assert all(client.pttl(key) > 0 for key in client.scan_iter(match=f"{{{prefix}}}:*:*", count=1000))


def test_claims_and_texts_whose_time_is_over_leave_no_key(redis_server: RedisServer, prefix: str, opened: Open) -> None:
    store = opened(redis_server)
    for number in range(10):
        store.claim(f"use {number}", HOUR, take=True)
        store.swap(f"text {number}", None, "a", HOUR)
    make_older(redis_server, prefix, 2 * HOUR)
    store.claim("one more", HOUR, take=True)
    store.swap("one more", None, "a", HOUR)
    with redis_server.client() as client:
        assert client.zrange(f"{{{prefix}}}:claims", 0, -1) == [b"one more"]
        assert client.zrange(f"{{{prefix}}}:texts", 0, -1) == [b"one more"]
        assert len(list(client.scan_iter(match=f"{{{prefix}}}:*", count=1000))) == 4


def test_times_are_those_of_the_server(redis_server: RedisServer, prefix: str, opened: Open) -> None:
    store = opened(redis_server)
    with redis_server.client() as client:
        first, _ = client.time()
        store.claim("use", HOUR, take=True)
        store.swap("n", None, "a", HOUR)
        last, _ = client.time()
        for names in ("claims", "texts"):
            ((_, until),) = client.zscan_iter(f"{{{prefix}}}:{names}")
            assert first <= until / 1000 - 3600 <= last + 1
        assert 0 < client.pttl(f"{{{prefix}}}:text:n") <= 3_600_000


def test_over_a_socket_file(redis_binary: Path, tmp_path: Path) -> None:
    with running(redis_binary, tmp_path, unixsocket=str(tmp_path / "s")):
        store = RedisStore(f"unix://:{PASSWORD}@{tmp_path}/s", timeout_s=30)
        assert store.swap("n", None, "a", HOUR).done
        store.close()
        assert store.look("n") == "a", "a closed store opens again"
        store.close()


def test_without_the_extra_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "preaction.stores.redis")
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'preaction\[redis\]'"):
        import preaction.stores.redis  # noqa: F401
