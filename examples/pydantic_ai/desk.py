"""A help desk's agent on Pydantic AI, with the gate before the one tool that acts.

    python examples/pydantic_ai/desk.py

With OPENAI_API_KEY in the environment (and `pydantic-ai-slim[openai]`) a real model plays; without, a script.
"""

import os

import scripted
from pydantic_ai import Agent

from preaction import create_action_gate
from preaction.adapters.pydantic_ai import Gated
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
model = "openai:gpt-5-mini" if "OPENAI_API_KEY" in os.environ else scripted.model
agent = Agent(model, tools=[reply, decide, check_output], capabilities=[Gated(gate)])

if __name__ == "__main__":
    prompt = "Reply on HC-1201: line 3 is the service fee."
    result = agent.run_sync(prompt, conversation_id="chat-7")  # the session
    for message in result.all_messages():
        for part in message.parts:
            if part.part_kind == "tool-return" and part.tool_name == "reply":
                print(f"told: {part.content}")
