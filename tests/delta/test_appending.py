"""What Spark appends: one commit by delta-rs with the files of the attempts that succeeded, whoever made the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from windrow.io.delta import appending, store, tables
from windrow.outcomes import BadInput
from windrow.places import Places

pytestmark = pytest.mark.spark


@pytest.fixture
def path(places: Places) -> str:
    return places.table("feed", "rows")


def append(rows: DataFrame, path: str, version: int) -> None:
    table = appending.prepare(path, rows.schema)
    appending.append(rows, path, table, app_id="app", version=version, message=f'{{"n": {version}}}', statistics=["id"])


def schemas(path: str) -> set[str]:
    """The schemas of the data files, as their footers have them."""
    names = tables.data_files(tables.at(path))["path"].to_pylist()
    return {str(pq.read_schema(f"{path}/{name}").remove_metadata()) for name in names}


@pytest.mark.both_roots
def test_each_version_is_there_once_with_its_message_and_its_number_of_rows(spark: SparkSession, path: str) -> None:
    append(spark.range(3), path, 1)
    append(spark.range(3, 5), path, 2)
    with pytest.raises(tables.WriteSkipped):
        append(spark.range(7, 9), path, 2)
    assert sorted(row["id"] for row in tables.read(path)) == [0, 1, 2, 3, 4]
    assert [(one.message, one.rows) for one in tables.commits(path)] == [('{"n": 2}', 2), ('{"n": 1}', 3)]
    assert sorted(row["id"] for row in spark.read.format("delta").load(path).collect()) == [0, 1, 2, 3, 4]


def test_a_file_without_rows_is_not_named_and_the_commit_is_made(spark: SparkSession, path: str) -> None:
    append(spark.range(4).where("id < 0"), path, 1)
    assert tables.version_of(path, "app") == 1
    assert tables.data_files(tables.at(path)).num_rows == 0
    assert [one.rows for one in tables.commits(path)] == [0]


def test_every_column_may_be_null_whatever_the_query_knows(spark: SparkSession, path: str) -> None:
    append(spark.range(2).selectExpr("id", "array(id) as many", "named_struct('a', id) as one"), path, 1)
    footer = pq.read_metadata(f"{path}/{tables.data_files(tables.at(path))['path'][0].as_py()}")
    leaves = [footer.schema.column(n) for n in range(footer.num_columns)]
    assert [leaf.max_definition_level for leaf in leaves] == [1, 3, 2]


def test_a_table_that_spark_made_is_taken_over(spark: SparkSession, path: str) -> None:
    old = spark.range(2).selectExpr("id", "array(named_struct('a', 1, 'b', 2)) as labels")
    old.write.format("delta").option("txnAppId", "app").option("txnVersion", "1").save(path)
    fewer = spark.range(2, 4).selectExpr("id", "array(named_struct('a', 1)) as labels")
    append(fewer, path, 2)
    table = DeltaTable(path)
    assert tables.CHECKPOINTS.items() <= table.metadata().configuration.items()
    version = table.version()
    append(fewer, path, 3)
    assert DeltaTable(path).version() == version + 1, "a field that the rows lack is no reason for another commit"
    append(spark.range(4, 5).selectExpr("id", "id as more"), path, 4)
    found = {row["id"]: row["more"] for row in tables.read(path)}
    assert found == {0: None, 1: None, 2: None, 3: None, 4: 4}
    with pytest.raises(BadInput, match="rows have string, and the table has bigint"):
        append(spark.range(1).selectExpr("string(id) as id"), path, 5)


def test_a_column_is_spelled_as_in_the_table(spark: SparkSession, path: str) -> None:
    append(spark.range(1).selectExpr("id", "1.5D as price"), path, 1)
    append(spark.range(1).selectExpr("id", "2.5D as Price"), path, 2)
    assert sorted(row["price"] for row in tables.read(path)) == [1.5, 2.5]
    assert len(schemas(path)) == 1


def test_attempts_of_a_task_have_files_of_their_own_and_only_successful_ones_are_named(
    spark: SparkSession, path: str
) -> None:
    jvm: Any = spark._jvm
    hadoop, internal = jvm.org.apache.hadoop, jvm.org.apache.spark.internal.io
    conf = hadoop.conf.Configuration()
    conf.set("windrow.files", "key")
    conf.set(
        jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport.SPARK_ROW_SCHEMA(),
        '{"type":"struct","fields":[]}',
    )
    spec, nowhere = internal.FileNameSpec("", "-c000.parquet"), jvm.scala.Option.empty()
    Path(path).mkdir(parents=True)
    files, committed = [], []
    for attempt in range(3):
        task = hadoop.mapreduce.TaskAttemptID("job", 1, hadoop.mapreduce.TaskType.MAP, 0, attempt)
        context = hadoop.mapreduce.task.TaskAttemptContextImpl(conf, task)
        writer = jvm.windrow.NewFiles("job", path, False)
        writer.setupTask(context)
        files.append(str(writer.newTaskTempFile(context, nowhere, spec)))
        store.create(files[-1], b"rows")
        if attempt == 1:
            committed.append(writer.commitTask(context))
        elif attempt == 2:
            writer.abortTask(context)
    assert len(set(files)) == 3
    messages = jvm.java.util.ArrayList()
    messages.add(committed[0])
    as_seq = jvm.scala.jdk.javaapi.CollectionConverters.asScala(messages).toSeq()
    jvm.windrow.NewFiles("job", path, False).commitJob(context, as_seq)
    assert [f"{path}/{name}" for name in jvm.windrow.NewFiles.take("key")] == [files[1]]
    assert jvm.windrow.NewFiles.take("key") is None
    there = {f"{path}/{file.name}" for file in store.listed(path)}
    assert there == {files[0], files[1]}, "the aborted attempt has removed its file; the lost one could not"
