"""Sessions in Redis or Valkey, for several machines (extra `redis`).

What it rests on is looked at with each connection that is opened: one server that takes writes, keeps what it was told
over a restart, and throws nothing away for want of room. Every method is one script, so that nothing comes between its
parts; each is sent once and never again, since the first may have been done. All keys begin with `{prefix}:`, whose
braces keep them in one slot where the server is a cluster behind one address.
"""

import math
import re
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from preaction.errors import ConfigurationError, SessionFull, StoreUnavailable
from preaction.stores import Slot, Swapped, redis_scripts

try:
    from redis import Redis, RedisError
    from redis.backoff import NoBackoff
    from redis.connection import ConnectionPool, parse_url
    from redis.exceptions import ResponseError
    from redis.retry import Retry
except ImportError:
    raise ConfigurationError("store: Redis needs the extra 'redis': pip install 'preaction[redis]'") from None

SCHEMA_VERSION: Final = 1

_PREFIX: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


class _Unfit(RedisError):
    """A server that can't be relied on; the message is ours."""


class RedisStore:
    """A store in the Redis or Valkey at `url`: `redis://`, `rediss://` (TLS) or `unix://`, as redis-py reads it.

    A session takes `max_per_kind` new slots of each kind, and goes when nobody asked for it for `idle` (give or take a
    fiftieth). Claims and texts are kept for their time; at `max_claims` and `max_texts` no further one is taken. Times
    are the server's. Stores with the same `prefix` are one. To connect, and each answer, may take `timeout_s`; then,
    and for whatever else goes wrong, the method raises `StoreUnavailable`, and it may or may not have been done.

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
        self._max_per_kind = max_per_kind
        self._max_claims = max_claims
        self._max_texts = max_texts
        self._idle_ms = _milliseconds(idle)
        self._may_forget = unsafe_without_append_only_file
        self._pool = ConnectionPool(
            **_read_url(url, _seconds(timeout_s)),
            retry=Retry(NoBackoff(), 0),
            redis_connect_func=self._greet,
            protocol=2,  # with 3, redis-py lets the server stretch the time-outs
        )
        client = Redis(connection_pool=self._pool)
        texts = {name: text for name, text in vars(redis_scripts).items() if name.isupper()}
        self._scripts = {name: client.register_script(text) for name, text in texts.items() if name[0] != "_"}
        self._marker = ""
        try:
            self._marker = self._mark()
        except StoreUnavailable as error:
            self.close()
            raise ConfigurationError(str(error)) from None

    def close(self) -> None:
        """Close the connections. A later call opens one again."""
        self._pool.disconnect()

    # What every store does --------------------------------------------------------------------------------------------

    def put(self, session: str, slots: Sequence[Slot]) -> bool:
        """Keep all of `slots` or none; see `Store.put`."""
        flat: list[str | int] = [self._idle_ms, self._max_per_kind]
        for one in slots:
            flat += [_group(one.group), one.name, one.value, *_optional(one.rank), one.kind]
        return bool(self._run("PUT", self._session(session), flat))

    def read(self, session: str, group: str, at_most: int | None = None) -> list[tuple[str, str]]:
        """The pairs of a group; see `Store.read`."""
        start = _group(group)
        limit = -1 if at_most is None else at_most
        after = start[:-1] + ";"  # what follows the colon
        found = self._run("READ", self._session(session), [self._idle_ms, start, after, limit])
        return [(name.decode(), _value(held)) for name, held in zip(found[::2], found[1::2], strict=True)]

    def read_many(self, session: str, group: str, names: Sequence[str]) -> list[tuple[str, str]]:
        """Those of `names` that exist; see `Store.read_many`."""
        found = self._run("READ_MANY", self._session(session), [str(self._idle_ms), _group(group), *names])
        return [(name, _value(held)) for name, held in zip(names, found, strict=True) if held is not None]

    def is_full(self, session: str) -> bool:
        """Whether the session had to refuse a record."""
        return bool(self._run("IS_FULL", self._session(session), [self._idle_ms]))

    def claim(self, name: str, keep: timedelta, *, take: bool) -> Literal["free", "taken", "full"]:
        """Whether `name` is free, taking it with `take`; see `Store.claim`."""
        said = self._run("CLAIM", ["claims"], [name, _milliseconds(keep), self._max_claims, int(take)])
        return cast(Literal["free", "taken", "full"], said.decode())

    def look(self, name: str) -> str | None:
        """What stands under `name`; see `Store.look`."""
        (held,) = self._run("LOOK", [f"text:{name}"], [])
        return None if held is None else str(held.decode())

    def swap(self, name: str, old: str | None, new: str | None, keep: timedelta) -> Swapped:
        """Put `new` in the place of `old`; see `Store.swap`."""
        texts = [part for text in (old, new) for part in _optional(text)]
        bounds = [str(_milliseconds(keep)), str(self._max_texts)]
        said, *held = self._run("SWAP", [f"text:{name}", "texts"], [name, *texts, *bounds])
        if said == b"full":
            raise SessionFull("the store is at its bound and takes no more texts")
        if said == b"done":
            return Swapped(True, new)
        return Swapped(False, None if held[0] is None else held[0].decode())

    # The server -------------------------------------------------------------------------------------------------------

    def _session(self, session: str) -> list[str]:
        return [f"{part}:{session}" for part in ("head", "order", "slots")]

    def _run(self, script: str, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """What a script answers, with the marker as its first key and argument."""
        answer = self._ask(script, ["marker", *keys], [self._marker, *arguments])
        if answer is None:
            raise StoreUnavailable(
                "store: Redis no longer holds what this process wrote there: it was emptied, or is another one."
                " Uses may be forgotten; see to it, then start the process anew"
            )
        return answer

    def _ask(self, script: str, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        try:
            return self._scripts[script](keys=[self._prefix + key for key in keys], args=list(arguments))
        except _Unfit as error:
            raise StoreUnavailable(f"store: {error}") from None
        except RedisError as error:  # its words may be the server's, or hold what was sent
            raise StoreUnavailable(f"store: Redis can't be asked: {_kind(error)}") from None

    def _mark(self) -> str:
        """The marker of the keys that are there, or of those to come."""
        marker = str(self._ask("MARK", ["marker"], [f"{SCHEMA_VERSION} {uuid.uuid4().hex}"]).decode())
        version = marker.partition(" ")[0]
        if version != str(SCHEMA_VERSION):
            knows = f"this version of preaction knows {SCHEMA_VERSION}"
            raise StoreUnavailable(f"store: the keys in Redis have schema {version!r:.12}, and {knows}")
        return marker

    def _greet(self, connection: Any) -> None:
        """Begin a connection, and look at the server: one that began anew may be another than it was."""
        connection.on_connect()
        connection.send_command("INFO")
        try:
            said = connection.read_response().decode("utf-8", "replace")
        except ResponseError:
            raise _Unfit("the Redis user must be allowed to ask INFO, which says whether data can get lost") from None
        info = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
        if info.get("role") != "master":
            raise _Unfit("this Redis is a replica; the store needs the server that takes writes")
        if info.get("maxmemory_policy") != "noeviction":
            raise _Unfit("Redis would evict keys when its memory is full: set maxmemory-policy to noeviction")
        if info.get("aof_enabled") != "1" and not self._may_forget:
            would = "a restart would forget which acts were done"
            raise _Unfit(f"Redis keeps no append-only file, and {would}: set appendonly to yes")


def _read_url(url: str, timeout_s: float) -> dict[str, Any]:
    """The options of a connection. What redis-py would overlook or take as it likes is refused; no part is repeated."""
    problem = "store: the URL of Redis is redis://, rediss:// or unix://, with what is special in a password %-escaped"
    try:
        parts = urlsplit(url)
        options: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]
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
    return options | {"socket_timeout": timeout_s}


def _seconds(timeout_s: object) -> float:
    """A time-out that comes: None would wait for ever."""
    if isinstance(timeout_s, int | float) and 0 < timeout_s < math.inf:
        return timeout_s
    raise ConfigurationError(f"store: timeout_s is a number of seconds above zero, not {timeout_s!r:.40}")


def _group(group: str) -> str:
    """A group so written that none begins with another."""
    return f"{len(group.encode())}:{group}:"


def _optional(text: str | None) -> tuple[str, str]:
    """A text for a script, which knows no None: whether there is one, and the text."""
    return ("0", "") if text is None else ("1", text)


def _value(held: bytes) -> str:
    """A slot's value, which stands behind its rank, which stands behind its length."""
    length, _, rest = held.partition(b":")
    return rest[int(length) :].decode()


def _milliseconds(time: timedelta) -> int:
    """At least `time`, in whole milliseconds."""
    return math.ceil(time.total_seconds() * 1000)


def _kind(error: RedisError) -> str:
    """The kind of an error, with the server's word for it if it is one, such as `ResponseError MISCONF`."""
    word = str(error).partition(" ")[0]
    return f"{type(error).__name__} {word}" if re.fullmatch("[A-Z]{3,20}", word) else type(error).__name__
