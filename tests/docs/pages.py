"""Run what stands on a page: Python blocks, what they print, and shell commands.

Blocks of one page share their names, in order. A `text` block right after a Python block is what that one prints. Of a
`sh` block each line is one command, and each kind of command has its own proof that it is right (`COMMANDS`).
`console` blocks are commands with what they print.
"""

import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import redirect_stdout
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from sybil import Document, Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

from docs.console import run_console

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def run_python(example: Example) -> None:
    """As sybil runs a Python block, with what it prints kept for the `text` block after it."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        PythonEvaluator()(example)
    example.namespace["_printed"] = printed.getvalue()


def compare_text(example: Example) -> str | None:
    """A `text` block is what the Python block before it printed; without one it is just text."""
    printed = example.namespace.pop("_printed", None)
    if printed is None or printed == str(example.parsed):
        return None
    return f"printed:\n{printed}\nthe page says:\n{example.parsed}"


def run_shell(example: Example) -> str | None:
    """Every command of the block is one that works."""
    for line in str(example.parsed).splitlines():
        words = shlex.split(line, comments=True)
        variables = dict(word.split("=", 1) for word in takewhile(lambda word: "=" in word, words))
        words = words[len(variables) :]
        if not words:
            continue
        if words[0] not in COMMANDS:
            return f"no test knows how to try {line!r}"
        with patch.dict(os.environ, variables):
            if problem := COMMANDS[words[0]](words[1:]):
                return f"{line}\n{problem}"
    return None


def _make(targets: list[str]) -> str | None:
    unknown = {target for target in targets if "=" not in target} - TARGETS
    return f"no such target: {unknown}" if unknown else None


def _pip(words: list[str]) -> str | None:
    match = re.fullmatch(r"(?:\.|preaction)(?:\[([a-z,-]+)\])?", words[1]) if words[0] == "install" else None
    if match is None:
        return "not an install of this package"
    unknown = set((match[1] or "").split(",")) - {"", *PROJECT["optional-dependencies"]}
    return f"no such extra: {unknown}" if unknown else None


def _python(words: list[str]) -> str | None:
    """An example; `tests/examples` runs them all."""
    known = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("examples/*/*.py")}
    return None if words[0] in known else "no such example"


def _preaction(words: list[str]) -> str | None:
    """Run it; a server until it says that it is ready."""
    with TemporaryDirectory() as folder:
        moved = [word.replace("sqlite:///", f"sqlite:///{folder}/") for word in words]
        command = [str(BIN / "preaction"), *moved]
        if words[0] == "serve" and "--help" not in words:
            return _serves([*command, *([] if "--db" in words else ["--db", f"sqlite:///{folder}/served.db"])])
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    return None if run.returncode == 0 else run.stdout + run.stderr


def _serves(command: list[str]) -> str | None:
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        server.terminate()
    return None if line.startswith('{"origin": "http://127.0.0.1:') else f"not ready: {line}"


COMMANDS: dict[str, Callable[[list[str]], str | None]] = {
    "make": _make,
    "pip": _pip,
    "python": _python,
    "preaction": _preaction,
}

PARSERS = {"python": run_python, "text": compare_text, "sh": run_shell, "console": run_console}
READER = Sybil([CodeBlockParser(language, evaluator) for language, evaluator in PARSERS.items()])


def run_page(path: Path) -> Document:
    """Run the whole page from the root of the checkout; the first block that fails raises."""
    document = READER.parse(path)
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        with patch.dict(os.environ):  # which a page may change
            for example in document.examples():
                example.evaluate()
    finally:
        os.chdir(before)
    return document
