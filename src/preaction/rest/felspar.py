"""`Felspar`: the client of one authority with one agent key, and a source of facts for a gate.

The paths are those of our own contract: Felspar's are public only as far as `POST /v0/executions/{id}/verify`.
"""

import ssl
import weakref
from collections.abc import Mapping, Sequence
from math import isfinite
from threading import Event
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from preaction._core.facts import Ask
from preaction.errors import ConfigurationError
from preaction.rest import operations
from preaction.rest.exchange import Answer, Failure, Question
from preaction.rest.headers import Headers
from preaction.rest.origin import read_agent_key, read_origin, read_proxy
from preaction.rest.plan import Plan
from preaction.rest.send import AsyncSender, Link, Sender

if TYPE_CHECKING:
    from preaction.rest.crew import Threads
    from preaction.rest.network import PoolLink

_ADDRESS: Final = {"origin": "origin", "agent_key": "agent_key", "agentKey": "agent_key"}


class Felspar:
    """A client of one authority. Threads and event loops share it; a process builds its own, after a fork.

    `origin` is `https://host[:port]`, or `http` on loopback; `agent_key` is the bearer token of every request;
    `deadline_s` bounds each method from call to return, in seconds. Connections are kept for 55 s. Redirects are not
    followed; no proxy and no credential is taken from the environment. The key is shown nowhere, and a client can
    neither be pickled nor copied.

    `transport` and `async_transport` replace the network: anything with httpx's `handle_request(request)` or
    `handle_async_request(request)`; it stays yours to close. Without the latter an event loop is served by worker
    threads. `proxy` is `http://[user:password@]host:port`, to tunnel through; `ssl_context` is trusted instead of the
    common certificate authorities. `ConfigurationError` names the option that can't be right.

    Methods answer with plain JSON values in wire shape. They raise `AuthorityError` where there is no answer to use, or
    it is about something else than was asked, and `MisuseError` for arguments that have no JSON form. Each has a twin
    with the prefix `a`, to be awaited. As a `Source` a client keeps its deadline, but not over a `transport`, which
    may block for longer than it is told.
    """

    def __init__(
        self,
        origin: str,
        agent_key: str,
        *,
        deadline_s: float = 5.0,
        transport: Any = None,
        async_transport: Any = None,
        proxy: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        # The machinery is imported by the first client: `import preaction` must stay cheap.
        from preaction.rest.crew import Tasks, Threads
        from preaction.rest.network import PoolLink

        where = read_origin(origin)
        headers = Headers(where, read_agent_key(agent_key))
        through = None if proxy is None else read_proxy(proxy, where)
        self._origin = str(where)
        self._deadline_s = _seconds(deadline_s)
        self._ignored: set[str] = set()
        pool = PoolLink(where, headers, tls=ssl_context, proxy=through)
        link: Link = pool
        if transport is not None:
            from preaction.rest.injected import TransportLink

            link = TransportLink(where, headers, transport)
        self.keeps_deadline = transport is None
        self._closed = Event()
        self._threads = Threads(Sender(link, self._closed))
        self._waiter: Threads | Tasks = self._threads
        if async_transport is not None:
            from preaction.rest.injected import AsyncTransportLink

            self._waiter = Tasks(AsyncSender(AsyncTransportLink(where, headers, async_transport), self._closed))
        self._end = weakref.finalize(self, _close, self._closed, self._threads, pool)

    @classmethod
    def of(cls, value: object) -> "Felspar":
        """The client itself, or a new one for a mapping `{origin, agent_key}`; else `ConfigurationError`."""
        return value if isinstance(value, cls) else cls(**read_address(value))

    def __repr__(self) -> str:
        return f"Felspar({self._origin!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Felspar holds a key and connections: it cannot be pickled or copied")

    # The operations -----------------------------------------------------------------------------------------------

    def decide(
        self,
        job: str,
        *,
        entity_id: str | None = None,
        evidence: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        content: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Ask for a decision: `{executionId, job, release, case: {id, identity}, status, outcome, decidedAt, …}`.

        Which parts the job needs is its input kind: `evidence` is `{fact: {value, source, observedAt?}}`. What the
        authority found wrong with a request stands in the error's `problem`. Sent once only, except under an
        `idempotency_key`, for which the authority gives its first answer again.
        """
        question = operations.decide(job, entity_id, evidence, fields, content, idempotency_key)
        return self._answer(question)

    async def adecide(
        self,
        job: str,
        *,
        entity_id: str | None = None,
        evidence: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        content: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """As `decide`."""
        question = operations.decide(job, entity_id, evidence, fields, content, idempotency_key)
        return await self._aanswer(question)

    def check_output(
        self, execution_id: str, *, output: str, content: Mapping[str, str], idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """Have a text checked before it is sent: `{checkId, executionId, output, passed, findings, contentDigest, …}`.

        `content` is field → text. Sent once only, except under an `idempotency_key`.
        """
        return self._answer(operations.check_output(execution_id, output, content, idempotency_key))

    async def acheck_output(
        self, execution_id: str, *, output: str, content: Mapping[str, str], idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """As `check_output`."""
        return await self._aanswer(operations.check_output(execution_id, output, content, idempotency_key))

    def list_jobs(self) -> list[dict[str, Any]]:
        """The jobs that the key may use, at their current release: `[{job, pack, release, title}]`."""
        return self._answer(operations.list_jobs())

    async def alist_jobs(self) -> list[dict[str, Any]]:
        """As `list_jobs`."""
        return await self._aanswer(operations.list_jobs())

    def describe_job(self, job: str, release: str | None = None) -> dict[str, Any]:
        """What a job allows, at this release or at its current one: `{job, release, subject, outcomes, outputs, …}`."""
        return self._answer(operations.describe_job(job, release))

    async def adescribe_job(self, job: str, release: str | None = None) -> dict[str, Any]:
        """As `describe_job`."""
        return await self._aanswer(operations.describe_job(job, release))

    def verify(self, execution_id: str) -> dict[str, Any]:
        """Whether a receipt stands now: `{valid, problems, executionId, verifiedAt, replay: {…}}`."""
        return self._answer(operations.verify(execution_id))

    async def averify(self, execution_id: str) -> dict[str, Any]:
        """As `verify`."""
        return await self._aanswer(operations.verify(execution_id))

    def verify_output_check(self, check_id: str) -> dict[str, Any]:
        """Whether an output check stands: `{valid, passed, checkId, executionId, output, contentDigest, …}`."""
        return self._answer(operations.verify_output_check(check_id))

    async def averify_output_check(self, check_id: str) -> dict[str, Any]:
        """As `verify_output_check`."""
        return await self._aanswer(operations.verify_output_check(check_id))

    def report_verdict(self, report: Mapping[str, Any], *, idempotency_key: str | None = None) -> dict[str, Any]:
        """Have the authority keep what a gate said about a call: `{verdictId, receivedAt}`; see `preaction.reporting`.

        Sent once only, except under an `idempotency_key`.
        """
        return self._answer(operations.report_verdict(report, idempotency_key))

    async def areport_verdict(self, report: Mapping[str, Any], *, idempotency_key: str | None = None) -> dict[str, Any]:
        """As `report_verdict`."""
        return await self._aanswer(operations.report_verdict(report, idempotency_key))

    def warm(self) -> None:
        """Open a connection, and find out whether the authority takes the key; `AuthorityError` when it doesn't."""
        self.list_jobs()

    async def awarm(self) -> None:
        """As `warm`."""
        await self.alist_jobs()

    # A source of facts --------------------------------------------------------------------------------------------

    def fetch(self, asks: Sequence[Ask], deadline_s: float) -> dict[Ask, object]:
        """Each ask's answer, as a model of the wire or `Unavailable`, in one request where the authority can.

        Answers are strict in shape; whether they are about what was asked is the gate's to check. Nothing is kept.
        """
        ends = monotonic() + deadline_s
        plan = Plan(asks, self._ignored)
        while questions := plan.questions():
            plan.settle(self._threads.put(questions, ends))
        return plan.answers

    async def afetch(self, asks: Sequence[Ask], deadline_s: float) -> dict[Ask, object]:
        """As `fetch`."""
        ends = monotonic() + deadline_s
        plan = Plan(asks, self._ignored)
        while questions := plan.questions():
            plan.settle(await self._waiter.aput(questions, ends))
        return plan.answers

    # Its end ------------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the client was closed: from then on it asks nothing."""
        return self._closed.is_set()

    def close(self) -> None:
        """Close the connections. Exchanges that are on their way fail; more than one close does no harm."""
        self._end()

    async def aclose(self) -> None:
        """As `close`."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Putting questions --------------------------------------------------------------------------------------------

    def _answer(self, question: Question[Answer]) -> Answer:
        outcomes: Sequence[Answer | Failure] = self._threads.put([question], monotonic() + self._deadline_s)
        return _or_raise(question, outcomes[0])

    async def _aanswer(self, question: Question[Answer]) -> Answer:
        outcomes: Sequence[Answer | Failure] = await self._waiter.aput([question], monotonic() + self._deadline_s)
        return _or_raise(question, outcomes[0])


def read_address(value: object) -> dict[str, Any]:
    """`origin` and `agent_key` of a mapping that has exactly these (`agentKey` is read too); else `ConfigurationError`.

    Neither is checked yet.
    """
    if not isinstance(value, Mapping):
        raise ConfigurationError("felspar: needs a Felspar, or a mapping with origin and agent_key")
    if unknown := [name for name in value if name not in _ADDRESS]:
        raise ConfigurationError(f"felspar: {str(unknown[0])[:40]!r} is not an option here, only origin and agent_key")
    named = {_ADDRESS[name]: part for name, part in value.items()}
    if len(named) != 2 or len(value) != 2:
        raise ConfigurationError("felspar: needs origin and agent_key, each once")
    return named


def _or_raise(question: Question[Answer], outcome: Answer | Failure) -> Answer:
    if isinstance(outcome, Failure):
        raise outcome.error(question.request.operation)
    return outcome


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value <= 0:
        raise ConfigurationError("deadline_s: needs a number of seconds above zero")
    return float(value)


def _close(closed: Event, threads: "Threads", pool: "PoolLink") -> None:
    closed.set()
    threads.close()
    pool.close()
