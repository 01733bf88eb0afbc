"""How a command fails: one line for each error on stderr, exit code 2, and no trace."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Final, NoReturn, TypeAlias

import typer
from typer.core import TyperCommand

from preaction.errors import PreactionError

EXIT_CODE: Final = 2

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print errors as JSON, as the rest is in any case.")]
"""The option of a command that prints nothing but JSON."""


class _Failed(typer.Exit):
    """The end of a command that has said why, with the same for programs."""

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        super().__init__(EXIT_CODE)
        self.errors = errors


class Command(TyperCommand):
    """A command that with `--json` also fails in JSON: stdout is then for programs, whatever happens."""

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        try:
            with _installed():
                return super().invoke(ctx)
        except _Failed as failed:
            if ctx.params.get("as_json"):
                say(json.dumps({"errors": failed.errors}))
            raise


def fail(*lines: str) -> NoReturn:
    """Say why on stderr, and end."""
    for line in lines:
        warn(line)
    raise _Failed([{"message": line.removeprefix("preaction: ")} for line in lines if line])


def warn(line: str) -> None:
    """One line on stderr; what isn't printable in it, whatever it quotes, is escaped."""
    typer.echo(printable(line), err=True)


def printable(text: str) -> str:
    """`text` with what draws nothing, moves a cursor or turns the direction escaped."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "backslashreplace").decode() for one in text
    )


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around imports: a package that is missing is one line that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if _is_ours(error):
            raise
        fail(f"preaction: this command needs more packages: pip install 'preaction[{extra}]'")


needs_authority = partial(needs, "authority")


@contextmanager
def _installed() -> Iterator[None]:
    """The same where a package is missing only for what a file asks for; such an error says itself what to install."""
    try:
        yield
    except ImportError as error:
        if _is_ours(error):
            raise
        fail(f"preaction: {error}")


def _is_ours(error: ImportError) -> bool:
    return (error.name or "").partition(".")[0] == "preaction"


@contextmanager
def told(file: str | None = None) -> Iterator[None]:
    """Around a command's work: the errors of a pack by line and column, and any other error of ours, as lines."""
    try:
        yield
    except PreactionError as error:
        problems = getattr(error, "problems", None)
        if problems is None:
            fail(f"preaction: {error}")
        where = file or "pack"
        for each in problems:
            warn(f"{where}:{each.line}:{each.column}: {each.detail}")
        raise _Failed(
            [{"message": each.detail, "file": where, "line": each.line, "column": each.column} for each in problems]
        ) from None


def say(line: str) -> None:
    """One line on stdout, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
