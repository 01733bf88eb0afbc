"""A help desk's agent on LlamaIndex, with the gate before the one tool that acts.

    python examples/llama_index/desk.py

With OPENAI_API_KEY in the environment, and llama-index-llms-openai installed, a real model plays; without, a script.
"""

import asyncio
import os

import scripted
from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.llms.utils import resolve_llm

from preaction import create_action_gate
from preaction.adapters.llama_index import install
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


llm = resolve_llm("default") if "OPENAI_API_KEY" in os.environ else scripted.Model()


async def main():
    agent = install(FunctionAgent(tools=[reply, decide, check_output], llm=llm), gate)
    with gate.session("chat-7"):
        run = agent.run(user_msg="Reply on HC-1201: line 3 is the service fee.")
        async for event in run.stream_events():
            if isinstance(event, ToolCallResult):
                print(f"told: {event.tool_output.content}")


asyncio.run(main())
