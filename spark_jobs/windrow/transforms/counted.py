"""Counts of candidate rows as they were written, without Spark: what `measure.written_of` counts, for a Python worker.

    rows of one plan, as Arrow ─▶ counters, by name
                               └▶ row ids of rows and of matches: words of bits (see `measure`)

Conditions have three values, as in SQL: a null decides nothing, and what is not true is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.columns import (
    EVENT_TIME,
    INTERVAL,
    LABEL_TYPES,
    OFFSET,
    ORDER_TYPES,
    PAIRED,
    REASON,
    ROW_ID,
    ROW_ORDER,
    STATE,
)
from windrow.semantics.labels import DOUBTS, REASONS

INSTANT = pa.timestamp("us", "UTC")
_TYPES = {"timestamp": INSTANT, "string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
_ORDER = {name: _TYPES[kind] for name, kind in ORDER_TYPES.items()}
WORD, BITS, ROWS, WHAT = "_word", "_bits", "_rows", "_what"
TALLY = pa.schema(
    {
        WHAT: pa.string(),
        INTERVAL: INSTANT,
        **{name: _ORDER[name] for name in ROW_ID[:-1]},
        **dict.fromkeys((WORD, BITS, ROWS), pa.int64()),
    }
)
"""What comes of counting: `_rows` of a counter, by its name in `_what`; or a word of row ids, its bits and rows."""
IDS, MATCHED = "ids", "matched."
"""`_what` of words: row ids of rows; those of a stream's matches, followed by the stream's name."""
IS_NULL = "is_null."
"""Beginning of the name of a column that says where another one is null."""


@dataclass(frozen=True)
class Labels:
    """How to count the labels of one right stream."""

    column: str
    every: str
    """column of all its matches, also those that `take` leaves out"""
    before: int
    after: int
    """the window, in microseconds"""
    is_label: bool
    """whether a match makes a row positive"""


@dataclass(frozen=True)
class Asked:
    """What is counted of the candidates of a pipeline."""

    length: int
    """of an interval, in microseconds"""
    streams: tuple[Labels, ...]
    keys: tuple[str, ...]
    """key of the left stream"""
    labels: tuple[str, ...]
    """derived labels"""
    uncounted: tuple[str, ...]
    """left columns whose nulls are counted"""

    @property
    def arrays(self) -> tuple[str, ...]:
        """Columns of matches."""
        return tuple(dict.fromkeys(name for one in self.streams for name in (one.column, one.every)))

    @property
    def nullable(self) -> tuple[str, ...]:
        """Columns of which nothing is asked but where they are null."""
        return tuple(dict.fromkeys([*self.keys, *self.labels, *self.uncounted]))

    @property
    def schema(self) -> pa.Schema:
        """The columns that are counted."""
        return pa.schema(
            {
                **_ORDER,
                **dict.fromkeys(LABEL_TYPES, pa.string()),
                INTERVAL: INSTANT,
                PAIRED: pa.bool_(),
                **dict.fromkeys(self.arrays, pa.list_(pa.struct(_ORDER))),
                **{f"{IS_NULL}{name}": pa.bool_() for name in self.nullable},
            }
        )

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of the counters."""
        return tuple(_counters(self.schema.empty_table(), self))


def tally(rows: pa.Table, asked: Asked) -> pa.Table:
    """Count some rows of one plan.

    Args:
        rows: with the columns of `asked.schema`.

    Returns:
        `TALLY`; counters that are zero too.
    """
    parts = [_words(rows.select(list(ROW_ID)), IDS), *[_matched(rows, stream) for stream in asked.streams]]
    counters = _counters(rows, asked)
    named = pa.table({WHAT: list(counters), ROWS: pa.array(counters.values(), pa.int64())})
    return pa.concat_tables([_filled(part) for part in [named, *parts]])


def _filled(part: pa.Table) -> pa.Table:
    columns = [
        part[field.name] if field.name in part.column_names else pa.nulls(part.num_rows, field.type) for field in TALLY
    ]
    return pa.Table.from_arrays(columns, schema=TALLY)


def _counters(rows: pa.Table, asked: Asked) -> dict[str, int]:
    """Return the counts of `measure.candidate_measures`, by name."""
    paired = pc.fill_null(rows[PAIRED], True)
    state, reason, at, start = rows[STATE], rows[REASON], _whole(rows[EVENT_TIME]), _whole(rows[INTERVAL])

    def count(condition: Any) -> int:
        return _true(pc.and_(paired, pc.fill_null(condition, False)))

    def is_in(value: str) -> Any:
        return pc.equal(state, value)

    def null(name: str) -> Any:
        return rows[f"{IS_NULL}{name}"]

    seen = [_Matches(rows, stream, at) for stream in asked.streams]
    has_label = _any([one.are_some for one in seen if one.is_label], rows)
    derived = _any([pc.invert(null(name)) for name in asked.labels], rows)
    contradicts = [
        pc.and_kleene(has_label, pc.not_equal(state, "positive")),
        pc.and_kleene(pc.invert(has_label), is_in("positive")),
        pc.and_kleene(is_in("unknown"), pc.or_kleene(pc.is_null(reason), derived)),
        pc.invert(pc.is_in(state, pa.array(["positive", "negative", "unknown"]))),
    ]
    is_doubted = pc.is_in(reason, pa.array(DOUBTS))
    return {
        "rows": _true(paired),
        "left_unpaired": rows.num_rows - _true(paired),
        "positive": count(is_in("positive")),
        "positive_complete": count(pc.and_(is_in("positive"), pc.invert(is_doubted))),
        "negative": count(is_in("negative")),
        "unknown": count(is_in("unknown")),
        "rows_outside_interval": count(
            pc.or_kleene(pc.less(at, start), pc.greater_equal(at, pc.add(start, asked.length)))
        ),
        "labels_outside_window": sum(one.outside(paired) for one in seen),
        "labels_out_of_order": sum(one.disordered(paired) for one in seen),
        "null_arrays": count(_any([pc.is_null(one.are_some) for one in seen], rows)),
        "state_contradictions": count(_any(contradicts, rows)),
        "null_event_time": count(pc.is_null(at)),
        "null_row_id": count(_any([pc.is_null(rows[name]) for name in ROW_ID], rows)),
        "left_keyless": count(_any([null(name) for name in asked.keys], rows)),
        **{f"unknown.{r}": count(pc.and_(is_in("unknown"), pc.equal(reason, r))) for r in REASONS},
        **{f"nulls.{name}": count(null(name)) for name in asked.uncounted},
    }


