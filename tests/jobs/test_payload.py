"""Candidates are the same whether Spark reads the payload or Python workers take it from the landing files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from support.copies import copied
from windrow.columns import LANDING_TYPES, PLAN, ROW_ORDER
from windrow.config import parse
from windrow.home import Table
from windrow.io.delta import store, tables
from windrow.io.delta.files import DataFile
from windrow.io.landing import batches
from windrow.io.registers import clocks, erasures, publications
from windrow.io.training import candidates, inputs, maintenance, payload, shares
from windrow.io.training.ways import LARGE, MANY, MOST_READINGS, VARIABLE, by_files, wants_files
from windrow.jobs.causes import known_cause
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import record
from windrow.jobs.publish import publish
from windrow.jobs.run import Context
from windrow.outcomes import BadInput
from windrow.places import Places
from windrow.semantics.erasure.keys import hash_of
from windrow.semantics.intervals import Interval, intervals_between
from windrow.semantics.plan import Plan
from windrow.transforms.join import interval_of

pytestmark = pytest.mark.spark

START = datetime(2026, 11, 1, tzinfo=UTC)
LENGTH = timedelta(seconds=20)
SPAN = 4
"""Intervals; nothing is served in the last one."""
SERVED = {
    "user": "bigint",
    "Text": "string",
    "flag": "boolean",
    "tiny": "tinyint",
    "small": "smallint",
    "whole": "int",
    "half": "float",
    "real": "double",
    "cents": "decimal(5,2)",
    "money": "decimal(15,2)",
    "huge": "decimal(38,10)",
    "day": "date",
    "at": "timestamp",
    "bytes": "binary",
    "xs": "array<float>",
    "counts": "map<string,int>",
    "ctx": "struct<a:int,b:array<struct<c:string,d:timestamp>>>",
    "added": "string",
    "kind": "string",
    "id": "string",
}
LATER = {"added"}
"""Columns that joined after the first landing; `ctx.b[].d` is one, too."""
RIGHT = {"user": "bigint", "at": "timestamp", "id": "string", "price": "decimal(5,2)"}
PIPELINE = f"""\
name: wide
start: 2026-11-01T00:00:00Z
interval: 20s
left: {{name: served, topic: served, where: "kind = 'shown'", columns: {json.dumps(SERVED)},
  key: [user], event_time: at, event_id: id, out_of_orderness: 0s}}
right:
  - {{name: clicks, role: label, topic: labels, window: {{before: 5s, after: 15s}}, columns: {json.dumps(RIGHT)},
      key: [user], event_time: at, event_id: id, out_of_orderness: 0s}}
  - {{name: last, role: label, topic: labels, window: {{before: 0s, after: 9s}}, columns: {json.dumps(RIGHT)},
      key: [user], event_time: at, out_of_orderness: 0s, take: last}}
  - {{name: near, role: feature, topic: features, window: {{before: 9s, after: 9s}}, columns: {json.dumps(RIGHT)},
      key: [user], event_time: at, out_of_orderness: 0s, join: inner}}
grace: 0s
idle: {{mode: wait}}
labels:
  clicked: "size(clicks) > 0"
  dear: "size(clicks) > 0 and CTX.a > 10"
  worth: "try_divide(money, whole)"
"""
WAYS = ("spark", "files")


@pytest.fixture(scope="module")
def landed_home(spark: Any, session_places: Places, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which all is landed, once; tests copy it."""
    home = tmp_path_factory.mktemp("wide") / "home"
    landing(spark, replace(session_places, home=home))
    return home


@pytest.fixture
def ctx(spark: Any, places: Places, landed_home: Path) -> Context:
    """A pipeline with landed rows of every type."""
    copied(landed_home, places)
    return context(places)


def context(places: Places) -> Context:
    return Context(parse(PIPELINE, expectations=places.expectations), places, lambda: START + timedelta(hours=1))


