"""The reader for Polars: a pin becomes a lazy frame. Filters reach the files; nothing is read before it is collected.

    pin ──▶ version of the table ──▶ files of the days and times (partition, statistics) ──▶ rows of the request

Delta keeps no order, and neither does the reader: sort by `columns.ROW_ORDER` where served order is needed.
"""

from __future__ import annotations

import polars as pl
from deltalake import DeltaTable

from windrow.columns import DATE, EVENT_TIME, REASON, STATE
from windrow.training.request import Request
from windrow.training.sample import sampled
from windrow.training.splits import in_share


def rows_of(table: DeltaTable, request: Request) -> pl.LazyFrame:
    """Return the rows of a request.

    Args:
        table: the training table at the version that is read.
    """
    rows = _labelled(_within(pl.scan_delta(table), request), request)
    return sampled(in_share(rows, request), request)


def _within(rows: pl.LazyFrame, request: Request) -> pl.LazyFrame:
    """Keep the served times of the request; the dates choose partitions, the times choose files."""
    at, day = pl.col(EVENT_TIME), pl.col(DATE)
    # an interval does not cross midnight UTC, so a row has the date of its event time
    days = (day >= request.start.date()) & (day <= request.end.date())
    return rows.filter(days & (at >= request.start) & (at < request.end))


def _labelled(rows: pl.LazyFrame, request: Request) -> pl.LazyFrame:
    if request.labels == "complete":
        return rows.filter(pl.col(REASON).is_null())
    return rows.filter(pl.col(STATE) != "unknown") if request.labels == "known" else rows
