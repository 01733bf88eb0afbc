"""The application over real HTTP: in a thread of this process, or as the process itself until it is told to stop."""

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from preaction.authority.expressions.evaluator import start_expected
from preaction.authority.server.workers import SIGNALS, run_workers
from preaction.errors import ConfigurationError

KEEP_ALIVE_S: Final = 75
"""Longer than a client of ours keeps a connection, so that none is closed just as it is used."""

STOP_S: Final = 20
"""How long a request that was begun may take after the server was told to stop: a decision reads what it looks up,
and waits for its turn to write.
"""


@dataclass(frozen=True, slots=True)
class Served:
    """A running server; `origin` such as `http://127.0.0.1:41873`."""

    origin: str


class _Server(uvicorn.Server):
    """Tells when it accepts connections."""

    def __init__(self, app: ASGIApp, on_ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                loop="asyncio",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=STOP_S,
            )
        )
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        start_expected()
        await super().startup(sockets=sockets)
        self._on_ready()


@contextmanager
def serving(app: ASGIApp, host: str, port: int) -> Iterator[Served]:
    """Serve in a background thread while the block runs; port 0 takes a free one."""
    with _bound(host, port) as listener:
        ready = threading.Event()
        server = _Server(app, ready.set)

        def run() -> None:
            try:
                asyncio.run(server.serve(sockets=[listener]))
            finally:
                ready.set()

        thread = threading.Thread(target=run, name="preaction-authority", daemon=True)
        thread.start()
        ready.wait()
        if not server.started:
            raise ConfigurationError("the server did not start")
        try:
            yield Served(_origin(listener))
        finally:
            server.should_exit = True
            thread.join()


def serve_forever(app: ASGIApp, host: str, port: int, on_ready: Callable[[Served], None], *, workers: int = 1) -> None:
    """Serve until SIGTERM or SIGINT, then finish what was begun and return.

    In the main thread, or in several processes that accept on one listener; then `app` holds nothing that a fork
    doesn't share. `ConfigurationError` when one of them ends by itself.
    """
    with _bound(host, port) as listener:

        def work(ready: Callable[[], None]) -> None:
            asyncio.run(_Server(app, ready).serve(sockets=[listener]))

        def ready() -> None:
            on_ready(Served(_origin(listener)))

        if workers > 1:
            origin = _origin(listener)

            def all_ready() -> None:
                listener.close()  # the workers have it; kept open here, it would take connections after they stopped
                on_ready(Served(origin))

            run_workers(workers, work, all_ready)
            return
        for number in SIGNALS:
            signal.signal(number, _ignore)  # uvicorn raises the signal again when it has stopped
        work(ready)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named: asyncio sets TCP_NODELAY only on such sockets, and without it each answer waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except (OSError, OverflowError, UnicodeError, TypeError) as error:
        listener.close()
        raise ConfigurationError(f"can't listen on {host}:{port}: {error}") from None
    return listener


def _origin(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _ignore(_number: int, _frame: Any) -> None:
    return
