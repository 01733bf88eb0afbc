"""What a verdict says beside its reason: which call, which case, and what each of the six checks saw."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from kit import BODY, REPLY, SESSION, TICKET, decided, helpdesk, reply
from preaction import Verdict
from preaction._core.denied import quote, unquoted
from preaction._core.facts import Verify
from preaction._core.verdict import tool_name
from preaction.wire.digest import content_digest, digest

NOW, LATER = "2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z"
SAW: Mapping[str, dict[str, Any]] = {
    "fields": {"set": ["body", "ticketId"]},
    "case": {"case": TICKET},
    "fresh": {"decidedAt": NOW, "evidenceFreshUntil": LATER, "now": NOW},
    "verified": {"executionId": "exe_1", "valid": True, "problems": [], "verifiedAt": NOW},
    "pack": {
        "release": "2026-11-03.1",
        "outcome": "billing-question",
        "outputs": ["billing-team-reply"],
        "writes": "billing-team-reply",
        "outcomes": None,
    },
    "text": {"digest": content_digest({"body": BODY}), "outputChecks": ["chk_2"]},
}
NOTHING: Mapping[str, dict[str, Any]] = {name: {} for name in SAW}


def said(verdict: Verdict) -> tuple[list[str], dict[str, Any]]:
    """The states of the six checks in order, and what each saw."""
    checks = verdict.checks
    assert list(checks) == ["fields", "case", "fresh", "verified", "pack", "text"]
    return [check.state for check in checks.values()], {name: check.saw for name, check in checks.items()}


def test_an_allowed_call_tells_what_every_check_saw() -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    verdict = gate.check(SESSION, REPLY, reply())
    assert said(verdict) == (["passed"] * 6, SAW)
    assert (verdict.tool, verdict.session_id, verdict.enforced, verdict.code) == (REPLY, SESSION, True, "allowed")
    assert (verdict.case, verdict.execution_id, verdict.release, verdict.outcome) == (
        TICKET,
        "exe_1",
        "2026-11-03.1",
        "billing-question",
    )


def test_a_denied_one_tells_how_far_it_came() -> None:
    gate, authority = helpdesk()
    decided(gate, authority)
    reached = "not reached"
    verdict = gate.check(SESSION, REPLY, reply(other=1))
    assert said(verdict)[0] == ["failed", *[reached] * 5]
    assert said(verdict)[1] == {**NOTHING, "fields": {"set": ["body", "other", "ticketId"]}}
    verdict = gate.check(SESSION, REPLY, reply(ticketId="HC-9"))
    assert said(verdict) == (
        ["passed", "failed", *[reached] * 4],
        {**NOTHING, "fields": SAW["fields"]},
    )
    assert (verdict.case, verdict.execution_id, verdict.release, verdict.outcome) == (None, None, None, None)
    authority.answers[Verify("exe_1")] = authority.good_answer(Verify("exe_1")) | {"valid": False, "problems": ["x"]}
    verdict = gate.check(SESSION, REPLY, reply())
    assert said(verdict)[0] == ["passed", reached, reached, "failed", reached, reached]
    assert said(verdict)[1] == {**SAW, "verified": {**SAW["verified"], "valid": False, "problems": ["x"]}}
    authority.clock.advance(hours=1)
    verdict = gate.check(SESSION, REPLY, reply())
    assert said(verdict)[0] == ["passed", reached, "failed", reached, reached, reached]
    fresh = {"decidedAt": NOW, "evidenceFreshUntil": LATER}
    assert said(verdict)[1] == {
        **NOTHING,
        "fields": SAW["fields"],
        "case": SAW["case"],
        "fresh": fresh,
    }


def test_a_rule_that_never_allows_is_seen_before_the_fields() -> None:
    gate, authority = helpdesk(rule={"outcomes": ["billing-question"]})
    decided(gate, authority)
    states, saw = said(gate.check(SESSION, REPLY, reply()))
    assert states == ["not reached", "not reached", "not reached", "not reached", "failed", "not reached"]
    assert saw == {**NOTHING, "fields": SAW["fields"]}


def test_what_cannot_be_told_is_null_and_what_is_not_checked_is_empty() -> None:
    gate, authority = helpdesk(rule={"writes": None, "outcomes": ["billing-question"], "output_check": None})
    decided(gate, authority, outcome=None, evidenceFreshUntil=None)
    answer = authority.good_answer(Verify("exe_1"))
    authority.answers[Verify("exe_1")] = answer | {
        "verifiedAt": None,
        "replay": answer["replay"] | {"evidenceFreshUntil": None},
    }
    states, saw = said(gate.check(SESSION, REPLY, reply()))
    assert states == ["passed", "passed", "not reached", "failed", "not reached", "not reached"]
    assert saw == {
        **SAW,
        "fresh": {"decidedAt": NOW, "evidenceFreshUntil": None, "now": NOW},
        "verified": {**SAW["verified"], "verifiedAt": None},
        "pack": {
            "release": "2026-11-03.1",
            "outcome": None,
            "outputs": [],
            "writes": None,
            "outcomes": ("billing-question",),
        },
        "text": {},
    }


def test_a_call_that_could_not_be_read_shows_nothing() -> None:
    verdict = helpdesk()[0].check(SESSION, REPLY, "x")  # type: ignore[arg-type]
    assert said(verdict) == (["failed", *["not reached"] * 5], NOTHING)
    assert verdict.arguments == {}


def test_a_tool_without_a_rule_is_named_and_not_gated() -> None:
    verdict = helpdesk()[0].check(SESSION, "shell", {"x": 1})
    assert (verdict.allow, verdict.code, verdict.tool, verdict.reason) == (
        True,
        "not_gated",
        "shell",
        "Not gated: no rule names this tool.",
    )


def test_observing_is_said() -> None:
    verdict = helpdesk(mode="observe")[0].check(SESSION, REPLY, reply())
    assert (verdict.enforced, verdict.blocks) == (False, False)


def test_the_digest_of_a_call_is_that_of_its_tool_and_arguments() -> None:
    gate, _ = helpdesk()
    assert gate.check(SESSION, REPLY, reply()).call_digest == digest({"tool": REPLY, "arguments": reply()})
    large = reply(n=[2**60, 1])
    assert gate.check(SESSION, REPLY, large).call_digest == digest(
        {"tool": REPLY, "arguments": {**large, "n": [str(2**60), 1]}, "integers": ["/n/0"]}
    )


class Tool(str, Enum):  # noqa: UP042 (the one whose `str()` is another text)
    REPLY = "reply"


@pytest.mark.parametrize(
    ("tool", "name"),
    [("reply", "reply"), (Tool.REPLY, "reply"), (7, "int"), (None, "NoneType"), ("a\ud800ü", "a\\ud800ü")],
    ids=ascii,
)
def test_a_tools_name_is_a_text_whatever_was_given(tool: object, name: str) -> None:
    assert tool_name(tool) == name


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a" * 78, f'"{"a" * 78}"'),
        ("a" * 79, f'"{"a" * 76}...'),
        ("a\x7f\x7f", '"a\\u007f\\u007f"'),
        (7, "7"),
        ([1, "x"], '[1, "x"]'),
        ({"x": 1j}, '{"x": "complex"}'),
        ("é" * 13, '"' + "\\u00e9" * 13 + '"'),
        ("é" * 14, '"' + ("\\u00e9" * 14)[:76] + "..."),
    ],
    ids=ascii,
)
def test_g35_a_quotation_is_at_most_80_characters_long(value: object, shown: str) -> None:
    assert quote(value) == shown
    assert len(shown) <= 80


@pytest.mark.parametrize(
    ("reason", "left"),
    [
        ("Denied: no.", "Denied: no."),
        ('Denied: the field "a" may not.', 'Denied: the field "…" may not.'),
        ('Denied: "a" and "b" may not.', 'Denied: "…" may not.'),
        ('Denied: the field "aaa... may not.', 'Denied: the field "…"'),
        ('Denied: "aaa..." and "b", no.', 'Denied: "…"'),
    ],
)
def test_a_reason_without_what_it_quotes(reason: str, left: str) -> None:
    assert unquoted(reason) == left
