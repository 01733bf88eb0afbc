"""A help desk's agent on Google ADK, with the gate before the one tool that acts.

    python examples/google_adk/desk.py

With GOOGLE_API_KEY in the environment a real model plays; without, a script.
"""

import asyncio
import os

import scripted
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import InMemoryRunner

from preaction import create_action_gate
from preaction.adapters.google_adk import install
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
model = "gemini-2.5-flash" if "GOOGLE_API_KEY" in os.environ else scripted.Model(model="script")
agent = LlmAgent(name="desk", model=model, tools=[reply, decide, check_output])
app = App(name="desk", root_agent=agent, plugins=[install(agent, gate)])


async def main():
    for event in await InMemoryRunner(app=app).run_debug("Reply on HC-1201: line 3 is the service fee.", quiet=True):
        for response in event.get_function_responses():
            print(f"{response.name}: {response.response.get('error', 'done')}")


if __name__ == "__main__":
    asyncio.run(main())
