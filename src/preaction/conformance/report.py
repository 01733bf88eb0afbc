"""All lines put together: which ones hold, differ, or couldn't be checked."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from preaction.conformance import (
    closing,
    deciding,
    describing,
    opening,
    operating,
    optional,
    refusing,
    texts,
    verifying,
)
from preaction.conformance.asking import Asker, Differs, Who, path
from preaction.conformance.describing import Jobs
from preaction.conformance.lines import LINES, Line, NotChecked, Outcome
from preaction.conformance.run import Run
from preaction.conformance.sample import Samples
from preaction.errors import ConfigurationError

CHAPTERS: Final = (opening, describing, refusing, deciding, verifying, texts, operating, optional, closing)
"""The modules with lines, in the order of the report."""
MAX_DETAILS: Final = 10
"""Differences that one line names."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was found. `made` says what the authority holds now that it didn't before."""

    origin: str
    outcomes: Sequence[Outcome]
    decisions: int
    checks: int

    @property
    def conforms(self) -> bool:
        """Whether no line differs."""
        return all(each.state != "differs" for each in self.outcomes)

    def as_json(self) -> str:
        """The report as JSON."""
        made = {"decisions": self.decisions, "outputChecks": self.checks}
        body = {"origin": self.origin, "conforms": self.conforms, "made": made}
        return json.dumps({**body, "lines": [asdict(each) for each in self.outcomes]}, ensure_ascii=False, indent=2)


def examine(
    origin: str,
    keys: Mapping[Who, str],
    *,
    jobs: Sequence[str] = (),
    samples: Samples | None = None,
    lines: Collection[str] = (),
    read_only: bool = False,
) -> Report:
    """Check every line, or those named in `lines`, for each of `jobs` (by default all that the agent's key may use).

    `keys` has the agent's, and may have the operator's and another tenant's agent's. With `read_only` nothing is
    decided, checked or revoked. Raises `ConfigurationError` for a line that there isn't, and when the authority can't
    be asked at all.
    """
    if unknown := set(lines) - {each.name for each in LINES}:
        raise ConfigurationError(f"there is no line {', '.join(sorted(unknown))}")
    asker = Asker(origin, keys)
    try:
        run = Run(asker, samples or Samples(), jobs=list(jobs))
        if not jobs:
            run.jobs = _all_jobs(asker)
        outcomes = [
            each for line in all_lines() if not lines or line.name in lines for each in _of_line(line, run, read_only)
        ]
    finally:
        asker.close()
    return Report(origin, outcomes, asker.decisions, asker.checks)


def all_lines() -> list[Line]:
    """Every line, in the order of the report."""
    return [each for chapter in CHAPTERS for each in LINES if each.check.__module__ == chapter.__name__]


def _all_jobs(asker: Asker) -> list[str]:
    try:
        reply = asker.get(path("jobs"))
    except Differs as error:
        raise ConfigurationError(f"the authority can't be asked: {error}") from None
    if reply.status in (401, 403):
        raise ConfigurationError(f"the authority doesn't take the agent's key: {reply.status}")
    try:
        return [each.job for each in Jobs.model_validate(reply.body).root]
    except ValueError:
        return []


def _of_line(line: Line, run: Run, read_only: bool) -> Iterator[Outcome]:
    if not line.each_job:
        yield _outcome(line, run, read_only)
        return
    if not run.jobs:
        yield Outcome(line.name, line.rule, None, "not checked", ("there is no job to check it with",))
    for job in run.jobs:
        yield _outcome(line, run.of(job), read_only)


def _outcome(line: Line, run: Run, read_only: bool) -> Outcome:
    job = run.job or None
    if line.makes and read_only:
        return Outcome(line.name, line.rule, job, "not checked", ("it makes decisions, and --read-only is given",))
    found: list[str] = []
    try:
        if line.makes:
            run.forget()
        found += line.check(run)
    except NotChecked as error:
        return Outcome(line.name, line.rule, job, "not checked", (str(error),))
    except Differs as error:
        found.append(str(error))
    details = tuple(dict.fromkeys(found))
    return Outcome(line.name, line.rule, job, "differs" if found else "holds", details[:MAX_DETAILS])


def rows(report: Report) -> Iterator[tuple[str, Any]]:
    """The report as (style, text) for a terminal."""
    styles = {"holds": "green", "differs": "red", "not checked": "yellow"}
    for each in report.outcomes:
        about = f" [{each.job}]" if each.job else ""
        yield styles[each.state], f"{each.state:11}  {each.line}{about}: {each.rule}"
        for detail in each.details:
            yield "", f"{'':13}{detail}"
    count = {state: sum(each.state == state for each in report.outcomes) for state in styles}
    yield "", ""
    yield "", f"{count['holds']} hold, {count['differs']} differ, {count['not checked']} not checked"
    yield "", f"made: {report.decisions} decisions, {report.checks} output checks"
