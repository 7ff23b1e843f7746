"""A class-data archive: JVM classes that every Spark start loads are parsed once, at set-up, and then memory-mapped.

    set-up ─▶ a small run with Delta ─▶ JVM writes `classes-….jsa` at its end ─▶ `-XX:SharedArchiveFile` in the one
                                                                                 configuration maps it

It saves about a quarter of a driver's cold start. A JVM that cannot use it starts without it. An archive is refused
where the class path has a folder with files in it. Spark puts `SPARK_CONF_DIR` onto the class path, therefore that
variable names an empty folder, and spark-defaults.conf is passed as `--properties-file`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from windrow.places import Places


def path(places: Places, java_home: Path, spark_home: Path, class_path: str) -> Path:
    """Path of the archive for this Java, this Spark and its class path, whether it exists or not.

    The JVM compares the class path letter by letter, so the same PySpark in another folder needs another archive.
    """
    release = java_home / "release"
    java = release.read_bytes() if release.exists() else str(java_home).encode()
    digest = hashlib.sha256(java + f"{version('pyspark')} {spark_home} {class_path}".encode()).hexdigest()[:12]
    return places.cache / "spark" / f"classes-{digest}.jsa"


def make(target: Path, environment: Mapping[str, str], report: Callable[[str], None]) -> None:
    """Write the archive if it is missing. It is only an optimisation: a failure is reported, not raised.

    Args:
        environment: variables of Spark processes (`jars.environment`), merged over os.environ.
        report: gets progress lines for people.
    """
    if target.exists():
        return
    report("Making a class-data archive, so that Spark starts faster (once, about half a minute) …")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        dumped = Path(scratch) / target.name
        command = [sys.executable, "-m", __name__, scratch, str(dumped)]
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600)
        if done.returncode or not dumped.exists():
            output = (done.stderr or done.stdout).strip().splitlines()
            report(f"  The archive could not be made; Spark starts without it. {output[-1] if output else ''}")
            return
        dumped.chmod(0o644)
        dumped.replace(target)


def _exercise(folder: str, dumped: str) -> None:
    """Load the classes that a job loads: session, Delta, JSON, Kafka's source, a grouped join, every kind of write.

    The JVM writes every class that it has loaded to `dumped` when it ends (-XX:ArchiveClassesAtExit), so this run only
    has to touch the same features as a job; its results do not matter.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = (
        SparkSession.builder.master("local[1]")
        .appName("class-data archive")
        .config("spark.sql.sources.commitProtocolClass", "windrow.NewFiles")
        .config("spark.driver.defaultJavaOptions", f"-Duser.timezone=UTC -XX:ArchiveClassesAtExit={dumped}")
        .getOrCreate()
    )
    spark.read.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("assign", '{"t":[0]}').load()
    table = f"{folder}/table"
    text = F.concat(F.lit('{"k":'), F.col("id"), F.lit(',"t":"2026-11-01T00:00:00Z"}'))
    read = spark.range(8).withColumn("row", F.from_json(text, "k bigint, t timestamp")).select("id", "row.*")
    read.write.format("delta").mode("append").option("txnAppId", "archive").option("txnVersion", "1").save(table)
    read.write.mode("append").option("windrow.files", "archive").parquet(f"{folder}/files")
    rows = spark.read.format("delta").load(table)
    grouped = rows.groupBy("k").agg(F.array_sort(F.collect_list(F.struct("t", "id"))).alias("all"))
    joined = rows.join(grouped, on="k", how="left").withColumn("all", F.filter("all", lambda e: e["id"] >= 0))
    kept = joined.select("id", "k", "t").sortWithinPartitions("id")
    kept.write.format("delta").mode("overwrite").option("replaceWhere", "id >= 0").save(table)
    rows.agg(F.count_if(F.col("id") > 1), F.max("t")).collect()
    spark.stop()


if __name__ == "__main__":
    _exercise(*sys.argv[1:])
