"""Delays as survival data: for each row how long it took until its first label, or how long none was seen.

    row with its first label at 40 min     _duration 2400   _censored false
    row without one, observed for 24 h     _duration 86400  _censored true
    row of an outage, observed for 10 min  _duration 600    _censored true

Rows of an outage are usable so: a label after the time for which the side was heard does not count, on any row, and
then being censored says nothing about the row. Rows that were not observed have the duration 0, which adds nothing to a
likelihood.

Methods: Chapelle, Modeling Delayed Feedback in Display Advertising, KDD 2014; Kaplan and Meier, Nonparametric
Estimation from Incomplete Observations, 1958.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import polars as pl

from windrow.training.maturity import MICROSECOND_IN_SECONDS, age, first_delay, seen
from windrow.training.observed import Observed
from windrow.training.request import WrongRequest
from windrow.training.sample import WEIGHT

DURATION, CENSORED = "_duration", "_censored"


def refuse_what_rows_lack(observed: Sequence[Observed], name: str) -> None:
    """Check that rows carry the first label of a stream.

    Raises:
        WrongRequest: it is not a label stream, or `take: last`.
    """
    for one in observed:
        stream = one.stream(name)
        if stream is None:
            known = ", ".join(stream.name for stream in one.pipeline.label_streams) or "none"
            raise WrongRequest(
                f"survival: {name!r} is not a label stream of {one.pipeline.name} in publication {one.number}; these "
                f"are: {known}"
            )
        if stream.take == "last":
            raise WrongRequest(
                f"survival: {name} is `take: last` in publication {one.number}: rows lack their first label"
            )


def with_survival(rows: pl.LazyFrame, observed: Sequence[Observed], name: str, after: timedelta | None) -> pl.LazyFrame:
    """Return rows with `_duration` (seconds), `_censored` and `_weight` (1 where negatives are not sampled)."""
    delay = first_delay(name)
    is_seen = (delay < seen(name, observed, after)).fill_null(False)
    # with `before`, a label may come ahead of its row; it took no time then
    duration = pl.when(is_seen).then(delay.clip(0)).otherwise(age(name, observed, after))
    weight = [] if WEIGHT in rows.collect_schema() else [pl.lit(1.0).alias(WEIGHT)]
    return rows.with_columns((duration * MICROSECOND_IN_SECONDS).alias(DURATION), (~is_seen).alias(CENSORED), *weight)