def landing(spark: Any, places: Places) -> Context:
    """Land three batches of served rows, the first without later columns, and one of each other topic."""
    made = context(places)
    older = spark.sql(served(0, 300)).drop(*LATER).withColumn("ctx", _without_d())
    land(older, made, "served", 1, files=2)
    land(spark.sql(served(300, 420)), made, "served", 2, files=3)
    land(spark.sql(served(420, 440)), made, "served", 3, files=1)  # behind the pin
    for topic in ("labels", "features"):
        land(spark.sql(engaged(topic, 400)), made, topic, 1, files=2)
    clocks.record(made.home, 0, [clock_row(topic, 2 if topic == "served" else 1) for topic in made.pipeline.topics])
    return made


def _without_d() -> Any:
    from pyspark.sql import functions as F

    return F.struct(F.col("ctx.a").alias("a"), F.transform("ctx.b", lambda b: F.struct(b["c"].alias("c"))).alias("b"))


def served(begin: int, end: int) -> str:
    """Rows with these numbers, not in the order of their times; some are quarantined, keyless, filtered or repeated."""
    values = [f"cast(if(id % 17 = 0, null, {_VALUES[name]}) as {kind}) as `{name}`" for name, kind in SERVED.items()]
    return f"""
    select timestamp_millis({_millis()} + pmod(id * 7919, 60000)) as _event_time, 'served' as _topic, 0 as _epoch,
      cast(id % 2 as int) as _partition, id as _offset, timestamp_millis({_millis()} + 70000 + id) as _arrived_at,
      timestamp_millis({_millis()} + 60000) as _record_at,
      if(id % 17 = 0, 'malformed', null) as _quarantined, if(id % 17 = 0, cast('raw' as binary), null) as _raw,
      {", ".join(values)}
    from range({begin}, {end})"""


_VALUES = {
    "user": "if(id % 13 = 0, null, id % 29)",
    "Text": "if(id % 3 = 0, null, concat('t', id % 5))",
    "flag": "id % 2 = 0",
    "tiny": "cast(id % 100 as tinyint)",
    "small": "cast(-id as smallint)",
    "whole": "cast(if(id % 11 = 0, null, id % 4) as int)",
    "half": "cast(if(id % 31 = 0, 'NaN', id / 7) as float)",
    "real": "cast(if(id % 37 = 0, '-0.0', id / 3) as double)",
    "cents": "cast(id / 100 as decimal(5,2))",
    "money": "cast(id * 1000003 / 100 as decimal(15,2))",
    "huge": "id * 1000000000000000",
    "day": "date_add(date'1969-12-30', cast(id % 9 as int))",
    "at": "timestamp_micros(id - 100)",
    "bytes": "if(id % 4 = 0, null, unhex(hex(id)))",
    "xs": "case id % 4 when 0 then null when 1 then array() else array(cast(id as float), null) end",
    "counts": "case id % 4 when 0 then null when 1 then map() else map('a', cast(id as int), 'b', null) end",
    "ctx": "if(id % 5 = 0, null, named_struct('a', cast(id as int), 'b', if(id % 7 = 0, null,"
    " array(named_struct('c', concat('c', id), 'd', timestamp_micros(id)), null))))",
    "added": "concat('added ', id)",
    "kind": "if(id % 19 = 0, 'hidden', 'shown')",
    "id": "concat('e', id - if(id % 23 = 0, 1, 0))",
}


def engaged(topic: str, count: int) -> str:
    """Engagements of the same users, some without a price; a label in ten is quarantined."""
    return f"""
    select timestamp_millis({_millis()} + pmod(id * 104729, 75000)) as _event_time, '{topic}' as _topic, 0 as _epoch,
      0 as _partition, id as _offset, timestamp_millis({_millis()} + 80000 + id) as _arrived_at,
      timestamp_millis({_millis()} + 60000) as _record_at,
      if(id % 10 = 0 and '{topic}' = 'labels', 'wrong_type', null) as _quarantined, cast(null as binary) as _raw,
      if(id % 3 = 0, id % 5, id % 29) as user, timestamp_micros(id) as at, concat('l', id % 350) as id,
      cast(if(id % 4 = 0, null, id / 10) as decimal(5,2)) as price
    from range({count})"""


