"""The three callables that a gate asks, made from a client: `verify`, `describe` and `verify_output_check`.

Each can be called from a thread (`port(…)`) and from an event loop (`await port.acall(…)`). Where the client is a
`Felspar`, `source` is that client: a gate whose ports have one source in common sends one batch, so one request.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Protocol

from cachetools import LRUCache

from preaction.errors import ConfigurationError
from preaction.rest.felspar import Felspar, read_address
from preaction.rest.origin import read_agent_key, read_origin

_SHARED: Final[LRUCache[tuple[str, str], Felspar]] = LRUCache(maxsize=16)
_SHARED_LOCK: Final = Lock()


class _Verifies(Protocol):
    def verify(self, execution_id: str) -> Mapping[str, Any]: ...
    async def averify(self, execution_id: str) -> Mapping[str, Any]: ...


class _Describes(Protocol):
    def describe_job(self, job: str, release: str) -> Mapping[str, Any]: ...
    async def adescribe_job(self, job: str, release: str) -> Mapping[str, Any]: ...


class _VerifiesOutputChecks(Protocol):
    def verify_output_check(self, check_id: str) -> Mapping[str, Any]: ...
    async def averify_output_check(self, check_id: str) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Verifier:
    """`verify(execution_id)`: the replay, in wire shape; `AuthorityError` where there is none."""

    client: _Verifies

    @property
    def source(self) -> Felspar | None:
        """The client, where it answers batches."""
        return _source(self.client)

    def __call__(self, execution_id: str) -> Mapping[str, Any]:
        """From a thread."""
        return self.client.verify(execution_id)

    async def acall(self, execution_id: str) -> Mapping[str, Any]:
        """From an event loop."""
        return await self.client.averify(execution_id)


@dataclass(frozen=True, slots=True)
class JobDescriber:
    """`describe(job, release)`: what the job allows at that release, in wire shape; else `AuthorityError`."""

    client: _Describes

    @property
    def source(self) -> Felspar | None:
        """The client, where it answers batches."""
        return _source(self.client)

    def __call__(self, job: str, release: str) -> Mapping[str, Any]:
        """From a thread."""
        return self.client.describe_job(job, release)

    async def acall(self, job: str, release: str) -> Mapping[str, Any]:
        """From an event loop."""
        return await self.client.adescribe_job(job, release)


@dataclass(frozen=True, slots=True)
class OutputCheckVerifier:
    """`verify_output_check(check_id)`: whether that check stands, in wire shape; else `AuthorityError`."""

    client: _VerifiesOutputChecks

    @property
    def source(self) -> Felspar | None:
        """The client, where it answers batches."""
        return _source(self.client)

    def __call__(self, check_id: str) -> Mapping[str, Any]:
        """From a thread."""
        return self.client.verify_output_check(check_id)

    async def acall(self, check_id: str) -> Mapping[str, Any]:
        """From an event loop."""
        return await self.client.averify_output_check(check_id)


def felspar_verifier(felspar: Any) -> Verifier:
    """The port `verify` over a `Felspar`, a mapping `{origin, agent_key}`, or an object with `verify` and `averify`.

    Equal mappings share one client, here and in the other two factories. Raises `ConfigurationError` for anything else.
    """
    return Verifier(client_of(felspar, "verify"))


def felspar_job_describer(felspar: Any) -> JobDescriber:
    """The port `describe`, as `felspar_verifier`; an object needs `describe_job` and `adescribe_job`."""
    return JobDescriber(client_of(felspar, "describe_job"))


def felspar_output_check_verifier(felspar: Any) -> OutputCheckVerifier:
    """The port `verify_output_check`, as `felspar_verifier`; an object needs that method and `averify_output_check`."""
    return OutputCheckVerifier(client_of(felspar, "verify_output_check"))


def client_of(value: Any, method: str) -> Any:
    """What asks the authority: the object itself, or for a mapping the one client of that origin and key."""
    if isinstance(value, Mapping):
        return _shared(**read_address(value))
    if all(callable(getattr(value, name, None)) for name in (method, f"a{method}")):
        return value
    raise ConfigurationError(
        f"felspar: needs a Felspar, a mapping with origin and agent_key, or an object with {method} and a{method}"
    )


def _shared(origin: Any, agent_key: Any) -> Felspar:
    """The one client for this origin and key; a new one after it was closed."""
    key = (str(read_origin(origin)), read_agent_key(agent_key))
    with _SHARED_LOCK:
        client = _SHARED.get(key)
        if client is None or client.closed:
            client = _SHARED[key] = Felspar(*key)
        return client


def _source(client: object) -> Felspar | None:
    return client if isinstance(client, Felspar) else None
