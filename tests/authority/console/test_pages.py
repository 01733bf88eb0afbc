"""What the pages show, to whom, and what every answer carries."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from authority.asking import REPLY, evidence
from authority.conftest import Clock
from authority.console.conftest import SIGN_IN, Visitor
from authority.packs import HELPDESK, INVOICES
from authority.test_verdicts import REPORT
from preaction.authority import FixedLookup, LocalAuthority
from preaction.authority.storage.tables import CHECKS, EXECUTIONS, KEYS, VERDICTS

POLICY = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"


def text_of(answer: httpx.Response) -> str:
    """The words of a page, without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def rows_of(answer: httpx.Response) -> list[str]:
    """The rows of all tables on a page, in words."""
    found = re.findall(r"<tr.*?</tr>", answer.text, re.DOTALL)
    return [" ".join(html.unescape(re.sub(r"<[^>]+>", " ", row)).split()) for row in found if "<td" in row]


# ---------------------------------------------------------------- headers


def assert_guarded(answer: httpx.Response) -> None:
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "permissions-policy" in answer.headers
    assert "server" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers


async def test_every_answer_is_guarded_and_kept_by_nobody(visitor: Visitor) -> None:
    answers = [await visitor.get("/"), await visitor.get(SIGN_IN), await visitor.post(SIGN_IN, {})]
    answers.append(await visitor.sign_in("pa_operator_no"))
    answers.append(await visitor.sign_in())
    execution = visitor.authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())["executionId"]
    check = visitor.authority.check_output(execution, output="billing-team-reply", content=REPLY)["checkId"]
    paths = ["/", "/console/output-checks", "/console/verdicts", "/console/releases", "/console/keys", "/?since=never"]
    paths += [
        "/console/changes",
        f"/console/decisions/{execution}",
        f"/console/output-checks/{check}",
        "/console/no",
        "/console/decisions/no",
    ]
    answers += [await visitor.get(path) for path in paths]
    answers.append(await visitor.post("/console/sign-out", {"csrf": await visitor.token("/")}))
    assert {answer.status_code for answer in answers} == {200, 303, 401, 403, 404, 422}
    for answer in answers:
        assert_guarded(answer)
        assert answer.headers["cache-control"] == "no-store"


async def test_no_page_has_script_style_or_anything_from_elsewhere(operator: Visitor) -> None:
    for path in ["/", SIGN_IN, "/console/keys"]:
        page = (await operator.get(path)).text
        assert not re.search(r"<script|<style|<img|<iframe|\sstyle=|\son\w+=|javascript:|https?://", page)
        assert re.findall(r'<link rel="stylesheet" href="([^"]+)">', page) == ["/console/console.css"]


async def test_the_style_is_guarded_too_and_needs_no_session(visitor: Visitor) -> None:
    answer = await visitor.get("/console/console.css")
    assert answer.status_code == 200
    assert_guarded(answer)
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert "@import" not in answer.text
    assert "url(" not in answer.text


@pytest.mark.parametrize("path", ["/", "/console/keys", SIGN_IN])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
async def test_pages_are_asked_by_get_alone(operator: Visitor, path: str, method: str) -> None:
    assert (await operator.http.request(method, path)).status_code in (404, 405)


# ---------------------------------------------------------------- decisions


async def test_decisions_are_listed_newest_first_and_searched(visitor: Visitor, clock: Clock) -> None:
    operator, authority = visitor, visitor.authority
    old = authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())["executionId"]
    clock.forward(days=1)
    new = authority.decide("triage-ticket", entity_id="HC-2", evidence=evidence(amount=500.0))["executionId"]
    await operator.sign_in()
    rows = rows_of(await operator.get("/"))
    assert [new in rows[0], old in rows[1], len(rows)] == [True, True, 2]
    assert "refund-review" in rows[0]
    for query, found in {
        "case=HC-1": [old],
        "case=%20HC-1%20": [old],
        "job=triage-ticket": [new, old],
        "job=other": [],
        "status=decided": [new, old],
        "status=undecided": [],
        "since=2026-12-01": [new],
        "since=2026-11-30": [new, old],
        "case=HC-1&since=2026-12-01": [],
        "case=HC-1' OR '1'='1": [],
    }.items():
        answer = await operator.get(f"/?{query}")
        assert answer.status_code == 200
        assert re.findall(r'href="/console/decisions/([^"]+)"', answer.text) == found, query
        assert ("No decision was found." in answer.text) == (not found)


