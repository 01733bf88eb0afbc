"""The company mail example, in both modes."""

from examples.running import run_example


def test_real_recipients() -> None:
    run = run_example("email/send.py")
    assert (run.returncode, run.stderr) == (0, "")
    assert "to a stranger hidden in bcc: recipient_not_allowed" in run.stdout
    assert "to an address at a shared provider: not_a_company" in run.stdout
    assert run.stdout.endswith("Outbox:\n    orders@bakery.example\n    Orders@Shop.Bakery.Example\n")


def test_test_mode() -> None:
    run = run_example("email/send.py", "--test")
    assert (run.returncode, run.stderr) == (0, "")
    assert "to the company itself: recipient_not_allowed" in run.stdout
    assert "to no company in the subject: subject_unclear" in run.stdout
    assert run.stdout.endswith("Outbox:\n    tester@desk.example\n")
