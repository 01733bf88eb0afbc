"""A help desk's agent and the gate in front of its tools: calls denied, then allowed. `make demo` runs this.

    python examples/helpdesk/demo.py [--db helpdesk.db]

The authority runs as a process of its own; everything goes over HTTP on this machine. Exits with 1 when the gate
answers otherwise than the script says, or when the outbox holds anything but what was allowed.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agent import REPLY, SCRIPT
from desk import HelpDesk
from rules import TOOLS
from runtime import Runtime
from server import Server, preaction_serve
from transcript import Transcript

from preaction import (
    ActionGate,
    Felspar,
    create_action_gate,
    felspar_job_describer,
    felspar_output_check_verifier,
    felspar_verifier,
)
from preaction.errors import AuthorityError

HERE = Path(__file__).parent
JOB = "triage-ticket"
SESSION = "chat-7"
DECIDE, CHECK = "felspar__get_job_decision", "felspar__check_output"

OUTBOX = [
    ("HC-1201", "refund", "accounts@bakery.example", "38.00 paid back"),
    ("HC-1201", "reply", "accounts@bakery.example", REPLY),
]
NOTES = [
    ("HC-1201", "Second charge confirmed in the ledger.", 0),
    ("HC-1202", "240.00 charged twice. For the refunds lead.", 0),
]


class Clock:
    """The gate's clock, which this demo can set ahead."""

    ahead = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


def make_gate(felspar: Felspar, clock: Clock) -> ActionGate:
    return create_action_gate(
        job=JOB,
        decision_tool=DECIDE,
        output_check_tool=CHECK,
        tools=TOOLS,
        verify=felspar_verifier(felspar),
        describe=felspar_job_describer(felspar),
        verify_output_check=felspar_output_check_verifier(felspar),
        unlisted="deny",
        clock=clock,
    )


class Demo:
    """The stage that the script is played on: each step is done for real, and printed."""

    def __init__(self, server: Server, runtime: Runtime, clock: Clock, page: Transcript) -> None:
        self._server = server
        self._runtime = runtime
        self._clock = clock
        self._page = page
        self.chapter = page.chapter
        self.says = page.prose
        self.denied = 0
        self.allowed = 0
        self.surprises: list[str] = []

    def decides(self, what: str, ticket: str, **facts: Any) -> dict[str, Any]:
        decision = self._asks(what, ticket, facts)
        why = f" ({', '.join(decision['problems'])})" if decision["problems"] else ""
        outcome = decision["outcome"]["id"] if decision["outcome"] else decision["status"] + why
        self._page.told(outcome, f"Next step: {decision['nextStep']}")
        return decision

    def invents(self, what: str, ticket: str, **facts: Any) -> None:
        try:
            self._asks(what, ticket, facts)
        except AuthorityError as refused:
            errors = refused.problem["errors"] if refused.problem else []
            self._page.told("refused", *(f"{each['pointer']}: {each['detail']}" for each in errors))
        else:
            self.surprises.append(f"{what} The authority took the agent's word for it.")

    def _asks(self, what: str, ticket: str, facts: dict[str, Any]) -> dict[str, Any]:
        self._page.step(what)
        self._page.call(DECIDE, {"entity_id": ticket, **facts})
        evidence = {name: {"value": value, "source": "classifier"} for name, value in facts.items()}
        return self._runtime.ask(DECIDE, {"job": JOB, "entity_id": ticket, "evidence": evidence})

    def has_checked(self, what: str, decision: dict[str, Any], body: str) -> None:
        self._page.step(what)
        self._page.call(CHECK, {"output": "billing-team-reply", "body": body})
        args = {"execution_id": decision["executionId"], "output": "billing-team-reply", "content": {"body": body}}
        check = self._runtime.ask(CHECK, args)
        findings = [f"{finding['rule']}: {finding['message']}" for finding in check["findings"]]
        self._page.told("passed" if check["passed"] else "not passed", *findings)

    def acts(self, what: str, code: str, tool: str, **args: Any) -> None:
        self._page.step(what)
        self._page.call(tool, args)
        verdict = self._runtime.act(tool, args)
        self._page.verdict(verdict)
        self.allowed += verdict.allow
        self.denied += not verdict.allow
        if verdict.code != code:
            self.surprises.append(f"{what} The script says {code}, the gate said {verdict.code}.")

    @contextmanager
    def two_hours_later(self) -> Iterator[None]:
        """The gate's clock is set ahead for the block. Nothing waits."""
        self._clock.ahead = timedelta(hours=2)
        yield
        self._clock.ahead = timedelta(0)

    def revokes(self, what: str, decision: dict[str, Any]) -> None:
        self._page.step(what)
        self._server.revoke(decision["executionId"])

    def goes_down(self, what: str) -> None:
        self._page.step(what)
        self._server.stop()


