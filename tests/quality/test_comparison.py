"""What a candidate is compared with: what says nothing about a steady series may stand anywhere and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from windrow.config import load
from windrow.places import PROJECT
from windrow.quality.comparison import EarlierInterval, as_earlier, compared, volumes_of
from windrow.quality.history import Earlier
from windrow.quality.volume import recent_before, same_hour_before
from windrow.semantics.intervals import Interval
from windrow.semantics.plan import Plan

FEED = load(PROJECT / "dags" / "pipelines" / "feed.yaml")
NOW = Interval(FEED.start + timedelta(days=8), FEED.start + timedelta(days=8) + FEED.interval)
Numbers = dict[str, float | None]


def plan_at(start: datetime, config: str = FEED.config_hash) -> Plan:
    return Plan("feed", "run", Interval(start, start + FEED.interval), {}, config)


def numbers_of(served: int, clicks: int, **more: float | None) -> Numbers:
    """Measures of an interval whose topics have two partitions each, with as many rows in both."""
    volumes = {"volume.served": served, "volume.clicks": clicks}
    partitions = {
        f"volume.{topic}/{n}": rows / 2
        for topic, rows in (("feed.served", served), ("feed.engagements", clicks))
        for n in (0, 1)
        if rows
    }
    labels = {"positive_complete": clicks, "negative": max(0, served - clicks)}
    return {**volumes, **partitions, **labels, "unknown.forced": 0.0, **more}


def earlier_of(numbers: Numbers, *, overridden: bool = False) -> EarlierInterval:
    found = as_earlier(plan_at(FEED.start), numbers)
    return found._replace(labels=found.labels._replace(overridden=overridden))


STEADY = earlier_of(numbers_of(1000, 60))
EMPTY = earlier_of(numbers_of(0, 0))
SILENT = earlier_of(numbers_of(1000, 0, positive_complete=0, negative=0))
FORCED = earlier_of(numbers_of(40, 1, positive_complete=0, negative=0, **{"unknown.forced": 39.0}))
"""No list of a forced interval is complete: a row without a label is unknown, and one with some is in doubt."""
OVERRIDDEN = earlier_of(numbers_of(50_000, 49_000), overridden=True)
UNCOUNTED = EarlierInterval(FEED.config_hash, Earlier(60, 940), None)


def steady(days: float = 8) -> dict[datetime, EarlierInterval]:
    return {NOW.start - n * FEED.interval: STEADY for n in range(1, round(days * 144) + 1)}


def judged(numbers: Numbers, earlier: Mapping[datetime, EarlierInterval]) -> dict[str, float | None]:
    return compared(FEED, plan_at(NOW.start), numbers, earlier)


def test_a_steady_interval_is_usual_in_everything() -> None:
    found = judged(numbers_of(1000, 60), steady())
    assert found["volume_usual.served"] == 1000
    assert found["volume_z.served"] == pytest.approx(0, abs=0.1)
    assert found["volume_z.clicks"] == pytest.approx(0, abs=0.1)
    assert found["first_empty.served"] == 0
    assert not [name for name in found if name.startswith("partition_")]


def test_an_empty_served_topic_is_a_first_time_unless_it_was_empty_before() -> None:
    earlier = steady()
    assert judged(numbers_of(0, 60), earlier)["first_empty.served"] == 1
    assert judged(numbers_of(1, 60), earlier)["first_empty.served"] == 0
    assert "first_empty.clicks" not in judged(numbers_of(1, 0), earlier), "labels may be rare"
    earlier[NOW.start - timedelta(days=3)] = EMPTY
    found = judged(numbers_of(0, 60), earlier)
    assert found["first_empty.served"] == 0
    assert (found["volume_z.served"] or 0) < -8, "one earlier gap is no reason for silence"


def test_without_history_nothing_is_known() -> None:
    found = judged(numbers_of(0, 0), {})
    assert {found[name] for name in ("volume_z.served", "volume_z.clicks", "first_empty.served")} == {None}
    assert judged(numbers_of(0, 0), {NOW.start - FEED.interval: STEADY})["first_empty.served"] == 1


def test_a_partition_that_alone_fell_silent_is_named() -> None:
    now = numbers_of(1000, 60)
    del now["volume.feed.served/1"]
    found = judged(now, steady())
    assert {name for name in found if "partition" in name} == {
        "partition_usual.feed.served/1",
        "partition_z.feed.served/1",
    }
    assert found["partition_usual.feed.served/1"] == 500
    assert (found["partition_z.feed.served/1"] or 0) < -8


def test_partitions_of_a_topic_that_is_silent_as_a_whole_are_not_named_one_by_one() -> None:
    found = judged(numbers_of(1000, 0), steady())
    assert not [name for name in found if name.startswith("partition_")]
    assert (found["volume_z.clicks"] or 0) < -4


def test_a_partition_that_hardly_ever_has_a_row_is_not_missed() -> None:
    rare = earlier_of(numbers_of(1000, 60, **{"volume.feed.served/7": 1.0}))
    earlier = {start: rare if n % 2 else STEADY for n, start in enumerate(steady())}
    assert abs(judged(numbers_of(1000, 60), earlier)["partition_z.feed.served/7"] or 0) < 2


def test_a_forced_interval_is_not_judged_by_its_volume_and_neither_is_one_that_was_not_counted() -> None:
    for now in (numbers_of(40, 0, **{"unknown.forced": 39.0}), {"negative": 40.0}):
        found = judged(now, steady())
        assert {found[name] for name in ("volume_z.served", "volume_z.clicks", "first_empty.served")} == {None}


def test_a_changed_pipeline_file_has_the_same_volumes_and_another_label_rate() -> None:
    found = compared(FEED, plan_at(NOW.start, "another file"), numbers_of(0, 0), steady())
    assert found["first_empty.served"] == 1
    assert found["label_rate_z"] is None


def test_intervals_at_or_after_the_candidates_are_no_history() -> None:
    later = {NOW.start + n * FEED.interval: earlier_of(numbers_of(1000, 900)) for n in range(200)}
    now = numbers_of(0, 60)
    assert judged(now, {**steady(), **later}) == judged(now, steady())


def test_the_share_that_cannot_be_read_is_of_this_interval_and_topic_alone() -> None:
    now = numbers_of(10_000, 50, **{
        "records.feed.served": 10_000.0, "quarantined.feed.served": 0.0,
        "records.feed.engagements": 50.0, "quarantined.feed.engagements": 50.0,
    })  # fmt: skip
    found = judged(now, steady())
    assert found["quarantine_least.feed.served"] == 0
    assert (found["quarantine_least.feed.engagements"] or 0) > 0.8
    assert judged(numbers_of(1, 1), {})["quarantine_least.feed.served"] is None


NOISE = (EMPTY, SILENT, FORCED, OVERRIDDEN, UNCOUNTED)
RECENT, SAME_HOUR = sorted(recent_before(NOW)), sorted(same_hour_before(NOW))
NEWEST = {*RECENT[-3:], *SAME_HOUR[-3:]}
"""Three overridden ones in a row are a new level by a person's word, so none stands here."""


