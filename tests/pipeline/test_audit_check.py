"""The chain of an audit: every kind of tampering with every line, row and column shows, and an honest crash doesn't."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError

from pipeline.audit_logs import COLUMNS, KEY, File, Table, forged, record
from preaction.audit.chain import EMPTY, Links
from preaction.audit.chain_check import Check, Finding, Stands
from preaction.errors import ConfigurationError
from preaction.pipeline import JsonlAudit, SqlAudit

LINES = 6


@pytest.fixture(scope="module", params=[None, KEY], ids=["plain", "keyed"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> File:
    return File(tmp_path_factory.mktemp("whole") / "audit.jsonl", LINES, request.param)


@pytest.fixture
def log(whole: File) -> File:
    whole.put(whole.lines)
    return whole


# ---------------------------------------------------------------- one line of a file


def test_a_whole_log_has_no_findings(log: File) -> None:
    check, findings = log.check(*log.heads)
    assert (findings, check.entries, check.removed, check.cut) == ([], LINES, 0, None)
    assert check.head == log.audit.head()


def test_any_byte_of_any_line_that_is_altered_shows_at_its_line(log: File) -> None:
    for index, line in enumerate(log.lines):
        for place in range(0, len(line) - 1, 11):
            other = b"a" if line[place : place + 1] != b"a" else b"b"
            log.put([*log.lines[:index], line[:place] + other + line[place + 1 :], *log.lines[index + 1 :]])
            found = log.findings()
            assert [(each.kind, each.place) for each in found] == [("altered", f"audit.jsonl:{index + 1}")], place


@pytest.mark.parametrize("field", COLUMNS)
def test_any_value_that_is_altered_or_removed_shows(log: File, field: str) -> None:
    for index, line in enumerate(log.lines):
        parsed = json.loads(line)
        for content in (parsed["record"] | {field: "y"}, {k: v for k, v in parsed["record"].items() if k != field}):
            changed = json.dumps(parsed | {"record": content}).encode() + b"\n"
            log.put([*log.lines[:index], changed, *log.lines[index + 1 :]])
            assert [(each.kind, each.number) for each in log.findings()] == [("altered", index + 1)]


def test_one_json_for_another_shows_as_well(log: File) -> None:
    spaced = log.lines[2].replace(b": ", b":")
    twice = log.lines[2].replace(b'"record": {', b'"record": {"code": "executed", ')
    for line in (spaced, twice, log.lines[2].replace(b"\n", b"\r\n"), log.lines[2].replace(b"\n", b" \n")):
        log.put([*log.lines[:2], line, *log.lines[3:]])
        assert [(each.kind, each.number) for each in log.findings()] == [("altered", 3)]


@pytest.mark.parametrize("first", range(1, LINES))
def test_lines_that_were_dropped_show_as_a_range(log: File, first: int) -> None:
    for last in range(first, LINES):
        log.put([*log.lines[: first - 1], *log.lines[last:]])
        assert log.found() == [("dropped", "audit.jsonl", first, last)]


def test_an_end_that_was_cut_shows_by_a_head_alone(log: File) -> None:
    for kept in range(1, LINES):
        log.put(log.lines[:kept])
        assert log.found() == []
        assert log.found(log.heads[-1]) == [("dropped", "audit.jsonl", None, None)]
        assert log.found(log.heads[kept - 1]) == []


def test_lines_that_changed_places_show(log: File) -> None:
    for one in range(LINES):
        for other in range(one + 1, LINES):
            lines = list(log.lines)
            lines[one], lines[other] = lines[other], lines[one]
            log.put(lines)
            assert {each[0] for each in log.found()} == {"reordered"}
    log.put([*log.lines[:1], *log.lines[2:], log.lines[1]])
    assert log.found() == [("reordered", "audit.jsonl:6", 2, "p2")]
    log.put([*log.lines[:2], log.lines[5], log.lines[3], *log.lines[6:]])
    assert log.found() == [
        ("reordered", "audit.jsonl:4", 4, "p4"),
        ("dropped", "audit.jsonl", 3, 3),
        ("dropped", "audit.jsonl", 5, 5),
    ]


def test_lines_that_were_inserted_show(log: File) -> None:
    for index in range(LINES + 1):
        for line in (log.lines[0], b"nothing of ours\n", b"\n"):
            log.put([*log.lines[:index], line, *log.lines[index:]])
            found = log.found()
            kinds = {"inserted", "altered"} if index == LINES else {"inserted"}
            assert len(found) == 1
            assert found[0][0] in kinds
            assert found[0][1] in (f"audit.jsonl:{index + 1}", "audit.jsonl:2")


def test_a_line_of_another_log_shows(log: File) -> None:
    stranger = forged(log.lines, 3, {"id": "other"}, log.key)
    log.put([*log.lines[:2], stranger[2], *log.lines[3:]])
    assert log.found() == [("replaced", "audit.jsonl:3", 3, None)]
    log.put([*forged(log.lines, 1, {"id": "other"}, log.key)[:1], *log.lines[1:]])
    assert log.found() == [("replaced", "audit.jsonl:1", 1, None)]


def test_several_things_at_once_are_each_named(log: File) -> None:
    bad = log.lines[1].replace(b'"p2"', b'"p9"')
    log.put([log.lines[0], bad, b"x\n", log.lines[4], log.lines[4], log.lines[5]])
    assert log.found() == [
        ("altered", "audit.jsonl:2", 2, "p9"),
        ("altered", "audit.jsonl:3", 3, None),
        ("inserted", "audit.jsonl:5", 5, "p5"),
        ("dropped", "audit.jsonl", 4, 4),
    ]


# ---------------------------------------------------------------- a line that was cut


def test_a_cut_last_line_is_a_crash_and_any_other_unfinished_line_is_not(log: File) -> None:
    last = log.lines[-1]
    for length in range(1, len(last) - 1, 9):
        log.put([*log.lines[:-1], last[:length]])
        check, findings = log.check()
        assert (findings, check.cut, check.entries) == ([], "audit.jsonl:6", LINES - 1)
        assert log.found(log.heads[-1]) == [("dropped", "audit.jsonl", None, None)]
        log.put([*log.lines[:-1], last[:length] + b"\n"])
        assert [(each.kind, each.number) for each in log.findings()] == [("altered", 6)]
        log.put([*log.lines[:2], log.lines[2][:length], *log.lines[3:]])
        assert [(each.kind, each.number) for each in log.findings()] in (
            [("altered", 3), ("dropped", 4)],
            [("altered", 3)],
        )
    log.put([*log.lines, b"hello"])
    assert [(each.kind, each.place) for each in log.findings()] == [("altered", "audit.jsonl:7")]
    log.put([*log.lines[:-1], b"x\n", last[:20]])
    assert [each.kind for each in log.findings()] == ["altered", "altered"]


# ---------------------------------------------------------------- all of it written anew


def test_a_log_that_was_written_anew_shows_by_a_head_or_a_key(tmp_path: Path) -> None:
    plain, keyed = File(tmp_path / "plain.jsonl"), File(tmp_path / "keyed.jsonl", key=KEY)
    plain.put(forged(plain.lines, 3, {"code": "not what happened"}))
    assert plain.findings() == []  # nothing else is there to tell
    assert [each.kind for each in plain.findings(plain.heads[-1])] == ["dropped"]
    for key in (None, "another key, which is as long as the first"):
        keyed.put(forged(keyed.lines, 3, {"code": "not what happened"}, key))
        assert {each.kind for each in keyed.findings()} == {"altered"}
        assert [each.number for each in keyed.findings()] == [3, 4, 5, 6]


def test_a_keyed_log_is_never_verified_without_its_key(tmp_path: Path) -> None:
    keyed = File(tmp_path / "keyed.jsonl", key=KEY)
    keyed.key = None
    with pytest.raises(ConfigurationError, match="without it"):
        keyed.findings()
    keyed.put([b"x\n", *keyed.lines[1:]])
    assert len(keyed.findings()) == LINES
    with pytest.raises(ConfigurationError, match="32"):
        Check("short")


def test_a_log_is_keyed_from_its_first_line_on_or_not_at_all(tmp_path: Path) -> None:
    plain, keyed = File(tmp_path / "plain.jsonl"), File(tmp_path / "keyed.jsonl", key=KEY)
    for path, key in ((plain.path, KEY), (keyed.path, None), (keyed.path, KEY.encode() + b"!")):
        with pytest.raises(ConfigurationError, match="of another key"):
            JsonlAudit(path, key=key)
    assert JsonlAudit(keyed.path, key=KEY.encode()).head().number == LINES


# ---------------------------------------------------------------- any edit at all


def edits(lines: list[bytes]) -> st.SearchStrategy[list[bytes]]:
    """What somebody makes of a log in a few steps."""
    place = st.integers(0, 7)

    def step(before: list[bytes], what: str, one: int, other: int, byte: int) -> list[bytes]:
        made = list(before)
        if not made:
            return [bytes([byte]), b"\n"]
        one, other = one % len(made), other % len(made)
        if what == "drop":
            del made[one]
        elif what == "swap":
            made[one], made[other] = made[other], made[one]
        elif what == "copy":
            made.insert(other, made[one])
        elif what == "cut":
            made[one] = made[one][: byte % len(made[one])] if made[one] else b""
        elif made[one]:
            at = (one * 57 + byte) % len(made[one])
            made[one] = made[one][:at] + bytes([byte]) + made[one][at + 1 :]
        return made

    steps = st.tuples(st.sampled_from(("drop", "swap", "copy", "cut", "alter")), place, place, st.integers(0, 255))

    def edited(taken: list[tuple[str, int, int, int]]) -> list[bytes]:
        made = lines
        for what, one, other, byte in taken:
            made = step(made, what, one, other, byte)
        return made

    return st.lists(steps, min_size=1, max_size=4).map(edited)


@given(data=st.data())
def test_whatever_somebody_does_to_a_log_shows(whole: File, data: st.DataObject) -> None:
    made = b"".join(data.draw(edits(whole.lines)))
    whole.path.write_bytes(made)
    check, findings = whole.check()
    if not findings:  # then it is the log itself, or its beginning
        kept = b"".join(whole.lines[: check.entries])
        assert made.startswith(kept.removesuffix(b"\n"))
        assert check.cut is not None or made in (kept, kept.removesuffix(b"\n"))
    with_head = whole.findings(whole.heads[-1])
    assert with_head or made.removesuffix(b"\n") == b"".join(whole.lines).removesuffix(b"\n")


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_any_bytes_are_judged_and_nothing_is_raised(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    log = File(tmp_path_factory.getbasetemp() / "any.jsonl", 0)
    log.put([line + b"\n" for line in lines])
    check, findings = log.check()
    assert bool(findings) == bool(check.entries)
    log.path.unlink()


# ---------------------------------------------------------------- what the log says of itself


def notes(removed: Any) -> list[Finding]:
    """A chain from number 6 on, whose third entry is the log's own."""
    links = Links()
    first = [record(number) for number in range(1, 6)]
    before = links.after(EMPTY, first)[-1].head
    entries = links.after(before, [record(6), record(7), removed, record(8)])
    return list(Check().findings("log", [Stands(f"log:{n}", entry) for n, entry in enumerate(entries, 1)]))


