"""What the rules of an output find, and where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authority.packs import TEXTS
from preaction.authority.expressions.patterns import Pattern, PatternError
from preaction.authority.packs.links import foreign_links
from preaction.authority.packs.outputs import MAX_FINDINGS, check_content
from preaction.authority.packs.release import read_release

NOTE = read_release(TEXTS).jobs["write"].outputs["note"]
GOOD = {"head": "Ünder way", "body": "Dear Acme, see docs.acme.example"}


def found(**content: str) -> list[tuple[str, list[int] | None]]:
    return [(each.rule, each.span) for each in check_content(NOTE, {**GOOD, **content})]


def test_a_text_that_follows_the_rules_has_no_findings() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("content", "findings"),
    [
        ({"head": "under way"}, [("begins", None)]),
        ({"body": "Dear 😀é 12 Acme 3"}, [("no-digits", [8, 10]), ("no-digits", [16, 17])]),
        ({"body": "Dear friends"}, [("names-us", None)]),
        ({"body": "Dear Acme " + "😀" * 55}, [("short", [60, 65])]),
        ({"body": "Acme"}, [("long", None), ("polite", None)]),
        ({"body": "Dear Acme, 😀 see https://evil.example/x now"}, [("links", [17, 39])]),
        ({"body": "Hello Acme"}, [("polite", None)]),
        ({"body": "Hello Acme. Thanks"}, []),
        ({"body": "Dear Acme 1 evil.example"}, [("no-digits", [10, 11]), ("links", [12, 24])]),
    ],
)
def test_findings_have_spans_in_code_points(
    content: dict[str, str], findings: list[tuple[str, list[int] | None]]
) -> None:
    assert found(**content) == findings


def test_a_rule_says_its_own_words_and_the_field() -> None:
    first = check_content(NOTE, {**GOOD, "head": "x"})[0]
    assert (first.field, first.message) == ("head", "Begin with a capital letter.")
    assert check_content(NOTE, {**GOOD, "body": "Dear friends"})[0].message == "body must contain: Acme"


def test_a_rule_names_a_bounded_number_of_places() -> None:
    numbers = [each for each in check_content(NOTE, {**GOOD, "body": "1 " * 500}) if each.rule == "no-digits"]
    assert len(numbers) == MAX_FINDINGS


@pytest.mark.parametrize(
    "text",
    [
        "see acme.example for more",
        "see https://acme.example.",
        "see (https://acme.example/a?b=c#d), please",
        "http://ACME.example:8080/x",
        "mail to help@acme.example",
        "mailto:help@acme.example",
        "Version 1.2.3, e.g. this, costs 3.50 and ends.",
        "a/b and and/or, 09:30, 1:2, C:, note: this",
        "",
    ],
)
def test_links_to_allowed_hosts_pass(text: str) -> None:
    assert list(foreign_links(text, {"acme.example"})) == []


@pytest.mark.parametrize(
    "link",
    [
        "evil.example",
        "www.evil.example",
        "EVIL.EXAMPLE/x",
        "https://evil.example",
        "https:/evil.example",
        "https:\\\\evil.example",
        "//evil.example/x",
        "\\\\evil.example\\x",
        "https://acme.example@evil.example",
        "https://acme.example:x@evil.example",
        "https://acme.example\\@evil.example",
        "https://acme.example.evil.example",
        "https://sub.acme.example",
        "https://evil.example#acme.example",
        "https://acme.example/https://evil.example",
        "ftp://acme.example",
        "javascript:alert",
        "data:text/html",
        "tel:112",
        "mailto:x@evil.example",
        "x@evil.example",
        "evil。example",
        "https://evil。example",
        "evil.xn--p1ai",
        "пример.рф",
        "https://аcme.example",
        "https://%65vil.example",
        "https://2130706433/",
        "https://[::1]/",
        "https://",
    ],
)
def test_what_may_lead_elsewhere_is_found_where_it_stands(link: str) -> None:
    text = f"😀 see {link} now"
    spans = list(foreign_links(text, {"acme.example"}))
    assert spans
    assert spans[0][0] == text.index(link)


@given(st.text(), st.text())
def test_no_text_breaks_the_search_for_links(before: str, after: str) -> None:
    text = before + " https://evil.example " + after
    spans = list(foreign_links(text, {"acme.example"}))
    assert (len(before) + 1, len(before) + 21) in spans
    assert all(0 <= start < end <= len(text) for start, end in spans)


@given(st.text(st.sampled_from("a1é😀\u0300\n 9"), max_size=40))
def test_spans_are_those_of_the_text_itself(text: str) -> None:
    spans = list(Pattern("[0-9]+").matches(text, 20))
    assert "".join(text[start:end] for start, end in spans) == "".join(each for each in text if each in "0123456789")
    assert all(text[start:end].isdigit() for start, end in spans)


def test_a_pattern_takes_linear_time() -> None:
    assert not Pattern("^(a+)+$").found_in("a" * 200_000 + "!")


@pytest.mark.parametrize("source", ["(", "(?=a)", r"(a)\1", "a{1,5000}", "((a{1,900}){1,900}){1,900}", "[[:x:]]"])
def test_a_pattern_that_is_not_linear_is_refused(source: str) -> None:
    with pytest.raises(PatternError):
        Pattern(source)
