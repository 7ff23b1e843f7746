"""Exports: the rows of a read, once and in order, in files that other libraries read; a kill changes no byte."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from support.command import Done, windrow
from support.training.feed import CLICKED, INTERVAL, feed_home, own_life
from support.training.outages import START
from support.training.table import Writer, empty_places, erase_key
from windrow import training
from windrow.cli import app
from windrow.columns import ROW_ID, ROW_ORDER
from windrow.home import Home
from windrow.io.delta import crash_points, store
from windrow.io.registers import exports
from windrow.outcomes import NothingToDo
from windrow.places import PROJECT, Places
from windrow.semantics.intervals import Interval, micros
from windrow.text import instant_text
from windrow.training.export import ExportDamaged, Manifest, TargetInUse, TargetTaken, export, verify
from windrow.training.export.manifest import NAME, WORK
from windrow.training.export.order import pieces

HOUR = {"start": START, "end": START + 6 * INTERVAL}


def read(feed: Home, **options: Any) -> pl.DataFrame:
    return training.read("feed", places=feed.places, **options).rows.sort(ROW_ORDER).collect()


def files(target: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(target.iterdir())}


def rows_of(target: Path) -> pl.DataFrame:
    """Rows of a Parquet or Arrow export, in its order."""
    parts = [path for path in sorted(target.iterdir()) if path.name != NAME]
    tables = [pq.read_table(p) if p.suffix == ".parquet" else pa.ipc.open_file(p).read_all() for p in parts]
    found = pl.from_arrow(pa.concat_tables(tables))
    assert isinstance(found, pl.DataFrame)
    return found


OPTIONS: Sequence[dict[str, Any]] = (
    {},
    {"labels": "all", "at": 9},
    {"negatives": 0.3, "seed": 5},
    {"attribute": "linear", "labels": "all"},
    {"attribute": "last_touch", **HOUR},
    {"matured": "7m", "delays": True, "labels": "known"},
    {"survival": "clicks", "labels": "all"},
)


@pytest.mark.parametrize(
    "options", OPTIONS, ids=("plain", "all", "sample", "linear", "last_touch", "matured", "survival")
)
def test_an_export_has_the_rows_of_the_read_in_served_order(
    feed: Home, tmp_path: Path, options: dict[str, Any]
) -> None:
    rows, pin = training.read("feed", places=feed.places, **options)
    wanted = rows.sort(ROW_ORDER).collect()
    assert wanted.height > 100
    manifest = export("feed", tmp_path, "parquet", places=feed.places, shard_rows=70, rows_at_once=50, **options)
    assert_frame_equal(rows_of(tmp_path), wanted)
    assert [shard.rows for shard in manifest.shards] == [70] * (wanted.height // 70) + [wanted.height % 70]
    assert list(manifest.columns) == wanted.columns
    assert training.Pin.from_json(json.dumps(manifest.pin)) == pin
    assert verify(str(tmp_path)) == manifest


@pytest.mark.both_roots
def test_tables_and_target_may_be_in_a_store(tmp_path: Path, root: str | None) -> None:
    home = feed_home(replace(empty_places(tmp_path / "feed"), tables=root and f"{root}/tables"))
    target = f"{root}/out" if root else str(tmp_path / "out")
    if root:
        store.create(f"{root}/other/{WORK}", b"another machine")
        with pytest.raises(TargetTaken, match="another machine has begun an export"):
            export("feed", f"{root}/other", "arrow", places=home.places)
    manifest = export("feed", target, "arrow", places=home.places, shuffle=1, shard_rows=300, rows_at_once=200)
    assert verify(target) == manifest
    assert manifest.rows == read(home).height
    first = manifest.shards[0].name
    assert {file.name for file in store.listed(target)} == {NAME, *(shard.name for shard in manifest.shards)}
    store.put(str(_file(tmp_path, store.read(f"{target}/{first}")[:-1])), f"{target}/{first}")
    with pytest.raises(ExportDamaged, match=f"{first} has .* bytes"):
        verify(target)


def _file(folder: Path, content: bytes) -> Path:
    (folder / "changed").write_bytes(content)
    return folder / "changed"


# ---- order


def test_a_shuffle_is_the_same_for_every_size_of_its_parts(feed: Home, tmp_path: Path) -> None:
    wanted = read(feed, labels="all")
    for n, rows_at_once in enumerate((37, 200, 10**6)):
        target = tmp_path / str(n)
        export(
            *("feed", target, "parquet"), labels="all", places=feed.places, shuffle=4, shard_rows=128,
            rows_at_once=rows_at_once,
        )  # fmt: skip
    found = files(tmp_path / "0")
    assert found == files(tmp_path / "1") == files(tmp_path / "2")
    shuffled = rows_of(tmp_path / "0")
    assert_frame_equal(shuffled.sort(ROW_ORDER), wanted)
    export("feed", tmp_path / "other", "parquet", labels="all", places=feed.places, shuffle=5)
    assert not rows_of(tmp_path / "other").equals(shuffled)

    ranks = pl.DataFrame({"place": range(wanted.height), "time": shuffled["_event_time"].rank()})
    assert abs(ranks.select(pl.corr("place", "time")).item()) < 4 / wanted.height**0.5
    ids = {tuple(row): n for n, row in enumerate(wanted.select(ROW_ID).rows())}
    order = [ids[row] for row in shuffled.select(ROW_ID).rows()]
    neighbours = sum(abs(one - other) == 1 for one, other in pairwise(order))
    assert neighbours < 12


@settings(deadline=None)
@given(st.lists(st.integers(0, 900), min_size=1, max_size=12), st.integers(1, 400), st.integers(0, 600))
def test_pieces_are_the_range_and_have_at_most_so_many_rows(counts: list[int], most: int, into: int) -> None:
    """Of evenly spread rows; one microsecond each."""
    length = timedelta(minutes=10)
    rows = [(Interval(START + n * length, START + (n + 1) * length), count) for n, count in enumerate(counts)]
    whole = Interval(START + timedelta(seconds=into - 1), rows[-1][0].end)
    found = pieces(rows, whole, most)
    assert [found[0].start, *(piece.end for piece in found)] == [*(piece.start for piece in found), whole.end]
    for piece in found:
        shares = (max(timedelta(0), min(piece.end, i.end) - max(piece.start, i.start)) / length * n for i, n in rows)
        assert sum(shares) <= most + 1


def test_chosen_columns_come_in_their_order(feed: Home, tmp_path: Path) -> None:
    columns = ["clicked", "user_id"]
    export("feed", tmp_path / "a", "parquet", columns=columns, places=feed.places, **HOUR)
    assert_frame_equal(rows_of(tmp_path / "a"), read(feed, **HOUR).select(columns))
    export("feed", tmp_path / "b", "parquet", columns=columns, shuffle=1, places=feed.places, **HOUR)
    assert rows_of(tmp_path / "b").columns == columns
    with pytest.raises(training.WrongRequest, match="columns: no 'price' in the rows; they have"):
        export("feed", tmp_path / "c", "parquet", columns=["price"], places=feed.places)


# ---- other libraries


def test_tfrecords_are_read_by_their_library(feed: Home, tmp_path: Path) -> None:
    from tfrecord.reader import tfrecord_loader

    export("feed", tmp_path, "tfrecord", places=feed.places, shard_rows=150, **HOUR)
    wanted = read(feed, **HOUR)
    paths = sorted(tmp_path.glob("*.tfrecord"))
    found = [example for path in paths for example in tfrecord_loader(str(path), None)]
    assert len(found) == wanted.height
    for example, row in zip(found, wanted.to_dicts(), strict=True):
        assert (example["user_id"], example["clicked"]) == (row["user_id"], int(row["clicked"]))
        assert example["_event_time"] == micros(row["_event_time"])
        assert bytes(example["label_state"]).decode() == row["label_state"]
        assert "label_reason" not in example, "null"
        assert example["features"].tolist() == pl.Series(row["features"], dtype=pl.Float32).to_list()
        offsets = example["clicks/_offset"]
        assert [int(n) for n in [*offsets]] == [click["_offset"] for click in row["clicks"]] or len(row["clicks"]) == 1
    assert sum(len(row["clicks"]) for row in wanted.to_dicts()) > 10


def test_webdatasets_are_read_by_their_library(feed: Home, tmp_path: Path) -> None:
    import webdataset

    export("feed", tmp_path, "webdataset", places=feed.places, shard_rows=150, **HOUR)
    wanted = read(feed, **HOUR)
    paths = [str(path) for path in sorted(tmp_path.glob("*.tar"))]
    found = [sample["json"] for sample in webdataset.WebDataset(paths, shardshuffle=False).decode()]
    assert len(paths) > 1
    assert [row["_offset"] for row in found] == wanted["_offset"].to_list()
    for row, whole in zip(found, wanted.to_dicts(), strict=True):
        assert row["_event_time"] == instant_text(whole["_event_time"])
        assert (row["features"], row["label_reason"]) == (whole["features"], None)
        assert [click["_offset"] for click in row["clicks"]] == [click["_offset"] for click in whole["clicks"]]


def test_hugging_face_reads_parquet_and_arrow(feed: Home, tmp_path: Path) -> None:
    import datasets

    wanted = read(feed, **HOUR)
    for format in ("parquet", "arrow"):
        export("feed", tmp_path / format, format, places=feed.places, shard_rows=150, **HOUR)
        files = [str(path) for path in sorted((tmp_path / format).glob(f"*.{format}"))]
        stream = datasets.load_dataset(format, data_files=files, split="train", streaming=True, cache_dir=str(tmp_path))
        assert [row["_offset"] for row in stream] == wanted["_offset"].to_list()


# ---- killed, resumed, refused


@pytest.mark.parametrize("options", [["--format", "webdataset"], ["--shuffle", "3"]], ids=["served", "shuffled"])
def test_a_killed_export_goes_on_to_the_same_bytes(tmp_path: Path, options: list[str]) -> None:
    """Killed at each point, and once more with another publication in between; the rows are those it began with."""
    home = feed_home(empty_places(tmp_path / "feed"))
    arguments = ["export", "feed", *options, "--shard-rows", "400", "--labels", "all"]
    environ = {"WINDROW_HOME": str(home.places.home), "WINDROW_TABLES": ""}

    def run(target: Path) -> Done:
        return windrow(environ, *arguments, "--to", str(target))

    def killed(target: Path, point: str) -> bool:
        """In a process of its own, which dies there."""
        command = [sys.executable, "-c", "from windrow.cli import main; main()", *arguments, "--to", str(target)]
        env = {**os.environ, **environ, "CRASH_AT": point}
        source = PROJECT / "spark_jobs"  # the code of this test, and not that of the environment
        done = subprocess.run(command, cwd=source, env=env, capture_output=True, text=True, timeout=120)
        return done.returncode == -signal.SIGKILL

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run(whole).returncode == 0
    before = files(whole)
    assert len(before) > 3
    for point in (*crash_points.EXPORT_POINTS, crash_points.EXPORT_POINTS[1]):
        assert killed(broken, point)
    with pytest.raises(ExportDamaged, match="not finished"):
        verify(str(broken))
    assert len(list(broken.glob("part-*"))) == 2
    assert {Path(one["location"]): one["rows"] is None for one in exports.listed(home)} == {whole: False, broken: True}
    with (broken / WORK / "journal").open("ab") as journal:
        journal.write(b'[["part-0')  # a kill in the middle of a line
    model = own_life()
    (plan,) = model.plan("rebuild", [model.publications[3].plan.interval])
    Writer(home, CLICKED).publish(model.publish(plan))

    done = run(broken)
    assert done.returncode == 0, done.stderr
    assert files(broken) == before
    again = run(broken)
    assert (again.returncode, "holds this export" in again.stderr + again.stdout) == (10, True)
    assert len({one["rows"] for one in exports.listed(home)}) == 1

    late = tmp_path / "late"
    assert killed(late, crash_points.EXPORT_POINTS[1])
    erase_key(home, ["user_id"], datetime(2026, 11, 2, tzinfo=UTC))
    refused = run(late)
    assert (refused.returncode, "keys of feed were erased since the export to" in refused.stderr) == (2, True)


def test_a_place_that_holds_something_else_is_refused(feed: Home, tmp_path: Path) -> None:
    def again(target: Path = tmp_path / "a", **options: Any) -> Manifest:
        return export("feed", target, "parquet", places=feed.places, **{**HOUR, **options})

    again()
    with pytest.raises(NothingToDo, match="holds this export"):
        again()
    with pytest.raises(TargetTaken, match="holds another export"):
        again(labels="all")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/notes.txt").write_text("mine")
    with pytest.raises(TargetTaken, match=r"is not empty \(notes.txt\)"):
        again(tmp_path / "b")
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["notes.txt"]
    (tmp_path / "c" / WORK).mkdir(parents=True)
    with FileLock(str(tmp_path / "c" / WORK / "lock")), pytest.raises(TargetInUse, match="another process exports"):
        again(tmp_path / "c")
    with pytest.raises(training.WrongRequest, match="format is 'csv'; it may be parquet, arrow"):
        export("feed", tmp_path / "d", "csv", places=feed.places)  # type: ignore[arg-type]


@pytest.mark.parametrize("format", ["parquet", "arrow", "tfrecord", "webdataset"])
def test_a_check_finds_what_was_changed(feed: Home, tmp_path: Path, format: Any) -> None:
    manifest = export("feed", tmp_path, format, places=feed.places, shard_rows=200, **HOUR)
    assert verify(str(tmp_path)) == manifest
    first, second = (tmp_path / shard.name for shard in manifest.shards[:2])
    content = first.read_bytes()
    first.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
    second.rename(tmp_path / "part-x")
    with pytest.raises(ExportDamaged) as found:
        verify(str(tmp_path))
    text = str(found.value)
    assert f"{first.name} was changed" in text
    assert f"{second.name} is missing" in text
    assert "part-x is not in the manifest" in text


def test_rows_are_counted_by_the_files_and_not_by_the_manifest(feed: Home, tmp_path: Path) -> None:
    for format in ("parquet", "arrow", "tfrecord", "webdataset"):
        manifest = export("feed", tmp_path / format, format, places=feed.places, shard_rows=200, **HOUR)
        text = (tmp_path / format / NAME).read_text()
        (tmp_path / format / NAME).write_text(text.replace('"rows": 200', '"rows": 199', 1))
        with pytest.raises(ExportDamaged, match=f"{manifest.shards[0].name} has 200 rows, and 199 were written"):
            verify(str(tmp_path / format))


def test_the_command_exports_and_checks(feed: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDROW_HOME", str(feed.places.home))
    monkeypatch.setenv("WINDROW_TABLES", "")

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["export", *arguments])
        return f"{done.output}{done.exception or ''}"

    target, first, last = str(tmp_path / "out"), instant_text(HOUR["start"]), instant_text(HOUR["end"])
    text = run("feed", "--to", target, "--from", first, "--until", last, "--columns", "user_id, clicked", "--at", "20")
    wanted = read(feed, **HOUR, at=20).select("user_id", "clicked")
    assert f"{target} is complete: {wanted.height} rows in 1 file" in text
    assert_frame_equal(rows_of(tmp_path / "out"), wanted)
    (known,) = exports.listed(feed)
    assert (known["location"], known["rows"]) == (target, wanted.height)
    assert known["range_start"] <= HOUR["start"] < HOUR["end"] <= known["range_end"]
    assert f"{target} is as it was written" in run("--verify", target)
    assert "needs PIPELINE and --to PATH" in run("feed")
    assert "--verify needs nothing else" in run("feed", "--verify", target)
    assert "format is 'csv'" in run("feed", "--to", f"{target}2", "--format", "csv")
    assert "holds another export" in run("feed", "--to", target, "--from", first)
    assert [(one["location"], one["rows"]) for one in exports.listed(feed)] == [(target, wanted.height)]


def test_a_pipeline_that_is_not_there_leaves_nothing_behind(places: Places, tmp_path: Path) -> None:
    with pytest.raises(training.NotPublished):
        export("feed", tmp_path / "out", "parquet", places=replace(places, pipelines=feed_pipelines()))
    assert not (tmp_path / "out" / WORK).exists()


def feed_pipelines() -> tuple[Path, ...]:
    from support.training.feed import FILE

    return (FILE.parent,)
