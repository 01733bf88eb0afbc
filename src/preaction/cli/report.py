"""`preaction report`: a trail as one page, for people who don't read JSON."""

import json
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated

import typer

from preaction.cli.failing import fail, say, told
from preaction.cli.screen import ascii_safe


def report(
    trails: Annotated[list[Path], typer.Argument(metavar="TRAIL...", help="Logs of the gate's audit; - for stdin.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write, readable to its owner.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print what was counted as one JSON object.")] = False,
) -> None:
    """Write one HTML page: calls over time, denials by code and tool, what was handed on, and the latest denials.

    A log is read with the parts that it was before. The page stands alone: no script, and nothing that is loaded from
    elsewhere. There is none where a line can't be read.
    """
    from preaction.audit.parts import logs_of
    from preaction.audit.reading import records
    from preaction.audit.summary import Summary
    from preaction.cli.report_page import page

    found, logs = Summary(), logs_of(trails)
    with told():
        for log in logs:
            found.add(records(log))
    if not found.total:
        fail("preaction: there is no record in this trail, so there is nothing to report")
    _write(output, page(found, [log.name for log in logs]))
    if as_json:
        say(json.dumps({"page": str(output), "calls": found.total, "denied": found.denied}))
    else:
        say(f"{ascii_safe(output.name)}: {found.total} calls, {found.denied} denied")


def _write(output: Path, text: str) -> None:
    """All of the page, or none: it takes the place of an earlier one when it is whole."""
    if output.exists() and not output.is_file():
        fail(f"preaction: {ascii_safe(output.name)} is there already, and no file")
    part: Path | None = None
    try:
        with NamedTemporaryFile("w", encoding="utf-8", dir=output.parent, suffix=".part", delete=False) as file:
            part = Path(file.name)
            file.write(text)
        part.replace(output)
    except OSError as error:
        if part is not None:
            part.unlink(missing_ok=True)
        fail(f"preaction: {ascii_safe(output.name)} can't be written: {error.strerror}")
