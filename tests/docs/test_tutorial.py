"""The tutorial, done as it says: its files are written, its commands run, and what they print is what stands there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from docs.pages import BIN, ROOT

PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
FENCE = re.compile(r'^```(\w+)(?: title="([\w.]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def test_its_files_and_commands_in_their_order(tmp_path: Path) -> None:
    files, commands = 0, 0
    for language, title, text in FENCE.findall(PAGE):
        if title:
            (tmp_path / title).write_text(text, "utf-8")
            files += 1
        elif language == "console":
            _compare(text, tmp_path)
            commands += 1
        else:
            assert language == "sh", "a block that nothing tries"
    assert files == PAGE.count(' title="')
    assert commands == PAGE.count("```console") > 0


def _compare(block: str, folder: Path) -> None:
    """One command and what it prints; `…` on the page stands for whatever differs from run to run."""
    command, _, expected = block.partition("\n")
    prompt, *words = shlex.split(command)
    assert prompt == "$"
    program = {"python": [sys.executable], "preaction": [str(BIN / "preaction")]}[words[0]]
    environ = {**os.environ, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run(
        [*program, *words[1:]], cwd=folder, env=environ, capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    assert run.stderr == ""
    pattern = ".*".join(re.escape(part) for part in expected.split("…"))
    assert re.fullmatch(pattern, run.stdout), run.stdout
