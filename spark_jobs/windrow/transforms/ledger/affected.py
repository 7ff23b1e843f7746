"""The rows that a pass of the late ledger looks at: those around what landed since, and no others.

    new rows ─▶ intervals they touch ─▶ keys they change ────────────▶ subjects ─▶ joined again
    (by batch)  (only published ones)   (of retries, the other keys)   (left events)  (by the join's own transforms)

Every function here makes a frame from frames; nothing is read, counted or persisted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.columns import BATCH, EVENT_TIME, INTERVAL, QUARANTINED, REASON
from windrow.config import Pipeline, RightStream, Stream
from windrow.semantics.intervals import MICROSECOND
from windrow.semantics.labels import DRAINED, SIDE_SILENT
from windrow.transforms.conditions import all_of, any_of
from windrow.transforms.facts import Facts
from windrow.transforms.given import given
from windrow.transforms.join import interval_of, is_doubtful, join
from windrow.transforms.ledger.due import floor_of, window_of
from windrow.transforms.ledger.passes import Due, Stretch
from windrow.transforms.ledger.subjects import SUBJECT, with_subject
from windrow.transforms.streams import StreamRows, chosen, is_canary, is_unreadable, selected


def is_fresh(stream: Stream, floor: Mapping[str, int]) -> Column:
    """Whether a landed row of the stream has a batch above the floor (topic → batch) of its topic.

    >>> from types import SimpleNamespace
    >>> rows = spark.sql("select * from values ('a', 3), ('a', 4), ('b', 4), ('other', 9) as r(_topic, _batch)")
    >>> rows.withColumn("fresh", is_fresh(SimpleNamespace(topics=("a", "b")), {"a": 3, "b": 4})).show()
    +------+------+-----+
    |_topic|_batch|fresh|
    +------+------+-----+
    |     a|     3|false|
    |     a|     4| true|
    |     b|     4|false|
    | other|     9|false|
    +------+------+-----+
    <BLANKLINE>
    """
    return any_of((F.col("_topic") == topic) & (F.col(BATCH) > given(floor[topic])) for topic in stream.topics)


def near(fresh: DataFrame, stream: Stream, pipeline: Pipeline, starts: Sequence[datetime]) -> DataFrame:
    """Intervals that have, or whose windows can have, one of these newly landed rows.

    Args:
        fresh: newly landed rows of the stream.
        starts: starts of the published intervals in question, sorted; rows far from all of them are left out.
    Returns:
        `_interval`, `_topic`, `_batch`: one row per new row and interval; most of these intervals are not published.
    """
    before, after = window_of(stream)
    first, last = starts[0] - before, starts[-1] + pipeline.interval + after
    at = F.col(EVENT_TIME)
    wanted = F.col(QUARANTINED).isNull() & selected(stream) & ~is_unreadable(stream)
    wanted = wanted & ~is_canary(pipeline.mark_of(stream))
    if stream in pipeline.label_streams:
        wanted = wanted | is_doubtful(stream)
    step = pipeline.interval // MICROSECOND
    # left rows from `at - after` to `at + before` can meet it: every interval between these two is touched
    low, high = (_floor(F.unix_micros(at) + by // MICROSECOND, step) for by in (-after, before))
    spread = (
        fresh.where((at >= given(first)) & (at <= given(last)))
        .where(wanted)
        .select("_topic", BATCH, F.explode(F.sequence(low, high, F.lit(step).cast("bigint"))).alias("_start"))
    )
    return spread.select(F.timestamp_micros("_start").alias(INTERVAL), "_topic", BATCH)


def _floor(micros: Column, step: int) -> Column:
    """Round down to the grid of intervals, which is laid from 1970 on; `pmod` also floors times before 1970."""
    return micros - F.pmod(micros, F.lit(step).cast("bigint"))


def near_undated(fresh: DataFrame, stream: RightStream, pipeline: Pipeline, published: DataFrame) -> DataFrame:
    """Published intervals with a row of the same key as a newly quarantined label without an event time (rule 10).

    Args:
        fresh: newly landed rows of the stream.
        published: training rows.
    Returns:
        `_interval`, `_topic`, `_batch`.
    """
    keyed = all_of([F.col(name).isNotNull() for name in stream.key])
    undated = is_doubtful(stream) & F.col(EVENT_TIME).isNull() & keyed
    columns = [F.col(name).alias(f"_key_{i}") for i, name in enumerate(stream.key)]
    # one row per key: the newest batch tells whether a publication has been compared with all such labels
    labels = fresh.where(undated).groupBy(*columns, "_topic").agg(F.max(BATCH).alias(BATCH))
    on = [F.col(name) == F.col(f"_key_{i}") for i, name in enumerate(pipeline.left.key)]
    rows = published.select(INTERVAL, *pipeline.left.key)
    return rows.join(labels, on=on, how="inner").select(INTERVAL, "_topic", labels[BATCH])


def unseen(intervals: DataFrame, pins: DataFrame) -> DataFrame:
    """Intervals whose publication has not been compared with the batch yet.

    Args:
        intervals: results of `near` and `near_undated`.
        pins: `_interval`, `_topic`, `_pin`: the batches that each published interval was compared with.
    Returns:
        `at`: interval starts in microseconds, distinct.

    >>> intervals = spark.sql('''select timestamp_seconds(s) as _interval, 't' as _topic, batch as _batch
    ...     from values (600, 3), (600, 4), (1200, 3), (1800, 9) as i(s, batch)''')
    >>> pins = spark.sql('''select timestamp_seconds(s) as _interval, 't' as _topic, pin as _pin
    ...     from values (600, 2), (1200, 3) as p(s, pin)''')
    >>> unseen(intervals, pins).show()
    +---------+
    |       at|
    +---------+
    |600000000|
    +---------+
    <BLANKLINE>
    """
    # an inner join: intervals that are not published have no pin, and are not looked at
    met = intervals.join(F.broadcast(pins), on=[INTERVAL, "_topic"], how="inner").where(F.col(BATCH) > F.col("_pin"))
    return met.select(F.unix_micros(INTERVAL).alias("at")).distinct()


def changed_keys(stream: RightStream, rows: StreamRows, pipeline: Pipeline, floor: Mapping[str, int]) -> DataFrame:
    """Keys whose matches new rows can change, named as the key columns of the left stream.

    A new row may win against an older row of the same event, or lose against it, and the two may have different keys:
    the keys of all rows of such events are included.

    Args:
        floor: topic → batch; rows above it are new.
    """
    read = chosen(rows.read)
    fresh = read.where(is_fresh(stream, floor))
    if stream.event_id is None:
        return keys_of(stream, fresh, pipeline)
    events = fresh.where(F.col(stream.event_id).isNotNull()).select(stream.event_id, EVENT_TIME).distinct()
    others = read.join(events, on=[stream.event_id, EVENT_TIME], how="left_semi")
    return keys_of(stream, fresh, pipeline).unionByName(keys_of(stream, others, pipeline))


def keys_of(stream: RightStream, rows: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Distinct keys of the rows, named as the key columns of the left stream.

    >>> from types import SimpleNamespace
    >>> stream, left = SimpleNamespace(key=("user",)), SimpleNamespace(key=("user_id",))
    >>> rows = spark.sql("select explode(array(1, 1, 2)) as user")
    >>> keys_of(stream, rows, SimpleNamespace(left=left)).orderBy("user_id").show()
    +-------+
    |user_id|
    +-------+
    |      1|
    |      2|
    +-------+
    <BLANKLINE>
    """
    names = zip(stream.key, pipeline.left.key, strict=True)
    return rows.select(*[F.col(right).alias(left) for right, left in names]).distinct()


