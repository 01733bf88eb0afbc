"""Facts from a service: one GET, whose answer is JSON, with a pointer to each value.

The request's target is put together from parts, and travels byte for byte. No redirect is followed, no proxy is taken
from the environment, no answer is decompressed, and it is bounded in size and in time, from the first byte to the last.
"""

import asyncio
import re
import ssl
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import httpcore

from preaction.authority.facts.lookups import Facts, Ids, LookupFailed
from preaction.authority.hosts import is_loopback
from preaction.errors import ConfigurationError, InvalidJSON
from preaction.wire import strict_json
from preaction.wire.digest import canonical

MAX_BYTES: Final = 256 * 1024
_CONNECTIONS: Final = 16
_GRACE_S: Final = 5.0
_VISIBLE: Final = re.compile(r"[!-~]+", re.ASCII)
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_VALUE: Final = re.compile(r"[!-~]([ -~]*[!-~])?", re.ASCII)
_POINTER: Final = re.compile(r"(/([^~/]|~[01])*)*")
_OURS: Final = frozenset(
    {"host", "accept", "accept-encoding", "connection", "content-length", "transfer-encoding", "te"}
)

T = TypeVar("T")


class HttpLookup:
    """One URL with a place for each id, such as `https://erp.example/tickets/{case_id}`.

    A place is a whole segment of the path, or the whole value of a parameter. `values` maps a fact to the RFC 6901
    pointer to its value; without it the value is the member of that name. `ca` is a file of certificates in PEM: a
    server of https needs one that they vouch for, and no other. `ConfigurationError` for what can't be right.
    """

    def __init__(
        self,
        url: str,
        *,
        values: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        ca: str | Path | None = None,
    ) -> None:
        self._origin, self._parts = _read_template(url)
        self.needs = frozenset(part for place, part in self._parts if place)
        self._values = dict(values or {})
        for fact, pointer in self._values.items():
            if not _POINTER.fullmatch(pointer):
                raise ConfigurationError(f"values.{fact}: a JSON pointer is needed, such as /customer/plan")
        self._headers = [(b"accept", b"application/json"), (b"accept-encoding", b"identity"), *_headers(headers or {})]
        self._tls = None if ca is None else _trusting(ca, self._origin[0])
        self._loop: _Loop | None = None
        self._lock = Lock()

    def close(self) -> None:
        """Close all connections; a read that is under way fails."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()

    def read(self, ids: Ids, facts: Facts, seconds: float) -> Mapping[str, Any]:
        """The facts that the answer holds."""
        target = self.target(ids)
        with self._lock:
            if self._loop is None:
                self._loop = _Loop(self._tls, secure=self._origin[0] == b"https")
            loop = self._loop
        try:
            status, body = loop.run(self._get(loop.pool, target, seconds), seconds)
        except (CancelledError, TimeoutError):  # closed meanwhile
            raise LookupFailed("unreachable") from None
        if status != 200:
            raise LookupFailed("not_found" if status == 404 else "redirect" if 300 <= status < 400 else "status")
        try:
            answer = strict_json.loads(body, max_bytes=MAX_BYTES)
        except InvalidJSON:
            raise LookupFailed("not_json") from None
        names = {fact: self._values.get(fact, "/" + fact) for fact in facts}
        return {fact: value for fact, pointer in names.items() for value in _pointed(answer, pointer)}

    def target(self, ids: Ids) -> bytes:
        """Path and query for these ids. `LookupFailed` for one that a server could take for more than one segment."""
        return "".join(_segment(ids[part]) if place else part for place, part in self._parts).encode("ascii")

    async def _get(self, pool: httpcore.AsyncConnectionPool, target: bytes, seconds: float) -> tuple[int, bytes]:
        scheme, host, port = self._origin
        url = httpcore.URL(scheme=scheme, host=host, port=port, target=target)
        body = bytearray()
        try:
            async with asyncio.timeout(seconds), pool.stream("GET", url, headers=self._headers) as response:
                if response.status != 200:
                    return response.status, b""
                if any(name.lower() == b"content-encoding" for name, _ in response.headers):
                    raise LookupFailed("not_json")
                async for chunk in response.aiter_stream():
                    body += chunk
                    if len(body) > MAX_BYTES:
                        raise LookupFailed("too_large")
                return response.status, bytes(body)
        except TimeoutError:
            raise LookupFailed("timeout") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError):
            raise LookupFailed("unreachable") from None


class _Loop:
    """An event loop in a daemon thread: a read that is late is cancelled there, whatever it waits for."""

    def __init__(self, tls: ssl.SSLContext | None, *, secure: bool) -> None:
        self._loop = asyncio.new_event_loop()
        if secure and tls is None:
            import httpx

            tls = httpx.create_ssl_context(trust_env=False)
        self.pool = httpcore.AsyncConnectionPool(ssl_context=tls, max_connections=_CONNECTIONS, keepalive_expiry=30)
        Thread(target=self._serve, name="preaction-lookup-http", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Run in the loop, and wait for it; work that ends after `seconds` by itself gets a little more to do so."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds + _GRACE_S)

    def close(self) -> None:
        """Cancel what runs, close the connections, end the loop."""
        with suppress(CancelledError, TimeoutError):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.pool.aclose()

    def _serve(self) -> None:
        self._loop.run_forever()
        self._loop.close()


def _read_template(url: str) -> tuple[tuple[bytes, bytes, int], Sequence[tuple[bool, str]]]:
    """Scheme, host and port; and the target in parts: fixed text, or (True, the name of an id)."""
    if not _VISIBLE.fullmatch(url) or "\\" in url or "#" in url:
        raise ConfigurationError("url: visible ASCII characters are needed, without \\ and #")
    try:
        split = urlsplit(url)
        host, port = split.hostname or "", split.port or (443 if split.scheme == "https" else 80)
    except ValueError:
        raise ConfigurationError("url: not a URL") from None
    if split.scheme not in ("https", "http") or not host or "@" in split.netloc or "{" in split.netloc:
        raise ConfigurationError("url: needs the form https://host/path/{case_id}, without user-info")
    if split.scheme == "http" and not is_loopback(host):
        raise ConfigurationError("url: http is for loopback only; anything else needs https")
    parts: list[tuple[bool, str]] = []
    for index, segment in enumerate((split.path or "/").split("/")[1:]):
        if segment in (".", ".."):
            raise ConfigurationError("url: a path with . or .. means another one")
        parts += [(False, "/"), _place(segment, f"segment {index + 1} of the path")]
    for index, pair in enumerate(split.query.split("&") if split.query else []):
        name, equals, value = pair.partition("=")
        parts += [(False, "&" if index else "?"), (False, _fixed(name, "the name of a parameter") + equals)]
        parts.append(_place(value, f"the value of {name!r}"))
    return (split.scheme.encode(), host.encode(), port), parts


def _place(text: str, where: str) -> tuple[bool, str]:
    match = _PLACEHOLDER.fullmatch(text)
    return (True, match[1]) if match else (False, _fixed(text, where))


def _fixed(text: str, where: str) -> str:
    if "{" in text or "}" in text:
        raise ConfigurationError(f"url: {where} is either one {{id}} or has none")
    return text


def _segment(value: object) -> str:
    """An id as one percent-encoded segment, which stays one for a server that decodes before it takes a path apart."""
    text = value if isinstance(value, str) else canonical(value).decode()
    if not text or any(part in (".", "..") for part in re.split(r"[/\\]", text)):
        raise LookupFailed("unusable_id")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise LookupFailed("unusable_id") from None


def _trusting(ca: str | Path, scheme: bytes) -> ssl.SSLContext:
    if scheme != b"https":
        raise ConfigurationError("ca: certificates are for https")
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"ca: no certificates in PEM can be read there ({type(error).__name__})") from None


def _headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OURS:
            raise ConfigurationError("headers: not a name that a request may set")
        if not _VALUE.fullmatch(value):  # never repeated: it is a secret
            raise ConfigurationError(f"headers.{name}: needs a text of visible ASCII characters")
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _pointed(value: Any, pointer: str) -> Iterator[Any]:
    """The value at an RFC 6901 pointer, or nothing."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isascii() and name.isdigit() and str(int(name)) == name:
            index = int(name)
            if index >= len(value):
                return
            value = value[index]
        else:
            return
    yield value
