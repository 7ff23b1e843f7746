"""Maturity: labels up to some time after serving, and the rows that were observed for so long.

    window of the pipeline file     |<-------------- after = 7d ---------------->|
    matured="24h"                   |<-- 24h -->|  labels up to here, both ends in
    ────────────────────────────────●───────────┼────────────────────────────────┼──▶ event time
                                   l.t

What comes out are the rows of a rebuild with the shorter window at the same pins: labels, states and reasons. Why that
is so: a doubt about a window is a doubt about every longer one, so a row without a reason stays without one; whether a
silent side was silent in the shorter window too is in the plan of the publication (`observed`). Three reasons stay as
they are, because a row does not say where in its window the doubt begins: `offset_gap`, `forced` and
`label_quarantined`. A rebuild would free some of these rows; the reader leaves all of them as they were published.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import timedelta

import polars as pl

from windrow.columns import ARRIVED_AT, EVENT_TIME, PUBLICATION, REASON, STATE
from windrow.semantics.intervals import micros
from windrow.semantics.labels import DRAINED, SIDE_SILENT
from windrow.text import duration_text
from windrow.training.observed import Observed, label_streams, numbers_by, of_publication
from windrow.training.request import WrongRequest

_INSTANT = pl.Datetime("us", "UTC")
MICROSECOND_IN_SECONDS = 1e-6
"""Multiplied, not divided by a million: engines divide by a constant in different ways, and differ in the last bit."""


class LabelLeftOut(UserWarning):
    """A derived label cannot be computed by this reader for cut labels; its column is not in the rows."""


def refuse_what_rows_lack(observed: Sequence[Observed], after: timedelta) -> None:
    """Check that labels can be cut: the windows are as long, and rows carry the labels that a shorter one would have.

    Raises:
        WrongRequest: they are not, or do not.
    """
    for one in observed:
        windows = {stream.name: stream.window.after for stream in one.pipeline.label_streams}
        if not windows:
            raise WrongRequest(f"matured: {one.pipeline.name} has no label stream")
        if after > max(windows.values()):
            longest = max(windows, key=lambda name: windows[name])
            raise WrongRequest(
                f"matured is {duration_text(after)}, and publication {one.number} has labels of {longest} for only "
                f"{duration_text(windows[longest])}; a rebuild under a pipeline file with a longer window has more"
            )
        for stream in one.pipeline.label_streams:
            if stream.take == "last" and after < stream.window.after:
                raise WrongRequest(
                    f"matured: {stream.name} is `take: last` in publication {one.number}, so a row whose last label "
                    f"came later than {duration_text(after)} does not say which was the last by then; a rebuild "
                    "with the shorter window does"
                )


def matured(rows: pl.LazyFrame, observed: Sequence[Observed], after: timedelta) -> pl.LazyFrame:
    """Return rows as a rebuild with a shorter window would have them, apart from three reasons (see above).

    Their derived labels are still those of the whole windows (`with_derived_labels`).

    Args:
        rows: training rows.
        observed: every publication that they are of.
        after: the longest time after serving that labels count.
    """
    streams = label_streams(observed)
    cut = rows.with_columns(pl.col(name).list.head(_how_many_within(name, after)) for name in streams)
    has_label = pl.any_horizontal(pl.col(name).list.len() > 0 for name in streams).fill_null(False)
    closed_by_idling = pl.col(REASON).is_in([SIDE_SILENT, DRAINED])
    silent_from = of_publication({one.number: one.silent_from(after) for one in observed}, _INSTANT)
    heard = closed_by_idling & (pl.col(EVENT_TIME) < silent_from)
    known = cut.with_columns(pl.when(~heard.fill_null(False)).then(REASON).alias(REASON))
    doubted = pl.col(REASON).is_not_null() & (pl.col(REASON) != DRAINED)
    state = pl.when(has_label).then(pl.lit("positive")).when(doubted).then(pl.lit("unknown"))
    return _paired(known.with_columns(state.otherwise(pl.lit("negative")).alias(STATE)), observed)


def with_delays(rows: pl.LazyFrame, observed: Sequence[Observed], after: timedelta | None) -> pl.LazyFrame:
    """Return rows with their label delays and observed ages, for each label stream, in seconds.

    Columns:
        `_delay_<stream>`: event time of each label minus the served time.
        `_arrival_<stream>`: landing time of each label minus the served time.
        `_age_<stream>`: how long after serving the label side was observed, at most the window.
    """
    columns = []
    for name in label_streams(observed):
        columns += [
            _delays(name, EVENT_TIME).list.eval(pl.element() * MICROSECOND_IN_SECONDS).alias(f"_delay_{name}"),
            _delays(name, ARRIVED_AT).list.eval(pl.element() * MICROSECOND_IN_SECONDS).alias(f"_arrival_{name}"),
            (age(name, observed, after) * MICROSECOND_IN_SECONDS).alias(f"_age_{name}"),
        ]
    return rows.with_columns(columns)


def age(name: str, observed: Sequence[Observed], after: timedelta | None) -> pl.Expr:
    """Microseconds after serving for which the labels of a stream were observed: from 0 to the window."""
    return seen(name, observed, after).clip(0, window(name, observed, after))


def window(name: str, observed: Sequence[Observed], after: timedelta | None) -> pl.Expr:
    """Microseconds after serving for which labels of a stream count."""
    return of_publication({one.number: micros(one.after(name, after)) for one in observed}, pl.Int64)


def seen(name: str, observed: Sequence[Observed], after: timedelta | None) -> pl.Expr:
    """Microseconds after serving before which the labels of a stream were heard; negative if they never were.

    More than the window where the row has no doubt, or a drain declared the end. Negative, too, where the doubt may be
    anywhere in the window.
    """
    heard = {one.number: one.heard.get(name) for one in observed}
    until = of_publication(heard, _INSTANT).cast(pl.Int64) - pl.col(EVENT_TIME).cast(pl.Int64)
    ignores_silence = of_publication({one.number: _ignores_silence(one, name) for one in observed}, pl.Boolean)
    beyond, never = window(name, observed, after) + 1, pl.lit(-(2**62), pl.Int64)
    return (
        pl.when(pl.col(REASON).is_null() | (pl.col(REASON) == DRAINED))
        .then(beyond)
        .when(pl.col(REASON) != SIDE_SILENT)
        .then(never)
        .when(ignores_silence)
        .then(beyond)
        .otherwise(until.fill_null(never))
    )


def first_delay(name: str) -> pl.Expr:
    """Microseconds from serving to the first label of a stream; null without one."""
    first = pl.col(name).list.first().struct.field(EVENT_TIME)
    return first.cast(pl.Int64) - pl.col(EVENT_TIME).cast(pl.Int64)


def _ignores_silence(one: Observed, name: str) -> bool:
    stream = one.stream(name)
    return stream is not None and stream.silence == "negative"


def _delays(name: str, of: str) -> pl.Expr:
    """Microseconds from serving to an instant of each label of a stream."""
    instants = pl.col(name).list.eval(pl.element().struct.field(of).cast(pl.Int64))
    return instants - pl.col(EVENT_TIME).cast(pl.Int64)


def _how_many_within(name: str, after: timedelta) -> pl.Expr:
    """How many labels come at most `after` later than the row: they are the first ones, as labels are in row order."""
    return _delays(name, EVENT_TIME).list.eval((pl.element() <= micros(after)).cast(pl.UInt32)).list.sum()


def _paired(rows: pl.LazyFrame, observed: Sequence[Observed]) -> pl.LazyFrame:
    """Leave out rows that an `inner` label stream has no label for any more."""
    for name in label_streams(observed):
        is_inner = {one.number: (stream := one.stream(name)) is not None and stream.join == "inner" for one in observed}
        if any(is_inner.values()):
            rows = rows.filter(~of_publication(is_inner, pl.Boolean) | (pl.col(name).list.len() > 0))
    return rows


def with_derived_labels(rows: pl.LazyFrame, observed: Sequence[Observed]) -> pl.LazyFrame:
    """Return cut rows with their derived labels; one that cannot be computed here is left out, with a warning."""
    from windrow.training.derived import derived  # imported late: the parser takes longer to import than all the rest

    schema = rows.collect_schema()
    left_out = []
    for label in dict.fromkeys(label for one in observed for label in one.pipeline.labels):
        texts = numbers_by({one.number: one.pipeline.labels.get(label) for one in observed})
        value = pl.lit(None)
        for text, numbers in texts.items():
            made = pl.lit(None) if text is None else derived(text, schema)
            if made is None:
                left_out.append(label)
                break
            is_its = pl.col(PUBLICATION).is_in(numbers)
            value = made if len(texts) == 1 else pl.when(is_its).then(made).otherwise(value)
        known = pl.when(pl.col(STATE) != "unknown").then(value)
        rows = rows.with_columns(known.cast(schema[label]).alias(label))
    if left_out:
        advice = "compute them from the labels, or read with Spark"
        warnings.warn(f"left out, because labels are cut: {', '.join(left_out)}; {advice}", LabelLeftOut, stacklevel=5)
    return rows.drop(left_out)
