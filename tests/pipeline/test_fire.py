"""P8 under fire: fifty equal calls at once, from four processes over one store: the side effect happens once.

What happened is told by the tool itself, a line per act in a file.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PROCESS = """
import json, os, sys, threading
sys.path.insert(0, sys.argv[1])
from pipeline.office import Office
from preaction.stores.sqlite import SQLiteStore

folder, number, count = sys.argv[2], sys.argv[3], int(sys.argv[4])

def run(command):
    with open(os.path.join(folder, "acts"), "a") as acts:
        acts.write("act\\n")
    return {"id": "inv_481", "status": "approved"}

office = Office(store=SQLiteStore(os.path.join(folder, "s"), timeout_s=30), tools={"approve_invoice": {"run": run}})
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
"""


@pytest.mark.long
def test_p08_fifty_duplicates_over_four_processes_act_once(tmp_path: Path) -> None:
    tests = str(Path(__file__).resolve().parents[1])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, tests, str(tmp_path), str(number), str(count)],
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
    assert (tmp_path / "acts").read_text("utf-8") == "act\n"
    codes = Counter(code for code, _ in outcomes)
    assert len(outcomes) == 54
    assert codes["executed"] == 1
    assert set(codes) <= {"executed", "replayed", "in_progress"}
    results = [result for code, result in outcomes if code != "in_progress"]
    assert results == [{"id": "inv_481", "status": "approved"}] * len(results)
    assert codes["replayed"] >= 3, "each process asked once more when all was over"
