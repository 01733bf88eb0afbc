"""What docs/storage.md says of how a database is used: PostgreSQL's settings, and a backup of a file that is in use."""

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from shutil import copyfile

import psycopg
import pytest
import sqlalchemy as sa

from authority.asking import evidence
from authority.conftest import Place
from authority.packs import HELPDESK
from authority.whole import ids_in_a_whole_chain
from preaction.authority import LocalAuthority
from preaction.authority.refusal import Refused
from preaction.authority.storage import databases
from preaction.authority.storage.storage import Storage
from preaction.authority.storage.tables import METADATA

SETTINGS = {
    "synchronous_commit": "on",
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "15s",
    "lock_timeout": "10s",
    "default_transaction_isolation": "read committed",
}


@pytest.fixture
def kind() -> str:
    return "postgresql"


@pytest.mark.long
def test_every_connection_has_the_settings_where_the_server_says_otherwise(place: Place) -> None:
    with psycopg.connect(str(place.url), autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())
        connection.execute(f"ALTER DATABASE {name} SET statement_timeout = 0".encode())
    with closing(Storage(str(place.url), place.key)) as storage:
        for way in (storage.reading, storage.writing):
            with way() as connection:
                found = {name: connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in SETTINGS}
                assert found == SETTINGS
                raw = connection.connection.dbapi_connection
                assert raw.info.get_parameters()["connect_timeout"] == "5"  # type: ignore[union-attr]


@pytest.mark.long
def test_a_process_holds_so_many_connections_and_no_more(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "WAIT_S", 0.2)
    with closing(Storage(str(place.url), place.key)) as storage, ExitStack() as held:
        for _ in range(16):
            held.enter_context(storage.reading())
        with pytest.raises(Refused, match="503"), storage.reading():
            pass
        with storage.writing() as connection:  # readers leave writers their own
            counted = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            assert connection.exec_driver_sql(counted).scalar_one() == 16


@pytest.mark.long
def test_every_text_is_compared_byte_by_byte(place: Place) -> None:
    with closing(Storage(str(place.url), place.key)) as storage, storage.reading() as connection:
        inspector = sa.inspect(connection)
        for table in METADATA.sorted_tables:
            texts = [each for each in inspector.get_columns(table.name) if isinstance(each["type"], sa.Text)]
            assert {getattr(each["type"], "collation", None) for each in texts} == {"C"}, table.name


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_backup_of_a_file_that_is_in_use_goes_on_where_it_was_made(
    opened: Callable[..., LocalAuthority], place: Place, tmp_path: Path
) -> None:
    authority = opened()
    made = [authority.decide("triage-ticket", entity_id="HC-1", evidence=evidence())["executionId"]]
    copy = tmp_path / "copy.db"
    file = str(place.url).removeprefix("sqlite:///")
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)  # as sqlite3's `.backup` does
    copyfile(f"{file}-key", f"{copy}-key")
    authority.decide("triage-ticket", entity_id="HC-2", evidence=evidence())
    with LocalAuthority.from_pack(HELPDESK, copy) as restored:
        assert restored.verify(made[0])["valid"]
        made.append(restored.decide("triage-ticket", entity_id="HC-3", evidence=evidence())["executionId"])
        assert ids_in_a_whole_chain(restored._storage) == made
