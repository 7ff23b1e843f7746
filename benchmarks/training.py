"""Reading training data: the reader against a bare Polars scan of the same version with the same filter.

    scan      pl.scan_delta, the days and times of the range, rows without a label_reason; collected
    reader    windrow.training.read of the same range; collected. Aim: at most 1.1 x the scan
    sampled   … with a twentieth of the negatives
    matured   … with labels cut to five minutes
    linear    … with each label credited to its rows in equal parts

The table has twelve intervals of five minutes, 50 features per row and a label for every fifth row; ten intervals are
read, which are --rows rows. It is made once, by the platform's own commit, from seeded random numbers. No JVM starts.
Every pass counts its rows.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from common.side_by_side import Steps, arguments, compare, work_twice
from common.tables import START, Shape, pipeline_of
from deltalake import DeltaTable, Schema

from windrow import training
from windrow.columns import DATE, ROW_ID, TRAINING_STATISTICS
from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.delta.files import DataFile
from windrow.io.delta.staging import Staged
from windrow.io.registers import configs, publications
from windrow.io.training import publication
from windrow.semantics.clock import PartitionClock
from windrow.semantics.intervals import Interval, micros
from windrow.semantics.plan import Plan

MINUTES, INTERVALS, FEATURES, LABELLED = 5, 12, 50, 5
LENGTH = timedelta(minutes=MINUTES)
BEGIN, END = START + LENGTH, START + (INTERVALS - 1) * LENGTH
OPTIONS: dict[str, training.Options] = {
    "reader": {},
    "sampled": {"negatives": 0.05},
    "matured": {"matured": "5m"},
    "linear": {"attribute": "linear", "unpublished": "skip"},
}
VARIANTS = ("scan", *OPTIONS)

INSTANT = pa.timestamp("us", tz="UTC")
TYPES = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.bool_(): "boolean",
    INSTANT: "timestamp",
    pa.float32(): "float",
}


def home_of(home: str, rows: int) -> Home:
    """The pipeline of the data."""
    return pipeline_of(home, Shape(rows, LABELLED, FEATURES, minutes=MINUTES)).home


def data(home: Home, rows: int) -> None:
    """Publish all intervals; nothing if that was done before."""
    path = home.table(Table.TRAINING)
    if (opened := tables.opened(path)) is not None and opened.transaction_version("windrow.publish") == INTERVALS:
        return
    print(f"making {rows:,} rows in {home.places.home} (once) …", file=sys.stderr)
    each, random = rows // (INTERVALS - 2), np.random.default_rng(1)
    for number in range(1, INTERVALS + 1):
        begin = START + (number - 1) * LENGTH
        table = _rows(begin, each, number, random)
        types = {field.name: _spark(field.type) for field in table.schema}
        if number == 1:
            _create(path, table.schema)
            configs.keep(home, begin)
        file = Path(home.places.staging(home.pipeline.name)) / f"{number}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, file)
        plan = _plan(home, begin)
        row = _register_row(plan, number, each)
        publication.commit(
            home, plan.interval, row, _unwanted, Staged(plan, number, (DataFile.read(str(file)),), types)
        )
        file.unlink()


def _rows(begin: datetime, rows: int, number: int, random: np.random.Generator) -> pa.Table:
    """The rows of an interval, in served order; labels come within 30 minutes of every fifth."""
    served = micros(begin) + np.sort(random.integers(0, micros(LENGTH), rows))
    user, item = random.integers(0, rows // 4, rows), random.integers(0, 10_000, rows)
    features = pa.array(random.random(rows * FEATURES, np.float32))
    labelled = np.arange(rows) % LABELLED == 0
    engaged = served[labelled] + random.integers(0, 30 * 60_000_000, labelled.sum())
    offsets = np.arange(rows) + (number - 1) * rows
    label = pa.StructArray.from_arrays(
        [
            *_row_order(engaged, "clicks", offsets[labelled]).values(),
            pa.array(engaged).cast(INSTANT),
            pa.array(offsets[labelled]).cast(pa.string()),
            pa.array(user[labelled]),
            pa.array(item[labelled]),
            pa.array(engaged).cast(INSTANT),
        ],
        names=["_event_time", *ROW_ID, "_arrived_at", "event_id", "user_id", "item_id", "engaged_at"],
    )
    ends = np.concatenate([[0], np.cumsum(labelled)])
    constant = {"_batch": 1, "_interval": begin, "_observed_until": begin + timedelta(hours=3), "_publication": number}
    kinds = {"_batch": pa.int64(), "_publication": pa.int64()}
    return pa.table(
        {
            "request_id": pa.array(offsets).cast(pa.string()),
            "user_id": pa.array(user),
            "item_id": pa.array(item),
            "served_at": pa.array(served).cast(INSTANT),
            "features": pa.ListArray.from_arrays(np.arange(rows + 1) * FEATURES, features),
            "clicks": pa.ListArray.from_arrays(ends, label),
            "clicked": pa.array(labelled),
            "label_state": pa.array(np.where(labelled, "positive", "negative")),
            "label_reason": pa.nulls(rows, pa.string()),
            **_row_order(served, "served", offsets),
            "_arrived_at": pa.array(served).cast(INSTANT),
            **{name: pa.repeat(pa.scalar(value, kinds.get(name, INSTANT)), rows) for name, value in constant.items()},
        }
    )


def _row_order(at: np.ndarray, topic: str, offsets: np.ndarray) -> dict[str, pa.Array]:
    zero = pa.repeat(pa.scalar(0, pa.int32()), len(at))
    return {
        "_event_time": pa.array(at).cast(INSTANT),
        "_topic": pa.repeat(topic, len(at)),
        "_epoch": zero,
        "_partition": zero,
        "_offset": pa.array(offsets),
    }


def _spark(kind: pa.DataType) -> str:
    """A type as Spark writes it."""
    if pa.types.is_list(kind):
        return f"array<{_spark(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{_spark(field.type)}' for field in kind)}>"
    return TYPES[kind]


def _create(path: str, schema: pa.Schema) -> None:
    DeltaTable.create(
        path,
        Schema.from_arrow(schema.append(pa.field(DATE, pa.date32()))),
        partition_by=[DATE],
        configuration={tables.STATISTICS: ",".join(TRAINING_STATISTICS)},
    )


def _plan(home: Home, begin: datetime) -> Plan:
    until = begin + timedelta(hours=3)
    clocks = tuple(PartitionClock(topic, 0, 0, 1, 1, until, until) for topic in home.pipeline.topics)
    pins = dict.fromkeys(home.pipeline.topics, 1)
    interval = Interval(begin, begin + LENGTH)
    return Plan(home.pipeline.name, "benchmark", interval, pins, home.pipeline.config_hash, clocks)


def _register_row(plan: Plan, number: int, rows: int) -> dict[str, Any]:
    counts = {"rows": rows, "left_landed": rows, "left_duplicate": 0, "left_unpaired": 0, "unknown": 0}
    names = ("overridden_by", "override_reason", "report", "reason", "asked_by")
    return {
        "number": number,
        **publications.columns_of(plan),
        "code_version": "0",
        **counts,
        "positive": rows // LABELLED,
        "negative": rows - rows // LABELLED,
        "balance": "{}",
        "verdict": "passed",
        "published_at": plan.interval.end,
        "kind": "train",
        **dict.fromkeys(names),
    }


def _unwanted() -> Any:
    raise AssertionError("the files can be published as they are")


def scan(home: Home) -> pl.LazyFrame:
    """What a person would write."""
    at = pl.col("_event_time")
    rows = pl.scan_delta(home.table(Table.TRAINING))
    inside = (pl.col("_date") == START.date()) & (at >= BEGIN) & (at < END)
    return rows.filter(inside & pl.col("label_reason").is_null())


def read(variant: str) -> Callable[[Home], pl.LazyFrame]:
    """What a trainer writes."""
    return lambda home: training.read(home.pipeline.name, BEGIN, END, places=home.places, **OPTIONS[variant]).rows


def work(variant: str, home: Home, rows: int) -> None:
    """One worker process: make the data, or measure a variant."""
    if variant == "data":
        data(home, rows)
        return
    planned = scan if variant == "scan" else read(variant)

    def once(number: int) -> Steps:
        steps = Steps(number)
        lazy = planned(home)
        steps.done("plan")
        found = lazy.collect().height
        steps.done("collect")
        if variant != "sampled" and found != rows:
            raise SystemExit(f"{found:,} rows were read, and {rows:,} were published")
        return steps

    work_twice(once)


def main() -> None:
    options = arguments(__doc__ or "", VARIANTS, rows=2_000_000)
    if options.work:
        work(options.work, home_of(options.home, options.rows), options.rows)
        return
    given = ["--rows", str(options.rows), "--home", options.home]

    def command(variant: str) -> list[str]:
        return [sys.executable, __file__, "--work", variant, *given]

    subprocess.run(command("data"), check=True)
    about = {"rows": options.rows, "features": FEATURES, "labelled": 1 / LABELLED, "aim": "reader at most 1.1 x scan"}
    compare("training", options.variants, command, rounds=options.rounds, about=about)


if __name__ == "__main__":
    main()
