"""The authority in this process: the same answers as over HTTP, as plain dicts in wire shape."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar

from anyio import to_thread
from pydantic import BaseModel
from starlette.types import ASGIApp

from preaction.authority.expressions.evaluator import in_loop
from preaction.authority.facts.lookups import Lookups
from preaction.authority.facts.lookups_file import Source, read_lookups
from preaction.authority.keys import Caller, Keyring
from preaction.authority.ledger.shelf import Shelf
from preaction.authority.operators import Operators
from preaction.authority.packs.release import read_release
from preaction.authority.refusal import Refused, invalid
from preaction.authority.server.api import build_app
from preaction.authority.server.limits import Limits, Rate, read_rate
from preaction.authority.server.serve import Served, serving
from preaction.authority.service import Clock, Service
from preaction.authority.storage.storage import Storage
from preaction.errors import AuthorityError, ConfigurationError, InvalidJSON
from preaction.wire import strict_json
from preaction.wire.times import read_time, write_time

Answer: TypeAlias = dict[str, Any]
T = TypeVar("T")

_LIMIT: Final = 1 << 20


class LocalAuthority:
    """An authority for one pack, over its own database.

    `decide`, `verify` and the others take and give what the wire has; the ones prefixed with `a` are for event loops.
    A request that is refused raises `AuthorityError` with `kind` "status", the `status` that HTTP would have had, and
    the `problem`. May be used from several threads.
    """

    def __init__(self, storage: Storage, pack: str, lookups: Lookups, clock: Clock, rate: Rate | None = None) -> None:
        """Use `from_pack`."""
        self._shelf = shelf = Shelf(storage)
        self._lookups = lookups
        self._keyring = keyring = Keyring(storage)
        self._storage = storage
        self._closed = False
        self._agent: Final = Caller("local-agent", "agent", pack)
        self._operator: Final = Caller("local-operator", "operator", pack)
        self._service = Service(storage, shelf, lookups, clock)
        self._operators = Operators(storage, shelf, lookups.known, clock)
        self.agent_key: Final = keyring.create_passing("agent", pack)
        """For all jobs of the pack; ends with this object."""
        self.operator_key: Final = keyring.create_passing("operator", pack)
        self.app: Final[ASGIApp] = build_app(
            storage, self._service, self._operators, keyring, Limits(rate), self._ready
        )

    @classmethod
    def from_pack(
        cls,
        pack: str | Path,
        db: str | Path | None = None,
        clock: Callable[[], datetime] | None = None,
        *,
        signing_key: str | Path | None = None,
        lookups: Source = None,
        rate: str | Rate | None = None,
    ) -> Self:
        """Publish a pack and answer by it.

        `pack` is a path, or the YAML itself (a text of several lines). `db` is a URL such as `sqlite:///decisions.db`
        or `postgresql://host/name`, or the path of SQLite's file; None keeps everything in memory. `signing_key` is the
        file of the signing key, which PostgreSQL needs. `clock` gives the time, with a zone. `lookups` are what facts
        `from: lookup` are read by: the path of a `lookups.yaml`, its content, or `Lookup` objects by name. `rate`, such
        as `50/s`, is how many requests each key may send over HTTP; None is any number.

        Raises `PackError` with the line and column of each error, and `ConfigurationError` for a pack that isn't
        there, a known version with other content, or a database or lookups that can't be used.
        """
        with ExitStack() as opened:
            ready = read_lookups(lookups)
            opened.callback(ready.close)
            allowed = read_rate(rate) if isinstance(rate, str) else rate
            release = read_release(pack_text(pack), ready.known)
            url = f"sqlite:///{db}" if isinstance(db, Path) else db
            storage = Storage(url, None if signing_key is None else Path(signing_key))
            opened.callback(storage.close)
            authority = cls(storage, release.pack, ready, clock or _now, allowed)
            try:
                authority._operators.keep(release)
                authority._operators.check_current(release.pack)
            except Refused as refused:
                raise ConfigurationError(f"{release.pack} {release.version}: {refused.problem.title}") from None
            opened.pop_all()
        return authority

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close database and lookups. Every later request raises `AuthorityError` with `kind` "closed"."""
        self._closed = True
        self._lookups.close()
        self._storage.close()

    def before_fork(self) -> None:
        """Close the connections to the database, which two processes can't share; each opens its own again."""
        self._storage.close()

    def serve(self, host: str = "127.0.0.1", port: int = 0) -> AbstractContextManager[Served]:
        """The same authority over HTTP, in a background thread while the block runs; the object has its `origin`."""
        return serving(self.app, host, port)

    def list_jobs(self) -> list[Answer]:
        """The pack's jobs, at the current release."""
        return [_plain(each) for each in self._ask(lambda: self._service.list_jobs(self._agent))]

    def describe_job(self, job: str, release: str | None = None) -> Answer:
        """A job's description, at the current release or at the one named."""
        return _plain(self._ask(lambda: self._service.describe_job(self._agent, job, release)))

    def decide(
        self,
        job: str,
        *,
        entity_id: str | None = None,
        evidence: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        content: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> Answer:
        """Decide on a case; the answer's `executionId` is its receipt's name."""
        given = {"entity_id": entity_id, "evidence": evidence, "fields": fields, "content": content}
        body = {name: part for name, part in given.items() if part is not None}
        return _plain(self._ask(lambda: self._service.decide(self._agent, job, _strict(body), idempotency_key)))

    def verify(self, execution_id: str, include: Mapping[str, Any] | None = None) -> Answer:
        """Check an execution's record, decide again, and compare. `include` as the wire has it."""
        body = {} if include is None else {"include": include}
        return _plain(self._ask(lambda: self._service.verify(self._agent, execution_id, _strict(body))))

    def check_output(
        self, execution_id: str, *, output: str, content: Mapping[str, str], idempotency_key: str | None = None
    ) -> Answer:
        """Check one exact text by the rules of the execution's release."""
        body = {"output": output, "content": content}
        ask = partial(self._service.check_output, self._agent, execution_id)
        return _plain(self._ask(lambda: ask(_strict(body), idempotency_key)))

    def verify_output_check(self, check_id: str) -> Answer:
        """Whether an output check stands."""
        return _plain(self._ask(lambda: self._service.verify_output_check(self._agent, check_id, {})))

    def report_verdict(self, report: Mapping[str, Any], *, idempotency_key: str | None = None) -> Answer:
        """Keep what a gate says that it said about one call; `report` as the wire has it."""
        return _plain(self._ask(lambda: self._service.report_verdict(self._agent, _strict(report), idempotency_key)))

    def revoke(self, execution_id: str) -> Answer:
        """Revoke an execution for good."""
        return _plain(self._ask(lambda: self._operators.revoke(self._operator, execution_id, {})))

    def publish(self, pack_text: str) -> Answer:
        """Publish a release of this pack from its YAML; 409 for a known version with other content."""
        return _plain(self._ask(lambda: self._operators.publish(self._operator, pack_text))[0])

    async def alist_jobs(self) -> list[Answer]:
        """`list_jobs`, from an event loop."""
        return self.list_jobs()

    async def adescribe_job(self, job: str, release: str | None = None) -> Answer:
        """`describe_job`, from an event loop."""
        return self.describe_job(job, release)

    async def adecide(
        self,
        job: str,
        *,
        entity_id: str | None = None,
        evidence: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        content: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> Answer:
        """`decide`, from an event loop; it waits for the disk in a thread."""
        return await to_thread.run_sync(
            partial(
                self.decide,
                job,
                entity_id=entity_id,
                evidence=evidence,
                fields=fields,
                content=content,
                idempotency_key=idempotency_key,
            )
        )

    async def averify(self, execution_id: str, include: Mapping[str, Any] | None = None) -> Answer:
        """`verify`, from an event loop: an indexed read, handed to a thread only if it waits for a long condition."""
        return await in_loop(partial(self.verify, execution_id, include))

    async def acheck_output(
        self, execution_id: str, *, output: str, content: Mapping[str, str], idempotency_key: str | None = None
    ) -> Answer:
        """`check_output`, from an event loop; it waits for the disk in a thread."""
        check = partial(
            self.check_output, execution_id, output=output, content=content, idempotency_key=idempotency_key
        )
        return await to_thread.run_sync(check)

    async def averify_output_check(self, check_id: str) -> Answer:
        """`verify_output_check`, from an event loop."""
        return self.verify_output_check(check_id)

    async def areport_verdict(self, report: Mapping[str, Any], *, idempotency_key: str | None = None) -> Answer:
        """`report_verdict`, from an event loop; it waits for the disk in a thread."""
        return await to_thread.run_sync(partial(self.report_verdict, report, idempotency_key=idempotency_key))

    def _ready(self) -> None:
        """`Refused` with 503 unless the database answers and has the pack's current release."""
        with self._storage.reading() as connection:
            if self._closed or self._shelf.current(connection, self._agent.pack) is None:
                raise Refused(503, "There is no current release.")

    def _ask(self, question: Callable[[], T]) -> T:
        if self._closed:
            raise AuthorityError("the authority is closed", kind="closed")
        try:
            return question()
        except Refused as refused:
            problem = refused.problem
            raise AuthorityError(
                f"the authority refused the request: {problem.status} {problem.title}",
                kind="status",
                status=problem.status,
                problem=problem.model_dump(mode="json", exclude_unset=True),
            ) from None


def pack_text(pack: str | Path) -> str:
    """A pack's YAML: the text itself, when it has several lines, or that of the file."""
    if isinstance(pack, str) and "\n" in pack:
        return pack
    try:
        return Path(pack).read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(f"the pack {Path(pack).name} is not valid UTF-8") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no file has such a name"
        raise ConfigurationError(f"the pack {Path(pack).name} can't be read: {why}") from None


def _now() -> datetime:
    return datetime.now(UTC)


def _plain(model: BaseModel) -> Answer:
    return model.model_dump(mode="json", exclude_unset=True)


def _strict(body: Mapping[str, Any]) -> Any:
    """What the other side of the wire would have read: the same text, through the same strict reader."""
    try:
        return strict_json.load_object(json.dumps(body, default=_wire_value), max_bytes=_LIMIT)
    except (InvalidJSON, TypeError, ValueError, RecursionError) as error:
        raise invalid([((), f"not JSON: {error}" if isinstance(error, InvalidJSON) else "not JSON")]) from None


def _wire_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return write_time(read_time(value))
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)