def play(desk: HelpDesk, server: Server, felspar: Felspar, page: Transcript) -> Demo:
    clock = Clock()
    gate = make_gate(felspar, clock)
    gate.warm()
    tools = {"helpdesk__reply": desk.reply, "helpdesk__note": desk.note, "helpdesk__refund": desk.refund}
    runtime = Runtime(gate, SESSION, tools, {DECIDE: felspar.decide, CHECK: felspar.check_output})
    demo = Demo(server, runtime, clock, page)
    demo.surprises += [*gate.problems, *gate.warnings]

    page.title("A help desk's agent, and the gate in front of its tools")
    page.prose(
        f"An authority runs as its own process at {server.origin} and decides by examples/helpdesk/pack.yaml. "
        "What was charged it reads from the help desk's database, by examples/helpdesk/lookups.yaml. "
        "Three tools that change the help desk are gated: reply, note and refund. The agent is a script. It does what "
        "models do wrong, then does it right."
    )
    page.legend(
        call="what the agent calls, with its arguments",
        gate="the verdict: with its code and the check that failed, or with the checks that passed",
        told="what the model gets back; a denial stands here word for word",
    )
    for chapter in SCRIPT:
        chapter(demo)
    return demo


def conclude(desk: HelpDesk, demo: Demo, page: Transcript) -> int:
    """Print what left the house, and say whether it is exactly what was allowed."""
    page.chapter("What happened at the help desk")
    page.prose(f"{demo.allowed + demo.denied} calls on gated tools: {demo.denied} denied, {demo.allowed} allowed.")
    outbox = desk.rows("select ticket, kind, sent_to, body from outbox order by number")
    notes = desk.rows("select ticket, text, public from notes order by number")
    page.prose("Outbox:")
    for ticket, kind, sent_to, body in outbox:
        page.thing("out", f"{kind} on {ticket}", {"to": sent_to, "text": body})
    page.prose("Notes:")
    for ticket, text, public in notes:
        page.thing("in", f"{'public' if public else 'internal'} note on {ticket}", {"text": text})
    if outbox != OUTBOX or notes != NOTES:
        demo.surprises.append("The help desk holds something else than what was allowed.")
    if demo.surprises:
        page.prose("Not as expected:")
        for surprise in demo.surprises:
            page.prose(f"- {surprise}")
        return 1
    page.prose("Two messages out and two notes inside: exactly what was allowed, and nothing else.")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="A help desk's agent: calls denied, then allowed.")
    parser.add_argument("--db", type=Path, help="keep the help desk in this file, which must be new")
    path = parser.parse_args().db
    if path is not None and path.exists():
        parser.error(f"{path} is there already")
    for number in (signal.SIGINT, signal.SIGTERM):  # the blocks below end all the same, and with them the server
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    page = Transcript()
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(HelpDesk(path or Path(folder) / "helpdesk.db")) as desk,
        preaction_serve(HERE / "pack.yaml", Path(folder) / "decisions.db", HERE / "lookups.yaml", desk.url) as server,
        Felspar(server.origin, server.agent_key) as felspar,
    ):
        return conclude(desk, play(desk, server, felspar, page), page)


if __name__ == "__main__":
    sys.exit(main())
