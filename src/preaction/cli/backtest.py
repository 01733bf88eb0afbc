"""`preaction backtest`: recorded calls under changed rules, before these rules bite."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from preaction.cli.failing import fail, needs_authority, say, told
from preaction.cli.screen import ascii_safe

if TYPE_CHECKING:
    from collections.abc import Callable

    from preaction._core.rule import RuleBook
    from preaction.audit.backtesting import Backtest, Judged
    from preaction.wire.models import JobDescription

CHANGED = 1
"""The exit code where a call gets another verdict, or where that can't be told."""


def backtest(
    calls: Annotated[Path, typer.Argument(help="A log of the gate's audit, with its earlier parts; - for stdin.")],
    rules: Annotated[Path, typer.Option(help="The rules file to judge them by: gate.yaml, .toml or .json.")],
    pack: Annotated[
        Path | None,
        typer.Option(help="A pack's YAML file: go by what it lets each outcome do, in place of the recorded release."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print a line of JSON for each call that is changed, and a summary as the last."),
    ] = False,
) -> None:
    """Say which recorded calls would now be allowed or denied, with counts and each call that is changed.

    Nobody is asked: the core judges by the answers that were recorded. What these rules ask beyond that can't be told,
    and is counted apart. With --pack each case counts as decided alike; it isn't decided again.
    """
    from preaction.audit.backtesting import Backtest
    from preaction.audit.reading import records

    book = _book(rules)
    tested = Backtest(book, None if pack is None else _described(pack, book.job))
    began = time.monotonic()
    with told(), _progress(calls) as advance:
        for record in records(calls):
            judged = tested.judge(record)
            if judged.changed:
                say(json.dumps(_line(judged)) if as_json else _words(judged))
            advance()
    took = time.monotonic() - began
    if not tested.total:
        fail("preaction: there is no record in this file, so there is nothing to judge")
    if as_json:
        say(json.dumps(_summary(tested, took)))
    else:
        for line in _counts(tested, ascii_safe(rules.name), took):
            say(line)
    if tested.total != tested.became["still allowed"] + tested.became["still denied"]:
        raise typer.Exit(CHANGED)


def _book(rules: Path) -> "RuleBook":
    from preaction.options import read_book
    from preaction.rules_file import read_rules_file

    with told(str(rules)):
        file = read_rules_file(rules)
    given = file.given
    with told(str(rules)), file.placed():
        return read_book(
            job=given.job,
            tools=given.tools,
            own_tools=frozenset(filter(None, (given.decision_tool, given.output_check_tool))),
            releases=given.releases,
            refuse_fields=given.refuse_fields,
            test_recipients=given.test_recipients,
            unlisted=given.unlisted,
            own_suffixes=given.own_suffixes,
            shared_domains=given.shared_domains,
            max_decision_age=given.max_decision_age,
            max_clock_skew_s=given.max_clock_skew_s,
        )
    raise AssertionError("an error ends the command")


def _described(pack: Path, job: str) -> "JobDescription":
    with needs_authority():
        from preaction.authority.local import pack_text
        from preaction.authority.packs.release import read_release

    with told(str(pack)):
        release = read_release(pack_text(pack))
    if job not in release.jobs:
        fail(f"preaction: {ascii_safe(pack.name)} has no job {ascii_safe(job)}, which the rules go by")
    return release.jobs[job].description


@contextmanager
def _progress(calls: Path) -> "Iterator[Callable[[], object]]":
    """A bar on stderr while the work goes on, where somebody looks at it."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("calls", total=_lines(calls) if console.is_terminal else None)
        yield lambda: bar.advance(task)


def _lines(calls: Path) -> int | None:
    from preaction.audit.parts import files_of

    try:
        return sum(1 for _, file in files_of(calls) for _ in file)
    except OSError:  # stdin; what can't be read is said by the reader
        return None


def _line(judged: "Judged") -> dict[str, Any]:
    record = judged.record
    return {
        "id": record.id,
        "at": record.model_dump(mode="json", include={"at"})["at"],
        "tool": record.tool,
        "case": record.verdict.case,
        "became": judged.became,
        "before": record.verdict.code,
        "now": judged.code,
    }


def _words(judged: "Judged") -> str:
    line = _line(judged)
    about = "" if line["case"] is None else f" on {line['case']}"
    text = f"{line['became']}: {line['tool']}{about} at {line['at']}: {line['now']}, was {line['before']}; {line['id']}"
    return ascii_safe(text)


def _counts(tested: "Backtest", rules: str, took: float) -> Iterator[str]:
    yield f"{tested.total} calls judged by {rules} in {took:.1f} s"
    for became in ("now allowed", "now denied", "still allowed", "still denied", "can't be told"):
        yield f"  {became:<14}{tested.became[became]}"
    for (before, now), count in tested.codes.most_common():
        yield f"  {before} -> {now}: {count}"
    for why, count in tested.untold.most_common():
        yield f"  can't be told, {ascii_safe(why)}: {count}"


def _summary(tested: "Backtest", took: float) -> dict[str, Any]:
    return {
        "calls": tested.total,
        "became": dict(tested.became),
        "codes": [{"before": before, "now": now, "calls": n} for (before, now), n in tested.codes.most_common()],
        "cannotBeTold": [{"why": why, "calls": n} for why, n in tested.untold.most_common()],
        "seconds": round(took, 3),
    }
