"""The measures of a candidate: numbers that the gate judges, from the counts of `transforms.measure`. No Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from windrow.config import Pipeline, Stream
from windrow.semantics.balance import RIGHT_COUNTS, Balance, LeftBalance, RightBalance, rate
from windrow.semantics.plan import Plan

Counts = Mapping[str, Mapping[Any, Mapping[str, Any]]]
"""Name of an aggregate of `measure.aggregates` → plan id or interval start → column → count."""

_OF_ROWS = (
    "positive", "positive_complete", "negative", "unknown", "rows_outside_interval", "labels_outside_window",
    "labels_out_of_order", "null_arrays", "state_contradictions", "null_event_time", "null_row_id",
)  # fmt: skip
"""Counts of `measure.candidate_measures` that are measures as they are."""

PARTITIONS = 256
"""A topic with more partitions is counted as a whole only, so that an interval does not have thousands of measures."""


def measure_rows(
    pipeline: Pipeline,
    plans: Sequence[Plan],
    counts: Counts,
    nulls: Mapping[str, Mapping[str, int]],
    of_run: Mapping[str, float | None],
) -> list[dict[str, Any]]:
    """Rows of the `measures` table, one per plan and measure.

    Args:
        counts: collected rows of `measure.aggregates`.
        nulls: by plan id, nulls of the left columns that did not need to be counted.
        of_run: measures that all plans share: the landing balance, schema differences.
    """
    return [
        {"plan": plan.id, "interval": plan.interval.start, "name": name, "value": None if v is None else float(v)}
        for plan in plans
        for name, v in {**_of_plan(pipeline, plan, counts, nulls.get(plan.id, {})), **of_run}.items()
    ]


def _of_plan(pipeline: Pipeline, plan: Plan, counts: Counts, nulls: Mapping[str, int]) -> dict[str, float | None]:
    start = plan.interval.start

    def count(aggregate: str, name: str) -> int:
        return int(counts.get(aggregate, {}).get(start, {}).get(name, 0))

    rows = {**{f"nulls.{name}": n for name, n in nulls.items()}, **counts["rows"].get(plan.id, {})}
    read = {stream.name: _partitions(stream, start, counts) for stream in pipeline.streams}
    served = read[pipeline.left.name].values()
    left = LeftBalance(
        landed=sum(one.selected + one.canary for one in served) + count("erased", "left_erased"),
        emitted=rows.get("rows", 0),
        duplicate=count("duplicates", "left_duplicate"),
        unpaired=rows.get("left_unpaired", 0),
        canary=sum(one.canary for one in served),
        erased=count("erased", "left_erased"),
    )
    names = [stream.name for stream in pipeline.right]
    right = {name: RightBalance(**{c: count(f"right.{name}", c) for c in RIGHT_COUNTS}) for name in names}
    return {
        **_of_rows(pipeline, rows),
        "duplicate_row_ids": counts["repeated"].get(plan.id, {}).get("duplicate_row_ids", 0),
        **Balance(left, right).measures(),
        "left_filtered": sum(one.read - one.selected for one in served),
        "left_conflict": count(f"conflict.{pipeline.left.name}", "conflict"),
        **{f"{name}.conflict": count(f"conflict.{name}", "conflict") for name in names},
        **_volumes(pipeline, read),
        **_quarantine(pipeline, read, counts.get("unread", {}).get(start, {}).get("topics", {})),
        **_canaries(pipeline, counts.get("canaries", {}).get(start, {}).get("streams", {})),
    }


def _canaries(pipeline: Pipeline, pairs: Mapping[str, tuple[int, int, int | None]]) -> dict[str, float | None]:
    """`canary_pairs`, `canary_matched`, `canary_recall`, `canary_delay_s` of each label stream; none without canaries.

    Args:
        pairs: label stream → pairs sent, pairs matched, and the longest delay in microseconds (None: no pair matched).
    """
    found: dict[str, float | None] = {}
    for stream in pipeline.label_streams if pipeline.canary else ():
        sent, matched, delay_us = pairs.get(stream.name, (0, 0, None))
        found |= {
            f"canary_pairs.{stream.name}": sent,
            f"canary_matched.{stream.name}": matched,
            f"canary_recall.{stream.name}": rate(matched, sent),
            f"canary_delay_s.{stream.name}": None if delay_us is None else delay_us / 1_000_000,
        }
    return found


def canary_columns(measures: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return the columns of the register about canaries, over all label streams; None for a pipeline without them."""

    def of(name: str) -> list[float]:
        return [value for key, value in measures.items() if key.partition(".")[0] == name and value is not None]

    pairs = of("canary_pairs")
    return {
        "left_canary": int(measures.get("left_canary") or 0),
        "canary_pairs": int(sum(pairs)) if pairs else None,
        "canary_matched": int(sum(of("canary_matched"))) if pairs else None,
        "canary_delay_s": max(of("canary_delay_s"), default=None),
    }


