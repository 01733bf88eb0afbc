"""What a person reads: plain text that works without colour, at most 100 columns wide."""

import json
import os
import shutil
import sys
import textwrap
from typing import Any

from preaction import Verdict, denial_text

CHECKS = ["fields", "case", "fresh", "verified", "pack", "text"]


class Transcript:
    """Prints to stdout. Colour only on a terminal, and only where `NO_COLOR` isn't set."""

    def __init__(self) -> None:
        columns = shutil.get_terminal_size((100, 24)).columns
        self._width = max(50, min(100, columns))
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self._number = 0

    def title(self, text: str) -> None:
        print(self._paint("1", text))
        print("=" * len(text))

    def chapter(self, text: str) -> None:
        print("\n\n" + self._paint("1", text))
        print("-" * len(text))

    def prose(self, text: str) -> None:
        print("\n" + textwrap.fill(text, self._width))

    def legend(self, **labels: str) -> None:
        print()
        for label, meaning in labels.items():
            self._row(label, meaning)

    def step(self, text: str) -> None:
        """A new numbered step: what happens, in words."""
        self._number += 1
        print("\n" + textwrap.fill(text, self._width, initial_indent=f"{self._number:>2}. ", subsequent_indent="    "))

    def call(self, tool: str, args: dict[str, Any]) -> None:
        """What the agent calls, one argument a line."""
        self._row("call", tool)
        self._arguments(args)

    def thing(self, label: str, what: str, parts: dict[str, Any]) -> None:
        """Something that is there at the end, one part a line."""
        self._row(label, what)
        self._arguments(parts)

    def verdict(self, verdict: Verdict) -> None:
        """The gate's answer, and word for word what the model is told."""
        if verdict.allow:
            passed = [name for name, check in verdict.checks.items() if check.saw]  # `text` saw nothing in a note
            self._row("gate", self._paint("1;32", "ALLOWED") + f"  {', '.join(passed)}")
            return
        place = f", check {CHECKS.index(verdict.failed) + 1}: {verdict.failed}" if verdict.failed else ""
        self._row("gate", self._paint("1;31", "DENIED") + f"  {verdict.code}{place}")
        self.told(*denial_text(verdict).splitlines())

    def told(self, *lines: str) -> None:
        """What the model gets back."""
        for index, line in enumerate(lines):
            self._row("told" if index == 0 else "", line)

    def _arguments(self, args: dict[str, Any]) -> None:
        widest = max((len(name) for name in args), default=0)
        for name, value in args.items():
            self._row("", f"  {name:<{widest}}  {_shown(value, self._width - 18 - widest)}")

    def _row(self, label: str, text: str) -> None:
        gutter = f"    {label:<6}"
        for line in textwrap.wrap(text, self._width - len(gutter), subsequent_indent="  ", drop_whitespace=True):
            print(self._paint("2", gutter) + line)
            gutter = " " * len(gutter)

    def _paint(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colour else text


def _shown(value: Any, room: int) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= room else text[: room - 5] + ' ..."'
