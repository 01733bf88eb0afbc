"""What commands print for people: in colour and wrapped where stdout is a terminal, one plain line each otherwise."""

import re
import sys
from dataclasses import dataclass
from typing import Final

from preaction.cli.failing import printable, say

STYLES: Final = {"error": "bold red", "warning": "bold magenta", "hint": "bold", "good": "green", "place": "bold"}
"""Colours that can be read on dark and on light ground."""
_UNSAFE: Final = re.compile(r"[^\x20-\x7e]")


def ascii_safe(text: str) -> str:
    """`text` in printable ASCII on one line: what stands in a file moves no cursor and looks like nothing else."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape", "backslashreplace").decode(), text)


def readable(text: str) -> str:
    """Prose in its own language on one line; what isn't printable, such as a turn of direction, is escaped."""
    return printable(" ".join(text.split()))


def marks() -> tuple[str, str, str]:
    """The marks of what passed, failed and was not reached, as stdout can show them."""
    try:
        "✓✗".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "ok", "no", "-"
    return "✓", "✗", "-"


@dataclass(frozen=True, slots=True)
class Row:
    """A label and words beside it, which wrap under themselves; `indent` and `width` are columns."""

    label: str
    words: str = ""
    style: str = ""
    indent: int = 0
    width: int = 0


def show(*rows: Row) -> None:
    """Print rows on stdout."""
    if sys.stdout.isatty():
        _shown_on_a_terminal(rows)
        return
    for row in rows:
        text = " " * row.indent + row.label.ljust(row.width if row.words else 0) + row.words
        say(_encodable(text.rstrip()))


def _encodable(text: str) -> str:
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _shown_on_a_terminal(rows: tuple[Row, ...]) -> None:
    from rich.console import Console, RenderableType
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    for row in rows:
        label, words = Text(_encodable(row.label), style=STYLES.get(row.style, row.style)), Text(_encodable(row.words))
        shown: RenderableType = label if row.label else words
        if row.label and row.words:
            shown = Table.grid()
            shown.add_column(width=row.width, no_wrap=True)
            shown.add_column(overflow="fold")
            shown.add_row(label, words)
        console.print(Padding(shown, (0, 0, 0, row.indent), expand=False))
