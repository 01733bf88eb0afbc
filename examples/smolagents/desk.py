"""A help desk's agent on smolagents, with the gate before the one tool that acts.

    python examples/smolagents/desk.py

With OPENAI_API_KEY in the environment, and smolagents[openai] installed, a real model plays; without, a script.
"""

import os

import scripted
from smolagents import OpenAIServerModel, ToolCallingAgent, tool

from preaction import create_action_gate
from preaction.adapters.smolagents import install
from preaction.testing import FakeAuthority

authority, decided = FakeAuthority(), {}  # in its place stands the service that decides


@tool
def reply(ticket_id: str, body: str) -> str:
    """Send a checked reply on a decided ticket.
    Args:
        ticket_id: the ticket
        body: the text"""
    print(f"sent on {ticket_id}: {body}")
    return "sent"


@tool
def decide(entity_id: str) -> dict:
    """Get the decision on a ticket.
    Args:
        entity_id: the ticket"""
    decided.update(authority.decide(entity_id))
    return decided


@tool
def check_output(body: str) -> dict:
    """Have the text of a reply checked.
    Args:
        body: the text"""
    return authority.check_output(decided, {"body": body})


rule = {"writes": "billing-team-reply", "entity": {"field": "ticket_id"}, "fields": ["ticket_id", "body"]}
gate = create_action_gate(
    job=authority.job, decision_tool="decide", output_check_tool="check_output",
    tools={"reply": {**rule, "output_check": {"fields": ["body"]}}},
    verify=authority, describe=authority, verify_output_check=authority, clock=authority.clock,
)  # fmt: skip

model = OpenAIServerModel("gpt-5-mini") if "OPENAI_API_KEY" in os.environ else scripted.ScriptedModel()
show = [lambda step, agent: print(f"told: {step.observations}")]
agent = ToolCallingAgent([reply, decide, check_output], model, verbosity_level=-1, step_callbacks=show)
install(agent, gate)
with gate.session("chat-7"):
    agent.run("Reply on HC-1201: line 3 is the service fee.")
