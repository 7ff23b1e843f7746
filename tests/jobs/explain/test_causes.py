"""Known causes of unexpected errors are named in one line, with their exit code, in front of the trace.

A damaged file that only Spark meets; a full disk, whether Python, Spark's driver or an executor met it. /dev/full is a
device without space: what is written to it fails as on a full disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.broken.damage import data_file
from support.environ import environ_of
from support.small_pipeline import PIPELINE, event, made
from support.world import World
from windrow.jobs import main_of
from windrow.jobs.causes import known_cause
from windrow.jobs.options import PipelineName
from windrow.jobs.run import job
from windrow.outcomes import ExitCode


@pytest.mark.spark
@pytest.mark.kafka
def test_a_damaged_data_file_is_named_and_needs_a_person(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("served", 0, 20), event("served", 0, 400), event("likes", 0, 400)])
    world.land(ctx)
    for name, value in {**environ_of(world.places), "WINDROW_SPARK_MASTER": "local[2]"}.items():
        monkeypatch.setenv(name, value)
    file = data_file(Path(ctx.home.landing(f"{world.name}.served")))
    cut = file.read_bytes()[:-20]
    for damage in (lambda: file.unlink(), lambda: file.write_bytes(cut)):
        damage()
        code = main_of("join")([ctx.pipeline.name, "--run", "r", "--interval", "2026-11-01T00:00:00Z"])
        errors = capsys.readouterr().err
        assert code == ExitCode.NEEDS_PERSON, errors[-2000:]
        line = next(line for line in errors.splitlines() if line.startswith("TableDamaged: "))
        assert file.name in line
        assert "Restore it" in line


def test_other_errors_have_no_known_cause() -> None:
    assert known_cause(ValueError("[SOMETHING_ELSE] Encountered no file")) is None


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
