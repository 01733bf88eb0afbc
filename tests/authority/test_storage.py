"""What both kinds of database must do: one writer at a time, whole transactions or none, their own signing key."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from authority.asking import evidence, refusal
from authority.conftest import Place
from authority.packs import HELPDESK
from authority.whole import ids_in_a_whole_chain
from preaction.authority import LocalAuthority
from preaction.authority.refusal import Refused
from preaction.authority.storage import databases
from preaction.authority.storage.storage import ANSWERS, KEYS, Storage
from preaction.errors import ConfigurationError

ROW = {"id": "one", "request": "r", "answer": "a", "created_at": "2026-11-30T09:00:00Z"}
ALL = sa.select(ANSWERS)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def stored(place: Place) -> Iterator[Callable[[], Storage]]:
    """Opens the test's database, once more at each call, as another server would."""
    with ExitStack() as stack:

        def at() -> Storage:
            storage = Storage(str(place.url), place.key)
            stack.callback(storage.close)
            return storage

        yield at


def ids(storage: Storage) -> list[str]:
    with storage.reading() as connection:
        return sorted(connection.execute(sa.select(ANSWERS.c.id)).scalars())


def test_what_was_written_is_read_as_it_was(stored: Callable[[], Storage]) -> None:
    storage = stored()
    texts = {**ROW, "request": "Zoë 🦉 \t\r\n'\"%s%%:x", "answer": ""}
    with storage.writing() as connection:
        written = storage.insert(connection, ANSWERS, texts)
    with stored().reading() as connection:
        row = storage.one(connection, ALL)
    assert row == written
    assert row is not None
    assert storage.intact(ANSWERS, row)
    assert not storage.intact(ANSWERS, {**row, "request": "another"})
    assert not storage.intact(KEYS, {**dict.fromkeys(column.name for column in KEYS.columns), **row})


def test_a_row_replaced_is_sealed_again(stored: Callable[[], Storage]) -> None:
    storage = stored()
    with storage.writing() as connection:
        storage.insert(connection, ANSWERS, ROW)
        storage.replace(connection, ANSWERS, {**ROW, "answer": "another"})
        row = storage.one(connection, ALL)
    assert row is not None
    assert (row["answer"], storage.intact(ANSWERS, row)) == ("another", True)


def test_a_transaction_that_raises_leaves_nothing(stored: Callable[[], Storage]) -> None:
    storage = stored()

    def write(*, times: int) -> None:
        with storage.writing() as connection:
            for _ in range(times):
                storage.insert(connection, ANSWERS, ROW)  # the same id again is an error of the database's
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write(times=1)
    with pytest.raises(Refused, match="503"):
        write(times=2)
    assert ids(storage) == []
    with storage.writing() as connection:
        storage.insert(connection, ANSWERS, ROW)
    assert ids(storage) == ["one"]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
def test_an_altered_row_found_in_a_transaction_does_not_end_it(place: Place) -> None:
    storage = Storage(None if place.url is None else str(place.url), place.key)

    def write() -> None:
        with storage.writing() as connection:
            row = storage.insert(connection, ANSWERS, ROW)
            assert not storage.intact(ANSWERS, {**row, "answer": "another"})
            storage.insert(connection, ANSWERS, {**ROW, "id": "two"})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write()
    assert ids(storage) == []
    storage.close()


def test_two_servers_write_one_after_the_other(stored: Callable[[], Storage]) -> None:
    first, second = stored(), stored()
    entered, told = threading.Event(), list[str]()

    def write() -> None:
        entered.set()
        with second.writing() as connection:
            told.append("second")
            assert second.one(connection, ALL) is not None  # it reads what the first wrote

    with first.writing() as connection:
        thread = threading.Thread(target=write)
        thread.start()
        assert entered.wait(30)
        thread.join(0.2)
        first.insert(connection, ANSWERS, ROW)
        told.append("first")
    thread.join(30)
    assert told == ["first", "second"]


def test_what_is_not_committed_is_not_read(stored: Callable[[], Storage]) -> None:
    first, second = stored(), stored()
    with first.writing() as connection:
        first.insert(connection, ANSWERS, ROW)
        assert ids(second) == []
    assert ids(second) == ["one"]


