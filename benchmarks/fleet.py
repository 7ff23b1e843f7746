"""The page of all pipelines: milliseconds of a request, for a day and for a year of ten-minute intervals.

    .venv/bin/python benchmarks/fleet.py                          50 pipelines; their tables are made by the first run
    .venv/bin/python benchmarks/fleet.py --pipelines 10 --rounds 3

Aim: under 300 ms where a request comes upon what is usual, and all as fast with a year behind as with a day.

    first       a process that has read nothing yet
    again       nothing is new in any table
    usual       one pipeline in 25 has landed since the last look, as in the 20 s between two of them
    landed      every pipeline has landed since the last request
    published   every pipeline has landed and published since the last request
    one         the page of one pipeline

The tables are the register, measures, judgements and clock of one landing and one publication per interval, with as
many rows as a pipeline of one label stream writes: all older rows in one file, as compaction leaves them, the newest
in a commit each. Time is that of a thread that answers a request: tables read, page written. Airflow's own part (who
asks, which DAGs are paused, one query each) is not in it.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from common.pipelines import pipeline_text
from common.side_by_side import commit, keep, machine

from windrow.config import find
from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.registers import clocks, measures, publications, recent
from windrow.jobs.upkeep import health
from windrow.places import Places
from windrow.schemas import CLOCK, MEASURES, PUBLICATIONS, QUALITY
from windrow.semantics.intervals import grid_around
from windrow.text import short_instant_text
from windrow_airflow.pages import fleet, overview

TEN = timedelta(minutes=10)
DAYS = {"a day": 1, "a year": 365}
SINGLE = 40
"""Newest commits of each table that are not compacted yet."""
MEASURED, JUDGED = 12, 20
"""Rows of one plan in the tables of measures and judgements."""
PARTITIONS = 4
TOPICS = ("served", "clicks")


@dataclass(frozen=True)
class Past:
    """Intervals since a start; the rows that each leaves in the four tables."""

    start: datetime
    intervals: int

    def rows(self, table: Table, n: int) -> Iterator[dict[str, Any]]:
        """Rows of the interval with number `n`."""
        return {
            Table.PUBLICATIONS: self._publication,
            Table.MEASURES: self._measures,
            Table.QUALITY: self._judgements,
            Table.CLOCK: self._clock,
        }[table](n)

    def _publication(self, n: int) -> Iterator[dict[str, Any]]:
        start = self.start + n * TEN
        counts = {"rows": 200, "positive": 25 + n % 7, "negative": 140, "unknown": 35 - n % 7, "left_duplicate": 0}
        yield {
            "number": n + 1,
            "interval": start,
            "interval_end": start + TEN,
            "plan": "{" + "x" * 800 + "}",
            "plan_id": _plan(n),
            "run": f"scheduled__{n}",
            "balance": "{" + "x" * 300 + "}",
            "verdict": "passed",
            "published_at": start + 2 * TEN,
            "kind": "train",
            "training_version": n + 1,
            **counts,
        }

    def _measures(self, n: int) -> Iterator[dict[str, Any]]:
        names = ["positive_complete", *(f"unknown.reason_{k}" for k in range(3))]
        names += [f"measure_{k}" for k in range(MEASURED - len(names))]
        for name in names:
            yield {"plan": _plan(n), "interval": self.start + n * TEN, "name": name, "value": 20.0}

    def _judgements(self, n: int) -> Iterator[dict[str, Any]]:
        at = self.start + n * TEN
        for metric in ["label_rate_z", *(f"metric_{k}" for k in range(JUDGED - 1))]:
            verdict = {"verdict": "passed", "severity": "critical", "value": 0.1, "bound": "between -3 and 3"}
            yield {"plan": _plan(n), "interval": at, "judged_at": at + 2 * TEN, "metric": metric, **verdict}

    def _clock(self, n: int) -> Iterator[dict[str, Any]]:
        landed = self.start + (n + 1) * TEN + timedelta(minutes=8)
        counts = dict.fromkeys(("read", "landed", "quarantined", "skipped", "unexplained", "before_start"), 0)
        for topic in TOPICS:
            for partition in range(PARTITIONS):
                place = {"topic": topic, "topic_id": topic, "epoch": 0, "partition": partition, "batch": n + 1}
                newest = {"newest_at": landed, "clock_at": landed - timedelta(minutes=1), "landed_at": landed}
                offsets = {"next_offset": n * 50, "end_offset": n * 50, "idle": False}
                yield {"observation": n + 1, **place, **newest, **offsets, **counts}


WRITTEN = {
    Table.PUBLICATIONS: (PUBLICATIONS, publications.APP_ID),
    Table.MEASURES: (MEASURES, measures.APP_ID),
    Table.QUALITY: (QUALITY, "windrow.quality"),
    Table.CLOCK: (CLOCK, clocks.APP_ID),
}


def _plan(n: int) -> str:
    return f"{n:032x}"


def write(home: Home, past: Past, numbers: range, kinds: Mapping[Table, Any] = WRITTEN) -> None:
    """Write the rows of these intervals, one commit for each table."""
    for kind, (schema, app_id) in kinds.items():
        rows = [row for n in numbers for row in past.rows(kind, n)]
        tables.append_once(home.table(kind), schema, rows, app_id=app_id, version=numbers[-1] + 1, merge_files=False)


def made(base: Path, pipelines: int, days: int, now: datetime) -> tuple[Places, Past, list[str]]:
    """Fleet of pipelines with the same past: one is written, the others are copies."""
    past = Past(grid_around(now - timedelta(days=days), TEN)[0], days * 144 - 3)
    names = [f"feed_{n:02}" for n in range(pipelines)]
    shutil.rmtree(base, ignore_errors=True)
    folder = base / "pipelines"
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"{name}.yaml").write_text(pipeline_text(name, short_instant_text(past.start), "10m", "5m"))
    places = Places(home=base / "home", cache=base, pipelines=(folder,))
    homes = [Home(find(name, places.pipelines), places) for name in names]
    old = max(past.intervals - SINGLE, 1)
    for half in (range(old // 2), range(old // 2, old)):
        if half:
            write(homes[0], past, half)
    for kind in WRITTEN:
        path = homes[0].table(kind)
        if (table := tables.opened(path)) is not None:
            tables.merge(path, table)
    for n in range(old, past.intervals):
        write(homes[0], past, range(n, n + 1))
    first = Path(homes[0].table(Table.CLOCK)).parent
    for home in homes[1:]:
        shutil.copytree(first, Path(home.table(Table.CLOCK)).parent)
    return places, past, names


def measured(places: Places, past: Past, names: list[str], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each kind of request, one per round."""
    took: dict[str, list[float]] = {}
    homes = [Home(find(name, places.pipelines), places) for name in names]
    only_clock = {Table.CLOCK: WRITTEN[Table.CLOCK]}
    others = {kind: written for kind, written in WRITTEN.items() if kind != Table.CLOCK}

    def request(kind: str, known: recent.Recent) -> None:
        def answer() -> str:
            now = datetime.now(UTC)
            found = health.worst_first(health.look(names, places, now, known=known))
            require(not any(one.seen.broken for one in found), f"{found[0].reason}")
            return fleet.page(found, fleet.Filter(), now)

        took.setdefault(kind, []).append(timed(answer))

    for number in range(rounds):
        n, known = past.intervals + number, recent.Recent()
        request("first", known)
        request("again", known)
        few = homes[:: len(homes) // -(-len(homes) // 25)]
        for home in few:
            write(home, past, range(n, n + 1), only_clock)
        request("usual", known)
        for home in homes:
            if home not in few:
                write(home, past, range(n, n + 1), only_clock)
        request("landed", known)
        for home in homes:
            write(home, past, range(n, n + 1), others)
        request("published", known)
        timed(lambda: overview.pipeline_page(names[0], places))  # the page of all comes before it
        took.setdefault("one", []).append(timed(lambda: overview.pipeline_page(names[0], places)))
    return took


def timed(answer: Callable[[], str]) -> float:
    """Milliseconds until a page is there."""
    began = time.perf_counter()
    page = answer()
    spent = time.perf_counter() - began
    require("</html>" in page and names_in(page), "there is no page")
    return spent * 1000


def names_in(page: str) -> bool:
    """Whether the page shows a pipeline of the fleet."""
    return "feed_00" in page


def require(condition: bool, what: str) -> None:
    """Stop where a measurement would be one of something else."""
    if not condition:
        raise SystemExit(what)


def table(took: Mapping[str, Mapping[str, list[float]]]) -> str:
    """Markdown: a line per kind of request, milliseconds as `median (least to most)`, and the ratio of medians."""
    pasts = list(took)
    lines = [f"| request | {' | '.join(f'{past}, ms' for past in pasts)} | ratio |", "| --- " * (len(pasts) + 2) + "|"]
    for kind in took[pasts[0]]:
        each = [took[past][kind] for past in pasts]
        cells = [f"{statistics.median(ms):.0f} ({min(ms):.0f} to {max(ms):.0f})" for ms in each]
        ratio = statistics.median(each[-1]) / statistics.median(each[0])
        lines.append(f"| {kind} | {' | '.join(cells)} | {ratio:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=50, help="(default 50)")
    parser.add_argument("--rounds", type=int, default=5, help="requests of each kind (default 5)")
    parser.add_argument("--home", default=".windrow/benchmarks", help="folder for the tables")
    options = parser.parse_args()
    took = {}
    for past, days in DAYS.items():
        base = Path(options.home).resolve() / f"fleet_{days}"
        print(f"fleet: making {options.pipelines} pipelines with {past} …", flush=True)
        places, behind, names = made(base, options.pipelines, days, datetime.now(UTC))
        took[past] = measured(places, behind, names, options.rounds)
        shutil.rmtree(base)
    about = {"pipelines": options.pipelines, "interval": "10 min", "aim": "under 300 ms, whatever the past"}
    keep({"name": "fleet", "about": about, "machine": machine(), "commit": commit(), "milliseconds": took})
    print(table(took))


if __name__ == "__main__":
    main()
