"""land: what the topics of a pipeline have, exactly once, into its landing tables, and the clock with it.

One JVM lands every topic; with `--for` it stays warm and lands again and again until the time is over.
"""

from __future__ import annotations

import argparse
import getpass
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from windrow.io.landing import land as landing
from windrow.io.landing.gaps import Lost
from windrow.io.landing.offsets import NOTHING, GivenUp
from windrow.io.registers.clocks import Observation
from windrow.jobs.run import BadRequest, Context, job
from windrow.jobs.spark import spark_for
from windrow.text import parse_duration


def land(
    ctx: Context,
    *,
    lasting: timedelta = timedelta(0),
    every: timedelta = timedelta(seconds=15),
    given_up: GivenUp = NOTHING,
) -> Iterator[Observation]:
    """Land until nothing is left and the time is over; yields the clock after each round."""
    spark = spark_for(f"land {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    until = time.monotonic() + lasting.total_seconds()
    while True:
        began = time.monotonic()
        seen = landing.land(spark, ctx.home, ctx.now, given_up)
        yield seen
        behind = any(not clock.caught_up for clock in seen.clocks)
        if time.monotonic() >= until and not behind:
            return
        if not behind:
            time.sleep(max(0.0, min(began + every.total_seconds(), until) - time.monotonic()))


Totals = dict[tuple[str, int, int], dict[str, int]]
"""By topic, epoch and partition: counts since its first offset."""
_COUNTS = ("read", "landed", "quarantined", "skipped", "before_start")


def summary(before: Totals, seen: Observation) -> dict[str, Any]:
    """Counts since `before`, the watermark, and what is still behind."""
    now = totals(seen)
    return {
        **{name: sum(counts[name] - before.get(at, {}).get(name, 0) for at, counts in now.items()) for name in _COUNTS},
        "observation": seen.number,
        "watermark": seen.watermark,
        "lag": sum(clock.lag for clock in seen.clocks),
    }


def totals(seen: Observation) -> Totals:
    """Cumulative counts; a topic that was made again begins anew, under another epoch."""
    return {(row["topic"], row["epoch"], row["partition"]): {n: row[n] for n in _COUNTS} for row in seen.rows}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job `land`; returns its exit code."""

    def declare(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--for", dest="lasting", default="0s", help="keep landing this long, e.g. 10m")
        parser.add_argument("--every", default="15s", help="how often, with --for")
        parser.add_argument(
            "--accept-gap", action="append", default=[], help="give up lost offsets for good: topic/0:5-10"
        )
        parser.add_argument("--reason", default="", help="with --accept-gap: why; recorded in the landing commit")
        parser.add_argument("--who", default="", help="with --accept-gap: who decides")

    def execute(ctx: Context, args: argparse.Namespace) -> Mapping[str, Any]:
        from windrow.io.registers import clocks

        before = totals(clocks.observe(ctx.home))
        given_up = giving_up(args.accept_gap, args.who or getpass.getuser(), args.reason)
        *_, last = land(ctx, lasting=duration(args.lasting), every=duration(args.every), given_up=given_up)
        return summary(before, last)

    return job(__doc__ or "", declare, execute, argv)


def giving_up(ranges: Sequence[str], who: str, why: str) -> GivenUp:
    """Lost ranges that a person gives up, with who and why."""
    if ranges and not why.strip():
        raise BadRequest("giving up records needs a reason, it is recorded: --reason 'why they cannot come back'")
    return GivenUp(tuple(Lost.parse(text) for text in ranges), who, why.strip())


def duration(text: str) -> timedelta:
    """A duration of the command line."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BadRequest(str(error)) from None
