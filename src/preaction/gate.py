"""The action gate: the object that a user holds. Whatever acts, verifies.

The promise of this module: no exception lets a call through. The decision itself is `_core`; here are the door that
turns any error into a denial, the callback, and the ways in and out.
"""

import inspect
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Never, TypeVar

from preaction._core.case import is_company
from preaction._core.denied import deny
from preaction._core.facts import Ask, Describe, Procedure
from preaction._core.procedure import judge
from preaction._core.record import Round, recording
from preaction._core.rule import RuleBook
from preaction._core.tool_rule import ToolRule
from preaction._core.trail import Trail
from preaction._core.verdict import Judgement, Ungated, Verdict, tool_name, verdict_of
from preaction.audit.trail import AuditTrail, Recorder, Sink, recorder_of
from preaction.drive import Facts, arun, run
from preaction.errors import ConfigurationError, MisuseError
from preaction.options import (
    is_enforced,
    name_of,
    problems_of,
    read_book,
    read_clock,
    read_facts,
    read_on_verdict,
    read_store,
    seconds_of,
)
from preaction.sessions import Decisions, OutputChecks, Sessions, Unseen, ignored, nothing, session_id_of
from preaction.stores import Store
from preaction.stores.memory import MemoryStore
from preaction.telemetry import Telemetry, Watch, watch_of
from preaction.wrap import wrap

log = logging.getLogger("preaction")

F = TypeVar("F", bound=Callable[..., Any])
OnVerdict = Callable[[str, Verdict], object]

_session: ContextVar[str | None] = ContextVar("preaction_session", default=None)


GATE_ERROR = deny("gate_error", None, "the gate itself failed on this call", "hand the case to a person")


@dataclass(slots=True)
class _Check:
    """One call on its way through the gate."""

    session_id: object
    tool: Any
    arguments: object
    trail: Trail = field(default_factory=Trail)
    judgement: Judgement = GATE_ERROR
    unseen: Unseen = nothing
    rounds: list[Round] = field(default_factory=list)


