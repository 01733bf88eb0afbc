"""A log that is followed: whatever happens to its file, each line comes once, in order, or it is said that it can't."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from errno import EACCES
from pathlib import Path
from typing import TypeAlias

import pytest

from pipeline.test_jsonl_audit import process, start
from preaction.audit import following, parts
from preaction.audit.chain import entry_of
from preaction.audit.following import Follower, Line
from preaction.audit.jsonl_audit import JsonlAudit
from preaction.audit.parts import parts_of
from preaction.errors import ConfigurationError

Follow: TypeAlias = Callable[[], Follower]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trail.jsonl"


@pytest.fixture
def follow(path: Path) -> Iterator[Follow]:
    """Makes followers of the log, which are closed at the end."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(Follower(path)))


def log(path: Path, max_bytes: int | None = None) -> JsonlAudit:
    return JsonlAudit(path, durable=False, max_bytes=max_bytes)


def numbers(lines: Iterator[Line]) -> list[int | str]:
    """The numbers of entries, and what is wrong where there is none."""
    found: list[int | str] = []
    for line in lines:
        entry = entry_of(line.text)
        found.append(entry.number if entry is not None else line.wrong or line.text.decode())
    return found


def write(path: Path, *ns: int, max_bytes: int | None = None) -> None:
    audit = log(path, max_bytes)
    for n in ns:
        audit({"n": n})


def test_what_comes_is_read_once_and_in_order(path: Path, follow: Follow) -> None:
    write(path, 1, 2)
    follower = follow()
    assert (follower.found, numbers(follower.new())) == (True, [])
    write(path, 3, 4)
    assert numbers(follower.new()) == [3, 4]
    assert numbers(follower.new()) == []


def test_what_stood_before_comes_newest_first_through_the_parts(path: Path, follow: Follow) -> None:
    write(path, *range(1, 8), max_bytes=500)
    assert len(parts_of(path)) > 2
    follower = follow()
    assert [line.place for line in follower.earlier()][:2] == ["trail.jsonl:1", f"{parts_of(path)[-1].name}:2"]
    assert numbers(follower.earlier()) == [7, 6, 5, 4, 3, 2, 1]
    write(path, 8)
    assert numbers(follower.new()) == [8]
    assert numbers(follower.earlier()) == [7, 6, 5, 4, 3, 2, 1]


def test_a_log_that_is_not_there_yet_is_read_from_its_first_line(path: Path, follow: Follow) -> None:
    follower = follow()
    assert (follower.found, numbers(follower.earlier()), numbers(follower.new())) == (False, [], [])
    write(path, *range(1, 8), max_bytes=500)
    assert numbers(follower.new()) == [1, 2, 3, 4, 5, 6, 7]


def test_a_part_that_has_no_file_after_it_yet_is_read(path: Path, follow: Follow) -> None:
    follower = follow()
    write(path, 1, 2)
    path.rename(path.with_name("trail.jsonl.000000000002"))
    assert (numbers(follower.new()), numbers(follower.new())) == ([1, 2], [])
    write(path, 3)
    assert numbers(follower.new()) == [3]


def test_no_line_is_lost_when_the_file_became_several_parts_meanwhile(path: Path, follow: Follow) -> None:
    write(path, 1)
    follower = follow()
    write(path, *range(2, 20), max_bytes=500)
    assert len(parts_of(path)) > 5
    assert numbers(follower.new()) == [*range(2, 20)]
    write(path, *range(20, 30), max_bytes=500)
    assert numbers(follower.new()) == [*range(20, 30)]


def test_a_log_of_parts_alone_goes_on_with_its_next_file(path: Path, follow: Follow) -> None:
    write(path, 1, 2)
    path.rename(path.with_name("trail.jsonl.000000000002"))
    follower = follow()
    assert (follower.found, numbers(follower.earlier()), numbers(follower.new())) == (True, [2, 1], [])
    write(path, 3)
    assert numbers(follower.new()) == [3]


def rotated_while(path: Path, monkeypatch: pytest.MonkeyPatch, *ns: int) -> None:
    """The next time that the parts are listed, the file has just become one."""
    real = parts.parts_of

    def after_more(listed: Path) -> list[Path]:
        monkeypatch.setattr(following, "parts_of", real)
        write(path, *ns, max_bytes=1)
        return real(listed)

    monkeypatch.setattr(following, "parts_of", after_more)


