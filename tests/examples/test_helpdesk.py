"""The help desk's demo, as `make demo` runs it. One run for all that is asserted: each starts two processes."""

from pathlib import Path

from examples.running import run_example

DENIED = """
    gate  DENIED  outcome_not_allowed, check 5: pack
    told  Denied, nothing was done: the decision on this case does not let this tool do that.
          Next step: Hand the ticket to the refunds lead. Don't reply.
          Escalation refunds-lead
"""

INVENTED = """
            amount         38.0
            charged_twice  true
    told  refused
          /evidence/amount: the authority reads this fact itself; leave it out
          /evidence/charged_twice: the authority reads this fact itself; leave it out
"""


def test_the_demo_ends_with_exactly_what_was_allowed(tmp_path: Path) -> None:
    run = run_example("helpdesk/demo.py", "--db", "desk.db", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.endswith("exactly what was allowed, and nothing else.\n")

    # every verdict is there, with its check, next step and escalation
    assert "21 calls on gated tools: 17 denied, 4 allowed." in run.stdout
    assert run.stdout.count("gate  DENIED  ") == 17
    assert run.stdout.count("gate  ALLOWED  ") == 4
    assert DENIED in run.stdout

    # an amount that the agent invents decides nothing, and neither does another word for the topic
    assert INVENTED in run.stdout
    assert "told  undecided (evidence_changed)" in run.stdout

    # plain text of 100 columns
    assert "\x1b" not in run.stdout
    assert run.stdout.isascii()
    assert max(map(len, run.stdout.splitlines())) <= 100

    # nothing is left but the file that was asked for, and that is never written over
    assert [path.name for path in tmp_path.iterdir()] == ["desk.db"]
    again = run_example("helpdesk/demo.py", "--db", "desk.db", cwd=tmp_path)
    assert again.returncode == 2
    assert "desk.db is there already" in again.stderr