def _millis() -> int:
    return int(START.timestamp() * 1000)


def land(rows: Any, ctx: Context, topic: str, batch: int, files: int) -> None:
    from pyspark.sql import functions as F

    known = {"_batch": F.lit(batch).cast("bigint")}
    meta = [
        known.get(name, F.col(name) if name in rows.columns else F.lit(None)).cast(kind).alias(name)
        for name, kind in LANDING_TYPES.items()
    ]
    kept = [name for name in rows.columns if name not in LANDING_TYPES]
    (
        rows.select(*meta, *kept)
        .repartition(files)
        .write.format("delta")
        .mode("append")
        .option("mergeSchema", "true")
        .option("txnAppId", batches.APP_ID)
        .option("txnVersion", str(batch))
        .save(ctx.home.landing(topic))
    )


def clock_row(topic: str, batch: int) -> dict[str, Any]:
    now = START + timedelta(seconds=100)
    counts = dict.fromkeys(("read", "landed", "quarantined", "skipped", "unexplained", "before_start"), 0)
    place = {"topic": topic, "topic_id": topic, "epoch": 0, "partition": 0, "batch": batch, "gap": None}
    clock = {"next_offset": 500, "end_offset": 500, "newest_at": now, "clock_at": now, "idle": False}
    return {**place, **clock, **counts, "landed_at": now}


def joined(ctx: Context, run: str, chosen: list[Interval]) -> tuple[Plan, ...]:
    planned = record(ctx, run, chosen, clocks.observe(ctx.home), publications.grid(ctx.home), drained=False)
    make_candidates(ctx, planned)
    return planned


def intervals() -> list[Interval]:
    return list(intervals_between(START, START + SPAN * LENGTH, LENGTH))


def both(ctx: Context, monkeypatch: pytest.MonkeyPatch, chosen: list[Interval]) -> list[tuple[Plan, ...]]:
    """The plans of two runs over the same intervals, one each way."""
    found = []
    for way in WAYS:
        monkeypatch.setenv(VARIABLE, way)
        found.append(joined(ctx, way, chosen))
    return found


def files_of(ctx: Context, plan: Plan) -> list[DataFile]:
    return [DataFile.read(path) for path in candidates.files_of(ctx.home, [plan])[0][plan.id]]


def rows_of(ctx: Context, plan: Plan) -> list[str]:
    """Rows of a candidate in row order, as text, in which NaN equals NaN and -0.0 does not equal 0.0."""
    found: list[tuple[Any, str]] = []
    for file in files_of(ctx, plan):
        rows = pq.ParquetFile(file.path).read().to_pylist()
        order = [tuple(row[name] for name in ROW_ORDER) for row in rows]
        assert order == sorted(order), "rows of a file are in row order"
        found += zip(order, map(repr, rows), strict=True)
    return [text for _, text in sorted(found)]


def parquet_types(file: DataFile) -> str:
    return str(file.footer.schema).split("{", 1)[1]  # before it are an address, and a name that nobody reads


