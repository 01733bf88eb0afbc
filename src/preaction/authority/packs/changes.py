"""What changed between two releases, in words: which outcome now allows what. Pure.

Each change says whether more may be done by it: `more`, `less`, `either` (whoever reads it must judge: a condition with
another text may hold for more cases, or for fewer), or `none`. What isn't known to narrow anything counts as `either`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

from preaction.authority.packs.describe import titled
from preaction.authority.packs.pack import (
    EscalationRule,
    Fact,
    Job,
    OutcomeRule,
    OutputKind,
    OutputRule,
    Schema,
    SubjectRule,
    UnresolvedRule,
)
from preaction.authority.packs.release import Release
from preaction.errors import ConfigurationError

Effect: TypeAlias = Literal["more", "less", "either", "none"]
Found: TypeAlias = Iterator[tuple[Effect, str]]
T = TypeVar("T")

_TURNED: Final[Mapping[Effect, Effect]] = {"more": "less", "less": "more", "either": "either", "none": "none"}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference in one job. `words` is a sentence without the job's name; `effect` is on what may be done."""

    job: str
    effect: Effect
    words: str


def diff(old: Release, new: Release) -> list[Change]:
    """What `new` says otherwise than `old`, job by job. `ConfigurationError` when they are of two packs."""
    if old.pack != new.pack:
        raise ConfigurationError(f"{old.pack} and {new.pack} are two packs; releases of one are compared")
    before = {name: job.rule for name, job in old.jobs.items()}
    after = {name: job.rule for name, job in new.jobs.items()}
    found: list[Change] = []
    for name in _in_order(before, after):
        changes = [Change(name, effect, words) for effect, words in _job(before.get(name), after.get(name))]
        if not changes and before[name] != after[name]:
            changes.append(Change(name, "either", "it differs in a part that has no words here: read both packs"))
        found += changes
    return found


def may_grow(changes: Sequence[Change]) -> bool:
    """Whether more may be done after these changes, as far as it isn't sure that it may not."""
    return any(change.effect in ("more", "either") for change in changes)


def _job(old: Job | None, new: Job | None) -> Found:
    if new is None:
        yield "less", "the job is gone"
        return
    if old is None:
        yield "more", f"new job: {new.title}"
        for outcome in new.outcomes:
            yield "more", _added(outcome)
        return
    yield from _said("the job's title", old.title, new.title, "none")
    yield from _subject(old.subject, new.subject)
    yield from _said("the input", old.input, new.input, "either")
    yield from _schemas("field", old.fields, new.fields)
    yield from _said("the texts that the input has", _listed(old.content), _listed(new.content), "either")
    yield from _facts(old.facts, new.facts)
    yield from _evidence(old, new)
    yield from _outcomes(old.outcomes, new.outcomes)
    yield from _unresolved(old.when_unresolved, new.when_unresolved)
    yield from _outputs(old.outputs, new.outputs)
    yield from _escalations(old.escalations, new.escalations)


def _subject(old: SubjectRule, new: SubjectRule) -> Found:
    yield from _said("what is decided on", old.kind, new.kind, "either")
    yield from _said("where the case's id comes from", old.identity, new.identity, "either")
    yield from _said("how ids are compared", old.match, new.match, "either")
    yield from _said("the key of a case", _listed(old.key or ()), _listed(new.key or ()), "either")


def _schemas(kind: str, old: Mapping[str, Schema], new: Mapping[str, Schema]) -> Found:
    for name in _in_order(old, new):
        if name not in new:
            yield "either", f"the {kind} {name} is gone"
        elif name not in old:
            yield "either", f"new {kind} {name}: {_shape(new[name])}"
        else:
            yield from _schema(f"the {kind} {name}", old[name], new[name])


def _schema(what: str, old: Schema, new: Schema) -> Found:
    yield from _said(f"the values of {what}", _shape(old), _shape(new), "either")
    yield from _said(f"the title of {what}", old.title, new.title, "none")
    yield from _said(f"the description of {what}", old.description, new.description, "none")


