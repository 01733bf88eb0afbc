"""2 · Rule: a `ToolRule` made ready to judge by, the rule book, and check 1, fields.

Requirements G2, G4–G6b, G24 and G44. A rule that can't be right raises at creation; one that is well-formed but can
never allow stands in `problems` and denies; one weaker than it looks is named in `warnings`.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

from preaction._core.call import Call, Malformed, plain
from preaction._core.company import Address, Domains, plain_address, plain_host
from preaction._core.denied import Denied, deny, quote
from preaction._core.paths import Level, Path, check_opened, open_path, opens, parse_path
from preaction._core.tool_rule import ToolRule
from preaction.errors import ConfigurationError

DEFAULT_RECIPIENTS: Final = ("to", "cc", "bcc")
LOOK_LIKE_RECIPIENTS: Final = frozenset(
    (
        *("to", "cc", "bcc", "replyto", "recipient", "recipients", "attendee", "attendees", "invitees", "participants"),
        *("envelope", "headers", "email", "emails", "address", "addresses", "forwardto", "sendto", "mailto"),
    )
)
ENVELOPES: Final = frozenset(("envelope", "headers"))
LOOK_LIKE_TEXT: Final = (
    *("body", "text", "html", "message", "subject", "title", "comment", "content", "note", "notes", "description"),
    *("summary", "markdown", "reply", "answer", "footer", "signature"),
)


class Flaw(NamedTuple):
    """What keeps a rule from ever allowing, or makes it weak: a stable code, the keys where it stands, why in words."""

    code: str
    place: tuple[str | int, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A `ToolRule` made ready: paths parsed, allowed fields as a tree, recipients and subject as paths.

    `broken` are the flaws for which it never allows, `weak` the others; `problems` and `warnings` say them in words.
    """

    source: ToolRule
    opened: Level
    fixed: tuple[tuple[Path, Any], ...]
    nulls: tuple[Path, ...]
    entity: Path | None
    texts: tuple[Path, ...]
    output: str | None
    recipients: tuple[Path, ...]
    recipient_hosts: frozenset[str] | None
    recipient_addresses: frozenset[Address]
    subject: Path
    broken: tuple[Flaw, ...]
    weak: tuple[Flaw, ...]
    problems: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def addresses_nobody(self) -> bool:
        """Whether the rule says on purpose that the tool has no recipients."""
        return self.source.recipients == ()


def read_rule(tool: str, given: ToolRule | Mapping[str, Any]) -> Rule:
    """Make a rule ready, or raise `ConfigurationError` naming the place under `tools.<tool>`."""
    where = f"tools.{tool}"
    try:
        source = _plain(given) if isinstance(given, ToolRule) else ToolRule(**given)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}.{error}") from None
    except TypeError:  # no mapping, or one with names that aren't strings
        raise ConfigurationError(f"{where}: a rule is a ToolRule or a mapping with strings as keys") from None
    fields = [parse_path(name, f"{where}.fields") for name in source.fields]
    nulls = [parse_path(name, f"{where}.null_only") for name in source.null_only]
    fixed = tuple(
        (parse_path(name, f"{where}.fixed", single=True), _fixed_value(value, f"{where}.fixed.{name}"))
        for name, value in source.fixed.items()
    )
    opened: Level = {}
    for path in fields:
        open_path(opened, path, "plain")
    for path, _ in fixed:
        open_path(opened, path, "any")
    for path in nulls:
        if path.open:
            raise ConfigurationError(f"{where}.null_only: {path.text!r} must end in a field")
        open_path(opened, path, "null")
    entity = parse_path(source.entity.field, f"{where}.entity.field", single=True) if source.entity else None
    check = source.output_check
    texts = tuple(parse_path(n, f"{where}.output_check.fields", single=True) for n in check.fields) if check else ()
    names = DEFAULT_RECIPIENTS if source.recipients is None else source.recipients
    recipients = tuple(parse_path(name, f"{where}.recipients") for name in names)
    hosts, addresses = _recipients_at(source.recipients_at, f"{where}.recipients_at")
    unchecked = [parse_path(name, f"{where}.unchecked") for name in source.unchecked]
    broken = tuple(_problems(source, opened, entity, texts))
    weak = tuple(_warnings(source, fields, (*texts, *unchecked), recipients))
    return Rule(
        source=source,
        opened=opened,
        fixed=fixed,
        nulls=tuple(nulls),
        entity=entity,
        texts=texts,
        output=source.writes or (check.output if check else None),
        recipients=recipients,
        recipient_hosts=hosts,
        recipient_addresses=addresses,
        subject=parse_path(source.subject, f"{where}.subject", single=True),
        broken=broken,
        weak=weak,
        problems=tuple(f"{where}: {flaw.why}" for flaw in broken),
        warnings=tuple(f"{where}: {flaw.why}" for flaw in weak),
    )