async def test_a_search_that_can_not_be_read_says_so_beside_its_field(operator: Visitor) -> None:
    answer = await operator.get("/?since=yesterday&case=HC-1")
    assert answer.status_code == 422
    assert 'aria-invalid="true" aria-describedby="since-note"' in answer.text
    assert "A day is needed, such as 2026-11-30." in answer.text
    assert 'value="HC-1"' in answer.text
    assert (await operator.get("/?cursor=x")).status_code == 422
    assert (await operator.get("/?case=%00")).status_code == 422
    assert (await operator.get("/?case=" + "x" * 2001)).status_code == 422


async def test_older_decisions_are_a_page_away_and_keep_the_search(operator: Visitor, clock: Clock) -> None:
    for number in range(51):
        clock.forward(seconds=1)
        operator.authority.decide("triage-ticket", entity_id=f"HC-{number}", evidence=evidence())
    first = await operator.get("/?job=triage-ticket")
    [older] = re.findall(r'href="(/\?[^"]+)">Older', first.text)
    assert "job=triage-ticket" in older
    second = await operator.get(html.unescape(older))
    assert [len(rows_of(first)), len(rows_of(second))] == [50, 1]
    assert ">Older<" not in second.text
    assert ">Newest<" in second.text


async def test_one_decision_shows_what_it_rests_on_and_what_a_replay_says_now(operator: Visitor, clock: Clock) -> None:
    authority = operator.authority
    decision = authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())
    check = authority.check_output(decision["executionId"], output="billing-team-reply", content=REPLY)
    authority.report_verdict({**REPORT, "executionId": decision["executionId"], "reason": "Denied for once."})
    authority.report_verdict({**REPORT, "executionId": "exe_other", "reason": "Of another decision."})
    path = f"/console/decisions/{decision['executionId']}"
    answer = await operator.get(path)
    words = text_of(answer)
    for said in [
        'topic "billing" human 2026-11-30 09:00:00 UTC',
        "amount 20.5 erp 2026-11-30 09:00:00 UTC",
        "Next step Answer with the billing team's reply.",
        "Evidence fresh until 2026-11-30 10:00:00 UTC",
        "stands Decided again just now",
        check["checkId"],
        "Denied for once.",
        decision["receipt"],
    ]:
        assert said in words
    assert "Of another decision." not in words
    authority.revoke(decision["executionId"])
    authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())
    words = text_of(await operator.get(path))
    assert "does not stand" in words
    assert "revoked An operator revoked this decision." in words
    assert "superseded A later decision on the same case took its place." in words


async def test_an_undecided_case_names_what_is_missing(operator: Visitor) -> None:
    made = operator.authority.decide("triage-ticket", entity_id="HC-1", evidence={})
    words = text_of(await operator.get(f"/console/decisions/{made['executionId']}"))
    assert "Status undecided Outcome none" in words
    assert "Missing facts amount, topic" in words or "Missing facts topic" in words


@pytest.mark.parametrize("column", ["record", "digest", "receipt", "case_id", "outcome", "seal", "decided_at"])
async def test_of_an_altered_decision_nothing_is_believed(operator: Visitor, column: str) -> None:
    made = operator.authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())
    with operator.authority._storage.writing() as connection:
        connection.execute(EXECUTIONS.update().values({column: "FORGED"}))
    answer = await operator.get(f"/console/decisions/{made['executionId']}")
    assert answer.status_code == 200
    words = text_of(answer)
    assert "record_altered The record or its row was altered in the database." in words
    assert "FORGED" not in words
    assert "billing" not in words


