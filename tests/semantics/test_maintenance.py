"""Which files are merged: hours and days that are over, and after a month the landed hours of a day to one file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from windrow.semantics.maintenance import (
    ROWS_PER_FILE,
    SETTLED,
    LandingFile,
    TrainingFile,
    landing_pieces,
    training_pieces,
)

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


def published(number: int, apart: timedelta, rows: int = 10) -> list[TrainingFile]:
    """Files of one interval each; the first one begins at midnight."""
    starts = [MIDNIGHT + n * apart for n in range(number)]
    return [TrainingFile(f"f{n}", rows, at.date(), at) for n, at in enumerate(starts)]


def training(files: list[TrainingFile], before: datetime) -> list[tuple[datetime, int, int]]:
    return [(one.begins, len(one.paths), one.wanted) for one in training_pieces(files, before)]


def test_a_day_of_training_rows_keeps_a_file_for_each_hour_however_old_it_is() -> None:
    intervals, hours = published(150, MINUTES), published(30, timedelta(hours=1))
    assert training(intervals, MIDNIGHT + DAY) == [(MIDNIGHT, 144, 24)]
    assert training(hours, MIDNIGHT + DAY + SETTLED) == []
    large = published(24, timedelta(hours=1), rows=2 * ROWS_PER_FILE)
    assert training([*large, *published(120, timedelta(minutes=12), rows=1)], MIDNIGHT + DAY) == [(MIDNIGHT, 120, 49)]
    assert training(published(1, MINUTES), MIDNIGHT + DAY + SETTLED) == []
