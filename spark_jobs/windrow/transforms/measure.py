"""Counts about candidates, which the gate judges and the balance adds up. Aggregates only, no rows.

The join does not count its own work: emitted rows and matched labels are counted in the candidate as written, landed
rows and read labels in the landing tables. A row that the join lost or doubled shows as an imbalance.

Row ids are counted without listing them: 64 neighbouring offsets of a partition are the bits of one word, so a set of
ids is a few words, combining two sets is OR, and the size of a set is its number of bits.

    offsets 64 65 66 … 127  ─▶  word 1:  0…0111     bit n of word w is offset 64 w + n
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F

from windrow.columns import EVENT_TIME, INTERVAL, PAIRED, PLAN, REASON, ROW_ID, ROW_ORDER, STATE
from windrow.config import Pipeline, RightStream, Stream
from windrow.semantics.intervals import MICROSECOND, micros
from windrow.semantics.labels import DOUBTS, REASONS
from windrow.semantics.plan import Plan
from windrow.transforms.canary import pair_counts
from windrow.transforms.conditions import any_of
from windrow.transforms.counted import BITS, ROWS, WORD
from windrow.transforms.given import given
from windrow.transforms.join import how_many_before, interval_of
from windrow.transforms.streams import Inputs, StreamRows, claims_of
from windrow.transforms.volume import unread_counts, volume_counts


@dataclass(frozen=True)
class Written:
    """Counts of candidates as they were written. Row ids are bits of words, of one row each or of many."""

    counts: DataFrame
    """one row per plan: see `candidate_measures`"""
    ids: DataFrame
    """row ids: `_plan`, row id but for its offset, `_word`, `_bits`, and `_rows` that have them"""
    matched: Mapping[str, DataFrame]
    """right stream → row ids of its rows that are matches: `_interval`, row id but for its offset, `_word`, `_bits`"""


def written_of(candidates: DataFrame, pipeline: Pipeline, uncounted: Collection[str]) -> Written:
    """Count candidates in Spark.

    Args:
        candidates: as written, unpaired rows included.
        uncounted: left columns whose nulls are not known yet.
    """
    matched = {
        stream.name: in_words(
            candidates.select(INTERVAL, F.explode(every_match(stream)).alias("_m")), INTERVAL, of="_m."
        )
        for stream in pipeline.right
    }
    ids = in_words(candidates, PLAN, F.lit(1).alias(ROWS))
    return Written(candidate_measures(candidates, pipeline, uncounted), ids, matched)


def every_match(stream: RightStream) -> str:
    """Name of the candidates' column that has all matches of a stream, also those that `take` leaves out."""
    return stream.name if stream.take == "all" else f"_all_{stream.name}"


def aggregates(
    pipeline: Pipeline,
    plans: Sequence[Plan],
    read: Inputs,
    written: Written,
    unread: DataFrame | None,
    acknowledged: DataFrame | None,
) -> dict[str, DataFrame]:
    """Return every aggregate that the measures of a run's candidates need, by name.

    Args:
        written: counts of the candidates, as read back.
        unread: `_topic` and `_event_time` of the records of the intervals that could not be read; None without any.
        acknowledged: canaries that were sent (`schemas.CANARIES`); None without any.

    Returns:
        `rows` and `repeated` have one row per plan; `duplicates`, `volume.<stream>`, `right.<stream>`,
        `conflict.<stream>`, `unread` and `canaries` one row per interval. `duplicates` and `conflict` are absent where
        no event id repeats, `unread` and `canaries` without such a record.
    """
    starts, length = [plan.interval.start for plan in plans], pipeline.interval
    frames = {"rows": written.counts, "repeated": repeated_row_ids(written.ids)}
    if read.left.repeated is not None:
        frames["duplicates"] = left_duplicates(read.left, length)
    if read.left.erased is not None:
        frames["erased"] = left_erased(read.left.erased, length)
    if unread is not None:
        frames["unread"] = unread_counts(unread, length)
    if acknowledged is not None and pipeline.canary and pipeline.label_streams:
        frames["canaries"] = pair_counts(pipeline, acknowledged, read, length)
    for stream in pipeline.right:
        frames[f"right.{stream.name}"] = right_counts(
            read.rights[stream.name], written.matched[stream.name], stream, starts, length
        )
    for side in (read.left, *read.rights.values()):
        frames[f"volume.{side.stream.name}"] = volume_counts(side, starts[0], starts[-1] + length, length)
        if (disputed := conflicts(side, starts, length)) is not None:
            frames[f"conflict.{side.stream.name}"] = disputed
    return frames


