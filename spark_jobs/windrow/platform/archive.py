"""A class-data archive: what every Spark start loads is parsed once, at set-up, and mapped by all later starts.

    set-up ─▶ a small run with Delta ─▶ JVM writes `classes-….jsa` at its end ─▶ `-XX:SharedArchiveFile` in the one
                                                                                 configuration maps it

It saves about a quarter of a driver's cold start. A JVM that cannot use it (another Java, other jars, no archive)
starts as it would without, in silence. The archive holds only for a class path without folders that have files in
them; therefore `SPARK_CONF_DIR` names an empty folder, and the configuration is given by name.
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


def path(places: Places, java_home: Path, jars: Path) -> Path:
    """Where the archive for this Java, this Spark and these jars is, or will be."""
    release = java_home / "release"
    java = release.read_bytes() if release.exists() else str(java_home).encode()
    digest = hashlib.sha256(java + version("pyspark").encode() + jars.name.encode()).hexdigest()[:12]
    return places.cache / "spark" / f"classes-{digest}.jsa"


def make(target: Path, environment: Mapping[str, str], report: Callable[[str], None]) -> None:
    """Write the archive if it is not there. It is an optimisation: where it fails, that is said and nothing else."""
    if target.exists():
        return
    report("Making a class-data archive, so that Spark starts faster (once, about half a minute) …")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as beside:
        dumped = Path(beside) / target.name
        command = [sys.executable, "-m", __name__, beside, str(dumped)]
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600)
        if done.returncode or not dumped.exists():
            said = (done.stderr or done.stdout).strip().splitlines()
            report(f"  no archive could be made; Spark starts without one. {said[-1] if said else ''}")
            return
        dumped.chmod(0o644)
        dumped.replace(target)


def _exercise(folder: str, dumped: str) -> None:
    """Load what a job loads: session, Delta, JSON, Kafka's source, a grouped join, both kinds of write."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = (
        SparkSession.builder.master("local[1]")
        .appName("class-data archive")
        .config("spark.driver.defaultJavaOptions", f"-Duser.timezone=UTC -XX:ArchiveClassesAtExit={dumped}")
        .getOrCreate()
    )
    spark.read.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("assign", '{"t":[0]}').load()
    table = f"{folder}/table"
    text = F.concat(F.lit('{"k":'), F.col("id"), F.lit(',"t":"2026-11-01T00:00:00Z"}'))
    read = spark.range(8).withColumn("row", F.from_json(text, "k bigint, t timestamp")).select("id", "row.*")
    read.write.format("delta").mode("append").option("txnAppId", "archive").option("txnVersion", "1").save(table)
    rows = spark.read.format("delta").load(table)
    grouped = rows.groupBy("k").agg(F.array_sort(F.collect_list(F.struct("t", "id"))).alias("all"))
    joined = rows.join(grouped, on="k", how="left").withColumn("all", F.filter("all", lambda e: e["id"] >= 0))
    kept = joined.select("id", "k", "t").sortWithinPartitions("id")
    kept.write.format("delta").mode("overwrite").option("replaceWhere", "id >= 0").save(table)
    rows.agg(F.count_if(F.col("id") > 1), F.max("t")).collect()
    spark.stop()


if __name__ == "__main__":
    _exercise(*sys.argv[1:])
