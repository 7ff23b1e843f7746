"""A larger grace never lowers recall: whoever waits longer publishes at least the same pairs."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from support.scenario import START, WAIT, seconds
from windrow.semantics.paper.landings import Rules, Sent
from windrow.semantics.paper.model import Model
from windrow.semantics.records import JoinSpec, Left, Right, RowId

TOPICS = ("left", "right")


def published_pairs(seed: int, grace: int) -> set[tuple[RowId, RowId | None]]:
    """What runs publish at once when it closes, of a history in which many events are late. Nothing is rebuilt."""
    rng = random.Random(seed)
    labels = Right("labels", ("right",), ("key",), after=seconds(10), before=seconds(2))
    spec = JoinSpec(Left("served", ("left",), ("key",)), (labels,), START, seconds(5), seconds(grace))
    model = Model(Rules(spec, dict.fromkeys(TOPICS, 1), dict.fromkeys(TOPICS, seconds(0)), WAIT))
    for n in range(25):
        for topic in TOPICS:
            for _ in range(rng.randrange(3)):
                at = START + seconds(max(0, 3 * n - rng.choice((0, 0, 1, 5, 20, 40))))
                model.produce((topic, 0), Sent(at, {"key": rng.choice("ab")}, at))
        model.land(START + seconds(100))
        for plan in model.plan(f"run {n}"):
            model.publish(plan)
    for plan in model.plan("the end", drained=True):
        model.publish(plan)
    assert len(model.publications) == len(model.standing)
    pairs: set[tuple[RowId, RowId | None]] = {(row.row_id, None) for row in model.rows}
    return pairs | {(row.row_id, m.row_id) for row in model.rows for m in row.matches["labels"]}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(0, 20), st.integers(1, 40))
def test_a_larger_grace_never_lowers_recall(seed: int, grace: int, more: int) -> None:
    assert published_pairs(seed, grace) <= published_pairs(seed, grace + more)


def test_and_now_and_then_it_raises_recall() -> None:
    raised = [seed for seed in range(20) if published_pairs(seed, 0) < published_pairs(seed, 60)]
    assert len(raised) > 10
