"""`preaction explain`, `replay`, `backtest` and `report` over a trail; and the page that shows what they print."""

import json
import os
import pty
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from audit.test_trail import audited
from core.test_record import SCENES
from docs.pages import BIN, ROOT
from kit import REPLY, SESSION, decided, helpdesk, reply
from preaction.audit.parts import parts_of
from preaction.cli.app import app
from preaction.cli.verdict_words import verdict_json
from preaction.pipeline import JsonlAudit

HOSTILE = "<script>\x1b[2J\u202e"


def command(*arguments: object, **options: Any) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [*map(str, arguments)], **options)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def trail_of(path: Path, *names: str, **options: Any) -> list[dict[str, Any]]:
    """A file with the records of these scenes."""
    written = [audited(SCENES[name](), **options)[1] for name in names]
    path.write_text("".join(json.dumps(record) + "\n" for record in written))
    return written


@pytest.fixture
def trail(tmp_path: Path) -> Path:
    return tmp_path / "trail.jsonl"


def rotated_of(path: Path, *names: str, parts: int) -> list[dict[str, Any]]:
    """A log with the records of these scenes, of which each of the first `parts` has become a part of its own."""
    written = [audited(SCENES[name](), keep=["to"])[1] for name in names]
    for place, record in enumerate(written):
        JsonlAudit(path, durable=False, max_bytes=1 if place <= parts else None)(record)
    assert len(parts_of(path)) == parts
    return written


# ---------------------------------------------------------------- the parts of a log


def test_each_command_reads_a_log_with_its_earlier_parts(trail: Path, rules: Path) -> None:
    first, *_, last = rotated_of(trail, "stale", "allowed", "output_check_missing", "allowed", parts=2)
    assert len(trail.read_bytes().splitlines()) == 2
    assert json.loads(command("explain", trail, "--json")[1])["record"]["id"] == last["id"]
    code, out, err = command("explain", trail, "--json", "--id", first["id"])
    assert (code, err, json.loads(out)["record"]["id"]) == (0, "", first["id"])
    assert command("replay", trail)[:2] == (0, "4 gave the same verdict again\n")
    assert "4 calls judged by next.json" in command("backtest", trail, "--rules", rules)[1]
    page = trail.with_name("report.html")
    assert command("report", trail, "-o", page)[1] == "report.html: 4 calls, 2 denied\n"
    # A pattern of the shell names the parts as well: none is counted twice
    pattern = sorted(each for each in trail.parent.iterdir() if each.name.startswith(trail.name))
    assert len(pattern) == 4, "the log, its two parts, and its lock"
    assert command("report", *pattern, trail, "-o", page)[1] == "report.html: 4 calls, 2 denied\n"


def test_a_part_alone_and_the_parts_of_a_log_without_its_newest_file_can_be_read(trail: Path) -> None:
    rotated_of(trail, "stale", "allowed", "output_check_missing", parts=2)
    assert command("replay", parts_of(trail)[1])[:2] == (0, "1 gave the same verdict again\n")
    trail.unlink()
    assert command("replay", trail)[:2] == (0, "2 gave the same verdict again\n")


def test_what_is_no_record_in_a_part_is_named_by_the_part_and_its_line(trail: Path) -> None:
    rotated_of(trail, "stale", "allowed", parts=1)
    (part,) = parts_of(trail)
    part.write_bytes(part.read_bytes() + b"{\n")
    for name in ("explain", "replay"):
        code, out, err = command(name, trail)
        assert (code, out) == (2, "")
        assert f"{part.name}:2: not strict JSON" in err


# ---------------------------------------------------------------- explain


@pytest.mark.parametrize("name", SCENES)
def test_every_verdict_is_explained(name: str, trail: Path) -> None:
    (record,) = trail_of(trail, name)
    code, out, err = command("explain", trail)
    assert (code, err) == (0, "")
    said = record["verdict"]
    assert out.startswith(f"{record['tool']}: {'allowed' if said['allow'] else 'denied, ' + said['code']}\n")
    states = {line.split()[1]: line.split()[0] for line in out.splitlines() if line.lstrip()[:1] in "✓✗-"}
    marks = {"passed": "✓", "failed": "✗", "not reached": "-"}
    assert states == {check: marks[each["state"]] for check, each in said["checks"].items()}
    assert ("what to do" in out) is not said["allow"]


def test_explain_takes_a_chain_s_entry_a_line_on_stdin_and_what_check_prints(trail: Path) -> None:
    gate, authority = helpdesk(audit=JsonlAudit(trail, durable=False))
    decided(gate, authority)
    verdict = gate.check(SESSION, REPLY, reply(ticketId="HC-9"))
    code, out, _ = command("explain", trail)
    assert (code, out) == command("explain", "-", input=trail.read_bytes())[:2]
    assert 'no decision was made in this session on "…"; ' in out
    code, out, _ = command("explain", input=json.dumps(verdict_json(verdict)))
    assert code == 0
    assert 'no decision was made in this session on "HC-9"; ' in out


