"""A help desk's agent on the Claude Agent SDK, with the gate before the one tool that acts.

    python examples/claude_agent_sdk/desk.py

With ANTHROPIC_API_KEY in the environment a real model plays; without, a script answers on the loopback.
"""

import asyncio
import json
import os

import scripted
from claude_agent_sdk import ClaudeAgentOptions, UserMessage, create_sdk_mcp_server, query, tool

from preaction import create_action_gate
from preaction.adapters.claude_agent_sdk import install
from preaction.testing import FakeAuthority

authority, decided = FakeAuthority(), {}  # in its place stands the service that decides


@tool("reply", "Send a checked reply on a decided ticket.", {"ticket_id": str, "body": str})
async def reply(args):
    print(f"sent on {args['ticket_id']}: {args['body']}")
    return {"content": [{"type": "text", "text": "sent"}]}


@tool("decide", "Get the decision on a ticket.", {"entity_id": str})
async def decide(args):
    decided.update(authority.decide(args["entity_id"]))
    return {"content": [{"type": "text", "text": json.dumps(decided)}]}


@tool("check_output", "Have the text of a reply checked.", {"body": str})
async def check_output(args):
    return {"content": [{"type": "text", "text": json.dumps(authority.check_output(decided, args))}]}


rule = {"writes": "billing-team-reply", "entity": {"field": "ticket_id"}, "fields": ["ticket_id", "body"]}
gate = create_action_gate(
    job=authority.job, decision_tool="desk__decide", output_check_tool="desk__check_output",
    tools={"desk__reply": {**rule, "output_check": {"fields": ["body"]}}},
    verify=authority, describe=authority, verify_output_check=authority, clock=authority.clock,
)  # fmt: skip
desk = create_sdk_mcp_server("desk", tools=[reply, decide, check_output])
options = install(ClaudeAgentOptions(mcp_servers={"desk": desk}, allowed_tools=["mcp__desk"], tools=[]), gate)


async def main():
    async for message in query(prompt="Reply on HC-1201: line 3 is the service fee.", options=options):
        for block in message.content if isinstance(message, UserMessage) else ():
            if getattr(block, "is_error", False):
                print(block.content)


if __name__ == "__main__":
    if "ANTHROPIC_API_KEY" not in os.environ:
        scripted.play(options)
    asyncio.run(main())
