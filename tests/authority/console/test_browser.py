"""The console in a real Chromium: nothing that anybody wrote runs or hides, and people get along without a mouse,
without JavaScript, in the dark and on a small screen.
"""

import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import monotonic
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, expect

from authority.asking import evidence
from authority.test_verdicts import REPORT
from preaction.authority import LocalAuthority
from preaction.authority.server.serve import Served

PACK = r"""
pack: helpdesk
version: "1"
jobs:
  triage-ticket:
    title: "<img src=x onerror=alert(1)>"
    subject: {kind: ticket, identity: provided}
    facts:
      topic: {type: string, from: caller}
      amount: {type: number, from: caller}
    evidence: {fresh_for: PT1H}
    outcomes:
      - id: answer
        title: "</dd><script>alert(1)</script>"
        when: facts.amount < 100.0
        next_step: "<a href='javascript:alert(1)'>Click</a> \u202egnp.exe"
        outputs: [reply]
    when_unresolved: {next_step: "<b onmouseover=alert(1)>Wait.</b>", escalation: desk}
    outputs:
      reply:
        fields: [body]
        rules:
          - {id: "no-promises", field: body, must_not_match: '(?i)guarantee', message: "<svg onload=alert(1)>"}
    escalations:
      desk: {trigger: "<iframe src=javascript:alert(1)>", why: "-->"}
"""
HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "{{ 7*7 }}{% raw %}${7*7}",
    "\u202egnp.exe\u2066 isolated\u2067 twice",
    "null",
    "</title></textarea></bdi></main><base href=//evil.example>",
    "x" * 150,
    "&lt;script&gt;",
]


@pytest.fixture(scope="module")
def authority() -> Iterator[LocalAuthority]:
    """One that is full of what people and models should not have written."""
    with LocalAuthority.from_pack(PACK.replace(r"\u202e", "\u202e")) as authority:
        yield authority


@pytest.fixture(scope="module")
def served(authority: LocalAuthority) -> Iterator[Served]:
    with authority.serve() as served:
        yield served


@pytest.fixture(scope="module")
def paths(authority: LocalAuthority) -> list[str]:
    """Every page, with something hostile in every field that anybody can write."""
    found = ["/", "/console/output-checks", "/console/verdicts", "/console/releases", "/console/keys", "/console/no"]
    for text in HOSTILE:
        facts = {name: {**item, "source": text} for name, item in evidence(topic=text).items()}
        made = authority.decide("triage-ticket", entity_id=printable(text), evidence=facts)
        body = f"{text} we guarantee\n{text}"
        check = authority.check_output(made["executionId"], output="reply", content={"body": body})
        told = {"tool": text, "code": text, "case": text, "reason": text, "executionId": made["executionId"]}
        authority.report_verdict({**REPORT, **told})
        found += [f"/console/decisions/{made['executionId']}", f"/console/output-checks/{check['checkId']}"]
    long = {"body": "long " * 20_000 + "\u202e" * 500 + " guarantee" * 100}
    check = authority.check_output(made["executionId"], output="reply", content=long)
    found.append(f"/console/output-checks/{check['checkId']}")
    undecided = authority.decide("triage-ticket", entity_id="HC-1", evidence={})
    return [*found, f"/console/decisions/{undecided['executionId']}", "/?case=<script>alert(1)</script>&since=<b>"]


def printable(text: str) -> str:
    """A text as it may name a case."""
    return "".join(char for char in text if char.isprintable())


