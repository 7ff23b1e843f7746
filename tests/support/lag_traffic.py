"""Small random traffic for the lag analysis, and scenarios of every kind over it. The same seed, the same traffic.

Record times lie on few instants, so that ties are the rule; events come out of order by more than was promised, so
that every clock loses something.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from windrow.semantics.lag.scenario import Lag, LagScenario, Policy
from windrow.semantics.lag.setting import Event, LabelStream, LagSetting, PartitionId
from windrow.semantics.match import Key
from windrow.semantics.records import RowId

START = datetime(2026, 11, 1, tzinfo=UTC)
SERVED, ENGAGED, EXTRA = "t.served", "t.engaged", "t.extra"
PARTITIONS = {SERVED: 2, ENGAGED: 3, EXTRA: 1}
SLOWEST, FASTEST, NEWEST = (Policy(kind) for kind in ("slowest", "fastest_side", "newest_partition"))


def seconds(n: float) -> timedelta:
    return timedelta(seconds=n)


def at(n: float) -> datetime:
    return START + seconds(n)


def idle(after: float, tick: float = 7) -> Policy:
    return Policy("idle_timeout", seconds(tick), seconds(after))


def wall(tick: float = 7) -> Policy:
    return Policy("wall", seconds(tick))


def key(name: str) -> Key:
    return (("user", name),)


def setting(partition_ids: tuple[PartitionId, ...], **changes: object) -> LagSetting:
    """Two label streams, one with a long window; every topic is allowed a disorder of its own."""
    values: dict[str, object] = {
        "left": "served",
        "labels": (LabelStream("clicks", seconds(2), seconds(20)), LabelStream("likes", seconds(0), seconds(40))),
        "partition_ids": partition_ids,
        "sides": {"left": (SERVED,), "right": (ENGAGED, EXTRA), "clicks": (ENGAGED, EXTRA)},
        "out_of_orderness": {SERVED: seconds(3), ENGAGED: seconds(5), EXTRA: seconds(0)},
        "after": seconds(40),
        "grace": seconds(4),
    }
    return LagSetting(**{**values, **changes})  # type: ignore[arg-type]


def traffic(seed: int, size: int = 120, span: int = 240) -> list[Event]:
    """Events of all topics; those of one partition have record times that only grow, as a log's do."""
    rng = random.Random(seed)
    events = []
    for topic, partitions in PARTITIONS.items():
        for partition in range(partitions):
            epochs = rng.choice(((0,), (0,), (0, 1))) if topic == SERVED else (0,)
            first, share = 0.0, size // 6
            for epoch in epochs:
                logged = sorted(rng.randrange(int(first), span) for _ in range(rng.randrange(1, 2 * share)))
                first = logged[-1] if logged[-1] < span - 1 else first
                for offset, when in enumerate(logged):
                    events.append(_event(rng, RowId(topic, epoch, partition, offset), when))
    return events


def _event(rng: random.Random, row_id: RowId, logged: int) -> Event:
    late = rng.choice((0, 0, 0, 1, 2, 3, 5, 8, 20, 60)) + rng.choice((0, 0, 0.000001, -0.000001))
    who = rng.choice((key("a"), key("b"), key("c")))
    if row_id.topic == SERVED:
        keys = {"served": rng.choice((who, who, who, None))} if rng.random() < 0.9 else {}
    else:
        keys = {name: who for name in ("clicks", "likes") if rng.random() < 0.6}
    return Event(row_id, at(logged - late), at(logged), keys)


def partitions_of(events: list[Event]) -> tuple[PartitionId, ...]:
    return tuple(sorted({event.partition_id for event in events}))


def lags(rng: random.Random) -> Lag | None:
    side = rng.choice(("left", "right", "both", "clicks", ENGAGED))
    numbers = rng.choice(((), (), (0,), (0, 1)))
    begin, long = rng.randrange(0, 150), rng.randrange(1, 120)
    return rng.choice(
        (
            None,
            Lag.constant(side, seconds(rng.choice((0, 1, 30, 100))), numbers),
            Lag.pause(side, at(begin), at(begin + long), None, numbers),
            Lag.pause(side, at(begin), at(begin + long), rng.choice((2, 3, 10)), numbers),
            Lag.drain(side, at(begin), seconds(long), rng.choice((1, 2, 5)), numbers),
        )
    )


def policies(rng: random.Random) -> Policy:
    tick = rng.choice((1, 7, 60))
    return rng.choice((SLOWEST, FASTEST, NEWEST, idle(rng.choice((1, 10, 45)), tick), wall(tick)))


def scenarios(seed: int, count: int) -> tuple[LagScenario, ...]:
    """Random ones of all kinds; most of them share lags and clocks with others, as a family does."""
    rng = random.Random(seed)
    few_lags, few_policies = [lags(rng) for _ in range(4)], [policies(rng) for _ in range(6)]
    return tuple(
        LagScenario(
            policy=rng.choice(few_policies),
            lag=rng.choice(few_lags),
            before=rng.choice((None, None, seconds(10))),
            after=rng.choice((None, None, seconds(0), seconds(15), seconds(70))),
            grace=rng.choice((None, None, seconds(0), seconds(30))),
            out_of_orderness=rng.choice((None, None, seconds(0), seconds(20))),
            interval=rng.choice((None, None, seconds(60))),
        )
        for _ in range(count)
    )
