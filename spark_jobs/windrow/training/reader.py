"""The reader for Polars: a pin becomes a lazy frame. Filters reach the files; nothing is read before it is collected.

    pin ──▶ version of the table, or snapshot ──▶ files of the days and times (partition, statistics) ──▶ rows

Delta keeps no order, and neither does the reader: sort by `columns.ROW_ORDER` where served order is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, Schema

from windrow.columns import DATE, EVENT_TIME, REASON, STATE
from windrow.io.delta import store
from windrow.io.registers.snapshots import KeptFiles
from windrow.io.training.states import Rows
from windrow.semantics.intervals import Interval
from windrow.training.credit import credited
from windrow.training.maturity import matured, with_delays, with_derived_labels
from windrow.training.observed import Observed, label_streams
from windrow.training.pin import Pin
from windrow.training.request import Request
from windrow.training.sample import sampled
from windrow.training.splits import in_share
from windrow.training.survival import with_survival


def rows_of(source: Rows, pin: Pin, observed: Sequence[Observed]) -> pl.LazyFrame:
    """Return the rows of a pin.

    Args:
        source: the training table at a version with its rows, or files that a snapshot keeps.
        observed: its publications, where the request needs their plans.
    """
    request = pin.request
    every = pl.scan_delta(source) if isinstance(source, DeltaTable) else _scanned(source.within(pin.span))

    def published(span: Interval) -> pl.LazyFrame:
        rows = _within(every, span)
        return rows if request.matured is None else matured(rows, observed, request.matured)

    rows = sampled(in_share(_labelled(published(request.range), request), request), request)
    if request.matured is not None:
        rows = with_derived_labels(rows, observed)
    if request.delays:
        rows = with_delays(rows, observed, request.matured)
    if request.survival is not None:
        rows = with_survival(rows, observed, request.survival, request.matured)
    if request.attribute is not None:
        rows = credited(rows, published(pin.span), request.attribute, label_streams(observed))
    return rows


def _scanned(kept: KeptFiles) -> pl.LazyFrame:
    """Scan the files of a snapshot as `pl.scan_delta` scans those of a version."""
    types = Schema.from_json(kept.columns).to_arrow()
    frame = pl.DataFrame(pa.schema(types).empty_table())
    if not kept.files:
        return frame.lazy()
    return pl.scan_parquet(
        kept.locations,
        schema=frame.schema,
        hive_schema={DATE: pl.Date},
        hive_partitioning=True,
        missing_columns="insert",  # a file from before a column was added
        extra_columns="ignore",
        cast_options=pl.ScanCastOptions(
            datetime_cast=["nanosecond-downcast", "convert-timezone"],
            missing_struct_fields="insert",  # likewise, to a right stream
            extra_struct_fields="ignore",
        ),
        glob=False,
        storage_options=store.options(kept.locations[0]),
    ).select(frame.columns)


def _within(rows: pl.LazyFrame, span: Interval) -> pl.LazyFrame:
    """Keep served times; the dates choose partitions, the times choose files."""
    at, day = pl.col(EVENT_TIME), pl.col(DATE)
    # an interval does not cross midnight UTC, so a row has the date of its event time
    days = (day >= span.start.date()) & (day <= span.end.date())
    return rows.filter(days & (at >= span.start) & (at < span.end))


def _labelled(rows: pl.LazyFrame, request: Request) -> pl.LazyFrame:
    if request.labels == "complete":
        return rows.filter(pl.col(REASON).is_null())
    return rows.filter(pl.col(STATE) != "unknown") if request.labels == "known" else rows