def _facts(old: Mapping[str, Fact], new: Mapping[str, Fact]) -> Found:
    for name in _in_order(old, new):
        what = f"the fact {name}"
        if name not in new:
            yield "none", f"{what} is gone"
        elif name not in old:
            yield "none", f"new fact {name}: {_shape(new[name])}, {_origin(new[name])}"
        else:
            yield from _schema(what, old[name], new[name])
            yield from _sources(what, old[name], new[name])


def _sources(what: str, old: Fact, new: Fact) -> Found:
    """Whoever else may say a fact may get other decisions by it; what the authority reads, nobody can say."""
    if _origin(old) == _origin(new):
        return
    effect: Effect = "either"
    if old.origin != new.origin:
        effect = "more" if new.origin == "caller" else "less"
    elif new.origin == "caller":
        effect = _widened(old.sources, new.sources)
    yield effect, f"{what} comes {_origin(new)}; it came {_origin(old)}"


def _origin(fact: Fact) -> str:
    if fact.origin == "lookup":
        return f"from the lookup {fact.lookup}"
    return "from any source of the caller's" if fact.sources is None else f"from the caller, by {_listed(fact.sources)}"


def _evidence(old: Job, new: Job) -> Found:
    before, after = old.evidence, new.evidence
    if before.fresh_for != after.fresh_for:
        effect = _larger(before.fresh_for, after.fresh_for)
        yield effect, f"evidence counts for {after.fresh_for or 'ever'}; it counted for {before.fresh_for or 'ever'}"
    if before.changes != after.changes:
        allowed = after.changes == "allow"
        words = "may now be decided again" if allowed else "is no longer decided again"
        yield "more" if allowed else "less", f"a case {words} on other facts of the caller's"


def _outcomes(old: Sequence[OutcomeRule], new: Sequence[OutcomeRule]) -> Found:
    before, after = {each.id: each for each in old}, {each.id: each for each in new}
    for name in _in_order(before, after):
        if name not in after:
            later = [each.id for each in old[list(before).index(name) + 1 :] if each.id in after]
            falls = f"; its cases come to what is tried after it: {_listed(later)}" if later else ""
            yield "either" if later else "less", f"the outcome {name} is gone{falls}"
        elif name not in before:
            yield "more", _added(after[name])
        else:
            yield from _outcome(f"the outcome {name}", before[name], after[name])
    yield from _order("outcomes are tried", before, after, "either")


def _outcome(what: str, old: OutcomeRule, new: OutcomeRule) -> Found:
    yield from _said(f"the condition of {what}", old.when, new.when, "either")
    for output in new.outputs:
        if output not in old.outputs:
            yield "more", f"{what} now allows the output {output}"
    for output in old.outputs:
        if output not in new.outputs:
            yield "less", f"{what} no longer allows the output {output}"
    yield from _step(what, old.next_step, new.next_step)
    yield from _hand_off(what, old.escalation, new.escalation)
    yield from _said(f"the title of {what}", titled(old.title, old.id), titled(new.title, new.id), "none")


def _added(outcome: OutcomeRule) -> str:
    parts = [f"new outcome {outcome.id}, when {outcome.when}"]
    parts += [f"its next step is: {outcome.next_step}"] if outcome.next_step else []
    parts.append(f"it allows the outputs {_listed(outcome.outputs)}" if outcome.outputs else "it allows no output")
    parts += [f"it is handed to {outcome.escalation}"] if outcome.escalation else []
    return "; ".join(parts)


def _unresolved(old: UnresolvedRule, new: UnresolvedRule) -> Found:
    yield from _step("an undecided case", old.next_step, new.next_step)
    yield from _hand_off("an undecided case", old.escalation, new.escalation)


def _step(what: str, old: str | None, new: str | None) -> Found:
    if old and new is None:
        yield "less", f"{what} has no next step any more; it was: {old}"
    elif new and old is None:
        yield "more", f"{what} now has a next step: {new}"
    else:
        yield from _said(f"the next step of {what}", old, new, "either")


def _hand_off(what: str, old: str | None, new: str | None) -> Found:
    if old and new is None:
        yield "more", f"{what} is no longer handed to {old}"
    elif new and old is None:
        yield "less", f"{what} is now handed to {new}"
    else:
        yield from _said(f"the escalation of {what}", old, new, "either")


