"""The lag report: one page that a person understands in a minute, and that stands alone.

    <reports>/lag_impact/<start>_<end>-<arguments>/index.html

The page loads nothing: the plots are SVG in the page, and there is no script. It shows counts, shares and durations,
never a row, a key or a value. A repeated analysis replaces its page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from html import escape
from pathlib import Path

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
from windrow.quality.lengths import long
from windrow.semantics.lag.advice import Advice, Assessment
from windrow.semantics.lag.observed import ClockReading, by_partition, thinned
from windrow.text import shown_instant

DRAWN = 1_500
"""Most landing runs in the plot of observed lag; of more, this many are evenly chosen."""


def write(findings: Findings, folder: Path) -> Path:
    """Write the page of an analysis into its folder; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    write_whole(path, page(findings))
    return path


def page(findings: Findings) -> str:
    """The whole page."""
    part = "" if findings.sample >= 1 else f" A sample of {percent(findings.sample)} of the keys."
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in findings.notes)
    short = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences(findings))
    body = (
        f'<p class="meta">{findings.rows:,} rows served from {shown_instant(findings.start)} to '
        f"{shown_instant(findings.end)}, analysed {shown_instant(findings.analysed_at)}.{part}</p>{notes}"
        f'<ul class="short">{short}</ul>'
        f"{''.join(_stream(stream) for stream in findings.streams)}"
        f"{_impact(findings.scenarios)}{_observed(findings.readings)}{_disorder(findings.disorder)}"
        f"{_scenarios(findings.scenarios)}{_METHOD}"
    )
    return html.render("skeleton.html", title=f"Lag impact of {findings.pipeline}", body=Markup(body))


def _stream(stream: StreamFindings) -> str:
    if stream.delays is None:
        return f"<h2>{escape(caught(stream))}</h2>"
    curve, window = stream.delays, stream.current.window
    wanted = [advice.wanted for advice in stream.advice]
    half, most = curve.quantile(0.5), curve.quantile(0.99)
    when = f"Half of {stream.name} come within {long(half)} of their row, 99 % within {long(most)}"
    counted = (
        f"{curve.labels:,} labels, each at the nearest row before it. "
        f"{stream.orphans:,} labels of this time have no row within {long(curve.widest)}."
    )
    return (
        _figure(plots.recall(f"recall-{stream.name}", curve, window, wanted, caught(stream)),
                "The line is the estimate, the band its 95 % interval. From 90 % to 99 % to 99.9 %, each step "
                "up misses ten times fewer labels.")
        + _advice(stream.advice, stream.assessment)
        + _figure(plots.delays(f"delays-{stream.name}", curve, window, f"{when}."), counted)
        + _windows(stream)
    )  # fmt: skip


def _advice(advice: Sequence[Advice], current: Assessment | None) -> str:
    rows = [["current settings", *_assessment_cells(current)]] if current else []
    for one in advice:
        goal = f"{one.wanted * 100:.6g} %"
        rows.append([f"{goal}, best estimate", *_assessment_cells(one.smallest)])
        rows += [[f"{goal}, sure at 95 %", *_assessment_cells(one.safe)]] if one.smallest else []
    head = ["for a recall of", "window", "grace + out-of-orderness", "catches", "a row waits", "open rows"]
    unknown = [(one.wanted, one.reason) for one in advice if one.reason]
    reasons = "".join(f"<p><small>{wanted * 100:.6g} %: {escape(reason)}.</small></p>" for wanted, reason in unknown)
    return _table(head, rows, numbers=range(1, 6)) + reasons


def _assessment_cells(assessment: Assessment | None) -> list[str]:
    if assessment is None:
        return ["cannot be known", "", "", "", ""]
    chosen, share = assessment.settings, assessment.recall
    return [
        long(chosen.window),
        long(chosen.slack),
        f"{percent(share.share)} ({percent(share.low)} to {percent(share.high)})",
        long(chosen.wait),
        f"{assessment.open_rows:,.0f}",
    ]


def _windows(stream: StreamFindings) -> str:
    if not stream.windows:
        return ""
    rows = [[long(w), percent(e.share), f"{percent(e.low)} to {percent(e.high)}"] for w, e in stream.windows]
    return _table(["window", "labels inside", "95 % interval"], rows, numbers=range(3))