def candidate_measures(candidates: DataFrame, pipeline: Pipeline, uncounted: Collection[str]) -> DataFrame:
    """One row per plan: counts as columns named like the measures; nulls of `uncounted` columns as `nulls.<column>`.

    Spark generates code for it, and of the labels reads row ids and event times alone. A higher-order function would
    disable the first, and the size of an array of labels itself the second.

    Args:
        candidates: the candidates as written, unpaired rows included.
        uncounted: left columns whose nulls are not known yet.
    """
    paired = F.col(PAIRED)

    def counted(condition: Column) -> Column:
        return F.count_if(paired & F.coalesce(condition, F.lit(False)))

    at, start = F.col(EVENT_TIME), F.col(INTERVAL)
    sizes = {
        "rows": counted(F.lit(True)),
        "left_unpaired": F.count_if(~paired),
        "positive": counted(F.col(STATE) == "positive"),
        "positive_complete": counted((F.col(STATE) == "positive") & ~F.coalesce(REASON, F.lit("")).isin(*DOUBTS)),
        "negative": counted(F.col(STATE) == "negative"),
        "unknown": counted(F.col(STATE) == "unknown"),
        "rows_outside_interval": counted((at < start) | (at >= start + F.lit(pipeline.interval))),
        "labels_outside_window": _total(paired, [_outside(s) for s in pipeline.right]),
        "labels_out_of_order": _total(paired, [_disordered(s) for s in pipeline.right]),
        "null_arrays": counted(any_of([_times(s).isNull() for s in pipeline.right])),
        "state_contradictions": counted(_contradiction(pipeline)),
        "null_event_time": counted(at.isNull()),
        "null_row_id": counted(any_of([F.col(c).isNull() for c in ROW_ID])),
        "left_keyless": counted(any_of([F.col(k).isNull() for k in pipeline.left.key])),
    }
    reasons = {f"unknown.{r}": counted((F.col(STATE) == "unknown") & (F.col(REASON) == r)) for r in REASONS}
    nulls = {f"nulls.{c}": counted(F.col(c).isNull()) for c in uncounted}
    return candidates.groupBy(PLAN).agg(*[c.alias(n) for n, c in {**sizes, **reasons, **nulls}.items()])


def repeated_row_ids(ids: DataFrame) -> DataFrame:
    """One row per plan: `duplicate_row_ids`, the number of rows minus that of distinct row ids.

    Args:
        ids: as in `Written`.

    >>> ids = "('a', 't', 0, 0, 5), ('a', 't', 0, 0, 5), ('a', 't', 0, 0, 6), ('b', 't', 0, 0, 5)"
    >>> rows = spark.sql(f"select * from values {ids} as (_plan, _topic, _epoch, _partition, _offset)")
    >>> repeated_row_ids(in_words(rows, "_plan", F.lit(1).alias("_rows"))).orderBy("_plan").show()
    +-----+-----------------+
    |_plan|duplicate_row_ids|
    +-----+-----------------+
    |    a|                1|
    |    b|                0|
    +-----+-----------------+
    <BLANKLINE>
    """
    words = _by_word(ids, PLAN).agg(F.sum(ROWS).alias(ROWS), F.bit_count(F.bit_or(BITS)).alias("_ids"))
    return words.groupBy(PLAN).agg(F.sum(F.col(ROWS) - F.col("_ids")).alias("duplicate_row_ids"))


def left_duplicates(left: StreamRows, length: timedelta) -> DataFrame:
    """One row per interval: `left_duplicate`, the producer's retries.

    Args:
        left: left rows of whole intervals.
        length: of an interval.

    Returns:
        `_interval`, `left_duplicate` (bigint); an interval without retries has no row.
    """
    rows = left.duplicates.withColumn(INTERVAL, interval_of(F.col(EVENT_TIME), length))
    return rows.groupBy(INTERVAL).agg(F.count(F.lit(1)).alias("left_duplicate"))


def left_erased(erased: DataFrame, length: timedelta) -> DataFrame:
    """One row per interval: `left_erased`, records of the left topics whose key was erased.

    >>> erased = spark.sql("select timestamp'2026-11-01 12:09:59' as _event_time")
    >>> left_erased(erased, timedelta(minutes=10)).show()
    +-------------------+-----------+
    |          _interval|left_erased|
    +-------------------+-----------+
    |2026-11-01 12:00:00|          1|
    +-------------------+-----------+
    <BLANKLINE>
    """
    rows = erased.withColumn(INTERVAL, interval_of(F.col(EVENT_TIME), length))
    return rows.groupBy(INTERVAL).agg(F.count(F.lit(1)).alias("left_erased"))


