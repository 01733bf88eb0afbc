"""A whole way through storage: what was kept is a baseline only as it was written, and two processes act once."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from preaction.errors import ConfigurationError, StoreUnavailable
from preaction.preflight import (
    MaskedStorage,
    MemoryStorage,
    Preflight,
    SignedStorage,
    SqliteStorage,
    State,
    StoreLock,
    create_preflight,
)
from preaction.stores.sqlite import SQLiteStore
from preflight.bank import ACCOUNT, CHECKLIST, INSTRUCTION, KEY, TRANSFER, field_of, hooks
from preflight.test_signing import SECRET, rewrite, to_another_account

PRE_SET = {"from_account": {"value": "1102534471", "trust": "user"}}


def keeping(storage: Any, **options: Any) -> Preflight:
    return create_preflight(hooks=hooks(), storage=storage, secret=SECRET, **options)


def run(preflight: Preflight, **changes: Any) -> State:
    given: dict[str, Any] = {"user_id": "u_01", "instruction": INSTRUCTION, "tool": TRANSFER, "pre_set_data": PRE_SET}
    return preflight.run_and_record_sync(**{**given, "user_checklist": CHECKLIST, **changes})


def transferred(preflight: Preflight) -> list[State]:
    """The seed's three records, and the calls that were made."""
    asked, ready = run(preflight), run(preflight, user_answers={"to_account": ACCOUNT})
    done = preflight.execute_if_ready_sync(ready, TRANSFER, lambda name, arguments: arguments)
    assert (done.status, done.result["to_account"]) == ("executed", ACCOUNT)
    return [asked, ready]


def test_f13_the_records_of_one_action_accumulate_under_its_key(tmp_path: Path) -> None:
    storage = SqliteStorage(tmp_path / "records.db")
    states = transferred(keeping(storage))
    kept = storage.records(KEY)
    assert [one["execution_decision"] for one in kept] == ["ask_user", "execute", "executed"]
    assert kept[:2] == [state.to_json() for state in states]
    assert {**kept[1], **{name: kept[2][name] for name in ("execution_decision", "reason", "timestamp")}} == kept[2]


def test_f8_an_executed_record_is_a_baseline_and_says_where_a_value_first_came_from(tmp_path: Path) -> None:
    transferred(keeping(SqliteStorage(tmp_path / "records.db")))
    preflight = keeping(SqliteStorage(tmp_path / "records.db"))
    state = run(preflight, prior_state=preflight.prior_state_sync(KEY))
    field = field_of(state, "to_account")
    assert (state.execution_decision, field["value"]) == ("execute", ACCOUNT)
    assert (field["source"], field["origin_source"]) == ("prior_state", "user_answer")


def test_f8_a_masked_value_is_no_baseline() -> None:
    storage = MaskedStorage(inner := MemoryStorage(), ["to_account"])
    preflight = keeping(storage)
    transferred(preflight)
    assert ACCOUNT not in json.dumps(inner.records())
    prior = preflight.prior_state_sync(KEY)
    assert prior is not None
    # Neither as it was kept, nor with the mask written over
    for value in (None, "***", ACCOUNT):
        masked = {**prior, "fields": [{**one, "value": value} if one.get("masked") else one for one in prior["fields"]]}
        state = run(preflight, prior_state=masked)
        assert (state.execution_decision, field_of(state, "to_account")["status"]) == ("ask_user", "unknown")


def test_f14_a_baseline_that_was_rewritten_in_its_row_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    preflight = keeping(SignedStorage(SqliteStorage(path), SECRET))
    transferred(preflight)
    assert preflight.prior_state_sync(KEY) is not None
    rewrite(path, to_another_account)
    with pytest.raises(StoreUnavailable, match="storage: a record isn't as it was written"):
        preflight.prior_state_sync(KEY)


def test_f14_an_execute_row_that_was_marked_as_executed_is_no_baseline() -> None:
    preflight = keeping(MemoryStorage())
    ready = run(preflight, user_answers={"to_account": ACCOUNT})
    state = run(preflight, prior_state=ready)
    assert field_of(state, "to_account")["status"] == "unknown"