async def test_altered_decisions_are_named_in_the_list(operator: Visitor) -> None:
    made = [
        operator.authority.decide("triage-ticket", entity_id=f"HC-{number}", evidence=evidence())["executionId"]
        for number in range(2)
    ]
    with operator.authority._storage.writing() as connection:
        connection.execute(EXECUTIONS.update().where(EXECUTIONS.c.id == made[0]).values(outcome="FORGED"))
    answer = await operator.get("/")
    assert [made[1] in row for row in rows_of(answer)] == [True]
    assert f"Altered in the database, and so not listed: {made[0]} ." in text_of(answer)
    assert "FORGED" not in answer.text


async def test_a_case_decided_on_other_facts_shows_both(operator: Visitor) -> None:
    first = operator.authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence(amount=20.5))
    again = operator.authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence(amount=99.5))
    words = text_of(await operator.get(f"/console/decisions/{again['executionId']}"))
    assert "evidence_changed the caller said otherwise" in words
    assert f"Compared with {first['executionId']} , where the caller said: amount 20.5" in words


async def test_facts_show_which_lookup_read_them_or_why_none_did(
    opened: Callable[..., LocalAuthority], clock: Clock
) -> None:
    pack = HELPDESK.replace(
        "amount: {type: number, from: caller}", "amount: {type: number, from: lookup, lookup: ledger}"
    )
    ledger = FixedLookup({"HC-1": {"amount": 20.5}})
    topic = {"topic": evidence()["topic"]}
    with LocalAuthority.from_pack(pack, clock=clock, lookups={"ledger": ledger}) as authority:
        visitor = Visitor(authority)
        await visitor.sign_in()
        for case, said in {"HC-1": "amount 20.5 ledger", "HC-2": "amount not read"}.items():
            made = authority.decide("triage-ticket", entity_id=case, evidence=topic)
            assert said in text_of(await visitor.get(f"/console/decisions/{made['executionId']}")), case
        await visitor.http.aclose()


# ---------------------------------------------------------------- output checks


async def test_findings_are_marked_where_they_stand(operator: Visitor) -> None:
    made = operator.authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())
    body = "😀 we Guarantee <b>it</b>.\nThe billing team"
    check = operator.authority.check_output(made["executionId"], output="billing-team-reply", content={"body": body})
    answer = await operator.get(f"/console/output-checks/{check['checkId']}")
    [start, end] = check["findings"][0]["span"]
    assert body[start:end] == "Guarantee"
    assert re.findall(r"<mark><bdi>(.*?)</bdi></mark>", answer.text) == ["Guarantee"]
    assert '<a class="ref" href="#finding-1">' in answer.text
    assert '<tr id="finding-1">' in answer.text
    assert "&lt;b&gt;it&lt;/b&gt;" in answer.text
    assert f"{start}–{end}" in text_of(answer)
    listed = rows_of(await operator.get("/console/output-checks"))
    assert ["failed 1 finding" in row for row in listed] == [True]
    operator.authority.revoke(made["executionId"])
    assert "Stands now no its decision was revoked" in text_of(
        await operator.get(f"/console/output-checks/{check['checkId']}")
    )


@pytest.mark.parametrize("column", ["record", "digest", "receipt", "job", "execution_id", "seal"])
async def test_of_an_altered_check_nothing_is_believed(operator: Visitor, column: str) -> None:
    made = operator.authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())
    check = operator.authority.check_output(made["executionId"], output="billing-team-reply", content=REPLY)["checkId"]
    with operator.authority._storage.writing() as connection:
        connection.execute(CHECKS.update().values({column: "FORGED"}))
    answer = await operator.get(f"/console/output-checks/{check}")
    assert answer.status_code == 200
    for page in [answer, await operator.get("/console/output-checks")]:
        assert "The row" in page.text
        assert "altered" in page.text
        assert "FORGED" not in page.text
        assert REPLY["body"] not in page.text


# ---------------------------------------------------------------- verdicts, releases, keys


