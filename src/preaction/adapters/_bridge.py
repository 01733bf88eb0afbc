"""What every adapter shares: from a runtime's call to the gate and back, and results into the session.

An adapter has three parts: it reads the runtime's objects into a tool name, arguments and a session, asks here, and
turns the answer into its runtime's own kind of denial. Here nothing lets a call through by failing (A2): an exception
is a denial with a text. A cancellation leaves as it came.
"""

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

from preaction._core.verdict import Verdict, denial_text
from preaction.errors import ConfigurationError, MisuseError
from preaction.gate import ActionGate
from preaction.options import is_async
from preaction.sessions import Unseen, nothing

log = logging.getLogger("preaction")

FAILED: Final = "Denied, nothing was done: the gate's adapter itself failed on this call; hand the case to a person."
MAX_SESSIONS: Final = 10_000
"""Sessions of which it is known in which batch their latest results came."""
MAX_RESULTS: Final = 1_000
"""Results of one session of which that is known; those of the present batch are never forgotten."""

C = TypeVar("C")
SessionOf = Callable[[C], str | None]


@dataclass(frozen=True, slots=True)
class Go:
    """The call may run. `arguments` are what to run it with: a fresh copy of what was checked; None: as they came."""

    tool: str
    session_id: str | None
    batch: object
    arguments: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Stop:
    """The call must not run; `text` is what the model is shown. `verdict` is None where the adapter itself failed."""

    text: str
    verdict: Verdict | None = None


class Results:
    """What the bridges of one gate know of results: in which batch each came, and which sessions lost one.

    Per gate, not per bridge: agents that hand over to each other may each have been installed with a bridge of its own.
    """

    def __init__(self) -> None:
        self._batches: OrderedDict[str, list[tuple[object, str]]] = OrderedDict()
        self._lock = threading.Lock()
        self.lost: set[str] = set()

    def of_batch(self, session_id: str, batch: object) -> Collection[str]:
        """The ids of the results that a call of `batch` could not have seen."""
        with self._lock:
            return {id for of, id in self._batches.get(session_id, ()) if of == batch}

    def add(self, session_id: str, batch: object, id: str) -> None:
        """A result with this `id` comes in `batch`. To be said before it is recorded."""
        with self._lock:
            results = self._batches.setdefault(session_id, [])
            results.append((batch, id))
            if len(results) > MAX_RESULTS:
                results[:-MAX_RESULTS] = [one for one in results[:-MAX_RESULTS] if one[0] == batch]
            self._batches.move_to_end(session_id)
            while len(self._batches) > MAX_SESSIONS:
                self._batches.popitem(last=False)


_results: WeakKeyDictionary[ActionGate, Results] = WeakKeyDictionary()
_results_lock = threading.Lock()


