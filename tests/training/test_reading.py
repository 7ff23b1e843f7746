"""What a read gives: exactly the rows of its range, state and labels; the same again by its pin; or a clear refusal."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from support.histories import History, drawn
from support.training.outages import LENGTH, MICROSECOND, RULES, START, STEP, Lived, Outage, lived
from support.training.table import Writer, empty_places, paper_home, seen
from windrow import training
from windrow.config import PipelineUnknown
from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.places import Places
from windrow.semantics.intervals import grid_around
from windrow.semantics.paper.model import Model
from windrow.semantics.reference import JoinedRow
from windrow.training import Pin

OUTAGE = Outage("held", 22, 12)
KEPT = {
    "complete": lambda row: row.label_reason is None,
    "known": lambda row: row.label_state != "unknown",
    "all": lambda row: True,
}


@pytest.fixture(scope="module")
def histories() -> list[History]:
    return drawn(2, 20)


def written(places: Places, model: Model) -> Home:
    home = paper_home(places, model.rules)
    Writer(home, seen(home)).publish_all(model.publications)
    return home


def found(rows: pl.LazyFrame) -> list[Any]:
    """Row id, state and labels of each row, in row order."""
    ids = pl.col("labels").list.eval(pl.element().struct.field("_offset"))
    frame = rows.sort("_event_time", "_topic", "_epoch", "_partition", "_offset").with_columns(ids.alias("offsets"))
    columns = ("_topic", "_epoch", "_partition", "_offset", "_event_time", "label_state", "label_reason", "offsets")
    return list(frame.select(columns).collect().iter_rows())


def expected(rows: Iterable[JoinedRow]) -> list[Any]:
    return [
        (
            *(r.row_id.topic, r.row_id.epoch, r.row_id.partition, r.row_id.offset),
            *(r.event_at, r.label_state, r.label_reason, [m.row_id.offset for m in r.matches["labels"]]),
        )
        for r in rows
    ]


def state_after(model: Model, number: int) -> list[JoinedRow]:
    """The rows that stood after a publication."""
    standing = {p.plan.interval: p for p in model.publications if p.number <= number}
    return [row for _, p in sorted(standing.items()) for row in p.joined.rows]


def test_every_state_of_a_history_is_read_as_it_stood(tmp_path: Path, histories: list[History]) -> None:
    for n, history in enumerate(histories):
        model, places = Model(history.rules), empty_places(tmp_path / str(n))
        history.live(model)
        written(places, model)
        pins = {}
        for publication in model.publications:
            at, after = publication.number, state_after(model, publication.number)
            for labels, is_kept in KEPT.items():
                rows, pin = training.read("paper", at=at, labels=labels, unpublished="skip", places=places)
                pins[pin] = expected(row for row in after if is_kept(row))
                assert found(rows) == pins[pin]
        for pin, rows_of_pin in pins.items():
            assert Pin.from_json(pin.to_json()) == pin
            assert found(training.read_pinned(pin.to_json(), places=places).rows) == rows_of_pin


def test_a_state_has_an_instant_too(places: Places) -> None:
    home = written(places, lived(OUTAGE, rows=20).model)
    register = DeltaTable(home.table(Table.PUBLICATIONS)).to_pyarrow_table().to_pylist()
    published_at = {row["number"]: row["published_at"] for row in register}

    def newest(at: datetime) -> int:
        return training.read("paper", at=at, places=places).pin.publications[-1]

    for number in (2, 12):
        assert newest(published_at[number]) == number
        assert newest(published_at[number] - MICROSECOND) == number - 1
    with pytest.raises(training.NotPublished, match="had published nothing"):
        newest(published_at[1] - MICROSECOND)


def test_a_range_has_its_start_and_not_its_end(places: Places) -> None:
    model = lived(OUTAGE, rows=100).model
    written(places, model)
    start, end = model.rows[40].event_at, model.rows[90].event_at
    assert found(training.read("paper", start, end, labels="all", places=places).rows) == expected(model.rows[40:90])


# ---- bias

outages = st.builds(Outage, st.sampled_from(("held", "lost")), st.integers(10, 40), st.integers(5, 25))


@settings(max_examples=4, deadline=None, derandomize=True, database=None, phases=(Phase.generate,))
@given(outage=outages, served=st.integers(0, 99), labelled=st.integers(0, 99))
def test_which_rows_are_complete_does_not_depend_on_their_labels(outage: Outage, served: int, labelled: int) -> None:
    """The same rows through the same outage, with labels drawn twice. Therefore no outage biases the label rate."""
    lives = [lived(outage, rows=80, served=served, labelled=seed) for seed in (labelled, labelled + 100)]
    complete = [dict(read_of(life)["complete"]) for life in lives]
    assert complete[0].keys() == complete[1].keys()
    for life, states in zip(lives, complete, strict=True):
        truth = {row_id.offset: has_label for row_id, has_label in life.truth.items()}
        assert states == {offset: truth[offset] for offset in states}, "a row without doubt has all its labels"


def test_the_label_rate_is_unbiased_over_complete_and_not_over_known_or_all() -> None:
    """Eight outages, each published while it lasts; one row in two has a label."""
    lives = [lived(Outage(("held", "lost")[n % 2], 15 + n, 18 + n), rows=300, served=n, labelled=n) for n in range(8)]
    reads, deviations = [read_of(life) for life in lives], {}
    for labels in KEPT:
        states = [has_label for read in reads for _, has_label in read[labels]]
        deviations[labels] = (sum(states) - 0.5 * len(states)) / (0.25 * len(states)) ** 0.5
    assert abs(deviations["complete"]) < 2.5
    assert deviations["known"] > 5
    assert deviations["all"] < -5


def read_of(life: Lived) -> dict[str, list[tuple[int, bool]]]:
    """Offset, and whether positive, of the rows that a read gives, by its labels."""
    with tempfile.TemporaryDirectory() as folder:
        places = empty_places(Path(folder))
        written(places, life.model)
        reads = {labels: training.read("paper", labels=labels, places=places).rows for labels in KEPT}
        columns = ("_offset", pl.col("label_state") == "positive")
        return {labels: list(rows.select(columns).collect().iter_rows()) for labels, rows in reads.items()}


# ---- the same rows again


def test_a_pin_outlives_rebuilds_and_compaction_and_says_when_vacuum_ended_it(places: Places) -> None:
    model = lived(OUTAGE, rows=100).model
    home = paper_home(places, model.rules)
    writer = Writer(home, seen(home))
    writer.publish_all(model.publications)
    middle = START + 6 * STEP
    early = training.read("paper", end=middle, labels="all", places=places)
    late = training.read("paper", middle, labels="all", places=places)
    before = {pin: found(rows) for rows, pin in (early, late)}

    silent = next(p for p in model.publications if "side_silent" in {row.label_reason for row in p.joined.rows})
    assert silent.plan.interval.end <= middle
    (plan,) = model.plan("rebuild", [silent.plan.interval])
    writer.publish(model.publish(plan))
    path = writer.home.table(Table.TRAINING)
    DeltaTable(path).optimize.compact()
    assert found(training.read("paper", end=middle, labels="all", places=places).rows) != before[early.pin]
    assert {pin: found(training.read_pinned(pin, places=places).rows) for pin in before} == before
    earlier = training.read("paper", end=middle, at=len(model.publications) - 1, labels="all", places=places)
    assert found(earlier.rows) == before[early.pin]

    DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert found(training.read_pinned(late.pin, places=places).rows) == before[late.pin], "its publications stand"
    with pytest.raises(training.RowsGone, match="vacuum"):
        training.read_pinned(early.pin, places=places)


def test_a_pin_of_another_table_is_refused(tmp_path: Path) -> None:
    homes = [empty_places(tmp_path / name) for name in ("one", "other")]
    for seed, places in enumerate(homes):
        written(places, lived(OUTAGE, rows=20, served=seed).model)
    pin = training.read("paper", places=homes[0]).pin
    assert training.read_pinned(pin, places=homes[0]).pin == pin
    with pytest.raises(training.AnotherTable, match="made anew"):
        training.read_pinned(pin, places=homes[1])


# ---- what is read


def test_only_files_of_the_range_are_opened(places: Places) -> None:
    """The files of all other intervals are taken away, and the rows are there all the same."""
    model = lived(OUTAGE, rows=100).model
    home = written(places, model)
    start, end = START + 3 * STEP, START + 5 * STEP
    read = training.read("paper", start, end, labels="all", places=places)
    path = home.table(Table.TRAINING)
    files = pl.DataFrame(DeltaTable(path).get_add_actions(flatten=True))
    others = files.filter((pl.col("max._interval") < start) | (pl.col("min._interval") >= end))
    assert others.height >= 9
    for name in others["path"]:
        (Path(path) / name).unlink()
    wanted = expected(row for row in model.rows if start <= row.event_at < end)
    assert found(read.rows) == wanted
    assert found(training.read("paper", start, end, labels="all", places=places).rows) == wanted


def test_reading_starts_no_jvm_and_imports_no_spark() -> None:
    engines = "{'pyspark', 'py4j', 'great_expectations', 'confluent_kafka'}"
    program = f"import sys, windrow.training; print(sorted({engines} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


# ---- refusals


def test_an_unknown_pipeline_is_named_with_the_known_ones(places: Places) -> None:
    paper_home(places, RULES)
    with pytest.raises(PipelineUnknown, match=r"papr.*paper"):
        training.read("papr", places=places)


def test_a_pipeline_that_has_published_nothing_says_what_to_do(places: Places) -> None:
    paper_home(places, RULES)
    with pytest.raises(training.NotPublished, match="windrow train paper"):
        training.read("paper", places=places)


def test_a_range_with_an_unpublished_interval_lists_it_and_may_be_read_without_it(places: Places) -> None:
    model = lived(OUTAGE, rows=100).model
    home = paper_home(places, model.rules)
    hole = START + 2 * STEP
    kept = [p for p in model.publications if p.plan.interval.start != hole]
    writer = Writer(home, seen(home))
    writer.publish_all(replace(p, number=number) for number, p in enumerate(kept, 1))
    with pytest.raises(training.NotPublished) as refused:
        training.read("paper", places=places)
    message = str(refused.value)
    assert "1 interval of the range" in message
    assert "[2026-11-01T00:10:00Z, 2026-11-01T00:15:00Z)" in message
    assert "whole until end=2026-11-01T00:10:00Z" in message
    assert training.read("paper", end=hole, places=places).rows.collect().height
    without, pin = training.read("paper", labels="all", unpublished="skip", places=places)
    around = expected(row for row in model.rows if not hole <= row.event_at < hole + STEP)
    assert found(without) == around
    with pytest.raises(training.NotPublished, match="00Z, 2026-11-01T02:00:00Z"):
        training.read("paper", hole + STEP, START + 2 * LENGTH, places=places)

    (missing,) = [p for p in model.publications if p.plan.interval.start == hole]
    writer.publish(replace(missing, number=len(kept) + 1))
    assert found(training.read("paper", labels="all", places=places).rows) == expected(model.rows)
    assert found(training.read_pinned(pin, places=places).rows) == around
    earlier = training.read("paper", at=len(kept), labels="all", unpublished="skip", places=places)
    assert found(earlier.rows) == around


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Places:
    places = empty_places(tmp_path_factory.mktemp("small"))
    written(places, lived(OUTAGE, rows=20).model)
    return places


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": "2026-11-01T00:05:00Z", "end": "2026-11-01T00:05:00Z"}, "is not after start"),
        ({"start": "2026-11-01 00:05"}, "start: .*write 2026-11-01 00:05Z"),
        ({"end": "2026-11-01"}, "end: .*write 2026-11-01T00:00:00Z"),
        ({"start": "2026-10-01T00:00:00Z", "end": "2026-10-02T00:00:00Z"}, "begins at 2026-11-01"),
        ({"labels": "positive"}, "labels is 'positive'; it may be complete, known, all"),
        ({"unpublished": "wait"}, "it may be refuse, skip"),
        ({"at": 1000}, "no publication 1000; it has 1 to 12"),
        ({"at": 0}, "no publication 0"),
    ],
)
def test_a_wrong_argument_is_named(small: Places, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(training.WrongRequest, match=message):
        training.read("paper", **arguments, places=small)


def test_a_publication_that_is_not_registered_yet_is_read(places: Places) -> None:
    """A process that was killed between its commit and the register has published all the same (rule 20)."""
    home = written(places, lived(OUTAGE, rows=20).model)
    DeltaTable(home.table(Table.PUBLICATIONS)).delete("number >= 11")
    assert training.read("paper", places=places).pin.publications[-2:] == (11, 12)


def cut_file(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize("act", [cut_file, Path.unlink])
def test_a_damaged_data_file_is_named_before_an_engine_meets_it(act: Callable[[Path], object], places: Places) -> None:
    home = written(places, lived(OUTAGE, rows=20).model)
    pin = training.read("paper", places=places).pin
    table = Path(home.table(Table.TRAINING))
    times = tables.data_files(DeltaTable(str(table))).select(["path", "min._event_time"]).sort_by("min._event_time")
    file, earliest = table / times["path"][-1].as_py(), times["min._event_time"][-1].as_py()
    act(file)
    for read in (lambda: training.read("paper", places=places), lambda: training.read_pinned(pin, places=places)):
        with pytest.raises(training.TableDamaged, match=r"from a backup; or, .*`windrow rebuild paper`") as found:
            read()
        assert str(file) in str(found.value)
    before = grid_around(earliest, home.pipeline.interval)[0]
    assert training.read("paper", end=before, places=places).rows.collect().height  # which does not need the file
