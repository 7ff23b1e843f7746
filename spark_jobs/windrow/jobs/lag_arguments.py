"""What a lag analysis is asked for: read from text, checked before Spark starts, and turned into scenarios.

Every refusal names the next move. A range that is not closed yet is refused as such: waiting helps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from windrow.config import Pipeline
from windrow.jobs.run import BadRequest, WindowStillOpen, instant
from windrow.semantics.intervals import DAY
from windrow.semantics.lag.scenario import Lag, Policy, Scenario, Unusable
from windrow.text import parse_duration

LAGS = (timedelta(minutes=1), timedelta(minutes=10), timedelta(hours=1), timedelta(hours=6))
"""Lags that people have; of these the ones that fit four times into the range."""

POLICIES = ("slowest", "fastest_side", "newest_partition", "idle_timeout", "wall")
WANTED = (0.99, 0.999)
MOST_SCENARIOS = 500
Known = Mapping[str, Collection[int]]


@dataclass(frozen=True)
class Texts:
    """The arguments as they were written; see `jobs.lag_impact`. Each list may hold commas."""

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


@dataclass(frozen=True)
class Asked:
    """A checked request. `scenarios` begins with the pipeline's own settings."""

    start: datetime
    end: datetime
    scenarios: tuple[Scenario, ...]
    windows: tuple[timedelta, ...]
    wanted: tuple[float, ...]
    sample: float


def asked(texts: Texts, pipeline: Pipeline, frontier: datetime | None, known: Known) -> Asked:
    """The request of the texts.

    Args:
        frontier: event time before which every window has closed.
        known: topic → its partitions.
    Raises:
        BadRequest, WindowStillOpen
    """
    if frontier is None:
        raise BadRequest(
            f"{pipeline.name} has no watermark yet, so nothing has closed that could be analysed: "
            f"`windrow land {pipeline.name}`, and `windrow clock {pipeline.name}` says what holds it"
        )
    start, end = _range(texts, pipeline, frontier)
    try:
        scenarios = _scenarios(texts, pipeline, known, start, end)
    except Unusable as refused:
        raise BadRequest(str(refused)) from None
    if len(scenarios) > MOST_SCENARIOS:
        raise BadRequest(f"that makes {len(scenarios)} scenarios; at most {MOST_SCENARIOS} in one run: ask for fewer")
    return Asked(
        start,
        end,
        scenarios,
        tuple(_durations(texts.windows, "window")),
        tuple(_share(text, "a wanted recall", below=True) for text in _split(texts.recalls)) or WANTED,
        _share(texts.sample, "a sample") if texts.sample else 1.0,
    )


def _range(texts: Texts, pipeline: Pipeline, frontier: datetime) -> tuple[datetime, datetime]:
    """As written, or the last 24 hours that are closed."""
    closed = frontier - (frontier - pipeline.start) % pipeline.interval
    end = instant(texts.end) if texts.end else None
    start = instant(texts.begin) if texts.begin else None
    if end is None:
        end = min(closed, start + DAY) if start else closed
    if start is None:
        start = max(pipeline.start, end - DAY)
    if start < pipeline.start:
        raise BadRequest(f"{pipeline.name} starts at {pipeline.start}; rows before it are in no interval")
    if end > frontier:
        raise WindowStillOpen(
            f"[{start}, {end}) reaches past {frontier}, before which every window has closed: labels of its last rows "
            f"can still come. Wait, or end it at {closed.isoformat()}"
        )
    if end <= start:
        raise BadRequest(
            f"[{start}, {end}) holds nothing: the end lies after the start, and closed is what lies before {closed}"
        )
    return start, end


def _scenarios(texts: Texts, pipeline: Pipeline, known: Known, start: datetime, end: datetime) -> tuple[Scenario, ...]:
    policies = tuple(_policy(kind, texts, pipeline) for kind in _split(texts.policies) or POLICIES)
    lags: tuple[Lag | None, ...] = (None, *_lags(texts, pipeline, known, start, end))
    own = {stream.window.after for stream in pipeline.right}
    windows = (None, *(window for window in _durations(texts.windows, "window") if {window} != own))
    graces = (None, *(grace for grace in _durations(texts.graces, "grace") if grace != pipeline.grace))
    interval = None if texts.row_by_row else pipeline.interval
    made = (
        Scenario(policy, lag, after=window, grace=grace, interval=interval)
        for window in windows
        for grace in graces
        for lag in lags
        for policy in policies
    )
    return tuple(dict.fromkeys(made))


