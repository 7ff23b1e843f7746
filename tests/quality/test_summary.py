"""The daily summary: rates from sums, gaps where nothing is known, nothing fetched, nothing of a row."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from windrow.quality import summary
from windrow.quality.summary import Figures

DAY = date(2026, 11, 1)
MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)
GOOD = Figures(
    intervals=1, served=105, published=100, duplicate=3, unpaired=2, positive=8, negative=72, unknown=20, late=4,
    flips=1, null_rate_max=0.25,
)  # fmt: skip
HOUR = timedelta(hours=1)


def test_a_rate_has_its_own_denominator() -> None:
    assert GOOD.label_rate == 0.1  # positives among the known
    assert GOOD.unknown_rate == 0.2
    assert (GOOD.late_rate, GOOD.flip_rate) == (0.04, 0.01)
    assert GOOD.unaccounted == 0
    assert Figures(served=105, published=99, duplicate=3, unpaired=2).unaccounted == 1
    assert Figures(served=105, published=99, duplicate=3, unpaired=2, erased=1).unaccounted == 0


def test_a_day_is_the_sum_of_its_intervals_and_its_rates_come_from_the_sums() -> None:
    quiet = Figures(intervals=1, served=900, published=900, negative=900, null_rate_max=0.5)
    day = summary.total([GOOD, quiet])
    assert (day.intervals, day.served, day.published) == (2, 1005, 1000)
    assert day.label_rate == 8 / 980
    assert day.null_rate_max == 0.5


def test_a_rate_of_nothing_is_none_and_not_zero() -> None:
    empty = Figures(intervals=1)
    assert (empty.label_rate, empty.unknown_rate, empty.late_rate, empty.flip_rate) == (None, None, None, None)
    page = summary.page("feed", DAY, [(MIDNIGHT, empty)], [(DAY, empty)])
    assert "nothing to show" in page
    assert "<polyline" not in page


def test_an_interval_without_a_value_is_a_gap_in_the_line() -> None:
    intervals = [(MIDNIGHT + n * HOUR, GOOD if n != 2 else Figures(intervals=1)) for n in range(5)]
    page = summary.page("feed", DAY, intervals, [])
    label_rate = page.split("<h2>")[1]
    assert label_rate.count("<polyline") == 2
    assert [len(points.split()) for points in re.findall(r'points="([^"]*)"', label_rate)] == [2, 2]


def test_each_plot_has_its_numbers_in_words() -> None:
    rich = Figures(intervals=1, served=10, published=10, positive=5, negative=5)
    page = summary.page("feed", DAY, [(MIDNIGHT, GOOD), (MIDNIGHT + HOUR, rich)], [(DAY, GOOD + rich)])
    assert "Label rate on 2026-11-01: lowest 10.00% at 00:00, highest 50.00% at 01:00, last 50.00%" in page
    assert page.count('role="img"') == page.count("aria-label=")


@pytest.mark.parametrize(("figures", "off"), [(GOOD, 0), (Figures(intervals=1, served=2, published=1), 2)])
def test_served_rows_that_are_unaccounted_for_are_marked(figures: Figures, off: int) -> None:
    page = summary.page("feed", DAY, [(MIDNIGHT, figures)], [])
    assert page.count('class="off"') == off  # the interval, and all of them


def test_a_blocked_interval_is_marked_and_counted() -> None:
    page = summary.page("feed", DAY, [(MIDNIGHT, GOOD), (MIDNIGHT + HOUR, Figures(blocked=1))], [])
    assert "Blocked: 1." in page
    assert 'class="off"' in page


def test_the_front_page_is_the_newest_day_even_after_an_older_one_is_written_again(tmp_path: Path) -> None:
    summary.write("feed", DAY + timedelta(days=1), [], [], tmp_path)
    written = summary.write("feed", DAY, [(MIDNIGHT, GOOD)], [], tmp_path)
    assert "feed on 2026-11-02" in (tmp_path / "summary" / "index.html").read_text()
    assert "feed on 2026-11-01" in written.read_text()
    assert 'href="2026-11-02.html"' in written.read_text()


def test_only_the_pages_of_old_days_are_deleted(tmp_path: Path) -> None:
    for n in range(3):
        summary.write("feed", DAY + timedelta(days=n), [], [], tmp_path)
    assert summary.forget(tmp_path, DAY + timedelta(days=2)) == 2
    left = sorted(path.name for path in (tmp_path / "summary").glob("*.html"))
    assert left == ["2026-11-03.html", "index.html"]


def test_the_page_fetches_nothing_and_shows_names_as_text(tmp_path: Path) -> None:
    page = summary.page("<b>feed", DAY, [(MIDNIGHT, GOOD)], [(DAY, GOOD)])
    assert "<b>feed" not in page
    assert not re.search(r"https?://|<script|<img|<link|\son[a-z]+=|@import", page, re.IGNORECASE)
