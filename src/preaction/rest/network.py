"""One pool of connections that keeps an absolute deadline, and no setting of the environment.

Imported when a client is built, because it imports httpcore, the machine inside httpx. It is used bare because httpx's
own transport takes no network backend, which is where a deadline can be kept; and an exchange takes about half as long
as through httpx's client, three quarters as long as through its transport. No redirects, no cookies, no `HTTP_PROXY`,
no netrc: nothing here knows of them.
"""

import socket
import ssl
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

import httpcore

from preaction.rest.budget import CURRENT
from preaction.rest.exchange import Request
from preaction.rest.headers import Headers
from preaction.rest.origin import Origin, Proxy
from preaction.rest.send import Reply

KEEP_ALIVE_S: Final = 55.0
"""Longer than the seconds between an agent's calls, shorter than the 60 s after which common balancers hang up."""

_CONNECTIONS: Final = 100
_WRITE_BYTES: Final = 16_384


class PoolLink:
    """Exchanges over our own pool: HTTP/1.1, kept alive, safe to share between threads."""

    def __init__(self, origin: Origin, headers: Headers, *, tls: ssl.SSLContext | None, proxy: Proxy | None) -> None:
        if tls is None and origin.scheme == "https":
            tls = _common_trust()
        self._origin = (origin.scheme.encode(), origin.host.encode(), origin.port)
        self._headers = headers
        self._network = DeadlineBackend()
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            proxy=_proxy(proxy, tls),
            max_connections=_CONNECTIONS,
            keepalive_expiry=KEEP_ALIVE_S,
            network_backend=self._network,
        )

    @contextmanager
    def open(self, request: Request, seconds: float) -> Iterator[Reply[Iterable[bytes]]]:
        """Send the request; enter with the head of the response."""
        scheme, host, port = self._origin
        response = self._pool.handle_request(
            httpcore.Request(
                request.method,
                httpcore.URL(scheme=scheme, host=host, port=port, target=request.path.encode("ascii")),
                headers=self._headers.of(request),
                content=request.body,
                extensions={"timeout": {"pool": seconds}},  # all other waits are the backend's
            )
        )
        try:
            yield Reply(response.status, response.headers, response.iter_stream())
        finally:
            stream = response.extensions.get("network_stream")  # a pool's answers all have one, a stand-in's have none
            if stream is not None and _is_followed(response):
                stream.spoilt = True
            response.close()

    def close(self) -> None:
        """Close every connection, also one that is just being made and that the pool does not have yet."""
        self._network.shut()
        self._pool.close()


def _is_followed(response: httpcore.Response) -> bool:
    """Whether bytes came behind this response: they would be read as the answer to the next question.

    httpcore keeps them to itself. Where they can't be looked for, they count as there, and no connection is used again.
    """
    connection = getattr(getattr(response.stream, "_stream", None), "_connection", None)
    machine = getattr(connection, "_h11_state", None)
    return machine is None or bool(machine.trailing_data[0])


def _common_trust() -> ssl.SSLContext:
    """A TLS context that trusts the common certificate authorities, and none that the environment names."""
    import httpx

    return httpx.create_ssl_context(trust_env=False)


def _proxy(proxy: Proxy | None, tls: ssl.SSLContext | None) -> httpcore.Proxy | None:
    if proxy is None:
        return None
    url = httpcore.URL(scheme=proxy.scheme.encode(), host=proxy.host.encode(), port=proxy.port)
    return httpcore.Proxy(url, auth=proxy.auth, ssl_context=tls if proxy.scheme == "https" else None)


class DeadlineBackend(httpcore.NetworkBackend):
    """Connects and waits within the budget of the running exchange, whatever time-out it is told."""

    def __init__(self) -> None:
        self._sockets = httpcore.SyncBackend()
        self._streams: weakref.WeakSet[DeadlineStream] = weakref.WeakSet()
        self._shut = False
        self._lock = threading.Lock()

    def shut(self) -> None:
        """Close all streams that are open, and every one that would be opened from now on."""
        with self._lock:
            self._shut = True
            streams = list(self._streams)
        for stream in streams:
            stream.close()

    def take(self, stream: "DeadlineStream") -> None:
        """Know a new stream, to close it in time."""
        with self._lock:
            self._streams.add(stream)
            shut = self._shut
        if shut:
            stream.close()
            raise httpcore.ConnectError("the client was closed")

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of `host` that answers; each gets an equal share of the time left."""
        addresses = _resolve(host, _left(httpcore.ConnectTimeout))
        error: Exception = httpcore.ConnectError("the name has no address")
        for place, address in enumerate(addresses):
            share = _left(httpcore.ConnectTimeout) / (len(addresses) - place)
            try:
                stream = self._sockets.connect_tcp(address, port, share, local_address, socket_options)
                return DeadlineStream(stream, self)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as refused:
                error = refused
        raise error


class DeadlineStream(httpcore.NetworkStream):
    """A connection that waits within the budget of the running exchange, and tells it of the first byte that comes."""

    def __init__(self, stream: httpcore.NetworkStream, backend: DeadlineBackend) -> None:
        self.spoilt = False
        self._stream = stream
        self._backend = backend
        backend.take(self)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """At most `max_bytes`, as they come."""
        data = self._stream.read(max_bytes, _left(httpcore.ReadTimeout))
        if data:
            CURRENT.get().heard = True
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """All of `buffer`, in pieces, so that a slow reader is noticed."""
        for start in range(0, len(buffer), _WRITE_BYTES):
            self._stream.write(buffer[start : start + _WRITE_BYTES], _left(httpcore.WriteTimeout))

    def close(self) -> None:
        """Close the connection, also under a thread that waits for it: only a shutdown wakes that one."""
        with suppress(OSError):
            self._stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """The connection inside TLS; the handshake as a whole has the time that is left."""
        secured = self._stream.start_tls(ssl_context, server_hostname, _left(httpcore.ConnectTimeout))
        return DeadlineStream(secured, self._backend)

    def get_extra_info(self, info: str) -> Any:
        """What the connection knows of itself; readable while it is idle means, to the pool, not to be used again."""
        return (self.spoilt and info == "is_readable") or self._stream.get_extra_info(info)


def _left(late: type[Exception]) -> float:
    """The seconds left for the running exchange; `late` is raised when there are none."""
    if seconds := CURRENT.get().left():
        return seconds
    raise late


def look_up(host: str) -> Sequence[str]:
    """The addresses of a host, as the system's resolver has them, in its order."""
    infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in infos))


def _resolve(host: str, seconds: float) -> Sequence[str]:
    """`look_up`, in a thread that is left behind when it is late: a resolver knows no time-out."""
    found: SimpleQueue[Sequence[str] | OSError] = SimpleQueue()

    def look() -> None:
        try:
            found.put(look_up(host))
        except OSError as error:
            found.put(error)

    threading.Thread(target=look, name="preaction-resolve", daemon=True).start()
    try:
        addresses = found.get(timeout=seconds)
    except Empty:
        raise httpcore.ConnectTimeout from None
    if isinstance(addresses, OSError):
        raise httpcore.ConnectError("the name could not be resolved") from addresses
    return addresses
