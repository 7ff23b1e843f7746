"""What makes the late ledger look at rows. Statistics and registers decide it, so Spark never starts here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from deltalake.schema import PrimitiveType

from support.generated import ENGAGEMENTS, INTERVAL, PARTITIONS, PIPELINE, SERVED, START
from windrow.cli import late
from windrow.config import Pipeline, load
from windrow.home import Home
from windrow.io.ledger import append
from windrow.io.ledger import state as ledger_state
from windrow.io.ledger import table as ledger_table
from windrow.io.registers import clocks, publications
from windrow.jobs import ledger as job
from windrow.jobs.run import Context
from windrow.places import Places
from windrow.schemas import CLOCK, PUBLICATIONS
from windrow.semantics.clock import PartitionClock
from windrow.semantics.intervals import Interval
from windrow.semantics.plan import Plan
from windrow.transforms.ledger.due import due
from windrow.transforms.ledger.passes import Due, Pass, Stretch

MINUTE = timedelta(minutes=1)
W = START + 60 * MINUTE
"""Where every partition's newest event is at first; intervals close 8 minutes and out-of-orderness before it."""
_LANDED = pa.schema(
    [("_event_time", pa.timestamp("us", tz="UTC")), ("_batch", pa.int64()), ("_quarantined", pa.string())]
)


def no_spark() -> NoReturn:
    raise AssertionError("Spark was started")


@dataclass
class Paperwork:
    """The tables of a pipeline that has published two intervals, without a row of training data."""

    pipeline: Pipeline
    places: Places
    newest: datetime = W

    def land(self, topic: str, batch: int, *events: datetime | None, bad: str | None = None) -> None:
        rows = [{"_event_time": at, "_batch": batch, "_quarantined": bad} for at in events]
        path = self.places.landing(self.pipeline.name, topic)
        write_deltalake(path, pa.Table.from_pylist(rows, _LANDED), mode="append")
        self.observe({topic: batch})

    def observe(self, landed: dict[str, int], newest: datetime | None = None) -> None:
        self.newest = newest or self.newest
        seen = clocks.observe(self.home)
        batches = {**dict.fromkeys(PARTITIONS, 0), **seen.pins, **landed}
        blank: dict[str, Any] = dict.fromkeys(CLOCK.names)
        rows = [
            {**blank, "topic": topic, "epoch": 0, "partition": p, "batch": batches[topic], "next_offset": 1,
             "end_offset": 1, "newest_at": self.newest, "clock_at": max(self.newest, W), "landed_at": W}
            for topic, n in PARTITIONS.items() for p in range(n)
        ]  # fmt: skip
        clocks.record(self.home, seen.number + 1, rows)

    def publish(self, *starts: datetime, config_hash: str | None = None) -> None:
        seen = clocks.observe(self.home)
        number = len(publications.registered(self.home))
        for start in starts:
            number += 1
            interval = Interval(start, start + INTERVAL)
            clocks_then: tuple[PartitionClock, ...] = seen.clocks
            hashed = config_hash or self.pipeline.config_hash
            plan = Plan(self.pipeline.name, f"run {number}", interval, seen.pins, hashed, clocks_then)
            blank: dict[str, Any] = dict.fromkeys(PUBLICATIONS.names)
            row = {**blank, "number": number, "interval": start, "interval_end": interval.end, "plan": plan.to_json(),
                   "plan_id": plan.id, "config_hash": hashed, "rows": 0, "published_at": W}  # fmt: skip
            write_deltalake(
                self.places.table(self.pipeline.name, "training"),
                pa.table({"_interval": pa.array([start], pa.timestamp("us", tz="UTC"))}),
                mode="append",
                commit_properties=CommitProperties(app_transactions=[Transaction("windrow.publish", number)]),
            )
            publications.register(self.home, row)

    @property
    def home(self) -> Home:
        return Home(self.pipeline, self.places)

    def due(self) -> Due:
        found = ledger_state.read(self.home)
        assert found is not None
        state, _ = found
        return due(self.pipeline, state)

    def extend(self) -> Pass:
        job.extend_table(self.home, no_spark)
        made = ledger_table.last_pass(self.home)
        assert made is not None
        return made


@pytest.fixture
def paper(places: Places) -> Paperwork:
    path = Path(places.pipelines[0]) / "generated.yaml"
    path.write_text(PIPELINE)
    made = Paperwork(load(path, places.expectations), places)
    for topic in PARTITIONS:
        made.land(topic, 1, START, W)
    made.publish(START, START + INTERVAL)
    return made


def test_nothing_is_due_before_anything_is_published(places: Places, paper: Paperwork) -> None:
    from dataclasses import replace

    elsewhere = replace(places, home=places.home / "other")
    assert ledger_state.read(Home(paper.pipeline, elsewhere)) is None


