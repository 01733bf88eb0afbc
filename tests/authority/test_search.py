"""What operators look up: executions page by page, and what one release says otherwise than another."""

from collections.abc import Callable
from typing import Any

import pytest

from authority.asking import evidence, refusal
from authority.conftest import Clock
from authority.packs import HELPDESK, INVOICES
from preaction.authority import LocalAuthority
from preaction.authority.keys import Caller
from preaction.authority.operators import PAGE

OTHER_JOB = HELPDESK.partition("jobs:\n")[2].replace("triage-ticket", "other-job")


def page(authority: LocalAuthority, caller: Caller | None = None, **query: str) -> tuple[list[str], str | None]:
    """The cases on a page, and the cursor after it."""
    found = authority._operators.executions(caller or authority._operator, query)
    return [each.case.id for each in found.items], found.next


def decide(authority: LocalAuthority, *cases: str, topic: str = "billing", amount: Any = 20.5) -> None:
    for case in cases:
        authority.decide("triage-ticket", entity_id=case, evidence=evidence(topic, amount))


@pytest.mark.parametrize("kind", ["memory", "postgres"])
def test_pages_are_stable_while_others_decide(helpdesk: LocalAuthority) -> None:
    cases = [f"HC-{number:03}" for number in range(2 * PAGE + 1)]
    decide(helpdesk, *cases)
    newest_first = cases[::-1]
    first, cursor = page(helpdesk)
    assert (first, cursor is not None) == (newest_first[:PAGE], True)
    decide(helpdesk, "HC-new-1")
    second, last_cursor = page(helpdesk, cursor=str(cursor))
    assert second == newest_first[PAGE : 2 * PAGE]
    decide(helpdesk, "HC-new-2")
    assert page(helpdesk, cursor=str(last_cursor)) == (newest_first[2 * PAGE :], None)
    assert page(helpdesk, cursor=str(cursor)) == (second, last_cursor)
    assert page(helpdesk)[0][:2] == ["HC-new-2", "HC-new-1"]


def test_a_page_that_is_just_full_is_the_last(helpdesk: LocalAuthority) -> None:
    decide(helpdesk, *(f"HC-{number}" for number in range(PAGE)))
    assert (len(page(helpdesk)[0]), page(helpdesk)[1]) == (PAGE, None)


@pytest.mark.parametrize("kind", ["memory", "postgres"])
def test_decisions_are_found_by_status_outcome_case_job_and_time(helpdesk: LocalAuthority, clock: Clock) -> None:
    decide(helpdesk, "HC-1")
    decide(helpdesk, "HC-2", amount=500.0)
    decide(helpdesk, "HC-3", topic="other")
    clock.forward(minutes=1)
    decide(helpdesk, "HC-1")
    assert page(helpdesk, status="decided")[0] == ["HC-1", "HC-2", "HC-1"]
    assert page(helpdesk, status="undecided")[0] == ["HC-3"]
    assert page(helpdesk, outcome="refund-review")[0] == ["HC-2"]
    assert page(helpdesk, outcome="billing-question", case="HC-1", status="decided")[0] == ["HC-1", "HC-1"]
    assert page(helpdesk, case="HC-1", since=clock.text())[0] == ["HC-1"]
    assert page(helpdesk, job="triage-ticket")[0] == ["HC-1", "HC-3", "HC-2", "HC-1"]
    for name, value in (("job", "other"), ("status", "maybe"), ("outcome", "x"), ("case", "hc-1")):
        query: Any = {name: value}
        assert page(helpdesk, **query) == ([], None), query


def test_a_search_for_what_is_none_is_refused(helpdesk: LocalAuthority) -> None:
    for query in ({"tool": "x"}, {"outcome": "a\0"}, {"cursor": "-1"}, {"cursor": "9" * 19}, {"since": "today"}):
        name = next(iter(query))
        search = helpdesk._operators.executions
        status, errors = refusal(lambda: helpdesk._ask(lambda: search(helpdesk._operator, query)))  # noqa: B023
        assert (status, list(errors)) == (422, [f"/{name}"])


