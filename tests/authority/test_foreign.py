"""What is another tenant's is, to a key, not there: the same bytes as for nothing, and the same work to get at them.

Work is what ran and in which order: every function of ours and of what checks signatures, every built-in that those
called, and the text of every statement. Equal work takes equal time on any machine; `bench/foreign.py` measures it.
"""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import joserfc
import pytest
import sqlalchemy as sa

import preaction
from authority.asking import REPLY, evidence, refusal
from authority.conftest import Clock
from authority.console.conftest import Visitor
from authority.packs import HELPDESK
from authority.tampering import run
from authority.test_verdicts import REPORT
from preaction.authority import LocalAuthority
from preaction.authority.console import reading
from preaction.authority.keys import Caller
from preaction.authority.refusal import Refused
from preaction.authority.server.operations import OPERATIONS, Call, Run
from preaction.authority.storage.storage import CHECKS, EXECUTIONS, Storage

OTHER = HELPDESK.replace("pack: helpdesk", "pack: otherdesk")
"""Another tenant's pack, with jobs and a version of the same names."""
NEWER = OTHER.replace("2026-11-03.1", "2026-11-04.1") + HELPDESK.partition("jobs:\n")[2].replace(
    "triage-ticket", "other-job"
)

OURS = tuple(f"{Path(module.__file__).parent}/" for module in (preaction, joserfc) if module.__file__)


@dataclass(frozen=True)
class Names:
    """What is asked about: all of another tenant, or all of nobody, of the same lengths."""

    execution: str
    check: str
    job: str
    pack: str
    release: str
    case: str
    key: str


Ask = Callable[[Names, str], tuple[Mapping[str, str], Mapping[str, str], Any]]
"""Names, and an execution of one's own → the path's names, the query and the body of one request."""

CHECKED: Any = {"output": "billing-team-reply", "content": REPLY}

ASKS: dict[str, list[Ask]] = {
    "describe_job": [lambda n, _: ({"job": n.job}, {}, None)],
    "describe_job_at_release": [
        lambda n, _: ({"job": "triage-ticket", "release": n.release}, {}, None),
        lambda n, _: ({"job": n.job, "release": "2026-11-03.1"}, {}, None),
    ],
    "decide_job": [lambda n, _: ({"job": n.job}, {}, {"entity_id": "HC-1", "evidence": evidence()})],
    "verify_execution": [
        lambda n, _: ({"id": n.execution}, {}, {}),
        lambda n, own: ({"id": own}, {}, {"include": {"outputChecks": [n.check]}}),
    ],
    "check_output": [lambda n, _: ({"id": n.execution}, {}, CHECKED)],
    "verify_output_check": [lambda n, _: ({"id": n.check}, {}, {})],
    "report_verdict": [lambda n, _: ({}, {}, {**REPORT, "executionId": n.execution, "checkId": n.check})],
    "publish_pack": [lambda n, _: ({}, {}, HELPDESK.replace("pack: helpdesk", f"pack: {n.pack}"))],
    "list_releases": [lambda n, _: ({"pack": n.pack}, {}, None)],
    "compare_releases": [
        lambda n, _: ({"pack": n.pack, "release": n.release}, {}, None),
        lambda n, _: ({"pack": "helpdesk", "release": n.release}, {"since": "2026-11-03.1"}, None),
        lambda n, _: ({"pack": "helpdesk", "release": "2026-11-03.1"}, {"since": n.release}, None),
    ],
    "revoke_execution": [lambda n, _: ({"id": n.execution}, {}, {})],
    "list_executions": [lambda n, _: ({}, {"case": n.case}, None), lambda n, _: ({}, {"job": n.job}, None)],
}
SIGNED = "receipts.open_receipt", "receipts.seal", "executions.replay"
SAME = {operation.name: operation for operation in OPERATIONS}


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@dataclass(frozen=True)
class Tenants:
    """Who asks, with an execution of its own; whose things there are; and names that nobody has."""

    authority: LocalAuthority
    own: str
    foreign: Names
    nobody: Names


