"""Signing in and out: which keys open the console, for how long, and which forms count."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from authority.conftest import Clock
from authority.console.conftest import SIGN_IN, Visitor
from authority.packs import HELPDESK
from preaction.authority import LocalAuthority
from preaction.authority.console.guard import Attempts
from preaction.authority.console.sessions import csrf_of
from preaction.authority.keys import Caller
from preaction.authority.refusal import Refused
from preaction.authority.server.limits import Rate
from preaction.authority.storage.tables import SESSIONS

PAGES = ["/", "/console/output-checks", "/console/verdicts", "/console/releases", "/console/keys", "/console/no-page"]


def sessions(authority: LocalAuthority) -> list[dict[str, Any]]:
    with authority._storage.reading() as connection:
        return [dict(row) for row in connection.execute(SESSIONS.select()).mappings()]


@pytest.mark.parametrize("path", [*PAGES, "/console/decisions/exe_1", "/console/output-checks/chk_1"])
async def test_without_a_session_every_page_shows_the_way_to_sign_in(visitor: Visitor, path: str) -> None:
    answer = await visitor.get(path)
    assert (answer.status_code, answer.headers["location"], answer.content) == (303, SIGN_IN, b"")


async def test_an_operators_key_opens_a_session_that_the_database_has_as_a_hash(visitor: Visitor) -> None:
    answer = await visitor.sign_in()
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    session_id = visitor.http.cookies["preaction_session"]
    [row] = sessions(visitor.authority)
    assert session_id not in str(row)
    assert visitor.authority.operator_key not in str(row)
    assert (await visitor.get("/")).status_code == 200


async def test_the_cookie_is_for_this_browser_alone(visitor: Visitor) -> None:
    cookie = (await visitor.sign_in()).headers.get_list("set-cookie")[0]
    name, *attributes = cookie.split("; ")
    assert name.startswith("preaction_session=")
    assert {each.lower() for each in attributes} == {"httponly", "max-age=28800", "path=/", "samesite=strict"}


@pytest.mark.parametrize("origin", ["https://authority.example", "http://authority.example", "http://10.0.0.1:8000"])
async def test_off_this_machine_the_cookie_is_secure_and_bound_to_the_host(
    helpdesk: LocalAuthority, origin: str
) -> None:
    visitor = Visitor(helpdesk, origin)
    cookies = (await visitor.get(SIGN_IN)).headers.get_list("set-cookie")
    assert [each.split("=")[0] for each in cookies] == ["__Host-preaction_form"]
    assert all("; Secure" in each and "Path=/" in each and "Domain" not in each for each in cookies)
    await visitor.http.aclose()


@pytest.mark.parametrize("origin", ["http://localhost:8000", "http://127.0.0.1", "http://[::1]:8000"])
async def test_on_this_machine_it_works_without_tls(helpdesk: LocalAuthority, origin: str) -> None:
    visitor = Visitor(helpdesk, origin)
    assert (await visitor.sign_in()).status_code == 303
    assert (await visitor.get("/")).status_code == 200
    await visitor.http.aclose()


async def test_over_tls_it_works(helpdesk: LocalAuthority) -> None:
    visitor = Visitor(helpdesk, "https://authority.example")
    assert (await visitor.sign_in()).status_code == 303
    assert "__Host-preaction_session" in visitor.http.cookies
    assert (await visitor.get("/")).status_code == 200
    await visitor.http.aclose()


@pytest.mark.parametrize("which", ["agent", "unknown", "empty", "revoked", "garbage", "altered"])
async def test_any_other_key_is_refused_in_the_same_words(visitor: Visitor, clock: Clock, which: str) -> None:
    authority = visitor.authority
    revoked = authority._keyring.create("operator", "helpdesk", None, clock())
    if which == "revoked":
        assert authority._keyring.revoke(revoked.split("_")[2], clock())
    keys = {
        "agent": authority.agent_key,
        "unknown": "pa_operator_0123456789abcdef_" + "x" * 43,
        "empty": " ",
        "revoked": revoked,
        "garbage": "\u202e<script>",
        "altered": authority.operator_key[:-1] + ("a" if authority.operator_key[-1] != "a" else "b"),
    }
    answer = await visitor.sign_in(keys[which])
    assert answer.status_code == 401
    assert "This is not an operator&#39;s key, or it was revoked." in answer.text.replace("'", "&#39;")
    assert keys[which].strip() == "" or keys[which] not in answer.text
    assert sessions(authority) == []


async def test_a_session_ends_by_itself(operator: Visitor, clock: Clock) -> None:
    clock.forward(hours=8, seconds=-1)
    assert (await operator.get("/")).status_code == 200
    clock.forward(seconds=1)
    assert (await operator.get("/")).status_code == 303
    await Visitor(operator.authority).sign_in()
    assert len(sessions(operator.authority)) == 1, "whoever signs in takes ended ones away"


async def test_revoking_the_key_ends_its_sessions_at_once(visitor: Visitor, clock: Clock) -> None:
    key = visitor.authority._keyring.create("operator", "helpdesk", None, clock())
    await visitor.sign_in(key)
    assert (await visitor.get("/")).status_code == 200
    visitor.authority._keyring.revoke(key.split("_")[2], clock())
    assert (await visitor.get("/")).status_code == 303


@pytest.mark.parametrize("column", ["key_id", "created_at", "expires_at", "seal"])
async def test_a_session_whose_row_was_altered_is_none(operator: Visitor, clock: Clock, column: str) -> None:
    other = operator.authority._keyring.create("operator", "helpdesk", None, clock()).split("_")[2]
    value = {"key_id": other, "expires_at": clock.text(hours=99)}.get(column, "2026-11-30T09:00:00Z")
    with operator.authority._storage.writing() as connection:
        connection.execute(SESSIONS.update().values({column: value}))
    assert (await operator.get("/")).status_code == 303


async def test_signing_out_ends_the_session_here_and_in_the_browser(operator: Visitor) -> None:
    session_id = operator.http.cookies["preaction_session"]
    token = await operator.token("/")
    answer = await operator.post("/console/sign-out", {"csrf": token})
    assert (answer.status_code, answer.headers["location"]) == (303, SIGN_IN)
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert sessions(operator.authority) == []
    operator.http.cookies.set("preaction_session", session_id)
    assert (await operator.get("/")).status_code == 303


async def test_signing_in_again_is_another_session_and_ends_the_one_before(operator: Visitor) -> None:
    before = operator.http.cookies["preaction_session"]
    await operator.sign_in()
    assert operator.http.cookies["preaction_session"] != before
    assert len(sessions(operator.authority)) == 1


async def test_a_session_is_not_a_key_for_the_api_nor_an_api_key_a_session(operator: Visitor) -> None:
    assert (await operator.get("/v0/executions")).status_code == 401
    bearer = {"authorization": f"Bearer {operator.authority.operator_key}"}
    operator.http.cookies.clear()
    assert (await operator.get("/", headers=bearer)).status_code == 303


# ---------------------------------------------------------------- forms from elsewhere


FOREIGN: list[dict[str, str | None]] = [
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
    {"sec_fetch_site": "none"},
    {"sec_fetch_site": "cross-site", "origin": "http://127.0.0.1:8000"},
    {"sec_fetch_site": "same-origin", "origin": "http://evil.example"},
    {"sec_fetch_site": None, "origin": None},
    {"sec_fetch_site": None, "origin": "null"},
    {"sec_fetch_site": None, "origin": "http://evil.example"},
    {"sec_fetch_site": None, "origin": "http://127.0.0.1:8001"},
    {"sec_fetch_site": None, "origin": "http://127.0.0.1:8000.evil.example"},
    {"sec_fetch_site": None, "origin": "http://x@127.0.0.1:8000"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_a_form_of_another_site_signs_nobody_in(visitor: Visitor, headers: dict[str, str | None]) -> None:
    form = {"csrf": await visitor.token(), "key": visitor.authority.operator_key}
    assert (await visitor.post(SIGN_IN, form, **headers)).status_code == 403
    assert sessions(visitor.authority) == []


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_a_form_of_another_site_signs_nobody_out(operator: Visitor, headers: dict[str, str | None]) -> None:
    form = {"csrf": await operator.token("/")}
    assert (await operator.post("/console/sign-out", form, **headers)).status_code == 403
    assert (await operator.get("/")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "same-origin", "origin": None},
        {"sec_fetch_site": "same-origin", "origin": "http://127.0.0.1:8000"},
        {"sec_fetch_site": None, "origin": "http://127.0.0.1:8000"},
    ],
    ids=str,
)
async def test_a_form_of_our_own_page_counts_however_a_browser_says_so(
    visitor: Visitor, headers: dict[str, str | None]
) -> None:
    form = {"csrf": await visitor.token(), "key": visitor.authority.operator_key}
    assert (await visitor.post(SIGN_IN, form, **headers)).status_code == 303


@pytest.mark.parametrize("token", ["", "0" * 64, "é", "x" * 3000])
async def test_a_form_without_this_browsers_token_does_nothing(operator: Visitor, token: str) -> None:
    assert (await operator.post("/console/sign-out", {"csrf": token})).status_code == 403
    await operator.get(SIGN_IN)
    form = {"csrf": token, "key": operator.authority.operator_key}
    assert (await operator.post(SIGN_IN, form)).status_code == 403
    assert len(sessions(operator.authority)) == 1


async def test_the_token_of_another_browser_does_nothing(operator: Visitor) -> None:
    other = Visitor(operator.authority)
    await other.sign_in()
    token = await other.token("/")
    assert (await operator.post("/console/sign-out", {"csrf": token})).status_code == 403
    assert (await other.post("/console/sign-out", {"csrf": token})).status_code == 303
    await other.http.aclose()


async def test_without_the_cookie_no_token_fits(visitor: Visitor) -> None:
    token = await visitor.token()
    visitor.http.cookies.clear()
    form = {"csrf": token, "key": visitor.authority.operator_key}
    assert (await visitor.post(SIGN_IN, form)).status_code == 403


async def test_the_token_does_not_tell_the_session(operator: Visitor) -> None:
    page = (await operator.get("/")).text
    assert operator.http.cookies["preaction_session"] not in page
    assert operator.authority.operator_key not in page


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"csrf=" + b"a" * 4096, 413),
        (b"csrf=%ff", 422),
        (b"\xff", 422),
        (b"csrf=a&csrf=b", 422),
        (b"&".join(b"f%d=1" % number for number in range(11)), 422),
        (b"", 403),
        (b'{"csrf": "a"}', 403),
    ],
)
async def test_what_is_no_form_of_ours_is_refused(visitor: Visitor, body: bytes, status: int) -> None:
    headers = {"sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}
    answer = await visitor.http.post(SIGN_IN, content=body, headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


# ---------------------------------------------------------------- guessing


async def test_from_the_tenth_failure_on_no_key_is_looked_at_for_a_while(visitor: Visitor) -> None:
    for _ in range(10):
        assert (await visitor.sign_in("pa_operator_no")).status_code == 401
    answer = await visitor.sign_in()
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
    assert sessions(visitor.authority) == []


def test_failures_are_forgotten_after_a_minute_and_each_address_has_its_own() -> None:
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    for _ in range(10):
        attempts.begin("10.0.0.1")
    with pytest.raises(Refused):
        attempts.begin("10.0.0.1")
    attempts.begin("10.0.0.2")
    now[0] = 61.0
    attempts.begin("10.0.0.1")


async def test_of_many_guesses_at_once_ten_are_looked_at(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    guesses: list[str] = []
    looks = visitor.authority._keyring.caller

    def looked_at(key: str) -> Caller | None:
        guesses.append(key)
        return looks(key)

    monkeypatch.setattr(visitor.authority._keyring, "caller", looked_at)
    form = {"csrf": await visitor.token()}
    sent = (visitor.post(SIGN_IN, {**form, "key": f"pa_operator_{number}"}) for number in range(30))
    statuses = [answer.status_code for answer in await asyncio.gather(*sent)]
    assert (sorted(statuses), len(guesses)) == ([401] * 10 + [429] * 20, 10)


async def test_a_sign_in_that_succeeds_is_no_failure(visitor: Visitor) -> None:
    for _ in range(9):
        await visitor.sign_in("pa_operator_no")
    assert [(await visitor.sign_in()).status_code for _ in range(3)] == [303] * 3


# ---------------------------------------------------------------- the rate of a key


@pytest.fixture
async def limited() -> AsyncIterator[Visitor]:
    """Each key may send three requests in an hour."""
    with LocalAuthority.from_pack(HELPDESK, rate=Rate(per_second=1 / 3600, burst=3)) as authority:
        visitor = Visitor(authority)
        yield visitor
        await visitor.http.aclose()


async def test_pages_count_against_the_rate_of_the_key_that_signed_in(limited: Visitor) -> None:
    assert (await limited.sign_in()).status_code == 303
    assert [(await limited.get(path)).status_code for path in ("/", "/console/no-page")] == [200, 404]
    answer = await limited.get("/console/keys")
    assert (answer.status_code, answer.headers["content-type"]) == (429, "text/html; charset=utf-8")
    assert 0 < int(answer.headers["retry-after"]) <= 3600
    assert "This key sends too many requests." in answer.text
    bearer = {"authorization": f"Bearer {limited.authority.operator_key}"}
    assert (await limited.get("/v0/executions", headers=bearer)).status_code == 429
    assert (await limited.get("/console/console.css")).status_code == 200


async def test_a_key_that_asks_too_often_opens_no_more_sessions_and_can_sign_out(limited: Visitor) -> None:
    assert [(await limited.sign_in()).status_code for _ in range(4)] == [303, 303, 303, 429]
    assert len(sessions(limited.authority)) == 1
    other = Visitor(limited.authority)
    assert (await other.sign_in(limited.authority._keyring.create_passing("operator", "helpdesk"))).status_code == 303
    assert (await other.post("/console/sign-out", {"csrf": await other.token("/")})).status_code == 303
    assert (await other.get("/")).status_code == 303
    await other.http.aclose()


async def test_whoever_has_no_session_writes_nothing_by_signing_out(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up = "x" * 43
    visitor.http.cookies.set("preaction_session", made_up)
    monkeypatch.setattr(visitor.authority._storage, "writing", lambda: pytest.fail("it wrote"))
    assert (await visitor.post("/console/sign-out", {"csrf": csrf_of(made_up)})).status_code == 303


# ---------------------------------------------------------------- cookies, logs, a database that is down


async def test_a_cookie_that_is_none_of_ours_is_replaced(visitor: Visitor) -> None:
    visitor.http.cookies.set("preaction_form", "chosen-by-somebody-else")
    cookie = (await visitor.get(SIGN_IN)).headers["set-cookie"]
    assert "chosen" not in cookie


async def test_nothing_of_a_sign_in_is_logged(visitor: Visitor, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0, "preaction")
    await visitor.sign_in("pa_operator_no")
    await visitor.sign_in()
    assert visitor.authority.operator_key not in caplog.text
    assert visitor.http.cookies["preaction_session"] not in caplog.text


async def test_a_dead_database_is_said_and_opens_nothing(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    await visitor.sign_in()

    def broken(*_: Any, **__: Any) -> None:
        raise Refused(503, "The database did not answer.")

    monkeypatch.setattr(visitor.authority._storage, "one", broken)
    answer: httpx.Response = await visitor.get("/")
    assert (answer.status_code, "The database did not answer." in answer.text) == (503, True)
