"""RFC 3339 times: always with a zone, always in UTC afterwards."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preaction.wire.times import read_time, write_time

NINE = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-30T09:00:00Z", NINE),
        ("2026-11-30t09:00:00z", NINE),
        ("2026-11-30T10:30:00+01:30", NINE),
        ("2026-11-30T07:00:00-02:00", NINE),
        ("2026-11-30T09:00:00-00:00", NINE),
        ("2026-11-30T09:00:00.5Z", NINE + timedelta(milliseconds=500)),
        ("2026-11-30T09:00:00.123456789Z", NINE + timedelta(microseconds=123_456)),
        ("2024-02-29T00:00:00+14:00", datetime(2024, 2, 28, 10, tzinfo=UTC)),
    ],
)
def test_a_time_with_a_zone_is_one_instant(text: str, time: datetime) -> None:
    found = read_time(text)
    assert (found, found.tzinfo) == (time, UTC)


def test_case_h13() -> None:
    """A negative offset makes a time later than it looks."""
    assert read_time("2026-01-10T10:30:00-02:00") > read_time("2026-01-10T12:00:00Z")


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-30T09:00:00",
        "2026-11-30",
        "2026-11-30T09:00Z",
        "2026-11-30 09:00:00Z",
        "20261130T090000Z",
        "2026-11-30T09:00:00+0100",
        "2026-11-30T09:00:00+01",
        "2026-11-30T09:00:00 Z",
        " 2026-11-30T09:00:00Z",
        "2026-11-30T09:00:00Z\n",
        "2026-11-30T09:00:00,5Z",
        "2026-11-30T09:00:00.Z",
        "2026-13-01T09:00:00Z",
        "2026-02-29T09:00:00Z",
        "2026-11-30T25:00:00Z",
        "2026-11-30T09:60:00Z",
        "2026-11-30T09:00:61Z",
        "2026-11-30T09:00:00+24:00",
        "2026-W49-1T09:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "\uff12026-11-30T09:00:00Z",
        "now",
        "",
        1_764_493_200,
        1_764_493_200_000,
        None,
        True,
        datetime(2026, 11, 30, 9),
    ],
)
def test_a_time_that_could_mean_two_instants_means_none(value: Any) -> None:
    with pytest.raises(ValueError, match=r"time|range|zone|hour|minute|second|day|month|year|offset|Invalid|between"):
        read_time(value)


@given(st.datetimes(timezones=st.timezones() | st.just(timezone(timedelta(hours=-9, minutes=-30)))))
def test_what_is_written_is_read_as_the_same_instant(time: datetime) -> None:
    try:
        written = write_time(time)
    except OverflowError:
        return
    assert written.endswith("Z")
    # Compared as instants: a local time that a change of clocks leaves out equals none in another zone (PEP 495).
    assert read_time(written) == time.astimezone(UTC) == read_time(time)


@given(st.text(max_size=40))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        read_time(text)
    except ValueError:
        return


def test_microseconds_are_written_only_where_there_are_some() -> None:
    assert write_time(NINE) == "2026-11-30T09:00:00Z"
    assert write_time(NINE + timedelta(microseconds=1)) == "2026-11-30T09:00:00.000001Z"
    assert write_time(NINE.astimezone(timezone(timedelta(hours=5)))) == "2026-11-30T09:00:00Z"
