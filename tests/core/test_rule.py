"""G24, G44: what is wrong or weak in a rule, each with its code, its place in the rule, and the words for it."""

from typing import Any

import pytest

from preaction import ConfigurationError, ToolRule
from preaction._core.company import Address
from preaction._core.rule import Flaw, read_rule

PLAIN: dict[str, Any] = {"writes": "a-reply", "fields": ["id", "line"]}
PAIR = {"writes": "a-reply", "outcomes": ["x"]}
OPEN = {"fields": ["id", "options.*"]}

BROKEN: dict[str, tuple[dict[str, Any], list[Flaw]]] = {
    "nothing": ({}, []),
    "neither": (
        {"writes": None},
        [Flaw("writes-or-outcomes", (), "a rule needs exactly one of 'writes' and 'outcomes'")],
    ),
    "both": (PAIR, [Flaw("writes-or-outcomes", (), "a rule needs exactly one of 'writes' and 'outcomes'")]),
    "no outcome": (
        {"writes": None, "outcomes": []},
        [Flaw("no-outcome", ("outcomes",), "'outcomes' is empty, so no outcome allows this tool")],
    ),
    "an entity that no field holds": (
        {"entity": {"field": "case"}},
        [
            Flaw(
                "entity-not-listed",
                ("entity", "field"),
                "the entity field 'case' is not in 'fields', so no call can name its case",
            )
        ],
    ),
    "an entity in an open field": ({**OPEN, "entity": {"field": "options.id"}}, []),
    "checked texts that no field holds": (
        {"output_check": {"fields": ["line", "body", "note"]}},
        [
            Flaw(
                "checked-field-not-listed",
                ("output_check", "fields", place),
                f"the checked field '{name}' is not in 'fields', so no call can carry its text",
            )
            for place, name in ((1, "body"), (2, "note"))
        ],
    ),
    "two outputs": (
        {"output_check": {"fields": ["line"], "output": "another"}},
        [
            Flaw(
                "two-outputs",
                ("output_check", "output"),
                "'writes' and 'output_check.output' name different outputs: 'a-reply', 'another'",
            )
        ],
    ),
    "the same output twice": ({"output_check": {"fields": ["line"], "output": "a-reply"}}, []),
    "one output with outcomes": (
        {"writes": None, "outcomes": ["x"], "output_check": {"fields": ["line"], "output": "another"}},
        [],
    ),
    "nowhere to": (
        {"recipients_at": []},
        [
            Flaw(
                "no-recipient",
                ("recipients_at",),
                "'recipients_at' is empty, so no recipient is allowed; leave it out, or set recipients to []",
            )
        ],
    ),
}


def unchecked(name: str, place: int) -> Flaw:
    why = f"the text in '{name}' is not checked; check it, or list it in 'unchecked'"
    return Flaw("text-not-checked", ("fields", place), why)


def recipient(name: str, place: int) -> Flaw:
    why = f"'{name}' looks like a recipient field and is not in 'recipients'"
    return Flaw("recipient-not-listed", ("fields", place), why)


CHECKED = {"output_check": {"fields": ["body"]}}
UNLIMITED = Flaw(
    "recipients-unlimited",
    (),
    "the case comes from a field, so its recipients can be anyone; limit them with 'recipients_at'",
)
UNNAMED = Flaw(
    "output-not-named",
    ("output_check",),
    "'output_check' names no output, so a text checked as any output of the outcome passes",
)

WEAK: dict[str, tuple[dict[str, Any], list[Flaw]]] = {
    "nothing": ({}, []),
    "an open field": (OPEN, [Flaw("open-field", ("fields", 1), "'options.*' lets anything through below it")]),
    "texts beside the checked one": (
        {**CHECKED, "fields": ["body", "Reply-Subject", "id", "options.note", "items[].Sub.Title", "text.id"]},
        [unchecked("Reply-Subject", 1), unchecked("options.note", 3), unchecked("items[].Sub.Title", 4)],
    ),
    "texts that are spared": (
        {**CHECKED, "fields": ["body", "subject", "options.note"], "unchecked": ["Subject", "options.note"]},
        [],
    ),
    "texts where none is checked": ({"fields": ["body", "subject"]}, []),
    "recipients that are not listed": (
        {"fields": ["id", "Reply_To", "envelope.x", "a.headers.x", "to", "x.to", "cc.name"]},
        [recipient("Reply_To", 1), recipient("envelope.x", 2), recipient("a.headers.x", 3), recipient("x.to", 5)],
    ),
    "recipients that are": ({"fields": ["attendees[].email"], "recipients": ["attendees[].email"]}, []),
    "the usual ones where others are": ({"fields": ["to"], "recipients": ["attendees"]}, [recipient("to", 0)]),
    "recipients of a case in a field": ({"fields": ["id", "to"], "entity": {"field": "id"}}, [UNLIMITED]),
    "limited ones": ({"fields": ["id", "to"], "entity": {"field": "id"}, "recipients_at": ["acme.example"]}, []),
    "none at all": ({"fields": ["id", "line"], "entity": {"field": "id"}}, []),
    "an output that is not named": (
        {"writes": None, "outcomes": ["x"], "fields": ["body"], **CHECKED},
        [UNNAMED],
    ),
    "an output that is": (
        {"writes": None, "outcomes": ["x"], "fields": ["body"], "output_check": {"fields": ["body"], "output": "o"}},
        [],
    ),
    "an output in both": ({**PAIR, "fields": ["body"], **CHECKED}, []),
}


