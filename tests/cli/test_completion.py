"""Shell completion, asked for as a person does: a real shell in a terminal, and the tab key."""

import os
import pty
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from docs.pages import BIN

LIMIT_S = 30
SOURCE = 'eval "$(_PREACTION_COMPLETE=source_{} preaction)"; echo re""ady\n'
SHELLS = {
    "bash": (["bash", "--norc", "-i"], SOURCE.format("bash")),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u -d ./dump; " + SOURCE.format("zsh")),
}
TYPED = [
    ("preaction wat", "preaction watch "),
    ("preaction keys ro", "preaction keys rotate "),
    ("preaction lint --offl", "preaction lint --offline "),
    ("preaction check gate.yaml tickets/o", "preaction check gate.yaml tickets/one.json "),
    ("preaction watch --code stal", "preaction watch --code stale "),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gate.yaml").touch()
    (tmp_path / "tickets").mkdir()
    (tmp_path / "tickets" / "one.json").touch()
    return tmp_path


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} isn't on this machine")


def environment(folder: Path) -> dict[str, str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(folder), "TERM": "dumb", "LANG": "C.UTF-8", "PS1": "$ "}


@contextmanager
def terminal(command: list[str], folder: Path) -> Iterator[int]:
    """A shell in a terminal of its own."""
    ours, theirs = pty.openpty()
    files: dict[str, Any] = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(command, cwd=folder, env=environment(folder), start_new_session=True, **files) as shell:
        os.close(theirs)
        try:
            yield ours
        finally:
            shell.kill()
            os.close(ours)


def typed(screen: int, keys: str, expected: str) -> None:
    """Type, and read until it is shown; what is shown instead fails the test."""
    os.write(screen, keys.encode())
    shown = ""
    while expected not in shown:
        assert select.select([screen], [], [], LIMIT_S)[0], f"{keys!r}: {shown!r}"
        shown += os.read(screen, 1 << 16).decode("utf-8", "replace")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_tab_key_completes_commands_options_files_and_codes(shell: str, folder: Path) -> None:
    needs(shell)
    command, prepare = SHELLS[shell]
    with terminal(command, folder) as screen:
        typed(screen, prepare, "ready\r\n")
        for begun, whole in TYPED:
            typed(screen, f"\x15{begun}\t", whole)


@pytest.mark.parametrize(("begun", "whole"), TYPED[1:4])
def test_fish_completes_them_too(begun: str, whole: str, folder: Path) -> None:
    needs("fish")
    script = f"_PREACTION_COMPLETE=source_fish preaction | source; complete -C '{begun}'"
    done = subprocess.run(
        ["fish", "-N", "-c", script], cwd=folder, env=environment(folder), capture_output=True, text=True, check=True
    )
    assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == [whole.split()[-1]]


@pytest.mark.parametrize("asked", ["complete_bash", "source_bash", "complete_zsh"])
def test_no_command_takes_itself_for_a_question_of_the_shell(asked: str, folder: Path) -> None:
    done = subprocess.run(
        [BIN / "preaction", "hook", "--rules", "gate.yaml"],
        cwd=folder,
        env={**environment(folder), "_PREACTION_COMPLETE": asked, "COMP_WORDS": "preaction hook", "COMP_CWORD": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")


def test_the_script_for_this_shell_is_printed() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{BIN / 'preaction'} --show-completion; true"], capture_output=True, text=True, check=True
    )
    assert "complete -o default -F _preaction_completion preaction" in done.stdout
