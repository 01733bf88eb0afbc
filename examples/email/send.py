"""Company mail: the case is the company that the recipients belong to. Everything runs in this process.

    python examples/email/send.py          real recipients
    python examples/email/send.py --test   test mode: test recipients only, the company stands in the subject

Exits with 1 when the gate answers otherwise than expected, or when the outbox holds anything else.
"""

import argparse
import sys
import textwrap
from pathlib import Path

from preaction import (
    ActionDenied,
    create_action_gate,
    felspar_job_describer,
    felspar_output_check_verifier,
    felspar_verifier,
)
from preaction.authority import LocalAuthority

PACK = Path(__file__).with_name("pack.yaml")
JOB = "qualify-company"
TOOLS = {
    "mail__send": {
        "writes": "offer-mail",
        "fields": ["to", "cc", "bcc", "subject", "body"],  # no `entity`: the case comes from the recipients
        "output_check": {"fields": ["subject", "body"]},
    },
}
SUBJECT, BODY = "Your offer, bakery.example", "The offer you asked for is attached to your account."
MAIL = {"subject": SUBJECT, "body": BODY}

# what is tried, the code of the verdict, the recipients
REAL = [
    ("an address at the company", "allowed", {"to": "orders@bakery.example"}),
    ("capitals, and a subdomain of it", "allowed", {"to": ["Orders@Shop.Bakery.Example"]}),
    ("a stranger hidden in bcc", "recipient_not_allowed", {"to": "orders@bakery.example", "bcc": ["me@rival.example"]}),
    ("two decided companies", "recipient_not_allowed", {"to": ["orders@bakery.example", "office@harbour.example"]}),
    ("a company that nothing was decided on", "recipient_not_allowed", {"to": "office@museum.example"}),
    ("a name that only ends the same way", "recipient_not_allowed", {"to": "orders@notbakery.example"}),
    ("an address at a shared provider", "not_a_company", {"to": "shop@gmail.com"}),
    ("two addresses in one text", "recipient_not_plain", {"to": "orders@bakery.example, me@rival.example"}),
    ("an address with a display name", "recipient_not_plain", {"to": "Bakery <orders@bakery.example>"}),
    ("nobody", "case_unclear", {"to": []}),
    ("a company that is to be left alone", "outcome_not_allowed", {"to": "office@library.example"}),
]
TESTER = "tester@desk.example"
TEST = [
    ("a test recipient", "allowed", {"to": TESTER}),
    ("the company itself", "recipient_not_allowed", {"to": "orders@bakery.example"}),
    ("a hidden recipient besides", "recipient_not_allowed", {"to": TESTER, "bcc": "orders@bakery.example"}),
    ("no company in the subject", "subject_unclear", {"to": TESTER, "subject": "Your offer"}),
    (
        "two companies in the subject",
        "subject_unclear",
        {"to": TESTER, "subject": "bakery.example and harbour.example"},
    ),
]


class Mailer:
    """Sends nothing: it puts what it would send into a list."""

    def __init__(self) -> None:
        self.outbox: list[tuple[str, ...]] = []

    def send(self, to: str | list[str], subject: str, body: str, cc: object = None, bcc: object = None) -> None:
        self.outbox.append((to,) if isinstance(to, str) else tuple(to))


def main() -> int:
    parser = argparse.ArgumentParser(description="Company mail behind a gate.")
    parser.add_argument("--test", action="store_true", help="test mode: only test recipients, company in the subject")
    test_mode = parser.parse_args().test
    mailer = Mailer()
    expected = True

    with LocalAuthority.from_pack(PACK) as authority:
        gate = create_action_gate(
            job=JOB,
            tools=TOOLS,
            verify=felspar_verifier(authority),
            describe=felspar_job_describer(authority),
            verify_output_check=felspar_output_check_verifier(authority),
            test_recipients=[TESTER] if test_mode else None,
            unlisted="deny",
        )
        send = gate.wrap("mail__send", mailer.send)
        with gate.session("campaign") as session:
            # gmail.com is decided on by mistake. No gate takes it for a company.
            wanted = {"bakery.example": True, "harbour.example": True, "library.example": False, "gmail.com": True}
            for company, asked_for_it in wanted.items():
                evidence = {"asked_for_it": {"value": asked_for_it, "source": "form"}}
                decision = authority.decide(JOB, entity_id=company, evidence=evidence)
                gate.decisions.record(session, result=decision)
                if asked_for_it:
                    check = authority.check_output(decision["executionId"], output="offer-mail", content=MAIL)
                    gate.output_checks.record(session, check)
                print(f"decided on {company}: {decision['outcome']['id']}")

            for what, code, call in TEST if test_mode else REAL:
                try:
                    send(**{**MAIL, **call})
                except ActionDenied as denied:
                    got, text = denied.verdict.code, str(denied)
                else:
                    got, text = "allowed", "Sent."
                expected = expected and got == code
                print(f"\nto {what}: {got}")
                for line in text.splitlines():
                    print(textwrap.fill(line, 100, initial_indent="    ", subsequent_indent="    "))

    sent = [(TESTER,)] if test_mode else [("orders@bakery.example",), ("Orders@Shop.Bakery.Example",)]
    print("\nOutbox:", *(", ".join(to) for to in mailer.outbox), sep="\n    ")
    return 0 if expected and mailer.outbox == sent else 1


if __name__ == "__main__":
    sys.exit(main())
