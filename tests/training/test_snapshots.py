"""Snapshots: a named state is read row for row as it was, whatever is published, compacted and vacuumed since."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from polars.testing import assert_frame_equal
from pyspark.sql.types import StringType, StructField, StructType
from typer.testing import CliRunner

from support.broken.faults import expire
from support.copies import Tables, put_tables, tables_of
from support.environ import environ_of
from support.training.outages import START, STEP, Outage, lived
from support.training.table import Writer, empty_places, erase_key, paper_home, seen
from windrow import training
from windrow.cli import app
from windrow.columns import ROW_ORDER
from windrow.home import Home, Table
from windrow.io.delta import appending, crash_points, scan, store, tables
from windrow.io.registers import erasures, publications, snapshots
from windrow.io.training import maintenance
from windrow.jobs.audit.intact import TablesDisagree, require_intact
from windrow.jobs.run import BadRequest, Context
from windrow.jobs.upkeep import snapshot as job
from windrow.outcomes import ExitCode, NothingToDo, exit_code
from windrow.places import PROJECT, Places
from windrow.semantics.maintenance import RETENTION
from windrow.semantics.paper.model import Model

LIFE = Outage("held", 22, 12)
ME, WEEK = "a person", timedelta(days=7)
MIDDLE = START + 6 * STEP


@cache
def lived_once() -> Model:
    return lived(LIFE, rows=100).model


@cache
def published_once() -> tuple[Tables, datetime]:
    """The tables of that life, written once in this process, and when the next publication would be."""
    with tempfile.TemporaryDirectory() as folder:
        home = paper_home(empty_places(Path(folder)), lived_once().rules)
        writer = Writer(home, seen(home))
        writer.now = datetime.now(UTC) - timedelta(days=30)
        writer.publish_all(lived_once().publications)
        return tables_of(home.places), writer.now


class Lived:
    """A pipeline with a published life, whose intervals can be rebuilt, and which ages in a moment."""

    def __init__(self, places: Places) -> None:
        self.model: Model = deepcopy(lived_once())
        self.home: Home = paper_home(places, self.model.rules)
        self.writer = Writer(self.home, seen(self.home))
        published, self.writer.now = published_once()
        put_tables(published, places)
        self.context = Context(self.home.pipeline, places)
        self.path = self.home.table(Table.TRAINING)

    def read(self, **options: Any) -> pl.DataFrame:
        options = {"labels": "all", "places": self.home.places, **options}
        return training.read("paper", **options).rows.sort(ROW_ORDER).collect()

    def rebuild(self, only: Iterable[int] | None = None) -> None:
        """Publish intervals again, with everything that has landed since."""
        intervals = [one.plan.interval for one in self.model.publications]
        chosen = dict.fromkeys(intervals if only is None else [intervals[n] for n in only])
        for plan in self.model.plan(f"rebuild {len(self.model.publications)}", list(chosen)):
            self.writer.publish(self.model.publish(plan))

    def maintain(self) -> int:
        """What maintenance does when the retention of all that was replaced is over; returns how many files go."""
        return maintenance.vacuum(self.home, WEEK)["training"]

    def years_pass(self) -> None:
        """Files are vacuumed, and the log forgets its versions."""
        self.maintain()
        table = DeltaTable(self.path)
        table.create_checkpoint()
        log, newest = f"{self.path}/_delta_log", f"{table.version():020d}"
        names = [file.name for file in store.listed(log)]
        assert store.remove(log, [name for name in names if name < newest and name[0].isdigit()]) > 10
        with pytest.raises(DeltaError):
            DeltaTable(self.path, version=3)


@pytest.fixture
def life(places: Places) -> Lived:
    return Lived(places)


@pytest.fixture
def stored(tmp_path: Path, root: str | None) -> Lived:
    return Lived(replace(empty_places(tmp_path / "home"), tables=root))


def take(life: Lived, name: str, **options: Any) -> snapshots.Snapshot:
    return job.take(life.context, name, who=ME, **options)


@pytest.mark.both_roots
def test_a_snapshot_outlives_rebuild_compaction_and_vacuum(stored: Lived) -> None:
    life, last = stored, len(stored.model.publications)
    before, pin = life.read(), training.read("paper", places=life.home.places).pin
    one = take(life, "ranker-7", why="training set of ranker 7")
    assert (one.rows, one.range.start, one.numbers) == (before.height, START, tuple(range(1, last + 1)))
    assert_frame_equal(life.read(at="snapshot:ranker-7"), before)

    life.rebuild()
    DeltaTable(life.path).optimize.compact()
    rebuilt = life.read()
    assert not rebuilt.equals(before)
    take(life, "rebuilt")
    life.years_pass()

    for name, frame in (("ranker-7", before), ("rebuilt", rebuilt)):
        rows, again = training.read("paper", at=f"snapshot:{name}", labels="all", places=life.home.places)
        assert_frame_equal(rows.sort(ROW_ORDER).collect(), frame)
        assert again.snapshot == name
        assert_frame_equal(
            training.read_pinned(again.to_json(), places=life.home.places).rows.sort(ROW_ORDER).collect(), frame
        )
    complete = before.filter(pl.col("label_reason").is_null())
    assert_frame_equal(training.read_pinned(pin, places=life.home.places).rows.sort(ROW_ORDER).collect(), complete)
    assert_frame_equal(life.read(at=last), before, check_row_order=False)
    assert_frame_equal(life.read(), rebuilt)


def test_maintenance_spares_files_until_the_snapshot_is_deleted(life: Lived) -> None:
    last = len(life.model.publications)
    before, pin = life.read(), training.read("paper", labels="all", places=life.home.places).pin
    old = take(life, "old", end=MIDDLE)
    life.rebuild()
    take(life, "new")
    assert life.maintain() == last - old.file_count
    held = snapshots.held(life.home)
    assert (held.number, held.bytes, dict(held.by_name)) == (2, old.size, {"old": old.size, "new": 0})
    assert_frame_equal(life.read(at=last, end=MIDDLE), before.filter(pl.col("_event_time") < MIDDLE))
    with pytest.raises(training.RowsGone):
        training.read_pinned(pin, places=life.home.places)

    job.delete(life.context, "old", who=ME)
    assert snapshots.held(life.home) == (1, 0, {"new": 0})
    for file in store.listed(life.path):
        os.utime(f"{life.path}/{file.name}", (0, 0))
    assert life.maintain() == old.file_count
    with pytest.raises(training.WrongRequest, match="a person deleted the snapshot old"):
        life.read(at="snapshot:old")
    with pytest.raises(training.RowsGone, match="in no snapshot"):
        life.read(at=last, end=MIDDLE)
    assert_frame_equal(life.read(at="snapshot:new"), life.read())


def test_a_snapshot_outlives_a_rollback(life: Lived) -> None:
    """What a rollback commits: the rows of an earlier publication under a new number."""
    first = life.read(end=START + STEP)
    life.rebuild([0])
    rebuilt = life.read(end=START + STEP)
    take(life, "rebuilt")
    old, register = life.model.publications[0], publications.registered(life.home)
    life.writer.publish(replace(old, number=register[-1]["number"] + 1))
    assert life.read(end=START + STEP).drop("_publication").equals(first.drop("_publication"))
    life.years_pass()
    assert_frame_equal(life.read(end=START + STEP, at="snapshot:rebuilt"), rebuilt)


def test_a_snapshot_of_an_earlier_state_and_of_a_range(life: Lived) -> None:
    before, last = life.read(), len(life.model.publications)
    start, end = START + 6 * STEP, START + 8 * STEP
    life.rebuild()
    one = take(life, "part", begin=start, end=end, number=last)
    life.years_pass()
    inside = (pl.col("_event_time") >= start) & (pl.col("_event_time") < end)
    assert_frame_equal(life.read(at="snapshot:part"), before.filter(inside))
    assert one.file_count < last, "files that are more than a window away are not kept"
    with pytest.raises(training.WrongRequest, match="the snapshot part holds"):
        life.read(at="snapshot:part", start=START)
    with pytest.raises(training.RowsGone):
        life.read(at=last, end=START + STEP)
    later = start + STEP
    assert_frame_equal(life.read(at=last, start=later, end=end), life.read(at="snapshot:part", start=later))


@pytest.mark.parametrize(
    "options",
    [
        {"attribute": "linear"},
        {"attribute": "last_touch", "negatives": 0.5},
        {"matured": "9m", "delays": True},
        {"survival": "labels"},
    ],
)
def test_every_argument_gives_the_same_rows_from_a_snapshot(life: Lived, options: dict[str, Any]) -> None:
    """Credits depend on rows of one window before and after the range, which the snapshot keeps too."""
    start, end = START + 4 * STEP, START + 8 * STEP
    before = life.read(start=start, end=end, **options)
    assert before.height > 10
    take(life, "part", begin=start, end=end)
    life.rebuild()
    life.years_pass()
    assert_frame_equal(life.read(at="snapshot:part", **options), before)


def test_of_two_that_take_a_name_one_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a lock, too: machines whose leases have lapsed, each after it has seen that the name is free."""
    together = threading.Barrier(4, timeout=60)
    monkeypatch.setattr(crash_points, "point", lambda name: name == "snapshot.before_commit" and together.wait())
    homes = [replace(empty_places(tmp_path / "one"), tables=str(tmp_path / "tables"))]
    life = Lived(homes[0])
    places = [replace(homes[0], home=tmp_path / f"machine {n}") for n in range(4)]
    ends = [START + n * STEP for n in range(2, 6)]

    def one(n: int) -> str:
        try:
            job.take(Context(life.home.pipeline, places[n]), "best", end=ends[n], who=f"person {n}")
        except BadRequest as refused:
            return str(refused)
        return "taken"

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(one, range(4)))
    assert outcomes.count("taken") == 1
    winner = outcomes.index("taken")
    assert all(f"person {winner} took the snapshot best" in text for text in outcomes if text != "taken")
    (kept,) = snapshots.kept(life.home)
    assert (kept.who, kept.range.end) == (f"person {winner}", ends[winner])


