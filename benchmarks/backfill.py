"""Backfill of a day in ten-minute intervals, against the same rows as one interval of a day.

    .venv/bin/python benchmarks/backfill.py                              20 M rows; its data is made by the first run
    .venv/bin/python benchmarks/backfill.py --rows 2000000 --rounds 1        smaller

    day        one interval of 24 hours: plan, one join, check, publish
    backfill   144 intervals of ten minutes by `windrow rebuild`: plans of the range, one join of all, then each is
               checked and published by a commit of its own

Aim: at most 1.1 x the day's time, and no more memory. Both have the same landed rows, and publish every one of them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from common.side_by_side import Steps, arguments, compare, work_once
from common.tables import HOUR, Shape, forget, pipeline_of, rows_in, world
from publish import carry_out, close, require

from windrow.home import Table
from windrow.jobs.plan.survey import plan_range
from windrow.jobs.run import Context, leave

DAY = 24 * HOUR
MINUTES = {"day": 24 * 60, "backfill": 10}
"""variant → length of an interval"""


def shape_of(variant: str, rows: int, features: int) -> Shape:
    """Four rows per key and hour."""
    return Shape(rows, 4 * 24, features, span=DAY, minutes=MINUTES[variant])


def backfill(ctx: Context, steps: Steps) -> int:
    """Publish all intervals of the day as a rebuild does; returns how many."""
    steps.done("imports")
    planned = plan_range(ctx, "benchmark", ctx.pipeline.start, ctx.pipeline.start + DAY)
    steps.done("plan")
    return len(carry_out(ctx, planned, steps))


def day(ctx: Context, steps: Steps) -> int:
    """Publish the day as one interval."""
    close(ctx, ctx.pipeline.start, steps)
    return 1


VARIANTS = {"day": day, "backfill": backfill}


def work(options: argparse.Namespace, variant: str) -> None:
    """One worker process: measure a variant."""
    ctx = pipeline_of(options.home, shape_of(variant, options.rows, options.features))

    def once() -> Steps:
        steps = Steps(0)
        count = VARIANTS[variant](ctx, steps)
        require(count == DAY // ctx.pipeline.interval, f"{count} publications")
        there = rows_in(ctx.home.table(Table.TRAINING))
        require(there == options.rows, f"the training table holds {there} rows")
        return steps

    work_once(once)


def main() -> None:
    options = arguments(__doc__ or "", tuple(VARIANTS), rows=20_000_000, features=10)
    if options.work == "data":
        world(options.home, shape_of(options.out, options.rows, options.features))
        leave(0)
    if options.work:
        work(options, options.work)
        leave(0)
    sizes = ["--home", options.home, "--rows", str(options.rows), "--features", str(options.features)]
    for variant in options.variants:
        subprocess.run([sys.executable, __file__, "--work", "data", "--out", variant, *sizes], check=True)

    def command(variant: str) -> list[str]:
        """Called just before the worker starts: remove what an earlier one has published."""
        forget(pipeline_of(options.home, shape_of(variant, options.rows, options.features)))
        return [sys.executable, __file__, "--work", variant, *sizes]

    about = {"rows": options.rows, "features": options.features, "labelled": 0.2, "aim": "at most 1.1 x day"}
    compare("backfill", options.variants, command, rounds=options.rounds, about=about)


if __name__ == "__main__":
    main()
