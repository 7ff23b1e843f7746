"""Spark asks a log for its files from a name on, and gets those that the file system has, in order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError

from windrow.io.delta import tables
from windrow.places import Places

pytestmark = [pytest.mark.spark, pytest.mark.both_roots]
SCHEMA = pa.schema([("n", pa.int64())])
COMMITS = 24


def listed(spark: Any, log: str, name: str) -> list[tuple[str, int]]:
    """Return path and size of each file, as the log store names them."""
    conf = spark._jsc.hadoopConfiguration()
    found = spark._jvm.windrow.ConditionalLogStore(conf).listFrom(spark._jvm.org.apache.hadoop.fs.Path(log, name), conf)
    files = []
    while found.hasNext():
        files.append(status := found.next())
        assert status.isFile()
    return [(file.getPath().toString(), file.getLen()) for file in files]


def files_of(spark: Any, log: str) -> Any:
    return spark._jvm.org.apache.hadoop.fs.Path(log).getFileSystem(spark._jsc.hadoopConfiguration())


def test_the_files_from_a_name_on_are_listed_in_order(spark: Any, places: Places) -> None:
    path = places.table("feed", "training")
    for version in range(1, COMMITS + 1):
        tables.append_once(path, SCHEMA, [{"n": version}], app_id="app", version=version)
    log, files = f"{path}/_delta_log", files_of(spark, path)
    assert spark._jsc.hadoopConfiguration().getBoolean("delta.enableFastS3AListFrom", False)
    there = files.listStatus(spark._jvm.org.apache.hadoop.fs.Path(log))
    every = sorted((file.getPath().toString(), file.getLen()) for file in there)
    assert len(every) > COMMITS
    for name in ("0", f"{0:020}.", f"{20:020}.", f"{20:020}.checkpoint.parquet", f"{COMMITS - 1:020}.json", "_", "z"):
        assert listed(spark, log, name) == [file for file in every if file[0].rsplit("/", 1)[1] >= name]
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        listed(spark, f"{path}/none/_delta_log", "0")
