"""Counts of a candidate: by words of 64 offsets beside the plain way of looking at each row id, and by row."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from support.small_pipeline import PIPELINE, at
from windrow.columns import ROW_ORDER
from windrow.config import Pipeline, load
from windrow.io.delta.session import frame_of
from windrow.io.training import counting, counts
from windrow.places import Places
from windrow.semantics.labels import REASONS
from windrow.transforms.counted import BITS, ROWS, WORD
from windrow.transforms.measure import Written, candidate_measures, in_words, repeated_row_ids, written_of

pytestmark = pytest.mark.spark

_ROW = "_plan string, _topic string, _epoch int, _partition int, _offset bigint"


def _rows() -> list[tuple[str, str | None, int, int, int | None]]:
    """Three plans: offsets near and far, in several partitions, epochs and topics; some come two or three times."""
    draws = random.Random(11)
    offsets = [0, 1, 62, 63, 64, 65, 127, 128, 2**31, 2**40 + 63, 2**62]
    rows = [
        (plan, topic, epoch, partition, offset)
        for plan in ("a", "b")
        for topic in ("served", "clicks", None)
        for epoch in (0, 1)
        for partition in (0, 7)
        for offset in [*offsets, *draws.sample(range(100_000), 200)]
        for _ in range(draws.choice([1, 1, 1, 1, 2, 3]) if plan == "a" else 1)
    ]
    rows += [("a", "served", 0, 0, None)] * 3 + [("c", "served", 0, 0, offset) for offset in offsets]
    draws.shuffle(rows)
    return rows


def test_each_row_but_one_of_an_id_is_repeated(spark: Any) -> None:
    rows = _rows()
    expected = {"a": 0, "b": 0, "c": 0}
    for (plan, *_), times in Counter(rows).items():
        expected[plan] += times - 1
    ids = in_words(frame_of(spark, rows, _ROW).repartition(5), "_plan", F.lit(1).alias(ROWS))
    found = {row["_plan"]: row["duplicate_row_ids"] for row in repeated_row_ids(ids).collect()}
    assert found == expected
    assert expected["a"] > 300


@pytest.fixture
def pipeline(tmp_path: Path, session_places: Places) -> Pipeline:
    """Labels belong to a row from its own time to two minutes after it."""
    file = tmp_path / "small.yaml"
    file.write_text(PIPELINE.replace("{t}", "t"))
    return load(file, session_places.expectations)


_ORDER = "_event_time timestamp, _topic string, _epoch int, _partition int, _offset bigint"
_LIKE = f"struct<{_ORDER}, _arrived_at timestamp, id string, k bigint, t timestamp>".replace(" ", ":").replace(
    ",:", ","
)
_OTHERS = f"label_state string, label_reason string, {_ORDER}, _interval timestamp, _plan string, _paired boolean"
_CANDIDATE = f"id string, k bigint, t timestamp, liked boolean, likes array<{_LIKE}>, {_OTHERS}"


def _label(offset: int, second: float) -> dict[str, Any]:
    time = at(second)
    order = {"_event_time": time, "_topic": "likes", "_epoch": 0, "_partition": 0, "_offset": offset}
    return {**order, "_arrived_at": time, "id": "an id", "k": 1, "t": time}


def _candidate(spark: Any, *rows: dict[str, Any]) -> DataFrame:
    """Rows of one plan, served at the tenth second, with a label at the twentieth, except for what a row changes."""
    usual = {
        "id": "s",
        "k": 1,
        "t": at(10),
        "liked": True,
        "likes": [_label(7, 20)],
        "label_state": "positive",
        "label_reason": None,
        "_event_time": at(10),
        "_topic": "served",
        "_epoch": 0,
        "_partition": 0,
        "_offset": 0,
        "_interval": at(0),
        "_plan": "a",
        "_paired": True,
    }
    return frame_of(spark, [list({**usual, **row}.values()) for row in rows], _CANDIDATE)


_NONE: dict[str, Any] = {"likes": [], "liked": False, "label_state": "negative"}
_WINDOW_ENDS = [_label(7, 10), _label(8, 130)]
_BEYOND = [_label(7, 9.999999), _label(8, 10), _label(9, 130.000001), _label(10, 200)]


ADDED: list[tuple[dict[str, Any], dict[str, int]]] = [
    ({}, {"positive": 1, "positive_complete": 1}),
    (_NONE, {"negative": 1}),
    ({"likes": _WINDOW_ENDS}, {"positive": 1, "positive_complete": 1}),
    ({"likes": _BEYOND}, {"positive": 1, "positive_complete": 1, "labels_outside_window": 3}),
    (
        {"likes": [*reversed(_BEYOND)]},
        {"positive": 1, "positive_complete": 1, "labels_outside_window": 3, "labels_out_of_order": 1},
    ),
    ({"likes": [_label(8, 20), _label(7, 20)]}, {"positive": 1, "positive_complete": 1, "labels_out_of_order": 1}),
    ({**_NONE, "likes": None}, {"negative": 1, "null_arrays": 1, "nulls.likes": 1}),
    ({**_NONE, "label_state": "positive"}, {"positive": 1, "positive_complete": 1, "state_contradictions": 1}),
    ({"label_state": "negative"}, {"negative": 1, "state_contradictions": 1}),
    (
        {**_NONE, "label_state": "unknown", "label_reason": "forced", "liked": None},
        {"unknown": 1, "unknown.forced": 1},
    ),
    ({**_NONE, "_event_time": at(60)}, {"negative": 1, "rows_outside_interval": 1}),
    ({**_NONE, "_event_time": None}, {"negative": 1, "null_event_time": 1}),
    ({**_NONE, "_offset": None, "k": None}, {"negative": 1, "null_row_id": 1, "left_keyless": 1}),
    ({"_paired": False, "likes": _BEYOND}, {"rows": 0, "left_unpaired": 1}),
]
"""What a row has else than the usual one, and what it adds to the counts of its plan."""


@pytest.mark.parametrize("way", ["spark", "workers"])
def test_a_row_adds_to_the_counts_that_it_belongs_to_and_to_no_other(
    spark: Any, pipeline: Pipeline, tmp_path: Path, way: str
) -> None:
    """Each in a plan of its own, beside the usual row without labels."""
    rows = [{**one, "_plan": f"plan{n}"} for n, (row, _) in enumerate(ADDED) for one in (row, _NONE)]
    written = _by_way(spark, _candidate(spark, *rows), pipeline, tmp_path / "candidates")[way]
    measured = written.counts.collect()
    found = {row["_plan"]: row.asDict() for row in measured}
    assert len(found) == len(measured) == len(ADDED)
    for n, (_, counted) in enumerate(ADDED):
        counts = {name: count for name, count in found[f"plan{n}"].items() if name != "_plan"}
        expected = {"rows": 1, **counted}
        expected = {**expected, "rows": expected["rows"] + 1, "negative": expected.get("negative", 0) + 1}
        assert {name: count for name, count in counts.items() if count} == expected, ADDED[n]


def _by_way(
    spark: Any, rows: DataFrame, pipeline: Pipeline, folder: Path, *, in_capitals: bool = False
) -> dict[str, Written]:
    """What Spark and what workers count of the same rows, some ten rows at a time; files may spell names otherwise."""
    spelled = [name if name == "_plan" or not in_capitals else name.upper() for name in rows.columns]
    rows.toDF(*spelled).repartition(3).write.partitionBy("_plan").parquet(str(folder))
    files = [
        (file.parent.name.removeprefix("_plan="), str(file.relative_to(folder))) for file in folder.rglob("*.parquet")
    ]
    asked = counts.asked_of(pipeline, UNCOUNTED)
    work = counting.Work(str(folder), (tuple(files[::2]), (), tuple(files[1::2])), asked, values=20)
    return {
        "spark": written_of(rows, pipeline, UNCOUNTED),
        "workers": counts.summed(counts.taken(spark, work), asked),
    }


UNCOUNTED = ("id", "likes")
"""Columns whose nulls are counted, one of them an array."""


@pytest.mark.parametrize("take", ["all", "last"])
def test_workers_count_as_spark_does_whatever_the_rows_are(
    spark: Any, pipeline: Pipeline, tmp_path: Path, take: str
) -> None:
    """Rows that no join would write, with nulls wherever there can be one."""
    (stream,) = pipeline.right
    pipeline = pipeline.model_copy(update={"right": [stream.model_copy(update={"take": take})]})
    draws = random.Random(7)
    rows = _candidate(spark, *[_any_row(draws) for _ in range(3000)])
    if take != "all":
        rows = rows.withColumn("_all_likes", F.col("likes")).withColumn("likes", F.slice("likes", -1, 1))
    ways = _by_way(spark, rows, pipeline, tmp_path / "candidates", in_capitals=take != "all")
    of_spark, of_workers = ({row["_plan"]: row.asDict() for row in w.counts.collect()} for w in ways.values())
    assert of_workers == of_spark
    total = {name: sum(plan[name] for plan in of_spark.values()) for name in of_spark["a"] if name != "_plan"}
    if take != "all":  # one label is in order
        assert total.pop("labels_out_of_order") == 0
    assert min(total.values()) > 10
    for of, by in ((lambda w: w.ids, "_plan"), (lambda w: w.matched["likes"], "_interval")):
        one, other = (_words(of(way), by) for way in ways.values())
        assert other == one
        assert len(one) > 50


def _words(ids: DataFrame, by: str) -> set[tuple[Any, ...]]:
    rows = F.sum(ROWS) if ROWS in ids.columns else F.lit(0)
    words = ids.groupBy(by, "_topic", "_epoch", "_partition", WORD).agg(F.bit_or(BITS), rows)
    return {tuple(row) for row in words.collect()}


def _any_row(draws: random.Random) -> dict[str, Any]:
    def one_of(*values: Any) -> Any:
        return draws.choice(values)

    second = one_of(0, 10, 30, 59.999999, 60, -1, None)
    labels = [
        {
            **_label(draws.randrange(200), one_of(9.999999, 10, 20, 20, 130, 130.000001, 179.999999, 200)),
            "_topic": one_of("likes", "likes", "Likes", "lïkes", "like"),
            "_partition": draws.randrange(2),
        }
        for _ in range(draws.choice([0, 0, 1, 1, 2, 5]))
    ]
    in_order = sorted(
        labels, key=lambda one: tuple(one[name] if name != "_topic" else one[name].encode() for name in ROW_ORDER)
    )
    return {
        "id": one_of("s", None),
        "k": one_of(1, 2, None),
        "liked": one_of(True, False, None),
        "likes": one_of(labels, in_order, in_order, None),
        "label_state": one_of("positive", "negative", "unknown", "else", None),
        "label_reason": one_of(*REASONS, None),
        "_event_time": None if second is None else at(second),
        "_topic": one_of("served", "served", None),
        "_epoch": draws.randrange(2),
        "_partition": one_of(0, 1, None),
        "_offset": one_of(draws.randrange(500), draws.randrange(500), 2**62, None),
        "_interval": one_of(at(0), at(0), at(60)),
        "_plan": one_of("a", "b"),
        "_paired": one_of(True, True, False),
    }


@pytest.mark.usefixtures("compiled")
def test_rows_are_counted_by_generated_code_that_reads_no_payload_of_a_label(
    spark: Any, pipeline: Pipeline, tmp_path: Path
) -> None:
    _candidate(spark, {}, _NONE).write.parquet(str(tmp_path / "candidate"))
    spark.conf.set("spark.sql.maxMetadataStringLength", "1000")  # of what a plan says of the columns that it reads
    counts = candidate_measures(spark.read.parquet(str(tmp_path / "candidate")), pipeline, [])
    assert [row["rows"] for row in counts.collect()] == [2]
    plan = counts._jdf.queryExecution().executedPlan().toString()
    spark.conf.unset("spark.sql.maxMetadataStringLength")
    read = plan[plan.index("ReadSchema") :].splitlines()[0]
    assert "likes:array<struct<_event_time:timestamp,_topic:string,_epoch:int,_partition:int,_offset:bigint>>" in read
    final = plan[: plan.index("Initial Plan")]
    assert all("*(" in line for line in final.splitlines() if "HashAggregate" in line), final
