"""Credit: which of the rows that a label matched it is attributed to. The choice of a reader (rule 9).

                     all    first_touch    last_touch    linear
    row at 10:00      1          1             0           1/3
    row at 10:04      1          0             0           1/3      one label, at 10:11
    row at 10:09      1          0             1           1/3

The rows of a label are all published rows that carry it, in row order, also those that the request leaves out. So a row
has the same credit in every range that holds it, and the credits of a label add up to 1 over the whole table, exactly:
they are multiples of 2**-32, of which a sum of floating-point numbers loses nothing.

    linear, n rows, the one at position i from 0:   (⌊(i + 1) · 2**32 / n⌋ - ⌊i · 2**32 / n⌋) / 2**32
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import polars as pl

from windrow.columns import ROW_ID, ROW_ORDER
from windrow.semantics.intervals import Interval, shifted
from windrow.training.request import Request

UNIT = 2**32
"""Credits are multiples of 1 / UNIT."""

_BACK, _AHEAD = ("first_touch", "linear"), ("last_touch", "linear")
"""Attributions that look at earlier rows, and those that look at later ones."""


def column(stream: str) -> str:
    """Name of the column with the credits of a label stream: a list that is parallel to its labels."""
    return f"_credit_{stream}"


def ahead(request: Request, reach: timedelta) -> timedelta:
    """Return how far after the end of a request rows are looked at.

    Args:
        reach: how far apart two rows are, at most, that can have a label in common.
    """
    return reach if request.attribute in _AHEAD else timedelta(0)


def span(request: Request, reach: timedelta) -> Interval:
    """Return the served times whose rows decide the credits of a request."""
    back = reach if request.attribute in _BACK else timedelta(0)
    return Interval(shifted(request.start, -back), shifted(request.end, ahead(request, reach)))


def credited(rows: pl.LazyFrame, touched: pl.LazyFrame, attribute: str, streams: Iterable[str]) -> pl.LazyFrame:
    """Return rows with a column of credits for each label stream.

    Args:
        rows: those of the request.
        touched: all published rows of the request's span.
        streams: names of the label streams.
    """
    for stream in streams:
        rows = rows.join(_credits(touched, stream, attribute), on=ROW_ID, how="left", validate="1:1")
        rows = rows.with_columns(pl.col(column(stream)).fill_null([]))
    return rows


def _credits(touched: pl.LazyFrame, stream: str, attribute: str) -> pl.LazyFrame:
    """Return the credits of each row with a label of the stream, by row id."""
    label = [f"label{name}" for name in ROW_ID]
    names = dict(zip(ROW_ID, label, strict=True))
    element = pl.col(stream).struct
    pairs = (
        touched.select(*ROW_ORDER, stream, pl.int_ranges(pl.col(stream).list.len()).alias("position"))
        .filter(pl.col(stream).list.len() > 0)
        .explode(stream, "position")
        .select(*ROW_ORDER, "position", *[element.field(name).alias(alias) for name, alias in names.items()])
        .sort(*label, *ROW_ORDER)
        .with_columns(pl.int_range(pl.len()).over(label).alias("nth"), pl.len().over(label).cast(pl.Int64).alias("of"))
    )
    share = _share(attribute, pl.col("nth"), pl.col("of")).alias(column(stream))
    return pairs.with_columns(share).group_by(ROW_ID).agg(pl.col(column(stream)).sort_by("position"))


def _share(attribute: str, nth: pl.Expr, of: pl.Expr) -> pl.Expr:
    """Credit of the nth of some rows, from 0."""
    if attribute == "linear":
        return ((nth + 1) * UNIT // of - nth * UNIT // of) / UNIT
    chosen = {"all": pl.lit(True), "first_touch": nth == 0, "last_touch": nth == of - 1}[attribute]
    return chosen.cast(pl.Float64)
