"""How a command fails: one line for each error on stderr, exit code 2, and no trace."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

import typer

from preaction.errors import PreactionError

EXIT_CODE: Final = 2


def fail(*lines: str) -> NoReturn:
    """Say why on stderr, and end."""
    for line in lines:
        warn(line)
    raise typer.Exit(EXIT_CODE)


def warn(line: str) -> None:
    """One line on stderr; what isn't printable in it, whatever it quotes, is escaped."""
    typer.echo(printable(line), err=True)


def printable(text: str) -> str:
    """`text` with what draws nothing, moves a cursor or turns the direction escaped."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "backslashreplace").decode() for one in text
    )


@contextmanager
def needs_authority() -> Iterator[None]:
    """Around the imports of the authority: a package that is missing is one line that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "preaction":
            raise
        fail("preaction: this command needs more packages: pip install 'preaction[authority]'")


@contextmanager
def told(file: str | None = None) -> Iterator[None]:
    """Around a command's work: the errors of a pack by line and column, and any other error of ours, as lines."""
    try:
        yield
    except PreactionError as error:
        problems = getattr(error, "problems", None)
        if problems is None:
            fail(f"preaction: {error}")
        fail(*(f"{file or 'pack'}:{each.line}:{each.column}: {each.detail}" for each in problems))


def say(line: str) -> None:
    """One line on stdout, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