@pytest.mark.parametrize("name", BROKEN)
def test_g24_what_keeps_a_rule_from_ever_allowing_is_told(name: str) -> None:
    changes, flaws = BROKEN[name]
    rule = read_rule("reply", {**PLAIN, **changes})
    assert list(rule.broken) == flaws
    assert list(rule.problems) == [f"tools.reply: {flaw.why}" for flaw in flaws]


@pytest.mark.parametrize("name", WEAK)
def test_g44_what_makes_a_rule_weaker_than_it_looks_is_told(name: str) -> None:
    changes, flaws = WEAK[name]
    rule = read_rule("reply", {**PLAIN, **changes})
    assert list(rule.weak) == flaws
    assert list(rule.warnings) == [f"tools.reply: {flaw.why}" for flaw in flaws]


REFUSED: dict[str, tuple[Any, str]] = {
    "no mapping": (7, "tools.reply: a rule is a ToolRule or a mapping with strings as keys"),
    "names that are no strings": ({1: 2}, "tools.reply: a rule is a ToolRule or a mapping with strings as keys"),
    "an unknown key": ({**PLAIN, "Xx": 1}, "tools.reply.Xx: unknown key"),
    "two mistakes": (
        {"writes": 7, "fields": ["a", ""]},
        "tools.reply.writes: Input should be a valid string; fields[1]: String should have at least 1 character",
    ),
    "a field": ({**PLAIN, "fields": ["a..b"]}, "tools.reply.fields: 'a..b' is no field name or dotted path"),
    "a null_only": ({**PLAIN, "null_only": ["a[b"]}, "tools.reply.null_only: 'a[b' is no field name or dotted path"),
    "an open null_only": ({**PLAIN, "null_only": ["a.*"]}, "tools.reply.null_only: 'a.*' must end in a field"),
    "a fixed one": (
        {**PLAIN, "fixed": {"a[].b": 1}},
        "tools.reply.fixed: 'a[].b' must lead to one value; '[]' and '.*' can't stand here",
    ),
    "a fixed value": ({**PLAIN, "fixed": {"a": {1}}}, "tools.reply.fixed.a: a value of type set is not JSON"),
    "a list at the end": (
        {**PLAIN, "fields": ["a[]"]},
        "tools.reply.fields: 'a[]' must end in a field, as in 'items[].name'",
    ),
    "an entity": (
        {**PLAIN, "entity": {"field": "a.*"}},
        "tools.reply.entity.field: 'a.*' must lead to one value; '[]' and '.*' can't stand here",
    ),
    "a checked text": (
        {**PLAIN, "output_check": {"fields": ["a.*"]}},
        "tools.reply.output_check.fields: 'a.*' must lead to one value; '[]' and '.*' can't stand here",
    ),
    "a recipient": ({**PLAIN, "recipients": ["*"]}, "tools.reply.recipients: '*' is no field name or dotted path"),
    "a recipient's place": (
        {**PLAIN, "recipients_at": ["acme.example", "Ann <a@acme.example>"]},
        "tools.reply.recipients_at: 'Ann <a@acme.example>' is neither a domain nor one plain address",
    ),
    "an unchecked text": ({**PLAIN, "unchecked": ["."]}, "tools.reply.unchecked: '.' is no field name or dotted path"),
    "a subject": (
        {**PLAIN, "subject": "a.*"},
        "tools.reply.subject: 'a.*' must lead to one value; '[]' and '.*' can't stand here",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_rule_that_can_not_be_right_raises_with_its_place(name: str) -> None:
    given, why = REFUSED[name]
    with pytest.raises(ConfigurationError) as raised:
        read_rule("reply", given)
    assert str(raised.value) == why


def test_a_rule_is_made_ready_once() -> None:
    given = {**PLAIN, "fields": ["id", "body", "To"], "output_check": {"fields": ["body"]}, "once": "case"}
    rule = read_rule("reply", given)
    assert rule.source == ToolRule(**given)
    assert read_rule("reply", ToolRule(**given)) == rule
    assert [path.text for path in rule.texts] == ["body"]
    assert (rule.output, rule.entity, rule.subject.text) == ("a-reply", None, "subject")
    assert [path.text for path in rule.recipients] == ["to", "cc", "bcc"]
    assert (rule.recipient_hosts, rule.recipient_addresses, rule.addresses_nobody) == (None, frozenset(), False)


def test_the_output_is_the_one_that_is_written_or_else_the_one_that_is_checked() -> None:
    outcomes = {"outcomes": ["x"], "fields": ["body"]}
    assert read_rule("t", {**outcomes, "output_check": {"fields": ["body"], "output": "o"}}).output == "o"
    assert read_rule("t", {**outcomes, "output_check": {"fields": ["body"]}}).output is None
    assert read_rule("t", outcomes).output is None


def test_g15_places_are_domains_and_addresses() -> None:
    rule = read_rule("t", {**PLAIN, "recipients_at": ["ACME.example.", "Ann@Acme.example"], "recipients": []})
    assert rule.recipient_hosts == {"acme.example"}
    assert rule.recipient_addresses == {Address("Ann", "acme.example")}
    assert rule.addresses_nobody


class Own(ToolRule):
    """A rule of a subclass, which adds a key."""

    note: str = "mine"


def test_a_subclass_adds_nothing_to_a_rule() -> None:
    own = read_rule("t", Own(**PLAIN, note="another")).source
    assert type(own) is ToolRule
    assert own == ToolRule(**PLAIN)
    assert own.model_fields_set == {"writes", "fields"}
    plain = ToolRule(**PLAIN)
    assert read_rule("t", plain).source is plain
