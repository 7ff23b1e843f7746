"""Export by Spark, for ranges larger than a machine: the same rows in the same order, written by the executors.

    from windrow.training.export import spark as export, verify

    manifest = export.export(spark_for("export", places), "feed", "s3://bucket/ranker-7", "parquet", shuffle=7)
    verify("s3://bucket/ranker-7")

    rows of the read ─▶ slot (of time, or of the hash) ─▶ count per slot ─▶ shards: neighbouring slots, up to shard_rows
                                                                                │
    rows ─▶ one partition per shard ─▶ sorted ─▶ file ─▶ target ─▶ on record ◀──┘

A slot is a fact of a row, and counts are those of pinned rows. So every try makes the same shards, and one that goes on
after a kill writes only those that are not on record. The driver gets figures alone: rows per slot, and what each shard
has become. Executors need the target, and Python with this package and Polars.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import EVENT_TIME, ROW_ID, ROW_ORDER
from windrow.home import Home
from windrow.io.delta import crash_points, store
from windrow.io.registers import erasures
from windrow.places import Places
from windrow.semantics.intervals import micros
from windrow.training import spark as reader
from windrow.training.export import (
    SHARD_ROWS,
    ExportDamaged,
    Format,
    Manifest,
    Shard,
    location,
    plain,
    require_none_erased,
    require_possible,
    rows_by_interval,
    schema_of,
    types_of,
)
from windrow.training.export.formats import KINDS, Grouped
from windrow.training.export.manifest import Begun, Work, moved, record
from windrow.training.export.order import PURPOSE
from windrow.training.hashing import SIZE
from windrow.training.opening import Options, Time, home_of
from windrow.training.pin import Pin

SLOTS = 20
"""About how many slots make a shard: a shard misses its size by about one of them."""
MOST_SLOTS = 1_000_000
_SLOT, _SHARD, _TASK, _HASH = "_slot", "_shard", "_task", "_hash"
_FIGURES = "number int, name string, rows bigint, bytes bigint, sha256 string"


def export(
    session: SparkSession,
    pipeline: str,
    to: str | os.PathLike[str],
    format: Format,
    start: Time | None = None,
    end: Time | None = None,
    *,
    at: int | Time | None = None,
    columns: Sequence[str] | None = None,
    shuffle: int | None = None,
    shard_rows: int = SHARD_ROWS,
    places: Places | None = None,
    **options: Unpack[Options],
) -> Manifest:
    """Write the rows of a read to files by Spark, and return their manifest: `windrow.training.export.export`.

    Args:
        session: as Windrow starts it; its workers share the location of the tables.
        to: a folder that driver and workers share, `s3://bucket/prefix`, or the place of an export that was killed.
        shard_rows: a file has about as many rows, mostly up to a twentieth fewer.
    Raises:
        ExportDamaged: what was written are not the rows of the read.
        HoldsErased: keys were erased since it began.
    """
    places = places or Places.for_tables(os.environ)
    require_possible(format, shard_rows)
    work = Work(location(to), places)
    given = {"start": start, "end": end, "at": at, "columns": columns, "shuffle": shuffle, "shard_rows": shard_rows}
    asked = plain({"pipeline": pipeline, "format": format, "spark": True, **given, **options})
    with work.alone():
        home, begun = home_of(pipeline, places), work.begun(asked)
        erased = erasures.recorded(home) if begun is None or begun.erased is None else begun.erased
        require_none_erased(home, work, erased)
        if begun:
            read = reader.read_pinned(session, begun.pin, places=places)
        else:
            read = reader.read(session, pipeline, start, end, at=at, places=places, **options)
        schema = schema_of(_types(read.rows), columns)
        if begun is None:
            store.remove_all(work.records)
            begun = Begun(read.pin.to_json(), shard_rows, erased)
            work.begin(asked, begun)
        order = _order(read.rows, home, read.pin, shuffle, shard_rows)
        shards = _written(session, read.rows, order, _Target(work, format, schema), shard_rows)
        require_none_erased(home, work, erased)
        return work.complete(Manifest(asked, json.loads(begun.pin), types_of(schema), shards))


def _types(rows: DataFrame) -> Mapping[str, pl.DataType]:
    """Return column → type, as Polars has them; no row is read."""
    empty = pl.from_arrow(rows.limit(0).toArrow())
    assert isinstance(empty, pl.DataFrame)
    return dict(empty.schema)


# ---- which shard a row is in


class _Order(NamedTuple):
    """The order of an export.

    Args:
        slot: whole number of a row, which never falls along the order.
        hash: what a shuffle sorts by first; None for served order.
    """

    slot: Column
    hash: Column | None


def _order(rows: DataFrame, home: Home, pin: Pin, seed: int | None, shard_rows: int) -> _Order:
    counts = rows_by_interval(home, pin)
    if seed is None:
        wanted = max(1, shard_rows // SLOTS)
        widths = [micros(interval.length) * wanted // count for interval, count in counts if count > wanted]
        widest = min(widths, default=micros(home.pipeline.interval))
        width = max(1, widest, micros(pin.request.range.length) // MOST_SLOTS)
        return _Order(F.expr(f"unix_micros({EVENT_TIME}) div {width}"), None)
    slots = min(MOST_SLOTS, SLOTS * max(1, sum(count for _, count in counts) // shard_rows))
    types = dict(rows.dtypes)
    hashed = reader.hash_of((seed, PURPOSE), [(name, types[name]) for name in ROW_ID])
    return _Order(F.floor(hashed * slots / F.lit(SIZE)).cast("bigint"), hashed)


def shards_of(counts: Sequence[int], most: int) -> list[int]:
    """Return the shard of each slot: neighbours share one, while it has at most so many rows.

    >>> shards_of([40, 30, 30, 50, 120, 1], 100)
    [0, 0, 0, 1, 2, 3]
    """
    shards, shard, held = [], 0, 0
    for count in counts:
        if held and held + count > most:
            shard, held = shard + 1, 0
        shards.append(shard)
        held += count
    return shards


# ---- writing


@dataclass(frozen=True)
class _Target:
    """What an executor needs to write shards; it is sent to each."""

    work: Work
    format: Format
    schema: pa.Schema


def _written(
    session: SparkSession, rows: DataFrame, order: _Order, target: _Target, shard_rows: int
) -> tuple[Shard, ...]:
    """Write the shards that are not on record; return all of them.

    Raises:
        ExportDamaged: a shard has other rows than were counted.
    """
    counted = pl.from_arrow(rows.groupBy(order.slot.alias(_SLOT)).agg(F.count("*").alias("rows")).toArrow())
    assert isinstance(counted, pl.DataFrame)
    slots = counted.sort(_SLOT)
    slots = slots.with_columns(pl.Series(_SHARD, shards_of(slots["rows"].to_list(), shard_rows), pl.Int32))
    planned = slots.group_by(_SHARD).agg(pl.col("rows").sum()).sort(_SHARD)["rows"].to_list()
    done = target.work.recorded()
    missing = slots.filter(~pl.col(_SHARD).is_in(list(done)))
    if missing.height:
        done |= _write(session, rows, order, target, missing.select(_SLOT, _SHARD))
    shards = tuple(shard for _, shard in sorted(done.items()))
    if (found := [shard.rows for shard in shards]) != planned:
        raise ExportDamaged(
            f"{target.work.target}: {sum(found):,} rows in {len(found)} files were written, and the read has "
            f"{sum(planned):,} in {len(planned)}. Export to another place again."
        )
    return shards


def _write(
    session: SparkSession, rows: DataFrame, order: _Order, target: _Target, slots: pl.DataFrame
) -> dict[int, Shard]:
    """Write shards, each in a task of its own; return number → shard."""
    numbered = slots.with_columns((pl.col(_SHARD).rank("dense") - 1).cast(pl.Int32).alias(_TASK))
    tasks = int(numbered[_TASK].max()) + 1  # type: ignore[arg-type]
    mapping = F.broadcast(session.createDataFrame(numbered.to_arrow(compat_level=pl.CompatLevel.oldest())))
    keyed = rows.withColumns({_SLOT: order.slot, **({} if order.hash is None else {_HASH: order.hash})})
    parts = keyed.join(mapping, on=_SLOT, how="inner").repartitionById(tasks, F.col(_TASK))
    ordered = parts.sortWithinPartitions(_SHARD, *([] if order.hash is None else [_HASH]), *ROW_ORDER)
    figures = ordered.select(_SHARD, *target.schema.names).mapInArrow(partial(_shards, target), _FIGURES)
    return {number: Shard(*shard) for number, *shard in figures.collect()}


def _shards(target: _Target, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the sorted rows of a partition, on an executor; yield the figures of each shard."""
    here = target.work.folder  # next to the target, so that a finished file is only renamed
    parent = None if store.is_remote(target.work.target) else here
    with tempfile.TemporaryDirectory(dir=parent, prefix="windrow-export-") as folder:
        current = None
        for number, rows in _runs(batches):
            if current is None or current.number != number:
                if current is not None:
                    yield current.finished()
                current = _Open(target, number, Path(folder))
            current.writer.write(rows.cast(target.schema))
        if current is not None:
            yield current.finished()


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of a batch shard by shard, with the number of the shard."""
    for batch in batches:
        numbers = batch.column(0).to_numpy(zero_copy_only=False)
        starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        rows = pa.Table.from_batches([batch]).remove_column(0)
        for begin, end in pairwise(starts):
            if end > begin:
                yield int(numbers[begin]), rows.slice(begin, end - begin)


class _Open:
    """A shard that is being written."""

    def __init__(self, target: _Target, number: int, folder: Path) -> None:
        kind = KINDS[target.format]
        self.number, self._target = number, target
        self._file = folder / f"part-{number:06d}.{kind.ending}"
        self.writer = Grouped(kind.writer(str(self._file), target.schema, number))

    def finished(self) -> pa.RecordBatch:
        """Move the file to its place, put it on record, and return its figures."""
        self.writer.close()
        crash_points.point("export.before_shard")
        work = self._target.work
        shard = moved(self._file, work.target, self.writer.rows)
        record(shard, self.number, work.records, self._file.parent)
        crash_points.point("export.after_shard")
        figures: dict[str, Any] = {"number": self.number, **shard._asdict()}
        kinds = {"number": pa.int32(), "rows": pa.int64(), "bytes": pa.int64()}
        return pa.record_batch({name: pa.array([value], kinds.get(name)) for name, value in figures.items()})