@pytest.mark.both_roots(long=True)
def test_both_ways_write_the_same_candidates(ctx: Context, monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    one, other = both(ctx, monkeypatch, intervals())
    there = [len(rows_of(ctx, plan)) for plan in one]
    assert [number > 0 for number in there] == [True, True, True, False], "the last interval is empty"
    for of_spark, of_files in zip(one, other, strict=True):
        assert rows_of(ctx, of_files) == rows_of(ctx, of_spark)
        types = {parquet_types(file) for plan in (of_spark, of_files) for file in files_of(ctx, plan)}
        assert len(types) <= 1, "one type, one order of columns, in every file"
        assert {file.footer.num_row_groups for file in files_of(ctx, of_files)} <= {1}, "all rows are one chunk"
    nulls = candidates.null_counts(ctx.home, [*one, *other])
    assert [nulls[plan.id] for plan in one] == [nulls[plan.id] for plan in other]

    # as Spark reads them, and as measured
    for of_spark, of_files in zip(one, other, strict=True):
        read = [candidates.read(spark, ctx.home, [plan]).drop(PLAN) for plan in (of_spark, of_files)]
        assert read[0].schema == read[1].schema
        assert sorted(map(repr, read[0].collect())) == sorted(map(repr, read[1].collect()))
    measured = [
        sorted(
            (row["interval"], row["name"], row["value"])
            for row in tables.read(ctx.home.table(Table.MEASURES))
            if row["plan"] in ids
        )
        for ids in ({plan.id for plan in one}, {plan.id for plan in other})
    ]
    assert measured[0] == measured[1] != []


def test_the_table_and_its_commits_are_the_same(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    both(ctx, monkeypatch, intervals()[:2])
    path = ctx.home.table(Table.CANDIDATES)
    made_by_spark, made_by_files = DeltaTable(path), commits(path)
    assert [commit["txn"]["version"] for commit in made_by_files] == [1, 1]
    messages = [json.loads(commit["commitInfo"]["userMetadata"]) for commit in made_by_files]
    assert [message["windrow"] for message in messages] == ["candidates"] * 2
    assert messages[0].keys() == messages[1].keys()
    for commit in made_by_files:
        assert {json.loads(add["stats"])["numRecords"] > 0 for add in commit["add"]} == {True}
        assert {add["path"].split("/")[0] for add in commit["add"]} == {
            f"{PLAN}={add['partitionValues'][PLAN]}" for add in commit["add"]
        }

    # the same pipeline in another home, created by the other way first
    schema = made_by_spark.schema().to_json()
    for name in ("candidates", "plans", "measures"):
        store.remove_all(ctx.home.table(Table(name)))
    monkeypatch.setenv(VARIABLE, "files")
    joined(ctx, "anew", intervals()[:1])
    assert DeltaTable(path).schema().to_json() == schema
    assert DeltaTable(path).metadata().configuration == made_by_spark.metadata().configuration
    assert DeltaTable(path).metadata().partition_columns == [PLAN]


def commits(path: str) -> list[dict[str, Any]]:
    """The commits of candidates, oldest first: name of an action → the action; `add` has a list."""
    found = []
    for name in sorted(os.listdir(f"{path}/_delta_log")):
        if name.endswith(".json"):
            actions = [json.loads(line) for line in Path(path, "_delta_log", name).read_text().splitlines()]
            commit = {key: value for action in actions for key, value in action.items()}
            if "userMetadata" in commit["commitInfo"]:
                found.append({**commit, "add": [action["add"] for action in actions if "add" in action]})
    return found


def test_files_of_workers_are_published_as_they_are(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Context(parse(PIPELINE.replace(", take: last", "").replace(", join: inner", "")), ctx.places, ctx.now)
    monkeypatch.setenv(VARIABLE, "files")
    planned = joined(plain, "run", intervals()[:1])
    wanted = rows_of(plain, planned[0])
    monkeypatch.setenv("WINDROW_WITHOUT_SPARK", "1")
    publish(plain, planned, override=("test", "no gate here"))
    published = DeltaTable(plain.home.table(Table.TRAINING))
    assert sorted(
        repr(row) for uri in published.file_uris() for row in pq.ParquetFile(uri).read().to_pylist()
    ) == sorted(wanted)
    for file in published.file_uris():
        known = DataFile.read(file).statistics(["_interval"])
        assert known["minValues"] == known["maxValues"] == {"_interval": "2026-11-01T00:00:00.000Z"}


def test_what_a_killed_try_has_written_is_not_seen_and_vacuum_deletes_it(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "files")
    planned = record(ctx, "run", intervals()[:1], clocks.observe(ctx.home), publications.grid(ctx.home), drained=False)
    with monkeypatch.context() as dying:
        dying.setattr(candidates, "_commit", _die)
        with pytest.raises(KeyboardInterrupt):
            make_candidates(ctx, planned)
    path = ctx.home.table(Table.CANDIDATES)
    left_over = [file.name for file in store.listed(path) if file.name.startswith(PLAN)]
    assert left_over
    assert DeltaTable(path).file_uris() == []
    make_candidates(ctx, planned)
    seen = rows_of(ctx, planned[0])
    assert len(seen) == len(set(seen)) > 0

    week = timedelta(days=7)
    for name in left_over:
        os.utime(f"{path}/{name}", (0, 0))
    maintenance.vacuum(ctx.home, week)
    now_there = {file.name for file in store.listed(path)}
    assert not now_there & set(left_over)
    assert rows_of(ctx, planned[0]) == seen


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_answer_that_is_lost_is_looked_up_and_a_second_commit_is_refused(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "files")
    create = DeltaTable.create_write_transaction

    def lost(self: DeltaTable, *args: Any, **more: Any) -> None:
        create(self, *args, **more)
        raise DeltaError("the answer was lost")

    with monkeypatch.context() as unlucky:
        unlucky.setattr(DeltaTable, "create_write_transaction", lost)
        planned = joined(ctx, "run", intervals()[:1])
    assert rows_of(ctx, planned[0])
    path = ctx.home.table(Table.CANDIDATES)
    with pytest.raises(tables.WriteSkipped):
        candidates._commit(path, tables.at(path), planned, {})


def test_neither_the_kind_of_join_nor_the_size_of_a_chunk_changes_the_rows(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, spark: Any
) -> None:
    """Both are others than where both ways are compared: Spark joins before a worker, which cuts chunks, sees a row.

    Workers of one session keep their modules, so the chunk travels with the work.
    """
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    work = payload.Work
    monkeypatch.setattr(candidates.payload, "Work", lambda **fields: work(**fields, chunk=2_000))
    try:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
        one, other = both(ctx, monkeypatch, intervals()[:1])
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)
    assert rows_of(ctx, other[0]) == rows_of(ctx, one[0])
    assert max(file.footer.num_row_groups for file in files_of(ctx, other[0])) > 1


def test_each_row_of_a_range_has_the_task_of_its_time(ctx: Context, spark: Any) -> None:
    """Of intervals 0, 1 and 3: a task for half an interval, one for two of them, one for an interval without rows."""
    from pyspark.sql import functions as F

    apart = [interval.start for n, interval in enumerate(intervals()) if n != 2]
    divided = shares.Shares(dict(zip(apart, map(shares.Share, (0, 2, 3), (2, 1, 1)), strict=True)), 4, 1.0)
    millis = [0, 1, 9_999, 10_000, 19_999, 20_000, 39_999, 60_000, 79_999]
    rows = spark.createDataFrame([(START + timedelta(milliseconds=n),) for n in millis], "_event_time timestamp")
    at = rows.withColumn("_interval", interval_of(F.col("_event_time"), LENGTH))
    found = at.select(F.unix_millis("_event_time"), shares.task_of(divided, LENGTH)).collect()
    assert [task for _, task in sorted(found)] == [0, 0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("rows_of_a_task", [20, 10**6])
def test_however_a_range_is_divided_among_tasks_its_rows_are_the_same(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, rows_of_a_task: int
) -> None:
    monkeypatch.setattr(shares, "ROWS", rows_of_a_task)
    one, other = both(ctx, monkeypatch, intervals())
    assert [rows_of(ctx, plan) for plan in other] == [rows_of(ctx, plan) for plan in one]
    files = [len(files_of(ctx, plan)) for plan in other]
    assert (max(files) > 1) == (rows_of_a_task == 20)


def test_right_rows_are_small_where_they_are_few_and_plain(
    ctx: Context, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = joined(ctx, "small", intervals())
    read = inputs.read(spark, ctx.home, planned, clocks.observe(ctx.home))
    plain = {name: RIGHT[name] for name in ("user", "at", "id")}
    rights = tuple(stream.model_copy(update={"columns": plain}) for stream in ctx.pipeline.right)
    home = replace(ctx.home, pipeline=ctx.pipeline.model_copy(update={"right": rights}))
    keys = [read.rights[stream.name].kept.groupBy("user") for stream in rights]
    most = sum(max(row["count"] for row in groups.count().collect()) for groups in keys)
    longest = max(len(row["id"]) for row in read.rights["clicks"].kept.select("id").collect())
    needed = most * (16 * len({*plain, *LANDING_TYPES}) + longest)

    monkeypatch.setattr(inputs, "SMALL", needed)
    assert inputs.are_right_rows_small(home, read, 10**6)
    assert not inputs.are_right_rows_small(home, read, 0)  # more right rows than left ones
    assert not inputs.are_right_rows_small(ctx.home, read, 10**6)  # a decimal is not plain
    monkeypatch.setattr(inputs, "SMALL", needed // 2)
    assert not inputs.are_right_rows_small(home, read, 10**6)


def test_batches_of_small_rows_are_not_weighed_and_the_settings_stay(spark: Any) -> None:
    name, rows = candidates.BYTES_OF_BATCH, "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = {key: spark.conf.get(key) for key in (name, rows)}
    try:
        spark.conf.set(name, "16777216")
        with candidates.without_byte_limit(spark):
            assert spark.conf.get(name) == str(2**31 - 1)
        assert spark.conf.get(name) == "16777216"
        for unbounded in ("0", str(candidates.MOST_ROWS_OF_BATCH + 1)):
            spark.conf.set(rows, unbounded)
            with candidates.without_byte_limit(spark):
                assert spark.conf.get(name) == "16777216"
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


@pytest.mark.parametrize("mode", ["null", "delete"])
def test_rows_of_an_erased_key_have_no_payload_either_way(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    text = PIPELINE + f"erase: {{by: user, mode: {mode}}}\n"
    for rule in (""" where: "kind = 'shown'",""", ", join: inner", ", event_id: id"):  # `null` does not go with them
        text = text.replace(rule, "")
    erase = Context(parse(text, expectations=ctx.places.expectations), ctx.places, ctx.now)
    secret = erasures.made_secret(erase.home)
    hashes = frozenset(filter(None, (hash_of(secret, {"user": user}) for user in (3, 4))))
    erasures.add_keys(erase.home, "test", hashes, ["user"], mode, who="test", why=None, now=erase.now(), secret=secret)
    one, other = both(erase, monkeypatch, intervals()[:2])
    for of_spark, of_files in zip(one, other, strict=True):
        assert rows_of(erase, of_files) == rows_of(erase, of_spark)
    rows = [row for plan in other for row in rows_of(erase, plan)]
    assert not any("'user': 3," in row for row in rows)
    assert any("'id': None" in row for row in rows) == (mode == "null")


def test_a_damaged_landing_file_is_named(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "files")
    (path, *_) = sorted(DeltaTable(ctx.home.landing("served"), version=0).file_uris())
    footer = pq.read_metadata(path)
    column = next(
        chunk
        for chunk in (footer.row_group(0).column(n) for n in range(footer.num_columns))
        if chunk.path_in_schema == "real"
    )
    content = bytearray(Path(path).read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    Path(path).write_bytes(content)
    Path(path).with_name(f".{Path(path).name}.crc").unlink(missing_ok=True)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - Spark's, with the trace of the worker
        joined(ctx, "run", intervals()[:2])
    assert "TableDamaged" in str(raised.value)
    assert Path(path).name in str(known_cause(raised.value))


@pytest.mark.parametrize(
    ("wanted", "rows", "size", "readings", "is_warm", "is_local", "wants"),
    [  # readings: none where they are not asked for
        ("", MANY, 0, [1], True, True, True),
        ("auto", MANY, 0, [MOST_READINGS], True, True, True),
        ("auto", MANY - 1, LARGE - 1, [], True, True, False),
        ("auto", MANY, LARGE - 1, [], False, True, False),
        ("auto", 1, LARGE, [MOST_READINGS], False, True, True),
        ("auto", MANY, LARGE, [], False, False, False),  # workers of a cluster may lack Python's packages
        ("auto", MANY, LARGE, [MOST_READINGS + 0.1], True, True, False),
        ("spark", MANY, LARGE, [], True, True, False),
        ("files", 1, 0, [], False, False, True),
    ],
)
def test_payload_comes_from_files_where_it_is_wanted_or_a_warm_spark_has_many_rows_or_there_is_much_of_it(
    monkeypatch: pytest.MonkeyPatch,
    wanted: str,
    rows: int,
    size: int,
    readings: list[float],
    *,
    is_warm: bool,
    is_local: bool,
    wants: bool,
) -> None:
    monkeypatch.setenv(VARIABLE, wanted)
    assert wants_files(rows, size, readings.pop, is_warm=is_warm, is_local=is_local) == wants


def test_payload_comes_from_files_only_where_they_can_be_named() -> None:
    assert by_files(["k", "_file"])
    assert not by_files(["k"])


def test_an_unknown_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "fast")
    with pytest.raises(BadInput, match="neither auto, files nor spark"):
        wants_files(1, 0, lambda: 1, is_warm=False, is_local=True)


# ---- the worker alone, without Spark


def work_of(folder: Path, **more: Any) -> payload.Work:
    schema = pa.schema(
        [("n", pa.int64()), ("new", pa.string()), ("label", pa.bool_()), *zip(ROW_ORDER, _ORDER, strict=True)]
    )
    fields = {
        "landing": {"t": str(folder)},
        "candidates": str(folder / "out"),
        "schema": schema,
        "payload": ("n", "new"),
    }
    return payload.Work(**{**fields, "has_erased": False, "umask": 0o077, **more})


_ORDER = (pa.timestamp("us", tz="UTC"), pa.string(), pa.int32(), pa.int32(), pa.int64())


def joined_rows(rows: list[dict[str, Any]]) -> pa.Table:
    types = [("label", pa.bool_()), *zip(ROW_ORDER, _ORDER, strict=True)]
    types += [(PLAN, pa.string()), ("_file", pa.string()), ("_row", pa.int64())]
    return pa.Table.from_pylist(rows, pa.schema(types))


def written_by(work: payload.Work, rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Rows that a worker writes, by plan."""
    found: dict[str, list[dict[str, Any]]] = {}
    for batch in payload.write(work, iter(joined_rows(rows).to_batches(max_chunksize=3))):
        for line in batch.to_pylist():
            read = pq.ParquetFile(f"{work.candidates}/{line['written']}").read()
            found.setdefault(line[PLAN], []).extend(read.to_pylist())
    return found


@pytest.fixture
def landed(tmp_path: Path) -> Callable[[str, range], None]:
    """Writes a landing file with rows of these numbers, four in a row group."""

    def write(name: str, numbers: range) -> None:
        rows = [{"n": n, "_topic": "t", "_epoch": 0, "_partition": 0, "_offset": n} for n in numbers]
        schema = pa.schema([("n", pa.int64()), *zip(ROW_ORDER[1:], _ORDER[1:], strict=True)])
        pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / name, row_group_size=4)

    (tmp_path / "out").mkdir()
    return write


def row(n: int, file: str | None, place: int | None, plan: str = "p") -> dict[str, Any]:
    order = {"_event_time": START, "_topic": "t", "_epoch": 0, "_partition": 0, "_offset": n}
    return {"label": n % 2 == 0, **order, PLAN: plan, "_file": file, "_row": place}


@pytest.mark.parametrize("chunk", [1, 400, payload.CHUNK])
def test_rows_keep_their_order_whatever_files_and_row_groups_they_come_from(
    tmp_path: Path, landed: Callable[[str, range], None], chunk: int
) -> None:
    landed("a", range(10))
    landed("b", range(100, 111))
    wanted = [(109, "b", 9), (3, "a", 3), (4, "a", 4), (101, "b", 1), (0, "a", 0), (9, "a", 9), (5, "a", 5)]
    rows = [row(*one) for one in wanted[:5]] + [row(*one, plan="q") for one in wanted[5:]]
    found = written_by(work_of(tmp_path, chunk=chunk), rows)
    assert {plan: [one["n"] for one in of] for plan, of in found.items()} == {"p": [109, 3, 4, 101, 0], "q": [9, 5]}
    assert {one["new"] for of in found.values() for one in of} == {None}
    assert {one["label"] == (one["n"] % 2 == 0) for of in found.values() for one in of} == {True}


def test_a_place_with_another_row_is_refused(tmp_path: Path, landed: Callable[[str, range], None]) -> None:
    landed("a", range(10))
    with pytest.raises(payload.PayloadMisplaced, match="_offset"):
        written_by(work_of(tmp_path), [row(3, "a", 3), row(4, "a", 5)])


def test_a_worker_that_fails_leaves_no_file_behind(tmp_path: Path, landed: Callable[[str, range], None]) -> None:
    landed("a", range(10))
    rows = [row(3, "a", 3), row(4, "a", 4, plan="q"), row(5, "a", 6, plan="q")]
    with pytest.raises(payload.PayloadMisplaced, match="_offset"):
        written_by(work_of(tmp_path, chunk=1), rows)
    assert {file.name for file in (tmp_path / "out").rglob("*")} == {"_plan=p", "_plan=q"}


def test_only_a_row_of_an_erased_key_may_have_no_place(tmp_path: Path, landed: Callable[[str, range], None]) -> None:
    landed("a", range(10))
    rows = [row(7, None, None), row(3, "a", 3)]
    with pytest.raises(payload.PayloadMisplaced, match="no key was erased"):
        written_by(work_of(tmp_path), rows)
    found = written_by(work_of(tmp_path, has_erased=True), rows)
    assert [(one["n"], one["_offset"]) for one in found["p"]] == [(None, 7), (3, 3)]
    found = written_by(work_of(tmp_path, has_erased=True), rows[:1])
    assert [(one["n"], one["_offset"]) for one in found["p"]] == [(None, 7)]


def row_groups_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the row groups that are read from now on."""
    read, seen = payload._LandingFile.read, list[int]()

    def noted(file: Any, group: int, schema: pa.Schema) -> pa.Table:
        seen.append(group)
        return read(file, group, schema)

    monkeypatch.setattr(payload._LandingFile, "read", noted)
    return seen


@pytest.mark.parametrize(("kept", "readings"), [(payload.KEPT, 2), (0, 6)])
def test_intervals_whose_rows_are_in_the_same_row_groups_read_each_once(
    tmp_path: Path, landed: Callable[[str, range], None], monkeypatch: pytest.MonkeyPatch, kept: int, readings: int
) -> None:
    landed("a", range(8))  # two row groups, each with rows of all three plans
    monkeypatch.setattr(payload, "KEPT", kept)
    seen = row_groups_read(monkeypatch)
    rows = [row(n, "a", n, plan=plan) for plan, places in (("p", (0, 5)), ("q", (1, 6)), ("r", (2, 7))) for n in places]
    found = written_by(work_of(tmp_path, chunk=1), rows)
    assert {plan: [one["n"] for one in of] for plan, of in found.items()} == {"p": [0, 5], "q": [1, 6], "r": [2, 7]}
    assert len(seen) == readings


def test_row_groups_that_are_kept_are_taken_before_others_push_them_out(
    tmp_path: Path, landed: Callable[[str, range], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    landed("a", range(12))  # three row groups, of which one is kept
    monkeypatch.setattr(payload, "KEPT", 0)
    seen = row_groups_read(monkeypatch)
    files = payload._Landed(work_of(tmp_path))
    for n in range(4):
        places = [n, 8 + n, 4 + n]
        found = files.payload(joined_rows([row(place, "a", place) for place in places]))
        assert found["n"].to_pylist() == places
    assert seen == [0, 1, 2, 0, 1, 0, 2, 0, 1], "each time but the first, two of three"


def test_a_worker_without_rows_writes_nothing(tmp_path: Path, landed: Callable[[str, range], None]) -> None:
    assert written_by(work_of(tmp_path), []) == {}
    assert list((tmp_path / "out").iterdir()) == []