def _impact(scenarios: Sequence[ImpactRow]) -> str:
    places = lagging(scenarios)
    if not places:
        return ""
    summary = " ".join(impact(scenarios))
    lost = {place: by_clock(scenarios, place, "lost") for place in places}
    wait = {place: by_clock(scenarios, place, "wait_p50_s") for place in places}
    unlabelled = all(row["recall"] is None for row in scenarios)
    first = "" if unlabelled else _figure(
        plots.against_lag("lost", lost, "labels lost", lost_title(scenarios), summary),
        "Lag is added to every record. Each line is another clock that decides when rows close; window, grace and rows "
        "are the same.",
    )  # fmt: skip
    return first + _figure(
        plots.against_lag("wait", wait, "served to closed", wait_title(scenarios), summary, in_time=True),
        "Median time from serving a row until it closes, over the rows that closed. A row that closes before it has "
        "arrived counts as 0.",
    )


def _observed(readings: Sequence[ClockReading]) -> str:
    summary = watermark(readings)
    if len(readings) < 2:
        return f"<h2>{escape(summary)}</h2>"
    rows = [
        [p.name, percent(p.held), f"{p.most_records:,}", _length(p.usual_behind), _length(p.most_behind)]
        for p in by_partition(readings)
    ]
    head = ["partition", "held the watermark", "most records waiting", "behind (median)", "behind (most)"]
    drawn = thinned(readings, DRAWN)
    return _figure(
        plots.observed(drawn, summary, summary),
        "From the clock table, at each landing run. 'Behind' is the landing host's clock minus the watermark or, for a "
        "partition, minus its newest landed event. A partition without new records falls behind too.",
    ) + _table(head, rows, numbers=range(1, 5))


def _disorder(disorder: Sequence[Disorder]) -> str:
    rows = [
        [d.partition, f"{d.events:,}", percent(d.in_order), long(d.p50), long(d.p99), long(d.p999), long(d.most),
         long(d.allowed)]
        for d in sorted(disorder, key=lambda d: (d.allowed - d.most, d.partition))
    ]  # fmt: skip
    head = ["partition", "records", "in order", "50 %", "99 %", "99.9 %", "most", "out-of-orderness"]
    return (
        f"<h2>{escape(jumps(disorder))}</h2><p>Time jumps: how far behind the newest event of its partition a record "
        f"was when it arrived. Quantiles are approximate.</p>{_table(head, rows, numbers=range(1, 8))}"
    )


def _scenarios(scenarios: Sequence[ImpactRow]) -> str:
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
    return (
        f"<details><summary>All {len(rows)} scenarios (table lag_impact)</summary>"
        f"{_table(head, rows, numbers=range(3, len(head)))}</details>"
    )


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


def _figure(plot: plots.Plot, caption: str) -> str:
    return f"<h2>{escape(plot.title)}</h2><figure>{plot.svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int]) -> str:
    right = set(numbers)

    def cells(tag: str, values: Sequence[str]) -> str:
        kind = [' class="n"' if i in right else "" for i in range(len(values))]
        return "".join(f"<{tag}{k}>{escape(v)}</{tag}>" for k, v in zip(kind, values, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{cells("th", head)}</tr>{body}</table></div>'


def _secs(seconds: float | None) -> str:
    return "-" if seconds is None else long(timedelta(seconds=seconds))


def _length(length: timedelta | None) -> str:
    return "-" if length is None else long(length)


_METHOD = """<details><summary>How the figures were computed</summary>
<p>Labels that come late are missing from young rows, so a plain histogram of delays would advise windows that are too
short. Recall is the product limit for data truncated on the right (Lagakos, Barraj and De Gruttola, Biometrika 75,
1988; Kalbfleisch and Lawless, JASA 84, 1989) with a variance of Greenwood's form, and Wilson's interval at the
effective sample size (Dorey and Korn, Statistics in Medicine 6, 1987). It assumes that delays do not depend on when a
row was served, and that labels are independent. Shares are of the labels within the widest time that can be judged.</p>
<p>A label is certainly in time if it is no further behind its partition's newest event than the sum of
out-of-orderness, grace and the rest of its window; the share of such labels is estimated in the same way. Open rows are
rate times wait, with half an interval added (Little's law).</p>
<p>Injected lag: a record arrives at its time on the broker plus the lag, and rows close by each clock. If the records
of a topic carry their producer's time, the analysis uses that time.</p></details>"""
