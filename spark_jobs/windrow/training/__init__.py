"""The reader for trainers: rows of the training table with the bias stated, and a pin that reads them again. No Spark.

    from windrow import training

    rows, pin = training.read("feed", "2026-11-01T00:00:00Z", "2026-11-08T00:00:00Z")
    frame = rows.collect()                    # a Polars frame; rows is lazy
    again = training.read_pinned(pin).rows    # the same rows, whatever was published since

docs/TRAINING.md is the guide. Polars and Arrow read the files, delta-rs the log; importing this starts no JVM.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypedDict, Unpack

import polars as pl
from deltalake import DeltaTable

from windrow.config import find
from windrow.home import Home
from windrow.places import Places
from windrow.training import credit, splits
from windrow.training.maturity import LabelLeftOut
from windrow.training.pin import Pin
from windrow.training.reader import refuse_what_rows_lack, rows_of
from windrow.training.request import Attribute, Labels, Request, Unpublished, WrongRequest, duration, instant
from windrow.training.splits import SharedLabels
from windrow.training.state import (
    AnotherTable,
    FileUnknown,
    NotPublished,
    RowsGone,
    State,
    found_again,
    observed_of,
    pinned,
    reach_of,
    state_at,
)

__all__ = [
    "AnotherTable",
    "FileUnknown",
    "LabelLeftOut",
    "NotPublished",
    "Pin",
    "Read",
    "RowsGone",
    "SharedLabels",
    "WrongRequest",
    "read",
    "read_pinned",
    "split",
]


class Read(NamedTuple):
    """Rows, and the pin that reads them again."""

    rows: pl.LazyFrame
    pin: Pin


class Options(TypedDict, total=False):
    """Arguments of a read that choose among its rows; `read` says what they mean."""

    labels: Labels
    negatives: float | None
    seed: int
    attribute: Attribute | None
    matured: timedelta | str | None
    delays: bool
    survival: str | None
    unpublished: Unpublished


def read(
    pipeline: str,
    start: datetime | str | None = None,
    end: datetime | str | None = None,
    *,
    at: int | datetime | str | None = None,
    places: Places | None = None,
    **options: Unpack[Options],
) -> Read:
    """Return the rows that were served in [start, end), and their pin.

    Args:
        pipeline: name of the pipeline.
        start: first served time; instants are aware datetimes or texts such as 2026-11-01T00:00:00Z. Default: the start
            of the pipeline.
        end: end of the served times, not included. Default: the end of the newest published interval; with an
            attribution that looks at later rows, one window before it.
        at: the state that is read: the number of a publication, or an instant; default: the newest.
        places: where tables and pipeline files are; default: as the environment says.

    Keyword Args:
        labels: `complete` (default) keeps the rows whose label side was complete, positive or not; it is unbiased where
            doubts come by time (outages, gaps, forced intervals). `known` keeps every row with a state; the positives
            of an outage stay and its negatives go, so its label rate is too high. `all` keeps unknown rows too; whoever
            takes them as negatives has a label rate that is too low.
        negatives: share of the negative rows to keep, such as 0.05; adds `_weight` and `_logit_offset` (see `sample`).
        seed: of the sample; the same seed chooses the same rows, and more of them for a larger share.
        attribute: credits each label to the rows that it matched: to `all` of them, to the `first_touch`, to the
            `last_touch`, or `linear` in equal parts; adds `_credit_<stream>`, parallel to the labels (see `credit`).
        matured: a time after serving, such as 24h: labels are cut to it, and states, reasons and derived labels are
            those of a rebuild with that window (see `maturity`).
        delays: adds `_delay_<stream>` and `_arrival_<stream>`, lists of seconds from serving to each label's event and
            landing, and `_age_<stream>`, for how many seconds the label side was observed.
        survival: a label stream; adds `_duration` (seconds until its first label, or for which none was seen),
            `_censored` and `_weight` (see `survival`).
        unpublished: `refuse` (default) raises where an interval of the range is not published; `skip` leaves it out.

    Raises:
        PipelineUnknown: there is no pipeline of this name; the message lists them.
        NotPublished: an interval of the range is not published; the message lists them.
        WrongRequest: an argument cannot be carried out.
        RowsGone: `at` names a state whose rows were vacuumed.
    """
    home = home_of(pipeline, places)
    state = state_at(home, at)
    return _read(home, state, request_of(home, state, start, end, options))


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
    home = home_of(pin.pipeline, places)
    return Read(_rows(home, found_again(home, pin), pin), pin)


def split(
    pipeline: str,
    start: datetime | str | None = None,
    end: datetime | str | None = None,
    *,
    parts: Sequence[str] | Mapping[str, float],
    cuts: Sequence[datetime | str] = (),
    by: str | None = None,
    at: int | datetime | str | None = None,
    places: Places | None = None,
    **options: Unpack[Options],
) -> dict[str, Read]:
    """Return the parts of a range, of which no two share a label event; each has its own pin.

    Args:
        parts: names of the parts, in the order of time where there are cuts; with `by`, the share of each.
        cuts: where a part ends and the next begins. The last window before a cut is left out.
        by: a column of the left stream, of type integer or string: rows with one value of it are in one part.
        seed: of the hash, as in `read`; another seed gives another split.

    Raises:
        SharedLabels: the column is not in the key, and a label has rows in two parts.
        WrongRequest: cuts or shares do not fit the parts; and what `read` raises.
    """
    home = home_of(pipeline, places)
    state = state_at(home, at)
    request = request_of(home, state, start, end, options)
    instants = [instant("cuts", cut) for cut in cuts]
    apart = reach_of(home, state, request)
    requests = splits.parts_of(request, parts, instants, by, home.pipeline, apart)
    reads = {name: _read(home, state, one) for name, one in requests.items()}
    if by is not None and splits.must_be_compared(by, instants, home.pipeline):
        splits.refuse_shared_labels({name: one.rows for name, one in reads.items()}, by, home.pipeline)
    return reads


def _read(home: Home, state: State, request: Request) -> Read:
    span = request.range if request.attribute is None else credit.span(request, reach_of(home, state, request))
    pin, table = pinned(home, request, state, span)
    return Read(_rows(home, table, pin), pin)


def _rows(home: Home, table: DeltaTable, pin: Pin) -> pl.LazyFrame:
    observed = observed_of(home, pin) if pin.request.needs_plans else []
    refuse_what_rows_lack(pin.request, observed)
    return rows_of(table, pin, observed)


def request_of(
    home: Home, state: State, start: datetime | str | None, end: datetime | str | None, options: Options
) -> Request:
    """Return the request of some arguments; a range without an end goes as far as the state can answer it."""
    chosen: dict[str, Any] = {**options, "matured": duration("matured", options.get("matured"))}
    first = home.pipeline.start if start is None else instant("start", start)
    request = Request(first, state.until if end is None else instant("end", end), **chosen)
    if end is not None or request.attribute is None:
        return request
    return replace(request, end=request.end - credit.ahead(request, reach_of(home, state, request)))


def home_of(pipeline: str, places: Places | None) -> Home:
    """Return a pipeline with its places.

    Raises:
        PipelineUnknown: there is no pipeline of this name.
    """
    places = places or Places.from_env(os.environ)
    return Home(find(pipeline, places.pipelines, places.expectations), places)
