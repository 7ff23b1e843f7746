"""The lag report: one page that a person understands in a minute.

    <reports>/lag_impact/<start>_<end>-<arguments>/index.html

It shows counts, shares and durations as sentences, plots (SVG in the page) and tables, never a row, a key or a value. A
repeated analysis replaces its page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from windrow.files import write_whole
from windrow.quality import html
from windrow.quality.lag import plots
from windrow.quality.lag.findings import Disorder, Findings, ImpactRow, StreamFindings
from windrow.quality.lag.sentences import (
    by_clock,
    caught,
    impact,
    jumps,
    lagging,
    lost_title,
    percent,
    sentences,
    wait_title,
    watermark,
)
from windrow.semantics.lag.advice import Advice, Assessment
from windrow.semantics.lag.observed import ClockReading, by_partition, thinned
from windrow.text import counted, rounded_duration

DRAWN = 1_500
"""Most landing runs in the plot of observed lag; of more, this many are evenly chosen."""


class Figure(NamedTuple):
    """A plot under the sentence that it shows."""

    title: str
    svg: Markup


class Table(NamedTuple):
    """A table whose first `texts` columns are texts, the others numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1


def write(findings: Findings, folder: Path) -> Path:
    """Write the page of an analysis into its folder; returns its path.

    Args:
        folder: is made where it is missing; an older page in it is replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    write_whole(path, page(findings))
    return path


def page(findings: Findings) -> str:
    """Return the page of an analysis."""
    return html.render(
        "lag.html",
        title=f"Lag impact of {findings.pipeline}",
        findings=findings,
        sample="" if findings.sample >= 1 else percent(findings.sample),
        sentences=sentences(findings),
        streams=[_stream(stream) for stream in findings.streams],
        **_impact(findings.scenarios),
        **_observed(findings.readings),
        jumps=jumps(findings.disorder),
        disorder=_disorder(findings.disorder),
        scenarios=_scenarios(findings.scenarios),
    )


def _stream(stream: StreamFindings) -> dict[str, Any]:
    if stream.delays is None:
        return {"title": caught(stream), "recall": None}
    curve, window = stream.delays, stream.current.window
    half, most = rounded_duration(curve.quantile(0.5)), rounded_duration(curve.quantile(0.99))
    when = f"Half of {stream.name} come within {half} of their row, 99 % within {most}"
    wanted = [advice.wanted for advice in stream.advice]
    windows = [
        [rounded_duration(w), percent(e.share), f"{percent(e.low)} to {percent(e.high)}"] for w, e in stream.windows
    ]
    return {
        "recall": _figure(plots.recall(f"recall-{stream.name}", curve, window, wanted, caught(stream))),
        "advice": _advice(stream.advice, stream.assessment),
        "reasons": [f"{one.wanted * 100:.6g} %: {one.reason}." for one in stream.advice if one.reason],
        "delays": _figure(plots.delays(f"delays-{stream.name}", curve, window, f"{when}.")),
        "counted": f"{counted(curve.labels, 'label')}, each at the nearest row before it. "
        f"{counted(stream.orphans, 'label')} of this time have no row within {rounded_duration(curve.widest)}.",
        "windows": Table(["window", "labels inside", "95 % interval"], windows, texts=0),
    }


def _advice(advice: Sequence[Advice], current: Assessment | None) -> Table:
    rows = [["current settings", *_assessment_cells(current)]] if current else []
    for one in advice:
        goal = f"{one.wanted * 100:.6g} %"
        rows.append([f"{goal}, best estimate", *_assessment_cells(one.smallest)])
        rows += [[f"{goal}, sure at 95 %", *_assessment_cells(one.safe)]] if one.smallest else []
    return Table(["for a recall of", "window", "grace + out-of-orderness", "catches", "a row waits", "open rows"], rows)


def _assessment_cells(assessment: Assessment | None) -> list[str]:
    if assessment is None:
        return ["cannot be known", "", "", "", ""]
    chosen, share = assessment.settings, assessment.recall
    return [
        rounded_duration(chosen.window),
        rounded_duration(chosen.slack),
        f"{percent(share.share)} ({percent(share.low)} to {percent(share.high)})",
        rounded_duration(chosen.wait),
        f"{assessment.open_rows:,.0f}",
    ]


def _impact(scenarios: Sequence[ImpactRow]) -> dict[str, Figure | None]:
    places = lagging(scenarios)
    if not places:
        return {"lost": None, "wait": None}
    summary = " ".join(impact(scenarios))
    lost = {place: by_clock(scenarios, place, "lost") for place in places}
    wait = {place: by_clock(scenarios, place, "wait_p50_s") for place in places}
    unlabelled = all(row["recall"] is None for row in scenarios)
    return {
        "lost": None
        if unlabelled
        else _figure(plots.against_lag("lost", lost, "labels lost", lost_title(scenarios), summary)),
        "wait": _figure(
            plots.against_lag("wait", wait, "served to closed", wait_title(scenarios), summary, in_time=True)
        ),
    }


def _observed(readings: Sequence[ClockReading]) -> dict[str, Any]:
    summary = watermark(readings)
    if len(readings) < 2:
        return {"watermark": summary, "observed": None}
    rows = [
        [p.name, percent(p.held), f"{p.most_records:,}", _length(p.usual_behind), _length(p.most_behind)]
        for p in by_partition(readings)
    ]
    head = ["partition", "held the watermark", "most records waiting", "behind (median)", "behind (most)"]
    return {
        "observed": _figure(plots.observed(thinned(readings, DRAWN), summary, summary)),
        "partitions": Table(head, rows),
    }


def _disorder(disorder: Iterable[Disorder]) -> Table:
    rows = [
        [d.partition, f"{d.events:,}", percent(d.in_order), *map(_length, (d.p50, d.p99, d.p999, d.most, d.allowed))]
        for d in sorted(disorder, key=lambda d: (d.allowed - d.most, d.partition))
    ]
    return Table(["partition", "records", "in order", "50 %", "99 %", "99.9 %", "most", "out-of-orderness"], rows)


def _scenarios(scenarios: Sequence[ImpactRow]) -> Table:
    head = ["lag", "on", "clock", "window", "grace", "labels lost", "recall", "rows missing", "closed too early",
            "states flipped", "rows later", "later (most)", "still open", "open (peak)"]  # fmt: skip
    rows = [
        [_lag(row), _where(row), row["policy"].replace("_", " "), _secs(row["after_s"]), _secs(row["grace_s"]),
         f"{row['labels_lost']:,}", "-" if row["recall"] is None else percent(row["recall"]),
         *(f"{row[n]:,}" for n in ("rows_missing", "rows_closed_too_early", "states_flipped")),
         "-" if row["rows_delayed"] is None else f"{row['rows_delayed']:,}", _secs(row["delay_max_s"]),
         f"{row['rows_open']:,}", f"{row['open_rows_peak']:,}"]
        for row in scenarios
    ]  # fmt: skip
    return Table(head, rows, texts=3)


def _lag(row: ImpactRow) -> str:
    if row["lag"] == "none":
        return "none"
    pace = f", ×{row['lag_rate']}" if row["lag_rate"] else ""
    words = {"constant": "", "pause": "pause of ", "drain": "backlog of "}
    return f"{words[row['lag']]}{_secs(row['lag_s'])}{pace}"


def _where(row: ImpactRow) -> str:
    if row["side"] is None:
        return "-"
    return row["side"] if row["partitions"] == "all" else f"{row['side']}, partitions {row['partitions']}"


def _figure(plot: plots.Plot) -> Figure:
    return Figure(plot.title, Markup(plot.svg))


def _secs(seconds: float | None) -> str:
    return "-" if seconds is None else rounded_duration(timedelta(seconds=seconds))


def _length(length: timedelta | None) -> str:
    return "-" if length is None else rounded_duration(length)
