"""Parts of a range share no label event and no row; together with the gaps they are the range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import combinations
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.training.feed import INTERVAL, LENGTH, WINDOW
from support.training.outages import MICROSECOND, MINUTE, RULES, START, STEP, Outage, lived
from support.training.table import Writer, paper_home, seen
from windrow import training
from windrow.columns import ROW_ID
from windrow.home import Home
from windrow.places import Places
from windrow.semantics.paper.landings import Sent
from windrow.semantics.paper.model import Model
from windrow.training import Read


def split(feed: Home, **options: Any) -> dict[str, Read]:
    return training.split("feed", places=feed.places, labels="all", **options)


def rows_of(read: Read) -> set[tuple[Any, ...]]:
    return set(read.rows.select(ROW_ID).collect().iter_rows())


def label_events(read: Read, stream: str = "clicks") -> set[tuple[Any, ...]]:
    frame = read.rows.select(stream).collect()
    return {tuple(label[name] for name in ROW_ID) for labels in frame[stream].to_list() for label in labels}


def share_nothing(parts: Mapping[str, Read]) -> bool:
    return all(
        rows_of(one).isdisjoint(rows_of(other)) and label_events(one).isdisjoint(label_events(other))
        for one, other in combinations(parts.values(), 2)
    )


cuts = st.lists(st.integers(1, LENGTH // INTERVAL - 1), min_size=1, max_size=2, unique=True).filter(
    lambda numbers: all(abs(a - b) * INTERVAL > WINDOW for a, b in combinations([0, *numbers], 2))
)
ways = st.sampled_from((("user_id",), ("item_id",), (None,)))


@settings(max_examples=12, deadline=None)
@given(
    numbers=cuts, by=st.sampled_from((None, "user_id", "item_id")), seed=st.integers(0, 99), first=st.floats(0.2, 0.7)
)
def test_no_label_event_is_in_two_parts(
    feed: Home, numbers: list[int], by: str | None, seed: int, first: float
) -> None:
    instants = [START + number * INTERVAL for number in sorted(numbers)]
    names = ["train", "valid", "test"][: len(instants) + 1]
    shares = dict(zip(names, [first, *[(1 - first) / (len(names) - 1)] * (len(names) - 1)], strict=True))
    parts = split(feed, parts=shares if by else names, cuts=instants, by=by, seed=seed)
    assert share_nothing(parts)
    if by:
        assert share_nothing(split(feed, parts=shares, by=by, seed=seed))
        values = [set(read.rows.select(by).collect()[by]) for read in parts.values()]
        assert all(one.isdisjoint(other) for one, other in combinations(values, 2))


def test_parts_by_time_and_their_gaps_are_the_range(feed: Home) -> None:
    cut = START + 12 * INTERVAL
    parts = split(feed, parts=["train", "test"], cuts=[cut])
    whole = training.read("feed", labels="all", places=feed.places).rows.collect()
    left_out = whole.filter((pl.col("_event_time") >= cut - WINDOW) & (pl.col("_event_time") < cut))
    assert left_out.height
    assert sum(len(rows_of(read)) for read in parts.values()) == whole.height - left_out.height
    assert {read.pin.version for read in parts.values()} == {training.read("feed", places=feed.places).pin.version}


def test_parts_by_hash_are_the_range_and_the_same_every_time(feed: Home) -> None:
    shares = {"train": 0.5, "valid": 0.25, "test": 0.25}
    parts = {name: rows_of(read) for name, read in split(feed, parts=shares, by="user_id").items()}
    assert set().union(*parts.values()) == rows_of(training.read("feed", labels="all", places=feed.places))
    assert parts == {name: rows_of(read) for name, read in split(feed, parts=shares, by="user_id").items()}
    other = {name: rows_of(read) for name, read in split(feed, parts=shares, by="user_id", seed=1).items()}
    assert other != parts
    pins = {name: read.pin.to_json() for name, read in split(feed, parts=shares, by="user_id").items()}
    assert {name: rows_of(training.read_pinned(pin, places=feed.places)) for name, pin in pins.items()} == parts


def test_a_sample_of_a_part_is_drawn_independently_of_the_part(feed: Home) -> None:
    """With the same seed, a hash that is low for the sample is not low for the part."""
    parts = split(feed, parts={"low": 0.5, "high": 0.5}, by="item_id", negatives=0.5)
    full = split(feed, parts={"low": 0.5, "high": 0.5}, by="item_id")
    kept = {name: len(rows_of(parts[name])) / len(rows_of(full[name])) for name in parts}
    assert all(0.45 < share < 0.9 for share in kept.values())


def test_the_gap_is_exactly_one_window(places: Places) -> None:
    """A label at `cut - before` is in the windows of a row at the cut and of one that is a window earlier."""
    before, after = 3 * MINUTE, 20 * MINUTE
    (labels,) = RULES.spec.right
    rules = replace(RULES, spec=replace(RULES.spec, right=(replace(labels, before=before),)))
    model, cut = Model(rules), START + 8 * STEP
    apart = before + after
    for at in (cut - apart - MICROSECOND, cut - apart, cut):
        model.produce(("served", 0), Sent(at, {"key": "k"}, at))
    for at in (cut - before, cut + 20 * STEP):
        model.produce(("labels", 0), Sent(at, {"key": "k"}, at))
    model.land(cut + 20 * STEP)
    model.land(cut + 21 * STEP)
    model.publish_all(model.plan("all"))
    home = paper_home(places, rules)
    Writer(home, seen(home)).publish_all(model.publications)
    whole = training.read("paper", labels="all", places=places).rows.sort("_event_time").collect()
    assert whole["labels"].list.len().to_list() == [0, 1, 1], "only rows a window apart or nearer share it"

    parts = training.split("paper", parts=["train", "test"], cuts=[cut], labels="all", places=places)
    served = {name: read.rows.collect()["_event_time"].to_list() for name, read in parts.items()}
    assert served == {"train": [cut - apart - MICROSECOND], "test": [cut]}


def test_a_column_outside_of_the_key_is_compared_and_refused_where_parts_share_a_label(
    feed: Home, places: Places
) -> None:
    with pytest.raises(training.SharedLabels, match=r"label events? of clicks .* \(user_id, item_id\)"):
        split(feed, parts={"train": 0.5, "test": 0.5}, by="request_id")
    assert share_nothing(split(feed, parts={"a": 0.5, "b": 0.5}, by="request_id", cuts=[START + 12 * INTERVAL]))
    model = lived(Outage("held", 22, 12), rows=100).model
    home = paper_home(places, model.rules)
    Writer(home, seen(home)).publish_all(model.publications)
    parts = training.split("paper", parts={"a": 0.5, "b": 0.5}, by="id", places=places)
    assert all(20 < read.rows.collect().height < 80 for read in parts.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": ["train", "test"]}, "needs cuts"),
        ({"parts": ["all"], "cuts": []}, "two parts or more, not 1 part"),
        ({"parts": ["a", "b"], "cuts": [START, START + LENGTH]}, "2 parts have 1, not 2"),
        ({"parts": ["a", "b"], "cuts": [START + WINDOW]}, "part 'a' is empty.*gap of 30m"),
        ({"parts": ["a", "b"], "by": "user_id"}, "each part has a share"),
        ({"parts": {"a": 0.5, "b": 0.4}, "by": "user_id"}, "add up to 1"),
        ({"parts": {"a": 1.5, "b": -0.5}, "by": "user_id"}, "above 0"),
        ({"parts": {"a": 0.5, "b": 0.5}, "by": "features"}, "'features' is array<float>; .* request_id, user_id"),
        ({"parts": {"a": 0.5, "b": 0.5}, "by": "clicks"}, "is not a column of the left stream"),
        ({"parts": ["a", "b"], "cuts": ["noon"]}, "cuts: 'noon' is not an instant"),
    ],
)
def test_a_split_that_cannot_be_made_is_refused(feed: Home, options: dict[str, Any], message: str) -> None:
    with pytest.raises(training.WrongRequest, match=message):
        split(feed, **options)


def test_a_part_ends_and_begins_to_the_microsecond(feed: Home) -> None:
    cut: datetime = START + 12 * INTERVAL
    parts = split(feed, parts=["a", "b"], cuts=[cut])
    requests = {name: (read.pin.request.start, read.pin.request.end) for name, read in parts.items()}
    assert requests["a"] == (START, cut - timedelta(minutes=30))
    assert requests["b"][0] == cut