def test_explain_takes_the_last_record_or_the_one_that_is_named(trail: Path) -> None:
    first, last = trail_of(trail, "allowed", "stale")
    assert json.loads(command("explain", trail, "--json")[1])["record"]["id"] == last["id"]
    found = json.loads(command("explain", trail, "--json", "--id", first["id"])[1])
    assert (found["record"]["id"], found["code"]) == (first["id"], "allowed")
    assert command("explain", trail, "--id", HOSTILE)[0] == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no record in this file"),
        ("[]", "stdin:1: a JSON object is needed"),
        ("{", "stdin:1: not strict JSON"),
        ('{"a": 1, "a": 2}', "stdin:1: not strict JSON"),
        ("{}", "neither a record of the gate's audit nor a verdict"),
        ('{"kind": "proposal"}', "its kind isn't 'check'"),
        ('{"kind": "check"}', "not a record of the gate's audit: id: Field required"),
        ('{"tool": "t", "callDigest": "d", "allow": "yes"}', "not a verdict: allow: "),
    ],
)
def test_what_is_no_record_is_named_by_its_line(text: str, why: str) -> None:
    code, out, err = command("explain", input=text)
    assert (code, out) == (2, "")
    assert why in err
    assert err.count("\n") == 1


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    for name in ("explain", "replay"):
        code, _, err = command(name, tmp_path / "none.jsonl")
        assert (code, err) == (2, "preaction: none.jsonl can't be read: No such file or directory\n")


def test_an_altered_record_moves_no_cursor(trail: Path) -> None:
    (record,) = trail_of(trail, "output_check_failed")
    record["tool"] = record["preaction"] = record["verdict"]["nextStep"] = record["verdict"]["reason"] = HOSTILE
    record["verdict"]["checks"]["text"]["saw"] = {HOSTILE: HOSTILE}
    record["verdict"]["checks"]["case"]["saw"] = {"case": HOSTILE}
    trail.write_text(json.dumps(record))
    code, out, _ = command("explain", trail)
    assert code == 0
    assert all(character.isprintable() for line in out.splitlines() for character in line)
    record["verdict"]["checks"]["fields"]["saw"] = {"set": [1]}
    trail.write_text(json.dumps(record))
    assert command("explain", trail)[0] == 2


# ---------------------------------------------------------------- replay


def test_replay_counts_and_names_what_is_otherwise(trail: Path) -> None:
    same, other, left_out = trail_of(trail, "allowed", "stale", "allowed for a company")
    other["verdict"] = same["verdict"]
    trail.write_text("".join(json.dumps(record) + "\n" for record in (same, other, left_out)))
    code, out, err = command("replay", trail)
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        f"{other['id']} helpdesk__reply: recorded as allowed, judged again as stale; "
        "different: allow, code, failed, reason, checks",
        f"{left_out['id']} email_send: it can't be replayed: "
        "the value of 'to', which the decision looks at, is not kept",
        "1 gave the same verdict again, 1 another, 1 could not be replayed",
    ]
    lines = [json.loads(line) for line in command("replay", trail, "--json")[1].splitlines()]
    assert [line.get("result") for line in lines] == ["same", "different", "notReplayed", None]
    assert lines[-1] == {"same": 1, "different": 1, "notReplayed": 1}


def test_replay_ends_with_its_own_code(trail: Path) -> None:
    first, last = trail_of(trail, "allowed", "allowed for a company")
    assert command("replay", trail)[0] == 2
    assert command("replay", trail, "--id", first["id"]) == (0, "1 gave the same verdict again\n", "")
    assert command("replay", trail, "--id", last["id"])[0] == 2
    assert command("replay", trail, "--id", "none")[0] == 2
    assert command("replay", input="{}")[0] == 2


# ---------------------------------------------------------------- backtest

RULES = {
    "job": "triage-ticket",
    "tools": {REPLY: {"writes": "billing-team-reply", "entity": {"field": "ticketId"}, "fields": ["ticketId", "body"]}},
    "unlisted": "deny",
}
PACK = ROOT / "examples" / "helpdesk" / "pack.yaml"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "next.json"
    path.write_text(json.dumps(RULES))
    return path