class ActionGate:
    """A gate over some tools, for one job of an authority. Made by `create_action_gate`; safe in threads and tasks.

    `problems` are the rules that can never allow, `warnings` those weaker than they look, both in words.
    """

    def __init__(
        self,
        book: RuleBook,
        facts: Facts,
        sessions: Sessions,
        *,
        decision_tool: str | None,
        output_check_tool: str | None,
        on_verdict: OnVerdict | None,
        recorder: Recorder | None,
        watch: Watch,
        enforced: bool,
        deadline_s: float,
        problems: Sequence[str],
    ) -> None:
        self._book = book
        self._facts = facts
        self._sessions = sessions
        self._decision_tool = decision_tool
        self._output_check_tool = output_check_tool
        self._on_verdict = on_verdict
        self._recorder = recorder
        self._watch = watch
        self._enforced = enforced
        self._deadline_s = deadline_s
        self.problems = tuple(problems)
        self.decisions = Decisions(sessions)
        self.output_checks = OutputChecks(sessions)

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], *, environ: Mapping[str, str] | None = None, **overrides: Any
    ) -> "ActionGate":
        """The gate that a rules file describes: `gate.yaml`, `.toml` or `.json`; see the page on rules.

        The key comes from `environ` (by default the environment of this process), under the name that the file gives.
        `overrides` are options of `create_action_gate`, functions among them, `origin` and `agent_key`, and go before
        what the file says. `RulesFileError`, a `ConfigurationError`, names line and column of each error.
        """
        from preaction.rules_file import read_rules_file

        file = read_rules_file(path)
        options = file.options(environ, overrides)
        with file.placed():
            return create_action_gate(**options)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Rules weaker than they look, in words; what hangs on the job's subject, as soon as a description was read."""
        found = [warning for rule in self._book.rules.values() for warning in rule.warnings]
        if not all(is_company(description.subject) for description in self._facts.described()):
            why = "without 'entity', the one case decided in the session counts, whatever the call is about"
            found += [f"tools.{tool}: {why}" for tool, rule in self._book.rules.items() if rule.entity is None]
        if not self._book.deny_unlisted:
            found.append("unlisted is 'allow': tools without a rule are not gated")
        return tuple(found)

    # Asking -----------------------------------------------------------------------------------------------------------

    def check(self, session_id: str | None, tool: str, args: Mapping[str, Any], *, unseen: Unseen = nothing) -> Verdict:
        """The verdict on one call. Never raises for anything that a call or an authority does.

        `unseen` gives the ids of executions and output checks that whoever makes the call could not have seen, such as
        those of the same parallel batch (`record_result` tells them): they count as not recorded yet.
        """
        one = _Check(session_id, tool, args, unseen=unseen)
        with self._watch() as told:
            with self._door(one):
                judging = self._procedure(one, self._enforced)
                one.judgement = run(judging, self._asker(one), self._facts, self._deadline_s)
            return told(self._conclude(one))

    async def acheck(
        self, session_id: str | None, tool: str, args: Mapping[str, Any], *, unseen: Unseen = nothing
    ) -> Verdict:
        """As `check`, from an event loop. A cancellation leaves as it came, without a verdict."""
        one = _Check(session_id, tool, args, unseen=unseen)
        with self._watch() as told:
            with self._door(one):
                judging = self._procedure(one, self._enforced)
                one.judgement = await arun(judging, self._asker(one), self._facts, self._deadline_s)
            return told(self._conclude(one))

    def preview(self, session_id: str | None, tool: str, args: Mapping[str, Any]) -> Verdict:
        """The verdict that `check` would give; uses nothing up and calls no `on_verdict`."""
        one = _Check(session_id, tool, args)
        with self._door(one):
            one.judgement = run(self._procedure(one, False), self._asker(one), self._facts, self._deadline_s)
        return self._verdict(one)

    async def apreview(self, session_id: str | None, tool: str, args: Mapping[str, Any]) -> Verdict:
        """As `preview`, from an event loop."""
        one = _Check(session_id, tool, args)
        with self._door(one):
            one.judgement = await arun(self._procedure(one, False), self._asker(one), self._facts, self._deadline_s)
        return self._verdict(one)

    def _procedure(self, one: _Check, take: bool) -> Procedure[Judgement]:
        judging = judge(one.session_id, one.tool, one.arguments, self._book, one.trail, take=take)
        return judging if self._recorder is None else recording(judging, one.rounds)

    def _asker(self, one: _Check) -> Callable[[Any], object]:
        return lambda ask: self._sessions.answer(session_id_of(one.session_id), ask, one.unseen)

    @contextmanager
    def _door(self, one: _Check) -> Iterator[None]:
        """The one broad `except` of the gate: whatever goes wrong inside, the call is denied."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            if one.judgement is GATE_ERROR:
                one.trail.evidence = None  # what the judging broke on
            one.judgement = GATE_ERROR
            # The type only: a message or a trace could hold a text of the call, or a secret.
            told = {"tool": tool_name(one.tool), "code": GATE_ERROR.code}
            log.error("the gate failed and denied the call: %s", type(error).__name__, extra=told)

    def _conclude(self, one: _Check) -> Verdict:
        """The verdict, once `on_verdict` and the audit took it: if one fails on an allow, no record, so no act (G40).

        The audit comes last, so that it has the verdict that stands.
        """
        verdict = self._verdict(one)
        if isinstance(one.judgement, Ungated):
            return verdict
        if self._on_verdict is not None:
            with self._door(one):
                if inspect.iscoroutine(left := self._on_verdict(verdict.tool, verdict)):
                    left.close()
                    raise MisuseError("on_verdict gave a coroutine, which nobody awaits: nothing was recorded")
            verdict = self._verdict(one) if verdict.allow else verdict
        if self._recorder is not None:
            with self._door(one):
                self._recorder.record(verdict, one.trail.call, one.rounds)
            verdict = self._verdict(one) if verdict.allow else verdict
        return verdict

    def _verdict(self, one: _Check) -> Verdict:
        return verdict_of(one.judgement, one.trail, tool=one.tool, session_id=one.session_id, enforced=self._enforced)

    # Recording --------------------------------------------------------------------------------------------------------

    def record_result(
        self,
        session_id: str | None,
        tool: str,
        args: object,
        result: object,
        *,
        before: Callable[[str], object] = ignored,
    ) -> None:
        """Record what the decision tool or the output-check tool returned; anything else is left alone.

        To be called after every tool that really ran. `args` are the model's and are not read. `before` hears the id
        of the execution or of the output check just before it is recorded. Raises what `before` and the store raise,
        since a decision that got lost could leave an older one standing.
        """
        if tool == self._decision_tool:
            self._sessions.record_decision(session_id_of(session_id), result, before=before)
        elif tool == self._output_check_tool:
            self._sessions.record_output_check(session_id_of(session_id), result, before=before)

    # Guarding ---------------------------------------------------------------------------------------------------------

    def wrap(self, tool: str, function: F, *, ignore: Sequence[str] = ()) -> F:
        """`function` behind this gate; sync or async function in, the same kind out.

        The guarded function raises `ActionDenied` when a call is denied; else it runs with the arguments that were
        checked. The session is the one of the surrounding `with gate.session(…)`. Parameters named in `ignore` are
        injected by a runtime: they are neither checked nor copied. Raises `ConfigurationError` for a tool without a
        rule, and for what can't be wrapped.
        """
        return wrap(self, tool, function, ignore)

    def is_gated(self, tool: str) -> bool:
        """Whether a rule names this tool."""
        return tool in self._book.rules

    def records(self, tool: str) -> bool:
        """Whether this is the decision tool or the output-check tool."""
        return tool in self._book.own_tools

    def knows(self, tool: str) -> bool:
        """Whether this tool is gated, or one whose results are recorded."""
        return self.is_gated(tool) or self.records(tool)

    @property
    def known_tools(self) -> frozenset[str]:
        """Every tool that this gate knows: those with a rule, the decision tool and the output-check tool."""
        return frozenset(self._book.rules) | self._book.own_tools

    @property
    def time_limit_s(self) -> float:
        """After how many seconds at the latest a check has its verdict, unless a store or a callback hangs."""
        return self._deadline_s + 1.0

    @property
    def enforces(self) -> bool:
        """Whether verdicts are binding; False in `mode="observe"`."""
        return self._enforced

    def acts_once(self, tool: str) -> bool:
        """Whether the rule of this tool uses up a decision or a case."""
        rule = self._book.rules.get(tool)
        return rule is not None and rule.source.once is not None

    @contextmanager
    def session(self, session_id: str) -> Iterator[str]:
        """Guarded functions called inside belong to this session, in this thread or task and the tasks it starts."""
        token = _session.set(session_id_of(session_id))
        try:
            yield session_id
        finally:
            _session.reset(token)

    @property
    def current_session(self) -> str | None:
        """The session of the surrounding `with gate.session(…)`."""
        return _session.get()

    # Warming up -------------------------------------------------------------------------------------------------------

    def warm(self) -> None:
        """Do before the first call what it would have to wait for: suffix list, connections, pinned descriptions."""
        self._facts.fetch(self._warm_asks(), time.monotonic() + self._deadline_s)

    async def awarm(self) -> None:
        """As `warm`, from an event loop."""
        await self._facts.afetch(self._warm_asks(), time.monotonic() + self._deadline_s)

    def _warm_asks(self) -> list[Ask]:
        """The pinned descriptions, which are kept; without any, one is asked for all the same, to open a connection."""
        self._book.domains.registrable("example.com")
        self._book.domains.shared("example.com")
        return [Describe(self._book.job, release) for release in sorted(self._book.releases or ["warm-up"])]


def create_action_gate(
    *,
    job: str,
    decision_tool: str | None = None,
    output_check_tool: str | None = None,
    tools: Mapping[str, ToolRule | Mapping[str, Any]],
    verify: Any,
    describe: Any,
    verify_output_check: Any = None,
    releases: Sequence[str] | None = None,
    refuse_fields: Sequence[str] = (),
    test_recipients: Sequence[str] | None = None,
    on_verdict: OnVerdict | None = None,
    audit: AuditTrail | Sink | None = None,
    telemetry: Telemetry | None = None,
    unlisted: Literal["allow", "deny"] = "allow",
    mode: Literal["enforce", "observe"] = "enforce",
    own_suffixes: Sequence[str] = (),
    shared_domains: Sequence[str] = (),
    max_decision_age: timedelta = timedelta(hours=24),
    max_clock_skew_s: float = 300,
    deadline_s: float = 5.0,
    store: Store | None = None,
    clock: Callable[[], datetime] | None = None,
    **unknown: Never,
) -> ActionGate:
    """A gate for `tools` over the decisions of one `job`.

    `verify(execution_id)`, `describe(job, release)` and `verify_output_check(check_id)` answer with mappings in wire
    shape or our models; they may be plain functions, coroutine functions, objects with both (`__call__` and `acall`),
    or sources of facts. `decision_tool` and `output_check_tool` are the authority's tools by their exact names in the
    runtime, whose results `record_result` keeps. All else only narrows, save `mode="observe"`, which decides and
    reports but lets calls through. Times are in seconds where a name says so. Whatever can't be right raises
    `ConfigurationError`, naming the place.
    """
    if unknown:
        raise ConfigurationError(f"unknown option: {', '.join(sorted(unknown))}")
    own = _own_tools(decision_tool, output_check_tool)
    book = read_book(
        job=job,
        tools=tools,
        own_tools=frozenset(own.values()),
        releases=releases,
        refuse_fields=refuse_fields,
        test_recipients=test_recipients,
        unlisted=unlisted,
        own_suffixes=own_suffixes,
        shared_domains=shared_domains,
        max_decision_age=max_decision_age,
        max_clock_skew_s=max_clock_skew_s,
    )
    for option, tool in own.items():
        if tool in book.rules:
            raise ConfigurationError(f"{option}: {tool!r} can't be gated by the decisions that it makes")
    keep_uses = max_decision_age + 2 * book.max_clock_skew  # a decision may be dated ahead, and clocks may differ
    now = read_clock(clock)
    return ActionGate(
        book,
        read_facts(verify, describe, verify_output_check),
        Sessions(MemoryStore() if store is None else read_store(store), book.job, now, keep_uses),
        decision_tool=decision_tool,
        output_check_tool=output_check_tool,
        on_verdict=read_on_verdict(on_verdict),
        recorder=recorder_of(audit, book, now, own_suffixes, shared_domains),
        watch=watch_of(telemetry, book.job, book.rules),
        enforced=is_enforced(mode),
        deadline_s=seconds_of(deadline_s, "deadline_s"),
        problems=problems_of(book.rules, can_check_texts=verify_output_check is not None),
    )


def _own_tools(decision_tool: str | None, output_check_tool: str | None) -> dict[str, str]:
    """The authority's tools by the names of their options."""
    if decision_tool is not None and decision_tool == output_check_tool:
        raise ConfigurationError("output_check_tool: the decision tool can't be the output-check tool as well")
    given = {"decision_tool": decision_tool, "output_check_tool": output_check_tool}
    return {option: name_of(tool, option) for option, tool in given.items() if tool is not None}
