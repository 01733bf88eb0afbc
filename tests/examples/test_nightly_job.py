"""The nightly job, one after the other and all at once."""

import pytest

from examples.running import run_example


@pytest.mark.parametrize(("options", "refused"), [([], 2), (["--async"], 0)], ids=["in turn", "all at once"])
def test_only_what_was_decided_is_renewed_and_only_once(options: list[str], refused: int) -> None:
    run = run_example("nightly_job/night.py", *options)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.count("once more: already_used\n") == refused
    assert "C-103: stale\n" in run.stdout
    assert "C-104: undecided\n" in run.stdout
    assert "    Escalation account-desk\n" in run.stdout
    assert run.stdout.endswith("\nrenewed: C-101, C-102; left as they were: 4\n")
