"""What tests of look-ups share: a pack with facts to be looked up, a database, and a server that misbehaves."""

import socket
import sqlite3
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from preaction.authority.facts.lookups import Facts, Ids

LOOKED_UP = """
pack: refunds
version: "1"
jobs:
  refund:
    title: Refund a charge
    subject: {kind: ticket, identity: provided, match: exact}
    facts:
      topic: {type: string, from: caller}
      amount: {type: number, minimum: 0, from: lookup, lookup: ledger}
      twice: {type: boolean, from: lookup, lookup: ledger}
    evidence: {fresh_for: PT1H}
    outcomes:
      - {id: refund, when: facts.topic == "billing" && facts.twice && facts.amount < 100.0}
      - {id: review, when: facts.topic == "billing" && facts.amount >= 100.0}
    when_unresolved: {next_step: Leave it to the desk.}
""".lstrip()

QUERY = "SELECT charged AS amount, charged_twice AS twice FROM tickets WHERE id = :case_id"

TOPIC = {"topic": {"value": "billing", "source": "human"}}


def desk(file: Path, *tickets: tuple[str, Any, Any], columns: str = "id text, charged real, charged_twice int") -> str:
    """A database of tickets, and its URL."""
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"create table tickets ({columns})")
        database.executemany("insert into tickets values (?, ?, ?)", tickets)
        database.commit()
    return f"sqlite:///{file}"


class Told:
    """A look-up that answers what it is told to, and remembers what it was asked."""

    def __init__(self, answer: Any, needs: Iterable[str] = ("case_id",)) -> None:
        self.answer = answer
        self.needs = frozenset(needs)
        self.asked: list[dict[str, Any]] = []
        self.closed = False

    def read(self, ids: Ids, facts: Facts, seconds: float) -> Mapping[str, Any]:
        self.asked.append(dict(ids))
        answer = self.answer(seconds) if callable(self.answer) else self.answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


class Web:
    """A server of bytes: it reads the head of each request, and sends what `answer` yields for it."""

    def __init__(self, answer: Callable[["Web", str], Iterator[bytes]], tls: ssl.SSLContext | None = None) -> None:
        self.heads: list[str] = []
        self.over = threading.Event()
        self.gone = threading.Event()
        """Set when a client hung up in the middle of an answer."""
        self._answer = answer
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.origin = f"{'https' if tls else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def targets(self) -> list[str]:
        return [head.split(" ")[1] for head in self.heads]

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=[connection], daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        if self._tls is not None:
            try:
                connection = self._tls.wrap_socket(connection, server_side=True)
            except OSError:  # the client doesn't trust this server
                return
        with closing(connection):
            head = b""
            while b"\r\n\r\n" not in head:
                data = connection.recv(65536)
                if not data:
                    return
                head += data
            self.heads.append(head.decode("latin-1"))
            try:
                for part in self._answer(self, self.targets[-1]):
                    connection.sendall(part)
            except OSError:
                self.gone.set()

    def close(self) -> None:
        self.over.set()
        with suppress(OSError):  # closed already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def web(answer: Callable[[Web, str], Iterator[bytes]], tls: ssl.SSLContext | None = None) -> Iterator[Web]:
    """A running `Web`, over TLS if it has a context for that."""
    server = Web(answer, tls)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join(30)


def response(body: str | bytes, status: str = "200 OK", *headers: str) -> bytes:
    """One HTTP response, after which the connection ends."""
    data = body.encode() if isinstance(body, str) else body
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", "Connection: close", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + data
