"""Requests to an authority, byte for byte as a line wants them, and what came back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import sleep
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

import httpx

from preaction.errors import InvalidJSON
from preaction.wire.strict_json import loads

Who: TypeAlias = Literal["agent", "operator", "other", "nobody"]

Headers: TypeAlias = Mapping[str, str]

NONE: Final[Headers] = {}
TIMEOUT_S: Final = 30.0
MAX_WAITS: Final = 5
MAX_WAIT_S: Final = 60.0
"""How often, and how long at most, it waits when it is told that it asks too often."""
MAX_ANSWER: Final = 8 * 1024 * 1024


class Differs(Exception):
    """What was seen differs from the contract so far that the line can't go on; the message says how."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `body` is its JSON, or None for what is no strict JSON."""

    asked: str
    status: int
    headers: Headers
    body: Any
    media_type: str


def path(*segments: str) -> str:
    """A path of `/v0/…` with each id as one encoded segment."""
    return "/v0/" + "/".join(map(_segment, segments))


def _segment(text: str) -> str:
    return text.replace(".", "%2E") if set(text) == {"."} else quote(text, safe="")


@dataclass
class Asker:
    """Asks one authority with the keys that there are; remembers every reply, and counts what it made."""

    origin: str
    keys: Mapping[Who, str]
    replies: list[Reply] = field(default_factory=list)
    decisions: int = 0
    checks: int = 0

    def __post_init__(self) -> None:
        self._http = httpx.Client(base_url=self.origin, trust_env=False, timeout=TIMEOUT_S, follow_redirects=False)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def has(self, who: Who) -> bool:
        """Whether there is such a key."""
        return who in self.keys

    def get(self, where: str, who: Who = "agent", headers: Headers = NONE) -> Reply:
        """Ask with GET."""
        return self._ask("GET", where, who, None, headers)

    def post(self, where: str, body: Any, who: Who = "agent", headers: Headers = NONE) -> Reply:
        """Ask with POST: bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        return self._ask("POST", where, who, data, headers)

    def _ask(self, method: str, where: str, who: Who, data: bytes | None, more: Headers) -> Reply:
        headers = dict(more)
        if data is not None:
            headers.setdefault("Content-Type", "application/json")
        if who in self.keys:
            headers.setdefault("Authorization", f"Bearer {self.keys[who]}")
        reply = self._once(method, where, data, headers)
        for _ in range(MAX_WAITS):
            if (wait := _told_to_wait(reply)) is None:
                break
            sleep(wait)
            reply = self._once(method, where, data, headers)
        if reply.status == 200 and where.endswith("/decisions"):
            self.decisions += 1
        if reply.status == 200 and where.endswith("/output-checks"):
            self.checks += 1
        return reply

    def _once(self, method: str, where: str, data: bytes | None, headers: Headers) -> Reply:
        asked = f"{method} {where[:120]}"
        try:
            answer = self._http.request(method, where, content=data, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Differs(f"{asked}: no answer ({type(error).__name__})") from None
        media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        content = _event(answer.content) if media_type == "text/event-stream" else answer.content
        reply = Reply(asked, answer.status_code, answer.headers, _json(content), media_type)
        self.replies.append(reply)
        return reply


def _told_to_wait(reply: Reply) -> float | None:
    """Seconds to wait before asking again, for one that asked too often."""
    after = reply.headers.get("retry-after", "")
    if reply.status != 429 or not (after.isascii() and after.isdigit() and len(after) <= 4):
        return None
    return min(float(after), MAX_WAIT_S)


def _event(stream: bytes) -> bytes:
    """The data of a stream's last event: the answer, where MCP sends it as one."""
    events = stream.replace(b"\r\n", b"\n").strip().split(b"\n\n")
    lines = [each.removeprefix(b"data:").strip() for each in events[-1].split(b"\n") if each.startswith(b"data:")]
    return b"\n".join(lines)


def _json(content: bytes) -> Any:
    try:
        return loads(content) if len(content) <= MAX_ANSWER else None
    except InvalidJSON:
        return None
