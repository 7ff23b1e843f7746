"""What a lag analysis found, as values and as sentences that a person can act on. The page and the command say them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from windrow.quality.lengths import long
from windrow.semantics.lag.advice import Advice, Settings, Valued
from windrow.semantics.lag.observed import Sighting, shares_held
from windrow.semantics.lag.recall import Curve, Estimate

NAMES = {
    "slowest": "slowest partition (Windrow)",
    "fastest_side": "fastest side (Kafka Streams)",
    "newest_partition": "newest of all partitions (Spark)",
    "idle_timeout": "idle timeout (Flink)",
    "wall": "wall clock",
}
"""Clocks as people know them."""

Line = Mapping[str, Any]


@dataclass(frozen=True)
class StreamFindings:
    """What the range says about one label stream. A curve is None where it cannot be known; `why` says so."""

    name: str
    current: Settings
    delays: Curve | None
    disorder: Curve | None
    now: Valued | None
    """What the current settings catch and cost."""
    advice: tuple[Advice, ...] = ()
    windows: tuple[tuple[timedelta, Estimate], ...] = ()
    """Windows that were asked about, and the share of labels inside each."""
    orphans: int = 0
    """Labels of the range that no row could carry, however wide the window."""
    unripe: int = 0
    why: str = ""


@dataclass(frozen=True)
class Disorder:
    """How far behind the newest event of its partition the records of one partition arrived. Approximate quantiles."""

    partition: str
    events: int
    in_order: float
    p50: timedelta
    p99: timedelta
    p999: timedelta
    most: timedelta
    allowed: timedelta
    """The topic's out-of-orderness."""


@dataclass(frozen=True)
class Findings:
    """An analysis, whole. `notes`: what could not be known, and what to keep in mind."""

    pipeline: str
    start: datetime
    end: datetime
    analysed_at: datetime
    sample: float
    rows: int
    streams: tuple[StreamFindings, ...]
    lines: tuple[Line, ...]
    sightings: tuple[Sighting, ...]
    disorder: tuple[Disorder, ...]
    notes: tuple[str, ...] = ()


def sentences(found: Findings) -> list[str]:
    """The findings, the most useful first."""
    said = [sentence for stream in found.streams for sentence in (_first(stream), *advised(stream))]
    return [*said, *impact(found.lines), watermark(found.sightings), jumps(found.disorder)]


def _first(stream: StreamFindings) -> str:
    return " ".join([caught(stream), *costs(stream)])


def caught(stream: StreamFindings) -> str:
    """What the current window catches."""
    if stream.delays is None:
        return f"What the window of {stream.name} catches cannot be known: {stream.why}."
    inside = stream.delays.at(stream.current.window)
    if stream.current.window >= stream.delays.widest:
        return (
            f"What the window of {long(stream.current.window)} catches of {stream.name} cannot be known: only "
            f"{long(stream.delays.widest)} after a row can be judged; take an older range."
        )
    return (
        f"With the window of {long(stream.current.window)}, {percent(inside.share)} of {stream.name} are caught "
        f"({between(inside)}), of those that come within {long(stream.delays.widest)}."
    )


def costs(stream: StreamFindings) -> list[str]:
    """What the current settings cost."""
    if stream.now is None:
        return []
    wait, rows = long(stream.now.settings.wait), f"{stream.now.open_rows:,.0f}"
    return [f"For that, rows wait {wait} after they were served, and about {rows} are open at a time."]


def advised(stream: StreamFindings) -> list[str]:
    """What each wanted recall takes."""
    return [_advised(stream, advice) for advice in stream.advice]


def _advised(stream: StreamFindings, advice: Advice) -> str:
    goal = f"{advice.wanted * 100:.6g} % of {stream.name}"
    if advice.smallest is None:
        return f"What it takes to catch {goal} cannot be known: {advice.why}."
    best = advice.smallest
    said = (
        f"To catch {goal} it takes a window of {long(best.settings.window)} and {long(best.settings.slack)} of grace "
        f"and out-of-orderness (now {long(stream.current.window)} and {long(stream.current.slack)}): rows then wait "
        f"{long(best.settings.wait)}, and about {best.open_rows:,.0f} are open"
    )
    if advice.safe is None:
        return f"{said}. That is the best estimate, and no more: {advice.why}."
    if advice.safe.settings == best.settings:
        return f"{said}."
    safe = advice.safe.settings
    return f"{said}. To be sure of it with 95 % confidence: {long(safe.window)} and {long(safe.slack)}."


def impact(lines: Sequence[Line]) -> list[str]:
    """What the longest injected lag at each place costs under each clock, our own first."""
    said = []
    for place in lagging(lines):
        here = [line for line in _plain(lines) if _place(line) == place]
        longest = max(line["lag_s"] for line in here)
        worst = {line["policy"]: line for line in here if line["lag_s"] == longest}
        ours, others = worst.pop("slowest", None), [worst[name] for name in NAMES if name in worst]
        lag = f"A lag of {long(timedelta(seconds=longest))} on {place}"
        if ours:
            lag = f"{lag} {_cost(ours)} under the clock of the slowest partition, which is this pipeline's"
        said.append(f"{lag}{_costs(others, '; it' if ours else '')}.")
    return said


def lagging(lines: Sequence[Line]) -> list[str]:
    """Where a constant lag was injected, in words."""
    return list(dict.fromkeys(_place(line) for line in _plain(lines) if line["side"]))


