"""Power and false alarms of the label-rate gate, over simulated series: how often each bound is passed, in percent.

    python benchmarks/gates.py [--series 2000]

A series is a history and one interval. The rate of each interval is drawn around the pipeline's own rate (gamma, with
the spread of the row), and its positives by chance (binomial). Nothing is read but the bounds of the suite; no Spark.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import yaml

from windrow.quality.history import Earlier, label_rate_history

RATE = 0.01
EXPECTED = (5, 15, 50, 500)
"""Positives that an interval has on average."""
SPREADS = (0.0, 0.1, 0.3)
"""Standard deviation of the rate from interval to interval, as a share of it."""
CHANGES = {"no change": 1.0, "none left": 0.0, "half": 0.5, "double": 2.0, "× 20": 20.0}
SUITE = Path(__file__).parents[1] / "expectations" / "training_rows.yaml"


def bounds() -> dict[str, tuple[float, float]]:
    """Severity → least and greatest z that passes, from the suite."""
    expectations = yaml.safe_load(SUITE.read_text())["expectations"]
    ofz = [one for one in expectations if one["kwargs"].get("column") == "label_rate_z"]
    return {one["severity"]: (one["kwargs"]["min_value"], one["kwargs"]["max_value"]) for one in ofz}


def drawn(random: np.random.Generator, expected: int, spread: float, change: float) -> Earlier:
    """One interval of a series."""
    moved = random.gamma(spread**-2, spread**2) if spread else 1.0
    rows = round(expected / RATE)
    positive = int(random.binomial(rows, min(1.0, RATE * change * moved)))
    return Earlier(positive, rows - positive)


def passed(history: int, expected: int, spread: float, change: float, series: int) -> dict[str, float]:
    """Severity → percent of the series whose z is outside its bounds."""
    random = np.random.default_rng([history, expected, round(100 * spread), round(100 * change)])
    found = np.empty(series)
    for n in range(series):
        earlier = [drawn(random, expected, spread, 1.0) for _ in range(history)]
        now = drawn(random, expected, spread, change)
        z = label_rate_history(earlier, now.positive, now.negative).z
        found[n] = 0.0 if z is None else z
    return {
        severity: 100 * float(np.mean((found < low) | (found > high))) for severity, (low, high) in bounds().items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=2000, help="series per cell")
    series = parser.parse_args().series
    print(f"warned / blocked, percent of {series:,} series\n")
    print(f"| earlier intervals | positives expected | spread | {' | '.join(CHANGES)} |")
    print("| --- " * (3 + len(CHANGES)) + "|")
    for history in (3, 24):
        for expected in EXPECTED:
            for spread in SPREADS:
                cells = []
                for change in CHANGES.values():
                    share = passed(history, expected, spread, change, series)
                    cells.append(f"{share['warning']:.4g} / {share['critical']:.4g}")
                print(f"| {history} | {expected} | {spread:.0%} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
