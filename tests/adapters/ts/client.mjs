// One session with the TypeScript SDK's client. argv: a JSON {"command": […]} or {"url": "…"}, then the calls as JSON.
// Prints what the client was given, as one line of JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [where, calls] = process.argv.slice(2).map((each) => JSON.parse(each));
const client = new Client({ name: "ts client", version: "1" }, { capabilities: {} });
const transport = where.url
  ? new StreamableHTTPClientTransport(new URL(where.url))
  : new StdioClientTransport({ command: where.command[0], args: where.command.slice(1), env: process.env });
await client.connect(transport);
const seen = [client.getServerVersion(), client.getServerCapabilities(), client.getInstructions()];
const tell = async (promise) => seen.push(await promise.catch((error) => ({ error: error.code, message: error.message })));
await tell(client.listTools());
await tell(client.listResources());
await tell(client.readResource({ uri: "desk://hours" }));
await tell(client.listPrompts());
await tell(client.getPrompt({ name: "greet", arguments: { name: "Ada" } }));
let decided = {};
for (const [name, args] of calls) {
  const filled = args.execution_id === "" ? { ...args, execution_id: decided.executionId ?? "none" } : args;
  const answer = await client.callTool({ name, arguments: filled }).catch((error) => ({ error: error.code, message: error.message }));
  if (name === "get_job_decision" && !answer.isError) {
    decided = answer.structuredContent?.result ?? answer.structuredContent ?? JSON.parse(answer.content[0].text);
  }
  seen.push(answer);
}
await client.close();
console.log(JSON.stringify(seen));
