"""clock, publications: what is, read from the tables without Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from windrow.cli.show import PUBLICATION, AsJson, PipelineName, as_json, console, instant, rows, span
from windrow.home import Table
from windrow.io.registers import clocks, publications
from windrow.jobs.run import context
from windrow.semantics.clock import holder
from windrow.semantics.close import closes_at
from windrow.semantics.intervals import Interval


def clock(pipeline: PipelineName, json: AsJson = False) -> None:
    """The watermark, the frontier, each partition's clock and lag, which one holds the clock and why."""
    ctx = context(pipeline)
    seen = clocks.observe(ctx.home)
    register = publications.registered(ctx.home)
    frontier = seen.frontier(ctx.pipeline)
    holes = publications.holes(ctx.pipeline, register, frontier)
    slowest = holder(seen.clocks)
    held_by = slowest.identity if slowest else None
    table = [
        {
            "holds": "◀ holds" if (row["topic"], row["epoch"], row["partition"]) == held_by else "",
            **{n: row[n] for n in ("topic", "partition", "clock_at", "newest_at", "next_offset", "end_offset")},
            "lag": max(0, row["end_offset"] - row["next_offset"]),
            "moved_by": "idling" if row["idle"] else "events" if row["newest_at"] else "-",
            "landed_at": row["landed_at"],
        }
        for row in seen.rows
    ]
    waiting = _waiting(ctx.pipeline, frontier)
    if json:
        as_json(
            {
                "pipeline": ctx.pipeline.name,
                "observation": seen.number,
                "watermark": seen.watermark,
                "frontier": frontier,
                "held_by": list(held_by) if held_by else None,
                "why": _why(seen, ctx.pipeline.idle.mode),
                "next_interval": waiting.start,
                "closes_at": closes_at(waiting, ctx.pipeline.after, ctx.pipeline.grace),
                "closed_unpublished": [i.start for i in holes],
                "gaps": [gap.to_dict() for gap in seen.gaps],
                "partitions": [{**row, "holds": bool(row["holds"])} for row in table],
            }
        )
        return
    if not seen.rows:
        console.print(f"{ctx.pipeline.name}: nothing has landed yet, so there is no clock. `windrow land {pipeline}`")
        return
    console.print(f"watermark  {instant(seen.watermark)}")
    console.print(
        f"frontier   {instant(frontier)}   "
        f"(watermark - {span(ctx.pipeline.after)} window - {span(ctx.pipeline.grace)} grace)"
    )
    console.print(_why(seen, ctx.pipeline.idle.mode))
    console.print(
        f"next to close: {waiting}, at watermark {instant(closes_at(waiting, ctx.pipeline.after, ctx.pipeline.grace))}"
    )
    if holes:
        console.print(f"closed and not published: {len(holes)}, the oldest {holes[0]}")
    rows(table, list(table[0]))
    for gap in seen.gaps:
        console.print(f"given up: {gap.lost}, by {gap.who} at {instant(gap.accepted_at)}: {gap.why}")
    age = datetime.now(UTC) - max(row["landed_at"] for row in seen.rows)
    console.print(f"landed last {span(age)} ago")


def publications_(pipeline: PipelineName, json: AsJson = False) -> None:
    """Every publication: number, interval, counts, verdict, and the training table's version that it made."""
    ctx = context(pipeline)
    register = publications.repaired(ctx.home)
    if json:
        as_json(register)
        return
    if not register:
        console.print(
            f"{pipeline}: nothing is published yet. `windrow train {pipeline}`, or unpause {pipeline}.training"
        )
        return
    standing = {row["number"] for row in publications.standing(register).values()}
    shown = [{**row, "stands": "yes" if row["number"] in standing else "replaced"} for row in register]
    rows(shown, (*PUBLICATION, "published_at", "stands"))
    console.print(f"training table: {ctx.home.table(Table.TRAINING)}")


def _waiting(pipeline, frontier: datetime | None) -> Interval:  # type: ignore[no-untyped-def]
    from windrow.semantics.intervals import interval_of

    at = max(frontier, pipeline.start) if frontier else pipeline.start
    return interval_of(at, pipeline.start, pipeline.interval)


def _why(seen: clocks.Observation, mode: str) -> str:
    slowest = holder(seen.clocks)
    if slowest is None:
        return "nothing has landed yet"
    name = f"{slowest.topic}/{slowest.partition}"
    if slowest.lag:
        return f"held by {name}: {slowest.lag:,} records behind its end; landing moves it"
    if slowest.newest_at is None and mode == "wait":
        return f"held by {name}: it never had a record, and `idle: wait` keeps it from moving"
    if mode == "wait":
        return f"held by {name}: read to its end; a newer event moves it (`idle: wait`)"
    return f"held by {name}: read to its end; a newer event moves it, or idling at the next landing"


COMMANDS: dict[str, Callable[..., None]] = {"clock": clock, "publications": publications_}
