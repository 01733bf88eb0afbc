"""`preaction pack diff`: two files, two releases of a database, two of a running authority."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from authority.packs import HELPDESK, INVOICES
from preaction.authority import LocalAuthority
from preaction.cli.app import app

NEXT_STEP = "next_step: Hand the ticket to the refunds lead. Don't reply.\n"
WIDER = HELPDESK.replace("2026-11-03.1", "2026-12-01").replace(
    NEXT_STEP, f"{NEXT_STEP}        outputs: [billing-team-reply]\n"
)
NARROWER = HELPDESK.replace("2026-11-03.1", "2026-12-02").replace("1200", "900")


def run(*arguments: str, **environment: str) -> Any:
    return CliRunner().invoke(app, ["pack", "diff", *arguments], env=environment)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    packs = {"old": HELPDESK, "wider": WIDER, "narrower": NARROWER, "other": INVOICES, "wrong": "pack: 1\n"}
    for name, text in packs.items():
        (tmp_path / f"{name}.yaml").write_text(text, "utf-8")
    return {name: str(tmp_path / f"{name}.yaml") for name in packs}


def test_more_may_be_done_is_exit_code_1(files: dict[str, str]) -> None:
    result = run(files["old"], files["wider"])
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "helpdesk 2026-11-03.1 -> 2026-12-01",
        "triage-ticket:",
        "  + the outcome refund-review now allows the output billing-team-reply",
        "More may be done, or might.",
    ]


def test_no_more_may_be_done_is_exit_code_0(files: dict[str, str]) -> None:
    for new in ("old", "narrower"):
        result = run(files["old"], files[new])
        assert result.exit_code == 0
        assert result.stdout.splitlines()[-1] == "No more may be done than before."


def test_as_json_it_is_what_the_wire_has(files: dict[str, str]) -> None:
    result = run(files["old"], files["wider"], "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "pack": "helpdesk",
        "since": "2026-11-03.1",
        "release": "2026-12-01",
        "mayGrow": True,
        "changes": [
            {
                "job": "triage-ticket",
                "effect": "more",
                "words": "the outcome refund-review now allows the output billing-team-reply",
            }
        ],
    }


def test_what_cannot_be_compared_is_exit_code_2(files: dict[str, str], tmp_path: Path) -> None:
    none = f"sqlite:///{tmp_path / 'none.db'}"
    for arguments, words in [
        ((files["old"], files["other"]), "two packs"),
        ((files["old"], files["wrong"]), f"{files['wrong']}:"),
        ((files["old"], str(tmp_path / "none.yaml")), "can't be read"),
        (("1", "2", "--db", none), "--pack"),
        (("1", "2", "--pack", "helpdesk"), "--pack"),
        (("1", "2", "--db", none, "--origin", "http://127.0.0.1:1", "--pack", "p"), "two places"),
        (("1", "2", "--db", none, "--pack", "p"), "isn't there"),
        (("1", "2", "--origin", "http://127.0.0.1:1", "--pack", "p"), "has no PREACTION_OPERATOR_KEY"),
    ]:
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (2, ""), arguments
        assert words in result.stderr
    assert not (tmp_path / "none.db").exists()


@pytest.fixture
def published(tmp_path: Path) -> Any:
    with LocalAuthority.from_pack(HELPDESK, f"sqlite:///{tmp_path / 'a.db'}") as authority:
        authority.publish(WIDER)
        authority.publish(NARROWER)
        yield authority


def test_releases_of_a_database_are_compared(published: LocalAuthority, tmp_path: Path, files: dict[str, str]) -> None:
    options = ("--db", f"sqlite:///{tmp_path / 'a.db'}", "--pack", "helpdesk")
    result = run("2026-11-03.1", "2026-12-01", *options)
    assert (result.exit_code, result.stdout) == (1, run(files["old"], files["wider"]).stdout)
    result = run("2026-11-03.1", "2026-1", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no release 2026-1 of helpdesk" in result.stderr


def test_releases_of_a_running_authority_are_compared(published: LocalAuthority, files: dict[str, str]) -> None:
    with published.serve() as served:
        options = ("--origin", served.origin, "--pack", "helpdesk")
        key = {"PREACTION_OPERATOR_KEY": published.operator_key}
        result = run("2026-11-03.1", "2026-12-01", *options, **key)
        assert (result.exit_code, result.stdout) == (1, run(files["old"], files["wider"]).stdout)
        assert run("2026-11-03.1", "2026-12-02", *options, **key).exit_code == 0
        for options_, environment, words in [
            (("2026-11-03.1", "2026-1", *options), key, "no such pack or releases"),
            (("1", "../../x", *options), key, "no such pack or releases"),
            (("1", "2", *options), {"PREACTION_OPERATOR_KEY": published.agent_key}, "refused the request: 403"),
        ]:
            result = run(*options_, **environment)
            assert (result.exit_code, result.stdout) == (2, "")
            assert words in result.stderr
    result = run("1", "2", *options, **key)
    assert (result.exit_code, "gave no answer: ConnectError" in result.stderr) == (2, True)
