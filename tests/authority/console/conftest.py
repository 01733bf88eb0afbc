"""Somebody in front of the console: over HTTP in process, or with a real Chromium.

The browser is the machine's own (Debian's package `chromium`), or the one that PREACTION_CHROMIUM names. Where there is
none, tests that need it are skipped and say so; in CI they fail, because there it must be.
"""

import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from preaction.authority import LocalAuthority

SIGN_IN = "/console/sign-in"
PATIENT_MS = 60_000
"""For what a page does by itself, however busy the machine is."""


class Visitor:
    """A browser without a face: keeps cookies, follows nothing, and sends forms as Chromium does."""

    def __init__(self, authority: LocalAuthority, origin: str = "http://127.0.0.1:8000") -> None:
        self.authority = authority
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(authority.app, raise_app_exceptions=True), base_url=origin
        )

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.http.get(path, **options)

    async def post(self, path: str, form: dict[str, str], **headers: str | None) -> httpx.Response:
        sent = {"sec-fetch-site": "same-origin", "origin": "null"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        sent = {name: value for name, value in sent.items() if headers.get(name.replace("-", "_"), "") is not None}
        return await self.http.post(path, data=form, headers=sent)

    async def token(self, path: str = SIGN_IN) -> str:
        """The token of the form on a page."""
        found = re.search(r'name="csrf" value="([0-9a-f]{64})"', (await self.get(path)).text)
        assert found is not None
        return found[1]

    async def sign_in(self, key: str = "") -> httpx.Response:
        """Sign in; an empty key is the authority's own operator's."""
        form = {"csrf": await self.token(), "key": key or self.authority.operator_key}
        return await self.post(SIGN_IN, form)


@pytest.fixture
async def visitor(helpdesk: LocalAuthority) -> AsyncIterator[Visitor]:
    """In front of the help desk's authority, not signed in."""
    visitor = Visitor(helpdesk)
    yield visitor
    await visitor.http.aclose()


@pytest.fixture
async def operator(visitor: Visitor) -> Visitor:
    """Signed in."""
    assert (await visitor.sign_in()).status_code == 303
    return visitor


@pytest.fixture(scope="module")  # no longer: while it is open, playwright's loop is this thread's running one
def chromium() -> Iterator[Browser]:
    """A real Chromium."""
    binary = os.environ.get("PREACTION_CHROMIUM") or shutil.which("chromium")
    if binary is None:
        message = "no Chromium: install the package `chromium`, or name a binary in PREACTION_CHROMIUM"
        if "CI" in os.environ:
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        # Root may not use Chromium's own sandbox; the pages come from this test.
        browser = playwright.chromium.launch(executable_path=binary, args=["--no-sandbox"], timeout=2 * PATIENT_MS)
        expect.set_options(timeout=PATIENT_MS)
        yield browser
        browser.close()


@pytest.fixture
def window(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser with no memory and no JavaScript: the console must do without."""
    context = chromium.new_context(java_script_enabled=False)
    context.set_default_timeout(PATIENT_MS)
    yield context
    context.close()
