"""land: what the topics of a pipeline have, exactly once, into its landing tables, and the clock with it.

One JVM lands every topic; with `--for` it stays warm and lands again and again until the time is over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from windrow.io.landing import land as landing
from windrow.io.landing.gaps import Lost
from windrow.io.landing.offsets import NOTHING, GivenUp
from windrow.io.registers import clocks
from windrow.io.registers.clocks import Observation
from windrow.jobs.decision import decision
from windrow.jobs.options import EVERY, AcceptGap, LandEvery, LandFor, PipelineName, Reason, Who
from windrow.jobs.run import Context, context, job
from windrow.jobs.spark import spark_for


def land(
    ctx: Context,
    *,
    lasting: timedelta = timedelta(0),
    every: timedelta = EVERY,
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


def giving_up(ranges: Sequence[str], who: str | None, why: str) -> GivenUp:
    """Return the lost ranges that a person gives up, with who and why.

    Raises:
        BadRequest: there is no reason.
    """
    if not ranges:
        return NOTHING
    decided = decision("giving up records", why, who)
    return GivenUp(tuple(Lost.parse(text) for text in ranges), decided.who, decided.reason)


def execute(
    pipeline: PipelineName,
    lasting: LandFor = timedelta(0),
    every: LandEvery = EVERY,
    accept_gap: AcceptGap = None,
    reason: Reason = "",
    who: Who = None,
) -> Mapping[str, Any]:
    """Land, and return what has landed since the start of the run."""
    ctx = context(pipeline)
    before = totals(clocks.observe(ctx.home))
    *_, last = land(ctx, lasting=lasting, every=every, given_up=giving_up(accept_gap or (), who, reason))
    return summary(before, last)


main = job(execute)
