"""metrics: figures of pipelines for Prometheus and for Airflow's own exporter. No Spark, no broker; nothing is written.

read      health (newest intervals only), a few landings, the late ledger of the newest intervals, alerts
compute   samples: metric, labels, value
write     the text that Prometheus reads

Nothing grows with the age of a pipeline but one column of the register, which health reads once per publication. Labels
are names of pipelines, topics, states and conditions, and numbers of partitions, of which the `PARTITIONS` furthest
behind are shown. docs/METRICS.md lists all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.registers import alerts, clocks, publications
from windrow.io.registers.recent import Recent, earlier_clocks
from windrow.jobs.upkeep.health import Health
from windrow.outcomes import Condition
from windrow.places import Places
from windrow.semantics.alerts.retention import time_left
from windrow.semantics.clock import ClockRow
from windrow.semantics.fleet.health import Status, age, is_held

PARTITIONS = 100
"""Most partitions of a pipeline with figures of their own: those that are furthest behind."""
OUTCOMES = ("landed", "quarantined", "skipped", "unexplained")


@dataclass(frozen=True)
class Metric:
    """A metric; in addition to its labels each has `pipeline`."""

    help: str
    labels: tuple[str, ...] = ()
    is_counter: bool = False


METRICS: Mapping[str, Metric] = {
    "windrow_status": Metric("0 healthy, 1 paused, 2 late, 3 held, 4 silent, 5 blocked, 6 failing; above 1 a person"),
    "windrow_landing_age_seconds": Metric("time since the newest landing"),
    "windrow_watermark_lag_seconds": Metric(
        "time from a partition's clock to now; none before it starts", ("topic", "partition")
    ),
    "windrow_waiting_records": Metric("records of a partition that wait to be landed", ("topic", "partition")),
    "windrow_held_seconds": Metric("time for which a partition has held the clock longer than promised, or 0"),
    "windrow_records": Metric("offsets read, by what became of them", ("topic", "outcome"), is_counter=True),
    "windrow_retention_left_seconds": Metric(
        "time until the broker may delete records that have not landed; the least of the partitions", ("topic",)
    ),
    "windrow_publications": Metric("publications made, rebuilds and empty intervals included", is_counter=True),
    "windrow_publication_age_seconds": Metric("time since the end of the newest interval with a publication"),
    "windrow_promise_seconds": Metric("age of an interval's start at which it is published at the latest"),
    "windrow_publish_delay_seconds": Metric("from the end of the newest published interval to its publication"),
    "windrow_unpublished_intervals": Metric("closed intervals without a publication, blocked ones included"),
    "windrow_blocked_intervals": Metric("of them, those that expectations keep back"),
    "windrow_unclosed_rows": Metric("landed rows whose interval is neither closed nor published, about"),
    "windrow_unclosed_bytes": Metric("bytes of landing tables that hold them, about"),
    "windrow_unclosed_age_seconds": Metric(
        "event time from the end of the oldest such interval to the newest left event"
    ),
    "windrow_unclosed_bounds_exceeded": Metric("bounds of the pipeline file that these exceed"),
    "windrow_rows": Metric("rows of the newest published interval, by label state", ("state",)),
    "windrow_label_rate": Metric("positive of its rows whose label side was complete; none without such rows"),
    "windrow_unknown_rate": Metric("unknown of its rows; none without rows"),
    "windrow_late_rate": Metric("lines of the late ledger per row, over the newest 48 intervals"),
    "windrow_flip_rate": Metric("late lines that change a label state, per row, over the newest 48 intervals"),
    "windrow_snapshot_bytes": Metric("bytes of past versions that are there for snapshots only"),
    "windrow_alerts": Metric("open alerts", ("condition",)),
}


_Figure = tuple[str, float, Mapping[str, str]]


@dataclass(frozen=True)
class Sample:
    """One figure."""

    name: str
    """of `METRICS`"""
    value: float
    labels: Mapping[str, str]
    """`pipeline` and the labels of the metric"""


def samples(every: Iterable[Health], places: Places, now: datetime, known: Recent) -> list[Sample]:
    """Return the figures of pipelines; of one whose file or tables cannot be used, its status alone.

    Args:
        every: their health.
        known: what was read before, for a process that looks again and again.
    """
    found = []
    for one in every:
        try:
            found += _of(one, places, now, known)
        except Condition:  # the others are measured all the same
            found.append(Sample("windrow_status", float(Status.FAILING), {"pipeline": one.seen.name}))
    return found


def _of(found: Health, places: Places, now: datetime, known: Recent) -> list[Sample]:
    name = found.seen.name
    figures: list[_Figure] = [("windrow_status", float(found.status), {}), *_of_alerts(name, places, now)]
    if not found.seen.broken:
        home = Home(known.pipelines.find(name), places)
        figures += [
            *_of_landing(found, home, now, known),
            *_of_publications(found, home, now, known),
            *_of_ledger(found, home, known),
        ]
    return [Sample(metric, value, {"pipeline": name, **labels}) for metric, value, labels in figures]


def text(every: Iterable[Sample]) -> str:
    """Return samples as the text that Prometheus reads, with help and type of each metric."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    families: dict[str, Any] = {}
    for name, metric in METRICS.items():
        kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
        families[name] = kind(name, metric.help, labels=["pipeline", *metric.labels])
    for one in every:
        families[one.name].add_metric([one.labels[n] for n in ("pipeline", *METRICS[one.name].labels)], one.value)

    class Collector:
        def collect(self) -> Iterator[Any]:
            return (family for family in families.values() if family.samples)

    registry = CollectorRegistry()
    registry.register(Collector())
    return generate_latest(registry).decode()


