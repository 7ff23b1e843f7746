"""Delays, observed ages and survival data: what plain loops over paper give, and unbiased through outages."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.histories import rules
from support.training.feed import WINDOW, heard, life
from support.training.outages import MICROSECOND, MINUTE, RULES, START, Outage, lived
from support.training.outages import WINDOW as OUTAGE_WINDOW
from support.training.table import Writer, arrival, empty_places, paper_home, seen
from windrow import training
from windrow.home import Home
from windrow.places import Places
from windrow.semantics.clock import IdlePolicy
from windrow.semantics.paper.landings import Sent
from windrow.semantics.paper.model import Model, Publication
from windrow.semantics.reference import JoinedRow

approx = partial(pytest.approx, rel=1e-12, abs=0)
"""Apart from the last bit."""


def observed_for(row: JoinedRow, one: Publication, after: timedelta) -> timedelta:
    """How long the row was observed: the window, or less if its label side fell silent in it."""
    if row.label_reason is None:
        return after
    assert row.label_reason == "side_silent"
    return min(max(heard(life(), one) - row.event_at, timedelta(0)), after)


def by_row(frame: pl.DataFrame) -> Mapping[tuple[int, int], dict[str, Any]]:
    return {(row["_partition"], row["_offset"]): row for row in frame.iter_rows(named=True)}


def rows_of(life: Model) -> Iterable[tuple[Publication, JoinedRow, tuple[int, int]]]:
    for one in life.publications:
        for row in one.joined.rows:
            yield one, row, (row.row_id.partition, row.row_id.offset)


@pytest.mark.parametrize("after", [None, "10m"])
def test_delays_and_ages_are_those_of_plain_loops(feed: Home, after: str | None) -> None:
    options: Any = {"labels": "all", "delays": True, "matured": after}
    found = by_row(training.read("feed", **options, places=feed.places).rows.collect())
    length, kept, short = 10 * MINUTE if after else WINDOW, 0, 0
    for one, row, key in rows_of(life()):
        labels = [m for m in row.matches["clicks"] if m.event_at - row.event_at <= length]  # type: ignore[operator]
        assert found[key]["_delay_clicks"] == approx([(m.event_at - row.event_at).total_seconds() for m in labels])
        landed = [(arrival(m.event_at) - row.event_at).total_seconds() for m in labels]  # type: ignore[arg-type]
        assert found[key]["_arrival_clicks"] == approx(landed)
        age = observed_for(row, one, length)
        assert found[key]["_age_clicks"] == approx(age.total_seconds())
        kept, short = kept + len(labels), short + (timedelta(0) < age < length)
    assert kept > 50
    assert short > 5 or after


@pytest.mark.parametrize("after", [None, "10m"])
def test_a_row_is_censored_when_it_was_last_observed(feed: Home, after: str | None) -> None:
    options: Any = {"labels": "all", "survival": "clicks", "matured": after}
    found = by_row(training.read("feed", **options, places=feed.places).rows.collect())
    length = 10 * MINUTE if after else WINDOW
    for one, row, key in rows_of(life()):
        age = observed_for(row, one, length)
        is_whole = row.label_reason is None or heard(life(), one) - row.event_at > length
        delays = [m.event_at - row.event_at for m in row.matches["clicks"]]  # type: ignore[operator]
        in_time = [d for d in delays if (d <= length if is_whole else row.event_at + d < heard(life(), one))]
        expected = (min(in_time), False) if in_time else (age, True)
        assert (found[key]["_duration"], found[key]["_censored"]) == (approx(expected[0].total_seconds()), expected[1])
        assert found[key]["_weight"] == 1


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        (5 * MINUTE, (240.0, True)),  # the label itself is the newest: what is a minute older has landed
        (6 * MINUTE, (300.0, True)),  # up to, and not with, the time of the label
        (6 * MINUTE + MICROSECOND, (300.0, False)),
    ],
)
def test_a_label_counts_only_where_all_of_its_time_was_heard(
    places: Places, newest: timedelta, expected: tuple[float, bool]
) -> None:
    """A label that came early by chance, in a time of which others are still on their way, would bias durations."""
    made = replace(RULES, out_of_orderness={"served": timedelta(0), "labels": MINUTE})
    model = Model(made)
    model.produce(("served", 0), Sent(START, {"key": "k"}, START))
    for at, key in ((START + 5 * MINUTE, "k"), (START + newest, "other")):
        model.produce(("labels", 0), Sent(at, {"key": key}, at))
    for now in (START + 60 * MINUTE, START + 61 * MINUTE):
        model.land(now)
    home = paper_home(places, made)
    Writer(home, seen(home)).publish_all(model.publish_all(model.plan("all")))
    row = training.read("paper", survival="labels", labels="all", places=places).rows.collect().row(0, named=True)
    assert (row["label_state"], row["label_reason"]) == ("positive", "side_silent")
    assert (row["_duration"], row["_censored"]) == expected


def test_sampled_negatives_keep_their_weight(feed: Home) -> None:
    frame = training.read("feed", survival="clicks", negatives=0.5, places=feed.places).rows.collect()
    assert dict(frame.select("_censored", "_weight").unique().iter_rows()) == {True: 2.0, False: 1.0}


def test_durations_through_outages_are_unbiased_where_rows_with_a_state_are_not() -> None:
    """Kaplan and Meier's estimate: one row in two has a label, evenly spread over the window."""
    durations: dict[str, list[tuple[float, bool]]] = {"all": [], "complete": [], "known": []}
    for n in range(8):
        life = lived(Outage("held", 15 + n, 18 + n), rows=300, served=n, labelled=n)
        with tempfile.TemporaryDirectory() as folder:
            places = empty_places(Path(folder) / "home")
            home = paper_home(places, life.model.rules)
            Writer(home, seen(home)).publish_all(life.model.publications)
            for labels, found in durations.items():
                options: Any = {"labels": labels, "survival": "labels"}
                frame = training.read("paper", **options, places=places).rows.select("_duration", "_censored").collect()
                found += list(frame.iter_rows())
    assert len(durations["all"]) > len(durations["complete"]), "rows of the outage are used as far as they go"
    for share in (0.5, 1.0):
        at = share * OUTAGE_WINDOW.total_seconds()
        error = (0.25 / len(durations["complete"])) ** 0.5
        for labels in ("all", "complete"):
            assert abs(without_a_label_until(durations[labels], at) - (1 - share / 2)) < 3 * error
    known = without_a_label_until(durations["known"], OUTAGE_WINDOW.total_seconds())
    assert known < without_a_label_until(durations["complete"], OUTAGE_WINDOW.total_seconds()) - error