class Bridge(Generic[C]):
    """One gate in one runtime. `C` is the runtime's context object, which `session_of` reads the session id off.

    `session` is the user's own resolver and goes first; then the runtime's id, then `with gate.session(…)`. Results of
    the decision tool and the output-check tool are recorded by `ran`. Those of one parallel batch (the calls of one
    turn of the model) don't count for its other calls: the model could not have seen them (A5). A session whose
    result could not be recorded is denied from then on, since what it knows has a hole.
    """

    def __init__(
        self,
        gate: ActionGate,
        *,
        session: SessionOf[C] | None,
        session_of: SessionOf[C],
        results: Results | None = None,
    ) -> None:
        if not isinstance(gate, ActionGate):
            raise ConfigurationError("gate: an ActionGate is needed, as create_action_gate makes it")
        if session is not None and is_async(session):
            raise ConfigurationError("session: a plain function is needed, which gives the id of the session")
        self.gate = gate
        self._resolvers = [resolver for resolver in (session, session_of) if resolver is not None]
        with _results_lock:
            self._results = _results.setdefault(gate, Results()) if results is None else results

    def require(self, found: Iterable[str], *, uncovered: Iterable[str] = (), accept: Iterable[str] = ()) -> None:
        """Refuse an installation that leaves a gap (A8), unless `accept` lists the name.

        `found` are the tools that the adapter covers, `uncovered` those it saw and can't cover. Raises
        `ConfigurationError` naming them, and every tool that the gate knows and that was not found.
        """
        accepted = set(accept)
        if missing := self.gate.known_tools - set(found) - accepted:
            known = ", ".join(sorted(set(found))) or "none"
            raise ConfigurationError(f"no tool here is called {', '.join(sorted(missing))}; the tools are: {known}")
        if open_ := set(uncovered) - accepted:
            raise ConfigurationError(f"not covered by the gate, to be listed in accept=: {', '.join(sorted(open_))}")

    # Before -----------------------------------------------------------------------------------------------------------

    def ask(
        self, tool: str, arguments: object, context: C, *, names: Sequence[str] = (), batch: object = None
    ) -> Go | Stop:
        """May this call run? `names` are further names of the tool, such as that of the resolved object (A7).

        What is no mapping goes to the gate as it is: it denies that for tools with a rule, and in its own words.
        """
        try:
            tool, session_id = self._prepare(tool, names, context)
            unseen = self._unseen(session_id, batch)
            verdict = self.gate.check(session_id, tool, cast("Mapping[str, Any]", arguments), unseen=unseen)
            return self._answer(verdict, session_id, batch)
        except Exception as error:  # noqa: BLE001
            return self.failed(tool, error)

    async def aask(
        self, tool: str, arguments: object, context: C, *, names: Sequence[str] = (), batch: object = None
    ) -> Go | Stop:
        """As `ask`, from an event loop."""
        return await self.total(tool, self._aask(tool, arguments, context, names, batch))

    async def total(self, tool: str, asking: Awaitable[Go | Stop]) -> Go | Stop:
        """What `asking` gives, which also reads what the runtime hands over; whatever fails in it is an answer (A2)."""
        try:
            return await asking
        except Exception as error:  # noqa: BLE001
            return self.failed(tool, error)

    async def _aask(self, tool: str, arguments: object, context: C, names: Sequence[str], batch: object) -> Go | Stop:
        tool, session_id = self._prepare(tool, names, context)
        unseen = self._unseen(session_id, batch)
        async with asyncio.timeout(self.gate.time_limit_s):
            verdict = await self.gate.acheck(session_id, tool, cast("Mapping[str, Any]", arguments), unseen=unseen)
        return self._answer(verdict, session_id, batch)

    def _prepare(self, tool: str, names: Sequence[str], context: C) -> tuple[str, str | None]:
        """The name to judge by, and the session."""
        known = {name for name in (tool, *names) if self.gate.knows(name)}
        if len(known) > 1:
            raise ConfigurationError("one call by two names that the gate knows")
        found = (resolver(context) for resolver in self._resolvers)
        session_id = next((one for one in found if one is not None), self.gate.current_session)
        if isinstance(session_id, str) and session_id in self._results.lost:
            raise MisuseError("a result of this session could not be recorded")
        return (known.pop() if known else tool), session_id

    def _unseen(self, session_id: str | None, batch: object) -> Unseen:
        if batch is None or not isinstance(session_id, str):
            return nothing
        return lambda: self._results.of_batch(session_id, batch)

    def _answer(self, verdict: Verdict, session_id: str | None, batch: object) -> Go | Stop:
        if verdict.blocks:
            return Stop(denial_text(verdict), verdict)
        checked = verdict.arguments if verdict.code == "allowed" else None
        return Go(verdict.tool, session_id, batch, checked)

    def failed(self, tool: str, error: Exception) -> Go | Stop:
        """The answer where the adapter itself can't read or guard a call; as `refused`."""
        told = {"code": "adapter_failed"}
        log.error("the adapter failed on a call: %s", type(error).__name__, extra=told)  # never the message
        return self._unless_observed(tool, FAILED)

    def refused(self, tool: str, text: str) -> Go | Stop:
        """A denial of the adapter's own, unless the gate only observes: then nothing stops a call (G42)."""
        if not self.gate.enforces:
            log.error("a call that is only observed would be: %r", text, extra={"code": "adapter_failed"})
        return self._unless_observed(tool, text)

    def _unless_observed(self, tool: str, text: str) -> Go | Stop:
        return Stop(text) if self.gate.enforces else Go(tool, None, None, None)

    # After ------------------------------------------------------------------------------------------------------------

    def ran(self, go: Go, result: object) -> None:
        """The call ran and gave `result`, without an error. Never called for a denied or failed call (A4)."""
        if not self.gate.records(go.tool) or not go.session_id:
            return
        try:
            self.gate.record_result(go.session_id, go.tool, None, result, before=partial(self._came, go))
        except Exception as error:  # noqa: BLE001
            log.error(
                "a result could not be recorded, and its session is denied: %s",
                type(error).__name__,
                extra={"code": "result_not_recorded"},
            )
            self._results.lost.add(go.session_id)

    def _came(self, go: Go, id: str) -> None:
        if go.session_id and go.batch is not None:
            self._results.add(go.session_id, go.batch, id)