@pytest.mark.parametrize("point", crash_points.SNAPSHOT_POINTS)
def test_a_kill_leaves_the_snapshot_or_nothing(
    life: Lived, point: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before, places = life.read(), life.home.places
    for variable, value in environ_of(places).items():
        monkeypatch.setenv(variable, value)
    arguments = ["paper", "mine", "--who", ME]
    command = [sys.executable, str(PROJECT / "spark_jobs/run_job.py"), "snapshot", *arguments]
    killed = subprocess.run(command, env={**os.environ, "CRASH_AT": point}, capture_output=True, text=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    is_taken = point == "snapshot.after_commit"
    assert [one.name for one in snapshots.kept(life.home)] == ["mine"] * is_taken
    assert job.main(arguments) == (10 if is_taken else 0), capsys.readouterr().err
    life.rebuild()
    life.years_pass()
    assert_frame_equal(life.read(at="snapshot:mine"), before)


def test_a_name_is_given_once(life: Lived) -> None:
    take(life, "a")
    with pytest.raises(NothingToDo, match=r"a person took the snapshot a at .*, of this state"):
        take(life, "a")
    with pytest.raises(BadRequest, match="A name is given once"):
        take(life, "a", end=MIDDLE)
    job.delete(life.context, "a", who=ME)
    with pytest.raises(BadRequest, match=r"deleted it at .* A name is given once"):
        take(life, "a")
    with pytest.raises(NothingToDo, match="deleted already"):
        job.delete(life.context, "a", who=ME)
    with pytest.raises(BadRequest, match=r"has no snapshot 'b'; it has none"):
        job.delete(life.context, "b", who=ME)
    with pytest.raises(training.WrongRequest, match=r"has no snapshot 'b'; it has none"):
        life.read(at="snapshot:b")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("../x", {}, "is not a valid snapshot name"),
        ("x", {"number": 99}, "has no publication 99; it has 12"),
        ("x", {"begin": MIDDLE, "end": MIDDLE}, "at or before it begins"),
        ("x", {"end": START - STEP}, "at or before it begins"),
        ("x", {"begin": START + 30 * STEP, "end": START + 31 * STEP}, "has published nothing of"),
    ],
)
def test_what_cannot_be_kept_is_refused(life: Lived, name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        take(life, name, **options)
    assert snapshots.listed(life.home) == []


def test_the_daily_comparison_names_a_lost_file_of_a_snapshot(life: Lived) -> None:
    take(life, "kept")
    life.rebuild()
    require_intact(life.home)
    (lost, *_) = snapshots.files_of(life.home, "kept").locations
    os.unlink(lost)
    with pytest.raises(TablesDisagree, match=f"{lost} of the snapshot kept is missing"):
        require_intact(life.home)
    with pytest.raises(training.RowsGone):
        life.read(at="snapshot:kept")


def test_a_state_that_vacuum_has_ended_is_not_kept(life: Lived) -> None:
    last = len(life.model.publications)
    life.rebuild()
    life.years_pass()
    with pytest.raises(job.RowsOfStateGone, match="Take a later state"):
        take(life, "late", number=last)
    assert snapshots.listed(life.home) == []


def test_files_stay_for_the_retention_also_where_the_log_has_forgotten_when_they_left(life: Lived) -> None:
    """A checkpoint drops what left the table before the time that a property says; the files are older than that."""
    before, last = life.read(), len(life.model.publications)
    for file in store.listed(life.path):
        os.utime(f"{life.path}/{file.name}", (0, 0))
    assert maintenance.vacuum(life.home, RETENTION)["training"] == 0
    life.writer.now = datetime.now(UTC) - timedelta(days=8)
    life.rebuild()
    DeltaTable(life.path).create_checkpoint()
    assert maintenance.vacuum(life.home, RETENTION)["training"] == 0
    assert_frame_equal(life.read(at=last), before)
    assert life.maintain() == last, "a shorter one is asked for"


@pytest.mark.both_roots
def test_a_vacuum_that_slept_spares_what_a_snapshot_has_kept_meanwhile(
    stored: Lived, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked at the snapshots, and sleeps beyond its lease; another machine takes one of an earlier state."""
    life, last = stored, len(stored.model.publications)
    before = life.read()
    life.rebuild()
    places = life.home.places
    elsewhere = replace(places, home=tmp_path / "elsewhere", tables=places.tables or f"{places.home}/tables")

    def take_meanwhile(name: str) -> None:
        if name == "vacuum.before_delete":
            expire(life.home, Table.TRAINING)
            job.take(Context(life.home.pipeline, elsewhere), "earlier", number=last, who=ME)

    monkeypatch.setattr(crash_points, "point", take_meanwhile)
    assert life.maintain() > 0
    require_intact(life.home)
    assert_frame_equal(life.read(at="snapshot:earlier"), before)
    monkeypatch.undo()
    life.maintain()
    assert_frame_equal(life.read(at="snapshot:earlier"), before)


def test_a_snapshot_keeps_files_from_before_columns_joined(life: Lived) -> None:
    """A column of the rows, and one of a right stream."""
    right = life.home.pipeline.right[0].name
    table = tables.at(life.path)
    fields = list(scan.spark_schema(table).fields)
    elements = next(field.dataType.elementType for field in fields if field.name == right)  # type: ignore[attr-defined]
    elements.add("joined", StringType())
    appending.grow(table, StructType([*fields, StructField("joined", StringType())]), life.path)
    assert take(life, "wider").rows == life.read().height
    newest, kept = life.read(), life.read(at="snapshot:wider")
    assert "joined" in kept.columns
    assert "joined" in dict(kept[right].dtype.inner.to_schema())  # type: ignore[attr-defined]
    assert_frame_equal(kept, newest)


def test_after_an_erasure_only_rows_that_stand_are_kept(life: Lived) -> None:
    """Replaced rows were not searched for erased keys, in a past version or in the files of another snapshot."""
    home, last = life.home, len(life.model.publications)
    take(life, "before", end=MIDDLE)
    life.rebuild([0])
    take(life, "replaced", number=last)  # no key is erased yet
    erase_key(home, ["k"], life.context.now())
    with pytest.raises(erasures.HoldsErased, match="Leave out --publication") as refused:
        take(life, "past", number=last)
    assert exit_code(refused.value) == ExitCode.BAD_INPUT
    assert take(life, "present").rows == life.read().height
    assert take(life, "standing", begin=START + 8 * STEP, number=last).rows > 0, "what it asks for stands as it was"
    life.years_pass()
    with pytest.raises(erasures.HoldsErased):
        take(life, "copied", number=last, end=MIDDLE)
    assert {one.name for one in snapshots.kept(home)} == {"before", "replaced", "present", "standing"}


def command(life: Lived, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str]:
    places = life.home.places
    monkeypatch.setenv("WINDROW_HOME", str(places.home))
    monkeypatch.setenv("WINDROW_TABLES", "")
    monkeypatch.setenv("WINDROW_PIPELINES", str(places.pipelines[0]))
    done = CliRunner().invoke(app, list(arguments))
    error = "" if done.exception is None or isinstance(done.exception, SystemExit) else str(done.exception)
    return done.exit_code, f"{done.output}{error}"


def test_the_command_takes_lists_and_deletes(life: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        return command(life, monkeypatch, *arguments)

    assert "no snapshot is kept" in run("snapshots", "paper")[1]
    code, text = run("snapshot", "paper", "r7", "--why", "ranker 7", "--who", "ann", "--to", "2026-11-01T00:20:00Z")
    assert code == 0, text
    assert "r7 keeps 28 rows" in text
    assert 'training.read("paper", at="snapshot:r7")' in text
    life.rebuild()
    code, text = run("snapshots", "paper")
    for word in ("r7", "ann", "ranker 7", "kB", "2026-11-01 00:20:00Z", "there for snapshots only"):
        assert word in text
    (row,) = json.loads(run("snapshots", "paper", "--json")[1])
    assert (row["who"], row["why"], row["held_bytes"]) == ("ann", "ranker 7", row["bytes"])
    (found,) = json.loads(run("health", "paper", "--json")[1])
    assert (found["snapshots"], found["snapshot_bytes"]) == (1, row["bytes"])
    assert re.search(r"1 snapshot, [\d.]+ kB for them only", run("health", "paper")[1])
    assert "leave --from" in run("snapshot", "paper", "r7", "--delete", "--publication", "1")[1]
    assert "r7 is deleted" in run("snapshot", "paper", "r7", "--delete")[1]
    (row,) = json.loads(run("snapshots", "paper", "--json")[1])
    assert row["deleted_at"]
