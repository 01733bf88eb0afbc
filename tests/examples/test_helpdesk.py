"""The help desk's demo, as `make demo` runs it."""

import subprocess
from pathlib import Path

import pytest

from examples.running import run_example


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    return run_example("helpdesk/demo.py", cwd=tmp_path_factory.mktemp("elsewhere"))


def test_it_ends_well(demo: subprocess.CompletedProcess[str]) -> None:
    assert (demo.returncode, demo.stderr) == (0, "")
    assert demo.stdout.endswith("exactly what was allowed, and nothing else.\n")


def test_it_says_how_many_calls_were_denied_and_allowed(demo: subprocess.CompletedProcess[str]) -> None:
    assert "20 calls on gated tools: 16 denied, 4 allowed." in demo.stdout
    assert demo.stdout.count("gate  DENIED  ") == 16
    assert demo.stdout.count("gate  ALLOWED  ") == 4


def test_a_denial_names_check_next_step_and_escalation(demo: subprocess.CompletedProcess[str]) -> None:
    denied = """
    gate  DENIED  outcome_not_allowed, check 5: pack
    told  Denied, nothing was done: the decision on this case does not let this tool do that.
          Next step: Hand the ticket to the refunds lead. Don't reply.
          Escalation refunds-lead
"""
    assert denied in demo.stdout


def test_it_is_plain_text_of_100_columns(demo: subprocess.CompletedProcess[str]) -> None:
    assert "\x1b" not in demo.stdout
    assert demo.stdout.isascii()
    assert max(map(len, demo.stdout.splitlines())) <= 100


def test_it_keeps_the_help_desk_where_it_is_told_to_and_nothing_else(tmp_path: Path) -> None:
    first = run_example("helpdesk/demo.py", "--db", "desk.db", cwd=tmp_path)
    assert first.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["desk.db"]

    again = run_example("helpdesk/demo.py", "--db", "desk.db", cwd=tmp_path)
    assert again.returncode == 2
    assert "desk.db is there already" in again.stderr
