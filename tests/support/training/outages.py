"""Traffic on paper whose truth is known, and outages of its label side: the platform publishes what it can know.

    served rows ──▶ each has a label with probability `rate`, at a random time in its window (the truth)
    beats       ──▶ labels of nobody, at every landing and at the ends of the outage: how far the label side was heard
                    does not depend on who has a label
    outage      ──▶ what happens in it arrives after it (`held`), or never, which leaves a gap (`lost`)

Every five minutes: land, close, publish; so rows are published in the middle of the outage.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from windrow.semantics.clock import IdlePolicy
from windrow.semantics.paper.landings import Rules, Sent
from windrow.semantics.paper.model import Model
from windrow.semantics.records import JoinSpec, Left, Right, RowId

START = datetime(2026, 11, 1, tzinfo=UTC)
MINUTE, MICROSECOND = timedelta(minutes=1), timedelta(microseconds=1)
STEP = 5 * MINUTE
"""Length of an interval, and the time between two landings."""
WINDOW = 20 * MINUTE
LENGTH = 60 * MINUTE
"""Served times of the traffic."""

RULES = Rules(
    JoinSpec(Left("served", ("served",), ("key",)), (Right("labels", ("labels",), ("key",), WINDOW),), START, STEP),
    {"served": 1, "labels": 1},
    dict.fromkeys(("served", "labels"), timedelta(0)),
    IdlePolicy("caught_up", MINUTE),
)


@dataclass(frozen=True)
class Outage:
    """From minute `start` on, for `minutes`, what happens on the label side is held back or lost."""

    kind: Literal["held", "lost"]
    start: int
    minutes: int

    @property
    def begins_at(self) -> datetime:
        return START + self.start * MINUTE

    @property
    def ends_at(self) -> datetime:
        return self.begins_at + self.minutes * MINUTE

    def covers(self, at: datetime) -> bool:
        """Whether an event of this time is in the outage."""
        return self.begins_at <= at < self.ends_at


@dataclass(frozen=True)
class Lived:
    """A pipeline's life, and for each row whether it truly has a label in its window."""

    model: Model
    truth: dict[RowId, bool]

    @property
    def intervals(self) -> int:
        return len(self.model.publications)


def lived(outage: Outage, *, rows: int, served: int = 0, labelled: int = 0, rate: float = 0.5) -> Lived:
    """Live through an outage.

    Args:
        served: seed of the served times.
        labelled: seed of who has a label, and when.
    """
    times, chance = random.Random(served), random.Random(labelled)
    model, truth = Model(RULES), dict[RowId, bool]()
    steps = [START + n * STEP for n in range(1, (LENGTH + WINDOW) // STEP + 2)]
    at_of = sorted(START + _up_to(times, LENGTH) for _ in range(rows))
    delays = [_up_to(chance, WINDOW) if chance.random() < rate else None for _ in at_of]
    labels = [(at + delay, f"k{n}") for n, (at, delay) in enumerate(zip(at_of, delays, strict=True)) if delay]
    ends = (outage.begins_at, outage.ends_at)
    labels += [(at, "beat") for at in (*steps, *ends, *(end - MICROSECOND for end in ends))]
    waiting_rows = [(at, f"k{n}", delays[n] is not None) for n, at in reversed(list(enumerate(at_of)))]
    waiting_labels = sorted(((_arrives_at(at, outage), at, key) for at, key in labels), reverse=True)
    for now in steps:
        while waiting_rows and waiting_rows[-1][0] <= now:
            at, key, has_label = waiting_rows.pop()
            truth[model.produce(("served", 0), Sent(at, {"key": key, "id": f"row {key}"}, at))] = has_label
        while waiting_labels and waiting_labels[-1][0] <= now:
            _, at, key = waiting_labels.pop()
            is_lost = outage.kind == "lost" and outage.covers(at)
            model.produce(("labels", 0), Sent(at, {"key": key}, at, is_lost=is_lost))
        model.land(now)
        model.publish_all(model.plan(f"at {now}"))
    return Lived(model, truth)


def _up_to(chance: random.Random, length: timedelta) -> timedelta:
    """A random duration, at least a microsecond and at most `length`."""
    return timedelta(microseconds=chance.randint(1, length // MICROSECOND))


def _arrives_at(at: datetime, outage: Outage) -> datetime:
    return outage.ends_at if outage.kind == "held" and outage.covers(at) else at
