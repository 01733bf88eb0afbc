"""A pack made ready to decide with: references checked, conditions and rules compiled, descriptions written.

A release is immutable and named by its digest, over the RFC 8785 bytes of the pack's data: comments and layout of the
YAML don't count, every value does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from preaction.authority.expressions.conditions import Condition, ConditionError, Dialect
from preaction.authority.expressions.patterns import PatternError
from preaction.authority.expressions.schemas import SchemaError, Validator
from preaction.authority.packs.describe import describe, output_words, titled
from preaction.authority.packs.outputs import ReadyOutput, ReadyRule, ready_output, ready_rule
from preaction.authority.packs.pack import Job, OutcomeRule, OutputKind, Pack
from preaction.authority.packs.yaml_text import PackError, Path, Places, read_yaml, shape_errors
from preaction.errors import InvalidJSON
from preaction.wire import strict_json
from preaction.wire.digest import canonical, digest
from preaction.wire.models import Escalation, JobDescription, PackProblem

_MAX_CONTENT: Final = 8 * strict_json.MAX_BYTES


@dataclass(frozen=True, slots=True)
class ReadyOutcome:
    """An outcome with its compiled condition."""

    rule: OutcomeRule
    title: str
    condition: Condition


@dataclass(frozen=True, slots=True)
class ReadyJob:
    """One job at one release, with everything compiled."""

    name: str
    rule: Job
    facts: Mapping[str, Validator]
    fields: Mapping[str, Validator]
    outcomes: tuple[ReadyOutcome, ...]
    outputs: Mapping[str, ReadyOutput]
    escalations: Mapping[str, Escalation]
    description: JobDescription
    lookups: Mapping[str, Mapping[str, Validator]]
    """What the authority reads itself: by the name of each lookup, the facts that it gives."""

    def escalation(self, name: str | None) -> Escalation | None:
        """The hand-off of that id."""
        return None if name is None else self.escalations[name]


@dataclass(frozen=True, slots=True)
class Release:
    """A pack at one version, compiled. `content` is its canonical JSON."""

    pack: str
    version: str
    digest: str
    content: str
    jobs: Mapping[str, ReadyJob]


Known: TypeAlias = Mapping[str, frozenset[str]]
"""The lookups that are configured: by name, the ids that each one needs, such as `case_id`."""


def read_release(text: str, lookups: Known | None = None) -> Release:
    """Compile a pack's YAML, or raise `PackError` with the line and column of each error.

    `lookups` are those that the pack may name; None leaves that open.
    """
    data, places = read_yaml(text)
    release = _ready(data, places)
    if lookups is not None:
        wrong = [
            places.problem(("jobs", job.name, "facts", fact, "lookup"), detail)
            for job in release.jobs.values()
            for fact, detail in lookup_errors(job, lookups)
        ]
        if wrong:
            raise PackError(wrong)
    return release


def lookup_errors(job: ReadyJob, lookups: Known) -> Iterator[tuple[str, str]]:
    """The facts of a job that can't be read by the lookups that are configured, and why."""
    ids = {"case_id", *(job.rule.subject.key or ())}
    for name, facts in job.lookups.items():
        if name not in lookups:
            yield from ((fact, f"no lookup {name!r} is configured") for fact in facts)
        elif lacking := sorted(lookups[name] - ids):
            detail = f"the lookup {name!r} needs {', '.join(lacking)}, no part of this job's key"
            yield from ((fact, detail) for fact in facts)


def load_release(content: str) -> Release:
    """Compile a release from its stored canonical JSON, or raise `PackError` or `InvalidJSON`."""
    return _ready(strict_json.loads(content, max_bytes=_MAX_CONTENT), Places())


def _ready(data: Any, places: Places) -> Release:
    try:
        # From the canonical JSON, so that a release is the same whether it was just published or loaded again.
        content = canonical(data)
        pack = Pack.model_validate(strict_json.loads(content, max_bytes=_MAX_CONTENT))
    except ValidationError as error:
        problems = [places.problem(path, detail, key=key) for path, detail, key in shape_errors(error)]
        raise PackError(problems) from None
    except InvalidJSON as error:
        raise PackError([places.problem((), str(error))]) from None
    compiler = _Compiler(pack, places)
    jobs = {name: compiler.job(name, job) for name, job in pack.jobs.items()}
    if compiler.problems:
        raise PackError(compiler.problems)
    return Release(pack.pack, pack.version, digest(data), content.decode(), jobs)


