"""What a session knows: decisions, output checks and uses, over a store.

Requirements G7, G8, G38 and G43a. Only what the authority's own tools returned gets in; a model's account never does.
"""

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from preaction._core.call import fold
from preaction._core.case import ids_of
from preaction._core.company import plain_host
from preaction._core.facts import Known, KnownText, Memory, Recall, RecallTexts, SessionAsk, Use, UseAnswer
from preaction.errors import MisuseError
from preaction.results import read_result
from preaction.stores import Slot, Store
from preaction.wire.models import Decision, OutputCheck
from preaction.wire.times import write_time

log = logging.getLogger("preaction")

SHOWN_CASES = 2
SHOWN_RELEASES = 9

Unseen = Callable[[], Collection[str]]
"""Gives the ids of executions and output checks that count as not recorded yet."""


def nothing() -> Collection[str]:
    """Everything recorded counts."""
    return ()


def ignored(id: str) -> None:
    """Nobody needs to hear of a record."""


class Sessions:
    """One gate's view of a store: records results for `job`, and answers what the decision asks of a session."""

    def __init__(self, store: Store, job: str, clock: Callable[[], datetime], keep_uses: timedelta) -> None:
        self._store = store
        self._job = job
        self._clock = clock
        self._keep_uses = keep_uses

    # Answering --------------------------------------------------------------------------------------------------------

    def answer(self, session: str, ask: SessionAsk, unseen: Unseen = nothing) -> object:
        """The answer to one ask, in the type that the ask names, without what is `unseen`.

        Raises what the store and `unseen` raise. `unseen` is asked after each reading: a record that comes in between
        must not be taken for one that was seen.
        """
        match ask:
            case Recall():
                return self._memory(session, ask, unseen)
            case RecallTexts(execution_id, digest):
                found = [
                    (output, *json.loads(value))
                    for output, value in self._store.read(session, _texts(execution_id, digest))
                ]
                latest_first = sorted(found, key=lambda one: str(one[-1]), reverse=True)
                hidden = unseen()
                return tuple(
                    [
                        KnownText(id, output, release, passed)
                        for output, id, release, passed, _ in latest_first
                        if id not in hidden
                    ]
                )
            case _:
                return self._use(session, ask)

    def _memory(self, session: str, ask: Recall, unseen: Unseen) -> Memory:
        read, decisions = self._store.read, f"decision/{ask.job}"
        cases = [case for name in ask.names for case, _ in read(session, f"name/{ask.job}/{name}")]
        named = self._store.read_many(session, decisions, list(dict.fromkeys(cases))) if cases else []
        releases = read(session, f"release/{ask.job}", SHOWN_RELEASES) if ask.whole else []
        return Memory(
            now=self._clock(),
            named=_seen(named, unseen),
            first=self._first(session, decisions, unseen) if ask.whole else (),
            releases=tuple([release for release, _ in releases]),
            full=self._store.is_full(session),
        )

    def _first(self, session: str, decisions: str, unseen: Unseen) -> tuple[Known, ...]:
        """The first cases of the session; where one of them is unseen, the next take its place."""
        found = self._store.read(session, decisions, SHOWN_CASES)
        seen = _seen(found, unseen)
        if len(seen) < len(found):
            seen = _seen(self._store.read(session, decisions), unseen)
        return seen[:SHOWN_CASES]

    def _use(self, session: str, ask: Use) -> UseAnswer:
        # A decision is used up wherever it was recorded; a case is used up in its session.
        scope = [ask.tool, ask.per, ask.name, *([session] if ask.per == "case" else [])]
        return self._store.claim(json.dumps(scope), self._keep_uses, take=ask.take)

    # Recording --------------------------------------------------------------------------------------------------------

    def record_decision(
        self,
        session: str,
        result: object,
        *,
        entity: str | None = None,
        job: str | None = None,
        before: Callable[[str], object] = ignored,
    ) -> None:
        """Record a decision as the authority returned it; `before` hears its execution's id just before that.

        A result marked as an error records nothing. One that can't be read, but names a case, makes that case
        undecided. Both are logged. `entity` and `job`, where given, must be the result's, else `MisuseError`.
        """
        read = read_result(result)
        if read.state == "error":
            _warn("a decision result marked as an error was not recorded", "result_is_error", session)
            return
        try:
            decision = Decision.model_validate(read.content)
        except ValidationError:
            _agree(read.content, entity, job)
            self._record_unreadable(session, read.content)
            return
        _agree({"entity_id": decision.entity_id, "job": decision.job}, entity, job)
        before(decision.execution_id)
        rank = write_rank(decision.decided_at)
        slots = [Slot(f"release/{decision.job}", decision.release, "")]
        self._put_case(session, decision.job, decision.case.id, _dump(decision), rank, decision.entity_id, slots)

    def _record_unreadable(self, session: str, content: Mapping[str, Any]) -> None:
        case = content.get("case")
        case_id = case.get("id") if isinstance(case, Mapping) else None
        job = content.get("job")
        _warn("a decision result could not be read", "result_unreadable", session, names_case=bool(case_id))
        if isinstance(job, str) and job != self._job:
            return
        given = content.get("entity_id")
        entity = given if isinstance(given, str) else None
        for named in [case_id] if isinstance(case_id, str) else self._cases_of(session, entity):
            self._put_case(session, self._job, named, "", None, entity, [])

    def _cases_of(self, session: str, entity: str | None) -> list[str]:
        """The cases that an entity's latest decision named, else the entity itself."""
        if entity is None:
            return []
        cases = [case for case, _ in self._store.read(session, f"name/{self._job}/{fold(entity)}")]
        found = [_known(*pair) for pair in self._store.read_many(session, f"decision/{self._job}", cases)]
        return [known.case_id for known in found if entity in ids_of(known)] or [entity]

    def _put_case(
        self, session: str, job: str, case: str, value: str, rank: str | None, entity: str | None, slots: list[Slot]
    ) -> None:
        names = {name for id in (case, entity) if id is not None for name in (fold(id), plain_host(id))}
        slots += [Slot(f"name/{job}/{name}", case, "") for name in names if name is not None]
        slots.append(Slot(f"decision/{job}", case, value, rank, "decision"))
        self._keep(session, slots)

    def record_output_check(self, session: str, result: object, *, before: Callable[[str], object] = ignored) -> None:
        """Record an output check as the authority returned it; `before` hears its id just before that.

        One that can't be read, or is an error, is logged.
        """
        try:
            check = OutputCheck.model_validate(read_result(result).content)
        except ValidationError:
            _warn("an output check could not be read", "output_check_unreadable", session)
            return
        before(check.check_id)
        rank = write_rank(check.checked_at)
        value = json.dumps([check.check_id, check.release, check.passed, rank])
        group = _texts(check.execution_id, check.content_digest)
        self._keep(session, [Slot(group, check.output, value, rank, "output_check")])

    def _keep(self, session: str, slots: list[Slot]) -> None:
        if not self._store.put(session, slots):
            _warn("the session is full and takes no more records", "session_full", session)