def test_a_file_that_becomes_a_part_while_it_is_opened_is_read_once(
    path: Path, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, 1, 2)
    rotated_while(path, monkeypatch, 3, 4)
    follower = follow()
    assert numbers(follower.earlier()) == [2, 1]
    assert numbers(follower.new()) == [3, 4]
    write(path, 5, max_bytes=1)
    rotated_while(path, monkeypatch, 6, 7)
    assert numbers(follower.new()) == [5, 6, 7]


def test_the_next_file_that_becomes_a_part_while_it_is_opened_is_read_too(
    path: Path, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = follow()
    write(path, 1)
    rotated_while(path, monkeypatch, 2, 3)
    assert numbers(follower.new()) == [1, 2, 3]


def test_what_was_written_just_before_the_file_was_moved_is_read(
    path: Path, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, 1)
    follower = follow()
    real = following._File.stands_at

    def moved(file: following._File, where: Path) -> bool:
        monkeypatch.setattr(following._File, "stands_at", real)
        write(path, 2)
        write(path, 3, max_bytes=1)
        return real(file, where)

    monkeypatch.setattr(following._File, "stands_at", moved)
    assert numbers(follower.new()) == [2, 3]


def test_half_a_line_is_read_when_it_is_whole(path: Path, follow: Follow) -> None:
    path.write_bytes(b'{"a"')
    follower = follow()
    assert numbers(follower.earlier()) == []
    assert numbers(follower.new()) == numbers(follower.new()) == []
    with path.open("ab") as file:
        file.write(b": 1}\n{")
    assert numbers(follower.new()) == ['{"a": 1}']


def test_a_piece_that_a_crash_left_is_read_as_what_the_log_made_of_it(path: Path, follow: Follow) -> None:
    write(path, 1)
    follower = follow()
    with path.open("ab") as file:
        file.write(b'{"number": 2, "prev')
    assert numbers(follower.new()) == []
    write(path, 3)
    assert numbers(follower.new()) == [2, 3]


def test_half_a_line_in_a_file_that_was_moved_is_named(path: Path, follow: Follow) -> None:
    path.write_text("a\nb")
    follower = follow()
    path.rename(path.with_name("old"))
    assert [*follower.new()] == [Line("trail.jsonl:2", b"", "the file ends in the middle of it")]
    assert numbers(follower.new()) == []
    path.write_text("c\n")
    assert numbers(follower.new()) == ["c"]


def test_half_a_line_in_a_part_is_named(path: Path, follow: Follow) -> None:
    path.with_name("trail.jsonl.000000000002").write_text("a\nb")
    lines = [*follow().earlier()]
    assert [(line.place, line.wrong) for line in lines] == [
        ("trail.jsonl.000000000002:2", "the file ends in the middle of it"),
        ("trail.jsonl.000000000002:1", ""),
    ]


def test_a_file_that_is_replaced_is_read_from_its_beginning(path: Path, follow: Follow) -> None:
    path.write_text("a\n")
    follower = follow()
    path.with_name("new").write_text("b\nc\n")
    path.with_name("new").replace(path)
    assert numbers(follower.new()) == ["b", "c"]


def test_a_log_that_begins_anew_says_so(path: Path, follow: Follow) -> None:
    write(path, 1, 2, 3)
    follower = follow()
    path.unlink()
    write(path, 1)
    assert numbers(follower.new()) == ["the log begins anew, with number 1", 1]


def test_entries_that_were_removed_before_they_were_read_are_missed(path: Path, follow: Follow) -> None:
    write(path, 1)
    follower = follow()
    write(path, *range(2, 8), max_bytes=1)
    for part in parts_of(path)[:-1]:
        part.unlink()
    assert numbers(follower.new()) == ["number 2 to 5, which stood before it, can't be read any more", 6, 7]


def test_a_line_that_is_no_entry_is_given_as_it_is_and_misses_nothing(path: Path, follow: Follow) -> None:
    write(path, 1)
    follower = follow()
    write(path, 2, 3, 4)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join((lines[0], lines[1], b"x\n", lines[3])))
    assert numbers(follower.new()) == [2, "x", 4]


