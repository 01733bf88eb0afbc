"""3 · What of the rules the released description of the job never lets happen, and which names it doesn't have."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pydantic import TypeAdapter, ValidationError

from preaction._core.case import is_company
from preaction._core.denied import quote
from preaction._core.facts import Describe, Unavailable, description
from preaction._core.paths import parse_path
from preaction._core.rule import Rule
from preaction.errors import AuthorityError, ConfigurationError
from preaction.lint.notes import Note, instead, listed
from preaction.rest.felspar import Felspar
from preaction.rules_file import RulesInFile
from preaction.wire.models import JobDescription, Output

_HIDDEN = "ask the operator for a key that may use the job"


@dataclass(frozen=True, slots=True)
class Released:
    """What the authority says of the job: `current` is its release, `accepted` those that the rules may go by."""

    current: str
    accepted: Sequence[JobDescription]


def ask(felspar: Felspar, given: RulesInFile) -> tuple[Released | None, list[Note]]:
    """The descriptions that the rules go by; None where the key sees no such job. Raises `AuthorityError`."""
    try:
        current = _described(felspar, given.job, None)
    except AuthorityError as error:
        if not _is_none(error):
            raise
        jobs = [str(each["job"]) for each in felspar.list_jobs()]
        why = f"the authority has no job {quote(given.job)} that this key may use"
        return None, [Note("unknown-job", ("job",), why, instead(given.job, jobs, _HIDDEN))]
    if given.releases is None:
        return Released(current.release, [current]), []
    accepted, notes = [], []
    for index, release in enumerate(given.releases):
        try:
            found = current if release == current.release else _described(felspar, given.job, release)
            accepted.append(found)
        except AuthorityError as error:
            if not _is_none(error):
                raise
            why = f"the job has no release {quote(release)}"
            remedy = instead(release, [current.release], "take it out")
            notes.append(Note("unknown-release", ("releases", index), why, remedy))
    return Released(current.release, accepted), notes


def _is_none(error: AuthorityError) -> bool:
    """Whether the authority has no such thing, or the name can't be one of anything."""
    return error.status == 404 or error.kind == "invalid_id"


def _described(felspar: Felspar, job: str, release: str | None) -> JobDescription:
    answer = felspar.describe_job(job, release)
    found = description(answer, Describe(job, str(answer["release"]) if release is None else release))
    if isinstance(found, Unavailable):
        raise ConfigurationError(found.why)
    return found


def notes_against_release(given: RulesInFile, rules: Mapping[str, Rule], released: Released) -> Iterator[Note]:
    """What of `rules` can't be under what was released."""
    if given.releases is not None and released.accepted and released.current not in given.releases:
        why = f"decisions are now made by release {quote(released.current)}, which 'releases' doesn't name"
        yield Note("release-not-current", ("releases",), why, f"add {quote(released.current)}, or leave 'releases' out")
    for one in released.accepted:
        named = f" of release {quote(one.release)}" if len(released.accepted) > 1 else ""
        for tool, rule in rules.items():
            if not rule.broken:
                yield from _of_rule(tool, rule, one, named)
                yield from _of_case(tool, rule, given, one)
        yield from _of_age(given, one, named)


def _of_rule(tool: str, rule: Rule, job: JobDescription, named: str) -> Iterator[Note]:
    outputs = {each.id: each for each in job.outputs}
    source, place = rule.source, ("tools", tool)
    if source.writes is not None:
        writing = [each.id for each in job.outcomes if source.writes in each.outputs]
        known = {*outputs, *(name for each in job.outcomes for name in each.outputs)}
        yield from _output(source.writes, known, writing, (*place, "writes"), named)
        if writing:
            yield from _of_text(rule, outputs.get(source.writes), place, named)
        return
    ids = {each.id for each in job.outcomes}
    for index, outcome in enumerate(source.outcomes or ()):
        if outcome not in ids:
            why = f"the job{named} has no outcome {quote(outcome)}"
            yield Note("unknown-outcome", (*place, "outcomes", index), why, instead(outcome, ids, "take it out"))
    if rule.texts:
        yield from _of_outcomes_text(rule, job, place, named)


def _output(
    output: str, known: Collection[str], allowing: Collection[str], path: tuple[str | int, ...], named: str
) -> Iterator[Note]:
    if output not in known:
        why = f"the job{named} has no output {quote(output)}"
        yield Note("unknown-output", path, why, instead(output, known, "name one that it has"))
    elif not allowing:
        why = f"no outcome of the job{named} allows the output {quote(output)}, so this tool never acts"
        yield Note("output-never-allowed", path, why, "name an output that an outcome lists, or have the pack list it")


