"""Ways out: rows of a read as files for other programs, in served order or shuffled, in shards, with a manifest.

    from windrow.training.export import export, verify

    manifest = export("feed", "/data/ranker-7", "parquet", at="snapshot:ranker-7", shuffle=7)
    verify("/data/ranker-7")

Memory is bounded: the range is read in pieces. A killed export goes on where it was, with the rows that it was begun
with; what comes out is the same to the byte. No Spark: its twin for large ranges is `windrow.training.export.spark`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any, Unpack, get_args

import polars as pl
import pyarrow as pa

from windrow.home import Home
from windrow.io.delta import crash_points, store
from windrow.io.registers import erasures, publications
from windrow.places import Places
from windrow.semantics.intervals import Interval
from windrow.text import duration_text, instant_text, short
from windrow.training.export import order
from windrow.training.export.formats import KINDS, ExtraMissing, Format, Grouped
from windrow.training.export.manifest import (
    Begun,
    ExportDamaged,
    Manifest,
    Next,
    Shard,
    TargetInUse,
    TargetTaken,
    Work,
    verify,
)
from windrow.training.export.order import Order
from windrow.training.opening import Opened, Options, Time, home_of, opened, opened_again
from windrow.training.pin import Pin
from windrow.training.reader import rows_of
from windrow.training.request import WrongRequest

__all__ = [
    "ExportDamaged",
    "ExtraMissing",
    "Format",
    "Manifest",
    "Shard",
    "TargetInUse",
    "TargetTaken",
    "export",
    "verify",
]

SHARD_ROWS = 100_000
ROWS_AT_ONCE = 250_000
"""Rows of a piece: what is in memory at once."""


def export(
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
    rows_at_once: int = ROWS_AT_ONCE,
    places: Places | None = None,
    **options: Unpack[Options],
) -> Manifest:
    """Write the rows of a read to files, and return their manifest.

    The arguments that are not named here are those of `windrow.training.read`.

    Args:
        to: an empty folder, `s3://bucket/prefix`, or the place of an export that was killed.
        format: `parquet`, `arrow`, `tfrecord` or `webdataset`.
        columns: only these, in this order; default: all.
        shuffle: seed of a shuffle of all rows; default: served order.
        shard_rows: rows of each file, the last one apart.
        rows_at_once: about how many rows are in memory; it changes no byte.
    Raises:
        NothingToDo: the export is there.
        TargetTaken: something else is there.
        TargetInUse: another process exports to it.
        ExtraMissing: the library of the format is not installed.
        HoldsErased: keys were erased since it began.
        WrongRequest: an argument cannot be carried out; and what `read` raises.
    """
    places = places or Places.for_tables(os.environ)
    require_possible(format, shard_rows, rows_at_once)
    work = Work(location(to), places)
    given = {"start": start, "end": end, "at": at, "columns": columns, "shuffle": shuffle, "shard_rows": shard_rows}
    asked = plain({"pipeline": pipeline, "format": format, **given, **options})
    with work.alone():
        home, begun = home_of(pipeline, places), work.begun(asked)
        erased = erasures.recorded(home) if begun is None or begun.erased is None else begun.erased
        require_none_erased(home, work, erased)
        one = opened_again(begun.pin, places) if begun else opened(pipeline, start, end, at, places, options)
        schema = schema_of(dict(_rows(one, one.pin.request.range).collect_schema()), columns)
        if begun is None:
            begun = Begun(one.pin.to_json(), rows_at_once, erased)
            work.begin(asked, begun)
        rows = _order(one, home, schema.names, shuffle, begun.rows_at_once, work)
        shards = tuple(_write(rows, work, format, shard_rows))
        require_none_erased(home, work, erased)
        return work.complete(Manifest(asked, json.loads(begun.pin), types_of(schema), shards))


def require_possible(format: str, *numbers_of_rows: int) -> None:
    """Raise `WrongRequest` for a format that is none, and for a number of rows that is not positive."""
    if format not in KINDS:
        raise WrongRequest(f"format is {short(format)}; it may be {', '.join(get_args(Format))}")
    if any(number < 1 for number in numbers_of_rows):
        raise WrongRequest("shard_rows and rows_at_once are numbers of rows, 1 or more")


def require_none_erased(home: Home, work: Work, before: int) -> None:
    """Fail where keys were erased since an export has looked for its rows.

    Args:
        before: how many were on record then.
    Raises:
        HoldsErased: some were.
    """
    if erasures.recorded(home) != before:
        raise erasures.HoldsErased(
            f"keys of {home.pipeline.name} were erased since the export to {work.target} began, which may hold their "
            "rows. Delete what is there, and export again."
        )


def location(to: str | os.PathLike[str]) -> str:
    """Return where an export goes: an absolute folder, or a URL."""
    text = os.fspath(to).rstrip("/")
    return text if store.is_remote(text) else os.path.abspath(text)


def plain(asked: dict[str, Any]) -> dict[str, Any]:
    """Return arguments as the manifest has them; what was not given is left out."""

    def text(value: Any) -> Any:
        if isinstance(value, datetime):
            return instant_text(value)
        if isinstance(value, timedelta):
            return duration_text(value)
        return list(value) if isinstance(value, tuple | list) else value

    return {name: text(value) for name, value in asked.items() if value is not None}


def schema_of(types: Mapping[str, pl.DataType], columns: Sequence[str] | None) -> pa.Schema:
    """Return the wanted columns with their types in files.

    Raises:
        WrongRequest: the rows do not have one of them.
    """
    if unknown := [name for name in columns or () if name not in types]:
        raise WrongRequest(f"columns: no {', '.join(map(short, unknown))} in the rows; they have {', '.join(types)}")
    return order.arrow(pl.DataFrame(schema={name: types[name] for name in columns or types})).schema


def types_of(schema: pa.Schema) -> dict[str, str]:
    """Return column → type, as the manifest has them."""
    return {field.name: str(field.type) for field in schema}


def _order(one: Opened, home: Home, columns: Sequence[str], seed: int | None, most: int, work: Work) -> Order:
    """Return the rows of a read in their order, part by part."""
    counts = rows_by_interval(home, one.pin)
    parts = order.pieces(counts, one.pin.request.range, most)

    def read(piece: Interval) -> pl.LazyFrame:
        return _rows(one, piece)

    if seed is None:
        return order.Served(read, parts, columns)
    buckets = max(1, ceil(sum(count for _, count in counts) / most))
    return order.Shuffled(read, parts, columns, seed, work.folder, buckets)


def _rows(one: Opened, piece: Interval) -> pl.LazyFrame:
    """Return the rows of a part of the range, with the credits that they have in any range."""
    pin, request = one.pin, one.pin.request
    back, ahead = pin.span.start - request.start, pin.span.end - request.end
    span = Interval(piece.start + back, piece.end + ahead)
    part = replace(pin, request=replace(request, start=piece.start, end=piece.end), span=span)
    return rows_of(one.rows, part, one.observed)


def rows_by_interval(home: Home, pin: Pin) -> list[tuple[Interval, int]]:
    """Return the intervals of a pin's publications with their rows, by time."""
    wanted = set(pin.publications)
    register = publications.complete(home, ("number", "interval", "interval_end", "rows"))
    found = [(Interval(r["interval"], r["interval_end"]), r["rows"]) for r in register if r["number"] in wanted]
    return sorted(found, key=lambda one: one[0].start)


