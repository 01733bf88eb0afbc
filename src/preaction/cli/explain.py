"""`preaction explain`: a recorded verdict in words, long after the call."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from preaction.cli.failing import fail, say, told
from preaction.cli.screen import Row, ascii_safe, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from preaction._core.verdict import Verdict


def explain(
    record: Annotated[
        Path,
        typer.Argument(help="A log of the audit, or a verdict as check --json prints it; - for stdin."),
    ] = Path("-"),
    identity: Annotated[
        str | None, typer.Option("--id", help="The record with this id, in earlier parts too; without it, the last.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of words.")] = False,
) -> None:
    """Say why a call was allowed or denied: the six checks, what each saw, and what would make the call go through.

    Nobody is asked: all of it stands in the record.
    """
    from preaction.cli.verdict_words import rows, verdict_json

    with told():
        given = _chosen(record, identity)
        verdict, about = _read(given)
    try:
        shown = [*rows(verdict)]
    except (KeyError, TypeError, AttributeError):
        fail("preaction: not a verdict: a check saw what no check sees")
    if as_json:
        say(json.dumps({**verdict_json(verdict), "record": about}, indent=2))
        return
    show(*shown, *_saw(verdict), *_about(about))


def _chosen(path: Path, identity: str | None) -> dict[str, Any]:
    from preaction.audit.reading import objects
    from preaction.errors import ConfigurationError

    chosen: dict[str, Any] | None = None
    for _, given in objects(path):
        if identity is None or given.get("id") == identity:
            chosen = given
            if identity is not None:
                break
    if chosen is None:
        which = "no record" if identity is None else f"no record with the id {ascii_safe(identity)}"
        raise ConfigurationError(f"there is {which} in this file")
    return chosen


def _read(given: dict[str, Any]) -> "tuple[Verdict, dict[str, Any] | None]":
    """The verdict, and for a record of the audit what it says about itself."""
    from preaction.audit.reading import record_of, verdict_in
    from preaction.audit.record import verdict_from

    if "kind" not in given:
        return verdict_in(given), None
    record = record_of(given)
    digest = "" if record.arguments is None else record.arguments.digest
    about = {"id": record.id, "preaction": record.preaction, "job": record.job, "session": record.session}
    plain = record.model_dump(mode="json", include={"at": True, "rules": {"digest"}})
    return verdict_from(record.verdict, record.tool, digest), {"at": plain["at"], **about, "rules": record.rules.digest}


def _saw(verdict: "Verdict") -> "Iterator[Row]":
    """What the check that failed was looking at."""
    seen = None if verdict.failed is None else verdict.checks[verdict.failed].saw
    if seen:
        yield Row("it saw", ascii_safe(json.dumps(dict(seen), ensure_ascii=False)), indent=2, width=12)


def _about(about: dict[str, Any] | None) -> "Sequence[Row]":
    if about is None:
        return ()
    text = f"{about['at']} by preaction {about['preaction']}, job {about['job']}, record {about['id']}"
    return (
        Row("recorded", ascii_safe(text), indent=2, width=12),
        Row("session", ascii_safe(about["session"] or "none"), indent=2, width=12),
        Row("rules", ascii_safe(about["rules"]), indent=2, width=12),
    )
