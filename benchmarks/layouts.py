"""Parquet settings for the training table: size, cost to write, cost to read by the four readers of the README.

    .venv/bin/python benchmarks/layouts.py                     2 M rows; its data is made by the first run

    spark     the files as the JVM writes them: Snappy, row groups of 128 MB, dictionaries where they are small
    files     as `windrow.io.training.payload` writes them: Snappy, row groups of 64 MB before compression
    zstd      like `files`, with zstd at level 1
    plain     like `files`, no dictionaries for floats
    both      like `files`, zstd at level 1, and no dictionaries for floats
    groups    like `both`, row groups of a quarter of the size
    split     like `both`, floats by byte-stream split

Steps of a pass: `write` (by pyarrow; not for `spark`), then every row and column by `polars`, `duckdb`, `delta-rs` and
`spark`, and three columns by `polars`. Each reader but Spark counts the positive rows.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from common.side_by_side import Steps, arguments, compare, work_once
from common.tables import Shape, forget, only, pipeline_of, world
from publish import close, require

from windrow.home import Table
from windrow.io.delta import tables
from windrow.io.training.payload import CHUNK
from windrow.jobs.run import Context, leave
from windrow.jobs.spark import spark_for

FLOATS = "features.list.element"
SETTINGS: dict[str, dict[str, Any]] = {
    "files": {"compression": "snappy"},
    "zstd": {"compression": "zstd", "compression_level": 1},
    "plain": {"compression": "snappy", "use_dictionary": "others"},
    "both": {"compression": "zstd", "compression_level": 1, "use_dictionary": "others"},
    "groups": {"compression": "zstd", "compression_level": 1, "use_dictionary": "others", "parts": 4},
    "split": {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": "others",
        "use_byte_stream_split": [FLOATS],
    },
}
VARIANTS = ("spark", *SETTINGS)


def shape_of(rows: int) -> Shape:
    """The hour of `benchmarks/join.py`."""
    return Shape(rows, 4)


def published(ctx: Context) -> list[Path]:
    """The files of the training table; the first caller publishes the hour."""
    path = ctx.home.table(Table.TRAINING)
    if tables.opened(path) is None:
        forget(ctx)
        close(ctx, only(ctx.pipeline)[0], Steps(0))
    table = tables.opened(path)
    assert table is not None
    return sorted(Path(path) / name for name in tables.data_files(table)["path"].to_pylist())


def write(sources: list[Path], folder: Path, layout: str) -> None:
    """Write the files again under other settings; a row group at a time, as a worker of a join does."""
    folder.mkdir(parents=True)
    settings = dict(SETTINGS[layout])
    parts = settings.pop("parts", 1)
    for number, source in enumerate(sources):
        rows = pq.read_table(source, partitioning=None)
        if settings.get("use_dictionary") == "others":
            settings["use_dictionary"] = [
                leaf.path for leaf in pq.ParquetFile(source).schema if leaf.physical_type not in ("FLOAT", "DOUBLE")
            ]
        each = max(1, int(rows.num_rows * CHUNK / max(1, rows.nbytes) / parts))
        pq.write_table(
            rows,
            folder / f"{number}.parquet",
            row_group_size=each,
            store_schema=False,
            write_page_checksum=True,
            write_page_index=True,
            **settings,
        )


def by_polars(files: list[str]) -> int:
    rows = pl.read_parquet(files, hive_partitioning=False)
    return rows.filter(pl.col("label_state") == "positive").height


def some_by_polars(files: list[str]) -> int:
    rows = pl.scan_parquet(files, hive_partitioning=False).select("request_id", "_event_time", "label_state").collect()
    return rows.filter(pl.col("label_state") == "positive").height


def by_duckdb(files: list[str]) -> int:
    read = duckdb.connect().execute("select * from read_parquet(?)", [files])
    return sum(
        pc.sum(pc.equal(batch["label_state"], "positive")).as_py() or 0 for batch in read.to_arrow_reader(100_000)
    )


def by_arrow(files: list[str]) -> int:
    """What delta-rs gives its users: an Arrow dataset of the table's files."""
    rows = ds.dataset(files).to_table()
    return pc.sum(pc.equal(rows["label_state"], "positive")).as_py()


READERS = {"polars": by_polars, "polars, 3 columns": some_by_polars, "duckdb": by_duckdb, "delta-rs": by_arrow}


def measure(ctx: Context, layout: str, files: list[Path], scratch: Path) -> Steps:
    """Write the layout, and read it with every reader."""
    steps = Steps(0)
    names = [str(file) for file in files]
    steps.done("imports")
    if layout != "spark":
        write(published(ctx), scratch, layout)
        steps.done("write")
    found = {}
    for name, reader in READERS.items():
        found[name] = reader(names)
        steps.done(name)
    spark = spark_for("benchmark layouts", ctx.places, ctx.pipeline)
    spark.range(10).write.format("noop").mode("overwrite").save()
    steps.done("session")
    try:
        spark.read.parquet(*names).write.format("noop").mode("overwrite").save()
        steps.done("spark")
    except Exception as refused:  # the answer, not a failure: a reader that cannot read a layout
        print(f"Spark cannot read {layout}: {str(refused)[:300]}", file=sys.stderr)
    require(len(set(found.values())) == 1 and min(found.values()) > 0, f"the readers disagree: {found}")
    return steps


def folder_of(options: argparse.Namespace, layout: str) -> Path:
    return Path(options.home).resolve() / f"layouts_{options.rows}" / layout


def files_of(options: argparse.Namespace, ctx: Context, layout: str) -> list[Path]:
    """The files of a layout, made once."""
    if layout == "spark":
        return published(ctx)
    folder = folder_of(options, layout)
    if not folder.exists():
        partial = folder.with_name("partial")
        shutil.rmtree(partial, ignore_errors=True)
        write(published(ctx), partial, layout)
        partial.rename(folder)
    return sorted(folder.iterdir())


def main() -> None:
    options = arguments(__doc__ or "", VARIANTS, rows=2_000_000)
    if options.work == "data":
        ctx = world(options.home, shape_of(options.rows))
        for layout in options.variants:
            files_of(options, ctx, layout)
        leave(0)
    ctx = pipeline_of(options.home, shape_of(options.rows))
    scratch = folder_of(options, "run")
    if options.work:
        work_once(lambda: measure(ctx, options.work, files_of(options, ctx, options.work), scratch))
        leave(0)
    sizes = ["--home", options.home, "--rows", str(options.rows)]
    subprocess.run([sys.executable, __file__, "--work", "data", "--variants", *options.variants, *sizes], check=True)
    megabytes = {
        layout: round(sum(file.stat().st_size for file in files_of(options, ctx, layout)) / 1e6)
        for layout in options.variants
    }

    def command(variant: str) -> list[str]:
        """Called just before the worker starts: remove what the previous one wrote."""
        shutil.rmtree(scratch, ignore_errors=True)
        return [sys.executable, __file__, "--work", variant, *sizes]

    compare("layouts", options.variants, command, rounds=options.rounds, about={"rows": options.rows, "MB": megabytes})
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
