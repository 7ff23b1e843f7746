"""Where the rows of publications are: a version of the training table that has them, or a snapshot. No Spark, no lock.

publication 3 of an interval        publication 8 of it
├── versions with the rows of 3 ───┤├── versions with the rows of 8 ──▶
    compaction in between changes files, not rows; vacuum ends old versions, apart from files of snapshots
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from windrow.columns import DATE, EVENT_TIME
from windrow.config import Pipeline, Window
from windrow.home import Home, Table
from windrow.io.delta import damage, lookup, store, tables
from windrow.io.delta.lookup import Range
from windrow.io.registers import configs, snapshots
from windrow.io.registers.snapshots import KeptFiles, Snapshot
from windrow.outcomes import BadInput
from windrow.semantics.intervals import Interval, shifted
from windrow.text import counted

Row = Mapping[str, Any]
"""A row of the register, by column."""

Rows = DeltaTable | KeptFiles
"""Where rows are read from: the table at a version, or files that a snapshot keeps."""


class FileUnknown(BadInput):
    """A pipeline file under which rows were published is not on record."""


def within(rows: Iterable[Row], span: Interval) -> list[Row]:
    """Return the publications whose intervals overlap a span.

    Args:
        rows: register rows.
        span: half-open, of served times.
    """
    return [row for row in rows if row["interval"] < span.end and row["interval_end"] > span.start]


def table_with(
    home: Home, newest: DeltaTable, register: Iterable[Row], rows: Sequence[Row], span: Interval
) -> DeltaTable | None:
    """Return the table at a version in which exactly these publications stand in a span, and that can be read, or None.

    Args:
        newest: the newest version of the table.
        register: every publication, later ones too.
        rows: register rows of the wanted publications.
    """
    number_of = {row["interval"]: row["number"] for row in rows}
    inside = within(register, span)
    later = (row["training_version"] for row in inside if row["number"] > number_of.get(row["interval"], 0))
    last = min((version - 1 for version in later), default=None)
    if last is None:
        return newest
    first = max((row["training_version"] for row in rows), default=0)
    # the last of these versions has the fewest files, and vacuum ends it last
    for one in (last, first):
        if one >= first and (table := readable(home, one, span)):
            return table
    return None


def readable(home: Home, number: int, span: Interval) -> DeltaTable | None:
    """Return the table at a version, or None where its log or a file that can hold rows of the span is gone.

    Args:
        number: version of the training table.
        span: half-open, of served times.
    """
    path = home.table(Table.TRAINING)
    try:
        table = tables.at(path, number)
    except DeltaError:
        return None
    return None if store.missing(path, _near(table, span)["path"].to_pylist()) else table


def snapshot_with(
    home: Home, register: Iterable[Row], rows: Sequence[Row], span: Interval, prefer: str | None = None
) -> tuple[Snapshot, KeptFiles] | None:
    """Return a snapshot that keeps exactly these publications in a span, and its files there; None without one.

    Args:
        register: every publication.
        rows: register rows of the wanted publications.
        prefer: name of a snapshot that is looked at first.
    """
    wanted = {row["number"] for row in rows}
    inside = {row["number"] for row in within(register, span)}
    for one in sorted(snapshots.kept(home), key=lambda one: one.name != prefer):
        if inside & set(one.numbers) == wanted:
            files = snapshots.files_of(home, one.name).within(span)
            if not files.missing:
                return one, files
    return None


def require_whole(home: Home, rows: Rows, span: Interval) -> None:
    """Fail where a file that can hold rows of a span is missing or cut. No file is opened.

    Raises:
        TableDamaged: names the first such file.
    """
    kept = files_in(home, rows, span) if isinstance(rows, DeltaTable) else rows.within(span)
    wrong = list(damage.wrong_sizes(kept.path, {file.path: file.size for file in kept.files}))
    if wrong:
        more = f", and {counted(len(wrong) - 1, 'other file')}" if wrong[1:] else ""
        raise damage.TableDamaged(
            f"{wrong[0]}{more}: rows of {span} cannot be read. Restore it from a backup; or, where what stands now is "
            f"wanted, `windrow rebuild {home.pipeline.name}` makes the intervals again."
        )


def files_in(home: Home, table: DeltaTable, span: Interval) -> KeptFiles:
    """Return the files of the table, at its version, that can hold rows of a span.

    Args:
        table: the training table, opened at a version.
        span: half-open, of served times.
    """
    files = tuple(snapshots.kept_files(_near(table, span).to_pylist()))
    return KeptFiles(home.table(Table.TRAINING), table.version(), table.schema().to_json(), files)


def _near(table: DeltaTable, span: Interval) -> pa.Table:
    """Files that can hold rows of a span, as `tables.data_files` returns them."""
    days, times = Range(DATE, span.start.date(), span.end.date()), Range(EVENT_TIME, span.start, span.end)
    return lookup.Lookup(table, tables.data_files(table)).files_with((days, times))


def reach_of(home: Home, standing: Sequence[Row], span: Interval, matured: timedelta | None = None) -> timedelta:
    """Return how far apart rows of a span and any others are, at most, that have a label event in common.

    Args:
        standing: register rows of the publications that stand.
        matured: the longest time after serving that a label counts.
    Raises:
        FileUnknown: a pipeline file under which such rows were published is not on record.
    """
    present = {home.pipeline.config_hash: home.pipeline}
    files: dict[str, Pipeline] = present
    while True:  # a wider reach may come upon publications under other files
        apart = reach(files.values(), matured)
        wide = Interval(shifted(span.start, -apart), shifted(span.end, apart))
        found = pipelines_of(home, within(standing, wide)) | present
        if found.keys() == files.keys():
            return apart
        files = found


def reach(pipelines: Iterable[Pipeline], matured: timedelta | None) -> timedelta:
    """Return how far apart two rows are, at most, that can have a label event in common.

    Args:
        pipelines: every pipeline file under which rows of the range were published.
        matured: the longest time after serving that a label counts.
    """
    windows: dict[str, list[Window]] = {}
    for pipeline in pipelines:
        for stream in pipeline.label_streams:
            windows.setdefault(stream.name, []).append(stream.window)
    widest = ((max(w.before for w in of), max(w.after for w in of)) for of in windows.values())
    cut = ((before, after if matured is None else min(after, matured)) for before, after in widest)
    return max((before + after for before, after in cut), default=timedelta(0))


def pipelines_of(home: Home, rows: Iterable[Row]) -> dict[str, Pipeline]:
    """Return the pipeline files under which publications were made, by config hash.

    Raises:
        FileUnknown: one is not on record, or this version of Windrow cannot read it.
    """
    number_of = {row["config_hash"]: row["number"] for row in rows}
    found = {config_hash: configs.of_hash(home, config_hash) for config_hash in number_of}
    for config_hash, pipeline in found.items():
        if pipeline is None:
            raise FileUnknown(
                f"the pipeline file of publication {number_of[config_hash]} cannot be read from "
                f"{home.table(Table.CONFIGS)}, so its windows are not known. A rebuild of the range publishes it under "
                "the present file."
            )
    return {config_hash: pipeline for config_hash, pipeline in found.items() if pipeline}
