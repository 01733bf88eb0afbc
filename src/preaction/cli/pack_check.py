"""`preaction pack check`: whether a pack can be released."""

import json
from pathlib import Path
from typing import Annotated

import typer

from preaction.cli.failing import needs_authority, say, told


def check(
    file: Annotated[Path, typer.Argument(help="The pack's YAML file.")],
    lookups: Annotated[Path | None, typer.Option(help="The YAML file of lookups that the pack may name.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the pack holds as one JSON object.")] = False,
) -> None:
    """Check a pack. Errors are told as `file:line:column: message`."""
    with needs_authority():
        from preaction.authority import read_lookups
        from preaction.authority.local import pack_text
        from preaction.authority.packs.release import read_release

    with told(str(lookups)):
        known = None if lookups is None else read_lookups(lookups).known
    with told(str(file)):
        release = read_release(pack_text(file), known)
    held = {job.name: ([each.rule.id for each in job.outcomes], [*job.outputs]) for job in release.jobs.values()}
    if as_json:
        jobs = [{"job": name, "outcomes": outcomes, "outputs": outputs} for name, (outcomes, outputs) in held.items()]
        say(json.dumps({"pack": release.pack, "release": release.version, "jobs": jobs}))
        return
    say(f"{release.pack} {release.version} can be released")
    for name, (outcomes, outputs) in held.items():
        say(f"  {name}: outcomes {', '.join(outcomes)}; outputs {', '.join(outputs) or 'none'}")
