"""A file that can't be what a command needs, and a package that isn't there: one line that says so, and exit code 2."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from errno import EACCES
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from audit.test_trail import audited
from core.test_record import SCENES
from docs.pages import ROOT
from preaction.cli.app import COMMANDS, app

RULES = """\
origin: http://127.0.0.1:9
agent_key_env: KEY
job: triage-ticket
tools: {reply: {outcomes: [go], entity: {field: id}, fields: [id]}}
"""
AUTHORITY = "--origin http://127.0.0.1:9 --agent-key-env KEY"
FILES = [
    "lint BAD.yaml",
    "lint BAD.json",
    "check BAD.yaml",
    "check gate.yaml BAD",
    "explain BAD",
    "watch BAD --once",
    "replay BAD",
    "backtest BAD --rules gate.yaml",
    "backtest trail.jsonl --rules BAD.json",
    "backtest trail.jsonl --rules gate.yaml --pack BAD",
    "report BAD --output page.html",
    "serve --pack BAD",
    "serve --pack pack.yaml --lookups BAD",
    "proxy --rules BAD.yaml -- true",
    f"conformance {AUTHORITY} --samples BAD",
    "hook --rules BAD.yaml",
    "hook --rules BAD.yaml --print-config",
    "verify --offline trail.jsonl --jwks BAD",
    "audit verify BAD",
    "pack check BAD",
    "pack check pack.yaml --lookups BAD",
    "pack diff BAD pack.yaml",
    "pack diff pack.yaml BAD",
]
"""Commands with the place of a file; the file is BAD, with the ending that the command asks for."""

DATABASES = [
    "retain --db sqlite:///BAD --older-than P1D",
    "audit-chain --db sqlite:///BAD",
    "audit verify sqlite:///BAD",
    "pack diff 1 2 --pack p --db sqlite:///BAD",
    "keys revoke --db sqlite:///BAD id",
    "keys rotate --db sqlite:///BAD",
]
NO_FILE: Final = {"init": "a folder is made", "mcp": "it reads none", "keys create": "a database is made"}

KINDS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "a directory": Path.mkdir,
    "no rights": Path.touch,
    "empty": Path.touch,
    "binary": lambda path: path.write_bytes(bytes(range(256)) * 20),
}
SAID = {
    "missing": r"No such file or directory|there is no such file",
    "a directory": r"Is a directory|it is no regular file",
    "no rights": r"Permission denied",
    "empty": r"empty|no (such )?record|no entry|not strict JSON|valid dictionary|no JWK set|needed",
    "binary": r"UTF-8|not strict JSON|no JWK set|not a line|YAML|TOML|not valid",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "gate.yaml").write_text(RULES)
    (tmp_path / "trail.jsonl").write_text("{}\n")
    shutil.copy(ROOT / "examples/helpdesk/pack.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEY", "pa_agent_1_2")
    return tmp_path


def run(words: str) -> Any:
    done = CliRunner().invoke(app, words.split(), input="")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def refuse_to_open(path: Path, patch: pytest.MonkeyPatch) -> None:
    """As for who has no rights; root has them all."""
    real = io.open

    def opened(file: Any, *arguments: Any, **options: Any) -> Any:
        if os.fspath(file) == os.fspath(path):
            raise PermissionError(EACCES, os.strerror(EACCES))
        return real(file, *arguments, **options)

    patch.setattr(io, "open", opened)


def one_line(done: Any) -> str:
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.output
    assert "Traceback" not in done.stderr
    return str(done.stderr)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", FILES)
def test_a_file_that_cannot_be_read_is_one_line_that_says_why(
    words: str, kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = next(word for word in words.split() if word.startswith("BAD"))
    KINDS[kind](Path(name))
    if kind == "no rights":
        refuse_to_open(Path(name), monkeypatch)
    done = run(words)
    if (words, kind) == ("watch BAD --once", "empty"):
        assert (done.exit_code, done.stderr) == (0, "preaction: 0 allowed, 0 denied\n")
    elif (words, kind) == ("watch BAD --once", "binary"):
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith("preaction: BAD:1: not strict JSON")
    elif (words, kind) == ("audit verify BAD", "binary"):
        assert (done.exit_code, done.stdout.splitlines()[0]) == (1, "altered: BAD:1 number 1: not a line of this log")
    else:
        assert re.search(SAID[kind], one_line(done)), done.stderr


@pytest.mark.parametrize("kind", ["missing", "a directory", "empty", "binary"])
@pytest.mark.parametrize("words", DATABASES)
def test_a_database_that_is_none_is_one_line(words: str, kind: str, folder: Path) -> None:
    KINDS[kind](folder / "BAD")
    before = sorted(folder.iterdir())
    said = one_line(run(words))
    assert re.search(r"no such database|can't be opened|no tables|no table|isn't there|has no release", said)
    if kind == "missing":
        assert sorted(folder.iterdir()) == before


def test_every_command_that_reads_a_file_is_tried() -> None:
    tried = {name for name in COMMANDS for words in (*FILES, *DATABASES) if words.startswith(f"{name} ")}
    assert tried | NO_FILE.keys() == COMMANDS.keys()


def test_what_cannot_be_written_is_one_line(folder: Path) -> None:
    Path("taken").touch()
    assert one_line(run("init taken --yes")) == "preaction: taken: it can't be written (File exists)\n"
    assert "the folder of the database" in one_line(run("keys create --db sqlite:///taken/desk.db --pack p"))
    assert "named by a URL" in one_line(run("keys create --db desk.db --pack p"))


MISSING = {
    "ruamel": ["init new --yes", "lint gate.yaml", "check gate.yaml", "hook --rules gate.yaml"],
    "starlette": ["serve --pack pack.yaml", "pack check pack.yaml", "backtest t --rules gate.yaml --pack pack.yaml"],
    "sqlalchemy": [
        *("retain --db sqlite:///d --older-than P1D", "audit-chain --db sqlite:///d", "audit verify sqlite:///d"),
        *("keys create --db sqlite:///d --pack p", "keys revoke --db sqlite:///d id", "keys rotate --db sqlite:///d"),
        "pack diff pack.yaml pack.yaml",
    ],
    "filelock": ["audit verify sqlite:///d"],
    "joserfc": ["verify --offline trail.jsonl --jwks trail.jsonl"],
    "prometheus_client": ["serve --pack pack.yaml --metrics-port 0"],
    "mcp": ["lint gate.yaml --offline --mcp true", f"mcp {AUTHORITY}", "proxy --rules gate.yaml -- true"],
    "jinja2": ["report records.jsonl --output page.html"],
}
"""Package → commands that need it."""

WITHOUT = """
import json
import sys
from importlib.abc import MetaPathFinder

class Without(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
from typer.testing import CliRunner
from preaction.cli.app import app
for words in sys.argv[2:]:
    done = CliRunner().invoke(app, words.split(), input="")
    print(json.dumps([done.exit_code, done.stdout, done.stderr, type(done.exception).__name__]))
"""


@pytest.mark.parametrize("package", MISSING)
def test_a_package_that_is_missing_is_one_line_that_says_what_to_install(package: str, folder: Path) -> None:
    Path("records.jsonl").write_text(json.dumps(audited(SCENES["allowed"]())[1]) + "\n")
    command = [sys.executable, "-c", WITHOUT, package, *MISSING[package]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    ends = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ends) == len(MISSING[package])
    for code, out, err, raised in ends:
        assert (code, out, err.count("\n"), raised) == (2, "", 1, "SystemExit"), err
        assert re.search(r"pip install 'preaction\[[a-z-]+\]'|install the extra", err)
