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
from windrow.cli.show import PUBLICATION, console, instant
from windrow.cli.show import rows as show_rows
from windrow.config import Pipeline, load
from windrow.home import Home
from windrow.io.landing import broker
from windrow.io.registers import clocks, publications
from windrow.outcomes import NeedsPerson
from windrow.places import Places
from windrow.semantics.intervals import interval_of
from windrow.simulate import open_bandit, producer
from windrow.simulate.truth import Truth

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


def demo() -> None:
    """Run the main job on real data through Airflow, and check every figure. Takes some minutes."""
    places = Places.from_env(os.environ)
    console.print(open_bandit.NOTE, style="dim")
    wheel = open_bandit.fetch(places.cache)
    platform.up(places, console.print, only=("kafka",))
    prepared = _prepare(places, wheel)
    platform.up(places, console.print, only=("airflow",))
    _watch(prepared)
    wrong = list(_differences(prepared))
    _show(prepared)
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
        console.print(f"input: {sum(expected.values()):,} records, event time from {instant(moved.start)}")
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
    """Let the scheduler work; tell every step. Raises when a run fails or nothing happens any more."""
    api = platform.Airflow(demo.places).api
    land, training = f"{demo.pipeline.name}.land", f"{demo.pipeline.name}.training"
    _until(lambda: {land, training} <= {dag["dag_id"] for dag in api.dags()}, "Airflow reads the DAGs")
    for dag_id in (land, training):
        api.unpause(dag_id)
    if not clocks.observe(Home(demo.pipeline, demo.places)).rows:
        api.trigger(land)
    console.print(f"{land} and {training} are unpaused; the scheduler works (about 5 minutes on two cores) …")
    wanted = set(demo.truth.counts.intervals)
    last, moved_at = "", time.monotonic()
    while True:
        seen = clocks.observe(Home(demo.pipeline, demo.places))
        done = publications.standing(publications.registered(Home(demo.pipeline, demo.places)))
        states = _tasks(api, training)
        line = (
            f"landed {sum(r['landed'] for r in seen.rows):,}, watermark {instant(seen.watermark)}, "
            f"published {len(wanted & done.keys())} of {len(wanted)} intervals, {states or 'no run yet'}"
        )
        if line != last:
            console.print(f"  {datetime.now(UTC):%H:%M:%S}  {line}")
            last, moved_at = line, time.monotonic()
        if wanted <= done.keys():
            return
        failed = api.dag_runs(training, state="failed")
        if failed:
            raise RuntimeError(
                f"run {failed[0]['dag_run_id']} of {training} failed; its log is in Airflow: "
                f"{platform.Airflow(demo.places).url}/dags/{training}"
            )
        if time.monotonic() - moved_at > PATIENCE.total_seconds():
            raise RuntimeError(f"nothing has happened for {PATIENCE}; look at {platform.Airflow(demo.places).url}")
        time.sleep(2)


def _tasks(api: Any, dag_id: str) -> str:
    """What the newest unfinished run is doing."""
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
    """Every figure that is not the truth: landing counts, counts by interval, and each row with its labels."""
    truth = demo.truth.counts
    seen = clocks.observe(Home(demo.pipeline, demo.places))
    for topic in demo.moved.topics:
        for name, count in truth.landing(topic).items():
            found = sum(row[name] for row in seen.of_topic(topic))
            if found != count:
                yield f"{topic}: {name} {found:,}, expected {count:,}"
    standing = publications.standing(publications.registered(Home(demo.pipeline, demo.places)))
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
                yield f"{instant(start)}: {name} {row[name]:,}, expected {value:,}"
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
    table = pl.scan_delta(demo.places.table(demo.pipeline.name, "training"))
    return table.filter(pl.col("_interval") < demo.moved.ends_at)


def _show(demo: Demo) -> None:
    truth, places = demo.truth.counts, demo.places
    rows = publications.registered(Home(demo.pipeline, places))
    standing = publications.standing(rows)
    of_input = [standing[start] for start in sorted(truth.intervals)]
    console.print("\npublications", style="bold")
    show_rows(of_input, PUBLICATION)
    console.print("\nfigures, found = expected from the input", style="bold")
    total = truth.total
    for name, expected in {
        "rows": total.rows,
        "positive": total.positive,
        "negative": total.negative,
        "unknown": sum(total.unknown.values()),
    }.items():
        console.print(
            f"  {'rows served' if name == 'rows' else name:12} {sum(r[name] for r in of_input):>8,} = {expected:,}"
        )
    seen = clocks.observe(Home(demo.pipeline, places))
    for topic in demo.moved.topics:
        here = {n: sum(row[n] for row in seen.of_topic(topic)) for n in ("read", "landed", "quarantined")}
        console.print(
            f"  {topic}: read {here['read']:,} = landed {here['landed']:,} + quarantined {here['quarantined']:,}"
        )
    console.print("\nsample, in served order", style="bold")
    columns = [
        "_event_time",
        "impression_id",
        "item_id",
        "position",
        "propensity",
        "clicked",
        "label_state",
        "label_reason",
    ]
    with pl.Config(tbl_rows=8, tbl_cols=len(columns), tbl_hide_dataframe_shape=True, tbl_width_chars=160):
        sample = _training(demo).sort("_event_time", "_topic", "_epoch", "_partition", "_offset")
        console.print(
            str(sample.select(columns).filter(pl.col("_event_time").is_not_null()).head(8).collect()),
            markup=False,
        )
    airflow = platform.Airflow(places)
    console.print(f"\ntraining table   {places.table(demo.pipeline.name, 'training')}")
    console.print(f"data quality     {of_input[-1]['report']}")
    console.print(f"Airflow          {airflow.url}  user {airflow.login.user}, password {airflow.login.password}")
    console.print(
        f"look further     windrow clock {demo.pipeline.name}; windrow publications {demo.pipeline.name}; windrow down"
    )
    first = interval_of(demo.moved.start, demo.pipeline.start, demo.pipeline.interval)
    console.print(f"a backfill       airflow backfill of {demo.pipeline.name}.training, for example {first}")
