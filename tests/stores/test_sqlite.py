"""What only the store in a file does: several processes, a file that outlives them, and files that can't be."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from kit import REPLY, SESSION, TICKET, decided, helpdesk, reply
from preaction.errors import ConfigurationError, SessionFull
from preaction.stores import Slot, Swapped
from preaction.stores.sqlite import SCHEMA_VERSION, SQLiteStore
from preaction.testing import FakeAuthority

HOUR = timedelta(hours=1)
OLD = Path(__file__).parent / "old"
"""Files that those versions wrote; see `test_a_file_of_an_earlier_version_is_upgraded_and_keeps_what_it_holds`."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def process(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Another process that runs `code`, which finds `store` made on the first argument."""
    start = """
        import sys
        from datetime import timedelta
        from preaction.stores import Slot
        from preaction.stores.sqlite import SQLiteStore
        store = SQLiteStore(sys.argv[1], timeout_s=60)
    """
    text = textwrap.dedent(start) + textwrap.dedent(code)
    command = [sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def output(one: subprocess.Popen[str]) -> str:
    said, _ = one.communicate(timeout=120)
    assert one.returncode == 0
    return said.strip()


def at_once(others: list[subprocess.Popen[str]]) -> list[str]:
    """What processes say that were let go together, each after its line `ready`."""
    for one in others:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in others:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    return [output(one) for one in others]


# ---------------------------------------------------------------- several processes


def test_of_many_processes_one_gets_each_claim(path: Path) -> None:
    code = """
        print("ready", flush=True)
        sys.stdin.readline()
        got = [store.claim(f"use {number}", timedelta(hours=1), take=True) for number in range(100)]
        print(got.count("free"), got.count("taken"))
    """
    got = [tuple(map(int, said.split())) for said in at_once([process(code, path) for _ in range(4)])]
    assert sum(free for free, _ in got) == 100
    assert sum(taken for _, taken in got) == 300


def test_processes_that_count_in_a_text_lose_none(path: Path) -> None:
    code = """
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(50):
            held = store.look("count")
            while not (swapped := store.swap("count", held, str(int(held or 0) + 1), timedelta(hours=1))).done:
                held = swapped.value
    """
    at_once([process(code, path) for _ in range(3)])
    assert SQLiteStore(path).look("count") == "150"


def test_what_one_process_put_another_reads_and_it_outlives_both(path: Path) -> None:
    output(process('store.put("s", [Slot("g", "a", "value")])', path))
    assert output(process('print(store.read("s", "g"))', path)) == "[('a', 'value')]"
    assert SQLiteStore(path).read("s", "g") == [("a", "value")]


def test_a_process_killed_in_the_middle_leaves_whole_puts(path: Path) -> None:
    code = """
        for number in range(1_000_000):
            store.put("s", [Slot("g", "a", str(number)), Slot("g", "b", str(number))])
            print(number, flush=True)
    """
    one = process(code, path)
    assert one.stdout is not None
    said = 0
    while said < 30:
        said = int(one.stdout.readline())
    one.send_signal(signal.SIGKILL)
    one.communicate()
    (_, first), (_, second) = SQLiteStore(path).read("s", "g")
    assert first == second
    assert int(first) >= said, "what was answered is there"


def test_after_a_fork_the_child_opens_the_file_for_itself(path: Path) -> None:
    store = SQLiteStore(path)
    store.put("s", [Slot("g", "a", "parent")])
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if store.put("s", [Slot("g", "b", "child")]) else 3)
        finally:
            os._exit(4)
    assert os.waitpid(child, 0)[1] == 0
    assert store.read("s", "g") == [("a", "parent"), ("b", "child")]
    store.close()


def test_a_decision_recorded_by_one_gate_allows_in_another_and_is_used_up_for_both(path: Path) -> None:
    authority = FakeAuthority()
    rule = {"once": "decision"}
    gates = [helpdesk(authority=authority, store=SQLiteStore(path), rule=rule)[0] for _ in range(2)]
    decided(gates[0], authority)
    assert gates[1].check(SESSION, REPLY, reply()).code == "allowed"
    assert gates[0].check(SESSION, REPLY, reply()).code == "already_used"


