"""`preaction init`: what it writes passes lint, and runs."""

import io
import json
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from typer.testing import CliRunner

from preaction.authority import LocalAuthority
from preaction.cli.app import app
from preaction.rules_file import json_schema, read_rules_file

FILES = ["example.py", "gate.schema.json", "gate.yaml", "pack.yaml"]
DENIED = 'Denied, nothing was done: no decision was made in this session on "A-1"; '
DENIED += "get a decision on that case first, then call again."


def run(*words: object, stdin: str | None = None) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(map(str, words)), input=stdin)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def example(folder: Path, *, as_users_do: bool = False) -> list[str]:
    """What the example prints; in a process of its own, or in this one, which has everything imported."""
    if as_users_do:
        done = subprocess.run([sys.executable, "example.py"], cwd=folder, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.splitlines()
    printed = io.StringIO()
    with redirect_stdout(printed):
        runpy.run_path(str(folder / "example.py"), run_name="__main__")
    return printed.getvalue().splitlines()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


MAIL = ("--job", "yes", "--tool", "mcp__mail__send", "--case-field", "case", "--text-field", "subject", "--text-field",
        "body", "--field", "from", "--output", "null", "--agent-key-env", "MAIL_KEY")  # fmt: skip
ACTS = ("--outcome", "refund-due", "--tool", "refund", "--job", "1.5")


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        ((), "done: A-1 Hello."),
        (MAIL, "done: {'case': 'A-1', 'subject': 'Hello.', 'body': 'Hello.', 'from': ''}"),
        (ACTS, "done: A-1"),
    ],
    ids=["as proposed", "names that are words of YAML and Python", "outcomes"],
)
def test_what_it_writes_passes_lint_and_runs(
    words: tuple[str, ...], sent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new"
    code, out, err = run("init", folder, "--yes", *words)
    assert (code, err, names(folder)) == (0, "", FILES)
    assert example(folder, as_users_do=not words) == [DENIED, sent]
    assert json.loads((folder / "gate.schema.json").read_text()) == json_schema()
    assert (folder / "gate.yaml").read_text().startswith("# yaml-language-server: $schema=gate.schema.json\n")
    with LocalAuthority.from_pack(folder / "pack.yaml") as local, local.serve() as served:
        key = read_rules_file(folder / "gate.yaml").given.agent_key_env
        monkeypatch.setenv(str(key), local.agent_key)
        assert run("init", folder, "--yes", "--force", "--origin", served.origin, *words)[0] == 0
        code, out, err = run("lint", folder / "gate.yaml", "--strict")
    assert (code, out.splitlines()[0], err) == (0, "nothing is wrong", "")


def test_without_a_pack_the_example_shows_the_denial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, _ = run("init", tmp_path, "--yes", "--no-pack")
    assert (code, names(tmp_path)) == (0, ["example.py", "gate.schema.json", "gate.yaml"])
    monkeypatch.setenv("PREACTION_AGENT_KEY", "key")
    assert example(tmp_path) == [DENIED]


def test_nothing_is_overwritten_unless_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "pack.yaml").write_text("mine")
    code, out, err = run("init", tmp_path, "--yes")
    assert (code, out) == (2, "")
    assert err == "preaction: pack.yaml: there already, and nothing was written; --force overwrites\n"
    assert names(tmp_path) == ["pack.yaml"]
    assert (tmp_path / "pack.yaml").read_text() == "mine"
    code, out, _ = run("init", tmp_path, "--yes", "--force")
    assert code == 0
    assert f"overwrote {tmp_path / 'pack.yaml'}" in out.splitlines()
    assert f"wrote {tmp_path / 'gate.yaml'}" in out.splitlines()


def test_a_link_that_leads_nowhere_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").symlink_to(tmp_path / "elsewhere")
    code, out, err = run("init", tmp_path, "--yes")
    assert (code, out) == (2, "")
    assert "it can't be written (File exists)" in err
    assert not (tmp_path / "elsewhere").exists()


def test_weak_rules_are_written_and_told(tmp_path: Path) -> None:
    code, out, _ = run("init", tmp_path, "--yes", "--field", "to")
    assert code == 0
    assert "look at gate.yaml:8:3: the case comes from a field, so its recipients can be anyone" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--origin", "http://desk.example"],
            "preaction: the origin of the authority: 'http://desk.example' can't be that",
        ),
        (["--tool", "send reply"], "preaction: the tool that acts: 'send reply' can't be that"),
        (["--tool", "sénd"], "preaction: the tool that acts: 's\\xe9nd' can't be that"),
        (["--case-field", "a.b"], "preaction: the field that names the case: 'a.b' can't be that"),
        (["--text-field", "ticket_id"], "preaction: 'ticket_id' names the case and can't be the text as well"),
        (["--agent-key-env", "sk-secret"], "preaction: the environment variable with the agent key: "),
        (["--outcome", "a", "--output", "b"], "preaction: --outcome is for a tool without a text to check"),
        (["--tool", "get_job_decision"], "gate.yaml:5:16: 'get_job_decision' can't be gated by the decisions"),
    ],
)
def test_what_cannot_be_right_is_refused_before_anything_is_written(
    words: list[str], says: str, tmp_path: Path
) -> None:
    code, out, err = run("init", tmp_path / "new", "--yes", *words)
    assert (code, out) == (2, "")
    assert err.startswith(says), err
    assert not (tmp_path / "new").exists()


def test_nobody_to_ask_is_an_error(tmp_path: Path) -> None:
    code, out, err = run("init", tmp_path / "new", stdin="")
    assert (code, out) == (2, "")
    assert err.startswith("preaction: there is nobody to ask; give --yes")


def test_it_asks_again_for_what_cannot_be_and_before_it_overwrites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("preaction.cli.init._somebody_there", lambda: True)
    typed = ["", "sk secret", "DESK_KEY", "", "reply to", "reply", "", "subject, bo dy", "subject, body", "-", ""]
    code, out, err = run("init", tmp_path, stdin="\n".join([*typed, ""]))
    assert (code, names(tmp_path)) == (0, FILES)
    assert err.count("can't be that") == 3
    rules = read_rules_file(tmp_path / "gate.yaml").given
    assert (rules.agent_key_env, list(rules.tools)) == ("DESK_KEY", ["reply"])
    assert rules.tools["reply"].fields == ("ticket_id", "subject", "body")
    before = (tmp_path / "gate.yaml").read_text()
    code, out, err = run("init", tmp_path, stdin="\n" * 8 + "n\n")
    assert (code, "wrote" in out, (tmp_path / "gate.yaml").read_text()) == (2, False, before)
    assert "there already. Overwrite? [y/N]" in err
    code, out, _ = run("init", tmp_path, stdin="\n" * 8 + "y\n")
    assert (code, "send_reply" in (tmp_path / "gate.yaml").read_text()) == (0, True)


def test_somebody_who_leaves_gets_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("preaction.cli.init._somebody_there", lambda: True)
    code, _, err = run("init", tmp_path / "new", stdin="\n")
    assert (code, (tmp_path / "new").exists()) == (2, False)
    assert err.endswith("\npreaction: nothing was written\n")
