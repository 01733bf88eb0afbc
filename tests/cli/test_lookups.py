"""`--lookups`: what the facts of a pack are read by, from the command line."""

from pathlib import Path

import httpx
import pytest

from authority.looking import LOOKED_UP, QUERY, TOPIC, desk
from cli.test_commands import run, served

LOOKUPS = f"lookups:\n  ledger:\n    sql:\n      url_env: DESK_URL\n      query: {QUERY}\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """A pack, and the lookups that it names, over a database with one ticket."""
    pack, lookups = tmp_path / "pack.yaml", tmp_path / "lookups.yaml"
    pack.write_text(LOOKED_UP)
    lookups.write_text(LOOKUPS)
    monkeypatch.setenv("DESK_URL", desk(tmp_path / "desk.db", ("HC-1", 38.0, 1)))
    return str(pack), lookups


def test_a_served_pack_decides_on_what_is_looked_up(files: tuple[str, Path]) -> None:
    pack, lookups = files
    with served("--pack", pack, "--lookups", str(lookups), "--dev-keys") as (_, ready):
        answer = httpx.post(
            f"{ready['origin']}/v0/jobs/refund/decisions",
            headers={"Authorization": f"Bearer {ready['agentKey']}"},
            json={"entity_id": "HC-1", "evidence": TOPIC},
            trust_env=False,
            timeout=30,
        )
    assert answer.json()["outcome"]["id"] == "refund"


def test_without_them_the_pack_is_not_served(files: tuple[str, Path]) -> None:
    pack, _ = files
    result = run("serve", "--pack", pack)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{pack}:9:64: no lookup 'ledger' is configured" in result.stderr.splitlines()
    assert run("pack", "check", pack).exit_code == 0  # there it is left open what will be configured


def test_a_pack_is_checked_against_them(files: tuple[str, Path]) -> None:
    pack, lookups = files
    assert run("pack", "check", pack, "--lookups", str(lookups)).exit_code == 0
    lookups.write_text(LOOKUPS.replace("ledger", "ledgr"))
    result = run("pack", "check", pack, "--lookups", str(lookups))
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, f"{pack}:9:64: no lookup 'ledger' is configured")


@pytest.mark.parametrize("arguments", [("serve", "--pack"), ("pack", "check")])
def test_lookups_that_cannot_be_are_told_with_their_place(files: tuple[str, Path], arguments: tuple[str, ...]) -> None:
    pack, lookups = files
    lookups.write_text(LOOKUPS.replace("SELECT", "DELETE").replace("DESK_URL", "NO_SUCH"))
    result = run(*arguments, pack, "--lookups", str(lookups))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"{lookups}:4:16: url_env: the environment variable NO_SUCH isn't set\n"
    missing = "preaction: the lookups none.yaml can't be read: No such file or directory\n"
    assert run(*arguments, pack, "--lookups", "none.yaml").stderr == missing
