"""Durations and instants: which texts are read, which are refused, and that nothing is guessed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from windrow.text import duration_text, parse_duration, parse_instant


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("0s", timedelta(0)),
        ("500ms", timedelta(milliseconds=500)),
        ("30s", timedelta(seconds=30)),
        ("10m", timedelta(minutes=10)),
        ("1h", timedelta(hours=1)),
        ("1d", timedelta(hours=24)),
        ("1h30m", timedelta(minutes=90)),
        ("1d2h3m4s5ms", timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)),
        ("1m5ms", timedelta(minutes=1, milliseconds=5)),
        ("90m", timedelta(minutes=90)),
        (" 10m ", timedelta(minutes=10)),
        ("366d", timedelta(days=366)),
    ],
)
def test_a_duration_is_read_with_its_units(text: str, length: timedelta) -> None:
    assert parse_duration(text) == length


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10", "'10' has no unit; write 10s, 10m, 10h or 10ms"),
        ("-10m", "'-10m' is negative; a duration is 0s or more"),
        ("", "'' is not a duration; write 500ms, 30s, 10m, 1h30m or 1d"),
        ("1.5h", "'1.5h' is not a duration"),
        ("10 m", "'10 m' is not a duration"),
        ("30m1h", "'30m1h' is not a duration"),
        ("10m10m", "'10m10m' is not a duration"),
        ("10M", "'10M' is not a duration"),
        ("2w", "'2w' is not a duration"),
        ("PT10M", "'PT10M' is not a duration"),
        ("١٠m", "is not a duration"),
        ("366d1ms", "'366d1ms' is too long; at most 366d"),
        ("999999999999d", "is too long; at most 366d"),
        ("9" * 1_000_000, "is not a duration"),
    ],
)
def test_what_is_no_duration_says_what_would_be_one(text: str, says: str) -> None:
    with pytest.raises(ValueError) as wrong:  # noqa: PT011 - the message is asserted below
        parse_duration(text)
    assert says in str(wrong.value)
    assert len(str(wrong.value)) < 200


@pytest.mark.parametrize("text", ["0s", "500ms", "30s", "1h30m", "1d", "2d1h1m1s1ms"])
def test_a_duration_is_written_as_it_was_read(text: str) -> None:
    assert duration_text(parse_duration(text)) == text


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-01T00:00:00Z", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T02:00:00+02:00", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-10-31 18:30-0530", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01t00:00:00.000001z", datetime(2026, 11, 1, microsecond=1, tzinfo=UTC)),
        ("2028-02-29T00:00:00Z", datetime(2028, 2, 29, tzinfo=UTC)),
        ("1970-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_an_instant_with_a_zone_is_utc(text: str, at: datetime) -> None:
    assert parse_instant(text) == at
    assert parse_instant(text).tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2026-11-01T00:00:00", "has no time zone; write 2026-11-01T00:00:00Z if UTC is meant"),
        ("2026-11-01", "has no time zone; write 2026-11-01T00:00:00Z if UTC is meant"),
        ("2026-11-01T00:00:00.0000001Z", "is not an instant; write 2026-11-01T00:00:00Z"),
        ("2026-02-29T00:00:00Z", "is not an instant: day is out of range for month"),
        ("2026-11-01T24:30:00Z", "is not an instant"),
        ("1969-12-31T23:59:59Z", "only the years 1970 to 2199 can be meant"),
        ("2200-01-01T00:00:00Z", "only the years 1970 to 2199 can be meant"),
        ("0001-01-01T00:00:00+02:00", "is not an instant"),
        ("yesterday", "'yesterday' is not an instant; write 2026-11-01T00:00:00Z"),
        ("1761955200", "is not an instant"),
    ],
)
def test_what_is_no_instant_says_what_would_be_one(text: str, says: str) -> None:
    with pytest.raises(ValueError) as wrong:  # noqa: PT011 - the message is asserted below
        parse_instant(text)
    assert says in str(wrong.value)