def _outputs(old: Mapping[str, OutputKind], new: Mapping[str, OutputKind]) -> Found:
    """A kind of text by itself allows nothing: outcomes do."""
    for name in _in_order(old, new):
        what = f"the output {name}"
        if name not in new:
            yield "none", f"{what} is gone"
        elif name not in old:
            yield "none", f"new output {name}, with the fields {_listed(new[name].fields)}"
        else:
            yield from _said(f"the title of {what}", old[name].title, new[name].title, "none")
            fields = _listed(old[name].fields), _listed(new[name].fields)
            yield from _said(f"the fields of {what}", *fields, "either")
            yield from _rules(what, old[name].rules, new[name].rules)


def _rules(what: str, old: Sequence[OutputRule], new: Sequence[OutputRule]) -> Found:
    before, after = {each.id: each for each in old}, {each.id: each for each in new}
    for name in _in_order(before, after):
        if name not in after:
            yield "more", f"{what} need no longer follow the rule {name}: {_rule(before[name])}"
        elif name not in before:
            yield "less", f"{what} must follow a new rule {name}: {_rule(after[name])}"
        else:
            rule = f"the rule {name} of {what}"
            effect = _loosened(before[name], after[name])
            yield from _said(rule, _rule(before[name]), _rule(after[name]), effect)
            yield from _said(f"the message of {rule}", before[name].message, after[name].message, "none")
    yield from _order(f"the rules of {what} are checked", before, after, "none")


def _rule(rule: OutputRule) -> str:
    value = getattr(rule, rule.kind)
    return f"{rule.field} {rule.kind} {_listed(value) if isinstance(value, list) else value}"


def _loosened(old: OutputRule, new: OutputRule) -> Effect:
    if (old.kind, old.field) != (new.kind, new.field):
        return "either"
    before, after = getattr(old, old.kind), getattr(new, new.kind)
    known: dict[str, Callable[[], Effect]] = {
        "max_chars": lambda: _larger(before, after),
        "min_chars": lambda: _TURNED[_larger(before, after)],
        "allowed_links": lambda: _widened(before, after),
    }
    return known.get(old.kind, lambda: "either")()


def _escalations(old: Mapping[str, EscalationRule], new: Mapping[str, EscalationRule]) -> Found:
    """Hand-offs by themselves allow nothing; what they say is for people."""
    for name in _in_order(old, new):
        if name not in new:
            yield "none", f"the escalation {name} is gone"
        elif name not in old:
            yield "none", f"new escalation {name}, for {new[name].trigger}"
        else:
            yield from _said(f"the trigger of the escalation {name}", old[name].trigger, new[name].trigger, "none")
            yield from _said(f"the reason for the escalation {name}", old[name].why, new[name].why, "none")


def _said(what: str, old: str | None, new: str | None, effect: Effect) -> Found:
    if old != new:
        yield effect, f"{what} changed to: {new or 'nothing'} (was: {old or 'nothing'})"


def _order(what: str, old: Mapping[str, T], new: Mapping[str, T], effect: Effect) -> Found:
    kept = [name for name in old if name in new], [name for name in new if name in old]
    yield from _said(f"the order in which {what}", _listed(kept[0]), _listed(kept[1]), effect)


def _larger(old: Any, new: Any) -> Effect:
    """The effect of a bound that is another now; None is no bound."""
    if old == new:
        return "none"
    return "more" if new is None or (old is not None and new > old) else "less"


def _widened(old: Sequence[str] | None, new: Sequence[str] | None) -> Effect:
    """The effect of another list of what is allowed; None is everything."""
    if old is None or new is None:
        return "more" if new is None else "less"
    if set(old) == set(new):
        return "none"
    return "more" if set(old) < set(new) else "less" if set(new) < set(old) else "either"


def _shape(schema: Schema) -> str:
    """A JSON Schema as short text, its words for people left out."""
    parts = schema.json_schema()
    rest = {name: value for name, value in parts.items() if name not in ("type", "title", "description")}
    return schema.type + "".join(f", {name} {_plain(value)}" for name, value in rest.items())


def _plain(value: Any) -> str:
    return _listed([str(each) for each in value]) if isinstance(value, list) else str(value)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _in_order(old: Mapping[str, T], new: Mapping[str, T]) -> list[str]:
    """All names, those of `new` first in its order."""
    return [*new, *(name for name in old if name not in new)]