def _of_text(rule: Rule, output: Output | None, place: tuple[str, ...], named: str) -> Iterator[Note]:
    """The digest of a check covers exactly the output's own fields: with others none can ever match."""
    checked = {path.text for path in rule.texts}
    if not checked or output is None or _checks(output, checked):
        return
    why = (
        f"the output {quote(output.id)}{named} is checked by its fields {listed(output.fields)}, not {listed(checked)}"
    )
    remedy = f"set output_check.fields to {listed(output.fields)}, and name the tool's fields so"
    yield Note("checked-fields-differ", (*place, "output_check", "fields"), why, remedy)


def _checks(output: Output, fields: Collection[str]) -> bool:
    return not output.fields or {*output.fields} == {*fields}


def _of_outcomes_text(rule: Rule, job: JobDescription, place: tuple[str, ...], named: str) -> Iterator[Note]:
    """A text is checked for a decision, as an output that its outcome lists."""
    deciding = [each for each in job.outcomes if each.id in (rule.source.outcomes or ())]
    path = (*place, "output_check", "output")
    if rule.output is not None:
        known = {each.id: each for each in job.outputs}
        if rule.output not in known:
            yield from _output(rule.output, known, (), path, named)
            return
        yield from _of_text(rule, known[rule.output], place, named)
    else:
        yield from _of_any_text(rule, job, place, named)
    without = [each.id for each in deciding if not each.outputs or (rule.output and rule.output not in each.outputs)]
    if not without:
        return
    what = "an output" if rule.output is None else f"the output {quote(rule.output)}"
    if len(without) == len(deciding):
        why = f"none of the rule's outcomes{named} lists {what}, so no text can have been checked"
        yield Note("text-never-checked", path[:-1], why, "have the pack list it, or leave 'output_check' out")
    else:
        why = f"{listed(without)}{named} doesn't list {what}, so under it no text can have been checked"
        yield Note("text-seldom-checked", path[:-1], why, "have the pack list it, or take the outcome out")


def _of_any_text(rule: Rule, job: JobDescription, place: tuple[str, ...], named: str) -> Iterator[Note]:
    """A rule with outcomes that names no output takes any of the outcome's, if it has just these fields."""
    ids = {name for each in job.outcomes if each.id in (rule.source.outcomes or ()) for name in each.outputs}
    outputs = [each for each in job.outputs if each.id in ids]
    checked = {path.text for path in rule.texts}
    if outputs and not any(_checks(each, checked) for each in outputs):
        why = f"none of the outputs {listed(ids)}{named} is checked by the fields {listed(checked)}"
        remedy = "set output_check.fields to those of an output, and name the tool's fields so"
        yield Note("checked-fields-differ", (*place, "output_check", "fields"), why, remedy)


def _of_case(tool: str, rule: Rule, given: RulesInFile, job: JobDescription) -> Iterator[Note]:
    if rule.entity is not None:
        return
    if not is_company(job.subject):
        why = "the rule names no field for the case, so the one case decided in the session counts, whatever is sent"
        yield Note("case-not-named", ("tools", tool), why, "name in entity.field the field that holds its id", key=True)
    elif given.test_recipients is None and not _takes_recipients(rule):
        why = "the case is the company of the recipients, and the rule lets no call have any"
        remedy = "list the field with the recipients in 'fields' and 'recipients', or set 'entity'"
        yield Note("company-without-recipients", ("tools", tool), why, remedy, key=True)


def _takes_recipients(rule: Rule) -> bool:
    fields = {parse_path(name, "fields").steps for name in (*rule.source.fields, *rule.source.fixed)}
    return any(path.steps in fields for path in rule.recipients)


def _of_age(given: RulesInFile, job: JobDescription, named: str) -> Iterator[Note]:
    """A limit that the file states and that the pack's own one always comes before."""
    if job.evidence_fresh_for is None or "max_decision_age" not in given.model_fields_set:
        return
    try:
        limit = TypeAdapter(timedelta).validate_python(job.evidence_fresh_for)
    except ValidationError:
        return
    if given.max_decision_age > limit:
        fresh = quote(job.evidence_fresh_for)
        why = f"evidence{named} counts for {fresh} at most, so this longer limit has no effect"
        remedy = f"leave it out, or name a duration below {fresh}"
        yield Note("age-without-effect", ("max_decision_age",), why, remedy)
