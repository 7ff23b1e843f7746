"""summarise: the page of a day, with trends, from what is on record about its publications. No Spark, no rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.ledger import table as ledger_table
from windrow.io.registers import judgements, publications
from windrow.jobs.options import Day, PipelineName
from windrow.jobs.run import Context, context, job
from windrow.quality import summary
from windrow.quality.summary import Figures
from windrow.semantics.intervals import intervals_between

NULLS = "null_rate_max"


def summarise(ctx: Context, day: date) -> Path:
    """Write the page of a day; returns where it is."""
    ends = _midnight(day) + timedelta(days=1)
    begins = ends - timedelta(days=summary.DAYS)
    found = figures(ctx, begins, ends)
    days: dict[date, list[Figures]] = defaultdict(list)
    for at, one in found.items():
        days[at.date()].append(one)
    return summary.write(
        ctx.pipeline.name,
        day,
        [(at, one) for at, one in found.items() if at.date() == day],
        [(at, summary.total(ones)) for at, ones in sorted(days.items())],
        ctx.home.reports,
    )


def figures(ctx: Context, begins: datetime, ends: datetime) -> dict[datetime, Figures]:
    """Of every interval in `[begins, ends)` that is published, or judged and blocked."""
    pipeline, places = ctx.pipeline, ctx.places
    standing = publications.standing(publications.registered(Home(pipeline, places)))
    within = {at: row for at, row in sorted(standing.items()) if begins <= at < ends}
    ledger = ledger_table.summary(Home(pipeline, places), list(within))
    nulls = _nulls(ctx, begins, ends)
    found = {at: _published(row, ledger.get(at, {}), nulls.get(row["plan_id"])) for at, row in within.items()}
    first = max(begins, pipeline.start)
    open_ = [i for i in intervals_between(first, max(ends, first), pipeline.interval) if i.start not in standing]
    blocked = judgements.blocked_intervals(Home(pipeline, places), open_)
    return dict(sorted({**found, **{at: Figures(blocked=1) for at in blocked}}.items()))


def _published(row: Mapping[str, Any], ledger: Mapping[str, int], nulls: float | None) -> Figures:
    return Figures(
        intervals=1,
        served=row["left_landed"],
        published=row["rows"],
        duplicate=row["left_duplicate"],
        unpaired=row["left_unpaired"],
        positive=row["positive"],
        negative=row["negative"],
        unknown=row["unknown"],
        late=sum(count for kind, count in ledger.items() if kind != "flips"),
        flips=ledger.get("flips", 0),
        overridden=row["overridden_by"] is not None,
        null_rate_max=nulls,
    )


def _nulls(ctx: Context, begins: datetime, ends: datetime) -> dict[str, float | None]:
    rows = tables.read(
        ctx.home.table(Table.MEASURES),
        columns=["plan", "value"],
        filters=[("name", "=", NULLS), ("interval", ">=", begins), ("interval", "<", ends)],
    )
    return {row["plan"]: row["value"] for row in rows}


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def execute(pipeline: PipelineName, day: Day = None) -> Mapping[str, Any]:
    """Write the page of a day, and return where it is."""
    ctx = context(pipeline)
    chosen = day or ctx.yesterday
    return {"day": str(chosen), "report": str(summarise(ctx, chosen))}


main = job(execute)
