"""`preaction watch`: verdicts as they come, from a real file, by a real process."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.test_trail_commands import HOSTILE, command, trail_of
from core.test_record import SCENES
from docs.pages import BIN, ROOT
from kit import REPLY, SESSION, decided, helpdesk, reply
from preaction.audit.record import session_digest
from preaction.pipeline import JsonlAudit

READY = "preaction: watching trail.jsonl{}; Ctrl-C ends it\n"
WRITER = """
import sys
from kit import REPLY, SESSION, decided, helpdesk, reply
from preaction.pipeline import JsonlAudit

gate, authority = helpdesk(audit=JsonlAudit(sys.argv[1], durable=False, max_bytes=9000))
decided(gate, authority)
for line in sys.stdin:
    for _ in range(int(line)):
        gate.check(SESSION, REPLY, reply())
"""


@pytest.fixture
def trail(tmp_path: Path) -> Path:
    return tmp_path / "trail.jsonl"


@contextmanager
def watching(*arguments: object, **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """A process that watches, until `ended`."""
    given: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    words = [str(BIN / "preaction"), "watch", *map(str, arguments)]
    with subprocess.Popen(words, **given) as watch:
        try:
            yield watch
        finally:
            watch.kill()


def ended(watch: "subprocess.Popen[str]") -> tuple[int, str]:
    """Ctrl-C: the exit code, and what was still said."""
    assert watch.stderr is not None
    watch.send_signal(signal.SIGINT)
    return watch.wait(), watch.stderr.read()


@contextmanager
def writing(trail: Path) -> Iterator[Any]:
    """A process with a gate, that checks so many calls as each line on its stdin says."""
    where = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    words = [sys.executable, "-c", WRITER, str(trail)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, text=True, env=where) as writer:
        yield lambda count: print(count, file=writer.stdin, flush=True)


def lines_of(watch: "subprocess.Popen[str]", count: int) -> list[str]:
    assert watch.stdout is not None
    return [watch.stdout.readline() for _ in range(count)]


def test_verdicts_of_another_process_are_shown_as_they_come_through_rotation(trail: Path) -> None:
    shown = re.compile(r"2026-11-30T09:00:00Z ✓ allowed  helpdesk__reply  case HC-1201  session [0-9a-f]{8}\n")
    with watching(trail) as watch:
        assert watch.stderr is not None
        assert watch.stderr.readline() == READY.format(", which isn't there yet")
        with writing(trail) as check:
            for count in (1, 2, 30, 1):
                check(count)
                assert all(shown.fullmatch(line) for line in lines_of(watch, count))
        assert ended(watch) == (130, "preaction: 34 allowed, 0 denied\n")
    assert len([*trail.parent.glob("trail.jsonl.0*")]) > 3


def test_two_processes_and_their_records_as_json(trail: Path) -> None:
    with watching(trail, "--json", "--last", "0") as watch:
        assert watch.stderr is not None
        assert watch.stderr.readline() == READY.format(", which isn't there yet")
        with writing(trail) as one, writing(trail) as other:
            one(20)
            other(20)
        ids = [json.loads(line)["id"] for line in lines_of(watch, 40)]
    written = [line["record"]["id"] for line in map(json.loads, every_line(trail))]
    assert ids == written


def every_line(trail: Path) -> list[str]:
    parts = sorted(trail.parent.glob("trail.jsonl.0*"))
    return [line for part in (*parts, trail) for line in part.read_text("utf-8").splitlines()]


def test_a_line_that_is_no_record_is_named_and_the_next_one_is_shown(trail: Path) -> None:
    (record,) = trail_of(trail, "allowed")
    with watching(trail, "--json") as watch:
        assert watch.stderr is not None
        assert json.loads(lines_of(watch, 1)[0]) == record
        assert watch.stderr.readline() == READY.format("")
        with trail.open("a") as file:
            file.write(f'{{"kind": "proposal"}}\n{{"x\n{json.dumps(record)[:50]}')
            file.flush()
            said = [watch.stderr.readline() for _ in range(2)]
            file.write(f"{json.dumps(record)[50:]}\n")
        assert json.loads(lines_of(watch, 1)[0]) == record
        assert ended(watch) == (130, "preaction: 2 allowed, 0 denied, 2 could not be read\n")
    assert said[0] == "preaction: trail.jsonl:2: not a record of the gate's audit: its kind isn't 'check'\n"
    assert said[1].startswith("preaction: trail.jsonl:3: not strict JSON: ")


def test_a_reader_that_goes_away_ends_it_without_a_trace(trail: Path) -> None:
    trail_of(trail, "allowed")
    with watching(trail) as watch:
        lines_of(watch, 1)
        assert watch.stdout is not None
        watch.stdout.close()
        trail_of(trail.with_name("more"), "allowed", "allowed")
        with trail.open("a") as file:
            file.write(trail.with_name("more").read_text())
        assert watch.stderr is not None
        assert watch.stderr.read() == READY.format("")
        assert watch.wait() == 1


# ---------------------------------------------------------------- once


def test_a_denial_says_what_comes_next_and_who_takes_it(trail: Path) -> None:
    trail_of(trail, "outcome_not_allowed", "allowed")
    code, out, err = command("watch", trail, "--once")
    session = str(session_digest(SESSION)).removeprefix("sha-256:")[:8]
    assert (code, err) == (0, "preaction: 1 allowed, 1 denied\n")
    assert out == (
        f"2026-11-30T09:00:00Z ✗ denied   helpdesk__reply  outcome_not_allowed  case HC-1201  session {session}  "
        "next step: Hand the ticket to the refunds lead. Don't reply.  escalation: refunds-lead\n"
        f"2026-11-30T09:00:00Z ✓ allowed  helpdesk__reply  case HC-1201  session {session}\n"
    )


@pytest.mark.parametrize("name", SCENES)
def test_every_verdict_is_one_line(name: str, trail: Path) -> None:
    (record,) = trail_of(trail, name)
    code, out, _ = command("watch", trail, "--once")
    assert code == 0
    assert out.count("\n") == 1
    words = ("allowed" if record["verdict"]["allow"] else "denied", record["tool"], record["verdict"]["code"])
    assert all(word in out for word in words)


def codes(*arguments: object) -> list[str]:
    code, out, _ = command("watch", *arguments, "--once", "--json")
    assert code == 0
    return [json.loads(line)["verdict"]["code"] for line in out.splitlines()]


def test_it_begins_with_the_last_ten_or_as_many_as_are_asked_for(trail: Path) -> None:
    trail_of(trail, *["stale"] * 3, *["allowed"] * 11)
    assert codes(trail) == ["allowed"] * 10
    assert codes(trail, "--last", 12) == ["stale", *["allowed"] * 11]
    assert codes(trail, "--last", 0) == []
    assert codes(trail, "--last", 2, "--denied") == ["stale"] * 2


def test_filters_choose_by_tool_code_and_session(trail: Path) -> None:
    written = trail_of(trail, "allowed", "stale", "clock_skew", "allowed for a company", "case_unclear")
    assert codes(trail, "--denied") == ["stale", "clock_skew", "case_unclear"]
    assert codes(trail, "--code", "stale", "--code", "case_unclear") == ["stale", "case_unclear"]
    assert codes(trail, "--tool", "email_send") == ["allowed"]
    assert codes(trail, "--tool", "email_send", "--denied") == []
    digest = written[0]["session"]
    for named in (SESSION, digest, digest.removeprefix("sha-256:")[:8]):
        assert len(codes(trail, "--session", named)) == 5
    for named in ("other", digest.removeprefix("sha-256:")[:7], ""):
        assert codes(trail, "--session", named) == []
    trail.write_text(json.dumps({**written[0], "session": None}) + "\n")
    assert codes(trail, "--session", SESSION) == []


def test_since_takes_a_time_or_an_age(trail: Path) -> None:
    now = datetime.now(UTC)
    written = trail_of(trail, "allowed", "stale", "clock_skew", "allowed")
    ages = [timedelta(days=2), timedelta(minutes=30), timedelta(minutes=29, seconds=59), timedelta(seconds=30)]
    with trail.open("w") as file:
        for record, age in zip(written, ages, strict=True):
            file.write(json.dumps({**record, "at": (now - age).isoformat()}) + "\n")
    assert codes(trail, "--since", "PT10M") == ["allowed"]
    assert codes(trail, "--since", "P1D") == ["stale", "clock_skew", "allowed"]
    assert codes(trail, "--since", (now - timedelta(minutes=29, seconds=59)).isoformat()) == ["clock_skew", "allowed"]
    assert codes(trail, "--since", "P1D", "--code", "stale") == ["stale"]
    for wrong in ("yesterday", "10", "P1", "2026-11-30T09:00:00", "P99999999999D", HOSTILE):
        code, out, err = command("watch", trail, "--since", wrong)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("preaction: --since is an age in ISO 8601, as PT15M, or a time with a zone")


def test_what_can_not_be_read_in_a_part_or_before_is_an_exit_code(trail: Path) -> None:
    trail.with_name("trail.jsonl.000000000001").write_text("half")
    trail_of(trail, "allowed")
    code, out, err = command("watch", trail, "--once")
    assert (code, out.count("\n")) == (1, 1)
    assert err == (
        "preaction: trail.jsonl.000000000001:1: the file ends in the middle of it\n"
        "preaction: 1 allowed, 0 denied, 1 could not be read\n"
    )


def test_a_chain_s_own_notes_are_no_verdicts(trail: Path) -> None:
    for _ in range(2):
        gate, authority = helpdesk(audit=JsonlAudit(trail, durable=False))
        decided(gate, authority)
        gate.check(SESSION, REPLY, reply())
        with trail.open("a") as file:  # as a crash leaves it
            file.write(f'{{"number": {len(trail.read_text().splitlines()) + 1}, ')
    assert '"log": "cut"' in trail.read_text()
    assert codes(trail) == ["allowed", "allowed"]


def test_a_pipe_is_read_to_its_end(trail: Path) -> None:
    trail_of(trail, "allowed", "stale")
    code, out, err = command("watch", "-", "--denied", input=trail.read_bytes().rstrip() + b"\n\nx")
    assert (code, out.count("\n")) == (1, 1)
    assert err.startswith("preaction: stdin:4: not strict JSON: ")
    assert err.endswith("preaction: 0 allowed, 1 denied, 1 could not be read\n")


def test_hostile_text_draws_nothing(trail: Path) -> None:
    (record,) = trail_of(trail, "outcome_not_allowed")
    record["tool"] = record["verdict"]["case"] = record["verdict"]["nextStep"] = record["session"] = HOSTILE + "\n\r"
    record["verdict"]["escalation"]["id"] = HOSTILE
    lines = [json.dumps(record), json.dumps({**record, HOSTILE: 1}), json.dumps({HOSTILE: 1})[:-1], HOSTILE]
    trail.write_text("\n".join(lines) + "\n")
    for options in ((), ("--json",)):
        _, out, err = command("watch", trail, "--once", *options)
        assert (out.count("\n"), err.count("\n")) == (2, 3)
        assert all(one.isprintable() for line in (out + err).splitlines() for one in line)
    code, _, err = command("watch", trail, "--code", HOSTILE)
    assert (code, err.count("\n"), err.isascii()) == (2, 1, True)


def test_a_place_where_no_trail_can_be_is_one_line(tmp_path: Path) -> None:
    for where, why in (
        (tmp_path, "it is no regular file"),
        (tmp_path / "none" / "trail.jsonl", "its folder isn't there"),
        (tmp_path / "trail.jsonl", "there is no such file"),
    ):
        assert command("watch", where, "--once") == (2, "", f"preaction: {where.name} can't be read: {why}\n")


# ---------------------------------------------------------------- on a terminal


def on_a_terminal(trail: Path, columns: int, **environment: str) -> str:
    """What a terminal of so many columns is sent."""
    ours, theirs = pty.openpty()
    where = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "COLUMNS": str(columns), "LANG": "C.UTF-8"}
    words = [str(BIN / "preaction"), "watch", str(trail), "--once"]
    subprocess.run(
        words, stdout=theirs, stderr=subprocess.DEVNULL, env={**where, **environment}, timeout=60, check=False
    )
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as screen:
        os.set_blocking(screen.fileno(), False)
        sent = b""
        with contextlib.suppress(OSError):  # nobody has the other end any more
            while part := screen.read(1 << 16):  # one read may give a part
                sent += part
    return sent.decode().replace("\r\n", "\n")


def test_a_wide_terminal_has_the_date_and_colour_and_a_narrow_one_wraps_under_the_words(trail: Path) -> None:
    trail_of(trail, "outcome_not_allowed", "allowed")
    wide = on_a_terminal(trail, 120)
    assert "\x1b[1;31m2026-11-30T09:00:00Z ✗ denied   \x1b[0mhelpdesk__reply  outcome_not_allowed" in wide
    assert "\x1b[32m2026-11-30T09:00:00Z ✓ allowed  \x1b[0mhelpdesk__reply" in wide
    narrow = on_a_terminal(trail, 60)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", narrow)
    assert all(len(line) <= 60 for line in plain.splitlines())
    assert re.search(r"(?m)^09:00:00Z ✗ denied   helpdesk__reply ", plain)
    assert re.search(r"(?m)^ {21}\S", plain)


def test_without_colour_the_words_say_the_same(trail: Path) -> None:
    trail_of(trail, "outcome_not_allowed", "allowed")
    plain = on_a_terminal(trail, 120, NO_COLOR="1")
    assert "\x1b[31" not in plain
    assert "✗ denied" in plain
    assert "✓ allowed" in plain