def by_clock(lines: Sequence[Line], place: str, name: str) -> dict[str, list[tuple[float, float]]]:
    """Clock → (lag in seconds, value of a column or the share of labels `lost`), no lag first; known values only."""
    series: dict[str, list[tuple[float, float]]] = {}
    for policy in NAMES:
        here = [x for x in _plain(lines) if x["policy"] == policy and (not x["side"] or _place(x) == place)]
        values = ((line["lag_s"], _lost(line) if name == "lost" else line[name]) for line in here)
        if known := sorted((lag, value) for lag, value in values if value is not None):
            series[NAMES[policy]] = known
    return series


def lost_title(lines: Sequence[Line]) -> str:
    """What lag does to labels, our clock against the worst."""
    base = [line for line in _plain(lines) if line["recall"] is not None]
    ours = [line["labels_lost"] for line in base if line["policy"] == "slowest"]
    others = [line for line in base if line["policy"] != "slowest" and line["labels_lost"]]
    worst = max(others, key=lambda line: line["labels_lost"], default=None)
    said = []
    if ours:
        lost = f"up to {max(ours):,} labels" if any(ours) else "no label"
        said.append(f"the slowest partition's clock loses {lost} to lag")
    if worst:
        said.append(f"{NAMES[worst['policy']]} loses up to {percent(1 - worst['recall'])} of the labels")
    text = "; ".join(said) or "no clock loses a label to lag here"
    return text[0].upper() + text[1:]


def wait_title(lines: Sequence[Line]) -> str:
    """What lag does to the wait under our clock."""
    ours = sorted(
        (line["lag_s"], line["wait_p50_s"])
        for line in _plain(lines)
        if line["policy"] == "slowest" and line["wait_p50_s"] is not None
    )
    if not ours or ours[0][0]:
        return "How long rows wait"
    (_, calm), (lag, late) = ours[0], ours[-1]
    return (
        f"Under the slowest partition's clock half of the rows close within {long(timedelta(seconds=calm))} of being "
        f"served, with a lag of {long(timedelta(seconds=lag))} within {long(timedelta(seconds=late))}"
    )


def _lost(line: Line) -> float | None:
    return None if line["recall"] is None else 1 - line["recall"]


def _plain(lines: Sequence[Line]) -> list[Line]:
    """Scenarios of constant lag, and none, with the settings that the analysis began with."""
    same = {name: lines[0][name] for name in ("after_s", "grace_s", "interval_s")} if lines else {}
    steady = [line for line in lines if line["lag"] in ("none", "constant")]
    return [line for line in steady if all(line[name] == value for name, value in same.items())]


def _place(line: Line) -> str:
    named = {"left": "the left side", "right": "the right side", "both": "both sides"}
    side = named.get(line["side"], str(line["side"]))
    return side if line["partitions"] == "all" else f"partitions {line['partitions']} of {side}"


def _cost(line: Line) -> str:
    """What a lag does, for a sentence that begins with the lag."""
    if line["recall"] is None:
        return "finds no label that it could lose"
    if line["labels_lost"] or line["rows_missing"]:
        rows = f" and {line['rows_missing']:,} of {line['rows']:,} rows" if line["rows_missing"] else ""
        return f"loses {percent(1 - line['recall'])} of the labels{rows}"
    if line["delay_max_s"]:
        return f"loses no label and makes rows up to {long(timedelta(seconds=line['delay_max_s']))} later"
    return "loses no label and makes no row later"


def _costs(lines: Sequence[Line], it: str) -> str:
    harmed = [line for line in lines if line["labels_lost"] or line["rows_missing"]]
    spared = [NAMES[line["policy"]] for line in lines if line not in harmed]
    told = [f"{percent(1 - (line['recall'] or 0.0))} under {NAMES[line['policy']]}" for line in harmed]
    told += [f"none under {' and '.join(spared)}"] if spared else []
    return f"{it} would lose {', '.join(told)}" if told else ""


def watermark(sightings: Sequence[Sighting]) -> str:
    """How far the watermark was behind, and who held it."""
    behind = sorted(s.behind for s in sightings if s.behind is not None)
    if not behind:
        return "No landing run saw a watermark in this time, so the lag that there was cannot be known."
    runs = f"{len(sightings):,} landing run{'s' * (len(sightings) != 1)}"
    name, share = next(iter(shares_held(sightings).items()))
    return (
        f"The watermark was {long(behind[len(behind) // 2])} behind the wall clock in the median and "
        f"{long(behind[-1])} at most, over {runs}; {name} held it "
        f"{percent(share)} of the time."
    )


def jumps(disorder: Sequence[Disorder]) -> str:
    """How orderly records arrive, against what they are allowed."""
    if not disorder:
        return "No record lies in this range, so its disorder cannot be known."
    worst = max(disorder, key=lambda d: d.p999 - d.allowed)
    over = [d for d in disorder if d.most > d.allowed]
    said = (
        f"Of 1,000 records of {worst.partition} 999 arrive at most {long(worst.p999)} behind the newest event of "
        f"their partition; the out-of-orderness is {long(worst.allowed)}"
    )
    return f"{said}, and {len(over)} of {len(disorder)} partitions went beyond theirs." if over else f"{said}."


def percent(share: float) -> str:
    """`99.23 %`: two digits of what is missing from the nearer end; 100 % only where it is (to a millionth)."""
    if share in (0.0, 1.0):
        return f"{share:.0%}".replace("%", " %")
    digits = max(1, min(6, 1 - math.floor(math.log10(min(share, 1 - share) * 100))))
    return f"{share * 100:.{digits}f} %"


def between(found: Estimate) -> str:
    """The 95 % interval in words."""
    return f"between {percent(found.low)} and {percent(found.high)} with 95 % confidence"
