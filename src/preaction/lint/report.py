"""7 · A rules file looked at as a whole: all notes, each with its line and column."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from preaction._core.rule import read_rule
from preaction.gate import create_action_gate
from preaction.lint.against_release import Released, ask, notes_against_release
from preaction.lint.against_tools import notes_against_tools
from preaction.lint.alone import notes_alone
from preaction.lint.notes import CODES, Note, Severity
from preaction.lint.tools import Tool
from preaction.rest.felspar import Felspar
from preaction.rules_file import CALLABLES, RulesFile


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, at a line and column (both from 1): what is wrong, and what to do."""

    code: str
    severity: Severity
    line: int
    column: int
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found, in the order of the file. `releases` and `tools` are what it was held against, if anything.

    `releases` are names; None where the authority wasn't asked, empty where it has nothing to go by. `tools` is how
    many there are.
    """

    file: str
    findings: Sequence[Finding]
    releases: Sequence[str] | None
    tools: int | None

    def count(self, severity: Severity) -> int:
        """How many findings are of this severity."""
        return sum(each.severity == severity for each in self.findings)


def lint(
    file: RulesFile, felspar: Felspar | None = None, tools: Sequence[Tool] | None = None, accept: Collection[str] = ()
) -> Report:
    """Look at `file`, at what the authority behind `felspar` released, and at the real `tools`.

    What isn't given isn't looked at. `accept` are names of the rules that `tools` need not have. Raises
    `RulesFileError` for rules of which no gate can be made, `AuthorityError` where the authority gives no answer, and
    `ConfigurationError` for one that isn't a description.
    """
    given = file.given
    options = file.options({}, {**dict.fromkeys(CALLABLES, _nobody), "audit": None, "store": None})
    with file.placed():
        create_action_gate(**options)
    rules = {tool: read_rule(tool, rule) for tool, rule in given.tools.items()}
    notes = [*notes_alone(given, rules)]
    released: Released | None = None
    if felspar is not None:
        released, refused = ask(felspar, given)
        notes += refused
        if released is not None:
            notes += notes_against_release(given, rules, released)
    if tools is not None:
        notes += notes_against_tools(given, rules, tools, accept)
    releases = None if felspar is None else [each.release for each in released.accepted] if released else []
    findings = sorted(
        {_placed(file, each) for each in notes}, key=lambda one: (one.line, one.column, one.code, one.problem)
    )
    return Report(file.file, findings, releases, None if tools is None else len(tools))


def _nobody(*_asked: object) -> dict[str, object]:
    """Stands where the authority would be asked, in a gate that judges nothing."""
    return {}


def _placed(file: RulesFile, note: Note) -> Finding:
    at = file.places.problem(note.path, note.problem, key=note.key)
    return Finding(note.code, CODES[note.code], at.line, at.column, note.problem, note.remedy)