@pytest.fixture
def tenants(opened: Callable[..., LocalAuthority], clock: Clock) -> Tenants:
    other = opened(OTHER)
    made = other.decide("triage-ticket", entity_id="HC-F", evidence=evidence())
    check = other.check_output(made["executionId"], **CHECKED)
    other.publish(NEWER)
    key = other._keyring.create("agent", "otherdesk", None, clock()).split("_")[2]
    foreign = Names(made["executionId"], check["checkId"], "other-job", "otherdesk", "2026-11-04.1", "HC-F", key)
    authority = opened(HELPDESK)
    own = authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())["executionId"]
    return Tenants(authority, own, foreign, unlike(foreign, "Z"))


def unlike(names: Names, end: str) -> Names:
    """The same names, but for their last letter."""
    return Names(**{part: text[:-1] + (end if part != "key" else "0") for part, text in vars(names).items()})


# ---------------------------------------------------------------- the same work


@contextmanager
def statements(storage: Storage, said: list[str]) -> Iterator[None]:
    """Note every statement that is run, by SQLAlchemy or by the driver itself."""

    def told(_connection: Any, _cursor: Any, text: str, *_rest: Any) -> None:
        said.append(text)

    def driven(connection: sa.Connection, text: str, values: Any) -> Any:
        said.append(text)
        return driver(connection, text, values)

    driver = storage._driven
    storage._driven = driven  # type: ignore[method-assign]
    engines = {storage._database.reader, storage._database.writer}
    for engine in engines:
        sa.event.listen(engine, "before_cursor_execute", told)
    try:
        yield
    finally:
        storage._driven = driver  # type: ignore[method-assign]
        for engine in engines:
            sa.event.remove(engine, "before_cursor_execute", told)


def work(storage: Storage, question: Callable[[], object]) -> list[str]:
    """All that ran until a question was answered or refused, in order."""
    found: list[str] = []

    def watch(frame: FrameType, event: str, what: Any) -> None:
        if not frame.f_code.co_filename.startswith(OURS):
            return
        if event == "call":
            found.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_qualname}")
        elif event == "c_call":
            found.append(f"  {getattr(what, '__qualname__', what)}")

    gc.disable()  # what is collected meanwhile is no work of this question
    with statements(storage, found):
        sys.setprofile(watch)
        try:
            question()
        except Refused as refused:
            found.append(repr(refused))
        finally:
            sys.setprofile(None)
            gc.enable()
    return found


def took(tenants: Tenants, question: Callable[[Names], object]) -> tuple[list[str], list[str]]:
    """What a question took about nobody's, and about another's."""
    storage = tenants.authority._storage
    work(
        storage, lambda: question(unlike(tenants.foreign, "Y"))
    )  # compiles and imports what is used for the first time
    nothing = work(storage, lambda: question(tenants.nobody))
    return nothing, work(storage, lambda: question(tenants.foreign))


def test_anothers_takes_the_same_work_as_nothing(tenants: Tenants) -> None:
    authority = tenants.authority
    for name, asks in ASKS.items():
        operation = SAME[name]
        caller = authority._agent if operation.role == "agent" else authority._operator
        for ask in asks:

            def question(names: Names, ask: Ask = ask, caller: Caller = caller, run: Run = operation.run) -> object:
                path, query, body = ask(names, tenants.own)
                return run(authority._service, authority._operators, Call(caller, path, query, body, None))

            nothing, foreign = took(tenants, question)
            assert foreign == nothing, name
            assert foreign, name


def test_what_is_anothers_is_neither_opened_nor_decided_again(tenants: Tenants) -> None:
    service, storage, agent = tenants.authority._service, tenants.authority._storage, tenants.authority._agent
    for question in (
        lambda: service.verify(agent, tenants.foreign.execution, {}),
        lambda: service.check_output(agent, tenants.foreign.execution, CHECKED),
        lambda: service.verify_output_check(agent, tenants.foreign.check, {}),
    ):
        steps = work(storage, question)
        assert sum(step.startswith("SELECT") for step in steps) == 1
        assert not [step for step in steps if step.endswith(SIGNED)]
    steps = work(storage, lambda: service.verify(agent, tenants.own, {}))
    assert set(SIGNED) <= {step for step in steps if step.endswith(SIGNED)}  # so that is how it would look


