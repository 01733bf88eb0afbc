"""A disk that is really full (ENOSPC): a clear 503, nothing half-written, and on it goes when there is room again."""

import logging
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryDirectory

import psycopg
import pytest

from authority.asking import evidence, refusal
from authority.packs import HELPDESK
from authority.postgres import Postgres
from authority.whole import ids_in_a_whole_chain
from preaction.authority import LocalAuthority
from preaction.errors import AuthorityError

MIB = 1024 * 1024


@contextmanager
def small_disk(size: int) -> Iterator[Path]:
    """A filesystem of its own, of so many bytes, where PostgreSQL's user gets to as well."""
    with TemporaryDirectory(prefix="preaction-disk-", dir="/tmp") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", folder]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("this user may not mount a small filesystem; test_faults has such errors at the same places")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


@contextmanager
def filled(disk: Path, left: int) -> Iterator[None]:
    """While the block runs, a file takes all room but this."""
    filler = disk / "filler"
    filler.write_bytes(b"x" * (disk_usage(disk).free - left))
    try:
        yield
    finally:
        filler.unlink()


def decide(authority: LocalAuthority, number: int) -> str:
    answer = authority.decide(
        "triage-ticket", entity_id=f"HC-{number}", evidence=evidence(), idempotency_key=f"key-{number}"
    )
    return str(answer["executionId"])


def decide_until_refused(authority: LocalAuthority, made: list[str]) -> int | None:
    """Decide until that is refused; the status, and in `made` what was answered before."""
    try:
        for number in range(len(made), len(made) + 3000):
            made.append(decide(authority, number))
    except AuthorityError as error:
        return error.status
    return None


def use_up_the_log(url: str, authority: LocalAuthority, made: list[str]) -> None:
    """Decide, each time in a new part of PostgreSQL's log, of 16 MiB; what there is of old ones is used first."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(8):
            connection.execute("SELECT pg_switch_wal()")
            made.append(decide(authority, len(made)))


def test_a_full_disk_under_sqlite(caplog: pytest.LogCaptureFixture) -> None:
    with (
        small_disk(2 * MIB) as disk,
        LocalAuthority.from_pack(HELPDESK, f"sqlite:///{disk / 'decisions.db'}") as authority,
    ):
        made = [decide(authority, 0)]
        with filled(disk, left=64 * 1024), caplog.at_level(logging.ERROR):
            assert decide_until_refused(authority, made) == 503
            assert refusal(decide, authority, len(made))[0] == 503
            assert authority.verify(made[-1])["valid"]
        assert {record.getMessage() for record in caplog.records} == {"the database failed: OperationalError"}
        assert ids_in_a_whole_chain(authority._storage) == made
        made.append(decide(authority, len(made)))
        assert ids_in_a_whole_chain(authority._storage) == made


@contextmanager
def server_on(disk: Path, programs: Path) -> Iterator[Postgres]:
    server = Postgres(programs, parent=disk)
    try:
        yield server
    finally:
        with suppress(RuntimeError):  # when it ended by itself
            server.stop()


@pytest.mark.long
def test_a_full_disk_under_postgresql(postgres: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """First there is no room for a table's next page, and then none for the log's next part."""
    with small_disk(256 * MIB) as disk, server_on(disk, postgres.programs) as server:
        url = server.new_database()
        with LocalAuthority.from_pack(HELPDESK, url, signing_key=tmp_path / "key") as authority:
            made = [decide(authority, 0)]
            with filled(disk, left=128 * 1024), caplog.at_level(logging.ERROR):
                assert decide_until_refused(authority, made) == 503
                assert authority.verify(made[-1])["valid"]
            assert {record.getMessage() for record in caplog.records} == {"the database failed: DiskFull"}
            made.append(decide(authority, len(made)))
            assert ids_in_a_whole_chain(authority._storage) == made

            with filled(disk, left=4 * MIB), pytest.raises((AuthorityError, psycopg.Error)) as caught:
                use_up_the_log(url, authority, made)
            assert getattr(caught.value, "status", 503) == 503
            with suppress(RuntimeError):  # when it ended by itself
                server.stop()
            server.start()
            assert ids_in_a_whole_chain(authority._storage) == made
            made.append(decide(authority, len(made)))
            assert ids_in_a_whole_chain(authority._storage) == made
