"""Who commits what Spark has written: Spark with a log store that refuses a taken version, or delta-rs for all writers.

    .venv/bin/python benchmarks/commits.py                     in a folder, and in a store on this machine

    one_committer    Spark writes the files into the table, and delta-rs commits them: `io.delta.appending`
    log_store        Spark's own append, which commits by `ConditionalLogStore`

Steps of a pass: `session`, `one` (an append of all rows with 20 numbers each), `twenty` (appends of a hundred rows).
Both write the same rows, under an app id and a version, and the worker counts them. Requests to the store are printed.
This is what decision 9 of docs/ARCHITECTURE.md was taken by.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from common.counted import Counted
from common.side_by_side import Steps, arguments, compare, work_twice
from common.tables import rows_in
from publish import require
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from units import tables as server_of

from windrow.io.delta import appending, store
from windrow.jobs.spark import spark_for
from windrow.places import Places

VARIANTS = ("one_committer", "log_store")
ROOTS = ("folder", "store")
SMALL, COMMITS, COLUMNS = 100, 20, 20
Append = Callable[[DataFrame, str, int], None]


def by_log_store(rows: DataFrame, path: str, version: int) -> None:
    written = rows.write.format("delta").mode("append").option("txnAppId", "app")
    written.option("txnVersion", str(version)).save(path)


def by_one_committer(rows: DataFrame, path: str, version: int) -> None:
    table = appending.prepare(path, rows.schema)
    appending.append(rows, path, table, app_id="app", version=version, message="{}", statistics=["id"])


APPENDS: dict[str, Append] = {"log_store": by_log_store, "one_committer": by_one_committer}


def work(variant: str, places: Places, rows: int, number: int) -> Steps:
    """Append to a new table, and count what it has."""
    steps, append = Steps(number), APPENDS[variant]
    spark = spark_for("benchmark commits", places)
    path = places.table("commits", f"{variant}-{number}")
    made = spark.range(rows).select("id", *(F.rand(n).alias(f"f{n}") for n in range(COLUMNS)))
    steps.done("session")
    append(made, path, 1)
    steps.done("one")
    for n in range(COMMITS):
        append(made.limit(SMALL), path, n + 2)
    steps.done("twenty")
    require(rows_in(path) == rows + COMMITS * SMALL, f"{rows_in(path)} rows")
    return steps


def main() -> None:
    options = arguments(__doc__ or "", VARIANTS, rows=1_000_000)
    if options.work:
        places = Places.from_env(os.environ)
        work_twice(lambda number: work(options.work, places, options.rows, number))
        return
    for root in ROOTS:
        home = Path(options.home).resolve() / "commits"
        shutil.rmtree(home, ignore_errors=True)
        with server_of(root, home) as (variables, counted):
            os.environ.update({**variables, "WINDROW_HOME": str(home)})
            measure(root, options, counted)
            for name in variables:
                del os.environ[name]


def measure(root: str, options: argparse.Namespace, counted: Counted | None) -> None:
    """Time both variants on one root; print the requests of each pass and variant that the store has got."""
    asked: list[str] = []
    requests: dict[str, Counter[str]] = {variant: Counter() for variant in options.variants}

    def take() -> None:
        if counted is not None and asked:
            requests[asked[-1]] += Counter(counted.taken())

    def command(variant: str) -> list[str]:
        """Called just before the worker starts: the tables of the one before are removed."""
        take()
        store.remove_all(Places.from_env(os.environ).table("commits", ""))
        if counted is not None:
            counted.taken()
        asked.append(variant)
        return [sys.executable, __file__, "--work", variant, "--rows", str(options.rows)]

    compare(f"commits_{root}", options.variants, command, rounds=options.rounds, about={"rows": options.rows})
    take()
    for variant, kinds in requests.items() if counted is not None else ():
        each = {kind: round(number / options.rounds / 2) for kind, number in sorted(kinds.items())}
        print(f"{variant}: requests per pass {each}")


if __name__ == "__main__":
    main()
