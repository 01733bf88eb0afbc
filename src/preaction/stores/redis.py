"""Sessions in Redis or Valkey, for several machines (extra `redis`), from threads and from event loops.

What it rests on is looked at with each connection that is opened: one server that takes writes, keeps what it was told
over a restart, and throws nothing away for want of room. Every method is one script, so that nothing comes between its
parts; each is sent once and never again, since the first may have been done. All keys begin with `{prefix}:`, whose
braces keep them in one slot where the server is a cluster behind one address.
"""

import asyncio
import math
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

from preaction.errors import ConfigurationError, StoreUnavailable
from preaction.stores import Slot, Swapped, redis_scripts
from preaction.stores.redis_questions import Question, Questions, mark, milliseconds, unfitness

try:
    from redis import Redis, RedisError
    from redis import asyncio as redis_asyncio
    from redis.asyncio.connection import parse_url as parse_url_for_a_loop
    from redis.asyncio.retry import Retry as AsyncRetry
    from redis.backoff import NoBackoff
    from redis.connection import ConnectionPool, parse_url
    from redis.exceptions import ResponseError
    from redis.retry import Retry
except ImportError:
    raise ConfigurationError("store: Redis needs the extra 'redis': pip install 'preaction[redis]'") from None

__all__ = ["RedisStore"]

SCHEMA_VERSION: Final = 1

T = TypeVar("T")

Scripts: TypeAlias = Mapping[str, Callable[..., Any]]
"""The scripts by their names, each to be called with `keys` and `args`."""

_PREFIX: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_TEXTS: Final = {name: text for name, text in vars(redis_scripts).items() if name.isupper() and name[0] != "_"}
_MANY: Final = 2**31
_AT_ONCE: Final = 50
"""Connections of one event loop; what comes while all of them are busy waits for `timeout_s`."""


class _Unfit(RedisError):
    """A server that can't be relied on; the message is ours."""


