"""A model that is a script, behind the Messages API on the loopback: it replies too early, then does it right."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY = "Hello, line 3 is the service fee."
REPLY = ("reply", {"ticket_id": "HC-1201", "body": BODY})
CALLS = [REPLY, ("decide", {"entity_id": "HC-1201"}), ("check_output", {"body": BODY}), REPLY]


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        done = json.dumps(request.get("messages", [])).count('"tool_result"')
        acts = bool(request.get("tools")) and done < len(CALLS)
        name, arguments = CALLS[done] if acts else ("", {})
        block = {"type": "tool_use", "id": f"toolu_{done}", "name": f"mcp__desk__{name}", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        if not acts:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}
        message = {"id": f"msg_{done}", "type": "message", "role": "assistant", "model": "script", "content": []}
        message |= {"stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        ending = {"stop_reason": "tool_use" if acts else "end_turn", "stop_sequence": None}
        events = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def play(options):
    """Let `options` talk to the script."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options.env.update(
        ANTHROPIC_BASE_URL=f"http://127.0.0.1:{server.server_port}",
        ANTHROPIC_API_KEY="sk-ant-dummy",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
    )
