"""The nightly job, one after the other and all at once."""

import pytest

from examples.running import run_example


@pytest.mark.parametrize("options", [[], ["--async"]], ids=["one after the other", "all at once"])
def test_only_what_was_decided_is_renewed(options: list[str]) -> None:
    run = run_example("nightly_job/night.py", *options)
    assert (run.returncode, run.stderr) == (0, "")
    assert "C-103: stale\n" in run.stdout
    assert "C-104: undecided\n" in run.stdout
    assert "    Escalation account-desk\n" in run.stdout
    assert run.stdout.endswith("\nrenewed: C-101, C-102; left as they were: 4\n")


def test_a_decision_is_acted_on_once() -> None:
    assert run_example("nightly_job/night.py").stdout.count("once more: already_used\n") == 2