# ---------------------------------------------------------------- failing


def test_a_file_that_another_process_keeps_locked_denies_in_time(path: Path) -> None:
    gate, authority = helpdesk(store=SQLiteStore(path, timeout_s=0.2), rule={"once": "decision"})
    decided(gate, authority)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        verdict = gate.check(SESSION, REPLY, reply())
        assert verdict.code == "gate_error"
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            gate.decisions.record(SESSION, result=authority.decide(TICKET))
        other.execute("ROLLBACK")
    assert gate.check(SESSION, REPLY, reply()).code == "allowed"


def test_a_file_damaged_while_in_use_denies(path: Path) -> None:
    store = SQLiteStore(path)
    gate, authority = helpdesk(store=store)
    decided(gate, authority)
    store.close()
    for beside in path.parent.iterdir():
        beside.write_bytes(b"\x00not a database" * 1000)
    assert gate.check(SESSION, REPLY, reply()).code == "gate_error"


def test_a_disk_that_is_full_denies_and_leaves_what_was_there(path: Path) -> None:
    store = SQLiteStore(path)
    gate, authority = helpdesk(store=store)
    decided(gate, authority)
    store.put("s", [Slot("g", "a", "value")])
    assert store._connection is not None
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.put("s", [Slot("g", "a", "changed"), Slot("g", "b", "x" * 100_000)])
    assert store.read("s", "g") == [("a", "value")]
    assert gate.check(SESSION, REPLY, reply()).code == "allowed", "reading needs no room"