def test_a_turn_that_does_not_come_is_a_503(stored: Callable[[], Storage], monkeypatch: pytest.MonkeyPatch) -> None:
    first = stored()
    monkeypatch.setattr(databases, "WAIT_S", 1)
    second = stored()
    with first.writing(), pytest.raises(Refused) as caught, second.writing():
        pass
    assert caught.value.status == 503
    with second.writing() as connection:
        second.insert(connection, ANSWERS, ROW)
    assert ids(first) == ["one"]


def test_what_is_no_text_of_a_row_finds_none(stored: Callable[[], Storage]) -> None:
    storage = stored()
    by_id = ALL.where(ANSWERS.c.id == sa.bindparam("id"))
    with storage.reading() as connection:
        for text in ("\ud800", "a\x00b", "", "x" * 100_000):
            assert storage.one(connection, by_id, id=text) is None


def test_a_newer_schema_takes_no_rows_of_this_server(stored: Callable[[], Storage]) -> None:
    storage = stored()
    with storage.writing() as connection:
        connection.exec_driver_sql("UPDATE schema SET version = version + 1")
    with pytest.raises(Refused, match="newer server") as caught, storage.writing():
        pass
    assert caught.value.status == 503
    with pytest.raises(ConfigurationError, match="this version knows 1 to"):
        stored()


def test_servers_that_start_at_once_make_one_database(stored: Callable[[], Storage]) -> None:
    start, opened = threading.Barrier(4), list[Storage]()

    def work() -> None:
        start.wait()
        opened.append(stored())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({storage.signer.kid for storage in opened}) == 1
    assert len(opened) == 4


def test_a_new_file_that_another_server_writes_to_just_now_is_waited_for(tmp_path: Path) -> None:
    """SQLite refuses the change to WAL at once there, however long it would wait for other locks."""
    with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        ended = threading.Timer(0.3, other.execute, ["COMMIT"])
        ended.start()
        Storage(f"sqlite:///{tmp_path / 'new.db'}").close()
        ended.join()


def test_a_database_is_opened_with_its_own_key_only(place: Place, stored: Callable[[], Storage]) -> None:
    stored().close()
    assert place.key is not None
    kept = place.key.read_text("ascii")
    place.key.unlink()
    with pytest.raises(ConfigurationError, match=f"key {place.key.name} of this database"):
        stored()
    Storage(f"sqlite:///{place.key.with_name('other.db')}", place.key).close()
    with pytest.raises(ConfigurationError, match="belongs to another one"):
        stored()
    place.key.write_text(kept, "ascii")
    stored()


@pytest.mark.parametrize("entity_id", ["a\x00b", "\x00"])
def test_a_case_has_no_id_that_one_kind_could_not_keep(opened: Callable[..., LocalAuthority], entity_id: str) -> None:
    assert refusal(opened().decide, "triage-ticket", entity_id=entity_id)[0] == 422


def test_two_servers_make_one_chain(opened: Callable[..., LocalAuthority]) -> None:
    servers = [opened(HELPDESK), opened(HELPDESK)]
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for each in range(5):
            servers[number % 2].decide("triage-ticket", entity_id=f"HC-{number}-{each}", evidence=evidence())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    made = ids_in_a_whole_chain(servers[0]._storage)
    assert len(made) == 40
    assert all(servers[1].verify(each)["valid"] for each in made)


# ---------------------------------------------------------------- how one is named


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "key"


def test_postgresql_needs_a_key_by_name() -> None:
    with pytest.raises(ConfigurationError, match="--signing-key"):
        Storage("postgresql://host/name")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://who:s3cret@127.0.0.1:1/name",
        "postgresql://who:s3cret@127.0.0.1:port/name",
        "postgresql://who:s3cret@/name?host=/nowhere",
        "postgresql://who:s3cret@/name?no_such_option=s3cret",
        "mysql://who:s3cret@127.0.0.1/name",
    ],
)
def test_a_server_that_cannot_be_reached_is_one_error_without_the_password(url: str, key: Path) -> None:
    with pytest.raises(ConfigurationError, match="database") as caught:
        Storage(url, key)
    assert "s3cret" not in str(caught.value)
    assert not key.exists()


def test_a_driver_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, key: Path) -> None:
    def missing(*_arguments: object, **_options: object) -> None:
        raise ModuleNotFoundError("No module named 'psycopg'")

    monkeypatch.setattr(sa, "create_engine", missing)
    with pytest.raises(ConfigurationError, match=r"preaction\[postgres\]"):
        Storage("postgresql://host/name", key)
