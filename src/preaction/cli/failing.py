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
        typer.echo(line, err=True)
    raise typer.Exit(EXIT_CODE)


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
