"""lag_impact: what consumer lag would have cost, and which window is right; the `lag_impact` table and a page.

Every list takes commas, or is written several times (`--lags 5m --lags 1h`); `windrow.jobs.options` describes each.

The result names the page as `report` (Airflow links it), and the headline numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from windrow.config import Pipeline, RightStream
from windrow.io.lag import analysis, delays
from windrow.io.lag import table as lag_table
from windrow.io.registers import clocks
from windrow.jobs.lag_arguments import Asked, Texts, asked
from windrow.jobs.options import (
    Drains,
    Graces,
    IdleAfter,
    LagFrom,
    Lags,
    LagTo,
    Partitions,
    Pauses,
    PipelineName,
    Policies,
    Rate,
    Recalls,
    RowByRow,
    Sample,
    Sides,
    Tick,
    Windows,
)
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.spark import spark_for
from windrow.outcomes import NothingToDo
from windrow.quality.lag import report as lag_report
from windrow.quality.lag.findings import Disorder, Findings, StreamFindings, sentences
from windrow.semantics.intervals import MICROSECOND
from windrow.semantics.lag.advice import Settings, Traffic, advise, recall
from windrow.semantics.lag.recall import CannotBeKnown, Curve, Delays, estimate
from windrow.semantics.lag.scenario import Unusable


class Analysis(NamedTuple):
    """What was found, and where the page is."""

    findings: Findings
    report: Path


def analyse(ctx: Context, texts: Texts, say: Callable[[str], None] = lambda what: None) -> Analysis:
    """Count, run the scenarios, draw the page, and record the lines.

    Raises:
        BadRequest, WindowStillOpen, NothingToDo
    """
    seen = clocks.observe(ctx.home)
    known = {topic: [row["partition"] for row in seen.of_topic(topic)] for topic in ctx.pipeline.topics}
    want = asked(texts, ctx.pipeline, seen.frontier(ctx.pipeline), known)
    spark = spark_for(f"lag impact {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    counted = delays.count(
        spark, ctx.home, seen,
        start=want.start, end=want.end, windows=want.windows, sample=want.sample, say=say,
    )  # fmt: skip
    _refuse_empty(ctx, seen, want, sum(row["events"] for row in counted.partitions if _is_left(ctx, row)))
    say(f"what lag would have cost, in {len(want.scenarios)} scenarios")
    try:
        ran = analysis.analyse(spark, ctx.home, want.scenarios, want.start, want.end, sample=want.sample)
    except Unusable as refused:
        raise BadRequest(str(refused)) from None
    _refuse_empty(ctx, seen, want, ran.outcomes[want.scenarios[0]].rows_total)
    about = _about(ctx, want)
    lines = [lag_table.line(ctx.pipeline, one, ran.outcomes[one], about) for one in want.scenarios]
    findings = _findings(ctx, want, counted, lines, about)
    findings = replace(findings, notes=(*findings.notes, *_silent(ran.silent)))
    say("the page")
    report = lag_report.write(findings, Path(about["report"]).parent)
    lag_table.record(ctx.home, lines)
    return Analysis(findings, report)


def _is_left(ctx: Context, row: Mapping[str, Any]) -> bool:
    return row["_topic"] in ctx.pipeline.left.topics


def _refuse_empty(ctx: Context, seen: clocks.Observation, want: Asked, rows: int) -> None:
    """A day on which nothing was served is no failure."""
    if not rows:
        newest = [c.newest_at for c in seen.clocks if c.topic in ctx.pipeline.left.topics and c.newest_at]
        raise NothingToDo(
            f"no row of {ctx.pipeline.left.name} was served in [{want.start}, {want.end}); landed are rows from "
            f"{ctx.pipeline.start} to {max(newest, default='nowhere')}: choose a range in between"
        )


def _about(ctx: Context, want: Asked) -> dict[str, Any]:
    """What the lines of an analysis share. The same request has the same name, and so the same page."""
    digest = hashlib.sha256(f"{ctx.pipeline.config_hash} {want}".encode()).hexdigest()[:8]
    name = f"{want.start:%Y%m%dT%H%M%SZ}_{want.end:%Y%m%dT%H%M%SZ}-{digest}"
    return {
        "analysis": name,
        "analysed_at": ctx.now(),
        "range_start": want.start,
        "range_end": want.end,
        "sample": want.sample,
        "config_hash": ctx.pipeline.config_hash,
        "report": str(ctx.home.reports / "lag_impact" / name / "index.html"),
    }


def _findings(
    ctx: Context, want: Asked, counted: delays.Counted, lines: Sequence[lag_table.Line], about: Mapping[str, Any]
) -> Findings:
    rows = lines[0]["rows"]
    rate = rows / want.sample / (want.end - want.start).total_seconds()
    traffic = Traffic(rate, ctx.pipeline.interval)
    return Findings(
        pipeline=ctx.pipeline.name,
        start=want.start,
        end=want.end,
        analysed_at=about["analysed_at"],
        sample=want.sample,
        rows=rows,
        streams=tuple(_stream(ctx.pipeline, s, counted, want, traffic) for s in ctx.pipeline.label_streams),
        lines=tuple(lines),
        sightings=tuple(lag_table.clock_over_time(ctx.home, want.start, want.end)),
        disorder=tuple(_disorder(ctx.pipeline, row) for row in counted.partitions),
        notes=tuple(_notes(ctx.pipeline, want, counted, lines)),
    )


def _stream(
    pipeline: Pipeline, stream: RightStream, counted: delays.Counted, want: Asked, traffic: Traffic
) -> StreamFindings:
    now = Settings(stream.window.after, pipeline.grace + max(pipeline.out_of_orderness(t) for t in stream.topics))
    found = counted.delays.get(stream.name)
    delays, why = _curve(found, f"its topic has no clock yet: `windrow clock {pipeline.name}`")
    disorder, why_disorder = _curve(counted.disorder[stream.name], "")
    base = StreamFindings(
        stream.name, now, delays, disorder, None,
        windows=tuple((w, delays.at(w)) for w in want.windows) if delays else (),
        orphans=counted.orphans.get(stream.name, 0),
        why=why or why_disorder,
    )  # fmt: skip
    if delays is None or disorder is None:
        return base
    return replace(
        base,
        now=traffic.value(now, recall(delays, disorder, now)) if now.window < delays.widest else None,
        advice=tuple(advise(delays, disorder, traffic, wanted) for wanted in want.wanted),
    )


def _curve(delays: Delays | None, otherwise: str) -> tuple[Curve | None, str]:
    if delays is None:
        return None, otherwise
    try:
        return estimate(delays), ""
    except CannotBeKnown as unknown:
        return None, str(unknown)


def _disorder(pipeline: Pipeline, row: Mapping[str, Any]) -> Disorder:
    lengths = {name: MICROSECOND * row[name] for name in ("p50", "p99", "p999", "most")}
    return Disorder(
        partition=f"{row['_topic']}/{row['_partition']}",
        events=row["events"],
        in_order=row["in_order"],
        allowed=pipeline.out_of_orderness(row["_topic"]),
        **lengths,
    )


def _notes(pipeline: Pipeline, want: Asked, counted: delays.Counted, lines: Sequence[lag_table.Line]) -> Iterable[str]:
    """What a reader must keep in mind."""
    if want.sample < 1:
        yield f"Counts are of a sample: {want.sample:.6g} of the keys, with all their events. Rates are scaled up."
    if not lines[0]["labels"]:
        yield "No label matches a row here: what lag would have cost the labels cannot be known, only the rows' wait."
    own = next((line for line in lines if line["policy"] == "slowest" and line["lag"] == "none"), None)
    if own and own["labels_lost"]:
        yield (
            f"Without any lag this pipeline's clock loses {own['labels_lost']:,} of {own['labels']:,} labels: they "
            "come later than grace and out-of-orderness allow. A larger grace would have waited for them."
        )
    if own and own["rows_open"]:
        yield f"{own['rows_open']:,} rows were still open when the analysed records ended; nothing is said about them."
    if all(len([p for p in counted.partitions if p["_topic"] == topic]) <= 1 for topic in pipeline.topics):
        yield "Every topic has one partition here: clocks that differ only between partitions agree."
    if len({stream.window.after for stream in pipeline.right}) > 1:
        yield f"Rows wait for the widest window of all streams ({pipeline.after}), whatever a narrower one is set to."


def _silent(places: Sequence[tuple[str, int, int]]) -> Iterable[str]:
    """Partitions that the scenarios did not wait for."""
    if places:
        names = ", ".join(f"{topic}/{partition}" for topic, _, partition in places)
        yield f"No record of {names} lies here: no clock waits for them in the scenarios; the pipeline's own does."


def result(analysis: Analysis) -> dict[str, Any]:
    """The headline, for a DAG or a program."""
    found = analysis.findings
    return {
        "report": str(analysis.report),
        "analysis": found.lines[0]["analysis"],
        "start": found.start,
        "end": found.end,
        "rows": found.rows,
        "labels": found.lines[0]["labels"],
        "scenarios": len(found.lines),
        "recall": {s.name: s.now.recall.share for s in found.streams if s.now},
        "findings": [*found.notes, *sentences(found)],
    }


def execute(
    pipeline: PipelineName,
    begin: LagFrom = None,
    end: LagTo = None,
    sides: Sides = None,
    partitions: Partitions = None,
    lags: Lags = None,
    pauses: Pauses = None,
    drains: Drains = None,
    rate: Rate = None,
    policies: Policies = None,
    tick: Tick = None,
    idle_after: IdleAfter = None,
    windows: Windows = None,
    graces: Graces = None,
    sample: Sample = None,
    recalls: Recalls = None,
    row_by_row: RowByRow = False,
) -> Mapping[str, Any]:
    """Analyse the range, write the page, and return the headline."""
    texts = Texts(
        begin, end, sides or (), partitions or (), lags or (), pauses or (), drains or (), rate, policies or (), tick,
        idle_after, windows or (), graces or (), sample, recalls or (), row_by_row,
    )  # fmt: skip
    return result(analyse(context(pipeline), texts, say=lambda what: print(what, flush=True)))


main = job(execute)
