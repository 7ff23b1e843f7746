"""Tables of what a pipeline needs at a rate, computed from the unit costs of `benchmarks/units.py`.

    .venv/bin/python benchmarks/scale.py       prints the tables, in Markdown, from results/units.json, units_daily.json

    once    the cost of a landing or of an interval, however few rows it has        row     the cost of a row
    cores   (once / seconds between two + row x rows per second) / BUSY             BUSY    how much of a core is used

It is arithmetic, not a measurement: no machine here carries more than some ten thousand rows a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from common.side_by_side import RESULTS

RATES = (10_000, 100_000, 1_000_000)
INTERVALS = {"10 minutes": 600, "an hour": 3600}
LAND_EVERY = 600
BUSY = 0.7
DAY = 86_400
DAILY = ("reconcile", "lag", "maintain")
"""Steps of which a pipeline does each once a day, for all rows of a day."""
CREATED = {"land": 3, "train": 10}
"""Of a step's commits those that only a new pipeline makes: one for each new table, and one for the pipeline file."""

Units = Mapping[str, Mapping[str, float]]


def needs(units: Units, rate: int, interval: int, more: int, shuffled: float) -> dict[str, float]:
    """What a pipeline needs at a rate of served rows per second.

    Args:
        interval: seconds.
        more: by how many rows a big hour is larger than a small one; their requests are known, and not those of a row.
        shuffled: bytes for each row of an interval whose labels are too many to be broadcast.
    """
    land, train = units["land"], units["train"]

    def each(name: str) -> float:
        """Per second: the share of a landing, of an interval, and of the rows."""
        once = land[f"{name} once"] / LAND_EVERY + train[f"{name} once"] / interval
        return once + rate * (land[f"{name} row"] + train[f"{name} row"])

    def commits(step: str) -> float:
        """Of a landing or an interval that finds its tables."""
        return units[step]["commits once"] - CREATED[step]

    def requests(step: Mapping[str, float], seconds: int) -> float:
        """Per second, of all kinds."""
        small, big = (sum(step[name] for name in step if name.endswith(f"requests {of}")) for of in ("once", "big"))
        return small / seconds + rate * (big - small) / more

    asked = requests(land, LAND_EVERY) + requests(train, interval)
    return {
        "cores": each("cpu") / BUSY,
        "of them landing": (land["cpu once"] / LAND_EVERY + rate * land["cpu row"]) / BUSY,
        "read, MB/s": each("read") / 1e6,
        "shuffled by an interval, GB": shuffled * rate * interval / 1e9,
        "written, MB/s": each("bytes") / 1e6,
        "written, GB a day": each("bytes") * DAY / 1e9,
        **({"requests to the store a day": DAY * asked, "requests to the store a second": asked} if asked else {}),
        "data files a day": DAY * each("files"),
        "commits a day": DAY * (commits("land") / LAND_EVERY + commits("train") / interval),
        "Airflow runs a day": DAY / LAND_EVERY + DAY / interval,
        "rows of an interval, millions": rate * interval / 1e6,
    }


def daily_needs(units: Units, rate: int) -> dict[str, float]:
    """What the daily work of a pipeline needs at a rate of served rows per second, spread over the day."""

    def each(name: str, steps: Sequence[str] = DAILY) -> float:
        """Per second."""
        return sum(units[step][f"{name} once"] / DAY + rate * units[step][f"{name} row"] for step in steps)

    return {
        **{f"cores, {step}": each("cpu", [step]) / BUSY for step in DAILY},
        "read, MB/s": each("read") / 1e6,
        "written, GB a day": each("bytes") * DAY / 1e9,
    }


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table in Markdown."""
    yield f"| {' | '.join(heads)} |"
    yield f"| {' | '.join('---' for _ in heads)} |"
    yield from (f"| {' | '.join(line)} |" for line in lines)


def number(value: float) -> str:
    """A figure with two digits that count.

    >>> number(0.0123), number(12.3), number(1234567.0), number(0.000008)
    ('0.012', '12', '1,200,000', '0')
    """
    if value < 0.001:
        return "0"
    shown = float(f"{value:.2g}")
    return f"{shown:,.0f}" if abs(shown) >= 10 else f"{shown:g}"


def unit_tables(found: Mapping[str, Units], steps: Sequence[str]) -> Iterator[str]:
    """Yield a table of unit costs for each step, one column per variant."""
    rows = [
        ("CPU-seconds, once", "cpu once", 1.0),
        ("CPU-µs a row", "cpu row", 1e6),
        ("seconds, once", "wall once", 1.0),
        ("bytes read by all processes, a row", "read row", 1.0),
        ("bytes shuffled, a row", "shuffled row", 1.0),
        ("bytes written, a row", "bytes row", 1.0),
        ("commits", "commits once", 1.0),
        ("data files, once", "files once", 1.0),
    ]
    kinds = sorted({name for units in found.values() for step in steps for name in units[step] if "requests" in name})
    rows += [
        (name.replace(" requests once", " requests, once").replace(" requests big", " requests, big hour"), name, 1.0)
        for name in kinds
    ]
    for step in steps:
        lines = [
            [label, *(number(units[step][name] * factor) if name in units[step] else "" for units in found.values())]
            for label, name, factor in rows
        ]
        yield from ["", *table([step, *found], [line for line in lines if any(line[1:])])]


def read(name: str) -> tuple[Mapping[str, Units], Mapping[str, int]]:
    """Say of when measured costs are; return them by variant, and what was measured."""
    result = json.loads((RESULTS / f"{name}.json").read_text())
    print(f"{name}: measured at {result['commit']}, {result['about']}, {result['rounds']} rounds.")
    return result["units"], result["about"]


def main() -> None:
    found, about = read("units")
    more = about["big"] - about["small"]
    print("\n".join(unit_tables(found, ("land", "train"))))
    shuffled = found["shuffled-2"]["train"]["shuffled row"]
    for variant in found:
        columns = [(rate, name, seconds) for rate in RATES for name, seconds in INTERVALS.items()]
        each = [needs(found[variant], rate, seconds, more, shuffled) for rate, _, seconds in columns]
        print(f"\n{variant}, landing every {LAND_EVERY // 60} minutes, {BUSY:.0%} of a core used\n")
        print_needs([f"{rate:,}, {name}" for rate, name, _ in columns], each)
    print()
    daily, _ = read("units_daily")
    print("\n".join(unit_tables(daily, DAILY)))
    for variant, units in daily.items():
        print(f"\n{variant}, daily work\n")
        print_needs([f"{rate:,}" for rate in RATES], [daily_needs(units, rate) for rate in RATES])


def print_needs(heads: Sequence[str], each: Sequence[Mapping[str, float]]) -> None:
    """Print a table of needs, a column for each rate."""
    lines = [[name, *(number(one[name]) for one in each)] for name in each[0]]
    print("\n".join(table(["served rows per second", *heads], lines)))


if __name__ == "__main__":
    main()
