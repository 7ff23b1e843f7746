"""Four hours of the example pipeline `feed` on paper: sessions that see an item several times, clicks, one outage.

    00:00            01:30      02:00                  04:00
      ├────────────────┼──────────┼──────────────────────┤      served times
                       └ clicks ──┘ are held back; the platform publishes in the meantime

Written by the platform's own commit (`table`), so that readers have a table without broker and Spark.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from support.copies import Tables, put_tables, tables_of
from support.training.outages import MICROSECOND, MINUTE, START, Outage
from support.training.table import Writer, empty_places
from windrow.config import load
from windrow.home import Home
from windrow.io.registers import clocks
from windrow.places import PROJECT, Places
from windrow.semantics.clock import IdlePolicy
from windrow.semantics.landing.gaps import AcceptedGap, Lost, gaps_text
from windrow.semantics.paper.landings import Rules, Sent
from windrow.semantics.paper.model import Model, Publication
from windrow.semantics.records import JoinSpec, Left, Right
from windrow.semantics.reference import event_clocks

FILE = PROJECT / "dags" / "pipelines" / "feed.yaml"
LENGTH, INTERVAL, WINDOW = 240 * MINUTE, 10 * MINUTE, 30 * MINUTE
OUTAGE = Outage("held", 90, 30)
SERVED, ENGAGEMENTS, KEY = "feed.served", "feed.engagements", ("user_id", "item_id")


def is_click(values: Mapping[str, Any]) -> bool | None:
    """`action = 'click'`."""
    return None if values.get("action") is None else values["action"] == "click"


CLICKS = Right("clicks", (ENGAGEMENTS,), KEY, WINDOW, event_id="event_id", where=is_click)
RULES = Rules(
    JoinSpec(Left("served", (SERVED,), KEY, "request_id"), (CLICKS,), START, INTERVAL, MINUTE, 10 * MINUTE),
    {SERVED: 2, ENGAGEMENTS: 1},
    {SERVED: MINUTE / 2, ENGAGEMENTS: MINUTE},
    IdlePolicy("caught_up", 5 * MINUTE),
)


CLICKED = {"clicked": lambda row: bool(row.matches["clicks"])}
"""The derived label of the pipeline."""


def feed_home(places: Places) -> Home:
    """The home of the pipeline `feed`, with what `life` has published. Its tables are copies (`copies`)."""
    put_tables(_published(), places)
    return _home(places)


def _home(places: Places) -> Home:
    return Home(load(FILE, places.expectations), replace(places, pipelines=(FILE.parent,)))


@cache
def _published() -> Tables:
    """What `life` has published, written once in this process."""
    with tempfile.TemporaryDirectory() as folder:
        home = _home(empty_places(Path(folder) / "feed"))
        Writer(home, CLICKED).publish_all(life().publications)
        return tables_of(home.places)


def own_life() -> Model:
    """A copy of `life` for a test that goes on with it."""
    return deepcopy(life())


@cache
def life(sessions: int = 400) -> Model:
    """The pipeline's life: every ten minutes it lands, closes and publishes. Tests share it, and only read it."""
    model = Model(RULES)
    waiting = sorted(_events(random.Random(1), sessions), key=lambda event: event[0], reverse=True)
    for step in range(1, (LENGTH + 2 * WINDOW) // INTERVAL + 3):
        now = START + step * INTERVAL
        while waiting and waiting[-1][0] <= now:
            _, topic, partition, sent = waiting.pop()
            model.produce((topic, partition), sent)
        model.land(now)
        model.publish_all(model.plan(f"at {now}"))
    return model


def heard(life: Model, one: Publication) -> datetime:
    """Before this instant every click had landed when a publication was planned: its topic has one partition."""
    (clock,) = event_clocks(life.landed, one.plan.pins, {ENGAGEMENTS: timedelta(minutes=1)})[ENGAGEMENTS]
    assert clock is not None
    return clock


def _events(chance: random.Random, sessions: int) -> Iterator[tuple[datetime, str, int, Sent]]:
    """Yield arrival, topic, partition and record of every event."""
    for n in range(0, (LENGTH + 2 * WINDOW) // MINUTE, 4):  # somebody is always looking: the label side is heard
        yield _engagement(START + n * MINUTE, "view", 0, 0, f"v{n}")
    for n in range(sessions):
        user, item = chance.randint(1, 60), chance.randint(1, 12)
        at = START + _up_to(chance, LENGTH - WINDOW)
        for k in range(chance.randint(1, 4)):
            at += _up_to(chance, WINDOW / 20)
            values = {"request_id": f"r{n}.{k}", "user_id": user, "item_id": item, "features": [chance.random(), 1.0]}
            yield at, SERVED, user % 2, Sent(at, values, at)
        if chance.random() < 0.15 + 0.02 * item:
            delay = timedelta(minutes=-8 * math.log(1 - chance.random()))
            yield _engagement(at + delay - delay % MICROSECOND, "click", user, item, f"c{n}")


def _engagement(at: datetime, action: str, user: int, item: int, event_id: str) -> tuple[datetime, str, int, Sent]:
    values = {"event_id": event_id, "user_id": user, "item_id": item, "action": action}
    return OUTAGE.ends_at if OUTAGE.covers(at) else at, ENGAGEMENTS, 0, Sent(at, values, at)


def _up_to(chance: random.Random, length: timedelta) -> timedelta:
    """A random duration, at least a microsecond and at most `length`."""
    return timedelta(microseconds=chance.randint(1, length // MICROSECOND))


def landed_until(home: Home, at: datetime) -> None:
    """Record a landing by which the newest event of every topic is at an instant, with a gap in the served rows."""
    start = home.pipeline.start
    gap = AcceptedGap(Lost("feed.served", 0, 3, 5), 0, 1, start, start, "ann", "retention", start, 2, False, start)
    counts = dict.fromkeys(("read", "landed", "quarantined", "skipped", "unexplained", "before_start"), 4)
    rows = [
        {
            "topic": topic, "topic_id": topic, "epoch": 0, "partition": 0, "batch": 4, "next_offset": 9,
            "end_offset": 12, "newest_at": at, "clock_at": at, "idle": False, "landed_at": at,
            "gap": gaps_text([gap]) if topic == "feed.served" else None, **counts,
        }
        for topic in home.pipeline.topics
    ]  # fmt: skip
    clocks.record(home, clocks.observe(home).number + 1, rows)
