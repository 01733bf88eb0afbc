// The help desk's tools as an MCP server with the TypeScript SDK, over stdio.
import { appendFileSync } from "node:fs";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const { AUTHORITY, AUTHORITY_KEY, RAN } = process.env;
const ran = (tool, args) => appendFileSync(RAN, JSON.stringify([tool, args]) + "\n");
const text = (value) => ({ content: [{ type: "text", text: value }] });

async function ask(path, body) {
  const headers = { authorization: `Bearer ${AUTHORITY_KEY}`, "content-type": "application/json" };
  const answer = await fetch(AUTHORITY + path, { method: "POST", headers, body: JSON.stringify(body) });
  return text(await answer.text());
}

const desk = new McpServer({ name: "ts desk", version: "1" }, { instructions: "Answer tickets." });
const ticket = { ticket_id: z.string() };
desk.registerTool("helpdesk_reply", { description: "Send a reply.", inputSchema: { ...ticket, body: z.string() } }, (args) => {
  ran("helpdesk_reply", args);
  return text(`sent on ${args.ticket_id}`);
});
desk.registerTool("get_job_decision", { description: "Decide.", inputSchema: { entity_id: z.string() } }, (args) => {
  ran("get_job_decision", args);
  const value = { topic: "billing", amount: 19, charged_twice: false };
  const evidence = Object.fromEntries(Object.entries(value).map(([name, value]) => [name, { value, source: "human" }]));
  return ask("/v0/jobs/triage-ticket/decisions", { entity_id: args.entity_id, evidence });
});
const checked = { execution_id: z.string(), body: z.string() };
desk.registerTool("check_output", { description: "Check a text.", inputSchema: checked }, (args) => {
  ran("check_output", args);
  const body = { output: "billing-team-reply", content: { body: args.body } };
  return ask(`/v0/executions/${args.execution_id}/output-checks`, body);
});
desk.registerTool("look_up", { description: "Read a ticket.", inputSchema: ticket }, (args) => {
  ran("look_up", args);
  return text(`${args.ticket_id}: a question on an invoice`);
});
desk.registerTool("fail", { description: "Fail.", inputSchema: {} }, () => {
  throw new Error("the desk is closed");
});
desk.registerResource("hours", "desk://hours", { mimeType: "text/plain" }, (uri) => ({
  contents: [{ uri: uri.href, text: "9 to 5" }],
}));
desk.registerPrompt("greet", { argsSchema: { name: z.string() } }, ({ name }) => ({
  messages: [{ role: "user", content: { type: "text", text: `Greet ${name}.` } }],
}));
await desk.connect(new StdioServerTransport());
