"""join: write the candidates and measures of a run's plans, which are recorded before work starts.

--interval T --mode publish     the interval if it is closed and unpublished, and up to --along others that are
--interval T --mode republish   the interval alone, with new pins, published or not (backfill, cleared run)
--planned                       what `plan` has recorded for the run: a range, in one join, labels read once
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from windrow.io.registers import clocks, plans, publications
from windrow.io.training import candidates, inputs
from windrow.jobs.options import OptionalIntervalStart, PipelineName, RunKey
from windrow.jobs.planning import Mode, plan_interval
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.spark import remember_size, spark_for
from windrow.semantics.plan import Plan

IN_ONE_JOIN = 500
"""Intervals that are joined at once: a longer range reads the labels around its seams twice."""


def make_candidates(ctx: Context, planned: tuple[Plan, ...]) -> dict[str, Any]:
    """Write candidates and measures of the plans; what is there is left as it is."""
    _refuse_other_config(ctx, planned)
    first = publications.last_number(ctx.home) + 1
    numbers = {plan.id: number for number, plan in enumerate(planned, first)}
    for some in _portions(planned):
        if not candidates.is_made(ctx.home, some):
            rows = inputs.most_rows(ctx.home, some)
            remember_size(ctx.home, rows)
            spark = spark_for(f"join {ctx.pipeline.name}", ctx.places, ctx.pipeline)
            landing = candidates.landing_measures(clocks.observe(ctx.home))
            candidates.make(spark, ctx.home, some, landing, numbers, rows)
    return {
        "run": planned[0].run,
        "plans": [plan.id for plan in planned],
        "intervals": [plan.interval.start for plan in planned],
    }


def planned_of(ctx: Context, run: str) -> tuple[Plan, ...]:
    """The recorded plans of a run.

    Raises:
        BadRequest: it has recorded none.
    """
    planned = plans.of_run(ctx.home, run)
    if not planned:
        raise BadRequest(f"run {run!r} has recorded no plan; the plan comes first")
    return planned


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
        typer.Option(metavar="N", help="Intervals that one run takes at most; default: the pipeline's catch_up."),
    ] = None,
) -> Mapping[str, Any]:
    """Make the candidates of a run's plans: of one interval and those along with it, or of the recorded range."""
    ctx = context(pipeline)
    if is_planned == (interval is not None):
        raise BadRequest("give either --interval or --planned")
    if interval is None:
        return make_candidates(ctx, planned_of(ctx, run))
    most = along if along is not None else ctx.pipeline.catch_up
    return make_candidates(ctx, plan_interval(ctx, run, interval, mode, most))


main = job(execute)
