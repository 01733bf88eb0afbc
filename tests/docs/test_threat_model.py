"""The threat model: every line that says that something is defended names a test, and that test is really run."""

import ast
import os
import re
import subprocess
import sys
import tomllib

import pytest

from docs.pages import ROOT

PAGE = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
DEFENDED, _, NOT_DEFENDED = PAGE.partition("\n## Not defended\n")
LINE = re.compile(r"^- \*\*(.+?)\*\*(.+?)(?=^- |^## |\Z)", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"^    - `(tests/[\w/.]+\.py)::(\w+)`$", re.MULTILINE)


def modules_of_runtimes() -> set[str]:
    """Those that only `make test-runtimes` runs: here they are skipped, since their runtime isn't installed."""
    runtimes = tomllib.loads((ROOT / "tests/adapters/runtimes.toml").read_text("utf-8")).values()
    named = [runtime["tests"] for runtime in runtimes]
    return {module for tests in named for module in ([tests] if isinstance(tests, str) else tests)}


def collected(modules: set[str]) -> set[tuple[str, str]]:
    """Module and name of all tests that pytest finds there, those marked `long` among them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", "-p", "no:cacheprovider", *modules]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    run = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return {(module, name) for module, name in re.findall(r"^(tests/\S+\.py)::(\w+)", run.stdout, re.MULTILINE)}


def defined(module: str) -> set[tuple[str, str]]:
    """Module and name of the test functions that stand in a file."""
    body = ast.parse((ROOT / module).read_text("utf-8")).body
    functions = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {(module, node.name) for node in functions if node.name.startswith("test_")}


def test_every_line_that_is_defended_names_its_tests() -> None:
    lines = LINE.findall(DEFENDED)
    assert len(lines) == len(re.findall(r"^- ", DEFENDED, re.MULTILINE)) > 80
    assert [attack for attack, rest in lines if not TEST.search(rest)] == []
    assert len(TEST.findall(DEFENDED)) == len(re.findall(r"`tests/\S+::", DEFENDED))


def test_every_line_that_is_not_says_what_to_do() -> None:
    lines = LINE.findall(NOT_DEFENDED)
    assert len(lines) == len(re.findall(r"^- ", NOT_DEFENDED, re.MULTILINE)) > 10
    assert [what for what, rest in lines if "*Do:*" not in rest] == []


def test_every_test_that_is_named_is_there() -> None:
    named = set(TEST.findall(DEFENDED))
    assert named - set().union(*(defined(module) for module, _ in named)) == set()


@pytest.mark.long
def test_every_test_that_is_named_is_run() -> None:
    here = {(module, name) for module, name in TEST.findall(DEFENDED) if module not in modules_of_runtimes()}
    assert here - collected({module for module, _ in here}) == set()
