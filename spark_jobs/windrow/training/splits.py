"""Parts of a range that share no label event: by time with a gap between them, by hash of a column, or both.

    cuts      train [start, cut - gap)   gap   test [cut, end)
              ├──────────────────────┤┄┄┄┄┄┄┄┄├─────────────────┤      gap = before + after of the widest label window
                        a row here ──────▶ its labels end before those of the test rows begin

    by        train: users whose hash is in [0, 0.9)      test: those in [0.9, 1)
              a label has the key of its rows, so a column of the key keeps them together; for any other column the
              parts are compared, and refused if they share a label event

Both at once: the users of `train` before the cut, those of `test` from the cut on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import accumulate, pairwise

import polars as pl

from windrow.columns import ROW_ID
from windrow.config import Pipeline
from windrow.outcomes import BadInput
from windrow.text import counted, duration_text, short, short_instant_text
from windrow.training.hashing import hash_of, threshold
from windrow.training.request import Request, Share, WrongRequest

PURPOSE = 2
"""Follows the seed in the hash; see `sample.PURPOSE`."""

_HASHED = ("tinyint", "smallint", "int", "bigint", "string")
"""Column types that have one hash in every engine."""


class SharedLabels(BadInput):
    """Parts of a split share label events. Another column, or cuts, help; a retry does not."""


def in_share(rows: pl.LazyFrame, request: Request) -> pl.LazyFrame:
    """Keep the rows of the request's share."""
    if request.share is None:
        return rows
    low, high = threshold(request.share.low), threshold(request.share.high)
    hashed = hash_of((request.seed, PURPOSE), [pl.col(request.share.column)]).cast(pl.Int64)
    return rows.filter((hashed >= low) & (hashed < high))


def parts_of(
    request: Request,
    parts: Sequence[str] | Mapping[str, float],
    cuts: Sequence[datetime],
    by: str | None,
    pipeline: Pipeline,
    apart: timedelta,
) -> dict[str, Request]:
    """Return the request of each part.

    Args:
        request: of the whole range.
        parts: names in the order of time; with `by` the share of each, which add up to 1.
        cuts: where a part ends and the next begins, one fewer than there are parts; none to split by hash alone.
        by: a column of the left stream.
        apart: the gap between parts of time.
    Raises:
        WrongRequest: cuts or shares do not fit the parts, a part is empty, or the column cannot be hashed.
    """
    names = list(parts)
    if len(names) < 2:
        raise WrongRequest(f"parts: a split has two parts or more, not {counted(len(names), 'part')}")
    if not cuts and by is None:
        raise WrongRequest("a split needs cuts=[…] (by time), by='…' (by hash of a column), or both")
    ranges = _ranges(request, names, cuts, apart) if cuts else [(request.start, request.end)] * len(names)
    shares = _shares(parts, by, pipeline) if by is not None else [None] * len(names)
    return {
        name: replace(request, start=start, end=end, share=share)
        for name, (start, end), share in zip(names, ranges, shares, strict=True)
    }


def compared(by: str | None, cuts: Sequence[datetime], pipeline: Pipeline) -> list[str]:
    """Label streams whose events must be looked for in two parts, because the way of splitting does not tell."""
    is_certain = by is None or cuts or by in pipeline.left.key
    return [] if is_certain else [stream.name for stream in pipeline.label_streams]


def shared_labels(parts: Sequence[pl.LazyFrame], stream: str) -> int:
    """Return how many label events of a stream are in two parts or more. Reads the row ids of the labels."""
    events = [rows.select(stream).explode(stream).drop_nulls().unnest(stream).select(ROW_ID).unique() for rows in parts]
    counts = pl.concat(events).group_by(ROW_ID).len().filter(pl.col("len") > 1)
    return int(counts.select(pl.len()).collect().item())


def refuse_shared_labels(shared: int, stream: str, by: str | None, key: Sequence[str]) -> None:
    """Check that no label event is in two parts.

    Raises:
        SharedLabels: some are.
    """
    if shared:
        raise SharedLabels(
            f"by={by!r}: {counted(shared, 'label event')} of {stream} would be in two parts, because rows of one key "
            f"have several values of {by}. Split by a column of the key ({', '.join(key)}), or by time (cuts)."
        )


def _ranges(
    request: Request, names: Sequence[str], cuts: Sequence[datetime], apart: timedelta
) -> list[tuple[datetime, datetime]]:
    if len(cuts) != len(names) - 1:
        raise WrongRequest(f"cuts: {counted(len(names), 'part')} have {len(names) - 1}, not {len(cuts)}")
    ranges = []
    for name, (start, cut) in zip(names, pairwise([request.start, *cuts, request.end]), strict=True):
        end = cut if cut == request.end and name == names[-1] else cut - apart
        if end <= start:
            wide = f"begins {short_instant_text(start)}, and the next cut is {short_instant_text(cut)}"
            raise WrongRequest(f"cuts: part {name!r} is empty: it {wide}, with a gap of {duration_text(apart)} before")
        ranges.append((start, end))
    return ranges


def _shares(parts: Sequence[str] | Mapping[str, float], by: str, pipeline: Pipeline) -> list[Share | None]:
    if not isinstance(parts, Mapping):
        raise WrongRequest(f"parts: with by={by!r} each part has a share, such as {{'train': 0.9, 'test': 0.1}}")
    if not math.isclose(sum(parts.values()), 1) or min(parts.values()) <= 0:
        raise WrongRequest(f"parts: shares are above 0 and add up to 1, not {dict(parts)}")
    kind = pipeline.left.columns.get(by)
    if kind not in _HASHED:
        fit = ", ".join(name for name, one in pipeline.left.columns.items() if one in _HASHED)
        what = f"is {kind}" if kind else "is not a column of the left stream"
        raise WrongRequest(f"by: {short(by)} {what}; columns to split by: {fit}")
    bounds = [0.0, *accumulate(parts.values())]
    bounds[-1] = 1.0
    return [Share(by, low, high) for low, high in pairwise(bounds)]