def _lags(texts: Texts, pipeline: Pipeline, known: Known, start: datetime, end: datetime) -> Iterable[Lag]:
    sides = [_side(text, pipeline) for text in _split(texts.sides)] or ["left", "right"]
    partitions = tuple(_whole(text, "a partition", least=0) for text in _split(texts.partitions))
    for side in sides:
        _refuse_missing(side, partitions, pipeline, known)
    usual = [lag for lag in LAGS if lag * 4 <= end - start] or [(end - start) / 4]
    constant = [lag for lag in _durations(texts.lags, "lag") if lag] if _split(texts.lags) else usual
    pauses = _durations(texts.pauses, "pause") if _split(texts.pauses) else usual[-1:]
    drains = _durations(texts.drains, "drain")
    rate = _whole(texts.rate, "the rate", least=1) if texts.rate else 10
    middle = start + (end - start) / 2
    for side in sides:
        yield from (Lag.constant(side, delay, partitions) for delay in constant)
        yield from (Lag.pause(side, middle, middle + length, rate, partitions) for length in pauses)
        yield from (Lag.drain(side, middle, delay, rate, partitions) for delay in drains)


def _side(text: str, pipeline: Pipeline) -> str:
    streams = [stream.name for stream in pipeline.streams]
    if text in ("left", "right", "both", *streams, *pipeline.topics):
        return text
    raise BadRequest(
        f"{text!r} is no side: left, right, both, a stream ({', '.join(streams)}) or a topic "
        f"({', '.join(pipeline.topics)})"
    )


def _refuse_missing(side: str, partitions: tuple[int, ...], pipeline: Pipeline, known: Known) -> None:
    right = [topic for stream in pipeline.right for topic in stream.topics]
    topics = {"left": pipeline.left.topics, "right": right, "both": pipeline.topics}
    topics |= {stream.name: stream.topics for stream in pipeline.streams}
    there = {number for topic in topics.get(side, (side,)) for number in known.get(topic, ())}
    if missing := sorted(set(partitions) - there):
        numbers = ", ".join(str(number) for number in sorted(there)) or "none"
        raise BadRequest(f"nothing would lag on partition {missing[0]} of {side}: its partitions are {numbers}")


def _policy(kind: str, texts: Texts, pipeline: Pipeline) -> Policy:
    if kind not in POLICIES:
        raise BadRequest(f"{kind!r} is no clock that is known; the clocks are {', '.join(POLICIES)}")
    tick = _duration(texts.tick, "tick") if texts.tick else timedelta(minutes=1)
    idle = _duration(texts.idle_after, "idle-after") if texts.idle_after else pipeline.idle.after or tick
    on_time = kind in ("idle_timeout", "wall")
    return Policy(kind, tick if on_time else None, idle if kind == "idle_timeout" else None)  # type: ignore[arg-type]


def _split(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(part.strip() for text in texts for part in text.split(",") if part.strip()))


def _durations(texts: Sequence[str], what: str) -> list[timedelta]:
    return list(dict.fromkeys(_duration(text, what) for text in _split(texts)))


def _duration(text: str, what: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as wrong:
        raise BadRequest(f"--{what} {wrong}") from None


def _whole(text: str, what: str, least: int) -> int:
    if not text.strip().isdecimal() or int(text) < least:
        raise BadRequest(f"{what} is a whole number from {least}, not {text!r}")
    return int(text)


def _share(text: str, what: str, below: bool = False) -> float:
    """`0.99` or `99 %`."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1 or (below and share == 1):
        limits = "above 0 and below 1" if below else "above 0 and at most 1"
        raise BadRequest(f"{what} is {limits}, such as {'0.99' if below else '0.1'}, not {text!r}")
    return share
