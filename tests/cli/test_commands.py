"""The commands, run as commands."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from authority.asking import evidence
from authority.packs import HELPDESK
from preaction.authority import LocalAuthority
from preaction.cli.app import app

COMMAND = [sys.executable, "-c", "from preaction.cli import main; main()"]


def command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False, cwd=cwd)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    path = tmp_path / "pack.yaml"
    path.write_text(HELPDESK, "utf-8")
    return path


@contextmanager
def served(*arguments: str, cwd: Path | None = None) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """A running `preaction serve`, and the line that it printed when it was ready."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*COMMAND, "serve", *arguments], text=True, cwd=cwd, **pipes)  # type: ignore[call-overload]
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def ask(ready: dict[str, str], method: str, path: str, key: str = "agentKey", **options: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {ready[key]}"}
    with httpx.Client(base_url=ready["origin"], headers=headers, trust_env=False, timeout=20) as http:
        return http.request(method, path, **options)


def test_serve_says_when_it_is_ready_and_stops_when_told(pack: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with served("--pack", str(pack), "--dev-keys") as (process, ready):
            assert set(ready) == {"origin", "agentKey", "operatorKey"}
            body = {"entity_id": "HC-1", "evidence": evidence()}
            decision = ask(ready, "POST", "/v0/jobs/triage-ticket/decisions", json=body).json()
            assert decision["outcome"]["id"] == "billing-question"
            process.send_signal(number)
            out, err = process.communicate(timeout=30)
            assert (process.returncode, out, err) == (0, "", "")


def test_dev_keys_are_new_at_each_start_and_see_what_earlier_ones_made(pack: Path) -> None:
    with served("--pack", "pack.yaml", "--dev-keys", cwd=pack.parent) as (_, first):
        decision = ask(first, "POST", "/v0/jobs/triage-ticket/decisions", json={"entity_id": "HC-1"}).json()
    assert (pack.parent / "pack.db").exists()
    with served("--pack", str(pack), "--dev-keys") as (_, second):
        assert second["agentKey"] != first["agentKey"]
        path = f"/v0/executions/{decision['executionId']}/verify"
        assert ask(second, "POST", path, json={}).json()["valid"]
        assert ask({**first, "origin": second["origin"]}, "POST", path, json={}).status_code == 401
        listed = ask(second, "GET", "/v0/executions", "operatorKey").json()
        assert [each["executionId"] for each in listed["items"]] == [decision["executionId"]]


def test_without_dev_keys_a_created_key_opens(pack: Path, tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'own.db'}"
    with served("--pack", str(pack), "--db", db) as (_, ready):
        assert set(ready) == {"origin"}
        done = command("keys", "create", "--db", db, "--pack", "helpdesk", "--jobs", "triage-ticket, other")
        ready["agentKey"] = json.loads(done.stdout)["key"]
        assert ask(ready, "GET", "/v0/jobs").json()[0]["job"] == "triage-ticket"
        made = run("keys", "create", "--db", db, "--pack", "helpdesk", "--operator")
        ready["operatorKey"] = json.loads(made.stdout)["key"]
        assert ask(ready, "GET", "/v0/packs/helpdesk/releases", "operatorKey").status_code == 200
        made = run("keys", "create", "--db", db, "--pack", "helpdesk", "--jobs", "other")
        ready["agentKey"] = json.loads(made.stdout)["key"]
        assert ask(ready, "GET", "/v0/jobs").json() == []
        key_id = ready["agentKey"].split("_")[2]
        for named in (key_id, ready["agentKey"]):
            ended = run("keys", "revoke", named, "--db", db)
            assert (ended.exit_code, json.loads(ended.stdout)) == (0, {"keyId": key_id})
            assert ask(ready, "GET", "/v0/jobs").status_code == 401
        ended = run("keys", "revoke", "none", "--db", db)
        assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)


def test_a_wrong_pack_is_not_served(pack: Path) -> None:
    for text, place in ((HELPDESK.replace("< 100.0", "< '100'"), "13:56"), (HELPDESK.replace("1200", "-1"), "27:55")):
        pack.write_text(text)
        result = run("serve", "--pack", str(pack))
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"{pack}:{place}: ")
        assert not (pack.parent / "pack.db").exists()


def test_a_known_version_with_other_content_is_not_served(pack: Path) -> None:
    LocalAuthority.from_pack(pack, f"sqlite:///{pack.parent / 'pack.db'}").close()
    pack.write_text(HELPDESK.replace("1200", "1300"))
    done = command("serve", "--pack", str(pack))
    assert (done.returncode, done.stdout) == (2, "")
    assert "other content" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_dev_keys_are_for_this_machine_only(pack: Path, host: str) -> None:
    result = run("serve", "--pack", str(pack), "--dev-keys", "--host", host)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "this machine only" in result.stderr


def test_what_cannot_be_served_is_one_line(pack: Path) -> None:
    for arguments in (
        ("--pack", str(pack.parent / "none.yaml")),
        ("--pack", str(pack), "--db", "postgresql://x/y"),
        ("--pack", str(pack), "--host", "not a host"),
    ):
        result = run("serve", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("preaction: ")
        assert result.stderr.count("\n") == 1


def test_pack_check_says_what_a_pack_holds(pack: Path) -> None:
    result = run("pack", "check", str(pack))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "helpdesk 2026-11-03.1 can be released",
        "  triage-ticket: outcomes billing-question, refund-review; outputs billing-team-reply",
    ]


def test_pack_check_names_file_line_and_column(pack: Path) -> None:
    pack.write_text(HELPDESK.replace("from: caller}", "from: lookup}").replace("match: exact", "match: fuzzy"))
    result = run("pack", "check", str(pack))
    assert (result.exit_code, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f"{pack}:6:56: ")
    assert lines[1] == f"{pack}:9:15: `lookup` names what a fact `from: lookup` is read by, and stands only there"
    assert len(lines) == 2


def test_a_key_without_a_place_or_a_job_is_refused(tmp_path: Path) -> None:
    for arguments in (
        ("--db", "sqlite:////none/at/all.db", "--pack", "p"),
        ("--db", f"sqlite:///{tmp_path}/a.db", "--pack", "p", "--jobs", "a,,b"),
        ("--db", f"sqlite:///{tmp_path}/a.db", "--pack", "p", "--jobs", ""),
    ):
        result = run("keys", "create", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("preaction: ")


@pytest.mark.parametrize("arguments", [["serve", "--pack", "p.yaml"], ["pack", "check", "p.yaml"]])
def test_a_missing_extra_is_one_line_that_says_what_to_install(arguments: list[str]) -> None:
    code = f"import sys; sys.modules['starlette'] = sys.modules['re2'] = None; sys.argv[1:] = {arguments!r}\n"
    done = subprocess.run([sys.executable, "-c", code + COMMAND[2]], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "preaction: this command needs more packages: pip install 'preaction[authority]'\n"


def test_a_missing_command_line_extra_is_one_line_too() -> None:
    code = "import sys; sys.modules['typer'] = None\n"
    done = subprocess.run([sys.executable, "-c", code + COMMAND[2]], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "preaction: the command line needs more packages: pip install 'preaction[cli]'\n"


def test_help_needs_no_server() -> None:
    code = (
        "import sys; sys.modules['starlette'] = sys.modules['sqlalchemy'] = None; sys.argv[1:] = ['serve', '--help']\n"
    )
    environment = {**os.environ, "COLUMNS": "100", "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, "-c", code + COMMAND[2]], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0
    assert "--dev-keys" in done.stdout