class RedisStore:
    """A store in the Redis or Valkey at `url`: `redis://`, `rediss://` (TLS) or `unix://`, as redis-py reads it.

    A session takes `max_per_kind` new slots of each kind, and goes when nobody asked for it for `idle` (give or take a
    fiftieth). Claims and texts are kept for their time; at `max_claims` and `max_texts` no further one is taken. Times
    are the server's. Stores with the same `prefix` are one. To connect, and each answer, may take `timeout_s`, and an
    `await` as a whole; then, and for whatever else goes wrong, the method raises `StoreUnavailable`, and it may or may
    not have been done. So it is with an `await` that is cancelled: its connection is dropped, and nobody else reads
    what comes over it.

    Raises `ConfigurationError` where no such store can be: also where the server can't be reached now, evicts keys, is
    a replica, holds another schema, or keeps no append-only file, so that a restart would forget which acts were done.
    With `unsafe_without_append_only_file` the last is taken for granted.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "preaction",
        max_per_kind: int = 20_000,
        max_claims: int = 100_000,
        max_texts: int = 100_000,
        idle: timedelta = timedelta(hours=48),
        timeout_s: float = 1.0,
        unsafe_without_append_only_file: bool = False,
    ) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise ConfigurationError("store: the prefix of Redis keys is 1 to 64 letters, digits or any of _.:-")
        self._prefix = f"{{{prefix}}}:"
        self._timeout_s = _seconds(timeout_s)
        self._may_forget = unsafe_without_append_only_file
        self._pool = ConnectionPool(
            **_read_url(url, parse_url, self._timeout_s),
            retry=Retry(NoBackoff(), 0),
            redis_connect_func=self._greet,
            max_connections=_MANY,
        )
        loop_options = _read_url(url, parse_url_for_a_loop, None)
        # A function, so that the password is no attribute
        self._open_pool: Callable[[], redis_asyncio.BlockingConnectionPool] = lambda: self._pool_with(loop_options)
        self._loops: dict[asyncio.AbstractEventLoop, tuple[redis_asyncio.BlockingConnectionPool, Scripts]] = {}
        self._lock = threading.Lock()
        self._scripts = _registered(Redis(connection_pool=self._pool))
        try:
            marker = self._ask(mark(SCHEMA_VERSION, uuid.uuid4().hex))
        except StoreUnavailable as error:
            self.close()
            raise ConfigurationError(str(error)) from None
        self._questions = Questions(marker, max_per_kind, max_claims, max_texts, milliseconds(idle))

    def close(self) -> None:
        """Close the connections of threads. A later call opens one again."""
        self._pool.disconnect()

    async def aclose(self) -> None:
        """Close the connections of the running event loop, which nothing else does before the loop is gone."""
        with self._lock:
            pool, _ = self._loops.pop(asyncio.get_running_loop(), (None, None))
        if pool is not None:
            await pool.disconnect()

    # What every store does, from a thread -----------------------------------------------------------------------------

    def put(self, session: str, slots: Sequence[Slot]) -> bool:
        """Keep all of `slots` or none; see `Store.put`."""
        return self._ask(self._questions.put(session, slots))

    def read(self, session: str, group: str, at_most: int | None = None) -> list[tuple[str, str]]:
        """The pairs of a group; see `Store.read`."""
        return self._ask(self._questions.read(session, group, at_most))

    def read_many(self, session: str, group: str, names: Sequence[str]) -> list[tuple[str, str]]:
        """Those of `names` that exist; see `Store.read_many`."""
        return self._ask(self._questions.read_many(session, group, names))

    def is_full(self, session: str) -> bool:
        """Whether the session had to refuse a record."""
        return self._ask(self._questions.is_full(session))

    def claim(self, name: str, keep: timedelta, *, take: bool) -> Literal["free", "taken", "full"]:
        """Whether `name` is free, taking it with `take`; see `Store.claim`."""
        return self._ask(self._questions.claim(name, keep, take=take))

    def look(self, name: str) -> str | None:
        """What stands under `name`; see `Store.look`."""
        return self._ask(self._questions.look(name))

    def swap(self, name: str, old: str | None, new: str | None, keep: timedelta) -> Swapped:
        """Put `new` in the place of `old`; see `Store.swap`."""
        return self._ask(self._questions.swap(name, old, new, keep))

    # The same, awaited in an event loop -------------------------------------------------------------------------------

    async def aput(self, session: str, slots: Sequence[Slot]) -> bool:
        """`put`, awaited."""
        return await self._aask(self._questions.put(session, slots))

    async def aread(self, session: str, group: str, at_most: int | None = None) -> list[tuple[str, str]]:
        """`read`, awaited."""
        return await self._aask(self._questions.read(session, group, at_most))

    async def aread_many(self, session: str, group: str, names: Sequence[str]) -> list[tuple[str, str]]:
        """`read_many`, awaited."""
        return await self._aask(self._questions.read_many(session, group, names))

    async def ais_full(self, session: str) -> bool:
        """`is_full`, awaited."""
        return await self._aask(self._questions.is_full(session))

    async def aclaim(self, name: str, keep: timedelta, *, take: bool) -> Literal["free", "taken", "full"]:
        """`claim`, awaited."""
        return await self._aask(self._questions.claim(name, keep, take=take))

    async def alook(self, name: str) -> str | None:
        """`look`, awaited."""
        return await self._aask(self._questions.look(name))

    async def aswap(self, name: str, old: str | None, new: str | None, keep: timedelta) -> Swapped:
        """`swap`, awaited."""
        return await self._aask(self._questions.swap(name, old, new, keep))

    # The server -------------------------------------------------------------------------------------------------------

    def _ask(self, question: Question[T]) -> T:
        with _told():
            answer = self._scripts[question.script](**self._sent(question))
        return question.read(answer)

    async def _aask(self, question: Question[T]) -> T:
        # One time-out around it all, since redis-py's own would lose a cancellation now and then (`asyncio.wait_for`)
        with _told():
            async with asyncio.timeout(self._timeout_s):
                answer = await self._scripts_of_this_loop()[question.script](**self._sent(question))
        return question.read(answer)

    def _sent(self, question: Question[Any]) -> dict[str, list[str | int]]:
        return {"keys": [self._prefix + key for key in question.keys], "args": list(question.arguments)}

    def _scripts_of_this_loop(self) -> Scripts:
        """A connection belongs to the event loop that opened it, and ends with it."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._loops:
                self._loops = {one: held for one, held in self._loops.items() if not one.is_closed()}
                pool = self._open_pool()
                self._loops[loop] = pool, _registered(redis_asyncio.Redis(connection_pool=pool))
            return self._loops[loop][1]

    def _pool_with(self, options: Mapping[str, Any]) -> redis_asyncio.BlockingConnectionPool:
        return redis_asyncio.BlockingConnectionPool(
            **options,
            retry=AsyncRetry(NoBackoff(), 0),
            redis_connect_func=self._agreet,
            max_connections=_AT_ONCE,
            timeout=None,
        )

    def _greet(self, connection: Any) -> None:
        """Begin a connection, and look at the server: one that began anew may be another than it was."""
        connection.on_connect()
        connection.send_command("INFO")
        with _info_allowed():
            said = connection.read_response()
        self._require_fit(said)

    async def _agreet(self, connection: Any) -> None:
        """`_greet`, awaited."""
        await connection.on_connect()
        await connection.send_command("INFO")
        with _info_allowed():
            said = await connection.read_response()
        self._require_fit(said)

    def _require_fit(self, said: bytes) -> None:
        why = unfitness(said, may_forget=self._may_forget)
        if why is not None:
            raise _Unfit(why)


