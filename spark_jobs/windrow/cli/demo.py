"""demo: the main job on real impressions, through the Airflow scheduler, every figure checked against the truth.

real CSVs ─▶ Kafka ─▶ Airflow: open_bandit.land, open_bandit.training ─▶ training table
    └──────────▶ the known truth of the input ◀── compared, row by row ──────┘
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from windrow import platform
from windrow.cli.show import PUBLICATION, console, print_table
from windrow.config import Pipeline, load
from windrow.home import Home, Table
from windrow.io.landing import broker
from windrow.io.registers import clocks, publications
from windrow.outcomes import NeedsPerson
from windrow.places import Places
from windrow.semantics.intervals import interval_of
from windrow.simulate import open_bandit, producer
from windrow.simulate.truth import Truth
from windrow.text import shown_duration, shown_instant

PATIENCE = timedelta(minutes=15)
"""How long nothing may happen before the demo gives up."""


class FigureOff(NeedsPerson):
    """A figure of the demo is not what the input's truth says."""


@dataclass(frozen=True)
class Demo:
    """One demo: its pipeline, its input and where it runs. A second call goes on with the same one."""

    places: Places
    pipeline: Pipeline
    moved: open_bandit.Moved
    wheel: Path

    @cached_property
    def truth(self) -> Truth:
        """What must come out, known from the input alone."""
        return open_bandit.truth(self.moved, self.wheel)

    @property
    def home(self) -> Home:
        """The pipeline with its places."""
        return Home(self.pipeline, self.places)


def demo() -> None:
    """Run the main job on real data through Airflow, and check every figure. Takes about five minutes.

    It starts Kafka and Airflow where they do not run. An interrupted demo is continued.
    """
    places = Places.from_env(os.environ)
    console.print(open_bandit.NOTE, style="dim")
    wheel = open_bandit.fetch(places.cache)
    platform.up(places, console.print, only=("kafka",))
    prepared = _prepare(places, wheel)
    platform.up(places, console.print, only=("airflow",))
    _watch(prepared)
    wrong = list(_differences(prepared))
    _print_results(prepared)
    if wrong:
        raise FigureOff("these figures are off:\n" + "\n".join(f"  {line}" for line in wrong))
    console.print("\nevery figure is what the truth of the input says", style="bold")


def _prepare(places: Places, wheel: Path) -> Demo:
    """The pipeline file and the input on the broker; what an earlier call produced completely is used again."""
    number = 0
    while True:
        number += 1
        suffix = "" if number == 1 else f"_{number}"
        path = places.home / "pipelines" / f"open_bandit{suffix}.yaml"
        moved = _moved(path, suffix)
        prepared = _with_file(places, path, moved, wheel)
        expected = dict(prepared.truth.counts.produced)
        found = _ends(places.kafka, moved)
        if found and found != {k: n for k, n in expected.items() if n}:
            console.print(f"the topics of {path.stem} hold other records (an interrupted demo?): starting a new one")
            continue
        if not found:
            producer.create_topics(places.kafka, moved.topics)
            console.print(f"producing {sum(expected.values()):,} records to {', '.join(moved.topics)} …")
            producer.produce(places.kafka, open_bandit.messages(moved, wheel))
        console.print(f"input: {sum(expected.values()):,} records, event time from {shown_instant(moved.start)}")
        return prepared


def _moved(path: Path, suffix: str) -> open_bandit.Moved:
    fresh = open_bandit.recent(datetime.now(UTC))
    start = load(path).start if path.exists() else fresh.start
    return replace(
        fresh,
        start=start,
        impressions_topic=f"open_bandit{suffix}.impressions",
        clicks_topic=f"open_bandit{suffix}.clicks",
    )


