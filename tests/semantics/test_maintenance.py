"""Which files of a landing table are merged: hours that are over, and after a month the days of these hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from windrow.semantics.maintenance import ROWS_PER_FILE, SETTLED, LandingFile, landing_pieces

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)
MINUTES, DAY = timedelta(minutes=10), timedelta(days=1)


def files(number: int, apart: timedelta, rows: int = 10) -> list[LandingFile]:
    """Files of one batch each; the first one has arrived at midnight."""
    return [LandingFile(f"f{n}", rows, n + 1, n + 1, MIDNIGHT + n * apart) for n in range(number)]


def found(landed: list[LandingFile], before: datetime) -> list[tuple[datetime, int, int, tuple[int, int] | None]]:
    return [(one.begins, len(one.paths), one.wanted, one.batches) for one in landing_pieces(landed, before)]


def test_an_hour_that_is_over_becomes_one_file() -> None:
    assert found(files(8, MINUTES), MIDNIGHT + timedelta(hours=1)) == [(MIDNIGHT, 6, 1, (1, 6))]
    assert found(files(24, timedelta(hours=1)), MIDNIGHT + DAY) == []


def test_after_a_month_the_hours_of_a_day_become_one_file() -> None:
    hours = files(30, timedelta(hours=1))
    assert found(hours, MIDNIGHT + DAY + SETTLED) == [(MIDNIGHT, 24, 1, (1, 24))]
    assert found(hours, MIDNIGHT + DAY + SETTLED - timedelta(microseconds=1)) == []
    assert found(hours, MIDNIGHT + 2 * DAY + SETTLED) == [(MIDNIGHT, 24, 1, (1, 24)), (MIDNIGHT + DAY, 6, 1, (25, 30))]


def test_rows_of_a_month_ago_are_not_written_again_where_that_would_save_few_files() -> None:
    large, before = files(24, timedelta(hours=1), rows=ROWS_PER_FILE // 2 + 1), MIDNIGHT + DAY + SETTLED
    assert found(large, before) == []
    assert found([one._replace(rows=ROWS_PER_FILE // 2) for one in large], before) == [(MIDNIGHT, 24, 12, (1, 24))]
    assert found(files(1, MINUTES), before) == []
