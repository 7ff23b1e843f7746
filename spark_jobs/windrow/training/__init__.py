"""The reader for trainers: rows of the training table with the bias stated, and a pin that reads them again. No Spark.

    from windrow import training

    rows, pin = training.read("feed", "2026-11-01T00:00:00Z", "2026-11-08T00:00:00Z")
    frame = rows.collect()                    # a Polars frame; rows is lazy
    again = training.read_pinned(pin).rows    # the same rows, whatever was published since

docs/TRAINING.md is the guide. Polars and Arrow read the files, delta-rs the log; importing this starts no JVM.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import NamedTuple

import polars as pl

from windrow.config import find
from windrow.home import Home
from windrow.places import Places
from windrow.training.pin import Pin
from windrow.training.reader import rows_of
from windrow.training.request import Labels, Request, Unpublished, WrongRequest, instant
from windrow.training.state import AnotherTable, NotPublished, RowsGone, found_again, pinned, state_at

__all__ = ["AnotherTable", "NotPublished", "Pin", "Read", "RowsGone", "WrongRequest", "read", "read_pinned"]


class Read(NamedTuple):
    """Rows, and the pin that reads them again."""

    rows: pl.LazyFrame
    pin: Pin


def read(
    pipeline: str,
    start: datetime | str | None = None,
    end: datetime | str | None = None,
    *,
    at: int | datetime | str | None = None,
    labels: Labels = "complete",
    negatives: float | None = None,
    seed: int = 0,
    unpublished: Unpublished = "refuse",
    places: Places | None = None,
) -> Read:
    """Return the rows that were served in [start, end), and their pin.

    Args:
        pipeline: name of the pipeline.
        start: first served time; instants are aware datetimes or texts such as 2026-11-01T00:00:00Z. Default: the start
            of the pipeline.
        end: end of the served times, not included. Default: the end of the newest published interval.
        at: the state that is read: the number of a publication, or an instant; default: the newest.
        labels: `complete` keeps the rows whose label side was complete, positive or not; it is unbiased where doubts
            come by time (outages, gaps, forced intervals). `known` keeps every row with a state; the positives of an
            outage stay and its negatives go, so its label rate is too high. `all` keeps unknown rows too; whoever takes
            them as negatives has a label rate that is too low.
        negatives: share of the negative rows to keep, such as 0.05; adds `_weight` and `_logit_offset` (see `sample`).
        seed: of the sample; the same seed chooses the same rows, and more of them for a larger share.
        unpublished: `refuse` raises where an interval of the range is not published; `skip` leaves it out.
        places: where tables and pipeline files are; default: as the environment says.

    Raises:
        PipelineUnknown: there is no pipeline of this name; the message lists them.
        NotPublished: an interval of the range is not published; the message lists them.
        WrongRequest: an argument cannot be carried out.
        RowsGone: `at` names a state whose rows were vacuumed.
    """
    home = home_of(pipeline, places)
    state = state_at(home, at)
    request = Request(
        home.pipeline.start if start is None else instant("start", start),
        state.until if end is None else instant("end", end),
        labels,
        unpublished,
        negatives,
        seed,
    )
    pin, table = pinned(home, request, state)
    return Read(rows_of(table, request), pin)


def read_pinned(pin: Pin | str, *, places: Places | None = None) -> Read:
    """Return the rows of a pin again.

    Args:
        pin: the pin, or its JSON text.
        places: as for `read`.

    Raises:
        RowsGone: its rows were replaced since, and vacuumed.
        AnotherTable: it was made from another training table.
    """
    pin = Pin.from_json(pin) if isinstance(pin, str) else pin
    return Read(rows_of(found_again(home_of(pin.pipeline, places), pin), pin.request), pin)


def home_of(pipeline: str, places: Places | None) -> Home:
    """Return a pipeline with its places.

    Raises:
        PipelineUnknown: there is no pipeline of this name.
    """
    places = places or Places.from_env(os.environ)
    return Home(find(pipeline, places.pipelines, places.expectations), places)
