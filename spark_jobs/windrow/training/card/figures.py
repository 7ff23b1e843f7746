"""Figures of a card that are counted from rows: nulls, ranges, states and rates. Never the value of a key or a text.

One pass over the rows, in Polars' streaming engine: memory does not grow with the range. A range is the least and the
greatest value of a column of numbers or times. Columns that identify somebody or something have none: keys, event ids,
the row id, and every column of one of their names; texts and bytes neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from windrow.columns import REASON, ROW_ID, STATE
from windrow.config import Pipeline
from windrow.training.observed import Observed


@dataclass(frozen=True)
class Figures:
    """What was counted.

    Args:
        values: values of a column or of a field of labels (`clicks._event_time`): the rows, or the elements.
        nulls: of these, the ones that are null.
        ranges: least and greatest value, of columns that may show them.
        states: rows by label state.
        reasons: rows by label reason, of rows that have one.
        complete: rows whose label side was complete.
        positive: of these, the positive ones.
        rates: label stream, or derived label of type boolean → share of the complete rows that have it.
    """

    rows: int
    values: Mapping[str, int]
    nulls: Mapping[str, int]
    ranges: Mapping[str, tuple[Any, Any]]
    states: Mapping[str, int]
    reasons: Mapping[str, int]
    complete: int
    positive: int
    rates: Mapping[str, float]


def figures_of(rows: pl.LazyFrame, pipeline: Pipeline, observed: Sequence[Observed]) -> Figures:
    """Count all rows of a range, unknown ones too.

    Args:
        pipeline: the present pipeline file.
        observed: publications of the rows; keys of their pipeline files have no range either.
    """
    schema = rows.collect_schema()
    hidden = identifying([pipeline, *(one.pipeline for one in observed)])
    is_complete = pl.col(REASON).is_null()
    has = _labels(schema, pipeline)
    wanted = {
        "rows": pl.len(),
        "complete": is_complete.sum(),
        "positive": (is_complete & (pl.col(STATE) == "positive")).sum(),
        **{f"rate {name}": value.filter(is_complete).mean() for name, value in has.items()},
    }
    for name, kind in schema.items():
        wanted |= dict(_of_column(name, kind, hidden))
    (found,) = rows.select(value.alias(name) for name, value in wanted.items()).collect(engine="streaming").to_dicts()
    counts = rows.group_by(STATE, REASON).agg(pl.len()).collect(engine="streaming")
    names = [name.removeprefix("nulls ") for name in wanted if name.startswith("nulls ")]
    ranges = {name: (found[f"least {name}"], found[f"most {name}"]) for name in names if f"least {name}" in found}
    return Figures(
        found["rows"],
        {name: found.get(f"values {name}", found["rows"]) or 0 for name in names},
        {name: found[f"nulls {name}"] or 0 for name in names},
        {name: ends for name, ends in ranges.items() if ends[0] is not None},
        _sums(counts, 0),
        _sums(counts, 1),
        found["complete"],
        found["positive"],
        {name: found[f"rate {name}"] for name in has if found[f"rate {name}"] is not None},
    )


def identifying(pipelines: Sequence[Pipeline]) -> frozenset[str]:
    """Return the names of columns whose values a card never shows: keys, event ids and row ids, in lower case."""
    streams = [stream for pipeline in pipelines for stream in pipeline.streams]
    keys = [name for stream in streams for name in (*stream.key, stream.event_id) if name]
    return frozenset(name.lower() for name in (*keys, *ROW_ID))


def _labels(schema: pl.Schema, pipeline: Pipeline) -> dict[str, pl.Expr]:
    """Return what has a label rate: whether a row has a label of each stream, and the boolean derived labels."""
    streams = [one.name for one in pipeline.label_streams if one.name in schema]
    labels = [name for name in pipeline.labels if schema.get(name) == pl.Boolean]
    return {name: pl.col(name).list.len() > 0 for name in streams} | {name: pl.col(name) for name in labels}


def _of_column(name: str, kind: pl.DataType, hidden: frozenset[str]) -> Iterator[tuple[str, pl.Expr]]:
    """Yield the counts of a column, by name."""
    column = pl.col(name)
    yield f"nulls {name}", column.null_count()
    inner = kind.inner if isinstance(kind, pl.List) else None
    if inner is not None and _has_range(name, inner, hidden):
        yield f"least {name}", column.list.min().min()
        yield f"most {name}", column.list.max().max()
    elif _has_range(name, kind, hidden):
        yield f"least {name}", column.min()
        yield f"most {name}", column.max()
    if not isinstance(inner, pl.Struct):
        return
    for field in inner.fields:
        path = f"{name}.{field.name}"
        of_rows = column.list.eval(pl.element().struct.field(field.name))
        yield f"values {path}", column.list.len().sum()
        yield f"nulls {path}", (column.list.len() - of_rows.list.drop_nulls().list.len()).cast(pl.Int64).sum()
        if _has_range(field.name, field.dtype, hidden):
            yield f"least {path}", of_rows.list.min().min()
            yield f"most {path}", of_rows.list.max().max()


def _has_range(name: str, kind: Any, hidden: frozenset[str]) -> bool:
    return name.lower() not in hidden and (kind.is_numeric() or kind.is_temporal())


def _sums(counts: pl.DataFrame, column: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in counts.iter_rows():
        if row[column] is not None:
            found[row[column]] = found.get(row[column], 0) + row[2]
    return dict(sorted(found.items()))
