"""Two servers over one database, PostgreSQL or a file: one console, whichever of them a browser meets."""

from collections.abc import Callable

import pytest

from authority.asking import REPLY, evidence
from authority.conftest import Clock
from authority.console.conftest import Visitor
from authority.console.test_pages import rows_of, text_of
from authority.test_verdicts import REPORT
from preaction.authority import LocalAuthority


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_what_one_server_keeps_the_other_shows(opened: Callable[..., LocalAuthority], clock: Clock) -> None:
    one, other = Visitor(opened()), Visitor(opened())
    key = one.authority._keyring.create("operator", "helpdesk", None, clock())
    made = one.authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())
    check = one.authority.check_output(made["executionId"], output="billing-team-reply", content=REPLY)
    one.authority.report_verdict({**REPORT, "executionId": made["executionId"]})
    assert (await one.sign_in(key)).status_code == 303
    other.http.cookies.set("preaction_session", one.http.cookies["preaction_session"])
    words = text_of(await other.get(f"/console/decisions/{made['executionId']}"))
    assert "stands Decided again just now" in words
    assert check["checkId"] in words
    assert REPORT["reason"] in words
    for path in [
        "/?case=HC-1&status=decided&since=2026-11-30",
        "/console/output-checks",
        "/console/verdicts?case=HC-1201",
    ]:
        assert len(rows_of(await other.get(path))) == 1, path
    await other.post("/console/sign-out", {"csrf": await other.token("/")})
    assert (await one.get("/")).status_code == 303
    for visitor in (one, other):
        await visitor.http.aclose()


async def test_a_key_of_this_run_opens_no_session_elsewhere(opened: Callable[..., LocalAuthority]) -> None:
    one, other = Visitor(opened()), Visitor(opened())
    await one.sign_in()
    other.http.cookies.set("preaction_session", one.http.cookies["preaction_session"])
    assert (await other.get("/")).status_code == 303
    for visitor in (one, other):
        await visitor.http.aclose()
