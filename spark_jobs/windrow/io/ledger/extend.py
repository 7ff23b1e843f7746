"""A pass of the late ledger: what differs now, appended in one commit with the batches that it is complete up to.

lock ─▶ what is due ─▶ nothing can have changed ─▶ a commit without lines (no Spark)   exactly once: the pass
          │                                                                            number is the table's
          └▶ rows are looked at (Spark) ─▶ their lines, and those that take lines back ─▶ transaction version
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import INTERVAL
from windrow.home import Home, Table
from windrow.io.delta import crash_points, tables
from windrow.io.delta.locks import held
from windrow.io.delta.session import frame_of
from windrow.io.ledger.affected_rows import Around, Looked
from windrow.io.ledger.due import Due, due
from windrow.io.ledger.table import APP_ID, Pass, last_pass, path_of
from windrow.io.registers.clocks import Observation
from windrow.schemas import LATE
from windrow.semantics.ledger import CONFIG_CHANGED
from windrow.semantics.plan import Plan
from windrow.transforms import ledger

_BEGAN = "topic string, batch bigint, _watermark timestamp"


def extend(home: Home, session: Callable[[], SparkSession]) -> Due | None:
    """Make the ledger complete up to what has landed; returns what it knows then, None where nothing is published.

    `session` is called only where rows must be looked at.
    """
    with held(home.lock(Table.LATE)):
        work = due(home)
        if work is None:
            return None
        changed = [_config_changed(work, start) for start in work.incomparable]
        if work.needs_spark:
            _look(session(), home, work, changed)
        elif changed or (number := _on_record(home, work)) is None:
            _append(path_of(home), work.as_pass, changed)
        else:
            return replace(work, number=number)
        return work


def _look(spark: SparkSession, home: Home, work: Due, changed: Sequence[Mapping[str, Any]]) -> None:
    around = Around(spark, home, work)
    if not around.touched:
        _append(path_of(home), work.as_pass, changed)
        return
    looked = around.looked_at()
    began = frame_of(spark, _began(home, _published_at(work, around.touched)), _BEGAN)
    told = ledger.lines(looked.both, looked.landed, looked.standing, began, home.pipeline).persist()
    kept = _opened(spark, path_of(home))
    rows = told.unionByName(_taken_back(kept, told, looked, work.is_erased))
    _commit(kept, rows, path_of(home), work.as_pass, changed)
    told.unpersist()
    looked.release()


def _taken_back(kept: DataFrame, told: DataFrame, looked: Looked, is_erased: bool) -> DataFrame:
    before = ledger.counting(kept, looked.standing)
    scope = looked.scope
    if is_erased:  # what was in the ledger may be landed no more, and so in no scope
        theirs = before.select(F.col("interval").alias(INTERVAL), F.col("subject").alias(ledger.SUBJECT))
        scope = scope.unionByName(theirs)
    return ledger.taken_back(told, before, scope.distinct())


def _commit(kept: DataFrame, rows: DataFrame, path: str, made: Pass, changed: Sequence[Mapping[str, Any]]) -> None:
    crash_points.point("late.before_commit")
    numbered = rows.withColumn("pass", F.lit(made.number).cast("bigint")).select(*LATE.names)
    if changed:
        ddl = ", ".join(f"`{field.name}` {ledger.SPARK_TYPES[field.type]}" for field in LATE)
        said = [tuple(row.get(name) for name in LATE.names) for row in changed]
        numbered = numbered.unionByName(frame_of(kept.sparkSession, said, ddl))
    (
        numbered.hint("rebalance")  # as few files as the lines need
        .write.format("delta")
        .mode("append")
        .option("txnAppId", APP_ID)
        .option("txnVersion", str(made.number))
        .option("userMetadata", made.to_json())
        .save(path)
    )
    written = tables.version_of(path, APP_ID)
    if written != made.number:
        raise tables.WriteSkipped(f"{path}: pass {made.number} is not in the table (it is at {written}). Run again.")
    crash_points.point("late.after_commit")


def _append(path: str, made: Pass, rows: Sequence[Mapping[str, Any]]) -> None:
    """A pass without Spark, mostly without a line: only to say how far the ledger is complete."""
    crash_points.point("late.before_commit")
    data = pa.Table.from_pylist([{name: row.get(name) for name in LATE.names} for row in rows], LATE)
    properties = CommitProperties(
        custom_metadata={"userMetadata": made.to_json()}, app_transactions=[Transaction(APP_ID, made.number)]
    )
    write_deltalake(path, data, mode="append", commit_properties=properties)
    crash_points.point("late.after_commit")


def _opened(spark: SparkSession, path: str) -> DataFrame:
    """The ledger; an empty one is made where there is none."""
    if tables.opened(path) is None:
        write_deltalake(path, LATE.empty_table(), mode="append")
    return spark.read.format("delta").load(path)


def _config_changed(work: Due, start: datetime) -> dict[str, Any]:
    number = work.standing[start]["number"]
    return {"interval": start, "publication": number, "pass": work.number, "kind": CONFIG_CHANGED, "subject": ""}


def _on_record(home: Home, work: Due) -> int | None:
    """The newest pass, if it knew as much already."""
    last = last_pass(home)
    now = work.as_pass
    if last is None or (last.publication, last.known.config_hash) != (now.publication, now.known.config_hash):
        return None
    return last.number if last.known.pins == now.known.pins else None


def _published_at(work: Due, starts: Sequence[datetime]) -> dict[str, int]:
    """The least pins of these publications: what is above them may be late, also where an earlier pass knew it."""
    pins = [Plan.from_json(work.standing[start]["plan"]).pins for start in starts]
    return {topic: min(p.get(topic, 0) for p in pins) for topic in work.known.pins}


def _began(home: Home, floor: Mapping[str, int]) -> list[tuple[str, int, datetime | None]]:
    """W as each batch above the floor began to land: that of the observation before it was first seen."""
    alternatives: Any = [[("topic", "=", topic), ("batch", ">=", batch)] for topic, batch in floor.items()]
    rows = tables.read(home.table(Table.CLOCK), filters=alternatives)
    by_number: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_number.setdefault(row["observation"], []).append(row)
    began: dict[tuple[str, int], datetime | None] = {}
    last = dict(floor)
    watermark: datetime | None = None
    for number in sorted(by_number):
        seen = Observation(number, home.pipeline.topics, tuple(by_number[number]))
        for topic, batch in seen.pins.items():
            for one in range(last.get(topic, 0) + 1, batch + 1):
                began[topic, one] = watermark
            last[topic] = max(batch, last.get(topic, 0))
        watermark = seen.watermark
    return [(topic, batch, at) for (topic, batch), at in began.items()]
