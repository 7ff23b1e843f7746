"""Arguments of a read become an opened table: the same for Polars and for Spark.

arguments ──▶ state of the table ──▶ request ──▶ pin, version of the table, what its publications knew ──▶ rows
                                                                                             (reader, spark)
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypedDict

from windrow.config import find
from windrow.home import Home
from windrow.io.training import states
from windrow.io.training.states import Rows
from windrow.places import Places
from windrow.training import credit, maturity, splits, survival
from windrow.training.observed import Observed
from windrow.training.pin import Pin
from windrow.training.request import Attribute, Labels, Request, Unpublished, duration, instant
from windrow.training.state import State, found_again, observed_of, pinned, reach_of, state_at

Time = datetime | str
"""An aware datetime, or a text such as 2026-11-01T00:00:00Z."""


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


@dataclass(frozen=True)
class Opened:
    """Where the rows of a pin are.

    Args:
        rows: the training table at a version, or the files of a snapshot.
        observed: the publications of the pin, where the request needs their plans.
    """

    pin: Pin
    rows: Rows
    observed: Sequence[Observed]


def opened(
    pipeline: str, start: Time | None, end: Time | None, at: int | Time | None, places: Places | None, options: Options
) -> Opened:
    """Open the table for a read."""
    home = home_of(pipeline, places)
    state = state_at(home, at)
    return _opened(home, state, _request(home, state, start, end, options))


def opened_again(pin: Pin | str, places: Places | None) -> Opened:
    """Open the table for a pin, or for its JSON text."""
    pin = Pin.from_json(pin) if isinstance(pin, str) else pin
    home = home_of(pin.pipeline, places)
    return _with_plans(home, pin, found_again(home, pin))


@dataclass(frozen=True)
class Parts:
    """The parts of a split, opened.

    Args:
        compared: label streams of which no event may be in two parts, where only a look at the rows can tell.
        key: the columns that keep a label with its rows.
    """

    opened: Mapping[str, Opened]
    compared: Sequence[str]
    key: Sequence[str]


def opened_parts(
    pipeline: str,
    start: Time | None,
    end: Time | None,
    at: int | Time | None,
    places: Places | None,
    options: Options,
    *,
    parts: Sequence[str] | Mapping[str, float],
    cuts: Sequence[Time],
    by: str | None,
) -> Parts:
    """Open the table for each part of a split, in one state."""
    home = home_of(pipeline, places)
    state = state_at(home, at)
    request, instants = _request(home, state, start, end, options), [instant("cuts", cut) for cut in cuts]
    requests = splits.parts_of(request, parts, instants, by, home.pipeline, reach_of(home, state, request))
    compared = splits.compared(by, instants, home.pipeline)
    return Parts({name: _opened(home, state, one) for name, one in requests.items()}, compared, home.pipeline.left.key)


def home_of(pipeline: str, places: Places | None) -> Home:
    """Return a pipeline with its places; without any, those of the environment."""
    places = places or Places.for_tables(os.environ)
    return Home(find(pipeline, places.pipelines, places.expectations), places)


def _request(home: Home, state: State, start: Time | None, end: Time | None, options: Options) -> Request:
    """Return the request of some arguments; a range without an end goes as far as the state can answer it."""
    chosen: dict[str, Any] = {**options, "matured": duration("matured", options.get("matured"))}
    whole = state.range_of(home)
    first = whole.start if start is None else instant("start", start)
    request = Request(first, whole.end if end is None else instant("end", end), **chosen)
    if end is not None or request.attribute is None:
        return request
    return replace(request, end=min(whole.end, state.until - credit.ahead(request, reach_of(home, state, request))))


def _opened(home: Home, state: State, request: Request) -> Opened:
    span = request.range if request.attribute is None else credit.span(request, reach_of(home, state, request))
    return _with_plans(home, *pinned(home, request, state, span))


def _with_plans(home: Home, pin: Pin, rows: Rows) -> Opened:
    request = pin.request
    states.require_whole(home, rows, pin.span)  # an engine that meets a damaged file does not say what to do
    observed = observed_of(home, pin) if request.needs_plans else []
    if request.matured is not None:
        maturity.refuse_what_rows_lack(observed, request.matured)
    if request.survival is not None:
        survival.refuse_what_rows_lack(observed, request.survival)
    return Opened(pin, rows, observed)
