"""land: what the topics of a pipeline have, exactly once, into its landing tables, and the clock with it.

One JVM lands every topic; with `--for` it stays warm and lands again and again until the time is over.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from windrow.config import parse_duration
from windrow.io import landing
from windrow.io.clocks import Observation
from windrow.jobs.run import BadRequest, Context, job
from windrow.jobs.spark import spark_for


def land(
    ctx: Context, *, lasting: timedelta = timedelta(0), every: timedelta = timedelta(seconds=15)
) -> Iterator[Observation]:
    """Land until nothing is left and the time is over; yields the clock after each round."""
    spark = spark_for(f"land {ctx.pipeline.name}", ctx.places)
    until = time.monotonic() + lasting.total_seconds()
    while True:
        began = time.monotonic()
        seen = landing.land(spark, ctx.pipeline, ctx.places, ctx.now)
        yield seen
        behind = any(not clock.caught_up for clock in seen.clocks)
        if time.monotonic() >= until and not behind:
            return
        if not behind:
            time.sleep(max(0.0, min(began + every.total_seconds(), until) - time.monotonic()))


def summary(before: Mapping[str, int], seen: Observation) -> dict[str, Any]:
    """Counts since `before` (see `totals`), the watermark, and what is still behind."""
    now = totals(seen)
    return {
        **{name: now[name] - before.get(name, 0) for name in now},
        "observation": seen.number,
        "watermark": seen.watermark,
        "lag": sum(clock.lag for clock in seen.clocks),
    }


def totals(seen: Observation) -> dict[str, int]:
    """Cumulative counts over all partitions."""
    names = ("read", "landed", "quarantined", "skipped", "before_start")
    return {name: sum(row[name] for row in seen.rows) for name in names}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of spark_jobs/land.py."""

    def declare(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--for", dest="lasting", default="0s", help="keep landing this long, e.g. 10m")
        parser.add_argument("--every", default="15s", help="how often, with --for")

    def execute(ctx: Context, args: argparse.Namespace) -> Mapping[str, Any]:
        from windrow.io import clocks

        before = totals(clocks.observe(ctx.pipeline, ctx.places))
        *_, last = land(ctx, lasting=duration(args.lasting), every=duration(args.every))
        return summary(before, last)

    return job(__doc__ or "", declare, execute, argv)


def duration(text: str) -> timedelta:
    """A duration of the command line."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BadRequest(str(error)) from None
