"""A pipeline on paper with two label streams and a feature stream, each with a window and silences of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from support.training.outages import MINUTE, START
from windrow.semantics.clock import IdlePolicy
from windrow.semantics.paper.landings import Rules, Sent
from windrow.semantics.paper.model import Model
from windrow.semantics.records import JoinSpec, Left, Right

STEP = 10 * MINUTE
STEPS, SERVED = range(30), range(18)
SILENT = {"likes": range(12, 24), "buys": range(10, 24)}
"""Steps in which a label stream is silent: buys first, so that rows are heard for likes and not for buys."""


def likes_and_buys(
    seed: int, *, join: Literal["left", "inner"] = "left", silence: Literal["unknown", "negative"] = "unknown"
) -> Model:
    """Likes come within 15 minutes, buys within 60; one label in fifteen cannot be read.

    Args:
        join: of the likes.
        silence: of the buys.
    """
    streams = (
        Right("likes", ("likes",), ("key",), 15 * MINUTE, MINUTE, join=join),
        Right("buys", ("buys",), ("key",), 60 * MINUTE, silence=silence, take="first"),
        Right("features", ("features",), ("key",), 5 * MINUTE, role="feature"),
    )
    spec = JoinSpec(Left("served", ("served",), ("key",)), streams, START, STEP)
    topics = ("served", "likes", "buys", "features")
    rules = Rules(spec, dict.fromkeys(topics, 1), dict.fromkeys(topics, MINUTE), IdlePolicy("caught_up", MINUTE))
    model = Model(rules)
    for now, events in _traffic(random.Random(seed)):
        for topic, at, key in events:
            defect = "wrong_type" if topic in SILENT and at.microsecond % 15 == 0 else None
            model.produce((topic, 0), Sent(at, {"key": key}, at, defect))
        model.land(now)
        model.publish_all(model.plan(f"at {now}"))
    return model


def _traffic(chance: random.Random) -> Iterator[tuple[datetime, list[tuple[str, datetime, str]]]]:
    """Yield the time of each landing, and what is produced before it: topic, event time and key."""
    for step in STEPS:
        begin, events = START + step * STEP, []
        for _ in range(6 if step in SERVED else 0):
            key, at = chance.choice("abcd"), begin + chance.random() * STEP
            events += [("served", at, key), ("features", at, key)]
        for topic, silent in SILENT.items():
            count = 0 if step in silent else 5
            events += [(topic, begin + chance.random() * STEP, chance.choice("abcdz")) for _ in range(count)]
        yield begin + STEP, sorted(events, key=lambda event: event[1])
