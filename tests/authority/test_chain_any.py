"""Whatever is done to the rows without the key, in any order: each row that isn't as it was is named, and no other."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from authority.conftest import Clock
from authority.packs import HELPDESK
from authority.tampering import filled, findings, put, rows
from preaction.authority import LocalAuthority
from preaction.authority.ledger import chain
from preaction.authority.storage.storage import EXECUTIONS, REMOVED

Row = dict[str, Any]
Rows = list[Row]

COLUMNS = [column.name for column in EXECUTIONS.columns if column.name != "number"]
LEFT = [column.name for column in REMOVED.columns if column.name != "number"]

places = st.integers(0, 8)
one = st.one_of(
    st.tuples(st.just("alter"), places, st.sampled_from(COLUMNS), st.sampled_from(["", "x", "é", "2026"])),
    st.tuples(st.just("drop"), places),
    st.tuples(st.just("swap"), places, places),
    st.tuples(st.just("move"), places, st.integers(-3, 14)),
    st.tuples(st.just("copy"), places, st.integers(-3, 14)),
    st.tuples(st.just("mix"), places, places, st.sampled_from(COLUMNS)),
    st.tuples(st.just("forge"), st.integers(-3, 14)),
)


@pytest.fixture(scope="module")
def authority() -> Iterator[LocalAuthority]:
    with LocalAuthority.from_pack(HELPDESK, None, clock := Clock()) as opened:
        yield filled(opened, clock)


def done(step: tuple[Any, ...], before: Rows, made: int) -> Rows:
    """The rows after one act; one that the table's rules forbid changes nothing."""
    after = [dict(row) for row in before]
    act, *given_ = step
    here = after[given_[0] % len(after)] if after and act != "forge" else None
    if act == "forge":
        example = dict.fromkeys(COLUMNS, "forged")
        after.append({**example, "id": f"exe_forged{made}", "number": given_[0]})
    elif here is None:
        return before
    elif act == "alter":
        here[given_[1]] = given_[2]
    elif act == "drop":
        after.remove(here)
    elif act == "swap":
        other = after[given_[1] % len(after)]
        here["number"], other["number"] = other["number"], here["number"]
    elif act == "move":
        here["number"] = given_[1]
    elif act == "copy":
        after.append({**here, "id": f"exe_copy{made}", "number": given_[1]})
    else:
        other = after[given_[1] % len(after)]
        here[given_[2]] = other[given_[2]]
    unique = all(len({row[name] for row in after}) == len(after) for name in ("id", "number"))
    kept = all(row[name] is not None for row in after for name in COLUMNS if name not in ("outcome", "revoked_at"))
    return after if unique and kept else before


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(one, min_size=1, max_size=6), page=st.sampled_from([1, 2, 3, 500]))
def test_what_is_not_as_it_was_is_named_and_nothing_else(
    authority: LocalAuthority, monkeypatch: pytest.MonkeyPatch, steps: list[tuple[Any, ...]], page: int
) -> None:
    monkeypatch.setattr(chain, "PAGE", page)
    before = rows(authority, EXECUTIONS)
    after = before
    for made, step in enumerate(steps):
        after = done(step, after, made)
    put(authority, EXECUTIONS, after)
    try:
        found = findings(authority)
    finally:
        put(authority, EXECUTIONS, before)
    named = {(each.number, each.id) for each in found if each.kind != "dropped"}
    missing = {n for each in found if each.kind == "dropped" for n in range(each.number or 0, (each.last or 0) + 1)}
    good = {row["number"]: row for row in before}
    odd = [row for row in after if row != good.get(row["number"])]
    assert named == {(row["number"], row["id"]) for row in odd}
    standing = {row["number"] for row in after}
    written = {row["id"]: row["number"] for row in before}
    # Gone: nothing stands there, and no row elsewhere was written with that number.
    moved = {written[row["id"]] for row in odd if row["id"] in written and row["number"] != written[row["id"]]}
    assert good.keys() - standing - moved <= missing
    assert missing <= good.keys() - {row["number"] for row in after if row == good.get(row["number"])}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    acts=st.dictionaries(st.integers(0, 2), st.one_of(st.just("drop"), st.sampled_from(LEFT)), min_size=1),
    value=st.sampled_from(["", "x", "é"]),
)
def test_the_same_for_what_retention_left(authority: LocalAuthority, acts: dict[int, str], value: str) -> None:
    before = rows(authority, REMOVED)
    after = [dict(row) for row in before]
    for place, act in acts.items():
        if act != "drop":
            after[place][act] = f"{value}{place}"
    after = [row for place, row in enumerate(after) if acts.get(place) != "drop"]
    put(authority, REMOVED, after)
    try:
        found = findings(authority)
    finally:
        put(authority, REMOVED, before)
    named = {(each.number, each.id) for each in found if each.kind == "altered"}
    missing = {n for each in found if each.kind == "dropped" for n in range(each.number or 0, (each.last or 0) + 1)}
    assert named == {(row["number"], row["id"]) for row in after if row not in before}
    assert missing == {row["number"] for row in before} - {row["number"] for row in after}
