"""The lag report: one page that a person understands in a minute, and that stands alone.

    <reports>/lag_impact/<start>_<end>-<arguments>/index.html

Nothing is fetched: the plots are SVG in the page, there is no script. It shows counts, shares and lengths of time,
never a row, a key or a value. Written again: replaced.
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
from windrow.quality.lag.findings import (
    Disorder,
    Findings,
    Line,
    StreamFindings,
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
from windrow.semantics.lag.advice import Advice, Valued
from windrow.semantics.lag.observed import Sighting, by_partition, thinned
from windrow.text import shown_instant

DRAWN = 1_500
"""Landing runs that the plot of observed lag shows; of more, as many, evenly taken."""


def write(found: Findings, folder: Path) -> Path:
    """Write the page of an analysis into its folder; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    write_whole(path, page(found))
    return path


def page(found: Findings) -> str:
    """The whole page."""
    part = "" if found.sample >= 1 else f" A sample of {percent(found.sample)} of the keys."
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in found.notes)
    short = "".join(f"<li>{escape(said)}</li>" for said in sentences(found))
    body = (
        f'<p class="meta">{found.rows:,} rows served from {shown_instant(found.start)} to {shown_instant(found.end)}, '
        f"analysed {shown_instant(found.analysed_at)}.{part}</p>{notes}"
        f'<ul class="short">{short}</ul>'
        f"{''.join(_stream(stream) for stream in found.streams)}"
        f"{_impact(found.lines)}{_observed(found.sightings)}{_disorder(found.disorder)}"
        f"{_scenarios(found.lines)}{_METHOD}"
    )
    return html.render("skeleton.html", title=f"Lag impact of {found.pipeline}", body=Markup(body))


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
                "The line is the estimate, the band its 95 % interval. Upwards, 90 %, 99 %, 99.9 %: each step misses "
                "ten times fewer labels.")
        + _advice(stream.advice, stream.now)
        + _figure(plots.delays(f"delays-{stream.name}", curve, window, f"{when}."), counted)
        + _windows(stream)
    )  # fmt: skip


def _advice(advice: Sequence[Advice], now: Valued | None) -> str:
    rows = [["what is set now", *_valued(now)]] if now else []
    for one in advice:
        goal = f"{one.wanted * 100:.6g} %"
        rows.append([f"{goal}, best estimate", *_valued(one.smallest)])
        rows += [[f"{goal}, sure at 95 %", *_valued(one.safe)]] if one.smallest else []
    head = ["for a recall of", "window", "grace + out-of-orderness", "catches", "a row waits", "open rows"]
    whys = "".join(f"<p><small>{one.wanted * 100:.6g} %: {escape(one.why)}.</small></p>" for one in advice if one.why)
    return _table(head, rows, numbers=range(1, 6)) + whys


def _valued(valued: Valued | None) -> list[str]:
    if valued is None:
        return ["cannot be known", "", "", "", ""]
    chosen, share = valued.settings, valued.recall
    return [
        long(chosen.window),
        long(chosen.slack),
        f"{percent(share.share)} ({percent(share.low)} to {percent(share.high)})",
        long(chosen.wait),
        f"{valued.open_rows:,.0f}",
    ]


def _windows(stream: StreamFindings) -> str:
    if not stream.windows:
        return ""
    rows = [[long(w), percent(e.share), f"{percent(e.low)} to {percent(e.high)}"] for w, e in stream.windows]
    return _table(["window", "labels inside", "95 % interval"], rows, numbers=range(3))


def _impact(lines: Sequence[Line]) -> str:
    places = lagging(lines)
    if not places:
        return ""
    said = " ".join(impact(lines))
    lost = {place: by_clock(lines, place, "lost") for place in places}
    wait = {place: by_clock(lines, place, "wait_p50_s") for place in places}
    unlabelled = all(line["recall"] is None for line in lines)
    first = "" if unlabelled else _figure(
        plots.against_lag("lost", lost, "labels lost", lost_title(lines), said),
        "Lag is added to every record. Each line is another clock that decides when rows close; window, grace and rows "
        "are the same.",
    )  # fmt: skip
    return first + _figure(
        plots.against_lag("wait", wait, "served to closed", wait_title(lines), said, in_time=True),
        "Median time from serving a row until it closes, of the rows that closed. A clock that closes a row before "
        "the row itself has arrived counts as 0.",
    )


def _observed(sightings: Sequence[Sighting]) -> str:
    said = watermark(sightings)
    if len(sightings) < 2:
        return f"<h2>{escape(said)}</h2>"
    rows = [
        [p.name, percent(p.held), f"{p.most_records:,}", _length(p.usual_behind), _length(p.most_behind)]
        for p in by_partition(sightings)
    ]
    head = ["partition", "held the watermark", "most records waiting", "behind (median)", "behind (most)"]
    drawn = thinned(sightings, DRAWN)
    return _figure(
        plots.observed(drawn, said, said),
        "From the clock table, at each landing run. Behind is the landing host's clock less the watermark, and less "
        "the newest landed event of a partition: one that has nothing new falls behind too, without records waiting.",
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


def _scenarios(lines: Sequence[Line]) -> str:
    head = ["lag", "on", "clock", "window", "grace", "labels lost", "recall", "rows missing", "closed too early",
            "states flipped", "rows later", "later (most)", "still open", "open (peak)"]  # fmt: skip
    rows = [
        [_lag(line), _where(line), line["policy"].replace("_", " "), _secs(line["after_s"]), _secs(line["grace_s"]),
         f"{line['labels_lost']:,}", "-" if line["recall"] is None else percent(line["recall"]),
         *(f"{line[n]:,}" for n in ("rows_missing", "rows_closed_too_early", "states_flipped")),
         "-" if line["rows_delayed"] is None else f"{line['rows_delayed']:,}", _secs(line["delay_max_s"]),
         f"{line['rows_open']:,}", f"{line['open_rows_peak']:,}"]
        for line in lines
    ]  # fmt: skip
    return (
        f"<details><summary>All {len(rows)} scenarios (table lag_impact)</summary>"
        f"{_table(head, rows, numbers=range(3, len(head)))}</details>"
    )


def _lag(line: Line) -> str:
    if line["lag"] == "none":
        return "none"
    pace = f", ×{line['lag_rate']}" if line["lag_rate"] else ""
    words = {"constant": "", "pause": "pause of ", "drain": "backlog of "}
    return f"{words[line['lag']]}{_secs(line['lag_s'])}{pace}"


def _where(line: Line) -> str:
    if line["side"] is None:
        return "-"
    return line["side"] if line["partitions"] == "all" else f"{line['side']}, partitions {line['partitions']}"


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


_METHOD = """<details><summary>How this was worked out</summary>
<p>Labels that come late are missing from young rows, so a plain histogram of delays would advise windows that are too
short. Recall is the product limit for data truncated on the right (Lagakos, Barraj and De Gruttola, Biometrika 75,
1988; Kalbfleisch and Lawless, JASA 84, 1989) with a variance of Greenwood's form, and Wilson's interval at the
effective sample size (Dorey and Korn, Statistics in Medicine 6, 1987). It assumes that delays do not depend on when a
row was served, and that labels are independent. Shares are of the labels within the widest time that can be judged.</p>
<p>A label is in time at least where it is no further behind its partition's newest event than out-of-orderness, grace
and what is left of its window; the same estimate is used for that. Open rows are rate times wait, with half an interval
added (Little's law).</p>
<p>Injected lag: a record arrives at its time on the broker plus the lag; rows close as each clock says. Where a topic's
records carry their producer's time, that time is what the analysis starts from.</p></details>"""
