"""join: write the candidates and measures of a run's plans, which are recorded before work starts.

--interval T --mode publish     the interval if it is closed and unpublished, and up to --along others that are
--interval T --mode republish   the interval alone, with new pins, published or not (backfill, cleared run)
--planned                       what `plan` has recorded for the run: a range, in one join, labels read once

    read      left rows of the intervals, right rows of their windows, at the plans' pins
    compute   the join
    write     candidates: one commit for all plans           ◀─ a retry continues after what is written
    measure   the candidates as written, compared with what was read
    write     measures
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer
from pyspark.sql import DataFrame, SparkSession

from windrow.config import Pipeline
from windrow.home import Table
from windrow.io.column_changes import require_fitting, require_unchanged
from windrow.io.delta import crash_points, lookup
from windrow.io.delta.locks import held
from windrow.io.delta.session import is_shared
from windrow.io.expressions import require_sound
from windrow.io.registers import canaries, erasures, measures, publications
from windrow.io.registers.clocks import Observation
from windrow.io.training import candidates, counts, inputs, shares, unread, ways
from windrow.jobs.options import OptionalIntervalStart, PipelineName, RunKey
from windrow.jobs.plan.far_start import refuse_far_start
from windrow.jobs.plan.planning import Known, Mode, plan_interval, recorded_plans
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.size import estimated, remember_size
from windrow.jobs.spark import spark_for
from windrow.semantics.balance import landing_measures
from windrow.semantics.plan import Plan
from windrow.semantics.publication import foreseen_numbers
from windrow.transforms.join import join_plans
from windrow.transforms.measure import Written, aggregates
from windrow.transforms.numbers import measure_rows
from windrow.transforms.payload import with_payload, without_payload
from windrow.transforms.streams import Inputs
from windrow.transforms.training import (
    ColumnTypes,
    candidate_rows,
    refuse_unreadable_labels,
    schema_differences,
    types_of,
)

IN_ONE_JOIN = 500
"""Most intervals of one join. A longer range takes several, and labels at their borders are read twice."""


def make_candidates(ctx: Context, planned: tuple[Plan, ...], known: Known | None = None) -> dict[str, Any]:
    """Write candidates and measures of a run's plans; what a killed try has written is kept.

    Returns `run`, and of its plans `plans` (ids) and `intervals` (starts).

    Args:
        planned: all plans of the run, oldest interval first.
        known: what planning has read in this process, so that the clock is not read again.

    Raises:
        BadRequest: the plans were recorded under another pipeline file.
        PipelineInvalid: Spark cannot run a label, or not twice with the same result.
        TypesChanged: a column or a label has another type than in the tables.
        LabelNotPublishable: a label has a type that not every reader knows.
        ErasedColumnGone: keys were erased by a column that the pipeline file lacks.
    """
    _refuse_other_config(ctx, planned)
    last = known.last_number if known else publications.last_number(ctx.home)
    known = known or Known(ctx)
    foreseen = foreseen_numbers(planned, last)
    numbers = {plan.id: number for plan, number in foreseen.items()}
    for portion in _portions(planned):
        if not measures.are_recorded(ctx.home, portion):
            _join(ctx, portion, known.clock, numbers)
    return {
        "run": planned[0].run,
        "plans": [plan.id for plan in planned],
        "intervals": [plan.interval.start for plan in planned],
    }


def _join(ctx: Context, plans: tuple[Plan, ...], clock: Observation, numbers: Mapping[str, int]) -> None:
    """Join the plans' intervals: read, compute, write candidates, measure, write measures."""
    # arguments
    home, pipeline = ctx.home, ctx.pipeline
    require_unchanged(home)
    rows_expected, size = estimated(home, plans)
    remember_size(home, rows_expected)
    spark = spark_for(f"join {pipeline.name}", ctx.places, pipeline)
    require_sound(spark, pipeline)
    with held(home.lock(Table.CANDIDATES)):
        erasures.require_covered(home)
        # read
        erased_since = erasures.watch(home)
        is_local = ctx.places.spark_master.startswith("local")
        readings = partial(shares.readings, home, plans, spark.sparkContext.defaultParallelism)
        wants_files = ways.wants_files(rows_expected, size, readings, is_warm=is_shared(), is_local=is_local)
        read = inputs.read(spark, home, plans, clock, with_place=wants_files)
        if not candidates.are_written(home, plans):
            crash_points.point("join.before_commit")
            path = home.table(Table.CANDIDATES)
            write_candidates(ctx, plans, read, numbers, rows_expected, path, erased_since)
        crash_points.point("join.after_commit")
        if not measures.are_recorded(home, plans):
            with lookup.seen_once():
                rows = _measured(ctx, spark, plans, read, clock)
            # write
            measures.record(home, rows)
        inputs.release(read)
        crash_points.point("join.after_measures")


