"""Running an example as a user does: as a process of its own, from the root of the checkout."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_example(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """The finished process; its output is 100 columns wide."""
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / command[0]), *command[1:]],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