def _fixed_value(value: Any, where: str) -> Any:
    try:
        return plain(value)
    except Malformed as bad:
        raise ConfigurationError(f"{where}: {bad.why}") from None


def _recipients_at(entries: tuple[str, ...] | None, where: str) -> tuple[frozenset[str] | None, frozenset[Address]]:
    if entries is None:
        return None, frozenset()
    hosts: set[str] = set()
    addresses: set[Address] = set()
    for entry in entries:
        address, host = plain_address(entry), plain_host(entry)
        if address is not None:
            addresses.add(address)
        elif host is not None:
            hosts.add(host)
        else:
            raise ConfigurationError(f"{where}: {entry!r} is neither a domain nor one plain address")
    return frozenset(hosts), frozenset(addresses)


def _plain(given: ToolRule) -> ToolRule:
    """`given` without what a subclass adds or writes otherwise: a rule has one form in records of the audit."""
    if type(given) is ToolRule:
        return given
    return ToolRule(**given.model_dump(include={*ToolRule.model_fields}, exclude_unset=True))


def _problems(source: ToolRule, opened: Level, entity: Path | None, texts: tuple[Path, ...]) -> Iterator[Flaw]:
    if (source.writes is None) == (source.outcomes is None):
        yield Flaw("writes-or-outcomes", (), "a rule needs exactly one of 'writes' and 'outcomes'")
    if source.outcomes == ():
        yield Flaw("no-outcome", ("outcomes",), "'outcomes' is empty, so no outcome allows this tool")
    if entity is not None and not opens(opened, entity):
        why = f"the entity field {entity.text!r} is not in 'fields', so no call can name its case"
        yield Flaw("entity-not-listed", ("entity", "field"), why)
    for index, path in enumerate(texts):
        if not opens(opened, path):
            why = f"the checked field {path.text!r} is not in 'fields', so no call can carry its text"
            yield Flaw("checked-field-not-listed", ("output_check", "fields", index), why)
    check = source.output_check
    if check and check.output and source.writes and check.output != source.writes:
        why = f"'writes' and 'output_check.output' name different outputs: {source.writes!r}, {check.output!r}"
        yield Flaw("two-outputs", ("output_check", "output"), why)
    if source.recipients_at == ():
        why = "'recipients_at' is empty, so no recipient is allowed; leave it out, or set recipients to []"
        yield Flaw("no-recipient", ("recipients_at",), why)


def _warnings(
    source: ToolRule, fields: list[Path], seen_to: tuple[Path, ...], recipients: tuple[Path, ...]
) -> Iterator[Flaw]:
    """`seen_to` are the fields whose text is checked, and those that need no check."""
    spared = {path.steps for path in seen_to}
    addressing = {path.steps for path in recipients}
    for index, path in enumerate(fields):
        place, names = ("fields", index), [squash(name) for name, _ in path.steps]
        if path.open:
            yield Flaw("open-field", place, f"{path.text!r} lets anything through below it")
        text = source.output_check is not None and names[-1].endswith(LOOK_LIKE_TEXT)
        if text and path.steps not in spared:
            why = f"the text in {path.text!r} is not checked; check it, or list it in 'unchecked'"
            yield Flaw("text-not-checked", place, why)
        if (names[-1] in LOOK_LIKE_RECIPIENTS or ENVELOPES & {*names}) and path.steps not in addressing:
            why = f"{path.text!r} looks like a recipient field and is not in 'recipients'"
            yield Flaw("recipient-not-listed", place, why)
    takes_recipients = any(path.steps in addressing for path in fields)
    if source.entity and takes_recipients and source.recipients_at is None:
        why = "the case comes from a field, so its recipients can be anyone; limit them with 'recipients_at'"
        yield Flaw("recipients-unlimited", (), why)
    if source.outcomes and source.writes is None and source.output_check and source.output_check.output is None:
        why = "'output_check' names no output, so a text checked as any output of the outcome passes"
        yield Flaw("output-not-named", ("output_check",), why)


