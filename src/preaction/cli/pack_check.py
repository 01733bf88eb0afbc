"""`preaction pack check`: whether a pack can be released."""

from pathlib import Path
from typing import Annotated

import typer

from preaction.cli.failing import needs_authority, say, told


def check(
    file: Annotated[Path, typer.Argument(help="The pack's YAML file.")],
    lookups: Annotated[Path | None, typer.Option(help="The YAML file of lookups that the pack may name.")] = None,
) -> None:
    """Check a pack. Exit code 2 with `file:line:column: message` for each error."""
    with needs_authority():
        from preaction.authority import read_lookups
        from preaction.authority.local import pack_text
        from preaction.authority.packs.release import read_release

    with told(str(lookups)):
        known = None if lookups is None else read_lookups(lookups).known
    with told(str(file)):
        release = read_release(pack_text(file), known)
    say(f"{release.pack} {release.version} can be released")
    for job in release.jobs.values():
        outcomes = ", ".join(outcome.rule.id for outcome in job.outcomes)
        outputs = ", ".join(job.outputs) or "none"
        say(f"  {job.name}: outcomes {outcomes}; outputs {outputs}")
