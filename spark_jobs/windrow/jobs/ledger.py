"""late: extend the late ledger by what has landed since its last pass, and write its page again.

    read     register, clock, logs of the landing tables ─▶ compute  what is due (usually nothing: no Spark)
    read     rows around what landed since               ─▶ compute  their lines, and those that take lines back
    write    one commit: the lines, and what the pass was complete up to

Training does this after every publication. The job is for a pipeline whose training is paused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import INTERVAL, PAIRED
from windrow.home import Home, Table
from windrow.io.delta.locks import held
from windrow.io.ledger import affected_rows, append
from windrow.io.ledger import state as ledger_state
from windrow.io.ledger import table as ledger_table
from windrow.io.registers import clocks, publications
from windrow.io.registers.clocks import Observation
from windrow.io.training import inputs
from windrow.jobs.options import PipelineName
from windrow.jobs.plan.planning import interval_at
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.spark import spark_for
from windrow.outcomes import NeedsSpark
from windrow.quality import ledger_report
from windrow.semantics.intervals import at_micros
from windrow.semantics.records import Gap
from windrow.text import counted, shown_duration
from windrow.transforms.facts import Facts, facts_of
from windrow.transforms.ledger import affected, columns, reading
from windrow.transforms.ledger.due import config_changed, due, published_floor
from windrow.transforms.ledger.lines import arrivals, lines
from windrow.transforms.ledger.passes import Due, Pass, instants_of
from windrow.transforms.ledger.subjects import SUBJECT, side_by_side, subject, with_subject

BRIEF = ("kind", "row", "stream", "appeared", "vanished", "state", "missed_by", "cause")
"""Columns of a line that people are shown: ids and states, no values."""


class LedgerNotExtended(RuntimeError):
    """Publications stand and are registered; only the ledger is behind. Trying again helps."""


def extend(ctx: Context, *, everything: bool = False) -> Due | None:
    """Make the ledger complete up to what has landed, and write its page again where something can have changed.

    Args:
        everything: look at every published row, not only at what has changed since the last pass.
    Returns:
        what the newest pass has looked at; None where nothing is published.
    """
    name = ctx.pipeline.name
    work = extend_table(ctx.home, lambda: spark_for(f"late {name}", ctx.places, ctx.pipeline), everything=everything)
    if work is not None and (work.needs_spark or work.incomparable or not page(ctx).exists()):
        newest = instants_of(work.standing.starts[-ledger_report.LISTED :])
        ledger_report.write(name, totals(ctx, newest), work.known.pins, ctx.places.reports(name))
    return work


def extend_after_publication(ctx: Context, *, everything: bool = False) -> None:
    """Extend the ledger after publications that are already on record.

    A failure fails the run, because a ledger that fell behind silently would let late data look complete. The ledger
    comes last, because publications are right without it: a retry finds them and only extends the ledger.

    Args:
        everything: as for `extend`.
    Raises:
        NeedsSpark: rows must be looked at, and the run is to do without Spark.
        LedgerNotExtended: anything else went wrong.
    """
    try:
        extend(ctx, everything=everything)
    except NeedsSpark:
        raise
    except Exception as error:
        raise LedgerNotExtended(
            f"published and on record, but the late ledger could not be extended: {type(error).__name__}: {error}. "
            f"Nothing has to be published again; run `windrow late {ctx.pipeline.name} --extend`, or retry."
        ) from error


def extend_table(home: Home, session: Callable[[], SparkSession], *, everything: bool = False) -> Due | None:
    """Make the table of the ledger complete up to what has landed.

    Args:
        session: returns the Spark session; called only where rows must be looked at.
        everything: as for `extend`.
    Returns:
        what the newest pass has looked at; None where nothing is published.
    """
    with held(home.lock(Table.LATE)):
        found = ledger_state.read(home)
        if found is None:
            return None
        state, clock = found
        work = due(home.pipeline, state)
        work = replace(work, needs_all=work.needs_all or everything)
        marks = [config_changed(work, start) for start in work.incomparable]
        if work.needs_spark:
            spark = session()
            if touched := _touched(spark, home, work):
                work = ledger_state.with_rows(home, work, touched)
                _append_lines(spark, home, work, touched, marks, clock)
                return work
        elif not marks and state.newest is not None and state.newest.knows_as_much_as(work.as_pass):
            return replace(work, number=state.newest.number)
        append.append(home, work.as_pass, marks)
        return work


def _touched(spark: SparkSession, home: Home, work: Due) -> list[datetime]:
    """Return the starts of the published intervals that a newly landed row, or new knowledge, can change; sorted."""
    if work.needs_all:
        return work.starts
    pipeline, found = home.pipeline, set(work.within(work.stretches, home.pipeline.interval))
    if starts := work.within(work.near, pipeline.interval):
        fresh = {stream.name: affected_rows.fresh(spark, home, work, stream) for stream in pipeline.streams}
        near = [affected.near(fresh[stream.name], stream, pipeline, starts) for stream in pipeline.streams]
        if work.can_be_undated:  # the only look at all published rows
            published = affected_rows.published(spark, home, work)
            near += [affected.near_undated(fresh[s.name], s, pipeline, published) for s in pipeline.label_streams]
        intervals = reduce(DataFrame.unionByName, near)
        unseen = affected.unseen(intervals, affected_rows.pins(spark, home, work, starts))
        found |= {at_micros(row["at"]) for row in unseen.collect()}
    return sorted(found)


def _append_lines(
    spark: SparkSession,
    home: Home,
    work: Due,
    touched: Sequence[datetime],
    marks: Sequence[Mapping[str, Any]],
    clock: Observation,
) -> None:
    """Compare the touched intervals as published with a rebuild at the newest pins, and commit the differences.

    Args:
        marks: `config_changed` lines that the same commit gets.
        clock: the observation that the pins of the pass are of.
    """
    pipeline, left = home.pipeline, home.pipeline.left
    read = affected_rows.around(spark, home, work, touched, clock)
    standing = affected_rows.standing(spark, home, work, touched)
    began = affected_rows.began(spark, home, published_floor(work, touched))
    ledger = append.frame(spark, home, touched)
    published = with_subject(affected_rows.published(spark, home, work, touched), left, standing, F.col(INTERVAL))

    scope = affected.subjects(read.left, read.rights, read.doubtful, published, standing, work, pipeline).persist()
    kept = affected.left_rows(read.left.kept, standing, pipeline)
    wanted = kept.join(scope.select(SUBJECT), on=SUBJECT, how="left_semi").persist()
    rights = {name: rows.kept for name, rows in read.rights.items()}
    facts = _facts(home, work, touched, read.gaps)
    rebuilt = affected.rebuilt(wanted, rights, read.doubtful, standing, pipeline, facts).where(F.col(PAIRED))
    published = published.join(scope.select(SUBJECT), on=SUBJECT, how="left_semi")
    both = side_by_side(published, rebuilt.withColumn(SUBJECT, subject(left)), pipeline).persist()
    found = lines(both, arrivals(read.left, read.rights, pipeline), standing, began, pipeline).persist()
    before = columns.counting(ledger, standing)
    looked_at = columns.with_erased(scope, before) if work.needs_all else scope

    append.append_frame(home, work.as_pass, found.unionByName(columns.taken_back(found, before, looked_at)), marks)
    for frame in (found, both, wanted, scope):
        frame.unpersist()
    inputs.release(read)


def _facts(home: Home, work: Due, touched: Sequence[datetime], gaps: tuple[Gap, ...]) -> dict[bool, Facts]:
    """Return, for drained and for other publications, what a rebuild at the newest pins fixes for their intervals."""
    facts = {}
    for is_drained in {work.plan_of(start).drained for start in touched}:
        plan = replace(work.known, drained=is_drained)
        rebuilds = [replace(plan, interval=work.plan_of(start).interval) for start in touched]
        forced = frozenset(
            one.interval.start for one in rebuilds if one.is_forced(home.pipeline.after, home.pipeline.grace)
        )
        facts[is_drained] = replace(facts_of(home.pipeline, (plan,), gaps), forced=forced)
    return facts


def unseen(ctx: Context, last: Pass) -> list[str]:
    """Return what the newest pass of the ledger has not looked at: publications, batches, another pipeline file.

    Args:
        last: the newest pass.

    Returns:
        Words, one entry per thing; empty where a new pass would find nothing.
    """
    newest = publications.last_number(ctx.home)
    pins, known = clocks.observe(ctx.home).pins, last.known.pins
    newer = {topic: pin - known.get(topic, 0) for topic, pin in pins.items() if pin > known.get(topic, 0)}
    return [
        *([f"{counted(newest - last.publication, 'publication')} up to {newest}"] if newest > last.publication else []),
        *(f"{counted(batches, 'batch', 'batches')} of {topic}" for topic, batches in newer.items()),
        *(["another pipeline file"] if last.known.config_hash != ctx.pipeline.config_hash else []),
    ]


def require_published(ctx: Context, at: datetime) -> None:
    """Refuse an interval that has no publication: nothing can be late for it.

    Raises:
        BadRequest: no interval starts at `at`, or it has no publication.
    """
    interval = interval_at(ctx, at)
    if not publications.of_interval(ctx.home, interval.start):
        name = ctx.pipeline.name
        raise BadRequest(f"{interval} has no publication; `windrow publications {name}` lists the intervals that have")


def totals(ctx: Context, starts: Sequence[datetime] | None = None) -> list[dict[str, Any]]:
    """Return what came late, one row per published interval, oldest first (`transforms.ledger.reading.totals`).

    Args:
        starts: starts of the wanted intervals; None for all.
    """
    columns = tuple({*publications.IDENTITY, *reading.PUBLISHED})
    home = ctx.home
    standing = publications.standing(publications.of_intervals(home, starts, columns))
    chosen = sorted(standing)
    found = ledger_table.lines(home, chosen, columns=reading.TOTALLED, standing=standing)
    labels = [stream.name for stream in ctx.pipeline.label_streams]
    return reading.totals(found, [standing[start] for start in chosen], labels)


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a total as people read it: durations, rates and causes as text."""
    durations = ("missed_by_p50", "missed_by_p90", "missed_by_max")
    causes = ", ".join(f"{name} {n}" for name, n in sorted(row["causes"].items()))
    rates = {name: None if row[name] is None else f"{row[name]:.2%}" for name in ("recall", "flip_rate")}
    texts = {name: shown_duration(row[name], exact=True) or None for name in durations}
    return {**row, **texts, **rates, "causes": causes}


