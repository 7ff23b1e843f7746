"""Power and false alarms of the gates, over simulated series: how often each bound is passed, in percent.

    python benchmarks/gates.py [--series 2000] [labels] [volume] [quarantine]

A series is a history and one interval, which is changed.

    labels       the rate of each interval is drawn around the pipeline's own rate (gamma, with the spread of the row),
                 and its positives by chance (binomial); warned / blocked
    volume       the rows of each interval are drawn around the day's curve (gamma with the spread, then Poisson), at a
                 random time of the day; warned
    quarantine   the unreadable records of an interval are drawn by chance (binomial); warned / blocked

Nothing is read but the bounds of the suites; no Spark.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import yaml

from windrow.quality.history import Earlier, label_rate_history
from windrow.quality.tails import least_share
from windrow.quality.volume import newest_filled, recent, recent_before, same_hour_before, volume
from windrow.semantics.intervals import Interval

SUITES = Path(__file__).parents[1] / "expectations"
RATE = 0.01
EXPECTED = (5, 15, 50, 500)
"""Positives, or rows, that an interval has on average."""
SPREADS = (0.0, 0.1, 0.3)
"""Standard deviation from interval to interval, as a share of the mean."""
CHANGES = {"no change": 1.0, "none left": 0.0, "half": 0.5, "double": 2.0, "× 20": 20.0}
LENGTHS = {"10 min": timedelta(minutes=10), "1 h": timedelta(hours=1)}
SWINGS = {"flat": 0.0, "1 : 9": 0.8}
"""Rows at night to rows at noon."""
SHARES = (0.005, 0.01, 0.02, 0.05, 0.3, 0.6, 1.0)
START = datetime(2026, 11, 1, tzinfo=UTC)

Bounds = dict[str, tuple[float, float]]


def bounds(suite: str, column: str) -> Bounds:
    """Severity → least and greatest value that passes, from the suite."""
    entries = yaml.safe_load((SUITES / f"{suite}.yaml").read_text())["expectations"]
    limits = [(one["severity"], one["kwargs"]) for one in entries if one["kwargs"].get("column") == column]
    return {severity: (of.get("min_value", -np.inf), of.get("max_value", np.inf)) for severity, of in limits}


def cell(values: Iterable[float | None], limits: Bounds) -> str:
    """Percent of the values that are outside the bounds; null passes."""
    found = np.array([np.nan if value is None else value for value in values], dtype=float)
    shares = [100 * float(np.mean((found < low) | (found > high))) for low, high in by_severity(limits)]
    return " / ".join(f"{share:.4g}" for share in shares)


def by_severity(limits: Bounds) -> list[tuple[float, float]]:
    return [limits[severity] for severity in ("warning", "critical") if severity in limits]


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


# ---- labels


def drawn(random: np.random.Generator, expected: int, spread: float, change: float) -> Earlier:
    """One interval of a series."""
    moved = random.gamma(spread**-2, spread**2) if spread else 1.0
    rows = round(expected / RATE)
    positive = int(random.binomial(rows, min(1.0, RATE * change * moved)))
    return Earlier(positive, rows - positive)


def label_distances(history: int, expected: int, spread: float, change: float, series: int) -> Iterator[float | None]:
    random = np.random.default_rng([history, expected, round(100 * spread), round(100 * change)])
    for _ in range(series):
        earlier = [drawn(random, expected, spread, 1.0) for _ in range(history)]
        now = drawn(random, expected, spread, change)
        yield label_rate_history(earlier, now.positive, now.negative).z


def labels(series: int) -> Iterator[str]:
    limits = bounds("training_rows", "label_rate_z")
    yield row("earlier intervals", "positives expected", "spread", *CHANGES)
    yield row(*["---"] * (3 + len(CHANGES)))
    for history in (3, 24):
        for expected in EXPECTED:
            for spread in SPREADS:
                cells = [cell(label_distances(history, expected, spread, c, series), limits) for c in CHANGES.values()]
                yield row(history, expected, f"{spread:.0%}", *cells)


# ---- volume


def volume_distances(
    length: timedelta, days: int, expected: int, spread: float, swing: float, change: float, series: int
) -> Iterator[float | None]:
    """Distances of an interval at a random time of the last day; of the first day, with some hours of history."""
    random = np.random.default_rng([length.seconds, days, expected, round(100 * spread), round(10 * swing)])
    a_day, most = timedelta(days=1) // length, recent(length)
    for _ in range(series):
        now = (days - 1) * a_day + int(random.integers(most if days == 1 else 0, a_day))
        curve = 1 + swing * np.sin(2 * np.pi * np.arange(now + 1) / a_day)
        moved = random.gamma(spread**-2, spread**2, now + 1) if spread else 1.0
        rows = random.poisson(expected * curve * moved)
        rows[now] = random.poisson(expected * curve[now] * change * (moved if spread == 0 else moved[now]))
        interval = Interval(START + now * length, START + (now + 1) * length)

        def known(starts: Sequence[datetime], rows: np.ndarray = rows) -> list[int]:
            return [int(rows[(at - START) // length]) for at in sorted(starts) if at >= START]

        newest = newest_filled(known(recent_before(interval)), most)
        yield volume(newest, known(same_hour_before(interval)), int(rows[now])).z


def volumes(series: int) -> Iterator[str]:
    streams, partitions = bounds("landing_rows", "volume_z.*"), bounds("landing_rows", "partition_z.*")
    yield row("interval", "day", "earlier days", "rows expected", "spread", *CHANGES, "none left, partition")
    yield row(*["---"] * (6 + len(CHANGES)))
    for name, length in LENGTHS.items():
        for curve, swing in SWINGS.items():
            for days in (1, 8):
                for expected in EXPECTED[1:]:
                    for spread in SPREADS[1:]:
                        found = [
                            list(volume_distances(length, days, expected, spread, swing, change, series))
                            for change in CHANGES.values()
                        ]
                        cells = [cell(values, streams) for values in found]
                        none = cell(found[list(CHANGES).index("none left")], partitions)
                        yield row(name, curve, days - 1, expected, f"{spread:.0%}", *cells, none)


# ---- quarantine


def quarantine(series: int) -> Iterator[str]:
    limits = bounds("landing_rows", "quarantine_least.*")
    yield row("records", *[f"{share:.3g} of them" for share in SHARES])
    yield row(*["---"] * (1 + len(SHARES)))
    for records in (15, 50, 500, 5000, 50_000):
        random = np.random.default_rng(records)
        found = ((least_share(int(n), records) for n in random.binomial(records, share, series)) for share in SHARES)
        yield row(f"{records:,}", *[cell(values, limits) for values in found])


PARTS: dict[str, Callable[[int], Iterator[str]]] = {"labels": labels, "volume": volumes, "quarantine": quarantine}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=PARTS, default=list(PARTS), help="default: all")
    parser.add_argument("--series", type=int, default=2000, help="series per cell")
    asked = parser.parse_args()
    for part in asked.parts:
        print(f"\n{part}, percent of {asked.series:,} series\n")
        for line in PARTS[part](asked.series):
            print(line, flush=True)


if __name__ == "__main__":
    main()
