"""A help desk's agent on the OpenAI Agents SDK, with the gate before the one tool that acts.

    python examples/openai_agents/desk.py

With OPENAI_API_KEY in the environment a real model plays; without, a script.
"""

import os

import scripted
from agents import Agent, RunConfig, Runner, function_tool, set_tracing_disabled

from preaction import create_action_gate
from preaction.adapters.openai_agents import install
from preaction.testing import FakeAuthority

authority, decided = FakeAuthority(), {}  # in its place stands the service that decides


@function_tool
def reply(ticket_id: str, body: str) -> str:
    """Send a checked reply on a decided ticket."""
    print(f"sent on {ticket_id}: {body}")
    return "sent"


@function_tool
def decide(entity_id: str) -> dict:
    """Get the decision on a ticket."""
    decided.update(authority.decide(entity_id))
    return decided


@function_tool
def check_output(body: str) -> dict:
    """Have the text of a reply checked."""
    return authority.check_output(decided, {"body": body})


rule = {"writes": "billing-team-reply", "entity": {"field": "ticket_id"}, "fields": ["ticket_id", "body"]}
gate = create_action_gate(
    job=authority.job, decision_tool="decide", output_check_tool="check_output",
    tools={"reply": {**rule, "output_check": {"fields": ["body"]}}},
    verify=authority, describe=authority, verify_output_check=authority, clock=authority.clock,
)  # fmt: skip
real = "OPENAI_API_KEY" in os.environ
agent = Agent(name="desk", model=None if real else scripted.Model(), tools=[reply, decide, check_output])
install(agent, gate)

if __name__ == "__main__":
    set_tracing_disabled(not real)
    chat = RunConfig(group_id="chat-7")  # the session
    result = Runner.run_sync(agent, "Reply on HC-1201: line 3 is the service fee.", run_config=chat)
    for item in result.new_items:
        if item.type == "tool_call_output_item" and isinstance(item.output, str):
            print(f"told: {item.output}")
