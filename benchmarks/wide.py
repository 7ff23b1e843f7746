"""Wide rows: from window close to published with 2 000 float features per row, against a bare copy of the same rows.

    array     one `array<float>`
    columns   as many columns of type float, up to what a pipeline file may name

`ours` is the whole of it in one process: plan, join, check, publish; `by_files` the same with payload from files;
`copy` reads and writes the same left rows. Two hours are landed: the cold pass is about the first, the warm pass about
the second.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from common.side_by_side import Steps, arguments, compare, work_twice
from common.tables import HOUR, Shape, forget, pipeline_of, world
from publish import INTERVALS, VARIANTS

from windrow.config.fields import MOST_COLUMNS
from windrow.jobs.run import leave
from windrow.platform import jars

FORMS = ("array", "columns")
COMPARED = ("copy", "ours", "by_files")
MEMORY = "8g"
"""Java's heap for rows of many columns: a bare copy of 200 000 rows does not end with the usual 2 GB."""
OTHER_COLUMNS = 4
"""Columns of a left stream of `tables` in addition to its features."""


def shape_of(form: str, rows: int, features: int) -> Shape:
    """`rows` per hour, four rows per key and hour."""
    if form == "columns":
        features = min(features, MOST_COLUMNS - OTHER_COLUMNS)
    return Shape(rows * INTERVALS, 4 * INTERVALS, features, span=INTERVALS * HOUR, apart=form == "columns")


def work(options: argparse.Namespace) -> None:
    """One worker process: make the data, or measure a variant."""
    form, _, variant = options.work.partition("/")
    shape = shape_of(form, options.rows, options.features)
    if variant == "data":
        world(options.home, shape)
        return
    ctx = pipeline_of(options.home, shape)
    if form == "columns":
        more = jars.environment(ctx.places, options=jars.FOR_LARGE)["PYSPARK_SUBMIT_ARGS"]
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {MEMORY} {more}"

    def once(number: int) -> Steps:
        return VARIANTS[variant](ctx, number, options.rows, f"{options.out}/{number}")

    work_twice(once)


def measure(options: argparse.Namespace, form: str) -> None:
    """Both variants of one form, in turn."""
    scratch = Path(options.home).resolve() / "out"
    shape = shape_of(form, options.rows, options.features)

    def command(variant: str) -> list[str]:
        """Called just before the worker starts: remove what the previous one left."""
        shutil.rmtree(scratch, ignore_errors=True)
        if variant != "data":
            forget(pipeline_of(options.home, shape))
        sizes = ["--rows", str(options.rows), "--features", str(options.features), "--home", options.home]
        return [sys.executable, __file__, "--work", f"{form}/{variant}", "--out", f"{scratch}/{variant}", *sizes]

    subprocess.run(command("data"), check=True)
    about = {"rows": options.rows, "features": shape.features, "labelled": 0.2}
    compare(f"wide_{form}", COMPARED, command, rounds=options.rounds, about=about)
    shutil.rmtree(scratch, ignore_errors=True)


def main() -> None:
    options = arguments(__doc__ or "", FORMS, rows=20_000, features=2_000)
    if options.work:
        work(options)
        leave(0)
    for form in options.variants:
        measure(options, form)


if __name__ == "__main__":
    main()