async def test_verdicts_are_listed_and_searched(operator: Visitor, clock: Clock) -> None:
    operator.authority.report_verdict({**REPORT, "reason": "First reason."})
    clock.forward(seconds=1)
    operator.authority.report_verdict({**REPORT, "code": "allowed", "allow": True, "enforced": False, "case": None})
    rows = rows_of(await operator.get("/console/verdicts"))
    assert "allowed observed only allowed none" in rows[0]
    assert "denied case_not_decided HC-1201 First reason." in rows[1]
    for query, count in {"code=allowed": 1, "case=HC-1201": 1, "job=triage-ticket": 2, "job=x": 0, "code=x": 0}.items():
        assert len(rows_of(await operator.get(f"/console/verdicts?{query}"))) == count, query


async def test_an_altered_verdict_is_said_and_not_shown(operator: Visitor) -> None:
    operator.authority.report_verdict(REPORT)
    with operator.authority._storage.writing() as connection:
        connection.execute(VERDICTS.update().values(reason="FORGED"))
    answer = await operator.get("/console/verdicts")
    assert "The row was altered in the database" in answer.text
    assert "FORGED" not in answer.text


async def test_releases_are_listed_newest_first(operator: Visitor) -> None:
    operator.authority.publish(HELPDESK.replace("2026-11-03.1", "2026-12-01.1"))
    rows = rows_of(await operator.get("/console/releases"))
    assert [row.split()[0] for row in rows] == ["2026-12-01.1", "2026-11-03.1"]
    assert ["current" in row for row in rows] == [True, False]


async def test_what_a_release_changed_is_said_in_words(operator: Visitor) -> None:
    wider = HELPDESK.replace("2026-11-03.1", "2026-12-01.1").replace(
        "next_step: Hand the ticket to the refunds lead. Don't reply.", "outputs: [billing-team-reply]"
    )
    operator.authority.publish(wider)
    [link] = re.findall(r'href="(/console/changes\?[^"]+)"', (await operator.get("/console/releases")).text)
    answer = await operator.get(html.unescape(link))
    assert answer.status_code == 200
    rows = rows_of(answer)
    assert any("triage-ticket allows more" in row and "refund-review" in row for row in rows)
    assert "After these changes more may be done than before" in answer.text
    back = await operator.get("/console/changes?release=2026-11-03.1&since=2026-12-01.1")
    assert any("allows less" in row for row in rows_of(back))
    assert "Nothing that these two say differs" in (await operator.get("/console/changes?since=2026-12-01.1")).text
    for query, status in {
        "release=2026-11-03.1": 422,
        "release=none": 404,
        "since=none": 404,
        "since=%00": 422,
    }.items():
        assert (await operator.get(f"/console/changes?{query}")).status_code == status, query


async def test_keys_are_listed_without_anything_that_opens(operator: Visitor, clock: Clock) -> None:
    ring = operator.authority._keyring
    agent = ring.create("agent", "helpdesk", ["triage-ticket"], clock())
    gone = ring.create("operator", "helpdesk", None, clock())
    ring.revoke(gone.split("_")[2], clock())
    other = ring.create("agent", "ledger", None, clock())
    answer = await operator.get("/console/keys")
    rows = {row.split()[0]: row for row in rows_of(answer)}
    assert "agent triage-ticket 2026-11-30 09:00:00 UTC no" in rows[agent.split("_")[2]]
    assert "operator all 2026-11-30 09:00:00 UTC 2026-11-30 09:00:00 UTC" in rows[gone.split("_")[2]]
    assert "yours operator all for this run of the server no" in rows[operator.authority.operator_key.split("_")[2]]
    assert other.split("_")[2] not in rows
    with operator.authority._storage.reading() as connection:
        hashes = [row.hash for row in connection.execute(KEYS.select())]
    for secret in [*hashes, *(key.split("_", 3)[3] for key in (agent, gone, operator.authority.operator_key))]:
        assert secret not in answer.text


async def test_an_altered_key_is_said_and_not_shown(operator: Visitor, clock: Clock) -> None:
    key = operator.authority._keyring.create("agent", "helpdesk", None, clock())
    with operator.authority._storage.writing() as connection:
        connection.execute(KEYS.update().values(role="operator"))
    [row] = [row for row in rows_of(await operator.get("/console/keys")) if key.split("_")[2] in row]
    assert "this key opens nothing" in row
    assert "operator" not in row