def test_a_part_whose_last_lines_are_no_entries_is_read_once(path: Path, follow: Follow) -> None:
    write(path, 1, 2)
    follower = follow()
    with path.open("a") as file:
        file.write("x\n")
    assert numbers(follower.new()) == ["x"]
    path.rename(path.with_name("trail.jsonl.000000000003"))
    path.write_text("y\n")
    assert numbers(follower.new()) == ["y"]


def test_a_line_that_was_taken_back_is_said_to_be(path: Path, follow: Follow) -> None:
    write(path, 1, 2)
    follower = follow()
    write(path, 3)
    assert numbers(follower.new()) == [3]
    whole = path.read_bytes()
    os.truncate(path, len(b"".join(whole.splitlines(keepends=True)[:2])))
    assert [*follower.new()] == [Line("trail.jsonl:3", b"", "it was taken back: who wrote it could not keep it")]
    path.write_bytes(whole)
    assert [line.place for line in follower.new()] == ["trail.jsonl:3"]


def test_a_file_that_is_cut_short_is_read_from_its_beginning(path: Path, follow: Follow) -> None:
    path.write_text("a\nb\nc\n")
    follower = follow()
    with path.open("r+") as file:
        file.truncate(0)
        file.write("d\n")
    assert [*follower.new()] == [
        Line("trail.jsonl", b"", "the file was cut short, and is read from its beginning"),
        Line("trail.jsonl:1", b"d"),
    ]


def test_a_line_that_is_too_long_is_named_once_and_passed_by(
    path: Path, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "LONGEST", 10)
    path.write_text("a" * 35 + "\nb\n")
    follower = follow()
    assert numbers(follower.earlier()) == ["b", "longer than a record can be"]
    with path.open("a") as file:
        file.write("c" * 35)
        file.flush()
        assert numbers(follower.new()) == []
        file.write("c\nd\n")
    assert [*follower.new()] == [
        Line("trail.jsonl:3", b"", "longer than a record can be"),
        Line("trail.jsonl:4", b"d"),
    ]


def test_a_part_that_is_gone_when_it_is_to_be_read_is_named(path: Path, follow: Follow) -> None:
    write(path, 1, 2, 3, max_bytes=1)
    follower = follow()
    first, second = parts_of(path)
    first.unlink()
    assert numbers(follower.earlier()) == [3, 2, "the file was removed before it was read"]
    gone = follow()
    write(path, 4, 5, max_bytes=1)
    third, fourth = parts_of(path)[1:]
    assert (second.exists(), third.exists()) == (True, True)
    fourth.unlink()
    fourth.symlink_to("nowhere")
    assert numbers(gone.new())[0] == "number 4 to 4, which stood before it, can't be read any more"


def test_a_place_where_no_log_can_be_is_refused(path: Path) -> None:
    path.mkdir()
    with pytest.raises(ConfigurationError, match=r"^trail\.jsonl can't be read: it is no regular file$"):
        Follower(path)
    with pytest.raises(ConfigurationError, match=r"^t can't be read: its folder isn't there$"):
        Follower(path / "none" / "t")
    os.mkfifo(path / "pipe")
    with pytest.raises(ConfigurationError, match="no regular file"):
        Follower(path / "pipe")


def test_a_file_without_rights_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(EACCES, os.strerror(EACCES))

    path.write_text("")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigurationError, match=r"^trail\.jsonl can't be read: Permission denied$"):
        Follower(path)


def test_a_folder_that_goes_away_is_said(path: Path, follow: Follow) -> None:
    path.write_text("a\n")
    follower = follow()
    path.unlink()
    path.parent.rmdir()
    with pytest.raises(ConfigurationError, match=r"^trail\.jsonl can't be read: No such file or directory$"):
        [*follower.new()]
    path.parent.mkdir()


def test_three_processes_that_rotate_lose_no_line_of_it(path: Path, follow: Follow) -> None:
    with ExitStack() as running:
        writers = [running.enter_context(process(path, name, 40)) for name in "abc"]
        follower, seen = follow(), list[int | str]()
        for writer in writers:
            start(writer)
        while any(writer.poll() is None for writer in writers):
            seen += numbers(follower.new())
    seen += numbers(follower.new())
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert seen == [*range(1, 121)]
    assert len(parts_of(path)) > 3