def _with_file(places: Places, path: Path, moved: open_bandit.Moved, wheel: Path) -> Demo:
    """Write the pipeline file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(open_bandit.pipeline_yaml(moved, path.stem))
    partial.replace(path)
    return Demo(places, load(path, places.expectations), moved, wheel)


def _ends(bootstrap: str, moved: open_bandit.Moved) -> dict[tuple[str, int], int]:
    """End offsets of the demo's partitions that hold records."""
    known = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
    there = [topic for topic in moved.topics if topic in known]
    try:
        described = broker.describe(bootstrap, there) if there else {}
    except KafkaException as error:
        raise broker.BrokerUnreachable(str(error)) from error
    return {(name, p.number): p.end for name, topic in described.items() for p in topic.partitions if p.end}


def _watch(demo: Demo) -> None:
    """Let the scheduler work until every interval is published; print each step.

    Raises:
        RuntimeError: a run failed, or nothing has happened for `PATIENCE`.
    """
    airflow = platform.Airflow(demo.places)
    training = f"{demo.pipeline.name}.training"
    _unpause(demo, airflow.api, training)
    wanted = set(demo.truth.counts.intervals)
    last, changed_at = "", time.monotonic()
    while True:
        published = publications.standing(publications.registered(demo.home)).keys() & wanted
        line = _progress(demo, len(published), len(wanted), _tasks(airflow.api, training))
        if line != last:
            console.print(f"  {datetime.now(UTC):%H:%M:%S}  {line}")
            last, changed_at = line, time.monotonic()
        if published == wanted:
            return
        if failed := airflow.api.dag_runs(training, state="failed"):
            run = failed[0]["dag_run_id"]
            raise RuntimeError(f"run {run} of {training} failed; its log is in Airflow: {airflow.url}/dags/{training}")
        if time.monotonic() - changed_at > PATIENCE.total_seconds():
            raise RuntimeError(f"nothing has happened for {shown_duration(PATIENCE)}; look at {airflow.url}")
        time.sleep(2)


def _unpause(demo: Demo, api: Any, training: str) -> None:
    """Let the scheduler begin; landing is triggered, so that nobody waits for its schedule."""
    land = f"{demo.pipeline.name}.land"
    _until(lambda: {land, training} <= {dag["dag_id"] for dag in api.dags()}, "Airflow reads the DAGs")
    for dag_id in (land, training):
        api.unpause(dag_id)
    if not clocks.observe(demo.home).rows:
        api.trigger(land)
    console.print(f"{land} and {training} are unpaused; the scheduler works (about 5 minutes on two cores) …")


def _progress(demo: Demo, published: int, wanted: int, tasks: str) -> str:
    seen = clocks.observe(demo.home)
    landed = sum(row["landed"] for row in seen.rows)
    return (
        f"landed {landed:,}, watermark {shown_instant(seen.watermark)}, "
        f"published {published} of {wanted} intervals, {tasks or 'no run yet'}"
    )


def _tasks(api: Any, dag_id: str) -> str:
    """States of the tasks of an unfinished run; empty where there is none."""
    runs = [run for run in api.dag_runs(dag_id) if run["state"] in ("running", "queued")]
    if not runs:
        return ""
    states = api.task_states(dag_id, runs[0]["dag_run_id"])
    order = ("wait", "join", "check", "publish")
    return " ".join(f"{task}={states[task]}" for task in order if states.get(task))


def _until(holds: Callable[[], bool], what: str, patience: float = 600.0) -> None:
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError(f"waited {patience:.0f} s in vain until {what}; see `windrow status` for its log")
        time.sleep(1)


def _differences(demo: Demo) -> Iterator[str]:
    """Lines about figures that differ from the truth: landing counts, counts by interval, rows with their labels."""
    truth = demo.truth.counts
    seen = clocks.observe(demo.home)
    for topic in demo.moved.topics:
        for name, count in truth.landing(topic).items():
            found = sum(row[name] for row in seen.of_topic(topic))
            if found != count:
                yield f"{topic}: {name} {found:,}, expected {count:,}"
    standing = publications.standing(publications.registered(demo.home))
    for start, one in truth.intervals.items():
        row = standing[start]
        expected = {
            "rows": one.rows,
            "left_duplicate": one.duplicate,
            "positive": one.positive,
            "negative": one.negative,
            "unknown": sum(one.unknown.values()),
        }
        for name, value in expected.items():
            if row[name] != value:
                yield f"{shown_instant(start)}: {name} {row[name]:,}, expected {value:,}"
    yield from _row_differences(demo)