def without_a_label_until(durations: list[tuple[float, bool]], at: float) -> float:
    """Share of the rows that have no label until then (Kaplan and Meier, 1958)."""
    share, left = 1.0, len(durations)
    for duration, censored in sorted(durations):
        if duration > at:
            break
        share, left = share * (1 if censored else 1 - 1 / left), left - 1
    return share


def test_a_label_before_its_row_took_no_time(places: Places) -> None:
    """The windows of `rules` begin 3 s before the row."""
    model = Model(rules("all", "left", "unknown", IdlePolicy("wait")))
    at = START + MINUTE
    model.produce(("served", 0), Sent(at, {"key": "a"}, at))
    model.produce(("labels", 0), Sent(at - timedelta(seconds=2), {"key": "a"}, at))
    for topic, count in model.partitions.items():
        for partition in range(count):
            model.produce((topic, partition), Sent(at + 5 * MINUTE, {"key": "z"}, at + 5 * MINUTE))
    model.land(at + 5 * MINUTE)
    home = paper_home(places, model.rules)
    Writer(home, seen(home)).publish_all(model.publish_all(model.plan("all")))
    row = training.read("paper", survival="labels", delays=True, places=places).rows.collect().row(0, named=True)
    assert (row["_delay_labels"], row["_duration"], row["_censored"]) == ([-2.0], 0.0, False)


def test_survival_of_what_is_no_label_stream_or_lacks_its_first_label_is_refused(feed: Home, places: Places) -> None:
    with pytest.raises(training.WrongRequest, match=r"'buys' is not a label stream .* these are: clicks"):
        training.read("feed", survival="buys", places=feed.places)
    model = Model(rules("last", "left", "unknown", IdlePolicy("wait")))
    for topic, count in model.partitions.items():
        for partition in range(count):
            model.produce((topic, partition), Sent(START + MINUTE, {"key": "a"}, START + MINUTE))
    model.land(START + MINUTE)
    home = paper_home(places, model.rules)
    Writer(home, seen(home)).publish_all(model.publish_all(model.plan("all")))
    with pytest.raises(training.WrongRequest, match="rows lack their first label"):
        training.read("paper", survival="labels", places=places)
