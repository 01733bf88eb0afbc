"""A scripted model behind a loopback stub of the Messages API, for runtimes that bring their own client.

`Stub(turns)` answers each request that offers one of the desk's tools with the next turn; a request whose first message
holds one of `others`' keys is answered from that script instead (a sub-agent). `told` are the tool results that came
back, by the id of their call.
"""

import json
import threading
import uuid
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from adapters.contract import ToolCall, as_json

Turns = Sequence[Sequence[ToolCall]]


class Stub:
    def __init__(self, turns: Turns, others: Mapping[str, Turns] | None = None, *, offered: str = "mcp__") -> None:
        self.scripts: dict[str, list[Sequence[ToolCall]]] = {"": list(turns)}
        self.scripts.update({key: list(script) for key, script in (others or {}).items()})
        self.offered = offered
        self.told: dict[str, tuple[str, bool]] = {}
        self.order: list[str] = []
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> "Stub":
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def results(self) -> list[str]:
        """What the model was told, in the order of its calls."""
        return [self.told[call][0] for call in self.order if call in self.told]

    def answer(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self.lock:
            for message in request["messages"]:
                for block in message["content"] if isinstance(message["content"], list) else ():
                    if block.get("type") == "tool_result":
                        told = block.get("content") or ""
                        text = told if isinstance(told, str) else "".join(one.get("text", "") for one in told)
                        self.told[block["tool_use_id"]] = (text, bool(block.get("is_error")))
            if not any(tool.get("name", "").startswith(self.offered) for tool in request.get("tools", ())):
                return [{"type": "text", "text": "ok"}]
            first = json.dumps(request["messages"][0])
            script = self.scripts[next((key for key in self.scripts if key and key in first), "")]
            calls = script.pop(0) if script else ()
            blocks = [self._call(call) for call in calls]
            return blocks or [{"type": "text", "text": "done"}]

    def _call(self, call: ToolCall) -> dict[str, Any]:
        self.order.append(f"toolu_{uuid.uuid4().hex}")
        return {"type": "tool_use", "id": self.order[-1], "name": call.name, "raw": as_json(call.arguments)}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def send(self, status: int, body: str, kind: str = "application/json") -> None:
                data = body.encode()
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_HEAD(self) -> None:
                self.send(200, "")

            def do_GET(self) -> None:
                self.send(404, "{}")

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length", 0)))
                if "/v1/messages" not in self.path:
                    self.send(404, "{}")
                elif "count_tokens" in self.path:
                    self.send(200, '{"input_tokens": 10}')
                else:
                    request = json.loads(raw)
                    blocks = stub.answer(request)
                    if request.get("stream"):
                        self.send(200, "".join(events(blocks, request)), "text/event-stream")
                    else:
                        self.send(200, json.dumps(message(blocks, request)))

        return Handler


def message(blocks: Sequence[dict[str, Any]], request: Mapping[str, Any]) -> dict[str, Any]:
    acts = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", "stub"),
        "content": list(blocks),
        "stop_reason": "tool_use" if acts else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def events(blocks: Sequence[dict[str, Any]], request: Mapping[str, Any]) -> list[str]:
    def event(kind: str, **fields: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"

    whole = message(blocks, request)
    lines = [event("message_start", message={**whole, "content": [], "stop_reason": None})]
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            start: dict[str, Any] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            start = {"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": block["raw"]}
        lines.append(event("content_block_start", index=index, content_block=start))
        lines.append(event("content_block_delta", index=index, delta=delta))
        lines.append(event("content_block_stop", index=index))
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    lines.append(event("message_delta", delta=ending, usage={"output_tokens": 1}))
    return [*lines, event("message_stop")]