def test_the_console_takes_the_same_work_too(tenants: Tenants) -> None:
    operator, storage = tenants.authority._operator, tenants.authority._storage
    questions: list[Callable[[Names], object]] = [
        lambda names: reading.decided(storage, operator, names.execution),
        lambda names: reading.checked(storage, operator, names.check),
        lambda names: reading.checks_page(storage, operator, names.job, None),
        lambda names: reading.verdicts_page(storage, operator, {"case_id": names.case, "job": names.job}, None),
    ]
    for question in questions:
        nothing, foreign = took(tenants, question)
        assert foreign == nothing


def test_a_wrong_secret_takes_the_same_work_whoever_has_that_id(tenants: Tenants) -> None:
    keyring = tenants.authority._keyring
    nothing, foreign = took(tenants, lambda names: keyring.caller(f"pa_agent_{names.key}_{'x' * 43}"))
    assert foreign == nothing
    assert sum(step.startswith("SELECT") for step in foreign) == 1


def test_every_operation_is_asked_about_anothers() -> None:
    assert set(ASKS) | {"list_jobs"} == set(SAME)


# ---------------------------------------------------------------- whose it is, when somebody altered that


@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize("table", [EXECUTIONS, CHECKS], ids=lambda table: table.name)
def test_an_altered_pack_shows_it_to_nobody_else_and_hides_it_from_nobody(
    opened: Callable[..., LocalAuthority], tenants: Tenants, table: sa.Table
) -> None:
    """Its own tenant is told that it was altered, whatever the column says; whom it names is told of nothing."""
    owner, foreign = opened(OTHER), tenants.foreign
    wanted = foreign.execution if table is EXECUTIONS else foreign.check
    ask = LocalAuthority.verify if table is EXECUTIONS else LocalAuthority.verify_output_check
    assert ask(owner, wanted)["valid"]
    for pack in ("helpdesk", "nobody's"):
        run(owner, table.update().where(table.c.id == wanted).values(pack=pack))
        assert not ask(owner, wanted)["valid"]
        assert refusal(ask, tenants.authority, wanted)[0] == 404


@pytest.mark.parametrize("kind", ["sqlite"])
def test_an_altered_job_hides_an_execution_from_keys_for_some_jobs_alone(tenants: Tenants) -> None:
    authority = tenants.authority
    run(authority, EXECUTIONS.update().where(EXECUTIONS.c.id == tenants.own).values(job="other-job"))
    assert authority.verify(tenants.own)["problems"] == ["record_altered"]
    for jobs in ("triage-ticket", "other-job"):
        with pytest.raises(Refused) as refused:
            authority._service.verify(Caller("k", "agent", "helpdesk", frozenset({jobs})), tenants.own, {})
        assert refused.value.status == 404


# ---------------------------------------------------------------- the same bytes


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_anothers_gets_the_same_bytes_as_nothing(tenants: Tenants) -> None:
    authority = tenants.authority
    transport = httpx.ASGITransport(authority.app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://authority") as http:
        for name, asks in ASKS.items():
            operation = SAME[name]
            key = authority.agent_key if operation.role == "agent" else authority.operator_key
            for ask in asks:
                answers = []
                for names in (tenants.nobody, tenants.foreign):
                    path, query, body = ask(names, tenants.own)
                    sent: Any = {"content": body} if isinstance(body, str) else {"json": body}
                    answers.append(
                        await http.request(
                            operation.method,
                            operation.path.format(**path),
                            headers={"Authorization": f"Bearer {key}"},
                            params=query,
                            **sent,
                        )
                    )
                nothing, foreign = answers
                assert (foreign.status_code, foreign.headers) == (nothing.status_code, nothing.headers), name
                if name != "report_verdict":  # its answer is a new id
                    assert foreign.content == nothing.content, name


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_the_console_shows_the_same_bytes_too(tenants: Tenants) -> None:
    visitor = Visitor(tenants.authority)
    await visitor.sign_in()
    for path in ("decisions/{0.execution}", "output-checks/{0.check}", "changes?release={0.release}"):
        nothing = await visitor.get("/console/" + path.format(tenants.nobody))
        foreign = await visitor.get("/console/" + path.format(tenants.foreign))
        assert (foreign.status_code, foreign.content) == (nothing.status_code, nothing.content) != (200, b"")
    await visitor.http.aclose()
