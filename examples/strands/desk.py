"""A help desk's agent on Strands, with the gate before the one tool that acts.

    python examples/strands/desk.py

With ANTHROPIC_API_KEY in the environment (and `anthropic` installed) a real model plays; without, a script.
"""

import os

import scripted
from strands import Agent, tool

from preaction import create_action_gate
from preaction.adapters.strands import install
from preaction.testing import FakeAuthority

authority, decided = FakeAuthority(), {}  # in its place stands the service that decides


@tool
def reply(ticket_id: str, body: str) -> str:
    """Send a checked reply on a decided ticket."""
    print(f"sent on {ticket_id}: {body}")
    return "sent"


@tool
def decide(entity_id: str) -> dict:
    """Get the decision on a ticket."""
    decided.update(authority.decide(entity_id))
    return decided


@tool
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
    from strands.models.anthropic import AnthropicModel

    model = AnthropicModel(model_id="claude-sonnet-4-5", max_tokens=1000)
agent = Agent(model=model, tools=[reply, decide, check_output], callback_handler=None)
install(agent, gate, session=lambda state: state["chat"])

if __name__ == "__main__":
    agent("Reply on HC-1201: line 3 is the service fee.", invocation_state={"chat": "chat-7"})
    blocks = [block for message in agent.messages for block in message["content"] if "toolResult" in block]
    print("first told:", blocks[0]["toolResult"]["content"][0]["text"])
