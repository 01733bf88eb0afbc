"""`/mcp` before the MCP SDK sees anything: keys, methods, sizes, strict JSON. Runs with and without the SDK."""

from collections.abc import Iterator

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from authority.packs import HELPDESK
from preaction.authority import LocalAuthority
from preaction.authority.keys import Caller
from preaction.authority.server import api
from preaction.authority.server.mcp import MAX_BYTES, McpTools

PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.fixture(scope="module")
def authority() -> Iterator[tuple[LocalAuthority, str]]:
    with LocalAuthority.from_pack(HELPDESK) as local, local.serve() as served:
        yield local, served.origin


def ask(origin: str, key: str | None, body: bytes = PING, method: str = "POST") -> httpx.Response:
    headers = HEADERS if key is None else {**HEADERS, "Authorization": f"Bearer {key}"}
    with httpx.Client(trust_env=False, timeout=30) as http:
        return http.request(method, f"{origin}/mcp", headers=headers, content=body)


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "PUT"])
@pytest.mark.parametrize("body", [PING, b"{", b"x" * (MAX_BYTES + 1)])
def test_without_a_key_nothing_else_is_said(authority: tuple[LocalAuthority, str], method: str, body: bytes) -> None:
    for key in (None, "pa_agent_0_x"):
        answer = ask(authority[1], key, body, method)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert answer.json()["title"] == "A valid key is needed, as a bearer token."


def test_an_operators_key_is_for_other_paths(authority: tuple[LocalAuthority, str]) -> None:
    local, origin = authority
    assert ask(origin, local.operator_key).status_code == 403


def test_where_the_sdk_is_missing_the_answer_says_what_to_install(
    authority: tuple[LocalAuthority, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "installed", lambda: False)
    local, origin = authority
    answer = ask(origin, local.agent_key)
    assert answer.status_code == 404
    assert "pip install 'preaction[authority-mcp]'" in answer.json()["title"]
    assert ask(origin, None).status_code == 401


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_is_no_stream_and_no_session(
    authority: tuple[LocalAuthority, str], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "installed", lambda: True)
    local, origin = authority
    answer = ask(origin, local.agent_key, b"", method)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 422),
        (b"[]", 422),
        (b'{"id": 1, "id": 2}', 422),
        (b'{"id": NaN}', 422),
        (b"\xff", 422),
        (b'{"a": "' + b"x" * (MAX_BYTES - 9) + b'"}', 204),
        (b'{"a": "' + b"x" * (MAX_BYTES - 8) + b'"}', 413),
    ],
)
def test_bodies_are_read_as_strictly_as_everywhere(
    authority: tuple[LocalAuthority, str], body: bytes, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def respond(_tools: McpTools, _caller: Caller, request: Request, _body: bytes, send: Send) -> None:
        await Response(status_code=204)(request.scope, request.receive, send)

    monkeypatch.setattr(api, "installed", lambda: True)
    monkeypatch.setattr(McpTools, "respond", respond)
    local, origin = authority
    assert ask(origin, local.agent_key, body).status_code == status
