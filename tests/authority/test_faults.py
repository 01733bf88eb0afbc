"""A database that is full, locked, gone or back: a clear 503, nothing half-written, and on it goes when it is there."""

import logging
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from authority.asking import evidence, refusal
from authority.conftest import Place
from authority.packs import HELPDESK
from authority.postgres import Postgres
from authority.whole import ids_in_a_whole_chain
from preaction.authority import LocalAuthority
from preaction.authority.refusal import Refused
from preaction.authority.storage import databases
from preaction.authority.storage.storage import ANSWERS, Storage
from preaction.errors import AuthorityError


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def decide(authority: LocalAuthority, entity_id: str = "HC-1", **more: Any) -> str:
    return str(authority.decide("triage-ticket", entity_id=entity_id, evidence=evidence(), **more)["executionId"])


def whole(authority: LocalAuthority) -> list[str]:
    return ids_in_a_whole_chain(authority._storage)


@contextmanager
def full(authority: LocalAuthority) -> Iterator[None]:
    """PostgreSQL's own error for a disk without room, at the place where it would come."""
    error = "BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END"
    with authority._storage.writing() as connection:
        connection.exec_driver_sql(f"CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $${error}$$")
        connection.exec_driver_sql(
            "CREATE TRIGGER no_room AFTER INSERT ON executions FOR EACH ROW EXECUTE FUNCTION no_room()"
        )
    yield
    with authority._storage.writing() as connection:
        connection.exec_driver_sql("DROP TRIGGER no_room ON executions")


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_full_disk_of_the_server_keeps_nothing_of_a_decision(
    opened: Callable[..., LocalAuthority], caplog: pytest.LogCaptureFixture
) -> None:
    authority = opened(HELPDESK)
    first = decide(authority)
    with full(authority), caplog.at_level(logging.ERROR):
        assert refusal(decide, authority, "HC-2", idempotency_key="a")[0] == 503
    assert [record.getMessage() for record in caplog.records] == ["the database failed: DiskFull"]
    assert whole(authority) == [first]
    second = decide(authority, "HC-2", idempotency_key="a")
    assert whole(authority) == [first, second]


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_full_database_keeps_nothing_of_a_decision(opened: Callable[..., LocalAuthority], place: Place) -> None:
    authority = opened(HELPDESK)
    made = [decide(authority)]

    def limit(raw: Any, _record: object, _proxy: object) -> None:
        raw.execute(f"PRAGMA max_page_count = {pages}")

    pages = 1  # SQLite takes what there is as the least
    engine = authority._storage._database.writer
    sa.event.listen(engine, "checkout", limit)

    def fill() -> None:
        for number in range(200):  # until the pages that are there already are full
            made.append(decide(authority, f"HC-{number}", idempotency_key=f"{number}"))

    with pytest.raises(AuthorityError, match="503"):
        fill()
    assert refusal(decide, authority, "HC-A", idempotency_key="again")[0] == 503
    assert whole(authority) == made
    assert authority.verify(made[-1])["valid"]
    pages = 100_000
    made.append(decide(authority, "HC-A", idempotency_key="again"))
    assert whole(authority) == made


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_disk_that_takes_no_more_keeps_nothing_of_a_decision(place: Place, tmp_path: Path) -> None:
    """A process whose files may not grow any more; the disk's own refusal comes in the same place."""
    pack = tmp_path / "pack.yaml"
    pack.write_text(HELPDESK, "utf-8")
    code = (
        "import resource, sys, pathlib\n"
        "from preaction.authority import LocalAuthority\n"
        "from preaction.errors import AuthorityError\n"
        "authority = LocalAuthority.from_pack(sys.argv[1], sys.argv[2])\n"
        "size = max(each.stat().st_size for each in pathlib.Path(sys.argv[3]).glob('decisions.db*'))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + 30_000, size + 30_000))\n"
        "for number in range(100):\n"
        "    try:\n"
        "        print(authority.decide('triage-ticket', entity_id=f'HC-{number}')['executionId'], flush=True)\n"
        "    except AuthorityError as error:\n"
        "        sys.exit(error.status)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(pack), str(place.url), str(tmp_path)],
        stdout=subprocess.PIPE,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    answered = done.stdout.decode().split()
    assert done.returncode == 503 & 0xFF
    assert 0 < len(answered) < 100
    storage = Storage(str(place.url))
    assert ids_in_a_whole_chain(storage) == answered
    storage.close()


def test_a_locked_database_is_a_503_and_goes_on(
    opened: Callable[..., LocalAuthority], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = opened(HELPDESK)
    monkeypatch.setattr(databases, "WAIT_S", 1)
    authority = opened(HELPDESK)
    first = decide(authority)
    with other._storage.writing():
        assert refusal(decide, authority, "HC-2")[0] == 503
        assert authority.verify(first)["valid"]  # readers don't wait
    second = decide(authority, "HC-2")
    assert whole(authority) == [first, second]


@pytest.mark.parametrize("kind", ["sqlite"])
def test_another_program_that_locks_the_file_is_a_503(
    opened: Callable[..., LocalAuthority], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "WAIT_S", 0.1)
    authority = opened(HELPDESK)
    first = decide(authority)
    program = sqlite3.connect(tmp_path / "decisions.db", isolation_level=None)
    program.execute("BEGIN EXCLUSIVE")
    assert refusal(decide, authority, "HC-2")[0] == 503
    program.execute("COMMIT")
    program.close()
    assert whole(authority) == [first]


# ---------------------------------------------------------------- a server that goes and comes back


@pytest.fixture(scope="module")
def stopping(postgres: Postgres) -> Iterator[Postgres]:
    """A PostgreSQL that tests may stop."""
    server = Postgres(postgres.programs)
    yield server
    server.remove()


@pytest.fixture
def own(kind: str, tmp_path: Path, stopping: Postgres) -> Iterator[tuple[Postgres, LocalAuthority]]:
    """That server, and an authority over it."""
    with LocalAuthority.from_pack(HELPDESK, stopping.new_database(), signing_key=tmp_path / "key") as authority:
        yield stopping, authority


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_server_that_was_restarted_is_not_noticed(
    own: tuple[Postgres, LocalAuthority], caplog: pytest.LogCaptureFixture
) -> None:
    server, authority = own
    first = decide(authority)
    assert authority.verify(first)["valid"]
    server.stop()
    server.start()
    assert authority.verify(first)["valid"]
    second = decide(authority, "HC-2")
    assert whole(authority) == [first, second]
    assert caplog.records == []


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_server_that_is_gone_is_a_503_until_it_is_back(
    own: tuple[Postgres, LocalAuthority], caplog: pytest.LogCaptureFixture
) -> None:
    server, authority = own
    first = decide(authority)
    server.stop()
    for question in (lambda: decide(authority, "HC-2"), lambda: authority.verify(first), authority.list_jobs):
        assert refusal(question)[0] == 503
    assert {record.getMessage() for record in caplog.records} == {"the database failed: OperationalError"}
    assert not any(record.exc_info for record in caplog.records)
    server.start()
    second = decide(authority, "HC-2")
    assert whole(authority) == [first, second]


@pytest.mark.parametrize("kind", ["postgresql"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_server_that_goes_in_the_middle_of_a_transaction_keeps_nothing_of_it(
    own: tuple[Postgres, LocalAuthority], caplog: pytest.LogCaptureFixture, moment: str
) -> None:
    server, authority = own
    storage = authority._storage
    row = {"id": "one", "request": "r", "answer": "a", "created_at": "2026-11-30T09:00:00Z"}

    def write() -> None:
        with storage.writing() as connection:
            if moment == "after":
                storage.insert(connection, ANSWERS, row)
            server.stop()
            server.start()
            if moment == "before":
                storage.one(connection, sa.select(ANSWERS))

    with pytest.raises(Refused, match="503"):
        write()
    with storage.reading() as connection:
        assert storage.one(connection, sa.select(ANSWERS)) is None
    assert not any(record.exc_info for record in caplog.records)
    first = decide(authority)
    assert whole(authority) == [first]


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_server_restarted_under_load_loses_nothing_that_was_answered(own: tuple[Postgres, LocalAuthority]) -> None:
    server, authority = own
    answered, refused, stop = list[str](), list[int | None](), threading.Event()

    def work(name: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                answered.append(decide(authority, f"HC-{name}-{number}"))
            except AuthorityError as error:
                refused.append(error.status)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        before = len(answered)
        while len(answered) < before + 20:
            threads[0].join(0.01)
        server.stop()
        server.start()
    stop.set()
    for thread in threads:
        thread.join(30)
    assert set(refused) <= {503}
    assert refused
    assert set(answered) <= set(whole(authority))
    decide(authority, "HC-last")


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_server_that_stands_still_in_a_transaction_loses_its_turn(
    opened: Callable[..., LocalAuthority], monkeypatch: pytest.MonkeyPatch
) -> None:
    awake = opened(HELPDESK)
    monkeypatch.setitem(databases._POSTGRES_SETTINGS, "idle_in_transaction_session_timeout", "3s")
    still = opened(HELPDESK)
    made: list[str] = []

    def stand() -> None:
        with still._storage.writing():
            made.append(decide(awake))

    with pytest.raises(Refused, match="503"):
        stand()
    assert whole(still) == made