def brief(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line as people read it: the columns `BRIEF` as text, None where the line has no value."""

    def row_id(prefix: str) -> str | None:
        parts = [line[f"{prefix}{name}"] for name in ("topic", "epoch", "partition", "offset")]
        return None if parts[0] is None else "/".join(str(part) for part in parts)

    def state(when: str) -> str:
        return "/".join(part for name in ("state", "reason") if (part := line[f"{name}_{when}"]))

    return {
        "kind": line["kind"],
        "row": row_id(""),
        "stream": line["stream"],
        "appeared": row_id("appeared_"),
        "vanished": row_id("vanished_") or (row_id("gone_") if line["stream"] is None else None),
        "state": f"{state('before')} -> {state('after')}" if line["state_before"] else None,
        "missed_by": shown_duration(reading.missed_by(line), exact=True) or None,
        "cause": line["cause"],
    }


def page(ctx: Context) -> Path:
    """Return the path of the page of the ledger; it exists once the ledger has been extended."""
    return ctx.home.reports / "late" / "index.html"


def execute(pipeline: PipelineName) -> Mapping[str, Any]:
    """Extend the ledger, and return how many lines of each kind it has.

    Returns:
        Number of the pass (None where nothing is published), its pins, lines by kind, and the page.

    Raises:
        Locked: another process extends the ledger.
    """
    ctx = context(pipeline)
    work = extend(ctx)
    kinds = Counter(ledger_table.lines(ctx.home, columns=("kind",))["kind"].to_list())
    pins = dict(work.known.pins) if work else {}
    return {"pass": work.number if work else None, "pins": pins, "kinds": dict(kinds), "report": str(page(ctx))}


main = job(execute)
