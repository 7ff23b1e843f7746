"""Data Docs: a page for each interval, an index that loses none, nothing fetched."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote

import pytest

from windrow.quality import pages
from windrow.quality.report import rows
from windrow.quality.verdicts import Judgement
from windrow.schemas import QUALITY

from .conftest import JUDGED_AT, interval

Measures = dict[str, float | None]
Judge = Callable[..., Judgement]


def site_of(judgement: Judgement) -> Path:
    return judgement.report.parents[3]


def html(site: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in site.rglob("*.html")}


def links(page: Path) -> Iterator[Path]:
    for target in re.findall(r'href="([^"#]+)', page.read_text()):
        yield page.parent / unquote(target)


def test_the_index_keeps_every_earlier_interval(judged: Judge, measures: Measures) -> None:
    site = site_of(judged(measures, 0))
    judged({**measures, "rows_outside_interval": 1.0}, 1)
    judged(measures, 200)  # the next day

    index = (site / "index.html").read_text()

    for at in ("2026-11-01T00:00:00Z", "2026-11-01T00:10:00Z", "2026-11-02T09:20:00Z"):
        assert index.count(f">{at}<") == 1
    assert "rows_outside_interval" in index
    assert index.index("2026-11-02T09:20:00Z") < index.index("2026-11-01T00:10:00Z")


def test_an_interval_judged_under_two_plans_keeps_both(judged: Judge, measures: Measures) -> None:
    first = judged({**measures, "rows": -1.0}, plan="aaaa")
    second = judged(measures, plan="bbbb")

    assert first.report != second.report
    assert first.report.exists()
    assert (site_of(first) / "index.html").read_text().count(">2026-11-01T00:00:00Z<") == 2


def test_an_interval_judged_again_is_listed_once(judged: Judge, measures: Measures) -> None:
    judged({**measures, "rows": -1.0})
    judgement = judged(measures)

    index = (site_of(judgement) / "index.html").read_text()
    assert index.count(">2026-11-01T00:00:00Z<") == 1
    assert "1 passed" in index


def test_a_deleted_page_leaves_the_index_at_the_next_judgement(judged: Judge, measures: Measures) -> None:
    gone = judged(measures, 0)
    shutil.rmtree(gone.report.parents[1])
    judgement = judged(measures, 1)

    assert "2026-11-01T00:00:00Z" not in (site_of(judgement) / "index.html").read_text()


def test_the_front_page_lists_the_newest_and_the_page_of_the_day_lists_all(
    judged: Judge, measures: Measures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "LISTED", 2)
    for number in range(3):
        judgement = judged(measures, number)
    site = site_of(judgement)

    assert (site / "index.html").read_text().count('index.html">2026-11-01T00:') == 2
    assert "1 older ones" in (site / "index.html").read_text()
    assert (site / "2026-11-01" / "index.html").read_text().count('index.html">2026-11-01T00:') == 3


def history(site: Path, judgements: int, a_day: int) -> None:
    """Judgements of a long past, as a clean-up or an older version left them: the folders only."""
    for n in range(judgements):
        at = datetime(2026, 6, 1, tzinfo=UTC) + timedelta(days=n // a_day, minutes=n % a_day)
        folder = site / f"{at:%Y-%m-%d}" / f"{at:%H%M%S}Z" / f"{n:016x}"
        folder.mkdir(parents=True)
        entry = {"interval": f"{at:%Y-%m-%dT%H:%M:%SZ}", "until": "", "plan": f"{n:016x}", "verdict": "passed"}
        entry |= {"about": [], "judged_at": "", "page": f"{at:%Y-%m-%d}/{at:%H%M%S}Z/{n:016x}/index.html"}
        (folder / "judgement.json").write_text(json.dumps(entry))


def test_after_thousands_of_intervals_the_index_is_short_and_a_judgement_reads_its_own_day(
    judged: Judge, measures: Measures, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = site_of(judged(measures, 0))
    history(site, judgements=5000, a_day=100)
    for day in site.glob("2026-*"):
        pages._list_day("feed", day)

    read: list[str] = []
    entries = pages._entries
    monkeypatch.setattr(pages, "_entries", lambda day: read.append(day.name) or entries(day))
    judged(measures, 1)

    assert read == ["2026-11-01"]
    index = (site / "index.html").read_text()
    assert "5002 judgements on 51 days" in index
    assert index.count('/index.html">2026-') == pages.LISTED + 51
    assert "4802 older ones" in index
    assert len(index) < 100_000


def test_old_days_are_deleted_whole_and_leave_the_index(judged: Judge, measures: Measures) -> None:
    site = site_of(judged(measures, 0))
    history(site, judgements=30, a_day=10)
    assert pages.forget("feed", site.parent, date(2026, 11, 1)) == 3
    assert "1 judgements on 1 day." in (site / "index.html").read_text()
    assert pages.forget("feed", site.parent, date(2026, 11, 1)) == 0


def test_every_link_leads_to_a_page(judged: Judge, measures: Measures) -> None:
    judged(measures, 0)
    site = site_of(judged({**measures, "rows": -1.0}, 1))
    found = [target for page in site.rglob("*.html") for target in links(page)]

    assert len(found) > 10
    assert [target for target in found if not target.exists()] == []


def test_the_pages_open_from_disk_and_fetch_nothing(judged: Judge, measures: Measures) -> None:
    del measures["null_row_id"]
    for page in html(site_of(judged(measures))).values():
        assert not re.search(r"https?://|<script|<img|<link|\son[a-z]+=|@import", page, re.IGNORECASE)


def test_the_page_of_an_interval_says_verdict_value_bound_and_next_move(judged: Judge, measures: Measures) -> None:
    page = judged({**measures, "rows_outside_interval": 3.0}).report.read_text()

    assert "blocked" in page
    assert "rows_outside_interval: observed 3, expected = 0" in page
    assert "windrow train feed --interval 2026-11-01T00:00:00Z" in page
    assert "Every row&#39;s event time lies in [from, to)" in page


def test_great_expectations_shows_each_suite_with_the_observed_value(judged: Judge, measures: Measures) -> None:
    folder = judged({**measures, "rows_outside_interval": 3.0, "label_rate": 1.5}).report.parent
    page = (folder / "training_rows.html").read_text()

    assert "2026-11-01T00:00:00Z" in page  # the run is named after the interval
    assert "maximum value must be" in page
    assert re.search(r"rows_outside_interval.*?Observed Value.*?>3<", page, re.DOTALL)
    assert "1.5" in page
    assert (folder / "landing_rows.html").exists()


def test_a_measure_name_with_markup_is_shown_as_text(judged: Judge, measures: Measures) -> None:
    for page in html(site_of(judged({**measures, "null_rate.<b onclick=x>": 0.9}))).values():
        assert "<b onclick" not in page


def test_no_folder_of_this_machine_is_in_great_expectations_pages(judged: Judge, measures: Measures) -> None:
    del measures["null_row_id"]
    page = (judged(measures).report.parent / "training_rows.html").read_text()

    assert "raised an exception" in page
    assert "site-packages" not in page
    assert "Traceback (most" not in page


@pytest.mark.parametrize("plan", ["../x", "a/b", "", "a b"])
def test_a_plan_id_that_could_leave_the_folder_is_refused(tmp_path: Path, plan: str) -> None:
    with pytest.raises(ValueError, match="not a plan id"):
        pages.page_path(tmp_path, interval(), plan)


def test_the_quality_rows_fit_the_table_and_agree_with_the_report(judged: Judge, measures: Measures) -> None:
    judgement = judged({**measures, "rows_outside_interval": 3.0, "label_rate_z": None})
    found = rows(judgement)

    assert all(list(row) == QUALITY.names for row in found)
    assert [r for r in found if r["verdict"] == "failed"] == [
        {
            "plan": "0123456789abcdef",
            "interval": interval().start,
            "suite": "training_rows",
            "expectation": "expect_column_max_to_be_between",
            "metric": "rows_outside_interval",
            "value": 3.0,
            "bound": "= 0",
            "severity": "critical",
            "verdict": "failed",
            "report": str(judgement.report),
            "judged_at": JUDGED_AT,
            "why": "rows_outside_interval 3, not 0",
        }
    ]
    assert {row["why"] for row in found if row["verdict"] == "passed"} == {None}
    assert {row["value"] for row in found if row["metric"] == "label_rate_z"} == {None}
