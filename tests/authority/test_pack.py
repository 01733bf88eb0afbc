"""What a pack may say, and where each thing stands that it may not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authority.packs import HELPDESK, INVOICES, TEXTS
from preaction.authority.packs.release import load_release, read_release
from preaction.authority.packs.yaml_text import MAX_CHARS, PackError, read_yaml
from preaction.errors import ConfigurationError
from preaction.wire.models import PackProblem


def errors(text: str) -> list[tuple[int, int, str]]:
    with pytest.raises(PackError) as caught:
        read_release(text)
    return [(each.line, each.column, each.detail) for each in caught.value.problems]


def place(text: str, part: str) -> tuple[int, int]:
    """Line and column, from 1, of the first place where `part` stands."""
    before = text[: text.index(part)]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


@pytest.mark.parametrize(
    ("text", "line", "column", "detail"),
    [
        ("", 1, 1, "empty"),
        ("a: &x 1", 1, 4, "anchors"),
        ("a: *x", 1, 4, "undefined alias"),
        ("a: [*x]", 1, 5, "undefined alias"),
        ("a: 1\nb: 2\na: 3", 3, 1, "'a' is repeated"),
        ("a: !!python/name:os.system x", 1, 4, "tag"),
        ("!mine {a: 1}", 1, 1, "tag !mine"),
        ("!!set {a}", 1, 1, "tag"),
        ("? [a]\n: 1", 1, 3, "key must be text"),
        ("1: a", 1, 1, "key must be text"),
        ("<<: {a: 1}", 1, 1, "key must be text"),
        ("a: 012", 1, 4, "whole number"),
        ("a: 0x1F", 1, 4, "whole number"),
        ("a: .nan", 1, 4, "number"),
        ("a: 1e999", 1, 4, "too large"),
        ("%YAML 1.1\n---\na: yes", 3, 4, "true or false"),
        ("a: 1\n---\nb: 2", 2, 1, "another document"),
        ("a: [", 1, 5, "expected the node content"),
        ("a:\t1\n b: 2", 1, 3, "cannot start any token"),
        ("a: 'x", 1, 6, "unexpected end"),
        ('a: "\\ud800"', 1, 4, "surrogate"),
        ("a: \x00", 1, 1, "not YAML"),
        ("a: \ud800", 1, 1, "not YAML"),
        ("[" * 600, 1, 1, "not YAML"),
        ("[" * 25 + "]" * 25, 1, 21, "nested deeper"),
        ("a: " + "x" * MAX_CHARS, 1, 1, "at most"),
        ("- 1", 1, 1, "valid dictionary"),
    ],
)
def test_text_that_could_mean_two_things_is_refused_at_its_place(
    text: str, line: int, column: int, detail: str
) -> None:
    first = errors(text)[0]
    assert first[:2] == (line, column)
    assert detail in first[2]


def test_every_repeated_key_is_named() -> None:
    assert [each[:2] for each in errors("a: 1\na: 2\nb: {c: 1, c: 2}")] == [(2, 1), (3, 11)]


def test_dates_and_yes_are_text() -> None:
    assert read_yaml("a: 2026-11-03\nb: yes\nc: [null, ~, 1.5, -3, true]")[0] == {
        "a": "2026-11-03",
        "b": "yes",
        "c": [None, None, 1.5, -3, True],
    }


@pytest.mark.parametrize(
    ("old", "new", "at", "detail"),
    [
        ("from: caller}", "from: lookup}", "{type: number", "`lookup` names"),
        ("from: caller}", "from: caller, lookup: crm}", "{type: number", "`lookup` names"),
        ("from: caller}", "from: lookup, lookup: a b}", "a b}", "match pattern"),
        ("from: caller}", "from: lookup, lookup: crm, sources: [erp]}", "{type: number", "`sources` are for"),
        ("from: caller}", "from: model}", "model}", "'caller'"),
        ("type: number", "type: money", "money", "'string'"),
        ("type: number,", "type: number, minimun: 1,", "minimun", "'minimun' is not known here"),
        (
            "type: number,",
            "type: number, pattern: '(?=a)',",
            "'(?=a)'",
            "expression that RE2 reads: invalid perl operator",
        ),
        ("type: number,", "type: array, items: {type: string, pattern: '('},", "'('", "RE2 reads: missing )"),
        ("type: number,", "type: number, pattern: '(((a{9}){9}){9}){9}',", "'(((a", "expression that RE2 reads: "),
        ("identity: provided", "identity: guessed", "guessed", "'provided'"),
        ("identity: provided", "identity: derived", "{kind: ticket", "`key` is needed"),
        ("identity: provided", "identity: derived, key: [subject]", "subject]", "no fact 'subject'"),
        ("match: exact", "match: fuzzy", "fuzzy", "'exact'"),
        ("match: exact", "match: exact, key: [topic]", "{kind: ticket", "only there"),
        ("PT1H", "1h", "1h", "ISO 8601"),
        ("PT1H", "PT0S", "PT0S", "longer than zero"),
        ("PT1H", "PT", "PT}", "ISO 8601"),
        ("{fresh_for: PT1H}", "{changes: perhaps}", "perhaps", "'refuse'"),
        ("facts.amount < 100.0", "facts.amuont < 100.0", ".amuont", "undeclared reference to 'facts.amuont'"),
        ("facts.amount < 100.0", "has(facts.amuont)", "facts.amuont", "undeclared reference to 'facts.amuont'"),
        ("facts.amount < 100.0", "facts.amount < 100", "< 100\n", "no matching overload"),
        ("facts.amount < 100.0", "facts.amount <", None, "Syntax error"),
        ('facts.topic == "billing" && facts.amount < 100.0', "facts.amount", "facts.amount", "must be a bool"),
        ('facts.topic == "billing" && facts.amount < 100.0', "now() > 1", "() > 1", "undeclared reference to 'now'"),
        ("when: facts", "whem: facts", "whem", "'whem' is not known here"),
        ("title: Triage a ticket", "tilte: Triage", "tilte", "'tilte' is not known here"),
        ("outputs: [billing-team-reply]", "outputs: [reply]", "reply]", "no output 'reply'"),
        ("escalation: refunds-lead", "escalation: nobody", "nobody", "no escalation 'nobody'"),
        ("escalation: triage-desk", "escalation: nobody", "{next_step: Leave", "no escalation 'nobody'"),
        ("id: refund-review", "id: billing-question", None, "'billing-question' is repeated"),
        ("id: short, ", "id: signed,", None, "'signed' is repeated"),
        ("fields: [body]", "fields: [body, body]", None, "'body' is repeated"),
        ("fields: [body]", "fields: []", "[]", "at least 1 item"),
        ("field: body, max_chars", "field: head, max_chars", "head,", "no field 'head'"),
        (r"'The billing team\s*$'", "'(a'", "'(a'", "missing )"),
        (r"'(?i)\bguarantee'", r"'(a)\1'", "'(a)", "RE2"),
        ("max_chars: 1200", "max_chars: -1", "-1}", "greater than or equal to 0"),
        ("max_chars: 1200", "max_chars: '9'", "'9'", "valid integer"),
        ("max_chars: 1200", "max_chars: 9, min_chars: 1", "{id: short", "exactly one of"),
        ("max_chars: 1200", "allowed_links: [https://acme.example]", "https:", "host name"),
        ("max_chars: 1200", "condition: text > 5", "> 5", "no matching overload"),
        ("max_chars: 1200", "condition: size(text)", "size(text)", "must be a bool"),
        ("version: 2026-11-03.1", "version: 1.0", "1.0", "valid string"),
        ("version: 2026-11-03.1", "version: a/b", "a/b", "pattern"),
        ("triage-ticket:", "'triage/ticket':", "'triage/ticket'", "pattern"),
        ("    when_unresolved: {next", "    when: {next", "when: {next", "'when' is not known here"),
        ("title: Triage a ticket", "title: T\n    input: fields", "title: T", "declares its names under `fields`"),
        ("title: Triage a ticket", "title: T\n    content: [body]", "title: T", "only in a job whose `input`"),
    ],
)
def test_each_error_has_its_line_and_column(old: str, new: str, at: str | None, detail: str) -> None:
    assert old in HELPDESK
    text = HELPDESK.replace(old, new, 1)
    found = [each for each in errors(text) if detail in each[2]]
    assert found, errors(text)
    if at is not None:
        assert found[0][:2] == place(text, at)


def test_all_errors_are_told_at_once_in_the_order_of_the_text() -> None:
    text = HELPDESK.replace("facts.amount < 100.0", "facts.a < 1.0").replace("facts.amount >= 100.0", "facts.b > 1.0")
    text = text.replace("max_chars: 1200", "must_match: '('").replace("[billing-team-reply]", "[reply]")
    found = errors(text)
    assert [each[2][:12] for each in found] == ["undeclared r", "this job has", "undeclared r", "not a regula"]
    assert found == sorted(found)
    with pytest.raises(ConfigurationError, match=r"^13:48: undeclared"):
        read_release(text)


def test_an_error_in_a_folded_condition_stands_at_its_beginning() -> None:
    text = HELPDESK.replace(
        'when: facts.topic == "billing" && facts.amount < 100.0', "when: >\n          facts.topic ==\n          3"
    )
    assert errors(text)[0][:2] == place(text, ">\n          facts")


def test_a_key_is_of_plain_values() -> None:
    text = INVOICES.replace("vendor: {type: string}", "vendor: {type: array}")
    assert "a string, a number or a boolean" in errors(text)[0][2]
    assert "repeated" in errors(INVOICES.replace("[vendor, invoice]", "[vendor, vendor]"))[0][2]
    assert "no content 'head'" in errors(INVOICES.replace("key: [subject]", "key: [head]"))[0][2]


def test_a_condition_that_is_too_long_is_refused() -> None:
    when = '"' + "a" * 1990 + '" == facts.topic'
    text = HELPDESK.replace('facts.topic == "billing" && facts.amount < 100.0', f"'{when}'")
    assert "at most 2000 characters" in errors(text)[0][2]


@pytest.mark.parametrize("text", [HELPDESK, INVOICES, TEXTS])
def test_a_release_compiles_again_from_what_is_stored(text: str) -> None:
    release = read_release(text)
    again = load_release(release.content)
    assert (again.digest, again.content, list(again.jobs)) == (release.digest, release.content, sorted(release.jobs))
    for name, job in release.jobs.items():
        assert again.jobs[name].description.outcomes == job.description.outcomes


def test_the_digest_follows_values_and_not_layout() -> None:
    release = read_release(HELPDESK)
    assert read_release(
        "# a comment\n" + HELPDESK.replace("{fresh_for: PT1H}", "\n      fresh_for: 'PT1H'")
    ).digest == (release.digest)
    assert read_release(HELPDESK.replace("1200", "1201")).digest != release.digest


def test_a_pack_without_canonical_json_is_refused() -> None:
    assert (
        "no canonical JSON" in errors(HELPDESK.replace("type: number,", "type: number, const: 9007199254740993,"))[0][2]
    )


words = st.sampled_from(
    [
        "pack",
        "jobs",
        "facts",
        "when",
        "{",
        "}",
        "[",
        "]",
        ":",
        ": ",
        "- ",
        "\n",
        "\n  ",
        "&a",
        "*a",
        "!!int",
        "|",
        ">",
        "'",
    ]
)


@given(st.lists(words | st.text(max_size=5), max_size=40).map("".join))
def test_any_text_is_a_pack_or_a_pack_error(text: str) -> None:
    with pytest.raises(PackError):
        read_release(text)


@given(st.data())
def test_a_damaged_pack_is_a_pack_or_a_pack_error(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(HELPDESK)))
    end = data.draw(st.integers(start, min(start + 40, len(HELPDESK))))
    text = HELPDESK[:start] + data.draw(words | st.text(max_size=8)) + HELPDESK[end:]
    problems: tuple[PackProblem, ...] = ()
    try:
        read_release(text)
    except PackError as error:
        problems = error.problems
    assert all(1 <= each.line <= text.count("\n") + 2 and each.column >= 1 for each in problems)
