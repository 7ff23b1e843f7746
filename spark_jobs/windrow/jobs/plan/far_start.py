"""Whether a pipeline starts long before its first row, so that many empty intervals would be published. No Spark.

start                              first row
  ├──────┬──────┬── … ──┬──────┬──────●───┬────▶ served time
   empty  empty          empty      └ where `start` should be
"""

from __future__ import annotations

from windrow.io.landing.earliest import first_left_at
from windrow.io.registers import publications
from windrow.jobs.run import Context
from windrow.semantics.intervals import interval_of
from windrow.text import counted, short_instant_text

MANY = 100
"""More empty intervals than this before the first row are worth a warning."""


def warning_of(ctx: Context) -> str | None:
    """Return a warning about many empty intervals before the first row; None without them, or once one is published.

    A publication fixes `start`, so only before the first one can the pipeline file still be changed.
    """
    pipeline = ctx.pipeline
    if publications.last_number(ctx.home):
        return None
    first_at = first_left_at(ctx.home, pipeline.start)
    if first_at is None:
        return None
    first = interval_of(first_at, pipeline.start, pipeline.interval)
    count = (first.start - pipeline.start) // pipeline.interval
    if count <= MANY:
        return None
    at = short_instant_text(first.start)
    return (
        f"warning: {pipeline.name} starts at {short_instant_text(pipeline.start)}, and its first row of "
        f"{pipeline.left.name} is in the interval of {at}: {counted(count, 'interval')} before it will be published "
        f"without a row. Unless you want them, stop training and set `start: {at}` in the pipeline file before the "
        "first publication; after it, `start` cannot be moved forward."
    )
