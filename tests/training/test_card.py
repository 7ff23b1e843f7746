"""The data card: figures as plain loops over paper have them, texts escaped, no value of a row, valid Croissant."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.command import windrow
from support.training.feed import CLICKED, FILE, INTERVAL, LENGTH, WINDOW, feed_home, heard, life
from support.training.outages import START
from support.training.table import Writer, empty_places
from windrow import training
from windrow.config import load
from windrow.home import Home
from windrow.jobs.run import Context
from windrow.jobs.upkeep import card as upkeep
from windrow.outcomes import NothingToDo
from windrow.places import Places
from windrow.semantics.intervals import micros
from windrow.semantics.reference import JoinedRow
from windrow.training.card import Card, card_of, write
from windrow.training.card.delays import STEPS, product_limit
from windrow.training.card.pages import plain
from windrow_airflow.pages import overview, web

NAMES = (*(f"card.{ending}" for ending in ("html", "md")), "croissant.json")


@cache
def rows_of_life() -> list[JoinedRow]:
    return [row for one in life().publications for row in one.joined.rows]


@pytest.fixture(scope="module")
def card(feed: Home) -> Card:
    return card_of("feed", places=feed.places)


def described(feed: Home, folder: Path, **changes: Any) -> Places:
    """Places of the feed whose pipeline file has other words; the rows keep their meaning."""
    folder.mkdir()
    tree = yaml.safe_load(FILE.read_text()) | changes
    (folder / FILE.name).write_text(yaml.safe_dump(tree))
    return replace(feed.places, pipelines=(folder,))


def test_figures_are_those_of_plain_loops(card: Card) -> None:
    figures = card.figures
    assert figures.rows == len(rows_of_life())
    assert figures.states == Counter(row.label_state for row in rows_of_life())
    assert figures.reasons == Counter(row.label_reason for row in rows_of_life() if row.label_reason)
    complete = [row for row in rows_of_life() if row.label_reason is None]
    positive = sum(bool(row.matches["clicks"]) for row in complete)
    assert (figures.complete, figures.positive) == (len(complete), positive)
    rate = positive / len(complete)
    assert figures.rates == {"clicks": pytest.approx(rate), "clicked": pytest.approx(rate)}
    assert 0.1 < rate < 0.9


def test_null_rates_and_ranges_are_those_of_plain_loops(card: Card) -> None:
    columns = {column.name: column for column in card.columns}
    unknown = sum(row.label_state == "unknown" for row in rows_of_life())
    assert columns["clicked"].null_rate == pytest.approx(unknown / len(rows_of_life()))
    assert columns["label_reason"].nulls == sum(row.label_reason is None for row in rows_of_life())
    served = [row.event_at for row in rows_of_life()]
    assert columns["served_at"].range == columns["_event_time"].range == (min(served), max(served))
    features = [one for row in rows_of_life() for one in row.values["features"]]
    assert columns["features"].range == pytest.approx((min(features), max(features)))
    clicks = [match.event_at for row in rows_of_life() for match in row.matches["clicks"]]
    assert columns["clicks.engaged_at"].range == (min(clicks), max(clicks))  # type: ignore[type-var]
    assert columns["clicks.engaged_at"].values == len(clicks)


def test_columns_that_identify_have_no_range(card: Card) -> None:
    without = {column.name for column in card.columns if column.range is None}
    keys = {"user_id", "item_id", "request_id", "clicks.user_id", "clicks.item_id", "clicks.event_id", "clicks.action"}
    assert keys | {"_topic", "_epoch", "_partition", "_offset", "clicks._offset"} <= without


def test_columns_have_their_types_and_meanings(card: Card) -> None:
    columns = {column.name: column for column in card.columns}
    assert columns["features"].ddl == "array<float>"
    assert columns["_offset"].ddl == "bigint"
    assert columns["user_id"].meaning == "Whom the item was shown to."
    assert columns["clicks.engaged_at"].meaning == "When the user clicked."
    assert columns["clicks"].meaning.startswith("The user's clicks on the item. Labels from the served time to 30m")
    assert columns["clicked"].meaning.endswith("Derived label: size(clicks) > 0")
    assert all(columns[name].meaning for name in columns if "_" in (name[0], name.rpartition(".")[2][0]))


def survivors(waited: list[tuple[int, bool]], until: int) -> float:
    """Kaplan and Meier at an instant, from (microseconds, has a label) of each row, one label after the other."""
    left = 1.0
    for at in sorted({d for d, has_label in waited if has_label and d <= until}):
        at_risk = sum(d >= at for d, _ in waited)
        left *= 1 - sum(has_label and d == at for d, has_label in waited) / at_risk
    return left


def test_the_delay_curve_is_the_product_limit(card: Card) -> None:
    waited: list[tuple[int, bool]] = []
    for one in life().publications:
        for row in one.joined.rows:
            delays = [match.event_at - row.event_at for match in row.matches["clicks"]]  # type: ignore[operator]
            observed = WINDOW
            if row.label_reason:
                observed = min(max(heard(life(), one) - row.event_at, timedelta(0)), WINDOW)
            seen = [d for d in delays if d < observed or not row.label_reason]
            waited.append((micros(min(seen)), True) if seen else (micros(observed), False))
    (curve,) = card.curves
    assert curve.labels == sum(has_label for _, has_label in waited)
    assert curve.censored == sum(not has_label and d < micros(WINDOW) for d, has_label in waited)
    assert curve.censored > 10
    for step in range(0, STEPS + 1, 50):
        exact = 1 - survivors(waited, curve.window * step // STEPS)
        assert curve.shares[step] == pytest.approx(exact, abs=5e-4)
    naive = curve.labels / len(waited)
    assert abs(curve.shares[-1] - (1 - survivors(waited, curve.window))) < abs(curve.shares[-1] - naive)


def test_a_curve_computed_by_hand() -> None:
    """Ten rows: two labels in step 1; two observed for a part of step 2, where one has its label; five to the end."""
    curve = product_limit("clicks", 1_000, {1: 2, 2: 1}, {STEPS: 5}, {2: 2})
    after_1, after_2 = 1 - 2 / 10, (1 - 2 / 10) * (1 - 1 / (8 - 2 / 2))
    assert curve.shares[:3] == pytest.approx((0, 1 - after_1, 1 - after_2))
    assert curve.shares[-1] == curve.shares[2]
    assert (curve.labels, curve.censored) == (3, 2)
    assert curve.until(1.0) == 2
    empty = product_limit("clicks", 1_000, {}, {}, {})
    assert set(empty.shares) == {0.0}
    assert empty.by_time[-1] == (1_000, 0.0, 1.0)


def test_a_range_has_the_figures_of_its_rows(feed: Home) -> None:
    until = START + LENGTH / 4
    card = card_of("feed", end=until, places=feed.places)
    assert card.figures.rows == sum(row.event_at < until for row in rows_of_life())
    assert len(card.pin.publications) == LENGTH / 4 / INTERVAL
    again = training.read_pinned(card.pin, places=feed.places).rows.collect()
    assert again.height == card.figures.rows


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::PendingDeprecationWarning")
def test_croissant_is_valid_and_loads_the_rows(feed: Home, card: Card, tmp_path: Path) -> None:
    import mlcroissant

    *_, path = write(card, tmp_path / "card")
    dataset = mlcroissant.Dataset(path)
    assert not dataset.metadata.ctx.issues.errors
    assert dataset.metadata.name == "feed"
    found = {(r["rows/_partition"], r["rows/_offset"]): r for r in dataset.records("rows")}
    rows = training.read("feed", labels="all", places=feed.places).rows.collect().to_dicts()
    assert len(found) == len(rows) == card.figures.rows
    for row in rows:
        record = found[(row["_partition"], row["_offset"])]
        assert (record["rows/user_id"], record["rows/served_at"]) == (row["user_id"], row["served_at"])
        assert record["rows/features"] == pytest.approx(row["features"])
        assert record["rows/_date"].date() == row["_date"]
        clicks = [(one["rows/clicks/event_id"], one["rows/clicks/engaged_at"]) for one in record["rows/clicks"]]
        assert clicks == [(one["event_id"].encode(), one["engaged_at"]) for one in row["clicks"]]


HOSTILE = 'a | b\n# head <script>alert("x")</script> `code` [link](http://evil) ![i](x) **bold** $x$'


def test_hostile_words_are_only_words(feed: Home, tmp_path: Path) -> None:
    changes = {"describe": {"row": HOSTILE, "columns": {"user_id": HOSTILE}}, "owner": HOSTILE, "license": HOSTILE}
    places = described(feed, tmp_path / "hostile", **changes)
    page, text, croissant = (path.read_text() for path in write(card_of("feed", places=places), tmp_path / "card"))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 4
    assert "<script" not in text
    (line,) = (line for line in text.splitlines() if line.startswith(r"| user\_id "))
    assert len(re.findall(r"(?<!\\)\|", line)) == 6, "a cell has become two"
    assert not re.findall(r"(?<!\\)(\*\*|`code|\[link|!\[)", text)
    assert not [line for line in text.splitlines() if line.startswith("# head")]
    assert json.loads(croissant)["license"] == HOSTILE


@pytest.mark.parametrize(
    ("text", "shown"),
    [("# x", r"\# x"), ("- x", r"\- x"), ("1. x", r"1\. x"), ("0.5%", "0.5%"), ("a_b|c", r"a\_b\|c"), ("\\", r"\\")],
)
def test_markup_of_markdown_is_escaped(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_no_value_of_a_row_is_on_a_card(tmp_path: Path) -> None:
    places = empty_places(tmp_path / "feed")
    home = Home(load(FILE, places.expectations), replace(places, pipelines=(FILE.parent,)))
    values = {"request_id": "planted-request", "user_id": 987654321012, "item_id": 555444333222}

    def planted(row: JoinedRow) -> JoinedRow:
        clicks = [replace(m, values={**m.values, **values, "event_id": "planted-click"}) for m in row.matches["clicks"]]
        return replace(row, values={**row.values, **values}, matches={**row.matches, "clicks": tuple(clicks)})

    Writer(home, CLICKED).publish_all(
        replace(one, joined=replace(one.joined, rows=tuple(map(planted, one.joined.rows))))
        for one in life().publications
    )
    rows = training.read("feed", labels="all", places=home.places).rows.collect()
    assert set(rows["user_id"]) == {987654321012}
    for path in write(card_of("feed", places=home.places), tmp_path / "card"):
        text = path.read_text()
        assert "planted" not in text
        assert not re.search("987654321012|555444333222|987.?654.?321|555.?444.?333", text)


def test_the_command_writes_a_card(feed: Home, tmp_path: Path) -> None:
    environ = {"WINDROW_HOME": str(feed.places.home), "WINDROW_KAFKA": "127.0.0.1:9"}
    out = tmp_path / "card"
    wanted = ["card", "feed", "--from", "2026-11-01T00:00:00Z", "--to", "2026-11-01T01:00:00Z", "--out", str(out)]
    done = windrow(environ, *wanted, "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["rows"] == sum(row.event_at < START + LENGTH / 4 for row in rows_of_life())
    assert shown["files"] == [str(out / name) for name in NAMES]
    assert sorted(path.name for path in out.iterdir()) == sorted(NAMES)
    wrong = windrow(environ, *wanted, "--at", "999")
    assert wrong.returncode == 2
    assert "no publication 999" in wrong.stderr


def test_the_daily_card_is_a_click_from_the_page_of_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest days alone are on it, as a change of the span shows; values of rows are in no part of it."""
    home = feed_home(empty_places(tmp_path / "feed"))
    monkeypatch.setattr(upkeep, "SPAN", 12 * INTERVAL)
    made, page = upkeep.card(Context(home.pipeline, home.places))
    rows, last = rows_of_life(), life().publications[-1].plan.interval.end
    assert 0 < made.figures.rows == sum(row.event_at >= last - 12 * INTERVAL for row in rows) < len(rows)
    reports = home.places.home / "reports"
    shown = overview.pipeline_page("feed", home.places)
    (link,) = re.findall(r'href="\.\./reports/feed/([^"]*)"[^>]*>data card<', shown)
    assert web.report_file(reports, "feed", link) == page
    assert web.report_file(reports, "feed", "../../tables") is None

    empty = replace(home.places, home=tmp_path / "empty", tables=None)
    with pytest.raises(NothingToDo, match="nothing is published"):
        upkeep.card(Context(home.pipeline, empty))


def test_an_interval_that_is_missing_is_a_limit(tmp_path: Path) -> None:
    home = feed_home(empty_places(tmp_path / "feed"))
    shutil.rmtree(tmp_path / "feed" / "home" / "locks", ignore_errors=True)
    end = START + LENGTH + 4 * INTERVAL
    assert not [one for one in card_of("feed", end=end, places=home.places).limits if "not published" in one]
    later = card_of("feed", end=end + 3 * INTERVAL, places=home.places)
    assert later.limits[0] == "3 intervals of 31 in the range not published; their rows are missing."


def test_reading_needs_neither_the_card_nor_croissant() -> None:
    code = "import sys, windrow.training, windrow.cli; print([m for m in sys.modules if 'croissant' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
