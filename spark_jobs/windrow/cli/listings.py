"""clock, publications: the current state, read from the tables without starting Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from json import loads
from typing import Any

from windrow.cli.show import PUBLICATION, AsJson, console, print_json, print_table
from windrow.config import Pipeline
from windrow.home import Table
from windrow.io.delta import lookup
from windrow.io.registers import clocks, judgements, publications
from windrow.jobs.options import PipelineName
from windrow.jobs.plan.far_start import late_start
from windrow.jobs.run import Context, context
from windrow.semantics.clock import holder
from windrow.semantics.close import closes_at
from windrow.semantics.fleet.health import holder_reason
from windrow.semantics.intervals import Interval, interval_of
from windrow.text import shown_duration, shown_instant

GAPS = 20
"""Newest gaps that `windrow clock` prints."""


def clock(pipeline: PipelineName, json: AsJson = False) -> None:
    """Show the watermark, the frontier, the clock and lag of each partition, and which one holds the clock and why."""
    ctx = context(pipeline, is_reader=True)
    seen = clocks.observe(ctx.home)
    published = publications.registered_grid(ctx.home)
    holes = publications.holes(ctx.pipeline, published.starts, seen.frontier(ctx.pipeline))
    if json:
        print_json(_clock_json(ctx.pipeline, seen, holes))
    elif seen.rows:
        _print_clock(ctx, seen, holes)
    else:
        console.print(f"{pipeline}: nothing has landed yet, so there is no clock. `windrow land {pipeline}`")


def _clock_json(pipeline: Pipeline, seen: clocks.Observation, holes: list[Interval]) -> dict[str, Any]:
    slowest = holder(seen.clocks)
    waiting = _next_to_close(pipeline, seen)
    return {
        "pipeline": pipeline.name,
        "observation": seen.number,
        "watermark": seen.watermark,
        "frontier": seen.frontier(pipeline),
        "held_by": list(slowest.identity) if slowest else None,
        "why": holder_reason(seen.clocks, pipeline.idle.mode),
        "next_interval": waiting.start,
        "closes_at": closes_at(waiting, pipeline.after, pipeline.grace),
        "closed_unpublished": [hole.start for hole in holes],
        "gaps": [{**vars(gap), "lost": vars(gap.lost)} for gap in seen.shown_gaps.gaps],
        "are_all_gaps": seen.shown_gaps.are_all,
        "partitions": [{**row, "holds": bool(row["holds"])} for row in _partitions(seen)],
    }


def _print_clock(ctx: Context, seen: clocks.Observation, holes: list[Interval]) -> None:
    pipeline = ctx.pipeline
    waiting = _next_to_close(pipeline, seen)
    closing = closes_at(waiting, pipeline.after, pipeline.grace)
    console.print(f"watermark  {shown_instant(seen.watermark)}")
    console.print(
        f"frontier   {shown_instant(seen.frontier(pipeline))}   (watermark - {shown_duration(pipeline.after)} window "
        f"- {shown_duration(pipeline.grace)} grace)"
    )
    console.print(holder_reason(seen.clocks, pipeline.idle.mode))
    console.print(f"next to close: {waiting}, at watermark {shown_instant(closing)}")
    if holes:
        console.print(f"closed and not published: {len(holes)}, the oldest {holes[0]}")
    table = _partitions(seen)
    print_table(table, list(table[0]))
    gaps = seen.shown_gaps.gaps
    for gap in gaps[-GAPS:]:
        console.print(f"gap: {gap.lost}, on record since {shown_instant(gap.accepted_at)} by {gap.who}: {gap.why}")
    if len(gaps) > GAPS:
        console.print(f"only the newest {GAPS} gaps are shown; `windrow clock {pipeline.name} --json` lists more")
    age = ctx.now() - max(row["landed_at"] for row in seen.rows)
    console.print(f"landed last {shown_duration(age)} ago")


def _partitions(seen: clocks.Observation) -> list[dict[str, Any]]:
    """Return one row per partition, for the table and for programs."""
    slowest = holder(seen.clocks)
    held_by = slowest.identity if slowest else None
    return [
        {
            "holds": "◀ holds" if (row["topic"], row["epoch"], row["partition"]) == held_by else "",
            **{n: row[n] for n in ("topic", "partition", "clock_at", "newest_at", "next_offset", "end_offset")},
            "lag": max(0, row["end_offset"] - row["next_offset"]),
            "moved_by": "idling" if row["idle"] else "events" if row["newest_at"] else "-",
            "landed_at": row["landed_at"],
        }
        for row in seen.rows
    ]


def _next_to_close(pipeline: Pipeline, seen: clocks.Observation) -> Interval:
    """Return the first interval that is not closed."""
    frontier = seen.frontier(pipeline)
    at: datetime = max(frontier, pipeline.start) if frontier else pipeline.start
    return interval_of(at, pipeline.start, pipeline.interval)


def publications_(pipeline: PipelineName, json: AsJson = False) -> None:
    """List every publication: number, interval, counts, verdict and why, and the version of the training table.

    Intervals that are blocked, or closed and not published, stand below the list. With --json they are left out;
    `windrow health --json` has them.
    """
    ctx = context(pipeline, is_reader=True)
    register = publications.repaired(ctx.home)
    if json:
        print_json([_without_texts(row) for row in register])
        return
    if register:
        _print_register(ctx, register)
    else:
        console.print(
            f"{pipeline}: nothing is published yet. "
            + (". ".join(late_start(ctx.home) or ()) or f"`windrow train {pipeline}`, or unpause {pipeline}.training")
        )
    _print_unpublished(ctx, register)


def _without_texts(row: dict[str, Any]) -> dict[str, Any]:
    """The row for programs: what the table keeps as the text of JSON is JSON."""
    return {**row, **{name: loads(row[name]) if row[name] else None for name in ("plan", "balance")}}


def _print_register(ctx: Context, register: list[dict[str, Any]]) -> None:
    standing = {row["number"] for row in publications.standing(register).values()}
    rows = [{**row, "stands": "yes" if row["number"] in standing else "replaced"} for row in register]
    probed = any(row["canary_pairs"] is not None for row in rows)
    rows = [{**row, "canaries": _canaries(row)} for row in rows]
    print_table(rows, (*PUBLICATION, *(["canaries"] if probed else []), "published_at", "stands", "why"))
    console.print(f"training table: {ctx.home.table(Table.TRAINING)}")


def _canaries(row: dict[str, Any]) -> str:
    """Return how many pairs of canaries were found, and how long the slowest took to land: `29 of 30, 41s`."""
    if not row["canary_pairs"]:
        return ""
    delay = row["canary_delay_s"]
    slowest = "" if delay is None else f", {shown_duration(timedelta(seconds=delay))}"
    return f"{row['canary_matched']} of {row['canary_pairs']}{slowest}"


def _print_unpublished(ctx: Context, register: list[dict[str, Any]]) -> None:
    seen = clocks.observe(ctx.home)
    closed = publications.holes(ctx.pipeline, publications.starts_of(register), seen.frontier(ctx.pipeline))
    blocked = judgements.blocked(lookup.opened(ctx.home.table(Table.QUALITY)), closed)
    for interval in closed:
        why = blocked.get(interval.start)
        console.print(f"{interval}: {'closed and not published' if why is None else f'blocked: {why}'}")
    if seen.rows:
        waiting = _next_to_close(ctx.pipeline, seen)
        closing = closes_at(waiting, ctx.pipeline.after, ctx.pipeline.grace)
        console.print(f"{waiting}: open; it closes at watermark {shown_instant(closing)}")


COMMANDS: dict[str, Callable[..., None]] = {"clock": clock, "publications": publications_}
