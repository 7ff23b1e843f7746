"""Canaries through real topics: sent, landed, joined, counted and kept out, and missed where one does not arrive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.small_pipeline import PIPELINE, at, event, made
from support.world import World
from windrow.cli import listings
from windrow.io.ledger import table as ledger_table
from windrow.jobs import canary, ledger
from windrow.jobs.audit.verify import chosen, verify
from windrow.jobs.explain.answer import explain
from windrow.jobs.explain.question import Question
from windrow.jobs.run import BadRequest, Context
from windrow.simulate import producer
from windrow_airflow.pages import overview

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PROBED = PIPELINE + "canary: {keys: {k: [900, 999]}, every: 1m, delays: [1s, 1m]}\n"


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> set[float]:
    """Seconds of records that the broker acknowledges and loses, as after an unclean election of a leader."""
    lost: set[float] = set()
    really = producer.produce

    def produce(bootstrap: str, messages: Any, **more: Any) -> Any:
        (message,) = messages
        if message.timestamp_ms / 1000 - at(0).timestamp() not in lost:
            return really(bootstrap, [message], **more)
        return producer.Produced({}, {(message.topic, message.partition): 2}, 0)

    monkeypatch.setattr(canary.producer, "produce", produce)
    return lost


def look(ctx: Context, seconds: float) -> list[tuple[str, float | None]]:
    """What is sent at this time, by one look."""
    (rows,) = canary.feed(replace(ctx, now=lambda: at(seconds)))
    return [(row["stream"], row["delay_s"]) for row in rows]


def test_pairs_are_measured_at_the_join_and_never_published(
    world: World, forgetful: set[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ctx = made(world, PROBED, {"served": 1, "likes": 1}, now=410)
    forgetful.add(71.5)
    assert look(ctx, 5) == [("served", None)]
    assert look(ctx, 6.5) == [("likes", 1.0)]
    assert look(ctx, 6.6) == []
    world.produce([event("served", 0, 6), event("likes", 0, 10)])
    assert look(ctx, 70) == [("served", None), ("likes", 60.0)]
    assert look(ctx, 71.5) == [("likes", 1.0)]  # acknowledged, and lost
    world.produce([event("likes", 0, 72, key=901), event("served", 0, 75, key=3)])
    world.produce([event("served", 0, 400, key=2), event("likes", 0, 400, key=2)])
    seen = world.land(ctx)
    assert {(clock.newest_at, clock.lag) for clock in seen.clocks} == {(at(400), 0)}
    world.train(ctx)

    assert [(row["k"], [m["k"] for m in row["likes"]]) for row in world.training(ctx)] == [(1, [1]), (3, [])]
    first, second, *others = world.register(ctx)
    names = ("rows", "left_landed", "left_canary", "canary_pairs", "canary_matched", "canary_delay_s", "verdict")
    assert [first[name] for name in names] == [1, 2, 1, 2, 2, 403.5, "passed"]
    assert [second[name] for name in names] == [1, 2, 1, 1, 0, None, "warned"]
    assert second["why"] == "canary recall of likes 0 % < 100 %"
    assert [row["canary_pairs"] for row in others] == [0] * len(others)

    (pair,) = canary.lost(ctx)
    assert (pair["served_at"], pair["delay_s"]) == (at(70), 1.0)
    assert pair["row"] == f"{world.name}.served/0/2: landed"
    assert pair["label"] == f"{world.name}.likes/0/2: not landed"
    assert canary.lost(ctx, first["interval"]) == []

    monkeypatch.setattr(listings, "context", lambda name, **_: ctx)
    listings.publications_("small")
    shown = capsys.readouterr().out
    assert "2 of 2, 6m 43s" in shown
    assert "0 of 1" in shown
    page = overview.pipeline_page("small", world.places)
    assert "2 of 3 pairs arrived (recall" in page
    assert "windrow canary small --lost --interval" in page

    answer = explain(ctx, Question(f"{world.name}.served/0/0"))
    assert answer["outcome"] == "canary"
    assert "its k is from 900 to 999, which the pipeline file keeps for canaries" in answer["why"]
    assert [len(answer["streams"]["likes"]["matched"]), answer["agrees"]] == [2, True]

    world.produce([event("served", 0, 20, key=901), event("likes", 0, 21, key=901), event("likes", 0, 20, key=900)])
    world.land(ctx)
    ledger.extend(ctx)
    assert ledger_table.lines(ctx.home, columns=("kind",)).height == 0
    assert all(one.is_same for one in verify(ctx, chosen(ctx, number=1)))


def test_a_pipeline_without_a_range_sends_nothing(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    with pytest.raises(BadRequest, match="small keeps no keys for canaries"):
        next(canary.feed(ctx))
