"""What commands print: on a terminal of 80 columns, without colour, and where stdout can't show a character."""

import io
import os
import pty
import re
import subprocess
import sys

import pytest

from preaction.cli.screen import Row, ascii_safe, marks, readable, show

LONG = (
    "the case comes from a field, so its recipients can be anyone; limit them with 'recipients_at' [red]to some[/red]"
)
ROWS = (Row("gate.yaml:7:3: warning x", style="warning"), Row("✗ pack", LONG, "error", 2, 12), Row("", LONG, indent=4))


def on_a_terminal(*rows: Row, no_colour: str | None = None) -> str:
    """What a terminal of 80 columns is sent."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen, pytest.MonkeyPatch.context() as patch:
        for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR"):
            patch.delenv(name, raising=False)
        for name, value in {"COLUMNS": "80", "TERM": "xterm-256color", "NO_COLOR": no_colour}.items():
            if value is not None:
                patch.setenv(name, value)
        with os.fdopen(theirs, "w", encoding="utf-8") as stdout:
            patch.setattr(sys, "stdout", stdout)
            show(*rows)
            os.set_blocking(screen.fileno(), False)
            sent = b""
            while part := screen.read(65536):
                sent += part
    return sent.decode().replace("\r\n", "\n")


def test_words_wrap_under_themselves() -> None:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal(*ROWS))
    assert [line.rstrip() for line in plain.splitlines()] == [
        "gate.yaml:7:3: warning x",
        "  ✗ pack      the case comes from a field, so its recipients can be anyone;",
        "              limit them with 'recipients_at' [red]to some[/red]",
        "    the case comes from a field, so its recipients can be anyone; limit them",
        "    with 'recipients_at' [red]to some[/red]",
    ]


def test_a_terminal_gets_colour_unless_it_is_unwanted() -> None:
    assert "\x1b[1;35mgate.yaml" in on_a_terminal(*ROWS)
    assert "\x1b[1;35m" not in on_a_terminal(*ROWS, no_colour="1")


def test_anything_else_gets_one_plain_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    show(*ROWS)
    assert capsys.readouterr().out.splitlines() == ["gate.yaml:7:3: warning x", f"  ✗ pack      {LONG}", f"    {LONG}"]


def test_what_stdout_cannot_show_is_said_in_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert marks() == ("ok", "no", "-")
    show(Row("état"))
    assert raw.getvalue() == b"\\xe9tat\n"


def test_prose_stays_readable_and_names_are_ascii() -> None:
    assert readable("Bitte  prüfen\n\u202eund\x1b[2J warten.") == "Bitte prüfen \\u202eund\\x1b[2J warten."
    assert ascii_safe("prüfen\u202e\n\\") == "pr\\xfcfen\\u202e\\n\\"
    assert ascii_safe("\ud800") == "\\ud800"


def test_the_commands_are_known_without_what_they_need() -> None:
    needed = ("rich.console", "preaction.lint", "preaction.cli.starter", "preaction.rules_file", "httpx", "mcp")
    code = f"import preaction.cli.app, sys; print(*set({needed}) & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
