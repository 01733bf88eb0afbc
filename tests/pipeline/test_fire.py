"""P8 under fire: fifty equal calls at once, from four processes over one store: the side effect happens once.

What happened is told by the tool itself, a line per act in a file. And a store that is killed in the middle: no act
happens twice, whatever is denied meanwhile.
"""

import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline.office import WRITE, Office
from preaction.pipeline import Command
from preaction.stores.redis import RedisStore
from redis_server import RedisServer

PROCESS = """
import json, os, sys, threading
sys.path.insert(0, sys.argv[1])
from pipeline.office import Office

folder, number, count, where = sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5]
if where.startswith("redis:"):
    from preaction.stores.redis import RedisStore
    store = RedisStore(where, timeout_s=30)
else:
    from preaction.stores.sqlite import SQLiteStore
    store = SQLiteStore(where, timeout_s=30)

def run(command):
    with open(os.path.join(folder, "acts"), "a") as acts:
        acts.write("act\\n")
    return {"id": "inv_481", "status": "approved"}

office = Office(store=store, tools={"approve_invoice": {"run": run}})
print("ready", flush=True)
sys.stdin.readline()
outcomes = []
threads = [
    threading.Thread(target=lambda n=n: outcomes.append(office.write(call_id=f"{number}-{n}"))) for n in range(count)
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
outcomes.append(office.write(call_id="after"))
print(json.dumps([[outcome.code, outcome.result] for outcome in outcomes]))
store.close()
"""


def under_fire(folder: Path, where: str) -> None:
    tests = str(Path(__file__).resolve().parents[1])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, tests, str(folder), str(number), str(count), where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, count in enumerate((12, 12, 13, 13))
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outcomes = [outcome for process in processes for outcome in json.loads(process.communicate(timeout=100)[0])]
    assert (folder / "acts").read_text("utf-8") == "act\n"
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


def test_p08_a_redis_that_is_killed_in_the_middle_of_an_act_lets_none_happen_twice(own_redis: RedisServer) -> None:
    entered, over = threading.Event(), threading.Event()

    def run(command: Command) -> Any:
        entered.set()
        over.wait(10)
        return office.approve(command)

    store = RedisStore(own_redis.url)
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
