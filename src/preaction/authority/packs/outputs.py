"""The rules of an output, made ready, and what they find in one text. Pure. Counts and spans are in code points."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from preaction.authority.expressions.conditions import Condition, Dialect
from preaction.authority.expressions.patterns import Pattern, Span
from preaction.authority.packs.links import foreign_links
from preaction.authority.packs.pack import OutputKind, OutputRule
from preaction.wire.models import Finding

MAX_FINDINGS: Final = 20
"""How many places one rule names in one text."""

NOT_ALLOWED: Final = "output_not_allowed"

Spans: TypeAlias = Iterable[Span | None]
Check: TypeAlias = Callable[[str], Spans]
"""A text → the places that break the rule; None for a breach that has no place, nothing for a text that follows it."""

_TEXT: Final = Dialect({"text": {"type": "string"}})
_NOWHERE: Final = (None,)


@dataclass(frozen=True, slots=True)
class ReadyRule:
    """A rule with its words for people and its check for texts."""

    id: str
    field: str
    words: str
    check: Check

    def findings(self, text: str) -> list[Finding]:
        """What breaks this rule in `text`."""
        return [
            Finding(rule=self.id, field=self.field, span=list(span) if span else None, message=self.words)
            for span in islice(self.check(text), MAX_FINDINGS)
        ]


@dataclass(frozen=True, slots=True)
class ReadyOutput:
    """A kind of text with exactly these fields."""

    fields: tuple[str, ...]
    rules: tuple[ReadyRule, ...]


def ready_rule(rule: OutputRule) -> ReadyRule:
    """Compile a rule, or raise `PatternError` or `ConditionError`."""
    words, make = _KINDS[rule.kind]
    value = getattr(rule, rule.kind)
    said = ", ".join(value) if isinstance(value, list) else value
    message = rule.message or f"{rule.field} {words.format(said)}"
    return ReadyRule(rule.id, rule.field, message, make(value))


def ready_output(kind: OutputKind, rules: Sequence[ReadyRule]) -> ReadyOutput:
    """An output with its compiled rules."""
    return ReadyOutput(tuple(kind.fields), tuple(rules))


def check_content(output: ReadyOutput, content: Mapping[str, str]) -> list[Finding]:
    """All findings in a content that has exactly the output's fields; none means that it follows the rules."""
    return [finding for rule in output.rules for finding in rule.findings(content[rule.field])]


def _must_match(source: str) -> Check:
    pattern = Pattern(source)
    return lambda text: () if pattern.found_in(text) else _NOWHERE


def _must_not_match(source: str) -> Check:
    pattern = Pattern(source)
    return lambda text: pattern.spans(text, MAX_FINDINGS)


def _must_contain(wanted: str) -> Check:
    return lambda text: () if wanted in text else _NOWHERE


def _max_chars(count: int) -> Check:
    return lambda text: () if len(text) <= count else ((count, len(text)),)


def _min_chars(count: int) -> Check:
    return lambda text: () if len(text) >= count else _NOWHERE


def _allowed_links(hosts: list[str]) -> Check:
    allowed = frozenset(hosts)
    return lambda text: foreign_links(text, allowed)


def _condition(source: str) -> Check:
    condition: Condition = _TEXT.compile(source)
    return lambda text: () if condition.holds({"text": text}) is True else _NOWHERE


_KINDS: Final[dict[str, tuple[str, Callable[[Any], Check]]]] = {
    "must_match": ("must match {}", _must_match),
    "must_not_match": ("must not match {}", _must_not_match),
    "must_contain": ("must contain: {}", _must_contain),
    "max_chars": ("has at most {} characters", _max_chars),
    "min_chars": ("has at least {} characters", _min_chars),
    "allowed_links": ("links to these hosts only: {}", _allowed_links),
    "condition": ("must satisfy: {}", _condition),
}
