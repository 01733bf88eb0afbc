// One program, two parts, with the TypeScript SDK's tasks (2025-11-25):
//   node tasks.mjs                    the help desk, whose decision and reply run as tasks only
//   node tasks.mjs '{"command": […]}' a client that decides and replies; prints how each call ended, as JSON
import { appendFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const { AUTHORITY, AUTHORITY_KEY, RAN } = process.env;

async function ask(path, body) {
  const headers = { authorization: `Bearer ${AUTHORITY_KEY}`, "content-type": "application/json" };
  const answer = await fetch(AUTHORITY + path, { method: "POST", headers, body: JSON.stringify(body) });
  return await answer.text();
}

async function serve() {
  const capabilities = { tasks: { requests: { tools: { call: {} } } } };
  const desk = new McpServer({ name: "task desk", version: "1" }, { capabilities, taskStore: new InMemoryTaskStore() });
  const later = (name, inputSchema, run) =>
    desk.experimental.tasks.registerToolTask(name, { inputSchema, execution: { taskSupport: "required" } }, {
      createTask: async (args, { taskStore }) => {
        const task = await taskStore.createTask({ ttl: 60_000, pollInterval: 50 });
        appendFileSync(RAN, JSON.stringify([name, args]) + "\n");
        run(args).then((text) => taskStore.storeTaskResult(task.taskId, "completed", { content: [{ type: "text", text }] }));
        return { task };
      },
      getTask: (_args, { taskId, taskStore }) => taskStore.getTask(taskId),
      getTaskResult: (_args, { taskId, taskStore }) => taskStore.getTaskResult(taskId),
    });
  later("get_job_decision", { entity_id: z.string() }, ({ entity_id }) => {
    const value = { topic: "billing", amount: 19, charged_twice: false };
    const evidence = Object.fromEntries(Object.entries(value).map(([name, value]) => [name, { value, source: "human" }]));
    return ask("/v0/jobs/triage-ticket/decisions", { entity_id, evidence });
  });
  later("check_output", { execution_id: z.string(), body: z.string() }, ({ execution_id, body }) =>
    ask(`/v0/executions/${execution_id}/output-checks`, { output: "billing-team-reply", content: { body } }),
  );
  later("helpdesk_reply", { ticket_id: z.string(), body: z.string() }, async ({ ticket_id }) => `sent on ${ticket_id}`);
  await desk.connect(new StdioServerTransport());
}

async function play({ command }, body) {
  const client = new Client({ name: "ts client", version: "1" }, { capabilities: {} });
  await client.connect(new StdioClientTransport({ command: command[0], args: command.slice(1), env: process.env }));
  await client.listTools();
  const seen = [];
  const call = async (name, args) => {
    let last;
    for await (last of client.experimental.tasks.callToolStream({ name, arguments: args })) continue;
    seen.push(last.type === "result" ? last.result.content[0].text : last.error.message);
    return seen.at(-1);
  };
  await call("helpdesk_reply", { ticket_id: "HC-1201", body });
  const { executionId } = JSON.parse(await call("get_job_decision", { entity_id: "HC-1201" }));
  await call("check_output", { execution_id: executionId, body });
  await call("helpdesk_reply", { ticket_id: "HC-1201", body });
  await call("helpdesk_reply", { ticket_id: "HC-9", body });
  await client.close();
  console.log(JSON.stringify(seen));
}

await (process.argv.length > 2 ? play(JSON.parse(process.argv[2]), process.argv[3]) : serve());