class _Read(NamedTuple):
    """Rows of a topic partition in an interval: those that a stream can read, and of these what `where` selects.

    Canaries are in neither.
    """

    read: int
    selected: int
    canary: int = 0


def _partitions(stream: Stream, start: datetime, counts: Counts) -> dict[str, _Read]:
    """Rows of a stream in an interval, by `topic/partition`; a partition without one is absent."""
    found = counts.get(f"volume.{stream.name}", {}).get(start, {}).get("partitions", {})
    return {partition: _Read(*rows) for partition, rows in found.items()}


def _volumes(pipeline: Pipeline, read: Mapping[str, Mapping[str, _Read]]) -> dict[str, float | None]:
    """`volume.<stream>` of every stream, `volume.<topic>/<partition>` of every partition that has rows."""
    volumes: dict[str, float | None] = {
        f"volume.{name}": sum(rows.selected for at, rows in read[stream.name].items() if _topic(at) == topic)
        for stream in pipeline.streams
        for name, topic in stream.sources.items()
    }
    for topic in pipeline.topics:
        partitions = _widest(topic, read)
        if len(partitions) <= PARTITIONS:
            volumes |= {f"volume.{partition}": rows for partition, rows in partitions.items()}
    return volumes


def _quarantine(
    pipeline: Pipeline, read: Mapping[str, Mapping[str, _Read]], unread: Mapping[str, int]
) -> dict[str, float | None]:
    """`records.<topic>`; those of them that cannot be read, `quarantined.<topic>`; and their share."""
    found: dict[str, float | None] = {}
    for topic in pipeline.topics:
        bad = unread.get(topic, 0)
        records = bad + sum(_widest(topic, read).values())
        found |= {
            f"records.{topic}": records,
            f"quarantined.{topic}": bad,
            f"quarantine_rate.{topic}": rate(bad, records),
        }
    return found


def _widest(topic: str, read: Mapping[str, Mapping[str, _Read]]) -> dict[str, int]:
    """Readable rows by `topic/partition`: of the streams that share the topic, that which can read most counts."""
    widest: dict[str, int] = {}
    for partitions in read.values():
        for partition, rows in partitions.items():
            if _topic(partition) == topic:
                widest[partition] = max(rows.read, widest.get(partition, 0))
    return widest


def _topic(partition: str) -> str:
    return partition.rpartition("/")[0]


def _of_rows(pipeline: Pipeline, counts: Mapping[str, int]) -> dict[str, float | None]:
    """Counts and rates over the rows of one candidate; a rate over no rows is None."""
    rows = counts.get("rows", 0)
    reasons = [name for name in counts if name.startswith("unknown.")]
    known = counts.get("positive", 0) + counts.get("negative", 0)
    nulls = {f"null_rate.{c}": rate(counts.get(f"nulls.{c}", 0), rows) for c in pipeline.left.columns}
    payload = [nulls[f"null_rate.{c}"] for c in pipeline.left.columns if c not in pipeline.left.key]
    return {
        **{name: counts.get(name, 0) for name in (*_OF_ROWS, *reasons)},
        "label_rate": rate(counts.get("positive", 0), known),
        "unknown_rate": rate(counts.get("unknown", 0), rows),
        "left_key_null_rate": rate(counts.get("left_keyless", 0), rows),
        **nulls,
        "null_rate_max": max((r for r in payload if r is not None), default=None),
    }