def test_backtest_names_each_call_that_is_changed_and_counts_the_rest(trail: Path, rules: Path) -> None:
    written = trail_of(trail, "allowed", "output_check_failed", "stale", "field_not_allowed", "allowed for a company")
    code, out, err = command("backtest", trail, "--rules", rules)
    assert (code, err) == (1, "")
    assert re.sub(r"in [0-9.]+ s", "in … s", out).splitlines() == [
        "now allowed: helpdesk__reply on HC-1201 at 2026-11-30T09:00:00Z: allowed, was output_check_failed; "
        + written[1]["id"],
        "5 calls judged by next.json in … s",
        "  now allowed   1",
        "  now denied    0",
        "  still allowed 1",
        "  still denied  2",
        "  can't be told 1",
        "  output_check_failed -> allowed: 1",
        "  can't be told, it was recorded for another job than 'triage-ticket': 1",
    ]
    *changed, summary = map(json.loads, command("backtest", trail, "--rules", rules, "--json")[1].splitlines())
    assert [(line["id"], line["became"], line["before"], line["now"]) for line in changed] == [
        (written[1]["id"], "now allowed", "output_check_failed", "allowed")
    ]
    assert (summary["calls"], sum(summary["became"].values())) == (5, 5)
    assert summary["cannotBeTold"][0]["calls"] == 1


def test_backtest_is_quiet_when_nothing_changes(trail: Path, rules: Path) -> None:
    trail_of(trail, "allowed", "stale")
    code, out, _ = command("backtest", trail, "--rules", rules)
    assert code == 0
    assert "still allowed 1\n" in out


def test_backtest_by_a_pack_goes_by_what_it_lets_an_outcome_do(trail: Path, rules: Path, tmp_path: Path) -> None:
    (record,) = trail_of(trail, "allowed")
    assert command("backtest", trail, "--rules", rules, "--pack", PACK)[0] == 0
    before, _, after = PACK.read_text("utf-8").rpartition("outputs: [billing-team-reply]")  # of billing-question
    pack = tmp_path / "pack.yaml"
    pack.write_text(f"{before}outputs: []{after}")
    code, out, _ = command("backtest", trail, "--rules", rules, "--pack", pack)
    assert code == 1
    assert out.startswith(
        "now denied: helpdesk__reply on HC-1201 at 2026-11-30T09:00:00Z: outcome_not_allowed, was allowed; "
        + record["id"]
    )


def test_backtest_says_what_it_cannot_read(trail: Path, rules: Path, tmp_path: Path) -> None:
    trail_of(trail, "allowed")
    (tmp_path / "bad.json").write_text('{"job": "triage-ticket", "tools": {"t": {}}}')
    assert re.fullmatch(
        r".*bad\.json:1:\d+: 'fields' is needed\n", command("backtest", trail, "--rules", tmp_path / "bad.json")[2]
    )
    rules.write_text(json.dumps({**RULES, "job": "other"}))
    code, _, err = command("backtest", trail, "--rules", rules, "--pack", PACK)
    assert (code, err) == (2, "preaction: pack.yaml has no job other, which the rules go by\n")
    assert command("backtest", "--rules", rules, "-", input="")[0] == 2
    assert command("backtest", tmp_path / "none", "--rules", rules)[0] == 2


def test_backtest_shows_its_progress_on_a_terminal_and_nowhere_else(trail: Path, rules: Path) -> None:
    trail_of(trail, *["allowed"] * 3)
    ours, theirs = pty.openpty()
    run = [str(BIN / "preaction"), "backtest", str(trail), "--rules", str(rules)]
    done = subprocess.run(run, stdout=subprocess.PIPE, stderr=theirs, check=False, timeout=60, env={"TERM": "xterm"})
    os.close(theirs)
    seen = os.read(ours, 1 << 16)
    os.close(ours)
    assert b"calls" in seen
    assert done.stdout.startswith(b"3 calls judged by next.json in ")


@pytest.mark.long
def test_ten_thousand_calls_are_judged_in_less_than_a_minute(trail: Path, rules: Path) -> None:
    names = [name for name, scene in SCENES.items() if scene()[2] == REPLY]
    lines = [json.dumps(record) + "\n" for record in trail_of(trail, *names)]
    trail.write_text("".join((lines * 10_000)[:10_000]))
    began = time.process_time()  # other processes may have the machine for themselves meanwhile
    summary = json.loads(command("backtest", trail, "--rules", rules, "--json")[1].splitlines()[-1])
    assert time.process_time() - began < 60
    assert summary["calls"] == 10_000
    assert summary["seconds"] > 0


def test_audit_verify_finds_an_altered_record_of_a_gate(trail: Path) -> None:
    gate, authority = helpdesk(audit=JsonlAudit(trail, durable=False))
    decided(gate, authority)
    for _ in range(2):
        gate.check(SESSION, REPLY, reply())
    assert command("audit", "verify", trail)[1].startswith("2 entries; the chain is whole, and ends at number 2 ")
    trail.write_bytes(trail.read_bytes().replace(b'"allow": true', b'"allow": false', 1))
    code, out, _ = command("audit", "verify", trail)
    assert code == 1
    assert out.startswith("altered: trail.jsonl:1 number 1 ")