def right_counts(
    right: StreamRows,
    matched: DataFrame,
    stream: RightStream,
    intervals: Sequence[datetime],
    length: timedelta,
) -> DataFrame:
    """One row per interval: `read`, `matched`, `unmatched`, `duplicate`, `filtered`, `canary`, `erased` of one right
    stream.

    A right row counts in every interval whose windows can hold it. `matched` comes from the candidate alone, so a
    match that was never read shows as an imbalance.

    Args:
        matched: its matches in the candidates as written (`Written`).
        intervals: starts of the intervals, ascending.
        length: length of an interval.
    """

    def each(rows: DataFrame, was: str, *others: str) -> DataFrame:
        return in_words(_in_each(rows, intervals, length, stream), INTERVAL, F.lit(was).alias("_was"), *others)

    seen = [
        each(right.read, "read", "_filtered", "_canary"),
        each(right.duplicates, "duplicate"),
        matched.withColumn("_was", F.lit("matched")),
    ]
    if right.erased is not None:
        seen.append(each(right.erased, "erased"))
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), seen)
    # a right row counts once per interval, however often it was matched: a set bit stays one bit
    is_a = {kind: F.col("_was") == kind for kind in ("duplicate", "matched", "erased")}
    is_a |= {"filtered": F.col("_filtered"), "canary": F.col("_canary")}
    is_a |= {"read": F.col("_was").isin("read", "erased")}
    words = _by_word(rows, INTERVAL).agg(
        *[F.coalesce(F.bit_or(F.when(is_it, F.col(BITS))), F.lit(0)).alias(kind) for kind, is_it in is_a.items()]
    )
    # what is left of the read bits; a row in two of the other sets counts twice, and then the balance does not add up
    used = reduce(Column.bitwiseOR, [F.col(kind) for kind in is_a if kind != "read"])
    unmatched = F.col("read").bitwiseAND(F.bitwise_not(used))
    counted = {**{kind: F.col(kind) for kind in is_a}, "unmatched": unmatched}
    return words.groupBy(INTERVAL).agg(*[F.sum(F.bit_count(bits)).alias(kind) for kind, bits in counted.items()])


def in_words(rows: DataFrame, *others: Column | str, of: str = "") -> DataFrame:
    """Return the row ids of rows as bits, one of each row, beside other columns.

    Args:
        of: where the row id is: empty, or the prefix of a struct's fields.
    """
    *topic_partition, offset = (F.col(f"{of}{name}").alias(name) for name in ROW_ID)
    return rows.select(*others, *topic_partition, F.shiftright(offset, 6).alias(WORD), _bit(offset).alias(BITS))


def _by_word(rows: DataFrame, by: str) -> GroupedData:
    """Group by words of 64 offsets: neighbouring rows are combined before they are shuffled."""
    # 64 rows in one word of bits: what is shuffled is a few words per partition, not one row per row id
    return rows.groupBy(by, *ROW_ID[:-1], WORD)


def _bit(offset: Column) -> Column:
    """Bit of an offset in its 64-offset word; a row without an offset has bit 0."""
    place = F.coalesce(offset, F.lit(0)).bitwiseAND(F.lit(63)).cast("int")
    return F.call_function("shiftleft", F.lit(1).cast("bigint"), place)


def conflicts(rows: StreamRows, intervals: Sequence[datetime], length: timedelta) -> DataFrame | None:
    """One row per interval: `conflict`, rows that contradict another row with their event id (rule 11).

    These are duplicates whose payload differs from the row that won, and rows whose event id also has another event
    time (all but one of them). A right row counts in every interval whose windows can hold it.

    Args:
        intervals: starts of the intervals, ascending.
        length: length of an interval.

    Returns:
        None if no event id repeats.
    """
    if rows.repeated is None:
        return None
    stream = rows.stream
    claims = _in_each(
        claims_of(rows.read, stream).join(rows.repeated, on="_hash", how="left_semi"), intervals, length, stream
    ).select(
        F.col(str(stream.event_id)).alias("_event_id"),
        EVENT_TIME,
        # the row id comes first, so that the least claim is that of the row that wins
        F.struct(F.struct(*ROW_ID).alias("id"), _payload_hash(stream).alias("payload")).alias("_claim"),
        INTERVAL,
    )
    events = claims.groupBy(INTERVAL, "_event_id", EVENT_TIME).agg(F.collect_list("_claim").alias("_claims"))
    payloads = F.transform("_claims", lambda claim: claim["payload"])
    winner = F.array_min("_claims")["payload"]
    other = F.size(F.filter(payloads, lambda payload: payload != winner))
    ids = events.select(INTERVAL, "_event_id", other.alias("_other")).groupBy(INTERVAL, "_event_id")
    # of the event times of one id, all but one contradict it
    per_id = ids.agg(F.sum("_other").alias("_other"), (F.count(F.lit(1)) - 1).alias("_times"))
    return per_id.groupBy(INTERVAL).agg(F.sum(F.col("_other") + F.col("_times")).alias("conflict"))


