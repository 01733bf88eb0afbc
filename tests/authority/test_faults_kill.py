"""`kill -9` in the middle of many decisions: what was answered is there, and what is there is whole."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from authority.asking import evidence
from authority.conftest import Place
from authority.packs import HELPDESK
from authority.whole import ids_in_a_whole_chain
from preaction.authority.storage.storage import Storage


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    file = tmp_path / "pack.yaml"
    file.write_text(HELPDESK, "utf-8")
    return file


@contextmanager
def served(pack: Path, place: Place) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    """A running server, and what it printed when it was ready."""
    options = ["--pack", str(pack), "--db", str(place.url), "--signing-key", str(place.key), "--dev-keys"]
    command = [sys.executable, "-c", "from preaction.cli import main; main()", "serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


class Crowd:
    """Many who ask at once, each over a connection of its own. `answered` holds what was decided, as it was told."""

    def __init__(self, kill: subprocess.Popen[bytes], after: int) -> None:
        self.answered: list[str] = []
        self.lost = 0
        self.refused = 0
        self._kill = kill
        self._after = after

    async def ask(self, ready: dict[str, str], name: str, count: int) -> None:
        await asyncio.gather(*(self._one(ready, f"{name}-{number}") for number in range(count)))

    async def _one(self, ready: dict[str, str], entity_id: str) -> None:
        body = json.dumps({"entity_id": entity_id, "evidence": evidence()})
        answer = await post(ready, "/v0/jobs/triage-ticket/decisions", body)
        if not answer:
            self.lost += 1
            return
        if answer.startswith(b"HTTP/1.1 503 "):  # among so many a writer's turn may not come in its ten seconds
            self.refused += 1
            return
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        self.answered.append(json.loads(answer.partition(b"\r\n\r\n")[2])["executionId"])
        if len(self.answered) == self._after:
            self._kill.kill()


async def post(ready: dict[str, str], path: str, body: str) -> bytes:
    """The whole answer; empty when the connection ended before all of it was there.

    (A client's pool is slow at so many.)
    """
    head = f"Host: a\r\nAuthorization: Bearer {ready['agentKey']}\r\nContent-Length: {len(body)}\r\nConnection: close"
    port = int(ready["origin"].rpartition(":")[2])
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST {path} HTTP/1.1\r\n{head}\r\n\r\n{body}".encode())
        answer = await reader.read()
        writer.close()
    except OSError:
        return b""
    said, _, content = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?im)^content-length: (\d+)\r?$", said)
    return answer if length is not None and len(content) == int(length[1]) else b""


@pytest.mark.parametrize("count", [100, pytest.param(500, marks=pytest.mark.long)])
async def test_a_server_killed_among_many_decisions_loses_none_that_was_answered(
    pack: Path, place: Place, count: int
) -> None:
    """Two servers of one database are asked `count` times each, all at once, and one is killed."""
    with served(pack, place) as (killed, first), served(pack, place) as (_, second):
        crowd = Crowd(killed, after=count // 2)
        await asyncio.gather(crowd.ask(first, "first", count), crowd.ask(second, "second", count))
        assert killed.wait(10) == -9
    assert len(crowd.answered) == 2 * count - crowd.lost - crowd.refused
    assert 0 < crowd.lost <= count  # the other one answered all it was asked
    storage = Storage(str(place.url), place.key)
    kept = ids_in_a_whole_chain(storage)
    storage.close()
    assert len(crowd.answered) == len(set(crowd.answered))
    assert set(crowd.answered) <= set(kept)
    assert len(kept) <= 2 * count
