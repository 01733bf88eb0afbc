"""The landlord's transfer: the account is asked for, it runs after the answer, and once more when it was scheduled."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.running import ROOT
from preaction.preflight import SqliteStorage


def transfer(typed: str, folder: Path) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """The finished example, and the records in its file."""
    command = [sys.executable, str(ROOT / "examples/transfer/transfer.py"), str(folder)]
    run = subprocess.run(
        command, input=typed, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run, SqliteStorage(folder / "records.db").records("u_01:bank.transfer")


def test_it_asks_runs_after_the_answer_and_runs_once_when_its_time_has_come(tmp_path: Path) -> None:
    run, records = transfer("7789001\n", tmp_path)
    now, later = ["ask_user", "execute", "executed"], ["deferred", "execute", "executed"]
    assert [record["execution_decision"] for record in records] == [*now, *later, "execute"]
    assert "to_account?" in run.stdout
    assert run.stdout.count("held: it was executed before") == 1
    assert run.stdout.endswith("paid: 500000 to 7789001, 450000 to 7789001\n")
    assert "6660666" not in run.stdout + json.dumps([record["fields"] for record in records])
    first, second = ({one["name"]: one for one in records[index]["fields"]} for index in (2, 5))
    assert (first["to_account"]["source"], first["amount"]["source"]) == ("user_answer", "instruction")
    assert (second["to_account"]["source"], second["to_account"]["origin_source"]) == ("prior_state", "user_answer")


@pytest.mark.parametrize("typed", ["", "nobody\n"])
def test_without_an_account_nothing_is_paid(typed: str, tmp_path: Path) -> None:
    run, records = transfer(typed, tmp_path)
    assert {record["execution_decision"] for record in records} == {"ask_user"}
    assert run.stdout.endswith("paid: nothing\n")
