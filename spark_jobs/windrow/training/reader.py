"""The reader for Polars: a pin becomes a lazy frame. Filters reach the files; nothing is read before it is collected.

    pin ──▶ version of the table ──▶ files of the days and times (partition, statistics) ──▶ rows of the request

Delta keeps no order, and neither does the reader: sort by `columns.ROW_ORDER` where served order is needed.
"""

from __future__ import annotations

import polars as pl
from deltalake import DeltaTable

from windrow.columns import DATE, EVENT_TIME, REASON, STATE
from windrow.config import Pipeline
from windrow.semantics.intervals import Interval
from windrow.training.credit import credited
from windrow.training.pin import Pin
from windrow.training.request import Request
from windrow.training.sample import sampled
from windrow.training.splits import in_share


def rows_of(pipeline: Pipeline, table: DeltaTable, pin: Pin) -> pl.LazyFrame:
    """Return the rows of a pin.

    Args:
        table: the training table at a version with its rows.
    """
    request, every = pin.request, pl.scan_delta(table)
    rows = _labelled(_within(every, Interval(request.start, request.end)), request)
    rows = sampled(in_share(rows, request), request)
    streams = [stream.name for stream in pipeline.label_streams if stream.name in every.collect_schema()]
    return credited(rows, _within(every, pin.span), request, streams)


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
