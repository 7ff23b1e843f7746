"""The job `summarise` on real small tables: registers, measures and late ledger become a page."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.small_pipeline import PIPELINE as SMALL
from support.small_pipeline import START
from windrow.config import load
from windrow.io.delta import tables
from windrow.io.registers import judgements, publications
from windrow.jobs.run import Context
from windrow.jobs.summarise import figures, main, read, summarise
from windrow.places import Places
from windrow.schemas import LATE, MEASURES, PUBLICATIONS

HOUR = timedelta(hours=1)
PIPELINE = SMALL.replace("name: small", "name: feed").replace("interval: 1m", "interval: 1h").replace("{t}", "feed")


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    """Two intervals published, the first of them twice; the third blocked; a late label that flips a row."""
    file = tmp_path / "pipelines" / "feed.yaml"
    file.parent.mkdir()
    file.write_text(PIPELINE)
    places = Places(home=tmp_path / "home", cache=tmp_path, pipelines=(file.parent,))
    made = Context(load(file, places.expectations), places, lambda: START + timedelta(days=1, hours=2))
    _publish(made, 1, START, positive=1, negative=9)
    _publish(made, 2, START + HOUR, positive=4, negative=4, unknown=2)
    _publish(made, 3, START, positive=2, negative=8, by="ada")
    _publish(made, 4, START - timedelta(days=1), positive=0, negative=10)
    measures = [{"plan": f"p{n}", "interval": START, "name": "null_rate_max", "value": n / 10} for n in (1, 3)]
    tables.append_next(places.table("feed", "measures"), MEASURES, measures, app_id="test")
    line = {"interval": START, "publication": 3, "pass": 1, "kind": "late_label", "subject": "s"}
    flip = {**line, "subject": "t", "state_before": "negative", "state_after": "positive"}
    old = {**line, "publication": 1, "subject": "u"}
    tables.append_next(places.table("feed", "late"), LATE, [line, flip, old], app_id="test")
    blocked = {"interval": START + 2 * HOUR, "severity": "critical", "verdict": "failed", "judged_at": START}
    judgements.record(made.home, [blocked])
    return made


def _publish(ctx: Context, number: int, at: datetime, *, by: str | None = None, **counts: int) -> None:
    row: dict[str, Any] = dict.fromkeys(PUBLICATIONS.names)
    row |= {"positive": 0, "negative": 0, "unknown": 0, **counts}
    row |= {"number": number, "interval": at, "interval_end": at + HOUR, "plan_id": f"p{number}", "overridden_by": by}
    row |= {"rows": sum(counts.values()), "left_duplicate": 1, "left_unpaired": 0, "published_at": at + HOUR}
    row |= {"left_landed": row["rows"] + 1, "config_hash": ctx.pipeline.config_hash}
    publications.register(ctx.home, row)


def test_each_interval_has_the_figures_of_its_standing_publication(ctx: Context) -> None:
    found = figures(read(ctx, START, START + timedelta(days=1)))
    assert list(found) == [START, START + HOUR, START + 2 * HOUR]
    first, second, third = found.values()
    assert (first.positive, first.served, first.published, first.duplicate) == (2, 11, 10, 1)
    assert (first.late, first.flips, first.overridden, first.null_rate_max) == (2, 1, 1, 0.3)
    assert (second.label_rate, second.unknown_rate, second.late) == (0.5, 0.2, 0)
    assert (third.intervals, third.blocked) == (0, 1)
    assert [one.unaccounted for one in found.values()] == [0, 0, 0]


def test_the_page_of_a_day_has_its_intervals_and_the_trend_of_the_days_before(ctx: Context) -> None:
    text = summarise(ctx, date(2026, 11, 1)).read_text()
    assert "2 intervals published with 20 of 22 served rows (2 duplicates, 0 unpaired, 0 unaccounted)" in text
    assert "Overridden: 1. Empty: 0. Blocked: 1." in text
    assert "Label rate, 2 days: lowest 0.00% at 10-31" in text


def test_a_day_without_a_publication_has_a_page(ctx: Context) -> None:
    assert "No interval of this day is published" in summarise(ctx, date(2026, 11, 5)).read_text()


def test_the_default_day_is_yesterday_and_the_result_names_the_page(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("windrow.jobs.summarise.context", lambda name: ctx)
    assert main(["feed"]) == 0
    assert "summary/2026-11-01.html" in capsys.readouterr().out
    assert main(["feed", "--day", "yesterday"]) == 2
