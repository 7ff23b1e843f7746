"""The options of a lag analysis: read from text, checked before Spark starts, and turned into a request.

Every refusal says what to do next. A range that is still open is refused as WindowStillOpen, because waiting helps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from windrow.config import Pipeline
from windrow.jobs.run import BadRequest, WindowStillOpen, instant
from windrow.outcomes import NothingToDo
from windrow.semantics.lag.request import AnalysableTime, LagRequest, RangeStillOpen
from windrow.semantics.lag.scenario import Lag, LagScenario, NotAnalysable, Policy
from windrow.text import parse_duration

DEFAULT_LAGS = (timedelta(minutes=1), timedelta(minutes=10), timedelta(hours=1), timedelta(hours=6))
"""Lags that are tried without an option: those that fit four times into the range."""

POLICIES = ("slowest", "fastest_side", "newest_partition", "idle_timeout", "wall")
DEFAULT_RECALLS = (0.99, 0.999)
MOST_SCENARIOS = 500
Partitions = Mapping[str, Collection[int]]
"""topic → numbers of its partitions"""


@dataclass(frozen=True)
class LagOptions:
    """The options as they were written; see `jobs.lag.impact`. Each item of a list may hold commas."""

    begin: str | None = None
    end: str | None = None
    sides: Sequence[str] = ()
    partitions: Sequence[str] = ()
    lags: Sequence[str] = ()
    pauses: Sequence[str] = ()
    drains: Sequence[str] = ()
    rate: str | None = None
    policies: Sequence[str] = ()
    tick: str | None = None
    idle_after: str | None = None
    windows: Sequence[str] = ()
    graces: Sequence[str] = ()
    sample: str | None = None
    recalls: Sequence[str] = ()
    row_by_row: bool = False


def request_of(
    options: LagOptions, pipeline: Pipeline, frontier: datetime | None, partitions: Partitions
) -> LagRequest:
    """Parse and check the options.

    Args:
        frontier: event time before which every window has closed; None without a watermark.
        partitions: the partitions of each topic.
    Raises:
        BadRequest: the options cannot be carried out.
        WindowStillOpen: the range reaches past the frontier.
        NothingToDo: no range is given, and nothing has closed yet, as on a pipeline's first day.
    """
    if not (options.begin or options.end) and (frontier is None or frontier < pipeline.start + pipeline.interval):
        raise NothingToDo(
            f"{pipeline.name}: no interval has closed yet, so there is nothing to analyse. `windrow land "
            f"{pipeline.name}`; `windrow clock {pipeline.name}` shows what is waited for"
        )
    time = AnalysableTime(pipeline.name, pipeline.start, pipeline.interval, frontier)
    begin, end = (instant(text) if text else None for text in (options.begin, options.end))
    try:
        start, end = time.range(begin, end)
        scenarios = _scenarios(options, pipeline, partitions, start, end)
    except NotAnalysable as refused:
        raise BadRequest(str(refused)) from None
    except RangeStillOpen as still_open:
        raise WindowStillOpen(str(still_open)) from None
    if len(scenarios) > MOST_SCENARIOS:
        raise BadRequest(
            f"these options make {len(scenarios)} scenarios, and one run takes at most {MOST_SCENARIOS}: give fewer"
        )
    return LagRequest(
        start,
        end,
        scenarios,
        tuple(_durations(options.windows, "window")),
        tuple(_share(text, "a wanted recall", is_below_one=True) for text in _items(options.recalls))
        or DEFAULT_RECALLS,
        _share(options.sample, "a sample") if options.sample else 1.0,
    )


def _scenarios(
    options: LagOptions, pipeline: Pipeline, partitions: Partitions, start: datetime, end: datetime
) -> tuple[LagScenario, ...]:
    """Return every combination, first the pipeline's own settings without lag, each combination once."""
    policies = tuple(_policy(kind, options, pipeline) for kind in _items(options.policies) or POLICIES)
    lags: tuple[Lag | None, ...] = (None, *_lags(options, pipeline, partitions, start, end))
    own_windows = {stream.window.after for stream in pipeline.right}
    windows = (None, *(window for window in _durations(options.windows, "window") if {window} != own_windows))
    graces = (None, *(grace for grace in _durations(options.graces, "grace") if grace != pipeline.grace))
    interval = None if options.row_by_row else pipeline.interval
    combined = (
        LagScenario(policy, lag, after=window, grace=grace, interval=interval)
        for window in windows
        for grace in graces
        for lag in lags
        for policy in policies
    )
    return tuple(dict.fromkeys(combined))