# ---------------------------------------------------------------- only what the key may see


async def test_nothing_of_another_pack_is_shown(opened: Callable[..., LocalAuthority], tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'shared.db'}"
    helpdesk, ledger = opened(HELPDESK, db), opened(INVOICES, db)
    made = helpdesk.decide("triage-ticket", entity_id="HC-SECRET", evidence=evidence())
    check = helpdesk.check_output(made["executionId"], output="billing-team-reply", content=REPLY)
    helpdesk.report_verdict({**REPORT, "case": "HC-SECRET", "executionId": made["executionId"]})
    stranger = Visitor(ledger)
    await stranger.sign_in()
    for path in [
        "/",
        "/?case=HC-SECRET",
        "/console/output-checks",
        "/console/verdicts",
        "/console/releases",
        "/console/keys",
    ]:
        page = (await stranger.get(path)).text.replace('value="HC-SECRET"', "")
        assert not [word for word in ("HC-SECRET", "helpdesk", "triage", made["executionId"]) if word in page], path
    for room, name in {"decisions": made["executionId"], "output-checks": check["checkId"]}.items():
        answer, unknown = [await stranger.get(f"/console/{room}/{each}") for each in (name, "exe_unknown")]
        assert (answer.status_code, answer.text) == (404, unknown.text)
    await stranger.http.aclose()


async def test_a_key_for_some_jobs_shows_those_jobs_alone(opened: Callable[..., LocalAuthority], clock: Clock) -> None:
    authority = opened(INVOICES)
    ring = authority._keyring
    key = ring.create("operator", "ledger", ["open-case"], clock())
    agent, other = ring.create("agent", "ledger", ["open-case"], clock()), ring.create("agent", "ledger", None, clock())
    fields = {"vendor": "Acme", "invoice": 7, "amount": 5.0}
    hidden = authority.decide("pay-invoice", fields=fields)
    shown = authority.decide("open-case", evidence={"urgent": {"value": True, "source": "human"}})
    for job in ("pay-invoice", "open-case"):
        authority.report_verdict({**REPORT, "job": job, "case": f"case of {job}"})
    visitor = Visitor(authority)
    await visitor.sign_in(key)
    page = (await visitor.get("/")).text
    assert shown["executionId"] in page
    assert hidden["executionId"] not in page
    assert "pay-invoice" not in page
    assert (await visitor.get(f"/console/decisions/{hidden['executionId']}")).status_code == 404
    assert [row.count("case of open-case") for row in rows_of(await visitor.get("/console/verdicts"))] == [1]
    ids = [row.split()[0] for row in rows_of(await visitor.get("/console/keys"))]
    assert sorted(ids) == sorted(each.split("_")[2] for each in (key, agent))
    assert other.split("_")[2] not in ids
    await visitor.http.aclose()


@pytest.mark.parametrize("bad", ["%2e%2e", "%00", "a%2fb", "%F0%9F%98%80", "x" * 3000, "%ED%A0%80", "' OR 1=1 --"])
@pytest.mark.parametrize("room", ["decisions", "output-checks"])
async def test_any_id_that_is_none_is_the_same_404(operator: Visitor, room: str, bad: str) -> None:
    answer = await operator.get(f"/console/{room}/{bad}")
    assert answer.status_code == 404
    assert "There is nothing here that this key may see." in answer.text


async def test_content_and_fields_of_a_request_are_shown_as_json_and_text(
    opened: Callable[..., LocalAuthority],
) -> None:
    authority = opened(INVOICES)
    fields: dict[str, Any] = {"vendor": "null", "invoice": 7, "amount": 5.5}
    made = authority.decide("pay-invoice", fields=fields)
    visitor = Visitor(authority)
    await visitor.sign_in()
    words = text_of(await visitor.get(f"/console/decisions/{made['executionId']}"))
    for name, value in fields.items():
        assert f"Field {name} {json.dumps(value)}" in words
    await visitor.http.aclose()