def test_only_what_the_log_says_it_removed_may_be_missing() -> None:
    links = Links()
    fifth = links.after(EMPTY, [record(number) for number in range(1, 6)])[-1].head
    said = {"log": "removed", "number": 5, "digest": fifth.digest}
    assert notes(said) == []
    for other, missing in (
        ({"number": 4}, (5, 5)),
        ({"number": 6}, None),  # more went than is missing: some of it could not be removed
        ({"number": 9}, (1, 5)),
        ({"number": "5"}, (1, 5)),
        ({"number": None}, (1, 5)),
        ({"digest": "sha-256:" + "0" * 64}, (1, 5)),
        ({"digest": 7}, (1, 5)),
        ({"id": "p"}, (1, 5)),
        ({"log": "cut"}, (1, 5)),
    ):
        found = notes(said | other)
        assert [(each.number, each.last) for each in found] == ([] if missing is None else [missing]), other


# ---------------------------------------------------------------- rows of a table


@pytest.fixture(scope="module", params=[None, KEY], ids=["plain", "keyed"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return Table(tmp_path_factory.mktemp("filled") / "audit.db", key=request.param)


@pytest.fixture
def table(filled: Table) -> Iterator[Table]:
    before = filled.path.read_bytes()
    yield filled
    filled.path.write_bytes(before)


def test_a_whole_table_has_no_findings(table: Table) -> None:
    assert table.findings() == []


def test_any_column_of_any_row_that_is_altered_shows(table: Table) -> None:
    values: list[tuple[object, int]] = [("other", 1), ("other", 3), ("other", 5)]
    if table.key is None:
        values += [(value, 3) for value in ("\u00e9", "", b"\x00", 7)]
    before = table.path.read_bytes()
    for column in (*COLUMNS, "previous", "digest", "record"):
        for value, number in values:
            table.run(f"UPDATE pipeline_audit SET {column} = ? WHERE number = {number}", given=(value,))
            found = [each[:3] for each in table.found() if each[2] is not None]
            assert found == [("altered", "pipeline_audit", number)], (column, value)
            table.path.write_bytes(before)


def test_a_row_whose_columns_and_record_were_altered_alike_shows(table: Table) -> None:
    table.run(
        "UPDATE pipeline_audit SET code = 'denied', record = replace(record, '\"code\": null', '\"code\": \"denied\"')"
        " WHERE number = 2"
    )
    assert table.found() == [("altered", "pipeline_audit", 2, "p2")]


def test_rows_that_are_gone_show_also_at_the_end(table: Table) -> None:
    table.run("DELETE FROM pipeline_audit WHERE number IN (2, 3)")
    assert table.found() == [("dropped", "pipeline_audit", 2, 3)]
    table.run("DELETE FROM pipeline_audit WHERE number = 5")
    assert table.found() == [("dropped", "pipeline_audit", 2, 3), ("dropped", "pipeline_audit", None, None)]


def test_rows_that_changed_places_or_came_in_show(table: Table) -> None:
    moves = ("SET number = 99 WHERE number = 2", "SET number = 2 WHERE number = 3", "SET number = 3 WHERE number = 99")
    table.run(*(f"UPDATE pipeline_audit {move}" for move in moves))
    assert [each[:3] for each in table.found()] == [("altered", "pipeline_audit", number) for number in (2, 3)]
    table.run("UPDATE pipeline_audit SET number = 7 WHERE number = 5")
    assert {each[0] for each in table.found()} == {"altered", "dropped"}


def test_an_end_that_was_cut_with_its_head_shows_by_a_head_that_was_kept(table: Table) -> None:
    audit = SqlAudit(table.url, key=table.key)
    kept = audit.head().digest
    audit.close()
    table.run(
        "DELETE FROM pipeline_audit WHERE number > 3",
        "UPDATE pipeline_audit_head SET number = 3, digest = (SELECT digest FROM pipeline_audit WHERE number = 3)",
    )
    assert table.found() == []
    assert table.found(kept) == [("dropped", "pipeline_audit", None, None)]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("DELETE FROM pipeline_audit_head", ("altered", "pipeline_audit_head", None, None)),
        ("UPDATE pipeline_audit_head SET number = 'x'", ("altered", "pipeline_audit_head", None, None)),
        ("UPDATE pipeline_audit_head SET digest = x'00'", ("altered", "pipeline_audit_head", None, None)),
        ("UPDATE pipeline_audit_head SET digest = 'x'", ("dropped", "pipeline_audit", None, None)),
        (
            "UPDATE pipeline_audit_head SET number = 2, digest = (SELECT digest FROM pipeline_audit WHERE number = 2)",
            ("altered", "pipeline_audit_head", 2, None),
        ),
    ],
)
def test_a_head_that_is_gone_or_old_shows(table: Table, change: str, found: Any) -> None:
    table.run(change)
    assert table.found() == [found]
    with pytest.raises((ConfigurationError, IntegrityError)):
        SqlAudit(table.url, key=table.key)(record(6))
