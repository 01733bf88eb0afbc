"""P8 under fire: fifty equal calls at once, from four processes over one store: the side effect happens once.

What happened is told by the tool itself, a line per act in a file. And a store or a process is killed in the middle: no
act happens twice, whatever is denied meanwhile.
"""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.office import WRITE, Office
from preaction.pipeline import Command
from preaction.stores.redis import RedisStore
from redis_server import RedisServer

PROCESS = """
import asyncio, json, os, sys, threading
sys.path.insert(0, sys.argv[1])
from pipeline.office import WRITE, Office
from preaction.stores.redis import RedisStore
from preaction.stores.sqlite import SQLiteStore

folder, number, count, where, way = sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5], sys.argv[6]
store = RedisStore(where, timeout_s=30) if where.startswith("redis:") else SQLiteStore(where, timeout_s=30)

def run(command):
    with open(os.path.join(folder, "acts"), "a") as acts:
        acts.write(command.context.request_id + "\\n")
    if way.startswith("killed"):
        os._exit(9)
    return {"id": "inv_481", "status": "approved"}

office = Office(store=store, tools={"approve_invoice": {"run": run}})
names = [f"{number}-{n}" for n in range(count)]

def in_threads():
    outcomes = []
    threads = [threading.Thread(target=lambda name=name: outcomes.append(office.write(call_id=name))) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [*outcomes, office.write(call_id="after")]

async def in_a_loop():
    call = lambda name: office.apropose("approve_invoice", WRITE, call_id=name)
    outcomes = [*await asyncio.gather(*map(call, names)), await call("after")]
    await store.aclose()
    return outcomes

def until_all_are_known():
    left, outcomes = {f"req_{n}": 90 for n in range(count)}, []
    while left:
        for request in list(left):
            outcome = office.write(request_id=request, run_id=request + number)
            left[request] -= 1
            if outcome.code not in ("internal", "in_progress") or not left[request]:
                del left[request]
                outcomes.append(outcome)
    return outcomes

print("ready", flush=True)
sys.stdin.readline()
ways = {"storm": until_all_are_known, "threads": in_threads, "killed": in_threads}
outcomes = ways[way]() if way in ways else asyncio.run(in_a_loop())
print(json.dumps([[outcome.code, outcome.result] for outcome in outcomes]))
store.close()
"""


def started(folder: Path, where: str, way: str, counts: Sequence[int]) -> list[subprocess.Popen[str]]:
    """Processes that are let go at the same moment."""
    tests = str(Path(__file__).resolve().parents[1])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, tests, str(folder), str(number), str(count), where, way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, count in enumerate(counts)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


def heard(processes: list[subprocess.Popen[str]]) -> list[Any]:
    """The (code, result) pairs that they ended with."""
    return [outcome for process in processes for outcome in json.loads(process.communicate(timeout=200)[0])]


def acts_in(folder: Path) -> list[str]:
    """The request of each act."""
    return (folder / "acts").read_text("utf-8").split()


def under_fire(folder: Path, where: str, way: str = "threads") -> None:
    outcomes = heard(started(folder, where, way, (12, 12, 13, 13)))
    assert acts_in(folder) == ["req_1"]
    codes = Counter(code for code, _ in outcomes)
    assert len(outcomes) == 54
    assert codes["executed"] == 1
    assert set(codes) <= {"executed", "replayed", "in_progress"}
    results = [result for code, result in outcomes if code != "in_progress"]
    assert results == [{"id": "inv_481", "status": "approved"}] * len(results)
    assert codes["replayed"] >= 1, "what was asked when all was over"


@pytest.mark.long
def test_p08_fifty_duplicates_over_four_processes_and_sqlite_act_once(tmp_path: Path) -> None:
    under_fire(tmp_path, str(tmp_path / "store"))


@pytest.mark.long
def test_p08_fifty_duplicates_over_four_processes_and_redis_act_once(own_redis: RedisServer, tmp_path: Path) -> None:
    under_fire(tmp_path, own_redis.url)


@pytest.mark.long
def test_p08_fifty_duplicates_over_four_loops_that_await_redis_act_once(own_redis: RedisServer, tmp_path: Path) -> None:
    under_fire(tmp_path, own_redis.url, "loop")


@pytest.mark.long
def test_p08_a_redis_that_is_killed_again_and_again_under_fire_lets_no_act_happen_twice(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    processes = started(tmp_path, own_redis.url, "storm", (40, 40, 40, 40))
    for acts in (3, 12, 25):  # it is killed when so many are done, with others under way
        while not (tmp_path / "acts").exists() or len(acts_in(tmp_path)) < acts:
            with pytest.raises(subprocess.TimeoutExpired):
                processes[0].wait(0.01)
        own_redis.kill()
        own_redis.start()
    codes = Counter(code for code, _ in heard(processes))
    acted = acts_in(tmp_path)
    assert len(acted) == len(set(acted)), "no request acted twice"
    assert set(codes) <= {"executed", "replayed", "in_progress", "internal", "outcome_unknown"}
    assert codes["replayed"] > codes["executed"] > 0


@pytest.mark.parametrize("way", [pytest.param("killed", marks=pytest.mark.long), "killed in a loop"])
def test_p09_a_process_killed_between_act_and_record_over_redis_never_acts_twice(
    way: str, own_redis: RedisServer, tmp_path: Path
) -> None:
    store = RedisStore(own_redis.url, timeout_s=30)
    (process,) = started(tmp_path, own_redis.url, way, (1,))
    process.communicate(timeout=60)
    assert process.returncode == 9
    assert acts_in(tmp_path) == ["req_1"]
    asked: list[str] = []

    def reconcile(key: str) -> Any:
        asked.append(key)
        return {"id": "inv_481", "status": "approved"}

    after = Office(store=store)
    assert after.write().code == "in_progress", "nobody can tell yet that it was killed"
    after.clock.advance(seconds=60)
    assert after.write().code == "outcome_unknown", "held"
    knows = Office(store=store, clock=after.clock, tools={"approve_invoice": {"reconcile": reconcile}})
    assert [knows.write().code, after.write().code] == ["replayed", "replayed"]
    assert (after.acts, knows.acts, len(asked)) == ([], [], 1)
    store.close()


def test_p08_a_redis_that_is_killed_in_the_middle_of_an_act_lets_none_happen_twice(own_redis: RedisServer) -> None:
    entered, over = threading.Event(), threading.Event()

    def run(command: Command) -> Any:
        entered.set()
        over.wait(10)
        return office.approve(command)

    store = RedisStore(own_redis.url, timeout_s=30)
    office: Office = Office(store=store, tools={"approve_invoice": {"run": run}})
    outcomes: list[Any] = []
    first = threading.Thread(target=lambda: outcomes.append(office.write()))
    first.start()
    assert entered.wait(10)
    own_redis.kill()
    assert office.write().code == "internal", "without a store nothing acts"
    over.set()
    first.join(10)
    assert [outcome.code for outcome in outcomes] == ["executed"], "it is done, though nobody could keep that"
    own_redis.start()
    assert office.write(WRITE).code == "in_progress"
    office.clock.advance(seconds=60)
    assert office.write(WRITE).code == "outcome_unknown"
    assert len(office.acts) == 1
    store.close()
