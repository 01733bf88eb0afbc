"""`preaction pack check`: whether a pack can be released."""

from pathlib import Path
from typing import Annotated

import typer

from preaction.cli.failing import needs_authority, say, told


def check(file: Annotated[Path, typer.Argument(help="The pack's YAML file.")]) -> None:
    """Check a pack. Exit code 2 with `file:line:column: message` for each error."""
    with needs_authority():
        from preaction.authority.local import pack_text
        from preaction.authority.release import read_release

    with told(str(file)):
        release = read_release(pack_text(file))
    say(f"{release.pack} {release.version} can be released")
    for job in release.jobs.values():
        outcomes = ", ".join(outcome.rule.id for outcome in job.outcomes)
        outputs = ", ".join(job.outputs) or "none"
        say(f"  {job.name}: outcomes {outcomes}; outputs {outputs}")