def _lags(
    options: LagOptions, pipeline: Pipeline, partitions: Partitions, start: datetime, end: datetime
) -> Iterable[Lag]:
    """Yield the lags of each side; pauses and backlogs are put into the middle of the range."""
    sides = [_side(text, pipeline) for text in _items(options.sides)] or ["left", "right"]
    numbers = tuple(_whole(text, "a partition", least=0) for text in _items(options.partitions))
    for side in sides:
        _refuse_missing(side, numbers, pipeline, partitions)
    default = [lag for lag in DEFAULT_LAGS if lag * 4 <= end - start] or [(end - start) / 4]
    constant = [lag for lag in _durations(options.lags, "lag") if lag] if _items(options.lags) else default
    pauses = _durations(options.pauses, "pause") if _items(options.pauses) else default[-1:]
    drains = _durations(options.drains, "drain")
    rate = _whole(options.rate, "the rate", least=1) if options.rate else 10
    middle = start + (end - start) / 2
    for side in sides:
        yield from (Lag.constant(side, delay, numbers) for delay in constant)
        yield from (Lag.pause(side, middle, middle + length, rate, numbers) for length in pauses)
        yield from (Lag.drain(side, middle, delay, rate, numbers) for delay in drains)


def _side(text: str, pipeline: Pipeline) -> str:
    streams = [stream.name for stream in pipeline.streams]
    if text in ("left", "right", "both", *streams, *pipeline.topics):
        return text
    raise BadRequest(
        f"{text!r} is not a side: give left, right, both, a stream ({', '.join(streams)}) or a topic "
        f"({', '.join(pipeline.topics)})"
    )


def _refuse_missing(side: str, numbers: tuple[int, ...], pipeline: Pipeline, partitions: Partitions) -> None:
    right = [topic for stream in pipeline.right for topic in stream.topics]
    topics = {"left": pipeline.left.topics, "right": right, "both": pipeline.topics}
    topics |= {stream.name: stream.topics for stream in pipeline.streams}
    known = {number for topic in topics.get(side, (side,)) for number in partitions.get(topic, ())}
    if missing := sorted(set(numbers) - known):
        listed = ", ".join(str(number) for number in sorted(known)) or "none"
        raise BadRequest(f"nothing would lag on partition {missing[0]} of {side}: its partitions are {listed}")


def _policy(kind: str, options: LagOptions, pipeline: Pipeline) -> Policy:
    if kind not in POLICIES:
        raise BadRequest(f"{kind!r} is not a clock: the clocks are {', '.join(POLICIES)}")
    tick = _duration(options.tick, "tick") if options.tick else timedelta(minutes=1)
    idle = _duration(options.idle_after, "idle-after") if options.idle_after else pipeline.idle.after or tick
    is_on_wall_time = kind in ("idle_timeout", "wall")
    return Policy(kind, tick if is_on_wall_time else None, idle if kind == "idle_timeout" else None)  # type: ignore[arg-type]


def _items(texts: Sequence[str]) -> list[str]:
    """Return the distinct items of a list option, in order."""
    return list(dict.fromkeys(part.strip() for text in texts for part in text.split(",") if part.strip()))


def _durations(texts: Sequence[str], option: str) -> list[timedelta]:
    return list(dict.fromkeys(_duration(text, option) for text in _items(texts)))


def _duration(text: str, option: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BadRequest(f"--{option} {error}") from None


def _whole(text: str, what: str, least: int) -> int:
    if not text.strip().isdecimal() or int(text) < least:
        raise BadRequest(f"{what} is a whole number from {least}, not {text!r}")
    return int(text)


def _share(text: str, what: str, is_below_one: bool = False) -> float:
    """Return the share that a text such as `0.99` or `99%` means."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1 or (is_below_one and share == 1):
        limits = "above 0 and below 1" if is_below_one else "above 0 and at most 1"
        raise BadRequest(f"{what} is {limits}, such as {'0.99' if is_below_one else '0.1'}, not {text!r}")
    return share
