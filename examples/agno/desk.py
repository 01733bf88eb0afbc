"""A help desk's agent on Agno, with the gate before the one tool that acts.

    python examples/agno/desk.py

With ANTHROPIC_API_KEY in the environment (and `anthropic` installed) a real model plays; without, a script.
"""

import os

import scripted
from agno.agent import Agent

from preaction import create_action_gate
from preaction.adapters.agno import install
from preaction.testing import FakeAuthority

authority, decided = FakeAuthority(), {}  # in its place stands the service that decides


def reply(ticket_id: str, body: str) -> str:
    """Send a checked reply on a decided ticket."""
    print(f"sent on {ticket_id}: {body}")
    return "sent"


def decide(entity_id: str) -> dict:
    """Get the decision on a ticket."""
    decided.update(authority.decide(entity_id))
    return decided


def check_output(body: str) -> dict:
    """Have the text of a reply checked."""
    return authority.check_output(decided, {"body": body})


rule = {"writes": "billing-team-reply", "entity": {"field": "ticket_id"}, "fields": ["ticket_id", "body"]}
gate = create_action_gate(
    job=authority.job, decision_tool="decide", output_check_tool="check_output",
    tools={"reply": {**rule, "output_check": {"fields": ["body"]}}},
    verify=authority, describe=authority, verify_output_check=authority, clock=authority.clock,
)  # fmt: skip
model = scripted.Script()
if "ANTHROPIC_API_KEY" in os.environ:
    from agno.models.anthropic import Claude

    model = Claude(id="claude-sonnet-4-5")
agent = Agent(model=model, tools=[reply, decide, check_output], telemetry=False)
install(agent, gate)

if __name__ == "__main__":
    run = agent.run("Reply on HC-1201: line 3 is the service fee.", session_id="chat-7")
    print("first told:", next(message.content for message in run.messages if message.role == "tool"))
