"""The findings of a lag analysis as sentences that a person can act on, for the page, the command and the DAG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta

from windrow.quality.lag.findings import Disorder, Findings, ImpactRow, StreamFindings
from windrow.semantics.lag.advice import Advice
from windrow.semantics.lag.observed import ClockReading, shares_held
from windrow.semantics.lag.recall import Estimate
from windrow.text import counted
from windrow.text import rounded_duration as rounded

POLICY_NAMES = {
    "slowest": "slowest partition (Windrow)",
    "fastest_side": "fastest side (Kafka Streams)",
    "newest_partition": "newest of all partitions (Spark)",
    "idle_timeout": "idle timeout (Flink)",
    "wall": "wall clock",
}
"""Clocks by the names that people know."""


def sentences(findings: Findings) -> list[str]:
    """Return all sentences, the most useful first."""
    of_streams = [
        sentence
        for stream in findings.streams
        for sentence in (" ".join([caught(stream), *costs(stream)]), *advised(stream))
    ]
    return [*of_streams, *impact(findings.scenarios), watermark(findings.readings), jumps(findings.disorder)]


def caught(stream: StreamFindings) -> str:
    """Return a sentence about the share of labels that the current window catches."""
    if stream.delays is None:
        return f"What the window of {stream.name} catches cannot be known: {stream.reason}."
    inside = stream.delays.at(stream.current.window)
    if stream.current.window >= stream.delays.widest:
        return (
            f"What the window of {rounded(stream.current.window)} catches of {stream.name} cannot be known: only "
            f"{rounded(stream.delays.widest)} after a row can be judged. Take an older range."
        )
    return (
        f"With the window of {rounded(stream.current.window)}, {percent(inside.share)} of {stream.name} are caught "
        f"({between(inside)}), of those that come within {rounded(stream.delays.widest)}."
    )


def costs(stream: StreamFindings) -> list[str]:
    """Return a sentence about what the current settings cost; no sentence where it is unknown."""
    if stream.assessment is None:
        return []
    wait, rows = rounded(stream.assessment.settings.wait), f"{stream.assessment.open_rows:,.0f}"
    return [f"For that, rows wait {wait} after they were served, and about {rows} are open at a time."]


def advised(stream: StreamFindings) -> list[str]:
    """Return a sentence for each wanted recall: the settings that reach it, and their cost."""
    return [_advised(stream, advice) for advice in stream.advice]


def _advised(stream: StreamFindings, advice: Advice) -> str:
    goal = f"{advice.wanted * 100:.6g} % of {stream.name}"
    if advice.smallest is None:
        return f"What it takes to catch {goal} cannot be known: {advice.reason}."
    best = advice.smallest.settings
    text = (
        f"To catch {goal} it takes a window of {rounded(best.window)} and {rounded(best.slack)} of grace "
        f"and out-of-orderness (now {rounded(stream.current.window)} and {rounded(stream.current.slack)}): rows then "
        f"wait {rounded(best.wait)}, and about {advice.smallest.open_rows:,.0f} are open"
    )
    if advice.safe is None:
        return f"{text}. This is the best estimate, but not a certain one: {advice.reason}."
    safe = advice.safe.settings
    if safe == best:
        return f"{text}."
    return f"{text}. To be sure of it with 95 % confidence: {rounded(safe.window)} and {rounded(safe.slack)}."


def impact(scenarios: Sequence[ImpactRow]) -> list[str]:
    """Return a sentence per place of constant lag: what its longest lag costs under each clock, Windrow's first."""
    texts = []
    for place in lagging(scenarios):
        here = [row for row in _comparable(scenarios) if _place(row) == place]
        longest = max(row["lag_s"] for row in here)
        by_policy = {row["policy"]: row for row in here if row["lag_s"] == longest}
        own = by_policy.pop("slowest", None)
        others = [by_policy[name] for name in POLICY_NAMES if name in by_policy]
        lag = f"A lag of {rounded(timedelta(seconds=longest))} on {place}"
        if own:
            lag = f"{lag} {_cost(own)} under the clock of the slowest partition, which is this pipeline's"
        texts.append(f"{lag}{_costs(others, '; it' if own else '')}.")
    return texts


def lagging(scenarios: Sequence[ImpactRow]) -> list[str]:
    """Return the places where a constant lag was injected, in words."""
    return list(dict.fromkeys(_place(row) for row in _comparable(scenarios) if row["side"]))


def by_clock(scenarios: Sequence[ImpactRow], place: str, column: str) -> dict[str, list[tuple[float, float]]]:
    """Clock → (lag in seconds, value), no lag first; without unknown values.

    Args:
        column: a column of `lag_impact`, or `lost` for the share of labels lost.
    """
    series: dict[str, list[tuple[float, float]]] = {}
    for policy, name in POLICY_NAMES.items():
        of_policy = [row for row in _comparable(scenarios) if row["policy"] == policy]
        here = [row for row in of_policy if not row["side"] or _place(row) == place]
        values = ((row["lag_s"], _share_lost(row) if column == "lost" else row[column]) for row in here)
        if known := sorted((lag, value) for lag, value in values if value is not None):
            series[name] = known
    return series