def sign_in(page: Page, served: Served, authority: LocalAuthority) -> None:
    page.goto(served.origin)
    page.get_by_label("Operator key").fill(authority.operator_key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Decisions")


@pytest.fixture(scope="module")
def heard() -> list[str]:
    """What ran, was blocked, or was asked of elsewhere, on any page that `page` shows."""
    return []


@pytest.fixture(scope="module")
def page(chromium: Browser, served: Served, authority: LocalAuthority, heard: list[str]) -> Iterator[Page]:
    """A window with JavaScript on, signed in."""
    context = chromium.new_context()
    page = context.new_page()

    def at_dialog(dialog: Dialog) -> None:
        heard.append(f"dialog {dialog.message}")
        dialog.dismiss()

    page.on("dialog", at_dialog)
    page.on("pageerror", lambda error: heard.append(f"error {error}"))
    page.on("console", lambda said: heard.append(said.text) if "Content Security Policy" in said.text else None)
    page.on("request", lambda asked: None if asked.url.startswith(served.origin) else heard.append(asked.url))
    sign_in(page, served, authority)
    yield page
    context.close()


ODD = "script, img, svg, iframe, base, b, [style], [onerror], [onload], [onmouseover], a[href^='javascript']"


def test_nothing_hostile_runs_or_breaks_out_on_any_page(
    page: Page, served: Served, paths: list[str], heard: list[str]
) -> None:
    heard.clear()  # of what other tests did with this page
    for path in paths:
        page.goto(served.origin + path)
        assert page.locator(ODD).count() == 0, path
        assert page.title().endswith(" · preaction")
        shown = page.get_by_role("main").inner_text()
        assert not set("\u202e\u2066\u2067") & set(shown), path
    assert heard == []


def test_what_was_written_is_read_as_it_was_written(page: Page, served: Served, paths: list[str]) -> None:
    page.goto(served.origin + "/console/verdicts")
    tools = page.get_by_role("rowheader").all_inner_texts()
    named = [
        "".join(f"U+{ord(char):04X}" if char in "\u202e\u2066\u2067" else char for char in text) for text in HOSTILE
    ]
    assert sorted(tool.replace("\n", "") for tool in tools) == sorted(named)
    page.goto(served.origin + paths[-4])
    assert page.locator("mark").all_inner_texts() == ["guarantee"]
    page.goto(served.origin + paths[-3])
    assert page.locator("mark").all_inner_texts() == ["guarantee"] * 20  # as many as one rule names


def assert_usable(page: Page, origin: str, path: str, scheme: Literal["light", "dark"], width: int) -> None:
    """Contrast, names, landmarks, headings, tables and the rest of axe-core's rules; and nothing over the edge."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(origin + path)
    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], path
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


@pytest.mark.long
def test_axe_finds_nothing_in_the_light_and_in_the_dark(page: Page, served: Served, paths: list[str]) -> None:
    _, _, verdicts, *_, decision, check = paths[:8]
    assert_usable(page, served.origin, "/console/sign-in", "light", 1280)
    assert_usable(page, served.origin, decision, "light", 360)
    assert_usable(page, served.origin, verdicts, "dark", 1280)
    assert_usable(page, served.origin, check, "dark", 360)


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing_on_any_page(
    page: Page, served: Served, paths: list[str], scheme: Literal["light", "dark"], width: int
) -> None:
    for path in [*paths, "/console/sign-in"]:
        assert_usable(page, served.origin, path, scheme, width)


@pytest.mark.long
def test_every_table_says_what_it_is_and_what_its_rows_are(page: Page, served: Served, paths: list[str]) -> None:
    for path in paths[:8]:
        page.goto(served.origin + path)
        tables = page.locator("table")
        assert page.locator("table > caption").count() == tables.count()
        assert page.locator("thead th:not([scope=col])").count() == 0
        assert page.locator("tbody tr:not(:has(th[scope=row]))").count() == 0
        assert page.locator("h1").count() == 1


def test_the_session_is_out_of_reach_of_scripts(page: Page) -> None:
    assert page.evaluate("document.cookie") == ""
    [cookie] = [each for each in page.context.cookies() if each["name"] == "preaction_session"]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")


def test_a_form_of_another_site_is_refused_with_the_cookies_that_chromium_sends(page: Page, served: Served) -> None:
    form = f"<form method=post action='{served.origin}/console/sign-out'><button>Go</button></form>"
    page.route("http://other.localhost/", lambda route: route.fulfill(content_type="text/html", body=form))
    page.goto("http://other.localhost/")
    with page.expect_navigation() as left:
        page.get_by_role("button").click()
    assert left.value is not None
    assert left.value.status == 403
    page.goto(served.origin)
    expect(page.get_by_role("heading", level=1)).to_have_text("Decisions")


def test_the_policy_stops_a_script_that_got_in_all_the_same(chromium: Browser, served: Served) -> None:
    """As if a template had forgotten to escape: the browser itself must refuse."""
    context = chromium.new_context()
    page = context.new_page()
    body = "<main>hello</main><script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">"

    def forget(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=body)

    page.route("**/console/sign-in", forget)
    page.goto(served.origin + "/console/sign-in")
    expect(page.get_by_role("main")).to_have_text("hello")
    assert page.title() == ""
    context.close()


def test_no_page_of_another_site_can_frame_it(chromium: Browser, served: Served) -> None:
    paths = ["/healthz", "/console/sign-in"]  # the first, to show that Chromium would frame something
    body = "".join(f"<iframe src='{served.origin}{path}'></iframe>" for path in paths).encode()

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{other.server_port}/")
        shown = [served.origin + "/healthz", "chrome-error://chromewebdata/"]
        ends = monotonic() + 30  # a frame that is refused gets its page after the others are loaded
        while [frame.url for frame in page.frames[1:]] != shown and monotonic() < ends:
            page.wait_for_timeout(20)
        assert [frame.url for frame in page.frames[1:]] == shown
        context.close()
        other.shutdown()


def test_all_of_it_works_with_the_keyboard_alone_and_without_javascript(
    window: BrowserContext, served: Served, authority: LocalAuthority, paths: list[str]
) -> None:
    page = window.new_page()
    page.goto(served.origin)

    def focused(name: str, most: int = 12) -> None:
        """Tab until what has this name has the focus."""
        for _ in range(most):
            page.keyboard.press("Tab")
            at = page.locator("a:focus, button:focus")
            if at.count() and name in at.inner_text():
                return
        raise AssertionError(f"{name} is not reached")

    def sign_in_by_keys(key: str) -> None:
        """Each key waits for what the one before it did: a browser goes to a fragment later than it was asked."""
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_text("Skip to the content")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("#content$"))
        expect(page.locator("#content")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.get_by_label("Operator key")).to_be_focused()
        page.keyboard.type(key)
        page.keyboard.press("Enter")

    sign_in_by_keys("pa_operator_wrong")
    expect(page.get_by_role("alert")).to_be_visible()
    sign_in_by_keys(authority.operator_key)
    expect(page.get_by_role("heading", level=1)).to_have_text("Decisions")
    focused("Output checks")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Output checks")
    focused("chk_", most=20)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Output check chk_")
    focused("Sign out")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.goto(served.origin + "/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


@pytest.mark.long
def test_a_search_works_without_javascript(
    window: BrowserContext, served: Served, authority: LocalAuthority, paths: list[str]
) -> None:
    page = window.new_page()
    sign_in(page, served, authority)
    page.get_by_label("Case").fill("HC-1")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("row")).to_have_count(2)
    expect(page.get_by_label("Case")).to_have_value("HC-1")
    page.get_by_role("link", name="Clear").click()
    expect(page.get_by_role("row")).to_have_count(len(HOSTILE) + 2)