def with_keys(stream: RightStream, rows: DataFrame, keys: DataFrame, pipeline: Pipeline) -> DataFrame:
    """The rows of the stream that have one of these keys (named as the key columns of the left stream).

    Args:
        rows: landed rows of the stream.
        keys: columns named as the key columns of the left stream; repeated keys do no harm.

    Returns:
        The columns of `rows`; a row whose key has a null is left out.
    """
    names = zip(pipeline.left.key, stream.key, strict=True)
    renamed = keys.select(*[F.col(left).alias(right) for left, right in names])
    return rows.join(renamed, on=list(stream.key), how="left_semi")


def in_stretches(published: DataFrame, stretches: Sequence[Stretch]) -> DataFrame:
    """The published rows of any stretch that can have changed.

    Args:
        published: training rows.
        stretches: event times of left rows, both ends included. Of a silent one, rows with another reason than silence
            are left out.

    Returns:
        The columns of `published`; each row once.
    """
    at, reason = F.col(EVENT_TIME), F.col(REASON)
    # silence is the last doubt in the order of precedence: a row with another reason keeps it
    about_silence = reason.isNull() | reason.isin(SIDE_SILENT, DRAINED)

    def is_in(stretch: Stretch) -> Column:
        inside = (at >= given(stretch.begin)) & (at <= given(stretch.end))
        return inside & about_silence if stretch.silent else inside

    return published.where(any_of(map(is_in, stretches)))


