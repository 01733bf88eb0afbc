"""Every option and every key of a rule: what can't be right raises with its place, what is weak warns."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest

from kit import DECISION_TOOL, REPLY, SESSION, company, decided, gate_for, helpdesk, mail_rule, reply, reply_rule, shown
from preaction import ActionGate, ConfigurationError, ToolRule, create_action_gate
from preaction.stores.memory import MemoryStore
from preaction.testing import FakeAuthority

RELEASE = "2026-11-03.1"


def gate_with(**options: Any) -> ActionGate:
    return gate_for(FakeAuthority(), options.pop("tools", {REPLY: reply_rule()}), **options)


def refused(place: str, **options: Any) -> bool:
    with pytest.raises(ConfigurationError, match=rf"^{re.escape(place)}") as caught:
        gate_with(**options)
    return isinstance(caught.value, ValueError)


# Options --------------------------------------------------------------------------------------------------------------

NO_NAMES = ["", " ", " a", "a ", "a\nb", "a\x00", None, 7, b"a", ["a"]]


@pytest.mark.parametrize("name", NO_NAMES, ids=shown)
@pytest.mark.parametrize("option", ["job", "decision_tool", "output_check_tool"])
def test_a_name_that_is_none_raises(option: str, name: object) -> None:
    if name is not None or option == "job":
        assert refused(f"{option}: ", **{option: name})


@pytest.mark.parametrize("name", NO_NAMES, ids=shown)
@pytest.mark.parametrize("option", ["releases", "refuse_fields", "own_suffixes", "shared_domains", "test_recipients"])
def test_a_name_in_a_list_that_is_none_raises_with_its_place(option: str, name: object) -> None:
    assert refused(f"{option}[1]: ", **{option: ["good.example", name]})


@pytest.mark.parametrize("value", ["a", b"a", 7, object()], ids=shown)
@pytest.mark.parametrize("option", ["releases", "refuse_fields", "own_suffixes", "shared_domains", "test_recipients"])
def test_a_list_that_is_none_raises(option: str, value: object) -> None:
    assert refused(f"{option}: ", **{option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("releases", []),
        ("own_suffixes", ["not a domain"]),
        ("shared_domains", ["a@b.example"]),
        ("unlisted", "Allow"),
        ("unlisted", None),
        ("unlisted", False),
        ("unlisted", ["deny"]),
        ("mode", "Enforce"),
        ("mode", None),
        ("mode", ["observe"]),
        ("max_decision_age", 3600),
        ("max_decision_age", None),
        ("max_decision_age", timedelta(0)),
        ("max_decision_age", timedelta(seconds=-1)),
        ("max_decision_age", timedelta.max),
        *[(option, bad) for option in ("max_clock_skew_s", "deadline_s") for bad in (0, -1, "5", None, True)],
        *[("deadline_s", float(bad)) for bad in ("nan", "inf", "-inf")],
        ("deadline_s", timedelta(seconds=5)),
        ("store", 7),
        ("store", {}),
        ("store", "redis://localhost"),
        ("store", MemoryStore),
        ("clock", 7),
        ("clock", datetime.now),
        ("clock", lambda: None),
        ("clock", lambda: "2026-11-30T09:00:00Z"),
        ("clock", lambda: 1 / 0),
        ("clock", lambda zone: None),
        ("clock", datetime(2026, 11, 30, 9, 0)),
        ("on_verdict", 7),
        ("on_verdict", "print"),
        ("verify", None),
        ("verify", "https://api.felspar.ai"),
        ("verify", {"origin": "https://api.felspar.ai"}),
        ("describe", None),
        ("describe", 7),
        ("verify_output_check", 7),
        ("tools", None),
        ("tools", [REPLY]),
        ("tools", 7),
        ("tools", "helpdesk__reply"),
    ],
    ids=shown,
)
def test_an_option_of_a_wrong_type_or_value_raises(option: str, value: object) -> None:
    assert refused(f"{option}", **{option: value})


@pytest.mark.parametrize("address", ["me", "Me <me@a.example>", "me@", "me@a.example,you@a.example"])
def test_a_test_recipient_that_is_no_plain_address_raises(address: str) -> None:
    assert refused("test_recipients[1]: ", test_recipients=["me@a.example", address])


@pytest.mark.parametrize(
    "option", ["jobb", "decisionTool", "maxDecisionAge", "verify_outputcheck", "releases_", "refuse"]
)
def test_an_option_that_nobody_knows_raises(option: str) -> None:
    with pytest.raises(ConfigurationError, match=option):
        gate_with(**{option: None})


@pytest.mark.parametrize("option", ["job", "tools", "verify", "describe"])
def test_an_option_that_is_needed_can_not_be_left_out(option: str) -> None:
    authority = FakeAuthority()
    given: dict[str, Any] = {"job": "j", "tools": {}, "verify": authority, "describe": authority}
    create_action_gate(**given)
    del given[option]
    with pytest.raises(TypeError, match=option):
        create_action_gate(**given)


def test_the_tools_that_decide_can_not_be_gated_by_their_own_decisions() -> None:
    for option in ("decision_tool", "output_check_tool"):
        assert refused(f"{option}: ", **{option: REPLY})
    assert refused("output_check_tool: ", output_check_tool=DECISION_TOOL)


class OddAcall:
    acall = "not callable"

    def __call__(self, *args: str) -> object:
        return {}


@pytest.mark.parametrize("option", ["verify", "describe", "verify_output_check"])
def test_an_object_whose_acall_can_not_be_called_raises(option: str) -> None:
    assert refused(f"{option}: ", **{option: OddAcall()})


def test_every_option_may_be_given() -> None:
    gate = gate_with(
        releases=(RELEASE,),
        refuse_fields={"attachmentUrl"},
        test_recipients=[],
        on_verdict=print,
        unlisted="deny",
        mode="observe",
        own_suffixes=["corp.example", ".lan.example"],
        shared_domains=["mail.example"],
        max_decision_age=timedelta(minutes=1),
        max_clock_skew_s=0.5,
        deadline_s=1,
        store=MemoryStore(),
        clock=None,
        decision_tool=None,
        output_check_tool=None,
    )
    assert gate.problems == ()


# Tool names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NO_NAMES[:-1], "réply", "ｒeply", "__", "-", "😀"], ids=shown)
def test_a_tool_name_that_is_none_raises(name: object) -> None:
    assert refused("tools: ", tools={name: reply_rule()})


@pytest.mark.parametrize("name", ["a", "helpdesk__reply", "mcp.help-desk/reply", "reply 2", "Reply"])
def test_a_tool_name_is_ascii_with_a_letter_or_digit(name: str) -> None:
    assert gate_with(tools={name: reply_rule()}).is_gated(name)


# Rules ----------------------------------------------------------------------------------------------------------------

EVERY_KEY: dict[str, Any] = {
    "writes": "billing-team-reply",
    "entity": {"field": "ticketId"},
    "fields": ["ticketId", "body", "to", "cc", "title"],
    "output_check": {"fields": ["body"]},
    "recipients": ["to", "cc"],
    "recipients_at": ["acme.example", "me@other.example"],
    "subject": "title",
    "null_only": ["attachmentUrl"],
    "fixed": {"public": False},
    "once": "decision",
    "unchecked": ["title"],
}
CAMEL = {"output_check": "outputCheck", "recipients_at": "recipientsAt", "null_only": "nullOnly"}


@pytest.mark.parametrize("camel", [False, True])
@pytest.mark.parametrize("kind", [dict, MappingProxyType, lambda rule: ToolRule(**rule)])
def test_a_rule_is_read_as_a_mapping_or_a_tool_rule_in_snake_or_camel_case(kind: Any, camel: bool) -> None:
    rule = {CAMEL.get(key, key) if camel else key: value for key, value in EVERY_KEY.items()}
    authority = FakeAuthority()
    gate = gate_for(authority, {REPLY: kind(rule)}, unlisted="deny")
    decided(gate, authority)
    assert (gate.problems, gate.warnings) == ((), ())
    args = reply(to="ann@acme.example", cc=["me@other.example"], title="Hello", attachmentUrl=None, public=False)
    for changes, code in (
        ({}, "allowed"),
        ({}, "already_used"),
        ({"public": True}, "field_value_not_allowed"),
        ({"attachmentUrl": "x"}, "field_value_not_allowed"),
        ({"to": "ann@else.example"}, "recipient_not_allowed"),
        ({"bcc": "ann@acme.example"}, "field_not_allowed"),
        ({"title": "a\nb"}, "subject_unclear"),
        ({"body": "Another text."}, "output_check_missing"),
        ({"ticketId": "HC-2"}, "case_not_decided"),
    ):
        assert gate.check(SESSION, REPLY, args | changes).code == code


def test_a_rule_does_not_change_with_what_it_was_made_from() -> None:
    rule = reply_rule()
    authority = FakeAuthority()
    gate = gate_for(authority, {REPLY: rule})
    decided(gate, authority)
    rule["fields"].append("attachmentUrl")
    rule["output_check"] = None
    assert gate.check(SESSION, REPLY, reply(attachmentUrl="x")).code == "field_not_allowed"
    assert gate.check(SESSION, REPLY, reply(body="Another text.")).code == "output_check_missing"


@pytest.mark.parametrize(
    "key",
    [
        "writs",
        "Writes",
        "output",
        "outputcheck",
        "output-check",
        "nullonly",
        "recipientsat",
        "",
        "self",
        "model_config",
    ],
)
@pytest.mark.parametrize("made", [False, True])
def test_a_key_that_nobody_knows_raises(key: str, made: bool) -> None:
    rule = reply_rule(**{key: None})
    if made:
        with pytest.raises(ConfigurationError, match="unknown key"):
            ToolRule(**rule)
    else:
        assert refused(f"tools.{REPLY}.{key}: unknown key" if key else f"tools.{REPLY}.", tools={REPLY: rule})


@pytest.mark.parametrize("key", CAMEL)
def test_one_key_in_both_spellings_raises(key: str) -> None:
    rule = {**EVERY_KEY, CAMEL[key]: EVERY_KEY[key]}
    with pytest.raises(ConfigurationError, match=rf"^tools\.{REPLY}\."):
        gate_with(tools={REPLY: rule})


@pytest.mark.parametrize(
    "rule", [None, 7, "writes", [], [("writes", "x"), ("fields", [])], {1: 2}, object()], ids=shown
)
def test_what_is_no_rule_raises(rule: object) -> None:
    assert refused(f"tools.{REPLY}", tools={REPLY: rule})


def test_a_rule_needs_fields() -> None:
    rule = reply_rule()
    del rule["fields"]
    assert refused(f"tools.{REPLY}.fields: ", tools={REPLY: rule})


NO_NAME = ["", " ", " a", "a ", 7, True, ["a"], {"a": 1}]
NO_PATH = [
    "a..b",
    ".a",
    "a.",
    "*",
    ".*",
    "a.*.b",
    "*.a",
    "a[]",
    "[]",
    "a[].",
    "a[0]",
    "a[*]",
    "a b.\x00",
    "a\nb",
    "a. b",
]
NO_NAMES_AT_ALL = ["a", 7, True, {"a": 1}, [""], ["a", None], ["a", 7], [" a"], [["a"]]]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[(key, value) for key in ("writes", "subject") for value in NO_NAME],
        *[
            (key, value)
            for key in ("outcomes", "recipients", "recipients_at", "null_only", "unchecked")
            for value in NO_NAMES_AT_ALL
        ],
        *[("fields", value) for value in [None, *NO_NAMES_AT_ALL]],
        *[("fields", [value]) for value in NO_PATH],
        *[("null_only", [value]) for value in [*NO_PATH, "a.*"]],
        *[("recipients", [value]) for value in NO_PATH],
        *[("unchecked", [value]) for value in NO_PATH],
        *[("subject", value) for value in [*NO_PATH, "a.*", "a[].b", None]],
        *[
            ("entity", value)
            for value in ["ticketId", 7, [], ["ticketId"], {}, {"fields": ["ticketId"]}, {"field": None}]
        ],
        *[("entity", {"field": value}) for value in [*NO_NAME, *NO_PATH, "a.*", "a[].b"]],
        ("entity", {"field": "ticketId", "match": "exact"}),
        *[("output_check", value) for value in ["body", 7, [], ["body"], {}, {"output": "x"}, {"fields": []}]],
        *[("output_check", {"fields": value}) for value in [None, *NO_NAMES_AT_ALL]],
        *[("output_check", {"fields": [value]}) for value in [*NO_PATH, "a.*", "a[].b"]],
        *[("output_check", {"fields": ["body"], "output": value}) for value in NO_NAME],
        ("output_check", {"fields": ["body"], "outputs": ["x"]}),
        *[
            ("recipients_at", [value])
            for value in ["not a domain", "@a.example", "me@", "*.a.example", "a@b@c.example"]
        ],
        *[("fixed", value) for value in [None, "a", ["a"], [("a", 1)], {7: 1}, {"": 1}, {" a": 1}]],
        *[("fixed", {path: 1}) for path in [*NO_PATH, "a.*", "a[].b"]],
        *[("fixed", {"a": value}) for value in [float("nan"), object(), {1: 2}, {1}, b"a", "\ud800"]],
        *[("once", value) for value in ["", "Decision", "session", True, 1, ["case"]]],
        ("unchecked", None),
        ("null_only", None),
    ],
    ids=shown,
)
def test_a_key_of_a_wrong_type_or_value_raises(key: str, value: object) -> None:
    assert refused(f"tools.{REPLY}.{key}", tools={REPLY: reply_rule(**{key: value})})


@pytest.mark.parametrize("path", ["a", "a.b", "a.b.c", "a[].b", "a[].b[].c", "a.*", "a b", "é", "a-b", "$a", "a:b"])
def test_fields_may_be_dotted_paths(path: str) -> None:
    gate_with(tools={REPLY: reply_rule(fields=["ticketId", "body", path])})


# G24: problems --------------------------------------------------------------------------------------------------------


def test_g24_problems_name_every_rule_that_can_never_allow_and_only_those() -> None:
    gate = gate_with(
        tools={
            "both": reply_rule(outcomes=["x"]),
            "neither": reply_rule(writes=None),
            "good": reply_rule(),
            "twice": reply_rule(writes=None, fields=["ticketId"]),
        },
        verify_output_check=None,
    )
    found = [problem.split(": ")[0] for problem in gate.problems]
    places = ["tools.both", "tools.both", "tools.neither", "tools.neither", "tools.good", *["tools.twice"] * 3]
    assert found == places
    assert not any("\n" in problem for problem in gate.problems)


# G44: warnings --------------------------------------------------------------------------------------------------------


def warnings_of(rule: Mapping[str, Any], **options: Any) -> list[str]:
    """What is said of one rule, without its place."""
    gate = gate_with(tools={REPLY: rule}, **{"unlisted": "deny", **options})
    assert all(warning.startswith(f"tools.{REPLY}: ") for warning in gate.warnings)
    return [warning.removeprefix(f"tools.{REPLY}: ") for warning in gate.warnings]


def test_g44_the_rule_of_the_help_desk_is_as_strong_as_it_looks() -> None:
    assert warnings_of(reply_rule()) == []


@pytest.mark.parametrize(
    "field", ["subject", "Subject", "message", "htmlBody", "text_html", "note", "options.title", "items[].text"]
)
def test_g44_text_beside_an_output_check_that_nobody_checks_is_named(field: str) -> None:
    fields = ["ticketId", "body", field]
    (warning,) = warnings_of(reply_rule(fields=fields))
    assert repr(field) in warning
    assert "unchecked" in warning
    assert warnings_of(reply_rule(fields=fields, unchecked=[field])) == []
    assert warnings_of(reply_rule(fields=fields, unchecked=[field.upper()])) == []
    if "[]" not in field:
        assert warnings_of(reply_rule(fields=fields, output_check={"fields": ["body", field]})) == []


def test_g44_text_is_not_named_where_no_text_is_checked() -> None:
    assert warnings_of(reply_rule(fields=["ticketId", "body", "subject"], output_check=None)) == []


@pytest.mark.parametrize("field", ["options.*", "a.b.*"])
def test_g44_an_entry_that_opens_everything_is_named(field: str) -> None:
    (warning,) = warnings_of(reply_rule(fields=["ticketId", "body", field]))
    assert repr(field) in warning


@pytest.mark.parametrize("field", ["to", "cc", "bcc", "To"])
def test_g44_a_rule_with_a_field_whose_tool_can_address_anyone_is_named(field: str) -> None:
    fields = ["ticketId", "body", field]
    (warning,) = warnings_of(reply_rule(fields=fields))
    assert "recipients_at" in warning
    assert warnings_of(reply_rule(fields=fields, recipients_at=["acme.example"])) == []


def test_g44_recipients_of_its_own_count_for_that_too() -> None:
    rule = reply_rule(fields=["ticketId", "body", "attendees[].email"], recipients=["attendees[].email"])
    (warning,) = warnings_of(rule)
    assert "recipients_at" in warning


@pytest.mark.parametrize(
    "field",
    [
        "reply_to",
        "replyTo",
        "Reply-To",
        "attendees",
        "envelope",
        "envelope.from",
        "headers",
        "headers[].value",
        "recipient",
        "invitees",
    ],
)
def test_g44_a_listed_field_that_looks_like_a_recipient_is_named(field: str) -> None:
    fields = ["ticketId", "body", field]
    (warning,) = warnings_of(reply_rule(fields=fields))
    assert repr(field) in warning
    assert "recipient" in warning
    assert len(warnings_of(reply_rule(fields=fields, unchecked=[field]))) == 1
    assert warnings_of(reply_rule(fields=fields, recipients=[field], recipients_at=["acme.example"])) == []


def test_g44_to_is_named_where_the_tool_is_said_to_address_nobody() -> None:
    (warning,) = warnings_of(reply_rule(fields=["ticketId", "body", "to"], recipients=[]))
    assert "'to' looks like a recipient" in warning


def test_g44_a_rule_with_outcomes_whose_output_check_names_no_output_is_named() -> None:
    rule = reply_rule(writes=None, outcomes=["billing-question"])
    (warning,) = warnings_of(rule)
    assert "names no output" in warning
    assert warnings_of(rule | {"output_check": {"fields": ["body"], "output": "billing-team-reply"}}) == []
    assert warnings_of(rule | {"output_check": None}) == []


def test_g44_a_gate_that_lets_unlisted_tools_through_says_so() -> None:
    assert gate_with(unlisted="deny").warnings == ()
    for options in ({}, {"unlisted": "allow"}):
        (warning,) = gate_with(**options).warnings
        assert "unlisted" in warning


@pytest.mark.parametrize("way", ["a call", "warm", "awarm"])
async def test_g44_a_rule_without_a_field_on_a_job_that_decides_on_no_company_is_named_once_the_job_is_known(
    way: str,
) -> None:
    gate, authority = helpdesk(rule={"entity": None}, releases=[RELEASE], unlisted="deny")
    decided(gate, authority)
    assert gate.warnings == ()
    if way == "a call":
        assert gate.check(SESSION, REPLY, reply()).allow
    elif way == "warm":
        gate.warm()
    else:
        await gate.awarm()
    found: list[str] = list(gate.warnings)
    assert [warning.split(": ")[0] for warning in found] == [f"tools.{REPLY}"]
    assert "entity" in found[0]


@pytest.mark.parametrize(
    "rule", [mail_rule(unchecked=["subject"]), mail_rule(unchecked=["subject"], entity={"field": "body"})]
)
def test_g44_a_job_that_decides_on_companies_needs_no_field(rule: dict[str, Any]) -> None:
    gate, authority = company(rule=rule, releases=[RELEASE], unlisted="deny")
    decided(gate, authority, "acme.example")
    before = gate.warnings
    gate.warm()
    assert gate.warnings == before
    assert not any("without 'entity'" in warning for warning in before)