def test_a_put_that_fails_half_way_is_taken_back(path: Path) -> None:
    store = SQLiteStore(path)
    with pytest.raises(sqlite3.Error):
        store.put("s", [Slot("g", "a", "kept?"), Slot("g", "b", object())])  # type: ignore[arg-type]
    assert store.read("s", "g") == []
    assert store.put("s", [Slot("g", "a", "value")])


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda path: path.mkdir(), "directory"),
        (lambda path: path.write_bytes(b"a text, long enough to be no database" * 30), "not a database"),
        (lambda path: sqlite3.connect(path).execute("CREATE TABLE t (a)"), "another program's"),
        (lambda path: SQLiteStore(path) and sqlite3.connect(path).execute("PRAGMA user_version = 99"), "schema 99"),
        (lambda path: SQLiteStore(path) and sqlite3.connect(path).execute("PRAGMA user_version = 0"), "schema 0"),
    ],
    ids=["a folder", "a text", "another's database", "a later schema", "no schema"],
)  # fmt: skip
def test_a_path_where_no_store_can_be_is_refused_and_left_alone(path: Path, prepare: object, why: str) -> None:
    assert callable(prepare)
    prepare(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(ConfigurationError, match=why) as refused:
        SQLiteStore(path)
    assert str(path) in str(refused.value)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        SQLiteStore(tmp_path / "none" / "sessions.db")


# ---------------------------------------------------------------- the file


def test_the_file_is_the_owner_s_alone_and_knows_its_schema(path: Path) -> None:
    store = SQLiteStore(path)
    store.put("s", [Slot("g", "a", "value")])
    modes = {beside.name: oct(beside.stat().st_mode & 0o777) for beside in path.parent.iterdir()}
    assert modes == dict.fromkeys(("sessions.db", "sessions.db-wal", "sessions.db-shm"), "0o600")
    found = [sqlite3.connect(path).execute(f"PRAGMA {of}").fetchone()[0] for of in ("user_version", "journal_mode")]
    assert found == [SCHEMA_VERSION, "wal"]
    store.close()
    store.close()
    assert store.read("s", "g") == [("a", "value")], "a closed store opens again"


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
def test_a_file_of_an_earlier_version_is_upgraded_and_keeps_what_it_holds(version: int, path: Path) -> None:
    now = 4_000_000_000.0  # when it was written
    shutil.copy(OLD / f"version{version}.sqlite", path)
    for _ in range(2):
        store = SQLiteStore(path, max_per_kind=2, clock=lambda: now)
        assert store.read("chat-1", "g") == [("b", "second \u00e4"), ("a", "first")]
        assert store.read("chat-1", "h") == [("x", "in another group")]
        assert store.is_full("chat-2")
        assert not store.is_full("chat-1")
        assert store.claim("a use", HOUR, take=True) == "taken"
        store.close()
    store.put("chat-1", [Slot("g", "a", "older", "0"), Slot("g", "c", "third", kind="decision")])
    assert store.read("chat-1", "g") == [("b", "second \u00e4"), ("a", "first"), ("c", "third")]
    assert store.put("chat-1", [Slot("g", "d", "fourth", kind="decision")]) is False, "one was there before"
    assert store.look("a text") == ("running \u00e4" if version > 1 else None)
    assert store.swap("n", None, "a", HOUR) == Swapped(True, "a")
    assert_totals(path)
    store.close()
    new = path.with_name("new.db")
    SQLiteStore(new).close()
    shapes = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
    for of in ("PRAGMA user_version", "PRAGMA application_id", shapes):
        assert sqlite3.connect(path).execute(of).fetchall() == sqlite3.connect(new).execute(of).fetchall()


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    shutil.copy(OLD / "version1.sqlite", path)
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE taken (a)")
        other.execute("CREATE TRIGGER texts_less AFTER DELETE ON taken BEGIN SELECT 1; END")  # what is made last
    with pytest.raises(ConfigurationError, match="texts_less"):
        SQLiteStore(path)
    with sqlite3.connect(path) as other:
        assert other.execute("PRAGMA user_version").fetchone() == (1,)
        other.execute("DROP TABLE taken")
    assert SQLiteStore(path).swap("n", None, "a", HOUR).done


def assert_totals(path: Path) -> None:
    """What the file says it holds is what it holds."""
    with sqlite3.connect(path) as other:
        told = dict(other.execute("SELECT kind, held FROM totals").fetchall())
        counted = "SELECT (SELECT count(*) FROM claims), (SELECT count(*) FROM texts)"
        assert told == dict(zip(("claims", "texts"), other.execute(counted).fetchone(), strict=True))


def test_the_totals_are_right_whatever_is_done_and_whatever_fails(path: Path) -> None:
    now = [1000.0]
    store = SQLiteStore(path, max_claims=5, max_texts=5, clock=lambda: now[0])
    for number in range(40):
        store.claim(f"use {number % 7}", HOUR, take=True)
        with suppress(SessionFull):
            name = f"text {number % 7}"
            store.swap(name, store.look(name), None if number % 3 == 0 else str(number), HOUR)
        with suppress(RuntimeError), store._writing() as db:
            db.execute("INSERT INTO texts (name, value, until) VALUES ('not kept', '', 9999)")
            raise RuntimeError
        now[0] += 500
        assert_totals(path)
    store.close()


def test_opening_a_file_writes_nothing_to_it(path: Path) -> None:
    SQLiteStore(path).close()
    before = path.read_bytes()
    SQLiteStore(path).close()
    assert path.read_bytes() == before


def test_sessions_that_nobody_asks_for_go_whole_and_others_stay(path: Path) -> None:
    now = [1_000.0]
    store = SQLiteStore(path, idle=HOUR, clock=lambda: now[0])
    for session in ("left", "read", "written"):
        store.put(session, [Slot("g", "a", "value", kind="decision")])
    now[0] += 1_800
    assert store.read("read", "g")
    store.put("written", [Slot("g", "b", "value")])
    now[0] += 2_400
    store.put("another", [Slot("g", "a", "value")])
    assert store.read("left", "g") == []
    assert store.read("read", "g")
    assert len(store.read("written", "g")) == 2
    rows = sqlite3.connect(path).execute("SELECT DISTINCT session FROM slots UNION SELECT session FROM counts")
    assert {row[0] for row in rows} == {"read", "written", "another"}


def test_a_session_written_to_after_its_time_is_not_lost_by_that(path: Path) -> None:
    now = [1_000.0]
    store = SQLiteStore(path, idle=HOUR, clock=lambda: now[0])
    store.put("s", [Slot("g", "a", "value")])
    now[0] += 7_200
    store.put("s", [Slot("g", "b", "value")])
    assert len(store.read("s", "g")) == 2
