"""summarise: write the page of a day, with trends over the days before. No Spark, no rows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from windrow.home import Table
from windrow.io.delta import tables
from windrow.io.ledger import table as ledger_table
from windrow.io.registers import judgements, publications
from windrow.jobs.options import Day, PipelineName
from windrow.jobs.run import Context, context, job
from windrow.quality import summary
from windrow.quality.summary import Figures
from windrow.semantics.intervals import intervals_between

NULLS = "null_rate_max"
"""Measure of a candidate that the trend of null rates shows."""


class Records(NamedTuple):
    """What is on record about the intervals of several days, by start of the interval unless noted."""

    published: Mapping[datetime, Mapping[str, Any]]
    """Standing publications."""
    late: Mapping[datetime, Mapping[str, int]]
    """Lines of the late ledger by kind, and `flips`."""
    null_rates: Mapping[str, float | None]
    """The worst null rate, by plan id."""
    blocked: Collection[datetime]
    """Intervals without a publication whose last judgement blocked them."""


def summarise(ctx: Context, day: date) -> Path:
    """Write the page of a UTC day; return its path.

    Args:
        day: UTC day; the days before it are shown as a table.
    """
    end = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
    records = read(ctx, end - timedelta(days=summary.DAYS), end)
    by_interval = figures(records)
    return summary.write(
        ctx.pipeline.name,
        day,
        [(at, one) for at, one in by_interval.items() if at.date() == day],
        by_day(by_interval),
        ctx.home.reports,
    )


def read(ctx: Context, start: datetime, end: datetime) -> Records:
    """Read the records of the intervals that start in `[start, end)`.

    Args:
        start: start of the first interval, included.
        end: not included.

    Returns:
        Publications that stand, lines of the ledger, null rates by plan id, and intervals that are blocked.
    """
    home = ctx.home
    standing = publications.standing(publications.since(home, start))
    published = {at: row for at, row in sorted(standing.items()) if at < end}
    first = max(start, ctx.pipeline.start)
    intervals = intervals_between(first, max(end, first), ctx.pipeline.interval)
    measured = tables.read(
        home.table(Table.MEASURES),
        columns=["plan", "value"],
        filters=[("name", "=", NULLS), ("interval", ">=", start), ("interval", "<", end)],
    )
    return Records(
        published,
        ledger_table.summary(home, list(published)),
        {row["plan"]: row["value"] for row in measured},
        judgements.blocked_intervals(home, [one for one in intervals if one.start not in standing]),
    )


def figures(records: Records) -> dict[datetime, Figures]:
    """Return the figures of each interval that is published, or judged and blocked; oldest first."""
    found = {at: Figures(blocked=1) for at in records.blocked}
    for at, row in records.published.items():
        late = records.late.get(at, {})
        found[at] = Figures(
            intervals=1,
            served=row["left_landed"],
            published=row["rows"],
            duplicate=row["left_duplicate"],
            unpaired=row["left_unpaired"],
            canary=row.get("left_canary") or 0,
            erased=json.loads(row.get("balance") or "{}").get("left_erased", 0),
            positive=row["positive"],
            negative=row["negative"],
            unknown=row["unknown"],
            late=sum(count for kind, count in late.items() if kind != "flips"),
            flips=late.get("flips", 0),
            overridden=row["overridden_by"] is not None,
            empty=not row["rows"],
            null_rate_max=records.null_rates.get(row["plan_id"]),
        )
    return dict(sorted(found.items()))


def by_day(by_interval: Mapping[datetime, Figures]) -> list[tuple[date, Figures]]:
    """Return the figures of each UTC day, oldest first."""
    days: dict[date, list[Figures]] = defaultdict(list)
    for at, one in by_interval.items():
        days[at.date()].append(one)
    return [(day, summary.total(ones)) for day, ones in sorted(days.items())]


def execute(pipeline: PipelineName, day: Day = None) -> Mapping[str, Any]:
    """Write the page of a day, and return where it is."""
    ctx = context(pipeline)
    chosen = day or ctx.yesterday
    return {"day": str(chosen), "report": str(summarise(ctx, chosen))}


main = job(execute)
