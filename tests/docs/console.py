"""`console` blocks: commands as in a shell, each with what it prints, on stdout and stderr.

A line that begins with `$ ` is a command. On the page `…` stands for what differs from run to run: a part of a line, or
whole lines where it stands alone. Commands run in the page's `folder`, else at the root of the checkout; a server runs
until it says that it is ready.
"""

import os
import re
import shlex
import subprocess
import sys
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser
from typer.testing import CliRunner

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {"pipeline.md": "cli/test_audit_verify.py", "tutorial.md": "docs/test_tutorial.py"}
"""Pages whose blocks another test runs, on files of its own."""

_STEP = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def run_console(example: Example) -> str | None:
    """Every command of the block prints what stands under it."""
    if Path(example.path).name in ELSEWHERE:
        return None
    with chdir(example.namespace.get("folder", ROOT)):
        for line, expected in _STEP.findall(str(example.parsed)):
            if line.startswith("preaction mcp ") and find_spec("mcp") is None:
                continue  # it is run where its runtime is: tests/adapters/test_authority_mcp.py
            printed = _printed(line, example.namespace)
            if not _pattern(expected).fullmatch(printed):
                return f"{line}\nprinted:\n{printed}\nthe page says:\n{expected}"
    return None


def run_on_own_rules(page: Path, folder: Path) -> int:
    """Run the `console` blocks of a page alone, beside the rules that it shows; how many there are."""
    (rules,) = re.findall(r"```yaml\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    (folder / "gate.yaml").write_text(rules, "utf-8")
    document = Sybil([CodeBlockParser("console", run_console)]).parse(page)
    document.namespace["folder"] = folder
    examples = [*document.examples()]
    for example in examples:
        example.evaluate()
    return len(examples)


def _pattern(expected: str) -> re.Pattern[str]:
    lines = expected.splitlines(keepends=True)
    return re.compile("".join("(?:.*\n)*?" if line == "…\n" else re.escape(line).replace("…", ".*?") for line in lines))


def _printed(line: str, page: dict[str, Any]) -> str:
    words = shlex.split(line)
    if words == ["echo", "$?"]:
        return f"{page['_exit_code']}\n"
    if words[:2] == ["preaction", "serve"]:
        return _first_line(line)
    if words[0] == "preaction" and "--tools" not in words and not re.search(r"[|<>;&]", line):
        printed, page["_exit_code"] = _command([os.path.expandvars(word) for word in words[1:]])
    else:
        printed, page["_exit_code"] = _shell(line)
    return printed


def _command(words: list[str]) -> tuple[str, int]:
    """What the command `preaction` prints, and its exit code; in this process, which is quicker."""
    from preaction.cli.app import app

    done = CliRunner().invoke(app, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.output, done.exit_code


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONIOENCODING": "utf-8"}


def _shell(line: str) -> tuple[str, int]:
    done = subprocess.run(
        ["bash", "-c", line],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(),
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    return done.stdout, done.returncode


def _first_line(line: str) -> str:
    with subprocess.Popen(
        ["bash", "-c", f"exec {line}"], stdout=subprocess.PIPE, text=True, env=_environment()
    ) as server:
        assert server.stdout is not None
        said = server.stdout.readline()
        server.terminate()
    return said
