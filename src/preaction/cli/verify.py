"""`preaction verify`: whether a decision holds, by its authority; or, offline, what a receipt says."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from preaction.cli.failing import fail, needs_authority, say, told
from preaction.cli.input import read_bytes

INVALID: Final = 1
"""The exit code of an answer that is no."""


def verify(
    execution_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The execution's id; needs --origin.")
    ] = None,
    origin: Annotated[
        str | None, typer.Option(help="Where the authority is: https://host, or http on loopback.")
    ] = None,
    agent_key_env: Annotated[
        str, typer.Option(help="The environment variable that holds the agent key.")
    ] = "PREACTION_AGENT_KEY",
    offline: Annotated[
        Path | None, typer.Option(help="The file of a receipt (compact JWS), or - for stdin; needs --jwks.")
    ] = None,
    jwks: Annotated[Path | None, typer.Option(help="The authority's keys, as /.well-known/jwks.json answers.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of words.")] = False,
) -> None:
    """Ask the authority whether a decision holds, or check a receipt offline."""
    if execution_id is not None and origin is not None and offline is None and jwks is None:
        _ask(execution_id, origin, agent_key_env, as_json)
    elif offline is not None and jwks is not None and execution_id is None and origin is None:
        _offline(offline, jwks, as_json)
    else:
        fail("preaction: give an execution's ID and --origin, or --offline and --jwks")


def _ask(execution_id: str, origin: str, variable: str, as_json: bool) -> None:
    from preaction.errors import AuthorityError
    from preaction.rest.felspar import Felspar

    key = os.environ.get(variable)
    if not key:
        fail(f"preaction: --agent-key-env: the environment has no {variable}")
    with told():
        try:
            with Felspar(origin, key) as felspar:
                answer = felspar.verify(execution_id)
        except AuthorityError as error:
            if error.status != 404:
                raise
            _end({"valid": False, "problems": ["not_found"]}, "not valid: the authority has no such execution", as_json)
    valid = answer["valid"] is True
    said = "valid" if valid else f"not valid: {', '.join(map(_plain, answer['problems']))}"
    lines = [f"{_plain(execution_id)}: {said}", *_replayed(answer.get("replay"))]
    _end({**answer, "valid": valid}, "\n".join(lines), as_json)


def _replayed(replay: Any) -> list[str]:
    if not replay:
        return []
    outcome = f"decided: {_plain(replay['outcome'])}" if replay["status"] == "decided" else "undecided"
    until = replay.get("evidenceFreshUntil")
    fresh = f"; its evidence is fresh until {_plain(until)}" if until else ""
    where = f"job {_plain(replay['job'])}, release {_plain(replay['release'])}, case {_plain(replay['case']['id'])}"
    return [f"decided again: {where}: {outcome}{fresh}"]


def _offline(receipt: Path, jwks: Path, as_json: bool) -> None:
    with needs_authority():
        from preaction.authority.signing.offline import MAX_BYTES, in_words, read_keys, read_receipt

    with told():
        keys = read_keys(read_bytes(jwks, MAX_BYTES))
        text = read_bytes(receipt, MAX_BYTES).decode("ascii", "replace").strip()
        found = read_receipt(text, keys)
    if found is None:
        _end({"valid": False}, "not valid: no receipt that one of these keys signed", as_json)
        return
    record, kid = found
    note = "Whether it still holds (revoked, superseded, stale) only the authority can say."
    words = "\n".join((*in_words(record), f"signed by {kid}", note))
    _end({"valid": True, "kid": kid, "record": record}, words, as_json)


def _end(answer: dict[str, Any], words: str, as_json: bool) -> None:
    say(json.dumps(answer) if as_json else words)
    if answer["valid"] is not True:
        raise typer.Exit(INVALID)


def _plain(value: object) -> str:
    """Without characters that move a terminal's cursor."""
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value)
