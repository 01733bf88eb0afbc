"""What runs the `console` blocks of pages tells a page that is right from one that isn't."""

import json
from pathlib import Path

import pytest

from docs.console import ELSEWHERE, run_on_own_rules
from docs.pages import ROOT, run_page

BLOCK = "```console\n$ printf 'a 1\\nb\\nc\\n'\n{}```\n"


@pytest.mark.parametrize("shown", ["a 1\nb\nc\n", "a …\nb\nc\n", "a 1\n…\n", "…\nc\n"])
def test_a_block_that_shows_what_is_printed_passes(tmp_path: Path, shown: str) -> None:
    (tmp_path / "page.md").write_text(BLOCK.format(shown), "utf-8")
    run_page(tmp_path / "page.md")


@pytest.mark.parametrize("shown", ["", "a 1\nb\n", "a 2\nb\nc\n", "a 1\n…\nb\n", "a …\n", "a 1 …\nb\nc\n"])
def test_a_block_that_shows_anything_else_fails(tmp_path: Path, shown: str) -> None:
    (tmp_path / "page.md").write_text(BLOCK.format(shown), "utf-8")
    with pytest.raises(Exception, match="the page says"):
        run_page(tmp_path / "page.md")


def test_a_command_of_ours_is_run_as_any_other(tmp_path: Path) -> None:
    said = "preaction: none.jsonl can't be read: No such file or directory"
    (tmp_path / "page.md").write_text(f"```console\n$ preaction explain none.jsonl\n{said}\n```\n", "utf-8")
    run_page(tmp_path / "page.md")


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_blocks_that_are_not_run_here_are_run_there(page: str, test: str) -> None:
    assert page in (ROOT / "tests" / test).read_text("utf-8")


EVENT = {
    "hook_event_name": "PreToolUse",
    "session_id": "one",
    "tool_use_id": "1",
    "tool_name": "mcp__desk__helpdesk_reply",
    "tool_input": {"ticket_id": "HC-1204", "body": "Line 3 is the service fee."},
}


def test_the_blocks_on_an_adapter_s_page_are_run_on_its_own_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "event.json").write_text(json.dumps(EVENT), "utf-8")
    monkeypatch.setenv("FELSPAR_AGENT_KEY", "pa_agent_1_2")
    assert run_on_own_rules(ROOT / "docs/adapters/claude-code.md", tmp_path) == 1
