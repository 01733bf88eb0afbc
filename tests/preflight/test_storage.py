"""F13: records are only ever added, and `load` gives what was executed last; in memory, in a file, over SQL."""

import json
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from authority.postgres import Postgres
from preaction.errors import ConfigurationError, InvalidJSON, MisuseError, SessionFull
from preaction.preflight.sql_storage import SqlStorage
from preaction.preflight.sqlite_storage import SqliteStorage
from preaction.preflight.storage import MemoryStorage
from preflight.samples import KEY, record

OVER_POSTGRES = pytest.param("sql over postgres", marks=pytest.mark.long)  # the fast suite has one test over it


@pytest.fixture(params=["memory", "sqlite", "sql over sqlite", OVER_POSTGRES])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield MemoryStorage()
    elif request.param == "sqlite":
        yield SqliteStorage(tmp_path / "records.db")
    else:
        url = f"sqlite:///{tmp_path / 'records.db'}"
        if request.param == "sql over postgres":
            url = request.getfixturevalue("postgres").new_database()
        made = SqlStorage(url)
        yield made
        made.close()


def test_f13_records_are_added_and_the_last_executed_one_is_loaded(storage: Any) -> None:
    assert storage.load(KEY) is None
    kept = [record("ask_user"), record("execute"), record(reason="first"), record(reason="second"), record("failed")]
    for one in kept:
        storage.persist(KEY, one)
    storage.persist("another", record("execute"))
    assert storage.load(KEY) == record(reason="second")
    assert storage.load("another") is None
    assert storage.records(KEY) == kept
    assert storage.records() == [*kept, record("execute")]


def test_f13_any_text_is_a_key_of_its_own(storage: Any) -> None:
    for key in ("", "a\0b", "\ud800", "Ä\u202e", "a" * 900, "a\\u0000b", "' OR 1=1 --"):
        storage.persist(key, record(reason=key))
        assert storage.load(key) == record(reason=key)
        assert storage.load(key + "\0") is None


def test_f13_values_come_back_as_they_were(storage: Any) -> None:
    values = [0, False, "", [], {"iban": None}, 2**53 + 1, 10**400, -0.5, 1e300, "\0", "\ud800 \N{SNOWMAN}"]
    storage.persist(KEY, record(fields=values))
    assert json.dumps(storage.load(KEY)["fields"]) == json.dumps(values)


def test_f13_what_is_no_json_is_refused_and_not_shown(storage: Any) -> None:
    for value in (float("nan"), float("inf"), {1, 2}, object(), b"x"):
        with pytest.raises(InvalidJSON, match="record: it can't be written as JSON") as refused:
            storage.persist(KEY, record(reason=["secret", value]))
        assert "secret" not in str(refused.value)
    assert storage.records() == []


def test_f13_a_key_that_is_no_text_is_refused(storage: Any) -> None:
    for call in (lambda: storage.persist(None, record()), lambda: storage.load(7)):
        with pytest.raises(MisuseError, match="action_key: a text is needed"):
            call()


def test_f13_what_was_handed_over_or_read_can_be_changed_without_a_trace(storage: Any) -> None:
    given = record()
    storage.persist(KEY, given)
    given["fields"][0]["value"] = "changed"
    storage.load(KEY)["fields"][0]["value"] = "changed"
    assert storage.load(KEY) == record()


def test_f14_of_many_claims_at_once_one_is_the_first(storage: Any) -> None:
    start, won = threading.Barrier(8), []

    def claim() -> None:
        start.wait()
        won.append(storage.claim("decision"))

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 7 + [True]
    assert storage.claim("another")


def test_f13_memory_has_a_bound_and_drops_nothing() -> None:
    storage = MemoryStorage(max_records=1)
    storage.persist(KEY, record())
    assert storage.claim("one")
    assert not storage.claim("one")
    for call in (lambda: storage.persist(KEY, record()), lambda: storage.claim("two")):
        with pytest.raises(SessionFull):
            call()
    assert storage.load(KEY) == record()


def test_f13_a_file_takes_no_change_and_is_readable_to_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    SqliteStorage(path).persist(KEY, record())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with sqlite3.connect(path) as rows:
        for change in ("DELETE FROM records", "UPDATE records SET record = '{}'"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                rows.execute(change)
    rows.close()
    assert SqliteStorage(path).load(KEY) == record()


@pytest.mark.parametrize("content", [b"not a database at all" * 100, None])
def test_f13_a_file_of_another_kind_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    if content is None:
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE theirs (id)")
        other.close()
    else:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"storage: .* can't hold records"):
        SqliteStorage(path)


def test_f13_a_place_where_no_file_can_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't hold records"):
        SqliteStorage(tmp_path / "nowhere" / "records.db")
    with pytest.raises(ConfigurationError, match="timeout_s"):
        SqliteStorage(tmp_path / "records.db", timeout_s=0)


@pytest.mark.parametrize("url", ["sqlite:////nowhere/at/all/records.db", "nonsense", "mysql+none://u:secret@h/d"])
def test_f13_no_sql_database_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="storage: no tables can be there") as refused:
        SqlStorage(url)
    assert "secret" not in str(refused.value)


def test_f13_without_sqlalchemy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(ConfigurationError, match="pipeline-sql"):
        SqlStorage("sqlite://")


def test_f13_a_role_that_may_only_add_and_read_is_enough(postgres: Postgres) -> None:
    made = SqlStorage(url := postgres.new_database())
    made.persist(KEY, record())
    made.close()
    url = url.replace("postgresql:", "postgresql+psycopg:")
    owner = create_engine(url)
    with owner.begin() as connection:
        connection.execute(text("CREATE ROLE adder LOGIN"))
        connection.execute(text("GRANT SELECT, INSERT ON preflight_records, preflight_claims TO adder"))
        connection.execute(text("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO adder"))
    owner.dispose()
    adder = create_engine(url.replace("preaction@", "adder@"))
    storage = SqlStorage(adder)
    storage.persist(KEY, record(reason="second"))
    storage.persist(KEY, record("failed"))
    assert storage.claim("decision")
    assert not storage.claim("decision")
    assert storage.load(KEY) == record(reason="second")
    assert [one["reason"] for one in storage.records(KEY)] == ["executed", "second", "failed"]
    with pytest.raises(DBAPIError), adder.begin() as connection:
        connection.execute(text("DELETE FROM preflight_records"))
    storage.close()


_OPEN = (
    "import sys; from preaction.preflight.sqlite_storage import SqliteStorage as S; print(S(sys.argv[1]).claim('a'))"
)


@pytest.mark.long
def test_f13_processes_may_make_the_file_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _OPEN, str(tmp_path / "records.db")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=60) for process in running]
    assert sorted(out for out, _ in said) == ["False\n", "False\n", "True\n"], said