def lost_title(scenarios: Sequence[ImpactRow]) -> str:
    """Return the title of the plot of lost labels: Windrow's clock against the one that loses most."""
    known = [row for row in _comparable(scenarios) if row["recall"] is not None]
    own = [row["labels_lost"] for row in known if row["policy"] == "slowest"]
    others = [row for row in known if row["policy"] != "slowest" and row["labels_lost"]]
    worst = max(others, key=lambda row: row["labels_lost"], default=None)
    parts = []
    if own:
        lost = f"up to {counted(max(own), 'label')}" if any(own) else "no label"
        parts.append(f"the slowest partition's clock loses {lost} to lag")
    if worst:
        parts.append(f"{POLICY_NAMES[worst['policy']]} loses up to {percent(1 - worst['recall'])} of the labels")
    text = "; ".join(parts) or "no clock loses a label to lag here"
    return text[0].upper() + text[1:]


def wait_title(scenarios: Sequence[ImpactRow]) -> str:
    """Return the title of the plot of waits: what lag does to them under Windrow's clock."""
    own = sorted(
        (row["lag_s"], row["wait_p50_s"])
        for row in _comparable(scenarios)
        if row["policy"] == "slowest" and row["wait_p50_s"] is not None
    )
    if not own or own[0][0]:  # the first is without lag, where that was analysed
        return "How long rows wait"
    (_, calm), (lag, lagged) = own[0], own[-1]
    return (
        f"Under the slowest partition's clock, half of the rows close within {rounded(timedelta(seconds=calm))} of "
        f"being served; with a lag of {rounded(timedelta(seconds=lag))}, within {rounded(timedelta(seconds=lagged))}"
    )


def watermark(readings: Sequence[ClockReading]) -> str:
    """Return a sentence about how far the watermark was behind, and which partition held it."""
    behind = sorted(reading.behind for reading in readings if reading.behind is not None)
    if not behind:
        return "No landing run had a watermark in this time, so the lag that was observed cannot be known."
    runs = f"{len(readings):,} landing run{'s' * (len(readings) != 1)}"
    name, share = next(iter(shares_held(readings).items()))
    return (
        f"The watermark was {rounded(behind[len(behind) // 2])} behind the wall clock in the median and "
        f"{rounded(behind[-1])} at most, over {runs}; {name} held it "
        f"{percent(share)} of the time."
    )


def jumps(disorder: Sequence[Disorder]) -> str:
    """Return a sentence about how far out of order records arrive, against what is allowed."""
    if not disorder:
        return "No record lies in this range, so its disorder cannot be known."
    worst = max(disorder, key=lambda d: d.p999 - d.allowed)
    over = [d for d in disorder if d.most > d.allowed]
    text = (
        f"Of 1,000 records of {worst.partition}, 999 arrive at most {rounded(worst.p999)} behind the newest event of "
        f"their partition; the out-of-orderness is {rounded(worst.allowed)}"
    )
    return f"{text}, and {len(over)} of {len(disorder)} partitions exceeded theirs." if over else f"{text}."


def percent(share: float) -> str:
    """A share in percent, with two digits of its distance to the nearer end.

    100 % and 0 % stand for exact ones only, to a millionth.

    >>> percent(0.9923), percent(0.99995), percent(1.0)
    ('99.23 %', '99.9950 %', '100 %')
    """
    if share in (0.0, 1.0):
        return f"{share:.0%}".replace("%", " %")
    digits = max(1, min(6, 1 - math.floor(math.log10(min(share, 1 - share) * 100))))
    return f"{share * 100:.{digits}f} %"


def between(estimate: Estimate) -> str:
    """Return the 95 % interval in words."""
    return f"between {percent(estimate.low)} and {percent(estimate.high)} with 95 % confidence"


def _comparable(scenarios: Sequence[ImpactRow]) -> list[ImpactRow]:
    """Scenarios with a constant lag or none, and with the settings of the first one, the pipeline's own."""
    own = {name: scenarios[0][name] for name in ("after_s", "grace_s", "interval_s")} if scenarios else {}
    constant = [row for row in scenarios if row["lag"] in ("none", "constant")]
    return [row for row in constant if all(row[name] == value for name, value in own.items())]


def _place(row: ImpactRow) -> str:
    named = {"left": "the left side", "right": "the right side", "both": "both sides"}
    side = named.get(row["side"], str(row["side"]))
    return side if row["partitions"] == "all" else f"partitions {row['partitions']} of {side}"


def _share_lost(row: ImpactRow) -> float | None:
    return None if row["recall"] is None else 1 - row["recall"]


def _cost(row: ImpactRow) -> str:
    """The predicate of a sentence whose subject is the lag."""
    if row["recall"] is None:
        return "finds no label that it could lose"
    if row["labels_lost"] or row["rows_missing"]:
        rows = f" and {row['rows_missing']:,} of {counted(row['rows'], 'row')}" if row["rows_missing"] else ""
        return f"loses {percent(1 - row['recall'])} of the labels{rows}"
    if row["delay_max_s"]:
        return f"loses no label and makes rows up to {rounded(timedelta(seconds=row['delay_max_s']))} later"
    return "loses no label and makes no row later"


def _costs(others: Sequence[ImpactRow], subject: str) -> str:
    """What a lag would lose under the other clocks."""
    harmed = [row for row in others if row["labels_lost"] or row["rows_missing"]]
    unharmed = [POLICY_NAMES[row["policy"]] for row in others if row not in harmed]
    parts = [f"{percent(1 - (row['recall'] or 0.0))} under {POLICY_NAMES[row['policy']]}" for row in harmed]
    parts += [f"none under {' and '.join(unharmed)}"] if unharmed else []
    return f"{subject} would lose {', '.join(parts)}" if parts else ""