def test_f14_a_record_that_was_read_back_never_runs(tmp_path: Path) -> None:
    storage = SqliteStorage(tmp_path / "records.db")
    preflight = keeping(storage)
    run(preflight, user_answers={"to_account": ACCOUNT})
    (kept,) = storage.records()
    for forged in (kept, State.from_json(kept)):
        done = preflight.execute_if_ready_sync(forged, TRANSFER, lambda name, arguments: 1 / 0)  # type: ignore[arg-type]
        assert done.status == "held"


@pytest.mark.parametrize("lock", [7, object(), StoreLock, lambda key: key])
def test_f15_what_is_no_lock_is_refused(lock: Any) -> None:
    with pytest.raises(ConfigurationError, match="lock: an object with take and free is needed"):
        keeping(MemoryStorage(), lock=lock)


RACE = """
import json, sys
from pathlib import Path
from preflight.test_keeping import race, received
folder = Path(sys.argv[1])
states = [received(*one) for one in json.loads((folder / "states").read_text())]
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(race(folder, states)))
"""


def received(record: dict[str, Any], signature: str) -> State:
    """A state that came from another process as its record and its signature."""
    return replace(State.from_json(record), signature=signature)


def race(folder: Path, states: list[State]) -> list[str]:
    """What one process makes of the states: those that it has executed."""
    lock = StoreLock(SQLiteStore(folder / "locks.db"))
    preflight = keeping(SqliteStorage(folder / "records.db"), lock=lock)
    done = [preflight.execute_if_ready_sync(state, TRANSFER, lambda name, arguments: 1) for state in states]
    return [one.status for one in done]


def test_f14_two_processes_at_once_execute_each_state_once(tmp_path: Path) -> None:
    preflight = keeping(SqliteStorage(tmp_path / "records.db"))
    states = [run(preflight, user_answers={"to_account": ACCOUNT}) for _ in range(10)]
    (tmp_path / "states").write_text(json.dumps([[state.to_json(), state.signature] for state in states]))
    command = [sys.executable, "-c", RACE, str(tmp_path)]
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
        mine = race(tmp_path, states)
        theirs = json.loads(other.communicate(timeout=60)[0])
    executed = [pair.count("executed") for pair in zip(mine, theirs, strict=True)]
    assert max(executed) == 1
    kept = SqliteStorage(tmp_path / "records.db").records(KEY)
    assert [one["execution_decision"] for one in kept].count("executed") == sum(executed)
    # One that both held back for the other's sake runs now, and no other
    again = race(tmp_path, states)
    assert [
        before + after.count("executed") for before, after in zip(executed, [[one] for one in again], strict=True)
    ] == [1] * 10


KILLED = """
import json, os, signal, sys
from pathlib import Path
from preaction.preflight import SqliteStorage
from preflight.bank import TRANSFER
from preflight.test_keeping import keeping, received
state = received(*json.loads(sys.stdin.readline()))
def call_tool(name, arguments):
    print("paid", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
keeping(SqliteStorage(sys.argv[1])).execute_if_ready_sync(state, TRANSFER, call_tool)
"""


def test_f14_what_a_killed_process_began_is_not_done_again(tmp_path: Path) -> None:
    """Nobody knows whether it was done: there is no record of an end, and it doesn't run again."""
    storage = SqliteStorage(tmp_path / "records.db")
    preflight = keeping(storage)
    state = run(preflight, user_answers={"to_account": ACCOUNT})
    command = [sys.executable, "-c", KILLED, str(tmp_path / "records.db")]
    sent = json.dumps([state.to_json(), state.signature])
    died = subprocess.run(
        command, cwd=Path(__file__).parents[1], input=sent, capture_output=True, text=True, timeout=60, check=False
    )
    assert (died.returncode, died.stdout) == (-9, "paid\n"), died.stderr
    done = preflight.execute_if_ready_sync(state, TRANSFER, lambda name, arguments: "paid again")
    assert (done.status, done.reason) == ("held", "held: it was executed before")
    assert storage.records() == [state.to_json()]
