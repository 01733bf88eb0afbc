"""The agent that approves invoices, with a person who agrees, one who doesn't, and nobody."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.running import ROOT


@pytest.mark.parametrize(("typed", "large"), [("y\n", "approved"), ("n\n", "open"), ("", "open")])
def test_only_what_a_person_confirmed_is_approved(typed: str, large: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples/invoices/approve.py"), "--folder", str(tmp_path / "office")]
    run = subprocess.run(
        command, input=typed, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    said = [line.split(":")[0].strip() for line in run.stdout.splitlines() if line.startswith("  ") and ", " in line]
    assert [line for line in said if line.split(",")[0] in ("execute", "repair", "ask", "confirm", "deny")] == [
        "repair, invalid_json",
        "execute, executed",
        "repair, invalid_arguments",
        "execute, executed",
        "execute, replayed",
        "deny, not_visible",
        "deny, not_visible",
        "repair, tool_error",
        "confirm, needs_confirmation",
        *(["execute, executed"] if large == "approved" else []),
        "repair, unknown_tool",
    ]
    assert f"'inv_900': '{large}'" in run.stdout
    assert "Quiet Customer" not in run.stdout
    records = (tmp_path / "office" / "audit.jsonl").read_text("utf-8")
    assert ("the person at the terminal" in records) == (large == "approved")