class _Compiler:
    """Compiles job by job and collects what is wrong, so that an author sees all of it at once."""

    def __init__(self, pack: Pack, places: Places) -> None:
        self._pack = pack
        self._places = places
        self.problems: list[PackProblem] = []

    def job(self, name: str, job: Job) -> ReadyJob:
        at: Path = ("jobs", name)
        self._references(job, at)
        facts = self._validators({key: fact.json_schema() for key, fact in job.facts.items()}, (*at, "facts"))
        fields = self._validators({key: each.json_schema() for key, each in job.fields.items()}, (*at, "fields"))
        outputs = {key: self._output(kind, (*at, "outputs", key)) for key, kind in job.outputs.items()}
        return ReadyJob(
            name,
            job,
            facts,
            fields,
            self._outcomes(job, (*at, "outcomes")),
            outputs,
            {key: Escalation(id=key, trigger=each.trigger, why=each.why) for key, each in job.escalations.items()},
            describe(self._pack, name, job, {key: output_words(ready) for key, ready in outputs.items()}),
            _lookups(job, facts),
        )

    def _references(self, job: Job, at: Path) -> None:
        for index, outcome in enumerate(job.outcomes):
            here: Path = (*at, "outcomes", index)
            self._known([outcome.escalation], job.escalations, "escalation", (*here, "escalation"))
            for position, output in enumerate(outcome.outputs):
                self._known([output], job.outputs, "output", (*here, "outputs", position))
        self._known([job.when_unresolved.escalation], job.escalations, "escalation", (*at, "when_unresolved"))
        self._once([outcome.id for outcome in job.outcomes], (*at, "outcomes"), "id")
        self._once(job.content, (*at, "content"))
        self._key(job, (*at, "subject", "key"))

    def _key(self, job: Job, at: Path) -> None:
        key = job.subject.key or []
        self._once(key, at)
        kinds = {name: schema.type for name, schema in (job.facts if job.input == "entity" else job.fields).items()}
        kinds |= dict.fromkeys(job.content, "string")
        for index, name in enumerate(key):
            self._known([name], kinds, "fact" if job.input == "entity" else job.input, (*at, index))
            if kinds.get(name) in ("array", "object"):
                self._problem((*at, index), "a key's value is a string, a number or a boolean")
            if job.input == "entity" and name in job.facts and job.facts[name].origin == "lookup":
                self._problem((*at, index), "a key's value comes from the caller: a lookup goes by the case's id")

    def _known(self, names: Sequence[str | None], known: Mapping[str, object], word: str, at: Path) -> None:
        for name in names:
            if name is not None and name not in known:
                self._problem(at, f"this job has no {word} {name!r}")

    def _once(self, names: Sequence[str], at: Path, *inner: str) -> None:
        for index, name in enumerate(names):
            if name in names[:index]:
                self._problem((*at, index, *inner), f"{name!r} is repeated")

    def _validators(self, schemas: Mapping[str, Mapping[str, Any]], at: Path) -> dict[str, Validator]:
        ready: dict[str, Validator] = {}
        for name, schema in schemas.items():
            try:
                ready[name] = Validator(schema)
            except SchemaError as error:
                self._problem((*at, name, *error.place), str(error))
        return ready

    def _outcomes(self, job: Job, at: Path) -> tuple[ReadyOutcome, ...]:
        names: dict[str, Mapping[str, Any]] = {f"facts.{key}": each.json_schema() for key, each in job.facts.items()}
        names |= {f"fields.{key}": each.json_schema() for key, each in job.fields.items()}
        names |= {f"content.{key}": {"type": "string"} for key in job.content}
        dialect = Dialect(names)
        ready: list[ReadyOutcome] = []
        for index, rule in enumerate(job.outcomes):
            try:
                ready.append(ReadyOutcome(rule, titled(rule.title, rule.id), dialect.compile(rule.when)))
            except ConditionError as error:
                self._condition_problem((*at, index, "when"), error)
        return tuple(ready)

    def _output(self, kind: OutputKind, at: Path) -> ReadyOutput:
        self._once(kind.fields, (*at, "fields"))
        self._once([rule.id for rule in kind.rules], (*at, "rules"), "id")
        ready: list[ReadyRule] = []
        for index, rule in enumerate(kind.rules):
            here: Path = (*at, "rules", index)
            self._known([rule.field], dict.fromkeys(kind.fields), "field", (*here, "field"))
            try:
                ready.append(ready_rule(rule))
            except PatternError as error:
                self._problem((*here, rule.kind), str(error))
            except ConditionError as error:
                self._condition_problem((*here, rule.kind), error)
        return ready_output(kind, ready)

    def _condition_problem(self, at: Path, error: ConditionError) -> None:
        if error.offset is None:
            self._problem(at, str(error))
        else:
            self.problems.append(self._places.problem_inside(at, str(error), error.offset))

    def _problem(self, at: Path, detail: str) -> None:
        self.problems.append(self._places.problem(at, detail))


def _lookups(job: Job, facts: Mapping[str, Validator]) -> dict[str, dict[str, Validator]]:
    found: dict[str, dict[str, Validator]] = {}
    for name, fact in job.facts.items():
        if fact.lookup is not None and name in facts:
            found.setdefault(fact.lookup, {})[name] = facts[name]
    return found
