"""The headers of a request, among them the one that must not be seen."""

from typing import Final

from preaction.rest.exchange import Request
from preaction.rest.origin import Origin

_JSON: Final = b"application/json"


class Hidden(bytes):
    """Bytes that show themselves to a connection only: a debugger, a log and a traceback with locals see `<hidden>`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<hidden>"

    __str__ = __repr__


class Headers:
    """What every request to one origin with one key carries."""

    __slots__ = ("_common",)

    def __init__(self, origin: Origin, agent_key: str) -> None:
        self._common = [
            (b"Host", origin.netloc.encode("ascii")),
            (b"Authorization", Hidden(b"Bearer " + agent_key.encode("ascii"))),
            (b"Accept", _JSON),
            (b"Accept-Encoding", b"identity"),
            (b"User-Agent", b"preaction"),
        ]

    def of(self, request: Request) -> list[tuple[bytes, bytes]]:
        """The headers of this request, in the order in which they travel."""
        headers = list(self._common)
        if request.body is not None:
            headers += [(b"Content-Type", _JSON), (b"Content-Length", str(len(request.body)).encode("ascii"))]
        if request.idempotency_key is not None:
            headers.append((b"Idempotency-Key", request.idempotency_key.encode("ascii")))
        return headers