@given(
    st.dictionaries(st.sampled_from(RECENT + SAME_HOUR), st.sampled_from(NOISE), min_size=1, max_size=10),
    st.sampled_from([1, 5, 40, 500, 1000, 1500, 30_000]),
    st.sampled_from([0, 3, 60, 100, 2000]),
)
@example(dict.fromkeys(RECENT[-4:], FORCED), 1000, 3)
@settings(deadline=None)
def test_what_is_no_history_changes_no_verdict_wherever_it_stands(
    noise: dict[datetime, EarlierInterval], served: int, clicks: int
) -> None:
    noise = {at: EMPTY if one is OVERRIDDEN and at in NEWEST else one for at, one in noise.items()}
    now = numbers_of(served, clicks)
    clean, found = judged(now, steady()), judged(now, {**steady(), **noise})
    assert found.keys() == clean.keys()
    for name, low, high in (
        ("volume_z.served", -4, 6),
        ("volume_z.clicks", -4, 6),
        ("label_rate_z", -8, 20),
        ("label_rate_z", -4, 4),
    ):
        before, after = clean[name], found[name]
        assert before is not None
        assert after is not None
        assert (before < low, before > high) == (after < low, after > high), name


@given(
    st.dictionaries(st.sampled_from(RECENT + SAME_HOUR), st.sampled_from([FORCED, OVERRIDDEN, UNCOUNTED]), max_size=10)
)
@settings(deadline=None)
def test_what_is_no_history_leaves_a_first_time_a_first_time(noise: dict[datetime, EarlierInterval]) -> None:
    noise = {at: FORCED if one is OVERRIDDEN and at in NEWEST else one for at, one in noise.items()}
    assert judged(numbers_of(0, 0), {**steady(), **noise})["first_empty.served"] == 1


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ({"volume.served": 3.0, "rows": 3.0}, {"volume.served": 3}),
        ({"volume.served": 3.0, "unknown.forced": 1.0}, None),
        ({"rows": 3.0}, None),
        ({}, None),
    ],
)
def test_volumes_are_known_where_they_were_counted_and_the_interval_was_closed(
    numbers: Numbers, found: dict[str, int] | None
) -> None:
    assert volumes_of(numbers) == found
