"""DelayCounts and disorder, counted by Spark as a person would count them one by one."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from windrow.transforms.lag.delays import (
    disorder_by_partition,
    disorder_counts,
    label_delays,
    sampled,
    with_disorder,
)
from windrow.transforms.lag.grids import Grid

pytestmark = pytest.mark.spark

START = datetime(2026, 11, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
BEGIN, END, COMPLETE = (START + n * SECOND for n in (100, 900, 950))
GRID = Grid(7 * SECOND, 20)


class Seen(NamedTuple):
    """A left row or a label: its key, and seconds since the start."""

    key: str | None
    at: float


def nearest(label: Seen, left: list[Seen], before: float) -> float | None:
    """The row that a label belongs to: the last at or before it, or within `before` the first after it."""
    mine = [row.at for row in left if row.key == label.key is not None]
    earlier = [at for at in mine if at <= label.at and label.at - at <= 140]
    later = [at for at in mine if label.at < at <= label.at + before]
    return max(earlier) if earlier else min(later, default=None)


def bin_of(delay: float) -> int:
    return next(i for i in range(21) if delay <= 7 * i)


def one_by_one(left: list[Seen], labels: list[Seen], before: float) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for label in labels:
        if label.key is None or label.at >= 950:
            continue
        row = nearest(label, left, before)
        if row is None:
            found[-1, 0] += 100 <= label.at < 900
        elif 100 <= row < 900:
            found[bin_of(label.at - row), sum(7 * i < 950 - row for i in range(21))] += 1
    return +found


def frame(spark: Any, seen: list[Seen], key: str) -> Any:
    rows = [(s.key, START + s.at * SECOND) for s in seen]
    return spark.createDataFrame(rows, f"{key} string, _event_time timestamp")


@pytest.mark.parametrize("before", [0, 10])
def test_each_label_counts_once_at_its_nearest_row_and_bounds_belong_to_the_shorter_bin(
    spark: Any, before: int
) -> None:
    draw = random.Random(before)
    keys = [*"abcdefgh", None]
    left = [Seen(draw.choice(keys), draw.randrange(1000)) for _ in range(150)]
    labels = [Seen(draw.choice(keys), draw.randrange(1000)) for _ in range(400)]
    labels += [Seen(row.key, row.at + edge) for row in left for edge in (0, 7, 7.000001, 140, 140.000001, -10)]
    found = label_delays(
        frame(spark, left, "user"),
        frame(spark, labels, "who"),
        (["user"], ["who"]),
        begin=BEGIN,
        end=END,
        before=before * SECOND,
        complete_until=COMPLETE,
        grid=GRID,
    ).collect()
    expected = one_by_one(left, labels, before)
    assert {(row["bin"], row["horizon"]): row["labels"] for row in found} == expected
    assert min(seen for (bin_, seen) in expected if bin_ >= 0) < 21  # some rows were young
    assert expected[-1, 0] > 0  # and some labels had no row


def test_disorder_is_how_far_behind_the_newest_event_of_its_partition_an_event_arrived(spark: Any) -> None:
    draw = random.Random(5)
    events = [
        (topic, 0, p, offset, START + (10 * offset + draw.choice((0, 0, 0, -25, -70, 30))) * SECOND)
        for topic in ("a", "b")
        for p in (0, 1)
        for offset in range(120)
    ]
    newest: dict[tuple[str, int], datetime] = {}
    behind: dict[tuple[str, int], list[tuple[float, datetime]]] = {}
    for topic, _, p, _, at in events:  # in offset order
        newest[topic, p] = max(at, newest.get((topic, p), at))
        behind.setdefault((topic, p), []).append(((newest[topic, p] - at) / SECOND, at))
    draw.shuffle(events)  # files come in any order
    rows = with_disorder(
        spark.createDataFrame(
            events, "_topic string, _epoch int, _partition int, _offset bigint, _event_time timestamp"
        ).repartition(3)
    ).persist()
    for line in disorder_by_partition(rows).collect():
        mine = sorted(d for d, _ in behind[line["_topic"], line["_partition"]])
        assert line["events"] == 120
        assert line["most"] == mine[-1] * 1_000_000
        assert line["in_order"] == pytest.approx(mine.count(0) / 120)
        assert line["p50"] == mine[59] * 1_000_000
        assert line["p99"] == mine[118] * 1_000_000
    grid = Grid(10 * SECOND, 6)
    found = disorder_counts(rows.where("_topic = 'a'"), {p: newest["a", p] for p in (0, 1)}, grid).collect()
    expected: Counter[tuple[int, int]] = Counter()
    for p in (0, 1):
        for late, at in behind["a", p]:
            shown = sum(10 * i <= (newest["a", p] - at) / SECOND for i in range(7))
            expected[min(6, -int(-late // 10)), shown] += 1
    assert {(row["bin"], row["horizon"]): row["labels"] for row in found} == expected
    rows.unpersist()


def test_a_sample_keeps_all_rows_of_a_key_and_about_its_share_of_the_keys(spark: Any) -> None:
    rows = spark.range(20_000).selectExpr("id % 4000 as user", "id")
    kept = sampled(rows, ["user"], 0.25).groupBy("user").count().collect()
    assert {row["count"] for row in kept} == {5}
    assert 800 < len(kept) < 1_200
    other_side = sampled(spark.range(4000).selectExpr("id as who"), ["who"], 0.25).collect()
    assert {row["who"] for row in other_side} == {row["user"] for row in kept}
