"""One call as a file: what the authority's tools returned in the session, the tool, and its arguments."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from preaction.cli.input import read_bytes
from preaction.errors import ConfigurationError
from preaction.results import read_result
from preaction.wire.models import Decision, OutputCheck, PackProblem
from preaction.wire.places import Marks, PlacedError, read_json
from preaction.wire.strict_json import MAX_BYTES

_KEYS: Final = ("results", "tool", "arguments")


@dataclass(frozen=True, slots=True)
class CallFile:
    """A call that was read. `decisions` and `output_checks` are results as the authority gave them, in order."""

    tool: str
    arguments: dict[str, Any]
    decisions: Sequence[Any]
    output_checks: Sequence[Any]
    jobs: frozenset[str]


def read_call(path: Path) -> CallFile:
    """The call in `path`, or on stdin for `-`.

    `{"results": […], "tool": name, "arguments": {…}}`; a result is a decision or an output check, bare or as a runtime
    hands it over. `PlacedError` with line and column of each error; `ConfigurationError` for a file that isn't there.
    """
    content, marks = read_json(_text(path))
    problems = [*_shape(content, marks)]
    if problems:
        raise PlacedError(problems)
    decisions: list[Any] = []
    checks: list[Any] = []
    jobs = set[str]()
    for index, result in enumerate(content.get("results", [])):
        try:
            read = _result(result)
        except _Unusable as bad:
            problems.append(marks.problem(("results", index, *bad.place), bad.why))
            continue
        if isinstance(read, Decision):
            decisions.append(result)
            jobs.add(read.job)
        else:
            checks.append(result)
    if problems:
        raise PlacedError(problems)
    return CallFile(content["tool"], content["arguments"], decisions, checks, frozenset(jobs))


def _text(path: Path) -> str:
    try:
        return read_bytes(path, MAX_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path.name} can't be read: it is not valid UTF-8") from None


def _shape(content: object, marks: Marks) -> list[PackProblem]:
    if not isinstance(content, dict):
        return [marks.problem((), "an object is needed: results, tool and arguments")]
    unknown = [name for name in content if name not in _KEYS]
    found = [
        marks.problem((name,), f"unknown key {name[:80]!a}; there are {', '.join(_KEYS)}", key=True) for name in unknown
    ]
    if not isinstance(content.get("tool"), str) or not content["tool"]:
        found.append(marks.problem(("tool",), "'tool' is needed: the name of the tool, as the rules have it"))
    if not isinstance(content.get("arguments"), dict):
        found.append(marks.problem(("arguments",), "'arguments' is needed: an object"))
    if not isinstance(content.get("results", []), list):
        found.append(marks.problem(("results",), "a list is needed: decisions and output checks as they were returned"))
    return found


class _Unusable(Exception):
    def __init__(self, why: str, place: tuple[str | int, ...] = ()) -> None:
        super().__init__(why)
        self.why, self.place = why, place


def _result(given: object) -> Decision | OutputCheck:
    read = read_result(given)
    if read.state == "error":
        raise _Unusable("the result is marked as an error, so it records nothing")
    if read.state == "unreadable":
        raise _Unusable("no decision and no output check can be read from this")
    model = OutputCheck if {"checkId", "check_id"} & read.content.keys() else Decision
    try:
        return model.model_validate(read.content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        what = "an output check" if model is OutputCheck else "a decision"
        place = ".".join(map(str, first["loc"]))
        raise _Unusable(f"not {what} as the authority returns it: {place}: {first['msg']}", first["loc"]) from None