# Check 1, fields ------------------------------------------------------------------------------------------------------


def check_rule(rule: Rule) -> Denied | None:
    """G24: a rule that can never allow denies every call, before anything is asked."""
    if not rule.problems:
        return None
    return deny("rule_invalid", "pack", f"the rule of this tool allows no call ({rule.problems[0]})")


def check_fields(call: Call, rule: Rule, refused: frozenset[str]) -> Denied | None:
    """G2, G4–G6b: only listed fields, none refused at any depth, null and fixed values as the rule says."""
    return (
        (g4_none_refused(call.arguments, refused) if refused else None)
        or check_opened(rule.opened, call.arguments)
        or g5_null_only(call, rule)
        or g6b_fixed_values(call, rule)
    )


def g4_none_refused(value: Any, refused: frozenset[str]) -> Denied | None:
    """G4: no name in `refused` (widely folded) at any depth, even where a rule lists it."""
    if isinstance(value, dict):
        for name, item in value.items():
            if wide_fold(name) in refused:
                return deny("field_refused", "fields", f"no tool may set the field {quote(name)}", "leave it out")
            if denied := g4_none_refused(item, refused):
                return denied
    elif isinstance(value, list):
        for item in value:
            if denied := g4_none_refused(item, refused):
                return denied
    return None


def g5_null_only(call: Call, rule: Rule) -> Denied | None:
    """G5: a `null_only` field is null or absent, also where a `.*` or a path through it would open it."""
    for path in rule.nulls:
        if any(value is not None for value in path.values(call)):
            return deny(
                "field_value_not_allowed",
                "fields",
                f"the field {quote(path.text)} may only be null",
                "set it to null or leave it out",
            )
    return None


def g6b_fixed_values(call: Call, rule: Rule) -> Denied | None:
    """G6b: a fixed field is present with exactly its value, type included; left out, the tool's default decides."""
    for path, wanted in rule.fixed:
        if not same(path.value(call), wanted):
            return deny(
                "field_value_not_allowed",
                "fields",
                f"the field {quote(path.text)} must be set to {quote(wanted)}",
                "set it so and call again",
            )
    return None


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values, type included: `1`, `1.0` and `true` are three values."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(item, other[name]) for name, item in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def wide_fold(name: str) -> str:
    """NFKC and casefold, twice, since one can undo the other: the wide comparison for what is refused (G4, G6)."""
    once = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", once).casefold()


@lru_cache(maxsize=4096)
def squash(name: str) -> str:
    """A name's letters and digits, widely folded: two tools that squash to one can be taken for each other (G6)."""
    return "".join(character for character in wide_fold(name) if character.isalnum())


# The rule book --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All that the decision goes by, besides the call and the facts: rules, limits, and what is known of domains."""

    job: str
    rules: Mapping[str, Rule]
    squashed: frozenset[str]
    releases: frozenset[str] | None
    refused: frozenset[str]
    test_recipients: frozenset[Address] | None
    deny_unlisted: bool
    own_tools: frozenset[str]
    domains: Domains
    max_decision_age: timedelta
    max_clock_skew: timedelta

    @property
    def pinned(self) -> str | None:
        """The one release that may allow, when there is just one."""
        return next(iter(self.releases)) if self.releases is not None and len(self.releases) == 1 else None


def check_tool(tool: object, book: RuleBook) -> Denied | None:
    """G6: a name that only looks like a gated one, or isn't ASCII, denies; a tool without a rule, if that is said.

    The gate's own decision and output-check tools only ask, and are let through by their exact names.
    """
    if isinstance(tool, str) and tool in book.own_tools:
        return None
    if not isinstance(tool, str) or not tool.isascii() or squash(tool) in book.squashed:
        return deny(
            "tool_name_suspect",
            None,
            f"the tool name {quote(tool)} is not the exact name of any tool that may act",
            "call the tool by its exact name",
        )
    if book.deny_unlisted:
        return deny("tool_not_listed", None, f"no rule lets the tool {quote(tool)} act")
    return None
