"""The notation of the worked vectors: `L("k", 0)` is a left row with key k at second 0 after `START`.

Offsets are counted by partition unless a row names its own; `by` writes them in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from windrow.semantics.clock import IdlePolicy, PartitionClock, Progress, advance
from windrow.semantics.intervals import Interval
from windrow.semantics.records import JoinSpec, Left, Record, Right, RowId
from windrow.semantics.reference import Joined, event_clocks, reference_join

START = datetime(2026, 11, 1, tzinfo=UTC)
PINS = {"left": 10**9, "right": 10**9, "other": 10**9}
WAIT = IdlePolicy("wait")


def seconds(n: float) -> timedelta:
    return timedelta(seconds=n)


def at(n: float) -> datetime:
    return START + seconds(n)


def record(topic: str, key: Any, t: float | None, **more: Any) -> Record:
    values = {"key": key, **more.pop("values", {})}
    event_at = None if t is None else at(t)
    row_id = RowId(topic, more.pop("epoch", 0), more.pop("p", 0), more.pop("offset", -1))
    return Record(row_id, more.pop("batch", 1), event_at, values, **more)


def L(key: Any, t: float | None, **more: Any) -> Record:  # noqa: N802
    return record("left", key, t, **more)


def R(key: Any, t: float | None, **more: Any) -> Record:  # noqa: N802
    return record("right", key, t, **more)


def landed(*records: Record) -> list[Record]:
    """The records with the offsets that they get by their order."""
    next_offset: dict[tuple[str, int, int], int] = {}
    numbered = []
    for r in records:
        p = (r.row_id.topic, r.row_id.epoch, r.row_id.partition)
        offset = r.row_id.offset if r.row_id.offset >= 0 else next_offset.get(p, 0)
        next_offset[p] = offset + 1
        numbered.append(replace(r, row_id=replace(r.row_id, offset=offset)))
    return numbered


def right(name: str = "labels", **changes: Any) -> Right:
    fields: dict[str, Any] = {"name": name, "topics": ("right",), "key": ("key",), "after": seconds(100)}
    return Right(**{**fields, **changes})


def spec(*rights: Right, **changes: Any) -> JoinSpec:
    """before 0, after 100, grace 10, intervals of a second; labels complete unless clocks say otherwise."""
    fields: dict[str, Any] = {
        "left": Left("served", ("left",), ("key",)),
        "right": rights or (right(),),
        "start": START,
        "interval": seconds(1),
        "grace": seconds(10),
        "event_clocks": {"right": (at(10**6),), "other": (at(10**6),)},
    }
    return JoinSpec(**{**fields, **changes})


def as_of_pins(records: list[Record], pins: Mapping[str, int] = PINS) -> dict[str, tuple[datetime | None, ...]]:
    """Event clocks with an out-of-orderness of 0."""
    return event_clocks(records, pins, {"right": seconds(0), "other": seconds(0)})


def join_at(t: int, records: list[Record], by: JoinSpec, pins: Mapping[str, int] = PINS) -> Joined:
    """The interval that begins at second t."""
    joined = reference_join(records, by, Interval(at(t), at(t) + by.interval), pins)
    joined.balance.check()
    return joined


def labels_of(joined: Joined, stream: str = "labels") -> list[list[float]]:
    """For each row in row order, the seconds of its matches."""
    return [[(m.order[0] - START).total_seconds() for m in row.matches[stream]] for row in joined.rows]


def states_of(joined: Joined) -> list[tuple[str, str | None]]:
    return [(row.label_state, row.label_reason) for row in joined.rows]


def clock(
    previous: PartitionClock | None = None,
    *,
    newest: float | None = None,
    landed: float = 0,
    next_offset: int = 0,
    end_offset: int | None = None,
    disorder: float = 0,
    idle: IdlePolicy = WAIT,
    topic: str = "left",
    p: int = 0,
    topic_clock: float | None = None,
) -> PartitionClock:
    """`advance` in seconds; caught up unless an end offset is given."""
    return advance(
        previous,
        Progress(
            topic,
            epoch=0,
            partition=p,
            next_offset=next_offset,
            end_offset=next_offset if end_offset is None else end_offset,
            newest_at=None if newest is None else at(newest),
            landed_at=at(landed),
        ),
        out_of_orderness=seconds(disorder),
        idle=idle,
        topic_clock=None if topic_clock is None else at(topic_clock),
    )