def _payload_hash(stream: Stream) -> Column:
    """Hash of all columns; Spark cannot hash maps, so they are hashed as JSON."""
    return F.hash(*[F.to_json(c) if "map<" in kind else F.col(c) for c, kind in stream.columns.items()])


def _outside(stream: RightStream) -> Column:
    """Number of labels of a row that are outside of its window; null for a row without labels."""
    lo = F.col(EVENT_TIME) - F.lit(stream.window.before)
    hi = F.col(EVENT_TIME) + F.lit(stream.window.after)
    times = _times(stream)
    # a row whose earliest and latest label are inside needs no look at each label
    inside = (F.array_min(times) >= lo) & (F.array_max(times) <= hi)
    after = F.size(times) - how_many_before(times, hi + F.lit(MICROSECOND))  # a label at `hi` itself is inside
    return F.when(inside, 0).when(F.size(times) > 0, how_many_before(times, lo) + after)


def _disordered(stream: RightStream) -> Column:
    """1 for a row whose labels are not in row order; null for a row with one label at most."""
    order = F.arrays_zip(*[F.col(f"{stream.name}.{c}").alias(c) for c in ROW_ORDER])
    return F.when(F.size(_times(stream)) > 1, (order != F.sort_array(order)).cast("int"))


def _times(stream: RightStream) -> Column:
    """Event times of a row's labels; as long as the array of labels, and null where that is null.

    A size or a null of the array itself would have Spark read every field of every label.
    """
    return F.col(f"{stream.name}.{EVENT_TIME}")


def _contradiction(pipeline: Pipeline) -> Column:
    """Whether the row's own columns contradict its label state."""
    has_label = any_of([F.size(_times(s)) > 0 for s in pipeline.label_streams])
    state, reason = F.col(STATE), F.col(REASON)
    derived = any_of([F.col(name).isNotNull() for name in pipeline.labels])
    return (
        (has_label & (state != "positive"))
        | (~has_label & (state == "positive"))
        | ((state == "unknown") & (reason.isNull() | derived))
        | ~state.isin("positive", "negative", "unknown")
        | state.isNull()
    )


def _total(paired: Column, sizes: list[Column]) -> Column:
    """Sum of all sizes over the paired rows; 0 without a paired row."""
    per_row = reduce(lambda a, b: a + b, [F.coalesce(s, F.lit(0)) for s in sizes])
    return F.coalesce(F.sum(F.when(paired, per_row)), F.lit(0))


def _in_each(rows: DataFrame, intervals: Sequence[datetime], length: timedelta, stream: Stream) -> DataFrame:
    """Repeat each row for every interval that it counts in: its own, for a right row all whose windows can hold it.

    The intervals are computed on the grid instead of joined: a run may have hundreds.
    """
    step, first = length // MICROSECOND, micros(intervals[0])
    slots = (intervals[-1] - intervals[0]) // length + 1
    at = F.unix_micros(EVENT_TIME) - given(first)
    low = high = _whole(at, step)
    if isinstance(stream, RightStream):  # start - before <= at <= start + length + after
        high = _whole(at + F.lit(stream.window.before // MICROSECOND), step)
        low = -_whole(F.lit((length + stream.window.after) // MICROSECOND) - at, step)
    low, high = F.greatest(low, F.lit(0)), F.least(high, F.lit(slots - 1))
    slot = F.when(low <= high, F.sequence(low, high)).otherwise(F.array().cast("array<bigint>"))
    if len(intervals) < slots:  # the run leaves out intervals between its first and its last
        planned = set(intervals)
        marks = F.split(F.lit(",".join("x" * (intervals[0] + n * length in planned) for n in range(slots))), ",")
        slot = F.filter(slot, lambda n: F.element_at(marks, (n + 1).cast("int")) == "x")
    start = F.timestamp_micros(F.col("_slot") * F.lit(step) + given(first))
    return rows.withColumn("_slot", F.explode(slot)).withColumn(INTERVAL, start).drop("_slot")


def _whole(micros: Column, step: int) -> Column:
    """Number of whole steps, rounded down; subtracting the remainder first keeps the division exact."""
    length = F.lit(step).cast("bigint")
    return ((micros - F.pmod(micros, length)) / length).cast("bigint")