def test_the_listing_says_what_the_ledger_has_not_looked_at(
    paper: Paperwork, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rollback is a publication that no pass has looked at; so far nothing is known about it."""
    monkeypatch.setattr(late, "context", lambda name, **_: Context(paper.pipeline, paper.places))

    def listed() -> str:
        late.late("generated")
        return " ".join(capsys.readouterr().out.split())

    paper.extend()
    assert "2 published intervals; a rebuild would change nothing" in listed()
    paper.publish(START)
    shown = listed()
    assert "not looked at yet: 1 publication up to 3; `windrow late generated --extend` does" in shown
    assert "no change is on record yet" in shown
    paper.observe({ENGAGEMENTS: 3})
    assert "1 publication up to 3, 2 batches of t.engagements;" in listed()
    paper.extend()
    assert "a rebuild would change nothing" in listed()


def test_what_lands_in_time_starts_no_spark_and_moves_the_ledger_on(paper: Paperwork) -> None:
    first = paper.extend()
    assert (first.number, dict(first.known.pins), first.publication) == (1, {SERVED: 1, ENGAGEMENTS: 1}, 2)
    assert paper.extend() == first  # nothing landed since: no pass
    paper.land(ENGAGEMENTS, 2, W, W + MINUTE)
    second = paper.extend()
    assert (second.number, dict(second.known.pins)) == (2, {SERVED: 1, ENGAGEMENTS: 2})
    assert ledger_table.lines(paper.home).is_empty()


@pytest.mark.parametrize(
    ("topic", "at", "is_near"),
    [
        (SERVED, START + 2 * INTERVAL - timedelta(milliseconds=2), True),
        (SERVED, START + 2 * INTERVAL + timedelta(milliseconds=2), False),
        (ENGAGEMENTS, START + 2 * INTERVAL + 6 * MINUTE - timedelta(milliseconds=2), True),
        (ENGAGEMENTS, START + 2 * INTERVAL + 6 * MINUTE + timedelta(milliseconds=2), False),
        (ENGAGEMENTS, START - timedelta(seconds=30), True),  # `before` is 30 s
        (ENGAGEMENTS, START - timedelta(seconds=31), False),
    ],
)
def test_a_row_is_looked_at_where_its_window_reaches_a_publication(
    paper: Paperwork, topic: str, at: datetime, is_near: bool
) -> None:
    paper.land(topic, 2, at)
    assert paper.due().needs_spark == is_near


def test_a_publication_that_knew_the_batch_is_not_looked_at_for_it(paper: Paperwork) -> None:
    paper.land(ENGAGEMENTS, 2, START)
    paper.publish(START, START + INTERVAL)  # again, with the new pins
    assert not paper.due().needs_spark
    paper.publish(START + 2 * INTERVAL)
    paper.extend()
    paper.land(ENGAGEMENTS, 3, START + 2 * INTERVAL)
    assert paper.due().within(paper.due().near, INTERVAL) == [START + n * INTERVAL for n in range(3)]


def test_a_quarantined_label_without_a_time_concerns_everything_and_a_left_row_nothing(paper: Paperwork) -> None:
    paper.land(SERVED, 2, None, bad="malformed")
    assert not paper.due().needs_spark
    paper.land(ENGAGEMENTS, 2, None, bad="event_time_missing")
    assert paper.due().within(paper.due().near, INTERVAL) == [START, START + INTERVAL]


def test_the_keys_of_all_rows_are_looked_at_only_where_a_label_may_lack_a_time(paper: Paperwork) -> None:
    paper.land(ENGAGEMENTS, 2, START)
    paper.land(ENGAGEMENTS, 3, START, bad="wrong_type")
    assert (paper.due().needs_spark, paper.due().can_be_undated) == (True, False)
    paper.land(ENGAGEMENTS, 4, START, None, bad="event_time_missing")
    assert paper.due().can_be_undated


def test_a_deletion_from_a_landing_table_is_noticed_once(paper: Paperwork) -> None:
    paper.extend()
    table = DeltaTable(paper.places.landing(paper.pipeline.name, SERVED))
    table.optimize.compact()
    table.alter.add_columns([Field("joined_later", PrimitiveType("string"))])
    assert not paper.due().needs_all
    table.delete("_batch = 1")
    work = paper.due()
    assert (work.needs_all, work.needs_spark) == (True, True)
    append.append(paper.home, work.as_pass, ())
    assert not paper.due().needs_spark


def test_labels_that_are_heard_of_further_concern_rows_that_silence_had_a_say_in(paper: Paperwork) -> None:
    heard = START + INTERVAL + 8 * MINUTE  # an out-of-orderness and a window later: one minute into the second
    paper.observe({}, newest=heard)
    paper.publish(START, START + INTERVAL)
    paper.observe({}, newest=W)
    (stretch,) = paper.due().stretches
    assert stretch == Stretch(START + INTERVAL + MINUTE, W - 7 * MINUTE, silent=True)
    assert paper.due().within([stretch], INTERVAL) == [START + INTERVAL]


def test_a_publication_of_another_config_is_marked_once_and_nothing_of_it_is_looked_at(paper: Paperwork) -> None:
    paper.publish(START, config_hash="another")
    paper.extend()
    lines = ledger_table.lines(paper.home)
    assert [*zip(lines["interval"], lines["kind"], lines["publication"], strict=True)] == [(START, "config_changed", 3)]
    paper.land(ENGAGEMENTS, 2, START + timedelta(seconds=1))
    assert paper.due().within(paper.due().near, INTERVAL) == []
    assert paper.due().incomparable == ()


def test_a_pass_reads_whole_rows_of_the_register_and_files_of_what_is_new_only(paper: Paperwork) -> None:
    early, later = START, START + INTERVAL
    paper.land(ENGAGEMENTS, 1, START)
    paper.publish(early)
    paper.extend()
    paper.publish(later)
    paper.land(ENGAGEMENTS, 2, W)
    found = ledger_state.read(paper.home)
    assert found is not None
    state, _ = found
    assert set(state.standing.rows) == {later}
    assert set(state.standing.rows[later]) == set(PUBLICATIONS.names)
    assert [file.batch for file in state.files[ENGAGEMENTS]] == [2]

    paper.publish(early)  # the pass still speaks of the publication that stood when its state was read
    work = ledger_state.with_rows(paper.home, due(paper.pipeline, state), [early])
    number = state.standing.number_of(early)
    assert (work.standing.number_of(early), work.plan_of(early).run) == (number, f"run {number}")
