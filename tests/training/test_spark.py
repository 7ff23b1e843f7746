"""Reader and export by Spark give the rows of those by Polars, row by row and column by column."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from support.guide import blocks
from support.training.feed import CLICKED, feed_home, own_life
from support.training.likes_and_buys import likes_and_buys
from support.training.outages import MINUTE, START
from support.training.table import Writer, empty_places, home_of, seen
from windrow import training
from windrow.columns import ROW_ID
from windrow.config import find
from windrow.home import Home
from windrow.io.delta import store
from windrow.jobs.run import Context
from windrow.jobs.upkeep import snapshot
from windrow.outcomes import NothingToDo
from windrow.scenarios.kafka import pipeline_file
from windrow.training.export import ExportDamaged, Manifest, export, verify
from windrow.training.export.manifest import NAME, WORK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READS: tuple[dict[str, Any], ...] = (
    {},
    {"labels": "known", "start": START + 31 * MINUTE, "end": START + 95 * MINUTE},
    {"labels": "all", "at": 7, "delays": True},
    {"negatives": 0.3, "seed": 5},
    {"attribute": "linear", "labels": "all", "negatives": 0.5},
    {"matured": "7m", "labels": "all", "delays": True},
    {"matured": "7m", "attribute": "last_touch"},
)
LABELS = (
    "exists(likes, e -> e._event_time > at)",
    "size(filter(buys, e -> e.value > 0 or e.id is null)) >= 1",
    "case when size(likes) > 1 then true when label_state = 'negative' then false end",
    "coalesce(size(likes) + 0 > 0, false) and key in ('a', 'b')",
)
"""Derived labels of the pipeline with likes and buys: the first and the last are left out by Polars."""


@pytest.mark.spark
@pytest.mark.both_roots
def test_both_readers_read_a_folder_and_a_store(tmp_path: Path, spark: SparkSession, root: str | None) -> None:
    from windrow.training import spark as on_spark
    from windrow.training.export.spark import export as export_by_spark

    places = feed_home(replace(empty_places(tmp_path / "feed"), tables=root)).places
    options: Any = {"start": START + 31 * MINUTE, "end": START + 95 * MINUTE, "negatives": 0.5, "places": places}
    ours, theirs = training.read("feed", **options), on_spark.read(spark, "feed", **options)
    assert ours.rows.collect().height > 50
    _same(ours.rows, theirs.rows)
    _same(training.read_pinned(theirs.pin, places=places).rows, theirs.rows)

    snapshot.take(Context(find("feed", places.pipelines, places.expectations), places), "kept", who="a person")
    options = {"at": "snapshot:kept", "attribute": "linear", "labels": "all", "places": places}
    _same(training.read("feed", **options).rows, on_spark.read(spark, "feed", **options).rows)

    target = f"{root}/out" if root else str(tmp_path / "out")
    manifest = export_by_spark(spark, "feed", target, "parquet", shard_rows=400, places=places)
    assert verify(target) == manifest
    assert {file.name for file in store.listed(target)} == {NAME, *(shard.name for shard in manifest.shards)}


@pytest.mark.spark
def test_both_readers_give_the_same_rows(tmp_path: Path, spark: SparkSession) -> None:
    from windrow.training import spark as on_spark

    feed, paper = feed_home(empty_places(tmp_path / "feed")), _likes_and_buys(tmp_path / "paper")
    for home in (feed, paper):
        name, places, stream = home.pipeline.name, home.places, home.pipeline.label_streams[0].name
        for options in (*READS, {"survival": stream, "labels": "all"}, {"survival": stream, "matured": "9m"}):
            leaves_out = home is paper and "matured" in options
            with pytest.warns(training.LabelLeftOut) if leaves_out else contextlib.nullcontext():
                ours = training.read(name, **options, places=places)
            theirs = on_spark.read(spark, name, **options, places=places)
            assert theirs.pin == ours.pin
            _same(ours.rows, theirs.rows)
        again = on_spark.read_pinned(spark, ours.pin.to_json(), places=places)
        assert again.rows.count() == theirs.rows.count() > 0

    splits: Any = {"parts": {"a": 0.6, "b": 0.4}, "seed": 3, "places": feed.places, "labels": "all"}
    for by, cuts in (("user_id", ()), ("request_id", (START + 120 * MINUTE,))):
        parts = training.split("feed", by=by, cuts=cuts, **splits)
        others = on_spark.split(spark, "feed", by=by, cuts=cuts, **splits)
        for part, read in parts.items():
            assert read.rows.collect().height > 0
            _same(read.rows, others[part].rows)
    with pytest.raises(training.SharedLabels, match=r"label events? of clicks would be in two parts"):
        on_spark.split(spark, "feed", by="request_id", **splits)

    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        with pytest.raises(training.WrongRequest, match=r"spark\.sql\.ansi\.enabled=false"):
            on_spark.read(spark, "feed", matured="5m", places=feed.places)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "false")


def _likes_and_buys(folder: Path) -> Home:
    model = likes_and_buys(1)
    text = pipeline_file(model.rules, "paper")
    (line,) = (line for line in text.splitlines() if line.startswith("labels:"))
    derived = "".join(f', derived_{n}: "{expression}"' for n, expression in enumerate(LABELS))
    home = home_of(empty_places(folder), text.replace(line, f"{line.removesuffix('}')}{derived}}}"))
    labels = {**seen(home), **{f"derived_{n}": lambda row: False for n in range(len(LABELS))}}
    Writer(home, labels).publish_all(model.publications)
    return home


def _same(ours: pl.LazyFrame, theirs: DataFrame) -> None:
    """Polars may leave out derived labels that it cannot compute; everything else is equal to the bit."""
    frame, other = ours.collect().sort(ROW_ID), pl.from_arrow(theirs.toArrow())
    assert isinstance(other, pl.DataFrame)
    missing = [name for name in other.columns if name not in frame.columns]
    assert all(name.startswith("derived_") for name in missing)
    assert_frame_equal(other.drop(missing).sort(ROW_ID), frame, check_exact=True)


@pytest.mark.spark
def test_the_blocks_of_the_guide_run(
    feed: Home, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDROW_HOME", str(feed.places.home))
    monkeypatch.setenv("WINDROW_TABLES", "")
    found = [block for block in blocks() if block.kind.endswith("spark")]
    for block in found:
        block.run({}, tmp_path)
    assert len(found) == 2
    assert verify(str(tmp_path / "november")).asked["spark"]


# ---- export


def files(target: Path) -> list[Path]:
    return sorted(path for path in target.iterdir() if path.name.startswith("part-"))


def exported(target: Path) -> pl.DataFrame:
    """Rows of a Parquet export, in the order of its files."""
    found = pl.from_arrow(pa.concat_tables(pq.read_table(path) for path in files(target)))
    assert isinstance(found, pl.DataFrame)
    return found


@pytest.mark.spark
@pytest.mark.parametrize(
    "options",
    [
        {"labels": "all"},
        {"shuffle": 3, "negatives": 0.3, "attribute": "linear"},
        {"columns": ["clicked", "clicks", "user_id"], "start": START, "end": START + 60 * MINUTE},
    ],
    ids=["served", "shuffled", "columns"],
)
def test_both_exports_have_the_same_rows_in_the_same_order(
    feed: Home, tmp_path: Path, spark: SparkSession, options: dict[str, Any]
) -> None:
    from windrow.training.export import spark as on_spark

    ours = export("feed", tmp_path / "ours", "parquet", places=feed.places, shard_rows=100, **options)
    theirs = on_spark.export(
        spark, "feed", tmp_path / "theirs", "parquet", places=feed.places, shard_rows=100, **options
    )
    assert ours.rows > 150
    assert_frame_equal(exported(tmp_path / "theirs"), exported(tmp_path / "ours"), check_exact=True)
    assert (theirs.pin, theirs.columns, theirs.rows) == (ours.pin, ours.columns, ours.rows)
    assert verify(str(tmp_path / "theirs")) == theirs
    assert theirs.asked == {**ours.asked, "spark": True}
    sizes = [shard.rows for shard in theirs.shards]
    assert max(sizes) <= 100
    assert min(sizes[:-1]) > 70, "a shard is smaller than its size by about one slot"
    with pytest.raises(NothingToDo, match="holds this export"):
        on_spark.export(spark, "feed", tmp_path / "theirs", "parquet", places=feed.places, shard_rows=100, **options)


@pytest.mark.spark
def test_a_killed_export_by_spark_goes_on_to_the_same_bytes(tmp_path: Path, spark: SparkSession) -> None:
    """A worker is killed after its first shard, and the table changes before the next try."""
    from windrow.training.export import spark as on_spark

    home = feed_home(empty_places(tmp_path / "feed"))

    def run(target: Path) -> Manifest:
        return on_spark.export(spark, "feed", target, "arrow", places=home.places, shuffle=1, shard_rows=150)

    whole = run(tmp_path / "whole")
    target = tmp_path / "broken"
    workers = spark.sparkContext.environment
    workers["CRASH_AT"] = "export.after_shard"
    try:
        with pytest.raises(Exception, match="Python worker exited unexpectedly"):
            run(target)
    finally:
        del workers["CRASH_AT"]
    kept = {path.name: path.stat().st_mtime_ns for path in files(target)}
    assert 0 < len(kept) < len(whole.shards)
    with pytest.raises(ExportDamaged, match="not finished"):
        verify(str(target))
    model = own_life()
    (plan,) = model.plan("rebuild", [model.publications[3].plan.interval])
    Writer(home, CLICKED).publish(model.publish(plan))

    assert run(target) == whole
    assert verify(str(target)) == whole
    assert {path.name: path.stat().st_mtime_ns for path in files(target) if path.name in kept} == kept
    assert [path.read_bytes() for path in files(target)] == [path.read_bytes() for path in files(tmp_path / "whole")]


@pytest.mark.spark
def test_an_export_by_spark_of_other_rows_than_were_counted_is_refused(
    feed: Home, tmp_path: Path, spark: SparkSession
) -> None:
    from windrow.training.export import spark as on_spark

    options: Any = {"places": feed.places, "shard_rows": 100}
    on_spark.export(spark, "feed", tmp_path / "a", "parquet", **options)
    manifest = json.loads((tmp_path / "a" / NAME).read_text())
    (tmp_path / "a" / NAME).unlink()
    begun, records = tmp_path / "a" / WORK / "begun.json", tmp_path / "a" / f"{WORK}-shards"
    for folder in (begun.parent, records):
        folder.mkdir()
    begun.write_text(json.dumps({"asked": manifest["asked"], "pin": json.dumps(manifest["pin"]), "rows_at_once": 100}))
    for n, shard in enumerate(manifest["shards"]):
        (records / f"{n:06d}.json").write_text(json.dumps([*(shard | {"rows": shard["rows"] - (n == 1)}).values()]))
    with pytest.raises(ExportDamaged, match=r"rows in .* files were written, and the read has"):
        on_spark.export(spark, "feed", tmp_path / "a", "parquet", **options)
