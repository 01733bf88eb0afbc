"""The pages of the site: their code runs, their links lead somewhere, the site lists them all."""

import inspect
import re
from typing import get_args

import pytest

from docs.pages import ROOT, run_page
from preaction import ToolRule, create_action_gate
from preaction._core.denied import Code
from preaction.lint.notes import CODES

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md"))
ADAPTERS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/adapters/*.md"))
API = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/api/*.md"))
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_everything_on_it_runs(page: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if 'os.environ["REDIS_URL"]' in (ROOT / page).read_text("utf-8"):
        monkeypatch.setenv("REDIS_URL", request.getfixturevalue("redis_server").url)
    run_page(ROOT / page)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "examples/README.md", *PAGES, *ADAPTERS, *API])
def test_its_links_lead_somewhere(page: str) -> None:
    links = LINK.findall(CODE.sub("", (ROOT / page).read_text("utf-8")))
    assert [link for link in links if "://" not in link and not (ROOT / page).parent.joinpath(link).exists()] == []


def test_the_site_lists_every_page() -> None:
    listed = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")]
    assert [page for page in pages if f": {page}\n" not in listed] == []


def test_the_page_of_rules_names_every_key_option_and_code() -> None:
    page = (ROOT / "docs/rules.md").read_text("utf-8")
    rows = [re.findall(r"`([a-z_]+)`", line.split("|")[1]) for line in page.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in row}
    options = {name for name in inspect.signature(create_action_gate).parameters if name != "unknown"}
    assert named == {*ToolRule.model_fields, *options, *get_args(Code)}


def test_the_page_of_the_command_line_names_every_code_of_lint() -> None:
    page = (ROOT / "docs/cli.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \| (error|warning|hint) \|", page, re.MULTILINE)
    assert {name: severity for names, severity in rows for name in re.findall(r"`([a-z-]+)`", names)} == CODES
