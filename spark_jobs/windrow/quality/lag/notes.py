"""Notes of a lag analysis: what is unknown, and what a reader must keep in mind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from windrow.config import Pipeline
from windrow.semantics.lag.request import LagRequest
from windrow.semantics.lag.setting import PartitionId
from windrow.text import counted, shown_duration
from windrow.transforms.lag.delays import DelayStatistics


def notes_of(
    pipeline: Pipeline,
    request: LagRequest,
    delays: DelayStatistics,
    scenarios: Sequence[Mapping[str, Any]],
    silent: Sequence[PartitionId],
) -> Iterator[str]:
    """Yield the notes that apply, as sentences.

    Args:
        scenarios: their rows of the `lag_impact` table.
        silent: partitions of the pipeline that have no record in the range.
    """
    if request.sample < 1:
        yield f"Counts are of a sample: {request.sample:.6g} of the keys, with all their events. Rates are scaled up."
    if not scenarios[0]["labels"]:
        yield "No label matches a row of this range: the labels that lag would have cost are unknown, the wait is not."
    own = next((row for row in scenarios if row["policy"] == "slowest" and row["lag"] == "none"), None)
    if own and own["labels_lost"]:
        yield (
            "Without any lag, this pipeline's clock loses "
            f"{own['labels_lost']:,} of {counted(own['labels'], 'label')}: they come later than "
            "grace and out-of-orderness allow. A larger grace would have waited for them."
        )
    if own and own["rows_open"]:
        yield f"{own['rows_open']:,} rows were still open when the analysed records ended. How they end is unknown."
    if all(len([p for p in delays.partitions if p["_topic"] == topic]) <= 1 for topic in pipeline.topics):
        yield "Every topic has one partition here, so clocks that differ only between partitions agree."
    if len({stream.window.after for stream in pipeline.right}) > 1:
        yield (
            f"Rows wait for the widest window of all streams ({shown_duration(pipeline.after)}). A narrower window of "
            "one stream does not shorten the wait."
        )
    if silent:
        names = ", ".join(f"{topic}/{partition}" for topic, _, partition in silent)
        yield (
            f"No record of {names} lies in this range, so no clock of the scenarios waits for them. The pipeline's own "
            "clock does."
        )