def left_rows(rows: DataFrame, standing: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Landed left rows with `_interval` and `_subject`, of the intervals in `standing` only.

    Args:
        rows: landed left rows.
        standing: a few rows, one per wanted interval, with its `_interval`.
    """
    return with_subject(rows, pipeline.left, standing, interval_of(F.col(EVENT_TIME), pipeline.interval))


def subjects(
    left: StreamRows,
    rights: Mapping[str, StreamRows],
    doubtful: Mapping[str, DataFrame],
    published: DataFrame,
    standing: DataFrame,
    work: Due,
    pipeline: Pipeline,
) -> DataFrame:
    """The subjects that new rows, clocks or gaps can have changed: `_interval`, `_subject`, distinct.

    Args:
        left: left rows of the touched intervals, and of others between them.
        rights: right rows around them.
        doubtful: label stream name → its quarantined rows around them, where it has any.
        published: training rows of the touched intervals, with `_subject`.
        standing: `_interval` of the touched intervals.
    """
    kept = left_rows(left.kept, standing, pipeline)
    if work.needs_all:
        return _union(rows.select(INTERVAL, SUBJECT) for rows in (kept, published)).distinct()
    floor = floor_of(pipeline, work.seen)
    # includes new rows that lose to another one of their event: looking at such a subject finds no difference
    fresh = left_rows(chosen(left.read).where(is_fresh(pipeline.left, floor)), standing, pipeline)
    keys = [changed_keys(stream, rights[stream.name], pipeline, floor) for stream in pipeline.right]
    keys += [
        keys_of(stream, doubtful[stream.name].where(is_fresh(stream, floor)), pipeline)
        for stream in pipeline.label_streams
        if stream.name in doubtful
    ]
    of_keys = kept.join(_union(keys).distinct(), on=list(pipeline.left.key), how="left_semi")
    scopes = [fresh, of_keys, in_stretches(published, work.stretches)]
    return _union(rows.select(INTERVAL, SUBJECT) for rows in scopes).distinct()


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)


def rebuilt(
    wanted: DataFrame,
    rights: Mapping[str, DataFrame],
    doubtful: Mapping[str, DataFrame],
    standing: DataFrame,
    pipeline: Pipeline,
    facts: Mapping[bool, Facts],
) -> DataFrame:
    """The wanted left rows joined as a rebuild at the newest pins would; a drained publication stays drained.

    Args:
        wanted: kept left rows with `_interval` and `_subject`.
        rights: stream name → kept right rows around them.
        doubtful: label stream name → its quarantined rows around them, where it has any.
        standing: `_interval` and `_drained` of the publications.
        facts: whether a publication was drained → what its plan fixes.
    """
    keys = wanted.select(*pipeline.left.key).distinct()
    streams = {stream.name: stream for stream in pipeline.right}
    # only rows of the wanted keys can match: the rest is dropped before the join groups it
    of_keys = {name: with_keys(streams[name], rows, keys, pipeline) for name, rows in rights.items()}
    doubts = {name: with_keys(streams[name], rows, keys, pipeline) for name, rows in doubtful.items()}
    parts = []
    for is_drained in sorted(facts):
        intervals = standing.where(F.col("_drained") == is_drained).select(INTERVAL)
        rows = wanted.join(F.broadcast(intervals), on=INTERVAL, how="left_semi").drop(INTERVAL, SUBJECT)
        parts.append(join(rows, of_keys, doubts, pipeline, facts[is_drained]))
    return _union(parts)
