"""A help desk's agent on LangChain, with the gate before the one tool that acts.

    python examples/langchain/desk.py

With OPENAI_API_KEY in the environment, and langchain-openai installed, a real model plays; without, a script.
"""

import os

import scripted
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage

from preaction import create_action_gate
from preaction.adapters.langchain import install
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
model = "openai:gpt-4.1" if "OPENAI_API_KEY" in os.environ else scripted.Model()
agent = install(create_agent(model, [reply, decide, check_output]), gate)

if __name__ == "__main__":
    chat = {"configurable": {"thread_id": "chat-7"}}  # the session
    said = agent.invoke({"messages": [("user", "Reply on HC-1201: line 3 is the service fee.")]}, chat)
    for message in said["messages"]:
        if isinstance(message, ToolMessage):
            print(f"told: {message.content}")
