"""The feature-label left join of closed intervals: one row per left row, with all of its labels.

    right rows ─▶ grouped by key into one array in row order ─┐
    left rows  ───────────────────────────────────────────────┴▶ one equi-join ─▶ the array cut to the window
                                                                  ─▶ label state ─▶ derived labels

A left row is joined with at most one right row (the group of its key), so rows do not multiply and wide left rows
are not grouped. `semantics.reference` is the same join, slow and obvious; tests compare both on generated streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.columns import (
    ARRIVED_AT,
    BATCH,
    ELEMENT_META,
    EVENT_TIME,
    INTERVAL,
    OBSERVED_UNTIL,
    PAIRED,
    PLAN,
    QUARANTINED,
    REASON,
    RECORD_AT,
    ROW_ORDER,
    STATE,
)
from windrow.config import Pipeline, RightStream
from windrow.semantics.intervals import MICROSECOND, micros
from windrow.semantics.plan import Plan
from windrow.transforms.conditions import all_of
from windrow.transforms.expressions import value_of
from windrow.transforms.facts import Facts, facts_of
from windrow.transforms.given import given
from windrow.transforms.states import with_state
from windrow.transforms.streams import Inputs, is_unreadable

_SPARSE = 10
"""Steps of the grid per interval from which on most of them would be without a value."""


def join_plans(pipeline: Pipeline, plans: Sequence[Plan], read: Inputs) -> DataFrame:
    """Return the candidate rows of a run's plans (columns: see `join`).

    Args:
        plans: of one run, oldest interval first.
        read: left and right rows that `io.training.inputs.read` has read for them.
    """
    rights = {name: rows.kept for name, rows in read.rights.items()}
    return join(read.left.kept, rights, read.doubtful, pipeline, facts_of(pipeline, plans, read.gaps))


def join(
    left: DataFrame,
    rights: Mapping[str, DataFrame],
    doubtful: Mapping[str, DataFrame],
    pipeline: Pipeline,
    facts: Facts,
) -> DataFrame:
    """Return candidate rows of the intervals in `facts.plan_of`.

    Args:
        left: kept left rows of the intervals (landing columns).
        rights: stream name → kept right rows of the intervals' windows.
        doubtful: label stream name → its quarantined rows whose key could be read; absent where it has none.

    Returns:
        The training columns (without publication number and date), `_plan`, `_paired` (false where an `inner`
        stream has no match), and `_all_<stream>` for streams with `take`: the matches before one was taken.
    """
    rows = left.select(
        *[F.col(name) for name in pipeline.left.columns],
        *[F.col(name) for name in (*ROW_ORDER, BATCH, ARRIVED_AT)],
        interval_of(F.col(EVENT_TIME), pipeline.interval).alias(INTERVAL),
    )
    for stream in pipeline.right:
        rows = with_matches(rows, rights[stream.name], doubtful.get(stream.name), stream, pipeline)
    rows = with_state(rows, pipeline, facts)
    for stream in pipeline.right:
        rows = _taken(rows, stream)
    for name, expression in pipeline.labels.items():
        known = F.col(STATE) != "unknown"
        rows = rows.withColumn(name, F.when(known, value_of(expression)))
    return rows.select(
        *pipeline.left.columns,
        *[stream.name for stream in pipeline.right],
        *pipeline.labels,
        STATE,
        REASON,
        *ROW_ORDER,
        BATCH,
        ARRIVED_AT,
        INTERVAL,
        given(facts.observed_until).alias(OBSERVED_UNTIL),
        *[f"_all_{s.name}" for s in pipeline.right if s.take != "all"],
        all_of([F.size(s.name) > 0 for s in pipeline.right if s.join == "inner"]).alias(PAIRED),
        by_interval(facts.plan_of, pipeline.interval).alias(PLAN),
    )


def doubtful_rows(landing: DataFrame, stream: RightStream, pipeline: Pipeline, lo: datetime, hi: datetime) -> DataFrame:
    """Labels that the stream cannot read, but whose key it can: they make rows of that key unknown (rule 10).

    They are selected by event time in [lo, hi]. A record whose event time could not be read or trusted is selected by
    its record time, because nothing is logged before it happens.

    Args:
        landing: landing rows of the stream's topics.
        lo, hi: event times; both ends are included.
    """
    at, logged_at = F.col(EVENT_TIME), F.col(RECORD_AT)
    logged_in_time = logged_at.isNull() | (logged_at >= given(lo - pipeline.max_skew))
    possible = (at.isNull() & logged_in_time) | ((at >= given(lo)) & (at <= given(hi)))
    keyed = all_of([F.col(k).isNotNull() for k in stream.key])
    return landing.where(is_doubtful(stream) & possible & keyed)


def is_doubtful(stream: RightStream) -> Column:
    """Whether a row may be one of the stream that could not be read, as a whole or by this stream alone.

    Quarantined: a view and perhaps a click; landed: a click whose price, a column of the stream, was unreadable.

    >>> from types import SimpleNamespace
    >>> stream = SimpleNamespace(where="action = 'click'", columns={"action": "string", "price": "int"}, role="feature")
    >>> rows = spark.sql('''select *, timestamp'2026-11-01' as _event_time from values ('view', 'malformed', null),
    ...     (null, 'malformed', null), ('click', null, '{"price": "wrong_type"}'), ('click', null, null)
    ...     as r(action, _quarantined, _unreadable)''')
    >>> rows.select("action", "_quarantined", is_doubtful(stream).alias("doubtful")).show()
    +------+------------+--------+
    |action|_quarantined|doubtful|
    +------+------------+--------+
    |  view|   malformed|   false|
    |  NULL|   malformed|    true|
    | click|        NULL|    true|
    | click|        NULL|   false|
    +------+------------+--------+
    <BLANKLINE>
    """
    quarantined = F.col(QUARANTINED).isNotNull()
    return (quarantined & is_meant(stream)) | (~quarantined & is_unreadable(stream))


def is_meant(stream: RightStream) -> Column:
    """Whether a quarantined record may belong to the stream: its `where` is true or, as columns may be missing, null.

    >>> from types import SimpleNamespace
    >>> rows = spark.sql("select * from values ('click'), ('view'), (null) as (action)")
    >>> rows.withColumn("meant", is_meant(SimpleNamespace(where="action = 'click'"))).show()
    +------+-----+
    |action|meant|
    +------+-----+
    | click| true|
    |  view|false|
    |  NULL| true|
    +------+-----+
    <BLANKLINE>
    """
    return F.coalesce(value_of(stream.where), F.lit(True)) if stream.where else F.lit(True)


def interval_of(at: Column, length: timedelta) -> Column:
    """Start of the interval on the UTC grid that holds an instant.

    >>> instants = "(timestamp'2026-11-01 12:09:59'), (timestamp'2026-11-01 12:10:00')"
    >>> rows = spark.sql(f"select * from values {instants} as (at)")
    >>> rows.withColumn("_interval", interval_of(F.col("at"), timedelta(minutes=10))).show()
    +-------------------+-------------------+
    |                 at|          _interval|
    +-------------------+-------------------+
    |2026-11-01 12:09:59|2026-11-01 12:00:00|
    |2026-11-01 12:10:00|2026-11-01 12:10:00|
    +-------------------+-------------------+
    <BLANKLINE>
    """
    micros = F.unix_micros(at)
    step = F.lit(length // MICROSECOND).cast("bigint")
    return F.timestamp_micros(micros - F.pmod(micros, step))


def with_matches(
    rows: DataFrame, right: DataFrame, doubts: DataFrame | None, stream: RightStream, pipeline: Pipeline
) -> DataFrame:
    """Add the stream's matches as an array in row order, and `_doubt_<stream>`.

    Args:
        rows: with the key of the left stream and `_event_time`.
        right: kept rows of the stream.
        doubts: its quarantined rows whose key could be read; None without any.
    """
    keys = {f"_key_{i}": name for i, name in enumerate(stream.key)}
    # an array of structs sorts by its fields from the left, so sorting by ELEMENT_META is row order
    element = F.struct(*ELEMENT_META, *stream.columns)
    doubt = F.struct(F.col(EVENT_TIME).alias("at"), F.col(RECORD_AT).alias("logged_at"))
    columns = [F.col(name).alias(alias) for alias, name in keys.items()]
    both, collected = right.select(*columns, element.alias("_e")), []
    if doubts is not None:  # in the same grouping: labels and doubts of a key are shuffled once
        both = both.unionByName(doubts.select(*columns, doubt.alias("_d")), allowMissingColumns=True)
        collected = [F.collect_list("_d").alias("_doubts")]
    grouped = (
        both.groupBy(*keys)
        .agg(F.sort_array(F.collect_list("_e")).alias("_group"), *collected)
        .withColumn("_times", F.col(f"_group.{EVENT_TIME}"))
    )
    on = [
        F.col(f"_left.{name}") == F.col(f"_right.{alias}") for name, alias in zip(pipeline.left.key, keys, strict=True)
    ]
    windows = rows.withColumns(  # computed once per row, not once per label
        {"_lo": F.col(EVENT_TIME) - F.lit(stream.window.before), "_hi": F.col(EVENT_TIME) + F.lit(stream.window.after)}
    )
    # plain equality: a left row with a null in its key meets no group, and a left row meets at most one
    joined = windows.alias("_left").join(grouped.alias("_right"), on=on, how="left")
    lo, hi = F.col("_lo"), F.col("_hi")
    # no label is an empty array, never null, so that `size(clicks)` in a derived label is 0
    matches = F.coalesce(cut(F.col("_group"), F.col("_times"), lo, hi), F.array().cast(_array_type(grouped)))
    doubted = F.lit(False) if doubts is None else _is_doubted(lo, hi, pipeline)
    return joined.select("_left.*", matches.alias(stream.name), doubted.alias(f"_doubt_{stream.name}")).drop(
        "_lo", "_hi"
    )


def _is_doubted(lo: Column, hi: Column, pipeline: Pipeline) -> Column:
    """Whether one of `_doubts` can have been in the window."""
    logged_from = lo - F.lit(pipeline.max_skew)
    # a label without an event time may be of any time up to that of its record plus `max_skew`
    any_is = F.exists(
        "_doubts",
        lambda d: F.when(d["at"].isNull(), d["logged_at"].isNull() | (d["logged_at"] >= logged_from)).otherwise(
            (d["at"] >= lo) & (d["at"] <= hi)
        ),
    )
    return F.coalesce(F.when(F.size("_doubts") > 0, any_is), F.lit(False))


def cut(group: Column, times: Column, lo: Column, hi: Column) -> Column:
    """Slice of `group` whose `times` are in [lo, hi]; null where the group is null. `times` ascends.

    >>> at = "transform(array(0, 10, 10, 20, 30), s -> timestamp_seconds(s)) as times"
    >>> rows = spark.sql(f"select {at}, timestamp_seconds(10) as lo, timestamp_seconds(20) as hi")
    >>> held = cut(F.col("times"), F.col("times"), F.col("lo"), F.col("hi"))
    >>> rows.select(F.transform(held, F.unix_seconds).alias("held")).show()
    +------------+
    |        held|
    +------------+
    |[10, 10, 20]|
    +------------+
    <BLANKLINE>
    """
    # most groups are inside the window as a whole or outside of it: two comparisons then, and no search
    first, last = F.try_element_at(times, F.lit(1)), F.try_element_at(times, F.lit(-1))
    # both ends are in: an event at `hi` itself is before the next microsecond, the finest step of an instant
    begin, end = how_many_before(times, lo), how_many_before(times, hi + F.lit(MICROSECOND))
    return (
        F.when((first >= lo) & (last <= hi), group)
        .when((last >= lo) & (first <= hi), F.slice(group, begin + 1, end - begin))
        .otherwise(F.slice(group, 1, 0))
    )


def how_many_before(times: Column, bound: Column) -> Column:
    """How many instants of an array are before a bound; null where the array or the bound is null.

    The bound is added and sorted in; its place less one is the answer. Re-sorting a nearly sorted array is one pass. A
    higher-order function would disable code generation for the whole row.

    >>> rows = spark.sql("select transform(array(30, 0, 10, 10), s -> timestamp_seconds(s)) as times")
    >>> bounds = [F.timestamp_seconds(F.lit(second)) for second in (0, 10, 31)]
    >>> rows.select(F.array(*[how_many_before(F.col("times"), bound) for bound in bounds]).alias("before")).show()
    +---------+
    |   before|
    +---------+
    |[0, 1, 4]|
    +---------+
    <BLANKLINE>
    """
    return (F.array_position(F.sort_array(F.array_append(times, bound)), bound) - 1).cast("int")


def _array_type(grouped: DataFrame) -> str:
    return grouped.schema["_group"].dataType.simpleString()


def _taken(rows: DataFrame, stream: RightStream) -> DataFrame:
    """Keep one match for `take: first` and `last`; all matches stay in `_all_<stream>` for the balance."""
    if stream.take == "all":
        return rows
    every = F.col(stream.name)
    one = F.slice(every, 1 if stream.take == "first" else -1, 1)
    return rows.withColumn(f"_all_{stream.name}", every).withColumn(
        stream.name, F.when(F.size(every) > 1, one).otherwise(every)
    )


def by_interval(values: Mapping[datetime, Any], length: timedelta) -> Column:
    """Return the value of a row's interval (`INTERVAL`); null if the mapping lacks it.

    Args:
        values: by starts of intervals, all on one grid; at least one.
        length: of an interval.

    >>> from windrow.semantics.intervals import EPOCH
    >>> hours = {EPOCH + timedelta(hours=hour): name for hour, name in ((1, "a"), (2, "b"), (4, "c"))}
    >>> rows = spark.sql("select timestamp'1970-01-01' + n * interval 1 hour as _interval from range(6) as r(n)")
    >>> found = by_interval(hours, timedelta(hours=1))
    >>> [row[0] for row in rows.orderBy("_interval").select(found).collect()]
    [None, 'a', 'b', None, 'c', None]
    """
    first = min(values)
    of_step = {(start - first) // length: value for start, value in values.items()}
    steps = max(of_step) + 1
    if steps > _SPARSE * len(values):
        return F.element_at(F.create_map(*[F.lit(x) for item in sorted(values.items()) for x in item]), F.col(INTERVAL))
    # a map is searched from its first key on, for every row
    on_grid = F.array(*[F.lit(of_step.get(step)) for step in range(steps)])
    step = F.floor((F.unix_micros(INTERVAL) - given(micros(first))) / F.lit(micros(length)))
    return F.get(on_grid, F.greatest(F.lit(-1), F.least(F.lit(steps), step)).cast("int"))
