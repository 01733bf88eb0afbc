"""What changed between two releases: in which words, and whether more may be done by it."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from authority.packs import HELPDESK, INVOICES, TEXTS
from preaction.authority.packs.changes import diff, may_grow
from preaction.authority.packs.release import Release, load_release, read_release
from preaction.authority.packs.yaml_text import PackError, read_yaml
from preaction.errors import ConfigurationError
from preaction.wire.digest import canonical

NEXT_STEP = "next_step: Hand the ticket to the refunds lead. Don't reply.\n"


def changed(*replacements: tuple[str, str]) -> list[tuple[str, str]]:
    """Effects and words of a help desk pack whose text was changed."""
    text = HELPDESK.replace("2026-11-03.1", "2026-12-01")
    for old, new in replacements:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return [(each.effect, each.words) for each in diff(read_release(HELPDESK), read_release(text))]


def test_another_version_alone_changes_nothing() -> None:
    assert changed() == []


OUTCOME = "the outcome refund-review"
CASES: list[tuple[str, str, str, str]] = [
    (
        NEXT_STEP,
        f"{NEXT_STEP}        outputs: [billing-team-reply]\n",
        "more",
        f"{OUTCOME} now allows the output billing-team-reply",
    ),
    (
        "        outputs: [billing-team-reply]\n",
        "",
        "less",
        "the outcome billing-question no longer allows the output billing-team-reply",
    ),
    (
        "        escalation: refunds-lead\n",
        "",
        "more",
        f"{OUTCOME} is no longer handed to refunds-lead",
    ),
    (
        "escalation: refunds-lead\n",
        "escalation: triage-desk\n",
        "either",
        f"the escalation of {OUTCOME} changed to: triage-desk (was: refunds-lead)",
    ),
    (
        "        next_step: Answer with the billing team's reply.\n",
        "",
        "less",
        "the outcome billing-question has no next step any more; it was: Answer with the billing team's reply.",
    ),
    (
        "Answer with the billing",
        "Refund, then answer with the billing",
        "either",
        "the next step of the outcome billing-question changed to: Refund, then answer with the billing team's reply. "
        "(was: Answer with the billing team's reply.)",
    ),
    (
        "facts.amount < 100.0",
        "facts.amount < 90.0",
        "either",
        'the condition of the outcome billing-question changed to: facts.topic == "billing" && facts.amount < 90.0 '
        '(was: facts.topic == "billing" && facts.amount < 100.0)',
    ),
    (
        "sources: [classifier, human]",
        "sources: [human]",
        "less",
        "the fact topic comes from the caller, by human; it came from the caller, by classifier, human",
    ),
    (
        ", sources: [classifier, human]",
        "",
        "more",
        "the fact topic comes from any source of the caller's; it came from the caller, by classifier, human",
    ),
    (
        "amount: {type: number, from: caller}",
        "amount: {type: number, from: lookup, lookup: invoice}",
        "less",
        "the fact amount comes from the lookup invoice; it came from any source of the caller's",
    ),
    (
        "enum: [billing, outage, other]",
        "enum: [billing, outage]",
        "either",
        "the values of the fact topic changed to: string, enum billing, outage "
        "(was: string, enum billing, outage, other)",
    ),
    ("fresh_for: PT1H", "fresh_for: PT2H", "more", "evidence counts for 2:00:00; it counted for 1:00:00"),
    ("fresh_for: PT1H", "fresh_for: PT1S", "less", "evidence counts for 0:00:01; it counted for 1:00:00"),
    (
        "fresh_for: PT1H",
        "fresh_for: PT1H, changes: allow",
        "more",
        "a case may now be decided again on other facts of the caller's",
    ),
    (
        "max_chars: 1200",
        "max_chars: 1300",
        "more",
        "the rule short of the output billing-team-reply changed to: body max_chars 1300 (was: body max_chars 1200)",
    ),
    (
        "max_chars: 1200",
        "max_chars: 1100",
        "less",
        "the rule short of the output billing-team-reply changed to: body max_chars 1100 (was: body max_chars 1200)",
    ),
    (
        "          - {id: short,       field: body, max_chars: 1200}\n",
        "",
        "more",
        "the output billing-team-reply need no longer follow the rule short: body max_chars 1200",
    ),
    (
        "max_chars: 1200}\n",
        "max_chars: 1200}\n          - {id: long, field: body, min_chars: 5}\n",
        "less",
        "the output billing-team-reply must follow a new rule long: body min_chars 5",
    ),
    (
        r"(?i)\bguarantee",
        r"(?i)\bguaranteed",
        "either",
        r"the rule no-promises of the output billing-team-reply changed to: body must_not_match (?i)\bguaranteed "
        r"(was: body must_not_match (?i)\bguarantee)",
    ),
    (
        "identity: provided",
        "identity: issued",
        "either",
        "where the case's id comes from changed to: issued (was: provided)",
    ),
    (
        "a refund of 100 or more",
        "a large refund",
        "none",
        "the trigger of the escalation refunds-lead changed to: a large refund (was: a refund of 100 or more)",
    ),
    ("title: Triage a ticket", "title: Triage", "none", "the job's title changed to: Triage (was: Triage a ticket)"),
]


@pytest.mark.parametrize(("old", "new", "effect", "words"), CASES, ids=lambda case: case[:24].strip())
def test_a_change_has_its_words_and_its_effect(old: str, new: str, effect: str, words: str) -> None:
    assert changed((old, new)) == [(effect, words)]


def test_the_other_way_round_the_effect_is_the_other() -> None:
    """Whatever is `more` one way is `less` the other way, and the rest stays what it is."""
    turned = {"more": "less", "less": "more", "either": "either", "none": "none"}
    base = read_release(HELPDESK)
    for old, new, effect, _ in CASES:
        other = read_release(HELPDESK.replace(old, new))
        assert [each.effect for each in diff(other, base)] == [turned[effect]], old


def test_a_new_outcome_says_all_that_it_lets_be_done() -> None:
    added = "      - {id: outage, when: facts.topic == 'outage', next_step: Say so., outputs: [billing-team-reply]}\n"
    [change] = changed(("    when_unresolved:", f"{added}    when_unresolved:"))
    assert change == (
        "more",
        "new outcome outage, when facts.topic == 'outage'; its next step is: Say so.; "
        "it allows the outputs billing-team-reply",
    )


def test_cases_of_an_outcome_that_is_gone_come_to_later_ones() -> None:
    lines = HELPDESK.splitlines(keepends=True)
    first = "".join(lines[11:15])
    last = "".join(lines[15:19])
    assert first.startswith("      - id: billing-question")
    assert last.startswith("      - id: refund-review")
    assert changed((first, "")) == [
        ("either", "the outcome billing-question is gone; its cases come to what is tried after it: refund-review")
    ]
    assert changed((last, "")) == [("less", "the outcome refund-review is gone")]
    assert changed((first, ""), (last, last + first)) == [
        (
            "either",
            "the order in which outcomes are tried changed to: refund-review, billing-question "
            "(was: billing-question, refund-review)",
        )
    ]


def test_a_job_may_come_and_go() -> None:
    ledger = read_release(INVOICES)
    fewer = read_release(INVOICES[: INVOICES.index("  open-case:")])
    gone, came = diff(ledger, fewer), diff(fewer, ledger)
    assert [(each.job, each.effect, each.words) for each in gone] == [
        ("open-case", "less", "the job is gone"),
        ("sort-mail", "less", "the job is gone"),
    ]
    assert not may_grow(gone)
    assert [each.words for each in came] == [
        "new job: Open a case",
        "new outcome urgent, when facts.urgent; it allows no output",
        "new job: Sort a mail",
        'new outcome spam, when content.body.contains("win"); it allows no output',
    ]
    assert may_grow(came)


def test_only_what_surely_allows_no_more_does_not_grow() -> None:
    base = read_release(HELPDESK)
    for old, new, effect, _ in CASES:
        assert may_grow(diff(base, read_release(HELPDESK.replace(old, new)))) is (effect in ("more", "either"))


def test_two_packs_are_not_compared() -> None:
    with pytest.raises(ConfigurationError, match="helpdesk and ledger are two packs"):
        diff(read_release(HELPDESK), read_release(INVOICES))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HELPDESK, id="helpdesk", marks=pytest.mark.long),
        pytest.param(INVOICES, id="ledger"),
        pytest.param(TEXTS, id="texts", marks=pytest.mark.long),
    ],
)
def test_no_change_of_a_pack_goes_unsaid(text: str) -> None:
    data, _ = read_yaml(text)
    base = read_release(text)
    compared = 0
    for mutant in mutants(data):
        release = released(mutant)
        if release is None or release.pack != base.pack:
            continue
        expected = rules(release) != rules(base)
        for found in (diff(base, release), diff(release, base)):
            assert bool(found) is expected, canonical(mutant)
            assert not [each for each in found if "no words here" in each.words], canonical(mutant)
        compared += expected
    assert compared > 20


def rules(release: Release) -> dict[str, Any]:
    """What a release says, with what it leaves to the defaults."""
    return {name: job.rule for name, job in release.jobs.items()}


def released(data: Any) -> Release | None:
    try:
        return load_release(canonical(data).decode())
    except PackError:
        return None


def mutants(data: Any) -> Iterator[Any]:
    """The data with one value removed, doubled, or made another, at each place."""
    for path in places(data):
        *parents, last = path
        for change in (remove, other):
            mutant = copy.deepcopy(data)
            inner = mutant
            for step in parents:
                inner = inner[step]
            change(inner, last)
            yield mutant


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def remove(inner: Any, last: Any) -> None:
    del inner[last]


def other(inner: Any, last: Any) -> None:
    value = inner[last]
    if isinstance(value, str):
        inner[last] = {"provided": "issued", "exact": "case-insensitive", "caller": "lookup"}.get(value, value + "x")
    elif isinstance(value, int | float):
        inner[last] = value + 1
    elif isinstance(value, list):
        inner[last] = value[::-1]
