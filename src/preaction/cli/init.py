"""`preaction init`: a rules file to begin with, and a small program that runs."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from preaction.cli.failing import fail, say, told

if TYPE_CHECKING:
    from preaction.cli.starter import Answers

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
_TOOL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,99}", re.ASCII)
_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)


def init(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path(),
    origin: Annotated[
        str | None, typer.Option(help="Where the authority is: https://host, or http on loopback.")
    ] = None,
    agent_key_env: Annotated[str | None, typer.Option(help="The environment variable with the agent key.")] = None,
    job: Annotated[str | None, typer.Option(help="The kind of decision, by its name in the pack.")] = None,
    tool: Annotated[str | None, typer.Option(help="The tool that acts, by its exact name in your runtime.")] = None,
    case_field: Annotated[str | None, typer.Option(help="The field of a call that names the case.")] = None,
    text_field: Annotated[list[str] | None, typer.Option(help="A field whose text must be checked.")] = None,
    field: Annotated[list[str] | None, typer.Option(help="Any other field that a call may set.")] = None,
    output: Annotated[str | None, typer.Option(help="The output that the tool writes, by its id in the pack.")] = None,
    outcome: Annotated[list[str] | None, typer.Option(help="An outcome that lets the tool act.")] = None,
    pack: Annotated[bool, typer.Option(help="Write a pack as well, for an authority of your own.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: what isn't given is as proposed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as one JSON object.")] = False,
) -> None:
    """Write gate.yaml with its schema, a pack, and an example that shows one call denied and then allowed.

    Asks for what isn't given.
    """
    ask = _Asking(silent=yes)
    if outcome and (output or text_field):
        fail("preaction: --outcome is for a tool without a text to check; leave --output and --text-field out")
    if not yes and not _somebody_there():
        fail("preaction: there is nobody to ask; give --yes, and options for what shall not be as proposed")
    with _until_left():
        answers = _answers(ask, origin, agent_key_env, job, tool, case_field, text_field, field, output, outcome, pack)
    from preaction.cli.starter import RULES, files

    made = files(answers)
    with told(RULES):
        flaws = _tried(made[RULES])
    there = [name for name in made if (folder / name).exists()]
    if there and not force:
        names = ", ".join(there)
        with _until_left():
            agreed = not yes and typer.confirm(f"{names}: there already. Overwrite?", err=True)
        if not agreed:
            fail(f"preaction: {names}: there already, and nothing was written; --force overwrites")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            with (folder / name).open("w" if name in there else "x", encoding="utf-8") as file:
                file.write(text)
            if not as_json:
                say(f"{'overwrote' if name in there else 'wrote'} {folder / name}")
    except OSError as error:
        fail(f"preaction: {folder}: it can't be written ({error.strerror})")
    if as_json:
        say(json.dumps({"folder": str(folder), "wrote": [*made], "overwrote": there, "lookAt": flaws}))
        return
    for flaw in flaws:
        say(f"look at {flaw}")
    say(f"now: python {folder / 'example.py'}")


@contextmanager
def _until_left() -> Iterator[None]:
    """Around questions: who ends them gets no files."""
    try:
        yield
    except typer.Abort:
        fail("", "preaction: nothing was written")


def _somebody_there() -> bool:
    return sys.stdin.isatty()


class _Asking:
    """Takes what was given, else asks, else takes what is proposed."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent

    def one(self, given: str | None, question: str, proposed: str, fits: Callable[[str], bool]) -> str:
        """One value that fits; what was given and doesn't is an error, what was typed and doesn't is asked again."""
        if given is not None or self._silent:
            value = proposed if given is None else given
            if not fits(value):
                fail(f"preaction: {question}: {value!a} can't be that")
            return value
        while not fits(value := str(typer.prompt(question, default=proposed, err=True))):
            typer.echo(f"{value!a} can't be that", err=True)
        return value

    def many(
        self, given: Sequence[str] | None, question: str, proposed: str, fits: Callable[[str], bool]
    ) -> tuple[str, ...]:
        """The same for several, typed with commas between; none is allowed."""
        if given is not None or self._silent:
            values = proposed.split() if given is None else list(given)
            for value in values:
                if not fits(value):
                    fail(f"preaction: {question}: {value!a} can't be that")
            return tuple(dict.fromkeys(values))
        while True:
            typed = str(typer.prompt(f"{question} (with commas; - for none)", default=proposed or "-", err=True))
            values = [each.strip() for each in typed.split(",") if each.strip() not in ("", "-")]
            if all(map(fits, values)):
                return tuple(dict.fromkeys(values))
            typer.echo(f"{typed!a} can't be that", err=True)


def _answers(
    ask: _Asking,
    origin: str | None,
    agent_key_env: str | None,
    job: str | None,
    tool: str | None,
    case_field: str | None,
    text_field: list[str] | None,
    field: list[str] | None,
    output: str | None,
    outcome: list[str] | None,
    pack: bool,
) -> "Answers":
    from preaction.cli.starter import Answers

    where = ask.one(origin, "the origin of the authority", "http://127.0.0.1:8000", _is_origin)
    key = ask.one(agent_key_env, "the environment variable with the agent key", "PREACTION_AGENT_KEY", _is_field)
    named_job = ask.one(job, "the job that decides", "answer-ticket", _is_id)
    named_tool = ask.one(tool, "the tool that acts", "send_reply", lambda name: bool(_TOOL.fullmatch(name)))
    case = ask.one(case_field, "the field that names the case", "ticket_id", _is_field)
    texts = ask.many(text_field, "the fields whose text must be checked", "" if outcome else "body", _is_field)
    others = ask.many(field, "other fields that a call may set", "", _is_field)
    outcomes: tuple[str, ...]
    if texts:
        written = ask.one(output, "the output that the tool writes", "reply", _is_id)
        outcomes = ("go-ahead",)
    else:
        written, outcomes = "", ask.many(outcome, "the outcomes that let it act", "go-ahead", _is_id)
        if not outcomes:
            fail("preaction: without a text to check, at least one outcome is needed that lets the tool act")
    if case in texts:
        fail(f"preaction: {case!r} names the case and can't be the text as well")
    return Answers(where, key, named_job, named_tool, case, texts, others, written, outcomes, pack)


def _is_id(value: str) -> bool:
    return bool(_ID.fullmatch(value))


def _is_field(value: str) -> bool:
    return bool(_FIELD.fullmatch(value))


def _is_origin(value: str) -> bool:
    from preaction.errors import ConfigurationError
    from preaction.rest.origin import read_origin

    try:
        read_origin(value)
    except ConfigurationError:
        return False
    return True


def _tried(text: str) -> list[str]:
    """What lint says of the rules by themselves, before anything is written; errors of the file are raised."""
    from preaction.lint.report import lint
    from preaction.rules_file import read_rules_file

    with TemporaryDirectory() as folder:
        path = Path(folder, "gate.yaml")
        path.write_text(text, "utf-8")
        report = lint(read_rules_file(path))
    return [f"gate.yaml:{each.line}:{each.column}: {each.problem}; {each.remedy}" for each in report.findings]