def _warn(what: str, code: str, session: str, **more: bool) -> None:
    log.warning(what, extra={"code": code, "session_id": session, **more})


def _agree(content: Mapping[str, Any], entity: str | None, job: str | None) -> None:
    for name, wanted, given in (("entity", entity, content.get("entity_id")), ("job", job, content.get("job"))):
        if wanted is not None and wanted != given:
            raise MisuseError(f"the result is about another {name} than the {wanted!r} given; nothing was recorded")


def write_rank(at: datetime) -> str:
    """A time as a text that sorts like it."""
    return at.strftime("%Y%m%d%H%M%S%f").zfill(20)


def _dump(decision: Decision) -> str:
    """What the gate needs of a decision, as compact as it gets; read back by `_known`."""
    return json.dumps(
        [
            decision.execution_id,
            decision.job,
            decision.release,
            decision.case.identity,
            decision.entity_id,
            decision.status,
            None if decision.outcome is None else decision.outcome.id,
            write_time(decision.decided_at),
            None if decision.evidence_fresh_until is None else write_time(decision.evidence_fresh_until),
        ],
        separators=(",", ":"),
    )


# The user's side of a session -----------------------------------------------------------------------------------------


def session_id_of(session_id: object) -> str:
    """The id as a plain string, or `MisuseError` where it is none."""
    if isinstance(session_id, str) and session_id:
        return str.__str__(session_id)  # its characters: `str()` of an enum is another text
    raise MisuseError("a session id is a string that isn't empty")


@dataclass(frozen=True, slots=True)
class Decisions:
    """`gate.decisions`: for decisions got over REST rather than from the decision tool."""

    _sessions: Sessions

    def record(
        self,
        session_id: str,
        entity_id: str | None = None,
        result: object = None,
        *,
        entity: str | None = None,
        job: str | None = None,
    ) -> None:
        """Record `result` as the authority returned it.

        `entity_id` (or `entity`) and `job`, where given, must be the result's: else nothing is recorded and
        `MisuseError` is raised. Leave the entity out for a case that the authority identified itself.
        """
        if entity_id is not None and not isinstance(entity_id, str):
            raise MisuseError("entity_id is a string; give the decision as result=…; nothing was recorded")
        if entity_id is not None and entity is not None and entity_id != entity:
            raise MisuseError("entity_id and entity name two entities; nothing was recorded")
        wanted = entity if entity_id is None else entity_id
        self._sessions.record_decision(session_id_of(session_id), result, entity=wanted, job=job)


@dataclass(frozen=True, slots=True)
class OutputChecks:
    """`gate.output_checks`: for output checks got over REST rather than from the output-check tool."""

    _sessions: Sessions

    def record(self, session_id: str, result: object) -> None:
        """Record `result` as the authority returned it; one that can't be read is logged and not recorded."""
        self._sessions.record_output_check(session_id_of(session_id), result)


def _seen(found: Sequence[tuple[str, str]], unseen: Unseen) -> tuple[Known, ...]:
    hidden = unseen()
    known = [_known(*pair) for pair in found]
    if not hidden:
        return tuple(known)
    return tuple([one for one in known if one.decision is None or one.decision.execution_id not in hidden])


@lru_cache(maxsize=1024)
def _known(case: str, value: str) -> Known:
    if not value:
        return Known(case, None)
    execution_id, job, release, identity, entity, status, outcome, decided_at, fresh_until = json.loads(value)
    decision = Decision.model_validate(
        {
            "executionId": execution_id,
            "job": job,
            "release": release,
            "case": {"id": case, "identity": identity},
            "entity_id": entity,
            "status": status,
            "outcome": None if outcome is None else {"id": outcome},
            "decidedAt": decided_at,
            "evidenceFreshUntil": fresh_until,
        }
    )
    return Known(case, decision)


def _texts(execution_id: str, digest: str) -> str:
    return f"text/{execution_id}/{digest}"
