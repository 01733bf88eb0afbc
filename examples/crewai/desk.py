"""A help desk's agent on CrewAI, with the gate before the one tool that acts.

    python examples/crewai/desk.py

With OPENAI_API_KEY in the environment a real model plays; without, a script.
"""

import os

import scripted  # first: it tells the runtime to send no telemetry
from crewai import Agent
from crewai.tools import tool

from preaction import create_action_gate
from preaction.adapters.crewai import install
from preaction.testing import FakeAuthority

authority, decided = FakeAuthority(), {}  # in its place stands the service that decides


@tool("reply")
def reply(ticket_id: str, body: str) -> str:
    """Send a checked reply on a decided ticket."""
    print(f"sent on {ticket_id}: {body}")
    return "sent"


@tool("decide")
def decide(entity_id: str) -> dict:
    """Get the decision on a ticket."""
    decided.update(authority.decide(entity_id))
    return decided


@tool("check_output")
def check_output(body: str) -> dict:
    """Have the text of a reply checked."""
    return authority.check_output(decided, {"body": body})


rule = {"writes": "billing-team-reply", "entity": {"field": "ticket_id"}, "fields": ["ticket_id", "body"]}
gate = create_action_gate(
    job=authority.job, decision_tool="decide", output_check_tool="check_output",
    tools={"reply": {**rule, "output_check": {"fields": ["body"]}}},
    verify=authority, describe=authority, verify_output_check=authority, clock=authority.clock,
)  # fmt: skip
llm = "gpt-5.1" if "OPENAI_API_KEY" in os.environ else scripted.Model(model="script")
desk = Agent(role="Help desk", goal="Answer tickets.", backstory="", tools=[reply, decide, check_output], llm=llm)

with gate.session("chat-7"):
    answer = install(desk, gate).kickoff("Reply on HC-1201: line 3 is the service fee.")
for message in answer.messages:
    if message["role"] == "tool":
        print(f"told: {message['content']}")
