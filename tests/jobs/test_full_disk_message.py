"""A full disk is named in one line in front of the trace, whether Python, Spark's driver or an executor met it.

/dev/full is a device without space: what is written to it fails as on a full disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from windrow.jobs.options import PipelineName
from windrow.jobs.run import job
from windrow.outcomes import ExitCode


def write_in_python(_: SparkSession) -> None:
    try:
        with open("/dev/full", "w") as full:
            full.write("more than nothing")
    except OSError:
        raise RuntimeError("the table could not be written") from None  # the cause stays in the context


def write_in_the_jvm(spark: SparkSession) -> None:
    java: Any = spark._jvm
    java.java.io.FileOutputStream("/dev/full").write(1)


def write_in_an_executor(spark: SparkSession) -> None:
    def fill(frames: Iterator[Any]) -> Iterator[Any]:
        with open("/dev/full", "w") as full:
            full.write("more than nothing")
        yield from frames

    spark.range(1).mapInPandas(fill, "id bigint").count()


@pytest.mark.spark
@pytest.mark.parametrize("write", [write_in_python, write_in_the_jvm, write_in_an_executor])
def test_a_full_disk_is_named_in_front_of_the_trace(
    write: Callable[[SparkSession], None], spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    def execute(pipeline: PipelineName) -> Mapping[str, Any]:
        write(spark)
        return {"pipeline": pipeline}

    assert job(execute)(["feed"]) == ExitCode.NOT_READY
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith(
        "DiskFull: the disk is full; free in the folder of the tables and in that of Spark's spill: /"
    )
    assert "MB)" in first
    assert "dags/README.md" in first
    assert rest[0].startswith("Traceback")
