"""A real HTTP server on loopback that answers as badly as a test wants, and remembers what it was asked."""

import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeAlias


@dataclass(frozen=True)
class Asked:
    """One request as it came: the first line, the headers with lower-case names, the body."""

    line: bytes
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def target(self) -> bytes:
        return self.line.split(b" ")[1]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Behaviour: TypeAlias = Callable[[socket.socket, Asked], object]
"""Answers one request on its connection. When it returns `False`, the connection is closed."""


def response(
    body: bytes = b"", status: int = 200, headers: tuple[bytes, ...] = (), *, length: int | None = None
) -> bytes:
    """The bytes of a whole response."""
    lines = [b"HTTP/1.1 %d X" % status, b"Content-Length: %d" % (len(body) if length is None else length), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def says(value: Any, status: int = 200, *headers: bytes) -> Behaviour:
    """Always answers with this value as JSON; bytes are sent as they are."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return lambda connection, asked: connection.sendall(response(body, status, headers))


def sends(*pieces: bytes) -> Behaviour:
    """Sends these bytes, whatever they are, and hangs up."""

    def behave(connection: socket.socket, asked: Asked) -> bool:
        for piece in pieces:
            connection.sendall(piece)
        return False

    return behave


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Each request meets the next behaviour; the last one stays."""
    lock, left = threading.Lock(), list(behaviours)

    def behave(connection: socket.socket, asked: Asked) -> object:
        with lock:
            now = left.pop(0) if len(left) > 1 else left[0]
        return now(connection, asked)

    return behave


def by_path(**answers: Any) -> Behaviour:
    """Answers by what the path contains (`_` for `-`): a value as JSON, a behaviour as it behaves; else 404."""

    def behave(connection: socket.socket, asked: Asked) -> object:
        for part, answer in answers.items():
            if part.replace("_", "-").encode() in asked.target:
                return (answer if callable(answer) else says(answer))(connection, asked)
        return says({"title": "not found"}, 404)(connection, asked)

    return behave


def resets(connection: socket.socket, asked: Asked) -> bool:
    """Breaks the connection with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    return False


@dataclass
class AuthorityServer:
    """`with AuthorityServer(behaviour) as server: … server.origin … server.asked`"""

    behave: Behaviour
    tls: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def targets(self) -> list[str]:
        return [asked.target.decode() for asked in self.asked]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._open.append(connection)  # closed by its thread; listed so that a thread that waits can be woken
                self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
                self._threads[-1].start()

    def _serve(self, accepted: socket.socket) -> None:
        with (
            suppress(OSError),
            self.tls.wrap_socket(accepted, server_side=True) if self.tls else accepted as connection,
        ):
            self._open.append(connection)
            connection.settimeout(10)  # a client that waits without end is hung up on, and its test fails
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (asked := _read(connection)) is not None:
                self.asked.append(asked)
                if self.behave(connection, asked) is False:
                    return


def _read(connection: socket.socket) -> Asked | None:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(65_536)):
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    line, *lines = head.split(b"\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (header.partition(b":") for header in lines)}
    while len(body) < int(headers.get(b"content-length", b"0")):
        if not (more := connection.recv(65_536)):
            return None
        body += more
    return Asked(line, headers, body)
