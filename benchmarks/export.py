"""Exports of training rows as Parquet against bare copies of the same rows, by Polars and by Spark.

    export         copy            pl.scan_delta with the filter of the read, sink_parquet: one file, in no order
                   served          windrow export in served order, with hashes and manifest
                   shuffled        … in the order of a hash of the row ids
    export_spark   spark_copy      Spark's read with the same filter, write.parquet: no order
                   spark_served    windrow export --spark in served order
                   spark_shuffled  … in the order of a hash

The table is that of `training.py`; --rows rows are exported, and every pass counts those of its files. Peak memory is
the sum of the peaks of the processes (driver, JVM, Python workers) after the cold pass.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from common.side_by_side import Steps, arguments, compare, work_twice

import training as table
from windrow.home import Home, Table

GROUPS = {
    "export": ("copy", "served", "shuffled"),
    "export_spark": ("spark_copy", "spark_served", "spark_shuffled"),
}
"""Comparisons, each with its yardstick first."""


def copy(home: Home, to: str) -> None:
    """The least work of a program in Polars."""
    Path(to).mkdir(parents=True)
    table.scan(home).sink_parquet(f"{to}/part.parquet")


def spark_copy(home: Home, to: str) -> None:
    """The least work of a program in Spark."""
    from windrow.jobs.spark import spark_for

    rows = spark_for("copy", home.places).read.format("delta").load(home.table(Table.TRAINING))
    at = f"_date = '{table.START.date()}' AND _event_time >= '{table.BEGIN}' AND _event_time < '{table.END}'"
    rows.where(f"{at} AND label_reason IS NULL").write.parquet(to)


def exported(shuffle: int | None) -> Callable[[Home, str], None]:
    """What a trainer calls."""

    def work(home: Home, to: str) -> None:
        from windrow.training.export import export

        export(home.pipeline.name, to, "parquet", table.BEGIN, table.END, shuffle=shuffle, places=home.places)

    return work


def exported_by_spark(shuffle: int | None) -> Callable[[Home, str], None]:
    """What a trainer calls for a large range."""

    def work(home: Home, to: str) -> None:
        from windrow.jobs.spark import spark_for
        from windrow.training.export.spark import export

        session = spark_for("export", home.places)
        export(session, home.pipeline.name, to, "parquet", table.BEGIN, table.END, shuffle=shuffle, places=home.places)

    return work


WORK: dict[str, Callable[[Home, str], None]] = {
    "copy": copy,
    "served": exported(None),
    "shuffled": exported(1),
    "spark_copy": spark_copy,
    "spark_served": exported_by_spark(None),
    "spark_shuffled": exported_by_spark(1),
}


def work(variant: str, home: Home, rows: int) -> None:
    """One worker process: make the data, or measure a variant."""
    if variant == "data":
        table.data(home, rows)
        return
    to = home.places.home / "exported" / variant

    def once(number: int) -> Steps:
        shutil.rmtree(to, ignore_errors=True)
        steps = Steps(number)
        WORK[variant](home, str(to))
        steps.done("write")
        found = sum(pq.read_metadata(file).num_rows for file in to.glob("*.parquet"))
        if found != rows:
            raise SystemExit(f"{variant}: {found:,} rows were written, and {rows:,} were published")
        return steps

    work_twice(once)
    shutil.rmtree(to)


def main() -> None:
    options = arguments(__doc__ or "", tuple(WORK), rows=2_000_000)
    if options.work:
        work(options.work, table.home_of(options.home, options.rows), options.rows)
        return
    given = ["--rows", str(options.rows), "--home", options.home]

    def command(variant: str) -> list[str]:
        return [sys.executable, __file__, "--work", variant, *given]

    subprocess.run(command("data"), check=True)
    about = {"rows": options.rows, "features": table.FEATURES, "labelled": 1 / table.LABELLED}
    for name, variants in GROUPS.items():
        if chosen := [variant for variant in variants if variant in options.variants]:
            compare(name, chosen, command, rounds=options.rounds, about=about)


if __name__ == "__main__":
    main()
