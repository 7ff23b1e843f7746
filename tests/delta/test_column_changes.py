"""A type that changes in the pipeline file after something was landed is refused before anything is done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from support.small_pipeline import PIPELINE, event, made
from support.world import World
from windrow.config import parse
from windrow.home import Home, Table
from windrow.io import origins
from windrow.io.column_changes import OriginsChanged, TypesChanged, require_unchanged
from windrow.places import PROJECT, Places

COLUMNS = "{id: string, k: bigint, t: timestamp}"
INSTANT = pa.timestamp("us", tz="UTC")
EVENT = {"id": pa.string(), "k": pa.int64(), "t": INSTANT}


def home_of(tmp_path: Path, text: str) -> Home:
    return Home(parse(text.replace("{t}.", "")), Places.from_env({"WINDROW_HOME": str(tmp_path)}))


def written(home: Home, served: Mapping[str, Any] = EVENT, likes: Mapping[str, Any] = EVENT) -> None:
    """Tables of the pipeline, without rows."""
    training = {**served, "likes": pa.list_(pa.struct(list(likes.items()))), "liked": pa.bool_()}
    tables = ((home.landing("served"), served), (home.landing("likes"), likes), (home.table(Table.TRAINING), training))
    for path, columns in tables:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_deltalake(path, pa.schema(list(columns.items())).empty_table())


def test_what_was_written_under_the_file_is_unchanged(tmp_path: Path) -> None:
    home = home_of(tmp_path, PIPELINE)
    require_unchanged(home)
    written(home)
    require_unchanged(home)
    more = PIPELINE.replace(COLUMNS, "{id: string, k: bigint, t: timestamp, added: 'array<double>'}", 1)
    require_unchanged(home_of(tmp_path, more))
    without = PIPELINE.replace(COLUMNS, "{k: bigint, t: timestamp}")
    assert without.count("id: string") == 0
    require_unchanged(home_of(tmp_path, without))


def test_every_changed_type_is_named_with_table_column_was_and_is(tmp_path: Path) -> None:
    nested = pa.list_(pa.struct([("price", pa.float32()), ("n", pa.int32())]))
    written(home_of(tmp_path, PIPELINE), {**EVENT, "Amount": pa.int32(), "parts": nested}, EVENT)
    now = "{id: string, k: bigint, t: timestamp, amount: bigint, parts: 'array<struct<n:int,price:double,new:int>>'}"
    changed = PIPELINE.replace(COLUMNS, now, 1).replace(
        "likes\n    columns: {id: string", "likes\n    columns: {id: date"
    )
    assert changed.count("id: date") == 1
    with pytest.raises(TypesChanged) as refused:
        require_unchanged(home_of(tmp_path, changed))
    assert sorted(map(tuple, refused.value.changes)) == [
        ("landing/likes", "id", "string", "date"),
        ("landing/served", "amount", "int", "bigint"),
        ("landing/served", "parts[].price", "float", "double"),
        ("training", "amount", "int", "bigint"),
        ("training", "likes[].id", "string", "date"),
        ("training", "parts[].price", "float", "double"),
    ]
    assert "\n  landing/served  parts[].price  float   double\n" in str(refused.value)


IN_HEADER = PIPELINE.replace(COLUMNS, "{id: string, $header.k: bigint, t: timestamp}", 1)
IN_KEY = PIPELINE.replace(
    f"columns: {COLUMNS}", "key_format: long\n  columns: {id: string, $key.k: bigint, t: timestamp}", 1
)
WITH_ENVELOPE = {**EVENT, "_raw_envelope": pa.struct([("key", pa.binary())])}


def kept(home: Home) -> None:
    """Record the origins of the served topic, as landing does."""
    origins.keep(DeltaTable(home.landing("served")), home.pipeline, "served")


@pytest.mark.parametrize(
    ("before", "after", "was", "now"),
    [
        (PIPELINE, IN_HEADER, "value", "$header.k"),
        (PIPELINE, IN_KEY, "value", "$key.k"),
        (IN_HEADER, PIPELINE, "$header.k", "value"),
        (IN_KEY, IN_HEADER, "$key.k", "$header.k"),
    ],
)
def test_a_column_keeps_its_origin(tmp_path: Path, before: str, after: str, was: str, now: str) -> None:
    home = home_of(tmp_path, before)
    written(home, EVENT if before == PIPELINE else WITH_ENVELOPE)
    kept(home)
    require_unchanged(home)
    with pytest.raises(OriginsChanged) as refused:
        require_unchanged(home_of(tmp_path, after))
    assert list(map(tuple, refused.value.changes)) == [("landing/served", "k", was, now)]
    assert "Put the old origin back" in str(refused.value)


def test_a_column_that_was_left_out_for_a_while_keeps_its_origin_and_a_new_one_has_any(tmp_path: Path) -> None:
    written(home_of(tmp_path, IN_HEADER), WITH_ENVELOPE)
    kept(home_of(tmp_path, IN_HEADER))
    without = IN_HEADER.replace("$header.k: bigint, ", "").replace("key: [k]", "key: [id]")
    kept(home_of(tmp_path, without))
    with pytest.raises(OriginsChanged):
        require_unchanged(home_of(tmp_path, PIPELINE))
    require_unchanged(home_of(tmp_path, IN_HEADER.replace("$header.k", "$header.k: bigint, $header.another")))


def test_tables_of_earlier_releases_have_no_record_and_get_it_with_the_next_batch(tmp_path: Path) -> None:
    written(home_of(tmp_path, PIPELINE))
    require_unchanged(home_of(tmp_path, PIPELINE))
    with pytest.raises(OriginsChanged):  # without keys and headers of bad records, none of its columns is of these
        require_unchanged(home_of(tmp_path, IN_HEADER))
    other = tmp_path / "with_envelope"
    written(home_of(other, IN_HEADER), WITH_ENVELOPE)
    require_unchanged(home_of(other, IN_KEY))  # nobody knows
    kept(home_of(other, IN_HEADER))
    with pytest.raises(OriginsChanged):
        require_unchanged(home_of(other, IN_KEY))


def test_check_and_landing_refuse_it_before_spark_starts(tmp_path: Path) -> None:
    written(home_of(tmp_path, PIPELINE))
    (tmp_path / "pipelines").mkdir()
    file = tmp_path / "pipelines" / "small.yaml"
    file.write_text(PIPELINE.replace("{t}.", "").replace("k: bigint", "k: int"))
    env = {**os.environ, "WINDROW_HOME": str(tmp_path), "WINDROW_KAFKA": "127.0.0.1:9", "WINDROW_WITHOUT_SPARK": "1"}
    windrow = Path(sys.executable).with_name("windrow")
    job = [sys.executable, PROJECT / "spark_jobs" / "run_job.py"]
    for command in ([windrow, "pipeline", "check", file], [windrow, "land", "small"], [*job, "land", "small"]):
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2, done.stderr
        assert "landing/served  k          bigint  int" in done.stderr
        assert "training        likes[].k  bigint  int" in done.stderr


def test_a_widened_table_is_one_that_other_readers_refuse(tmp_path: Path) -> None:
    """The reason for refusing: once this fails, types can be widened in place (docs/ARCHITECTURE.md)."""
    write_deltalake(tmp_path / "t", pa.table({"a": pa.array([1], pa.int32())}))
    log = tmp_path / "t" / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    [meta] = [action for action in actions if "metaData" in action]
    schema = json.loads(meta["metaData"]["schemaString"])
    schema["fields"][0] |= {
        "type": "long",
        "metadata": {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]},
    }
    meta["metaData"]["schemaString"] = json.dumps(schema)
    meta["metaData"]["configuration"]["delta.enableTypeWidening"] = "true"
    features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening", "appendOnly", "invariants"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    (log / f"{1:020}.json").write_text("\n".join(json.dumps(action) for action in (protocol, meta)))
    for read in (lambda: DeltaTable(tmp_path / "t").to_pyarrow_table(), lambda: pl.read_delta(str(tmp_path / "t"))):
        with pytest.raises(Exception, match="typeWidening"):
            read()


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_a_label_of_another_type_is_refused_before_a_candidate_is_written(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event(topic, 0, n) for topic in ("served", "likes") for n in (5, 70, 400)])
    world.land(ctx)
    assert len(world.train(ctx)) == 1
    world.produce([event(topic, 0, n) for topic in ("served", "likes") for n in (410, 900)])
    world.land(ctx)
    before = DeltaTable(ctx.home.table(Table.CANDIDATES)).version()
    changed = world.pipeline(PIPELINE.replace("size(likes) > 0", "cast(size(likes) as double)"), now=ctx.now())
    with pytest.raises(TypesChanged, match=r"training +liked +boolean +double"):
        world.train(changed, "changed")
    assert DeltaTable(ctx.home.table(Table.CANDIDATES)).version() == before