def _write(rows: Order, work: Work, format: Format, shard_rows: int) -> Iterator[Shard]:
    """Yield every shard: those that an earlier try has finished, then those that are written now."""
    done = work.finished()
    yield from (shard for shard, _ in done)
    begin = done[-1][1] if done else Next(0, 0)
    kind, number, writer = KINDS[format], len(done), None
    for part, piece in _from(rows, begin):
        offset = begin.row if part == begin.part else 0
        while offset < piece.num_rows:
            file = work.folder / f"part-{number:06d}.{kind.ending}"
            writer = writer or Grouped(kind.writer(str(file), piece.schema, number))
            count = min(shard_rows - writer.rows, piece.num_rows - offset)
            writer.write(piece.slice(offset, count))
            offset += count
            if writer.rows == shard_rows:
                yield _finished(work, file, writer, Next(part, offset))
                number, writer = number + 1, None
    if writer is not None:
        yield _finished(work, file, writer, Next(rows.parts, 0))


def _from(rows: Order, begin: Next) -> Iterator[tuple[int, pa.Table]]:
    return ((part, rows.part(part)) for part in range(begin.part, rows.parts))


def _finished(work: Work, file: Path, writer: Grouped, following: Next) -> Shard:
    writer.close()
    crash_points.point("export.before_shard")
    shard = work.finish(file, writer.rows, following)
    crash_points.point("export.after_shard")
    return shard
