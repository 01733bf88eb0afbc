"""The site as `make docs` built it: links and anchors lead somewhere, nobody else is asked, and it can be read.

`make docs` runs this and names the folder in PREACTION_SITE; the environment of the other tests can't build the site.
"""

import contextlib
import importlib
import os
import re
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Literal
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from playwright.sync_api import TimeoutError as TooLate

from authority.console.conftest import chromium  # noqa: F401 (a fixture)
from docs.pages import ROOT

if "PREACTION_SITE" not in os.environ:
    pytest.skip("make docs builds the site and runs these", allow_module_level=True)

SITE = ROOT / os.environ["PREACTION_SITE"]
HERE = "https://site.invalid/"


class Read(HTMLParser):
    """What a page leads to, what it loads, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(given["href"])
        elif "src" in given:
            self.loads.append(given["src"])


PAGES = {path.relative_to(SITE).as_posix().removesuffix("index.html"): path for path in SITE.rglob("*.html")}
READ = {name: Read(path.read_text("utf-8")) for name, path in PAGES.items() if name != "404.html"}


def broken(page: str, link: str) -> bool:
    """Whether a link to a place of the site leads nowhere."""
    target = urlsplit(urljoin(HERE + page, link))
    name, anchor = unquote(target.path).removeprefix("/"), unquote(target.fragment)
    if name not in READ:
        return anchor != "" or not (SITE / name).is_file()
    return anchor != "" and anchor not in READ[name].anchors


def is_inside(page: str, link: str) -> bool:
    return urljoin(HERE + page, link).startswith(HERE)


def test_every_link_and_anchor_inside_leads_somewhere() -> None:
    links = [(page, link) for page, read in READ.items() for link in read.links if is_inside(page, link)]
    assert len(links) > 1000
    assert [(page, link) for page, link in links if broken(page, link)] == []


def test_whatever_a_page_loads_is_part_of_the_site() -> None:
    loads = [(page, load) for page, read in READ.items() for load in read.loads if not load.startswith("data:")]
    assert len(loads) > len(READ)
    assert [(page, load) for page, load in loads if not is_inside(page, load) or broken(page, load)] == []


def test_every_page_of_docs_is_there_and_can_be_reached_from_the_first() -> None:
    reached, new = set[str](), {""}
    while new:
        reached |= new
        links = {urlsplit(urljoin(HERE + page, link)) for page in new for link in READ[page].links}
        new = {link.path.removeprefix("/") for link in links if link.geturl().startswith(HERE)} & READ.keys() - reached
    sources = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert reached == {re.sub(r"(^|/)index/$", r"\1", f"{name}/") for name in sources}


def test_the_api_has_every_public_name_and_no_private_one() -> None:
    anchors = {anchor for page, read in READ.items() if page.startswith("api/") for anchor in read.anchors}
    modules = ("preaction", *(f"preaction.{name}" for name in ("audit", "authority", "pipeline", "preflight")))
    names = {f"{module}.{name}" for module in modules for name in importlib.import_module(module).__all__}
    shown = " ".join(path.read_text("utf-8") for path in ROOT.glob("docs/**/*.md"))
    imported = re.findall(r"^from (preaction\.(?:adapters|stores|testing)[.\w]*) import (\w+)$", shown, re.MULTILINE)
    names |= {f"{module}.{name}" for module, name in imported}
    assert names - anchors == set()
    assert [anchor for anchor in anchors if re.search(r"\._[a-z]", anchor)] == []


# ---------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:  # noqa: F811
    with chromium.new_context() as context:
        yield context.new_page()


@pytest.mark.parametrize(
    ("path", "scheme", "width"),
    [
        ("", "light", 400),
        ("tutorial/", "dark", 1280),
        ("threat-model/", "dark", 400),
        ("api/testing/", "light", 1280),
        ("adapters/langchain/", "dark", 400),
    ],
)
def test_it_can_be_read_and_asks_nobody_else(
    page: Page, origin: str, path: str, scheme: Literal["light", "dark"], width: int
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    answer = page.goto(origin + path, wait_until="networkidle")
    assert answer is not None
    assert answer.ok
    found = Axe().run(page).response["violations"]
    grave = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], node["html"]) for each in grave for node in each["nodes"]] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert asked[0] == origin + path
    assert [url for url in asked if not url.startswith((origin, "data:", "blob:"))] == []


def test_what_is_searched_for_is_found_on_this_machine(page: Page, origin: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(origin, wait_until="networkidle")
    field = page.locator("input:focus")
    for _ in range(10):  # until the page listens; it would close again what is open
        page.keyboard.press("Control+k")
        with contextlib.suppress(TooLate):
            field.wait_for(timeout=3000)
            break
    field.fill("already_used")
    page.locator("a", has_text="Verdicts").filter(has_text="Rules, options and codes").wait_for()
    assert [url for url in asked if not url.startswith((origin, "data:", "blob:"))] == []
