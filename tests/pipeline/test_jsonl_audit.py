"""P13 in a file: rotated, shared by processes, cut by crashes; what can't be written isn't done, nothing is lost."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from pipeline.office import WRITE, Office
from preaction.audit import jsonl_audit, parts
from preaction.audit.chain_check import Check, Finding
from preaction.audit.parts import parts_of, standing
from preaction.errors import ConfigurationError, StoreUnavailable
from preaction.pipeline import JsonlAudit

OTHER = {**WRITE, "invoice_id": "inv_482"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder / "audit.jsonl"


def log(path: Path, **options: Any) -> JsonlAudit:
    """Without syncs, which no test here can see; one test has them."""
    return JsonlAudit(path, **{"durable": False, **options})


def record(number: int, **more: Any) -> dict[str, Any]:
    return {"id": f"p{number}", "phase": "after", **more}


def verified(path: Path, *heads: str) -> Check:
    """A log with nothing wrong."""
    check = Check(heads=heads)
    assert findings(path, check) == []
    return check


def findings(path: Path, check: Check) -> list[Finding]:
    return list(check.findings(path.name, standing(path)))


def written(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["record"] for line in path.read_bytes().splitlines()]


# ---------------------------------------------------------------- lines


def test_p13_lines_in_a_file(path: Path) -> None:
    office = Office(audit=JsonlAudit(path))
    office.write()
    office.read("{")
    assert [line["phase"] for line in written(path)] == ["before", "after", "after"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert Path(f"{path}.lock").stat().st_mode & 0o777 == 0o600
    assert [each["code"] for each in JsonlAudit(path).records()] == ["executed", "invalid_json"]


def test_p13_each_line_follows_the_one_before(path: Path) -> None:
    audit = log(path)
    assert (audit.head().number, audit.head().digest) == (0, "")
    for number in range(3):
        audit(record(number))
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [line["number"] for line in lines] == [1, 2, 3]
    assert [line["previous"] for line in lines] == ["", *(line["digest"] for line in lines[:-1])]
    assert audit.head().digest == lines[-1]["digest"]
    assert verified(path, audit.head().digest).head == audit.head()


def test_p13_anything_that_json_can_write_is_kept_as_it_is(path: Path) -> None:
    odd = {"text": 'é \ud800 \u2028 "\\\x00', "large": 2**63, "deep": [[[[{}]]]], "float": 1e-7}
    log(path)(record(1, **odd))
    assert log(path).records() == [record(1, **odd)]
    assert verified(path).entries == 1


def test_p13_a_record_that_is_no_json_or_too_large_is_not_taken(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("preaction.audit.chain.MAX_ENTRY", 100)
    audit = log(path)
    for bad in (record(1, value=float("nan")), record(1, value="x" * 100)):
        with pytest.raises(ValueError, match=r"JSON|bytes"):
            audit(bad)
    assert path.read_bytes() == b""


# ---------------------------------------------------------------- parts


def test_p13_a_file_that_is_full_becomes_a_part_and_nothing_is_removed(path: Path) -> None:
    audit = log(path, max_bytes=800)
    for number in range(1, 10):
        audit(record(number))
    assert [part.name for part in parts_of(path)] == [f"audit.jsonl.{number:012d}" for number in (3, 6)]
    assert all(each.stat().st_size <= 800 for each in (path, *parts_of(path)))
    assert [each["id"] for each in audit.records()] == [f"p{number}" for number in range(1, 10)]
    assert verified(path, audit.head().digest).entries == 9


def test_p13_a_record_that_is_larger_than_a_file_may_be_has_one_of_its_own(path: Path) -> None:
    audit = log(path, max_bytes=10)
    audit(record(1))
    audit(record(2))
    assert (len(parts_of(path)), verified(path).entries) == (1, 2)


def test_p13_a_new_day_begins_a_new_file(path: Path) -> None:
    audit = log(path, daily=True)
    audit(record(1))
    audit(record(2))
    assert parts_of(path) == []
    day = timedelta(days=1).total_seconds()
    os.utime(path, (path.stat().st_atime - day, path.stat().st_mtime - day))
    audit(record(3))
    assert [part.name[-1] for part in parts_of(path)] == ["2"]
    assert verified(path).entries == 3


def test_p13_of_parts_as_many_stay_as_asked_for_and_the_log_says_what_went(path: Path) -> None:
    audit = log(path, max_bytes=900, keep=2)
    for number in range(1, 14):
        audit(record(number))
    assert len(parts_of(path)) == 2
    check = verified(path, audit.head().digest)
    assert (check.removed, check.removed + check.entries) == (parts_before(path), audit.head().number)
    gone = audit.records()[0]["id"]
    parts_of(path)[0].unlink()
    assert [each.kind for each in findings(path, Check())] == ["dropped"], gone


def parts_before(path: Path) -> int:
    """The number of the last entry that no part has any more."""
    first = json.loads(parts_of(path)[0].read_bytes().splitlines()[0])
    return int(first["number"]) - 1


def test_p13_a_part_that_could_not_be_removed_goes_with_the_next(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = log(path, max_bytes=10, keep=1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", raising_os_error)
        for number in range(1, 4):
            audit(record(number))
        assert len(parts_of(path)) == 2
        assert verified(path).removed == 1
    audit(record(4))
    assert len(parts_of(path)) == 1
    assert verified(path).removed > 1


def raising_os_error(*_: Any) -> None:
    raise PermissionError


def test_p13_a_crash_between_two_files_goes_on_where_the_part_ends(path: Path) -> None:
    audit = log(path)
    audit(record(1))
    path.rename(f"{path}.000000000001")
    assert verified(path).entries == 1
    again = log(path)
    again(record(2))
    assert verified(path, again.head().digest).entries == 2


def test_p13_other_files_beside_the_log_are_no_parts_of_it(path: Path) -> None:
    for name in ("audit.jsonl.1", "audit.jsonl.gz", "audit.jsonl.000000000001.bak", "other.jsonl.000000000001"):
        path.with_name(name).write_text("x", "utf-8")
    log(path)(record(1))
    assert verified(path).entries == 1


def test_p13_reading_goes_on_while_a_file_becomes_a_part(path: Path) -> None:
    audit = log(path, max_bytes=600)
    audit(record(1))
    reading = standing(path)
    first = next(reading)
    audit(record(2))
    audit(record(3))
    assert [first.place, *(each.place for each in reading)] == ["audit.jsonl:1", "audit.jsonl:2"]


def test_p13_a_file_that_became_a_part_while_it_was_opened_is_read_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = log(path, max_bytes=600)
    audit(record(1))
    audit(record(2))
    real = parts.parts_of

    def rotated(path: Path) -> list[Path]:
        monkeypatch.setattr(parts, "parts_of", real)
        audit(record(3))
        return real(path)

    monkeypatch.setattr(parts, "parts_of", rotated)
    assert verified(path).entries == 2
    assert verified(path).entries == 3


# ---------------------------------------------------------------- what can't be written is not done


def test_p13_a_path_that_cannot_be_is_refused_at_once(path: Path) -> None:
    for bad in (path.parent, path.parent / "none" / "audit.jsonl"):
        with pytest.raises(ConfigurationError, match="audit"):
            JsonlAudit(bad)


@pytest.mark.parametrize("options", [{"max_bytes": 0}, {"max_bytes": True}, {"keep": -1}, {"keep": "2"}, {"key": "x"}])
def test_p13_options_that_cannot_be_right_are_refused(path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"audit: (a )?{next(iter(options))}"):
        JsonlAudit(path, **options)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file grows beyond `size`, as on a disk that is full: the system writes a part of it and then nothing."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 100])
def test_p13_a_full_disk_stops_the_acts_and_leaves_no_piece(path: Path, room: int) -> None:
    office = Office(audit=log(path))
    office.write()
    before = path.read_bytes()
    with full_disk(len(before) + room):
        assert office.write(OTHER).code == "audit_failed"
    assert (len(office.acts), path.read_bytes()) == (1, before)
    assert office.write(OTHER).code == "executed"
    assert verified(path).entries == 4


def test_p13_a_folder_that_vanished_stops_the_acts(path: Path) -> None:
    office = Office(audit=log(path))
    office.write()
    shutil.rmtree(path.parent)
    assert office.write(OTHER).code == "audit_failed"
    path.parent.mkdir()
    assert office.write(OTHER).code == "audit_failed"  # it is there again, and what was written isn't
    assert len(office.acts) == 1


@pytest.mark.parametrize("newer", [False, True])
def test_p13_a_log_that_lost_what_was_written_stops_the_acts(path: Path, newer: bool) -> None:
    office = Office(audit=log(path))
    office.write()
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    if newer:
        log(path)(record(2))
    assert office.write(OTHER).code == "audit_failed"
    assert len(office.acts) == 1


def test_p13_a_part_whose_name_is_taken_stops_the_acts(path: Path) -> None:
    office = Office(audit=log(path, max_bytes=1500))
    office.write()
    there = path.with_name("audit.jsonl.000000000002")
    there.write_text("mine", "utf-8")
    with pytest.raises(StoreUnavailable, match="there already"):
        log(path, max_bytes=10)(record(3))
    assert office.write(OTHER).code == "audit_failed"
    assert (len(office.acts), there.read_text("utf-8")) == (1, "mine")


def test_p13_a_file_that_cannot_be_renamed_stops_the_acts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(audit=log(path, max_bytes=1500))
    office.write()
    monkeypatch.setattr(Path, "rename", raising_os_error)
    assert office.write(OTHER).code == "audit_failed"
    monkeypatch.undo()
    assert office.write(OTHER).code == "executed"
    assert verified(path).entries == 4


def test_p13_a_lock_that_nobody_gives_back_stops_the_acts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_audit, "LOCK_S", 0.05)
    office = Office(audit=log(path))
    with FileLock(f"{path}.lock"):
        assert office.write().code == "audit_failed"
    assert office.acts == []


@pytest.mark.parametrize("end", [b"hello\n", b"hello", b'{"id": "p1"}\n', b"\n", b'{"number": 2, "previous": "x'])
def test_p13_a_log_with_another_end_takes_nothing(path: Path, end: bytes) -> None:
    log(path)(record(1))
    path.write_bytes(path.read_bytes() + end)
    with pytest.raises(ConfigurationError, match=r"ends with|last entry"):
        log(path)


@pytest.mark.parametrize("end", ["", "x", "y\n"])
def test_p13_a_part_with_another_end_takes_nothing(path: Path, end: str) -> None:
    log(path)(record(1))
    path.rename(part := path.with_name("audit.jsonl.000000000001"))
    part.write_text(part.read_text("utf-8") + end if end else "", "utf-8")
    with pytest.raises(ConfigurationError, match=r"last entry of audit\.jsonl\.000000000001"):
        log(path)


def test_p13_an_end_that_is_too_long_to_be_a_line_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_audit, "LONGEST", 1000)
    monkeypatch.setattr(jsonl_audit, "_BLOCK", 300)
    log(path)(record(1, text="x" * 500))
    log(path)(record(2))
    path.write_bytes(path.read_bytes() + b"x" * 2000)
    with pytest.raises(ConfigurationError, match="too long"):
        log(path)
    assert {each.kind for each in findings(path, Check())} == {"altered"}


# ---------------------------------------------------------------- crashes


def test_p13_a_line_that_a_crash_cut_is_kept_by_the_next(path: Path) -> None:
    log(path)(record(1))
    log(path)(record(2))
    first, second = path.read_bytes().splitlines(keepends=True)
    for length in (1, 9, 30, 100, len(second) // 2, len(second) - 2):
        path.write_bytes(first + second[:length])
        check = verified(path)
        assert (check.entries, check.cut) == (1, "audit.jsonl:2")
        assert [each["id"] for each in log(path).records()] == ["p1"]
        log(path)(record(3))
        assert written(path) == [record(1), {"log": "cut", "text": second[:length].decode()}, record(3)]
        assert (verified(path).entries, verified(path).cut) == (3, None)
        assert [each["id"] for each in log(path).records()] == ["p1", "p3"]


def test_p13_a_line_that_lacks_its_end_alone_is_whole(path: Path) -> None:
    log(path)(record(1))
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert (verified(path).entries, verified(path).cut) == (1, None)
    log(path)(record(2))
    assert written(path) == [record(1), record(2)]


def test_p13_blocks_that_were_never_filled_are_a_cut_line(path: Path) -> None:
    log(path)(record(1))
    opening = f'{{"number": 2, "previous": "{log(path).head().digest}", "dig'.encode()
    whole = path.read_bytes()
    for piece in (b"\0" * 50, opening + b"\0" * 50):
        path.write_bytes(whole + piece)
        assert verified(path).cut == "audit.jsonl:2"
    log(path)(record(2))
    assert verified(path).entries == 3


def test_p13_a_first_line_that_was_cut(path: Path) -> None:
    path.write_bytes(b'{"number": 1, "previous": "", "dige')
    log(path)(record(1))
    assert verified(path).entries == 2


def test_p13_a_disk_that_is_full_keeps_the_piece_that_a_crash_left(path: Path) -> None:
    log(path)(record(1))
    cut = path.read_bytes() + b'{"number": 2, "prev'[:1]
    path.write_bytes(cut)
    with full_disk(len(cut) + 20), pytest.raises(ConfigurationError, match="can't be a log"):
        log(path)
    assert path.read_bytes() == cut


# ---------------------------------------------------------------- several threads, several processes


def test_p13_threads_share_an_audit(path: Path) -> None:
    audit, start = log(path, max_bytes=1500), threading.Barrier(4)

    def write(name: int) -> None:
        start.wait()
        for number in range(5):
            audit(record(10 * name + number))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (verified(path, audit.head().digest).entries, len(audit.records())) == (20, 20)


PROCESS = """
import sys
from preaction.pipeline import JsonlAudit
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
audit = JsonlAudit(path, durable=False, max_bytes=2500)
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    audit({"id": f"{name}-{number}", "phase": "after"})
print("done", flush=True)
"""


def process(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", PROCESS, str(path), name, str(count)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def start(running: "subprocess.Popen[str]") -> None:
    assert running.stdin is not None
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    running.stdin.write("go\n")
    running.stdin.flush()


def test_p13_four_processes_at_once_lose_and_mix_nothing_while_parts_are_made(path: Path) -> None:
    names = "abcd"
    running = [process(path, name, 20) for name in names]
    for each in running:
        start(each)
    for each in running:
        assert each.communicate(timeout=60)[0] == "done\n"
    ids = [each["id"] for each in log(path).records()]
    assert sorted(ids) == sorted(f"{name}-{number}" for name in names for number in range(20))
    for name in names:  # each process's own in their order
        own = [each for each in ids if each.startswith(name)]
        assert own == [f"{name}-{number}" for number in range(20)]
    assert len(parts_of(path)) > 5
    assert verified(path).entries == 80


def test_p13_a_process_that_is_killed_in_the_middle_leaves_a_log_that_goes_on(path: Path) -> None:
    running = process(path, "killed", 1_000_000)
    start(running)
    audit = log(path, max_bytes=2500)
    for number in range(20):
        audit(record(number))
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=60)
    audit(record(20))
    assert verified(path, audit.head().digest).entries >= 21


@pytest.mark.long
def test_p13_processes_that_are_killed_again_and_again_leave_a_log_that_goes_on(path: Path) -> None:
    for round_ in range(5):
        running = [process(path, f"{round_}-{name}", 1_000_000 if name < "c" else 15) for name in "abc"]
        for each in running:
            start(each)
        assert running[2].communicate(timeout=60)[0] == "done\n"
        for each in running[:2]:
            each.send_signal(signal.SIGKILL)
            each.communicate(timeout=60)
        ids = {each["id"] for each in log(path).records()}
        assert {f"{round_}-c-{number}" for number in range(15)} <= ids
    audit = log(path)
    audit(record(1))
    assert verified(path, audit.head().digest).head == audit.head()


def test_p13_a_lock_that_somebody_removes_costs_no_line(path: Path) -> None:
    first, second = log(path), log(path)
    first(record(1))
    end = jsonl_audit.JsonlAudit._end

    def at_once(self: JsonlAudit, file: Any) -> Any:
        head = end(self, file)
        if self is first:
            Path(f"{path}.lock").unlink()
            second(record(2))
        return head

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JsonlAudit, "_end", at_once)
        first(record(3))
    assert [each["id"] for each in log(path).records()] == ["p1", "p2", "p3"]
    assert [each.kind for each in findings(path, Check())] == ["inserted"]  # and it shows