def test_a_key_of_some_jobs_finds_theirs_alone(helpdesk: LocalAuthority) -> None:
    helpdesk.publish(HELPDESK.replace("2026-11-03.1", "v2") + OTHER_JOB)
    decide(helpdesk, "HC-1")
    helpdesk.decide("other-job", entity_id="HC-2")
    some = Caller("k", "operator", "helpdesk", frozenset(["other-job"]))
    assert page(helpdesk, some)[0] == ["HC-2"]
    assert page(helpdesk, some, job="triage-ticket")[0] == []
    assert page(helpdesk, Caller("k", "operator", "ledger"))[0] == []


# ---------------------------------------------------------------- releases


def changes(authority: LocalAuthority, version: str, caller: Caller | None = None, **query: str) -> Any:
    found = authority._operators.changes(caller or authority._operator, "helpdesk", version, query)
    return found.model_dump(mode="json")


def test_two_releases_are_compared_by_default_with_the_one_before(helpdesk: LocalAuthority) -> None:
    helpdesk.publish(HELPDESK.replace("2026-11-03.1", "v2").replace("1200", "1300"))
    helpdesk.publish(HELPDESK.replace("2026-11-03.1", "v3"))
    words = "the rule short of the output billing-team-reply changed to: body max_chars"
    assert changes(helpdesk, "v3") == {
        "pack": "helpdesk",
        "since": "v2",
        "release": "v3",
        "mayGrow": False,
        "changes": [{"job": "triage-ticket", "effect": "less", "words": f"{words} 1200 (was: body max_chars 1300)"}],
    }
    assert changes(helpdesk, "v3", since="2026-11-03.1")["changes"] == []
    assert changes(helpdesk, "v2", since="v3")["mayGrow"] is True


def test_what_cannot_be_compared_is_refused(helpdesk: LocalAuthority, opened: Callable[..., LocalAuthority]) -> None:
    def asked(pack: str, version: str, **query: str) -> tuple[int | None, dict[str, str]]:
        question = helpdesk._operators.changes
        return refusal(lambda: helpdesk._ask(lambda: question(helpdesk._operator, pack, version, query)))

    assert asked("helpdesk", "2026-11-03.1") == (
        422,
        {"/since": "this is the first release, and is compared with none before it"},
    )
    assert asked("helpdesk", "none")[0] == 404
    assert asked("helpdesk", "2026-11-03.1", since="none")[0] == 404
    assert asked("ledger", "2026-11-03.1", since="2026-11-03.1")[0] == 404
    assert asked("helpdesk", "2026-11-03.1", to="x") == (422, {"/to": "not a parameter of this search"})


def test_a_key_of_some_jobs_sees_the_changes_of_those(helpdesk: LocalAuthority) -> None:
    helpdesk.publish(HELPDESK.replace("2026-11-03.1", "v2") + OTHER_JOB)
    assert {each["job"] for each in changes(helpdesk, "v2")["changes"]} == {"other-job"}
    some = Caller("k", "operator", "helpdesk", frozenset(["triage-ticket"]))
    assert changes(helpdesk, "v2", some)["changes"] == []


def test_an_altered_release_is_compared_with_nothing(helpdesk: LocalAuthority) -> None:
    helpdesk.publish(HELPDESK.replace("2026-11-03.1", "v2"))
    with helpdesk._storage.writing() as connection:
        connection.exec_driver_sql("UPDATE releases SET content = '{}' WHERE release = 'v2'")
    status, _ = refusal(lambda: helpdesk._ask(lambda: changes(helpdesk, "v2", since="2026-11-03.1")))
    assert status == 404


def test_packs_of_other_tenants_are_not_found(opened: Callable[..., LocalAuthority]) -> None:
    ledger = opened(INVOICES)
    status, _ = refusal(lambda: ledger._ask(lambda: changes(ledger, "1")))
    assert status == 404