class _Matches:
    """The matches of one stream in some rows."""

    def __init__(self, rows: pa.Table, stream: Labels, at: pa.ChunkedArray) -> None:
        self.is_label = stream.is_label
        self.are_some = pc.greater(pc.list_value_length(rows[stream.column]), 0)
        """of each row whether it has a match; null where its array is"""
        self._row, self._matches = _exploded(rows[stream.column])
        self._at = at.take(self._row)
        self._before, self._after = stream.before, stream.after

    def outside(self, paired: Any) -> int:
        """Return how many matches of paired rows are outside of the window."""
        times = _whole(pc.struct_field(self._matches, EVENT_TIME))
        is_out = pc.or_kleene(
            pc.less(times, pc.subtract(self._at, self._before)), pc.greater(times, pc.add(self._at, self._after))
        )
        return _true(pc.and_(pc.fill_null(is_out, False), paired.take(self._row)))

    def disordered(self, paired: Any) -> int:
        """Return how many paired rows have a match before one that is less by `ROW_ORDER`."""
        row = self._row.to_numpy()
        is_same, is_less = row[1:] == row[:-1], np.zeros(max(0, len(row) - 1), bool)
        for name in ROW_ORDER:
            value = _ranked(pc.struct_field(self._matches, name))
            is_less |= is_same & (value[1:] < value[:-1])
            is_same &= value[1:] == value[:-1]
        return _true(paired.take(pa.array(np.unique(row[:-1][is_less]))))


def _matched(rows: pa.Table, stream: Labels) -> pa.Table:
    row, matches = _exploded(rows[stream.every])
    ids = {name: pc.struct_field(matches, name) for name in ROW_ID}
    return _words(pa.table({INTERVAL: rows[INTERVAL].take(row), **ids}), f"{MATCHED}{stream.column}")


def _words(ids: pa.Table, what: str) -> pa.Table:
    """Return row ids as words of bits, with the number of rows that have an id of the word."""
    one = ids.combine_chunks()
    others, offset = [name for name in ids.column_names if name != OFFSET], one[OFFSET]
    keys = [_ranked(one[name].combine_chunks()) for name in others] + [_ranked(offset.combine_chunks()) >> 6]
    order = np.lexsort(keys)
    is_first = np.full(len(order), len(order) > 0)
    is_first[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    first = np.flatnonzero(is_first)
    bit = np.left_shift(np.uint64(1), (pc.fill_null(offset, 0).to_numpy() & 63).astype(np.uint64))
    columns = {name: one[name].take(order[first]) for name in others}
    return pa.table(
        {
            WHAT: pa.array([what] * len(first), pa.string()),
            **columns,
            WORD: pc.shift_right(offset.take(order[first]), 6),
            BITS: pa.array(np.bitwise_or.reduceat(bit[order], first).view(np.int64) if len(first) else [], pa.int64()),
            ROWS: pa.array(np.diff(np.append(first, len(order)))),
        }
    )


def _exploded(arrays: pa.ChunkedArray) -> tuple[pa.Array, pa.StructArray]:
    """Return the number of the row of each element, and the elements."""
    one = arrays.combine_chunks()
    return pc.list_parent_indices(one), one.flatten()


def _ranked(values: pa.Array) -> Any:
    """Return numbers that are ordered as the values are: text by its bytes, nulls first."""
    if pa.types.is_string(values.type):
        coded = values.dictionary_encode()
        rank = np.argsort(np.argsort(np.array([text.encode() for text in coded.dictionary.to_pylist()], dtype=object)))
        return np.append(rank, -1)[pc.fill_null(coded.indices, -1).to_numpy()]
    return pc.fill_null(_whole(values), np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)


def _whole(values: Any) -> Any:
    """Return instants as microseconds, and numbers as they are."""
    return values.cast(pa.int64())


def _any(conditions: list[Any], rows: pa.Table) -> Any:
    return reduce(pc.or_kleene, conditions, pa.chunked_array([pa.repeat(False, rows.num_rows)]))


def _true(condition: Any) -> int:
    return int(pc.sum(condition).as_py() or 0)
