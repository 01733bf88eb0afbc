"""A help desk's agent on Microsoft Agent Framework, with the gate before the one tool that acts.

    python examples/agent_framework/desk.py

With OPENAI_API_KEY in the environment (and `agent-framework-openai` installed) a real model plays; without, a script.
"""

import asyncio
import os

from agent_framework import Agent

from preaction import create_action_gate
from preaction.adapters.agent_framework import install
from preaction.testing import FakeAuthority

if "OPENAI_API_KEY" in os.environ:
    from agent_framework.openai import OpenAIChatClient as Client
else:
    from scripted import Client

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
agent = Agent(client=Client(), name="desk", tools=[reply, decide, check_output])
install(agent, gate)


async def main():
    said = await agent.run("Reply on HC-1201: line 3 is the service fee.", session=agent.create_session())
    contents = [content for message in said.messages for content in message.contents]
    print("first told:", next(content.result for content in contents if content.type == "function_result"))


if __name__ == "__main__":
    asyncio.run(main())
