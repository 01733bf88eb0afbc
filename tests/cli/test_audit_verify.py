"""`preaction audit verify`, run as a command over files and databases."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline.audit_logs import KEY, File, Table
from preaction.cli.app import app
from preaction.pipeline import JsonlAudit

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pipeline.md"


def command(*arguments: object, **options: Any) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["audit", "verify", *map(str, arguments)], **options)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def log(tmp_path: Path) -> File:
    return File(tmp_path / "audit.jsonl", 4)


def test_a_whole_log_is_whole_and_its_head_is_printed(log: File) -> None:
    words = f"4 entries; the chain is whole, and ends at number 4 {log.heads[-1]}\n"
    assert command(log.path) == (0, words, "")
    assert command(log.path, "--head", log.heads[-1], "--head", log.heads[0]) == (0, words, "")
    code, out, _ = command(log.path, "--json")
    assert (code, json.loads(out)) == (
        0,
        {
            "findings": 0,
            "entries": 4,
            "removed": 0,
            "cut": None,
            "head": {"number": 4, "digest": log.heads[-1]},
        },
    )


def test_what_is_wrong_is_named_by_its_line(log: File) -> None:
    altered = log.lines[1].replace(b'"p2"', b'"\\u001b[2Jp9"')
    log.put([log.lines[0], altered, log.lines[3]])
    code, out, err = command(log.path)
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "altered: audit.jsonl:2 number 2 \\u001b[2Jp9: not what was written",
        f"dropped: audit.jsonl number 3: the digest of number 3 was {log.heads[2]}",
        "3 entries; 2 findings",
    ]
    code, out, _ = command(log.path, "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert lines[0] == {
        "kind": "altered",
        "place": "audit.jsonl:2",
        "number": 2,
        "id": "\x1b[2Jp9",
        "detail": "not what was written",
        "last": None,
    }
    assert (lines[1]["number"], lines[1]["last"], lines[2]["findings"]) == (3, 3, 2)


def test_several_lines_that_are_gone_are_a_range(log: File) -> None:
    log.put([log.lines[0], log.lines[3]])
    assert command(log.path)[1].startswith("dropped: audit.jsonl number 2 to 3: ")


def test_a_cut_end_shows_by_a_head(log: File) -> None:
    log.put(log.lines[:2])
    assert command(log.path)[0] == 0
    code, out, _ = command(log.path, "--head", log.heads[-1])
    assert (code, out.splitlines()[0]) == (1, f"dropped: audit.jsonl: the head {log.heads[-1]} is not in the log")


def test_a_line_that_a_crash_cut_is_told_and_no_finding(log: File) -> None:
    log.put([*log.lines[:3], log.lines[3][:30]])
    code, out, _ = command(log.path)
    assert code == 0
    assert "; audit.jsonl:4 is unfinished, as a crash or a full disk leaves a line; the chain is whole" in out
    assert json.loads(command(log.path, "--json")[1])["cut"] == "audit.jsonl:4"


def test_parts_that_were_removed_as_asked_for_are_told(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    File(path, 6, max_bytes=10, keep=1)
    code, out, _ = command(path)
    assert code == 0
    assert re.match(r"\d entries, after \d+ that were removed as asked for; the chain is whole", out)


def test_a_keyed_log_needs_its_key(tmp_path: Path) -> None:
    keyed = File(tmp_path / "audit.jsonl", 2, KEY)
    assert command(keyed.path) == (
        2,
        "",
        "preaction: audit: this log has a key, and can't be verified without it\n",
    )
    assert command(keyed.path, env={"PREACTION_AUDIT_KEY": KEY})[0] == 0
    assert command(keyed.path, "--key-env", "OTHER", env={"OTHER": KEY})[0] == 0
    code, out, err = command(keyed.path, env={"PREACTION_AUDIT_KEY": KEY[::-1]})
    assert (code, out.count("altered"), KEY[::-1] in out + err) == (1, 2, False)
    assert command(keyed.path, env={"PREACTION_AUDIT_KEY": "short"})[0] == 2


def test_a_table_is_verified_by_its_url_which_may_stand_in_the_environment(tmp_path: Path) -> None:
    table = Table(tmp_path / "audit.db", 3)
    assert command(env={"PREACTION_AUDIT": table.url})[0] == 0
    table.run("UPDATE pipeline_audit SET tenant = 't_2' WHERE number = 2")
    code, out, _ = command(table.url)
    assert (code, out.splitlines()[0]) == (
        1,
        "altered: pipeline_audit number 2 p2: tenant: not what the record says",
    )


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("none/audit.jsonl", "preaction: audit.jsonl can't be read: No such file or directory\n"),
        ("none.jsonl", "preaction: none.jsonl can't be read: No such file or directory\n"),
        (".", "can't be read"),
        ("sqlite:///none.db", "preaction: audit: there is no such database\n"),
        ("mysql+none://u:SECRET@h/d", "preaction: audit: no table can be there: NoSuchModuleError\n"),
        ("postgresql+psycopg://u:SECRET@127.0.0.1:1/d", "preaction: audit: no table can be there: OperationalError\n"),
    ],
)
def test_what_cannot_be_read_is_one_line_and_exit_code_2(log: str, message: str, tmp_path: Path) -> None:
    code, out, err = command(log if "://" in log else tmp_path / log)
    assert (code, out) == (2, "")
    assert message in err
    assert "SECRET" not in err


def test_a_log_without_an_entry_is_not_called_whole(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    JsonlAudit(path)
    assert command(path) == (2, "", "preaction: there is no entry in this log, so there is nothing to verify\n")
    assert command(path, "--head", "sha-256:" + "0" * 64)[0] == 1


def test_the_page_shows_what_is_printed(log: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(log.path.parent)
    (block,) = re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    for step in block.split("$ ")[1:]:
        line, _, shown = step.partition("\n")
        words = shlex.split(line)
        if words[0] == "sed":
            subprocess.run(words, check=True)
        else:
            assert words[:3] == ["preaction", "audit", "verify"]
            assert command(*words[3:])[1] == shown