def _row_differences(demo: Demo) -> Iterator[str]:
    columns = ("label_state", "label_reason", "clicked", "_interval", "_event_time", "_partition", "_offset")
    labels = pl.col("clicks").list.eval(pl.element().struct.field("click_id"))
    rows = _training(demo).select(*columns, labels).collect().iter_rows(named=True)
    found = {
        (r["_partition"], r["_offset"]): (
            r["_event_time"], r["clicks"], r["label_state"], r["label_reason"], r["clicked"], r["_interval"],
        )
        for r in rows
    }  # fmt: skip
    expected = {
        (r.partition, r.offset): (
            r.event_at, list(r.labels), r.state, r.reason, _clicked(r.state), r.interval_at,
        )
        for r in demo.truth.rows()
    }  # fmt: skip
    wrong = sorted(row for row in expected.keys() | found.keys() if expected.get(row) != found.get(row))
    for row in wrong[:10]:
        yield f"row at partition, offset {row}: {found.get(row)}, expected {expected.get(row)}"
    if len(wrong) > 10:
        yield f"… and {len(wrong) - 10} more rows"


def _clicked(state: str) -> bool | None:
    return None if state == "unknown" else state == "positive"


def _training(demo: Demo) -> pl.LazyFrame:
    """The training table as an analyst reads it: Polars over delta-rs, only intervals of the input."""
    table = pl.scan_delta(demo.home.table(Table.TRAINING))
    return table.filter(pl.col("_interval") < demo.moved.ends_at)


def _print_results(demo: Demo) -> None:
    standing = publications.standing(publications.registered(demo.home))
    of_input = [standing[start] for start in sorted(demo.truth.counts.intervals)]
    console.print("\npublications", style="bold")
    print_table(of_input, PUBLICATION)
    _print_figures(demo, of_input)
    _print_sample(demo)
    airflow, name = platform.Airflow(demo.places), demo.pipeline.name
    first = interval_of(demo.moved.start, demo.pipeline.start, demo.pipeline.interval)
    console.print(f"\ntraining table   {demo.home.table(Table.TRAINING)}")
    console.print(f"data quality     {of_input[-1]['report']}")
    console.print(f"Airflow          {airflow.url}  user {airflow.login.user}, password {airflow.login.password}")
    console.print(f"look further     windrow clock {name}; windrow publications {name}; windrow down")
    console.print(f"a backfill       airflow backfill of {name}.training, for example {first}")


def _print_figures(demo: Demo, of_input: list[dict[str, Any]]) -> None:
    console.print("\nfigures, found = expected from the input", style="bold")
    total = demo.truth.counts.total
    unknown = sum(total.unknown.values())
    expected = {"rows": total.rows, "positive": total.positive, "negative": total.negative, "unknown": unknown}
    for name, count in expected.items():
        label = "rows served" if name == "rows" else name
        console.print(f"  {label:12} {sum(row[name] for row in of_input):>8,} = {count:,}")
    seen = clocks.observe(demo.home)
    for topic in demo.moved.topics:
        here = {n: sum(row[n] for row in seen.of_topic(topic)) for n in ("read", "landed", "quarantined")}
        console.print(
            f"  {topic}: read {here['read']:,} = landed {here['landed']:,} + quarantined {here['quarantined']:,}"
        )


def _print_sample(demo: Demo) -> None:
    console.print("\nsample, in served order", style="bold")
    columns = (
        "_event_time", "impression_id", "item_id", "position", "propensity", "clicked", "label_state", "label_reason",
    )  # fmt: skip
    rows = _training(demo).sort("_event_time", "_topic", "_epoch", "_partition", "_offset")
    sample = rows.select(columns).filter(pl.col("_event_time").is_not_null()).head(8).collect()
    with pl.Config(tbl_rows=8, tbl_cols=len(columns), tbl_hide_dataframe_shape=True, tbl_width_chars=160):
        console.print(str(sample), markup=False)