def _of_landing(found: Health, home: Home, now: datetime, known: Recent) -> Iterator[_Figure]:
    path = home.table(Table.CLOCK)
    observed = known.of(path, "newest", lambda: clocks.observe(home))
    if not observed.rows:
        return
    seen = found.seen
    if seen.landed_at:
        yield "windrow_landing_age_seconds", (now - seen.landed_at).total_seconds(), {}
    held = now - seen.held_since if seen.held_since and is_held(seen) else None
    yield "windrow_held_seconds", held.total_seconds() if held else 0.0, {}
    for row in sorted(observed.rows, key=_place)[:PARTITIONS]:
        labels = {"topic": row["topic"], "partition": str(row["partition"])}
        if row["clock_at"]:
            yield "windrow_watermark_lag_seconds", (now - row["clock_at"]).total_seconds(), labels
        yield "windrow_waiting_records", max(0, row["end_offset"] - row["next_offset"]), labels
    totals: Counter[tuple[str, str]] = Counter()
    for row in observed.rows:
        totals.update({(row["topic"], outcome): row.get(outcome) or 0 for outcome in OUTCOMES})
        # what is reconsidered leaves the quarantined of the clock, and a counter never goes down
        totals[row["topic"], "quarantined"] += row.get("reconsidered") or 0
    for (topic, outcome), count in sorted(totals.items()):
        yield "windrow_records", count, {"topic": topic, "outcome": outcome}
    before = earlier_clocks(home, observed.number, known)
    least: dict[str, float] = {}
    for one in time_left(observed.rows, before, now):
        seconds = one.left.total_seconds()
        least[one.row["topic"]] = min(seconds, least.get(one.row["topic"], seconds))
    for topic, seconds in sorted(least.items()):
        yield "windrow_retention_left_seconds", seconds, {"topic": topic}


def _place(row: ClockRow) -> tuple[bool, datetime | None, str, int]:
    """Order of partitions: the furthest behind first, and before all those whose clock has not started."""
    return (row["clock_at"] is not None, row["clock_at"], row["topic"], row["partition"])


def _of_publications(found: Health, home: Home, now: datetime, known: Recent) -> Iterator[_Figure]:
    seen, register = found.seen, home.table(Table.PUBLICATIONS)
    yield "windrow_promise_seconds", seen.terms.promise.total_seconds(), {}
    yield "windrow_unpublished_intervals", len(seen.unpublished), {}
    yield "windrow_blocked_intervals", len(seen.blocked), {}
    yield "windrow_snapshot_bytes", seen.snapshot_bytes, {}
    if seen.waiting is not None:
        waiting = seen.waiting.waiting
        yield "windrow_unclosed_rows", waiting.rows, {}
        yield "windrow_unclosed_bytes", waiting.bytes, {}
        yield "windrow_unclosed_age_seconds", waiting.age.total_seconds(), {}
        yield "windrow_unclosed_bounds_exceeded", len(seen.waiting.exceeded), {}
    if (old := age(seen, now)) is not None:
        yield "windrow_publication_age_seconds", old.total_seconds(), {}
    number = known.of(register, "last", lambda: tables.version_of(register, publications.APP_ID))
    yield "windrow_publications", max(0, number), {}
    newest = found.newest
    if newest is None or newest.row is None:
        return
    row = newest.row
    if row.get("published_at"):
        yield "windrow_publish_delay_seconds", (row["published_at"] - newest.interval.end).total_seconds(), {}
    for state in ("positive", "negative", "unknown"):
        yield "windrow_rows", row[state] or 0, {"state": state}
    for metric, rate in (("windrow_label_rate", newest.label_rate), ("windrow_unknown_rate", newest.unknown_rate)):
        if rate is not None:
            yield metric, rate, {}


def _of_ledger(found: Health, home: Home, known: Recent) -> Iterator[_Figure]:
    """Rates of late lines; none where Polars is not installed, as in an Airflow without the jobs' side."""
    standing = {cell.interval.start: cell.row for cell in found.strip if cell.row}
    rows = sum(row["rows"] or 0 for row in standing.values())
    if not rows:
        return
    try:
        from windrow.io.ledger import table
        from windrow.transforms.ledger import reading
    except ImportError:
        return

    def counted() -> tuple[int, int]:
        columns = ("interval", "kind", *reading.STATES)
        kinds = reading.kinds(table.lines(home, list(standing), columns=columns, standing=standing))
        flips = sum(counts["flips"] for counts in kinds.values())
        return sum(sum(counts.values()) for counts in kinds.values()) - flips, flips

    key = ("rates", min(standing), max(row["number"] for row in standing.values()))
    late, flips = known.of(home.table(Table.LATE), key, counted)
    yield "windrow_late_rate", late / rows, {}
    yield "windrow_flip_rate", flips / rows, {}


def _of_alerts(name: str, places: Places, now: datetime) -> Iterator[_Figure]:
    still_open = Counter(one.condition for one in alerts.known(places, name, now)[0] if one.ended_at is None)
    for condition, count in sorted(still_open.items()):
        yield "windrow_alerts", count, {"condition": condition}
