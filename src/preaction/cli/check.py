"""`preaction check`: the verdict on one call, before anything runs or after something was denied."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from preaction.cli.failing import fail, say, told
from preaction.cli.screen import show

if TYPE_CHECKING:
    from preaction.cli.call_file import CallFile
    from preaction.rules_file import RulesFile

_SESSION: Final = "check"
_ONE_USE: Final = "whether its one use is still free is not known here; with --session it is looked up in the store"


def check(
    rules: Annotated[Path, typer.Argument(help="The rules file: gate.yaml, .toml or .json.")],
    call: Annotated[Path, typer.Argument(help="The call as JSON; - for stdin.")] = Path("-"),
    session: Annotated[
        str | None, typer.Option(help="Take what this session recorded in the store of the rules, not 'results'.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as one JSON object.")] = False,
) -> None:
    """Say whether a call would be allowed, and why not: by the rules, and by what the authority says now.

    The call is {"results": [decisions and output checks, as they were returned], "tool": NAME, "arguments": {…}}.
    Nothing runs, and nothing is used up.
    """
    from preaction.cli.call_file import read_call
    from preaction.cli.verdict_words import UNJUDGED, rows, verdict_json
    from preaction.gate import create_action_gate
    from preaction.rules_file import read_rules_file

    with told(str(rules)):
        file = read_rules_file(rules)
    if session is not None:
        _needs_store(rules, file)
    with told("stdin" if str(call) == "-" else str(call)):
        given = read_call(call)
    if session is not None and (given.decisions or given.output_checks):
        fail("preaction: --session: what counts is what the session recorded; leave 'results' out")
    with told(str(rules)):
        options = file.options(None, {"audit": None} if session is not None else {"audit": None, "store": None})
        with file.placed():
            gate = create_action_gate(**options)
        for decision in given.decisions:
            gate.decisions.record(_SESSION, result=decision)
        for checked in given.output_checks:
            gate.output_checks.record(_SESSION, checked)
    verdict = gate.preview(_SESSION if session is None else session, given.tool, given.arguments)
    notes = [*_other_jobs(given, file.given.job)]
    if session is None and gate.acts_once(given.tool):
        notes.append(_ONE_USE)
    if as_json:
        say(json.dumps(verdict_json(verdict, notes), indent=2))
    else:
        show(*rows(verdict, notes))
    if not verdict.allow:
        raise typer.Exit(2 if verdict.code in UNJUDGED else 1)


def _needs_store(rules: Path, file: "RulesFile") -> None:
    """Looking a session up makes no store: one that isn't there holds none."""
    store = file.given.store
    if store is None:
        fail(f"preaction: --session: {rules} names no store, so no session can be looked up")
    if store.sqlite and not (rules.parent / store.sqlite).is_file():
        fail(f"preaction: --session: the store {store.sqlite!r} isn't there, so it holds no session")


def _other_jobs(given: "CallFile", job: str) -> list[str]:
    others: list[Any] = sorted(given.jobs - {job})
    return [f"a decision of the job {other!r} doesn't count: the rules go by {job!r}" for other in others]