@contextmanager
def _told() -> Iterator[None]:
    """Whatever redis-py raises is told as `StoreUnavailable`, and by our words or by its kind alone."""
    try:
        yield
    except _Unfit as error:
        raise StoreUnavailable(f"store: {error}") from None
    except (RedisError, TimeoutError) as error:  # its words may be the server's, or hold what was sent
        raise StoreUnavailable(f"store: Redis can't be asked: {_kind(error)}") from None


@contextmanager
def _info_allowed() -> Iterator[None]:
    try:
        yield
    except ResponseError:
        raise _Unfit("the Redis user must be allowed to ask INFO, which says whether data can get lost") from None


def _registered(client: Any) -> Scripts:
    return {name: client.register_script(text) for name, text in _TEXTS.items()}


def _read_url(url: str, parse: Callable[[str], Any], timeout_s: float | None) -> dict[str, Any]:
    """The options of a connection. What redis-py would overlook or take as it likes is refused; no part is repeated."""
    problem = "store: the URL of Redis is redis://, rediss:// or unix://, with what is special in a password %-escaped"
    try:
        parts = urlsplit(url)
        options: dict[str, Any] = dict(parse(url))
    except (AttributeError, TypeError, ValueError):
        raise ConfigurationError(problem) from None
    place = "path" if parts.scheme == "unix" else "host"
    if not options.get(place) or parts.fragment or (place == "host" and parts.path.strip("/") and "db" not in options):
        raise ConfigurationError(problem)
    known = {"connection_class", "username", "password", "host", "port", "path", "db"}
    for name in options:
        if name not in known and not name.startswith("ssl_"):
            raise ConfigurationError(f"store: {name[:40]!r} can't be given in the URL of Redis")
    if place == "host":
        options |= {"socket_connect_timeout": timeout_s, "socket_keepalive": True}
    # With protocol 3, redis-py lets the server stretch the time-outs
    return options | {"socket_timeout": timeout_s, "protocol": 2}


def _seconds(timeout_s: object) -> float:
    """A time-out that comes: None would wait for ever."""
    if isinstance(timeout_s, int | float) and 0 < timeout_s < math.inf:
        return timeout_s
    raise ConfigurationError(f"store: timeout_s is a number of seconds above zero, not {timeout_s!r:.40}")


def _kind(error: Exception) -> str:
    """The kind of an error, with the server's word for it if it is one, such as `ResponseError MISCONF`."""
    word = str(error).partition(" ")[0]
    return f"{type(error).__name__} {word}" if re.fullmatch("[A-Z]{3,20}", word) else type(error).__name__
