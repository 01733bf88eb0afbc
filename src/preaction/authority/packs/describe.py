"""What a release says about a job to agents and gates: wire models, with every field set."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from pydantic import TypeAdapter

from preaction.authority.packs.outputs import ReadyOutput
from preaction.authority.packs.pack import Fact, Job, Pack
from preaction.wire.models import Escalation, JobDescription, Outcome, Output, Subject, Unresolved

_DURATION: Final = TypeAdapter(timedelta)


def titled(title: str | None, name: str) -> str:
    """The title, or the id made readable: `billing-question` → `Billing question`."""
    words = name.replace("-", " ").replace("_", " ").strip()
    return title or (words[:1].upper() + words[1:])


def output_words(output: ReadyOutput) -> list[str]:
    """An output's rules in words."""
    return [rule.words for rule in output.rules]


def describe(pack: Pack, name: str, job: Job, rules: Mapping[str, list[str]]) -> JobDescription:
    """The description of one job; `rules` has the words of each output's rules."""
    fresh_for = job.evidence.fresh_for
    return JobDescription(
        job=name,
        pack=pack.pack,
        release=pack.version,
        title=job.title,
        subject=Subject(kind=job.subject.kind, identity=job.subject.identity, match=job.subject.match),
        facts={key: _fact(fact) for key, fact in job.facts.items()},
        evidence_fresh_for=None if fresh_for is None else _DURATION.dump_python(fresh_for, mode="json"),
        outcomes=[
            Outcome(
                id=each.id,
                title=titled(each.title, each.id),
                next_step=each.next_step,
                outputs=list(each.outputs),
                escalation=each.escalation,
            )
            for each in job.outcomes
        ],
        outputs=[
            Output(id=key, title=titled(kind.title, key), fields=list(kind.fields), rules=list(rules[key]))
            for key, kind in job.outputs.items()
        ],
        when_unresolved=Unresolved(next_step=job.when_unresolved.next_step, escalation=job.when_unresolved.escalation),
        escalations=[Escalation(id=key, trigger=each.trigger, why=each.why) for key, each in job.escalations.items()],
    )


def _fact(fact: Fact) -> dict[str, Any]:
    """Its JSON Schema; `readOnly` is that vocabulary's word for what the authority sets, and a caller can't."""
    return fact.json_schema() | ({"readOnly": True} if fact.origin == "lookup" else {})
