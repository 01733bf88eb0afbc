"""`preaction report`: what is on the page, that nothing on it runs or loads, and what Chromium and axe say."""

import copy
import json
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from audit.test_trail import audited
from authority.console.conftest import chromium  # noqa: F401 - a fixture
from cli.test_trail_commands import command, trail_of
from core.test_record import SCENES
from kit import REPLY
from preaction.audit.reading import record_of
from preaction.audit.summary import MOST_BARS, Summary

HOSTILE = (
    '"></bdi></style><script>document.title="run"</script>'
    "<img src=//evil.example/x onerror=alert(1)>{{ 7*7 }}\u202e\x1b"
)


@pytest.fixture
def trail(tmp_path: Path) -> Path:
    return tmp_path / "trail.jsonl"


class Tags(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += " ".join(data.split()) + "\n"


def page_of(trail: Path) -> str:
    output = trail.with_name("report.html")
    code, _, err = command("report", trail, "-o", output)
    assert (code, err) == (0, "")
    return output.read_text("utf-8")


def hostile(value: Any) -> Any:
    """A record in which every text that may be anything is hostile."""
    if isinstance(value, dict):
        return {name: hostile(item) for name, item in value.items()}
    return (
        [hostile(item) for item in value] if isinstance(value, list) else HOSTILE if isinstance(value, str) else value
    )


def hostile_record() -> dict[str, Any]:
    _, record = audited(SCENES["release_not_allowed"]())
    spared = {"kind": "check", "at": record["at"]}
    said = {name: record["verdict"][name] for name in ("code", "failed")}
    checks = {name: {**each, "saw": hostile(each["saw"])} for name, each in record["verdict"]["checks"].items()}
    escalation = {"escalation": {"id": HOSTILE, "trigger": HOSTILE, "why": HOSTILE}, "nextStep": HOSTILE}
    verdict = {**hostile(record["verdict"]), **said, **escalation, "checks": checks, "case": HOSTILE}
    return {**hostile(record), **spared, "verdict": verdict}


# ---------------------------------------------------------------- what is on it


def test_the_page_counts_by_code_and_tool_and_lists_the_latest_denials(trail: Path) -> None:
    trail_of(trail, "allowed", "allowed", "stale", "stale", "case_not_decided", "allowed for a company")
    words = Tags(page_of(trail)).words
    for said in ("calls judged\n\n6\n", "allowed\n\n3\n", "denied\n\n3\n"):
        assert said.replace("\n\n", "\n") in words.replace("\n\n", "\n")
    assert "What to do" in words
    assert "get a new decision on fresh evidence" in words
    assert words.count("stale") == 3  # once in the table of codes, twice among the latest
    assert "triage-desk" in words
    assert "email_send" in words


def test_the_page_says_what_was_only_observed(trail: Path) -> None:
    (record,) = trail_of(trail, "stale")
    record["verdict"]["enforced"] = False
    trail.write_text(json.dumps(record))
    assert "except where the gate only observed" in page_of(trail)


def test_several_files_are_one_report(trail: Path) -> None:
    trail_of(trail, "allowed")
    other = trail.with_name("other.jsonl")
    trail_of(other, "stale")
    output = trail.with_name("report.html")
    assert command("report", other, trail, "-o", output)[1] == "report.html: 2 calls, 1 denied\n"
    assert output.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("apart", [timedelta(0), timedelta(minutes=59), timedelta(days=31), timedelta(days=365_000)])
def test_the_timeline_has_every_call_in_few_bars(apart: timedelta) -> None:
    record = record_of(audited(SCENES["allowed"]())[1])
    denied = record_of(audited(SCENES["stale"]())[1])
    records = [record.model_copy(update={"at": record.at + apart * n / 7}) for n in range(8)]
    found = Summary().add([*reversed(records), denied])
    _, bars = found.timeline()
    assert 1 <= len(bars) <= MOST_BARS
    assert (sum(bar.allowed for bar in bars), sum(bar.denied for bar in bars)) == (8, 1)
    assert bars[0].start <= found.first
    assert bars[-1].start <= found.last


# ---------------------------------------------------------------- what can't be read


def test_without_a_whole_trail_there_is_no_page_and_an_earlier_one_stays(trail: Path) -> None:
    output = trail.with_name("report.html")
    output.write_text("earlier")
    for text, why in (("", "there is no record"), ("{}\n", "trail.jsonl:1: ")):
        trail.write_text(text)
        code, _, err = command("report", trail, "-o", output)
        assert code == 2
        assert why in err
    assert command("report", trail.with_name("none"), "-o", output)[0] == 2
    assert output.read_text() == "earlier"
    assert {path.name for path in trail.parent.iterdir()} == {"trail.jsonl", "report.html"}


def test_a_page_that_cannot_be_written_is_one_line(trail: Path) -> None:
    trail_of(trail, "allowed")
    for output, why in ((trail.parent, "is there already, and no file"), (trail.parent / "none" / "x", "No such file")):
        code, _, err = command("report", trail, "-o", output)
        assert (code, err.count("\n")) == (2, 1)
        assert why in err


# ---------------------------------------------------------------- nothing runs, nothing loads


def test_every_value_is_escaped(trail: Path) -> None:
    trail.write_text(json.dumps(hostile_record()))
    text = page_of(trail)
    page = Tags(text)
    assert {tag for tag, _ in page.elements}.isdisjoint({"script", "img", "link", "iframe", "object", "a", "base"})
    names = {name for _, attributes in page.elements for name in attributes}
    assert not {name for name in names if name.startswith("on")} | names & {"src", "href", "action", "srcset"}
    assert "url(" not in text
    assert "@import" not in text
    assert text.count("evil.example") >= 8  # it is there, as text
    assert "{{ 7*7 }}" in page.words
    assert not [character for line in text.splitlines() for character in line if not character.isprintable()]


@pytest.fixture
def many(trail: Path) -> Path:
    written = trail_of(trail, *SCENES)
    lines = [*written, hostile_record()]
    for number, record in enumerate(copy.deepcopy(lines)):
        record["at"] = f"2026-11-{number % 28 + 1:02}T0{number % 9}:00:00Z"
        lines.append(record)
    trail.write_text("".join(json.dumps(record) + "\n" for record in lines))
    page_of(trail)
    return trail.with_name("report.html")


@pytest.mark.long
def test_chromium_runs_and_loads_nothing_and_axe_finds_nothing(chromium: Browser, many: Path) -> None:  # noqa: F811
    looks: list[tuple[Literal["light", "dark"], int]] = [("light", 1200), ("dark", 360)]
    for scheme, width in looks:
        context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))  # noqa: B023 - closed before the next one
        page.goto(many.as_uri())
        assert asked == [many.as_uri()]
        assert page.title() == "What the gate said"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe().run(page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
        context.close()


def test_the_page_names_the_tool_that_was_gated(trail: Path) -> None:
    trail_of(trail, "allowed")
    assert REPLY in page_of(trail)
