"""Label states on Spark: what is known about the labels of each row (rule 10).

The decision is that of `semantics.labels.label_state`; see the drawing of time there.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.columns import EVENT_TIME, INTERVAL, REASON, STATE
from windrow.config import Pipeline, RightStream
from windrow.semantics.intervals import shifted
from windrow.semantics.labels import DRAINED, FORCED, LABEL_QUARANTINED, NULL_KEY, OFFSET_GAP, SIDE_SILENT
from windrow.semantics.records import Gap
from windrow.transforms.conditions import any_of
from windrow.transforms.facts import Facts
from windrow.transforms.given import given


def with_state(rows: DataFrame, pipeline: Pipeline, facts: Facts) -> DataFrame:
    """Add `label_state` and `label_reason` to rows that have their matches.

    Args:
        rows: with an array and a boolean `_doubt_<stream>` (a quarantined label may be missing) of each label stream.
    """
    labels = pipeline.label_streams
    has_label = any_of([F.size(s.name) > 0 for s in labels])
    keyless = any_of([F.col(k).isNull() for k in pipeline.left.key])
    quarantined = any_of([F.col(f"_doubt_{s.name}") for s in labels])
    silent = any_of([_is_silent(s, facts) for s in labels if s.silence == "unknown"])
    lost = any_of([_overlaps(gap, s) for s in labels for gap in facts.gaps if gap.topic in s.topics])
    forced = sorted(facts.forced) if labels else []  # without a label stream no label can be missing
    # in order of precedence: the first reason that applies is the one that the row gets
    doubt = (
        F.when(keyless, NULL_KEY)
        .when(lost, OFFSET_GAP)
        .when(any_of([F.col(INTERVAL) == given(start) for start in forced]), FORCED)
        .when(quarantined, LABEL_QUARANTINED)
        .when(silent, DRAINED if facts.drained else SIDE_SILENT)
    )
    state = F.when(has_label, "positive").when(doubt.isNotNull() & (doubt != DRAINED), "unknown").otherwise("negative")
    return rows.withColumn(STATE, state).withColumn(REASON, doubt)


def _is_silent(stream: RightStream, facts: Facts) -> Column:
    """Whether no partition has an event later than the window's end."""
    heard = facts.heard_until[stream.name]
    if heard is None:
        return F.lit(True)
    return F.col(EVENT_TIME) >= given(shifted(heard, -stream.window.after))


def _overlaps(gap: Gap, stream: RightStream) -> Column:
    """Whether the row's window and the gap share an instant; a missing bound of the gap has no limit."""
    at = F.col(EVENT_TIME)
    has_begun = F.lit(True) if gap.start_at is None else at >= given(shifted(gap.start_at, -stream.window.after))
    has_ended = F.lit(False) if gap.end_at is None else at > given(shifted(gap.end_at, stream.window.before))
    return has_begun & ~has_ended