def _measured(
    ctx: Context, spark: SparkSession, plans: Sequence[Plan], read: Inputs, clock: Observation
) -> list[dict[str, Any]]:
    """Return rows of `measures`: what was written is read again, so that a row that the join lost or doubled shows."""
    # read
    home = ctx.home
    _, columns = candidates.names_of(home, plans)
    nulls = candidates.null_counts(home, plans)
    unread_rows = unread.of_intervals(spark, home, plans)
    landing = landing_measures(clock.rows)
    sent = canaries.between(spark, home, plans[0].interval.start, plans[-1].interval.end)
    # compute
    by_workers = ways.by_files(read.left.kept.columns)
    with counts.of_candidates(spark, home, plans, nulls, by_workers=by_workers) as written:
        return measured(ctx.pipeline, plans, read, written, columns, nulls, landing, unread_rows, sent)


def write_candidates(
    ctx: Context,
    plans: Sequence[Plan],
    read: Inputs,
    numbers: Mapping[str, int],
    rows_expected: int,
    path: str,
    last_look: Callable[[], None] | None = None,
) -> None:
    """Join what was read for the plans, and write the candidates in the way that `io.training.ways` chooses.

    Args:
        read: with the place of left rows, where it is known.
        numbers: plan id → the publication number that is foreseen for it.
        rows_expected: about how many left rows there are.
        path: location of the candidates table.
        last_look: fails where keys were erased since they were read (`erasures.watch`).

    Raises:
        LabelNotPublishable: a label has a type that not every reader knows.
        TypesChanged: a column or a label has another type than in the tables.
        WriteSkipped: another writer has made the commit.
    """
    # compute
    home, pipeline, left = ctx.home, ctx.pipeline, read.left.kept.schema
    by_files = ways.by_files(left.names)
    joined = join_plans(without_payload(pipeline) if by_files else pipeline, plans, read)
    rows = candidate_rows(joined, pipeline, numbers)
    schema = with_payload(rows.schema, left, pipeline)
    refuse_unreadable_labels(types_of(schema), pipeline)
    require_fitting(home, schema.jsonValue())
    # write
    if by_files:
        are_small = inputs.are_right_rows_small(home, read, rows_expected)
        candidates.write_with_payload(
            rows, schema, home, path, plans, rows_expected, are_small=are_small, last_look=last_look
        )
    else:
        candidates.write(rows, path, plans, rows_expected, last_look)


def measured(
    pipeline: Pipeline,
    plans: Sequence[Plan],
    read: Inputs,
    written: Written,
    columns: ColumnTypes,
    nulls: Mapping[str, Mapping[str, int]],
    landing: Mapping[str, float | None],
    unread_rows: DataFrame | None = None,
    acknowledged: DataFrame | None = None,
) -> list[dict[str, Any]]:
    """Return rows of `measures` about candidates.

    Args:
        written: counts of the candidates, as read back.
        columns: of the candidates table.
        nulls: by plan id, nulls of left columns that are known without counting.
        landing: measures of the landing balance.
        unread_rows: records of the intervals that could not be read; None without any.
        acknowledged: canaries that were sent; None without any.
    """
    found = candidates.collect(aggregates(pipeline, plans, read, written, unread_rows, acknowledged))
    of_run = {"schema_differences": schema_differences(columns, pipeline), **landing}
    return measure_rows(pipeline, plans, found, nulls, of_run)


def _portions(planned: tuple[Plan, ...]) -> Iterator[tuple[Plan, ...]]:
    for first in range(0, len(planned), IN_ONE_JOIN):
        yield planned[first : first + IN_ONE_JOIN]


def _refuse_other_config(ctx: Context, planned: tuple[Plan, ...]) -> None:
    for plan in planned:
        if plan.config_hash != ctx.pipeline.config_hash:
            raise BadRequest(
                f"plan {plan.id} of {plan.interval} was recorded under another pipeline file "
                f"({plan.config_hash[:12]}, now {ctx.pipeline.config_hash[:12]}). Clear the run for a new plan, "
                "or put the file back."
            )


def execute(
    pipeline: PipelineName,
    run: RunKey,
    interval: OptionalIntervalStart = None,
    is_planned: Annotated[bool, typer.Option("--planned", help="Carry out the run's recorded plans.")] = False,
    mode: Annotated[Mode, typer.Option(help="Whether a published interval is made again.")] = "publish",
    along: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Intervals that one run takes at most; default: the pipeline's catch_up."
        ),
    ] = None,
) -> Mapping[str, Any]:
    """Make the candidates of a run's plans: of one interval and those along with it, or of the recorded range.

    Returns:
        Run, ids of its plans and starts of their intervals.

    Raises:
        BadRequest: both or neither of `interval` and `is_planned` are given, or no plan is recorded, or the plans were
            recorded under another pipeline file.
        WindowStillOpen: the interval is not closed.
        NothingToDo: the mode is `publish`, and the interval is published.
        FarStart: nothing is published yet, and `start` is long before the first row.
        Locked: another process joins this pipeline.
    """
    ctx = context(pipeline)
    if is_planned == (interval is not None):
        raise BadRequest("give either --interval or --planned")
    known = Known(ctx)
    if interval is None:
        return make_candidates(ctx, recorded_plans(ctx, run, first="plan"))
    most = along if along is not None else ctx.pipeline.catch_up
    if not known.last_number:
        refuse_far_start(ctx.home)
    return make_candidates(ctx, plan_interval(ctx, run, interval, mode, most, known=known), known)


main = job(execute)
