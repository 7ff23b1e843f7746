"""Lost commits of a landing table are noticed before anything is landed, joined, verified or reconciled.

A label in a lost commit would look like one that never came, and its row would be published as a negative.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.broken.damage import cut_lines, empty_commit, lose_commit, newest_commit
from support.copies import copied
from support.product import world_at
from support.side_by_side import Killed
from support.small_pipeline import PIPELINE, at, delete, event, made
from support.world import World
from windrow.columns import ROW_ID
from windrow.io.delta import crash_points
from windrow.io.delta.damage import TableDamaged
from windrow.io.landing.batches import CommitsLost
from windrow.io.registers import clocks
from windrow.io.registers.plans import Request
from windrow.jobs.audit import verify
from windrow.jobs.audit.intact import require_intact
from windrow.jobs.audit.reconcile import reconcile_range
from windrow.jobs.landing.replay import replay
from windrow.jobs.run import Context
from windrow.outcomes import exit_code
from windrow.places import Places

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "the newest commit is deleted": lambda table: newest_commit(table).unlink(),
    "the newest commit is deleted with its sums": lose_commit,
    "the newest commit is empty": empty_commit,
    "the newest commit lacks its last line": cut_lines,
    "the folder is gone": shutil.rmtree,
}


def published_then_landed(world: World) -> Context:
    """Batch 1 of both topics is published, batch 2 is only landed; the label of the row `late` is in it."""
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("served", 0, 130, key=2, name="late"), event("served", 0, 20, key=1, name="early")])
    world.produce([event("served", 0, 300), event("likes", 0, 300, key=9)])
    world.land(ctx)
    world.train(ctx)
    world.produce([event("likes", 0, 200, key=2), event("served", 0, 600), event("likes", 0, 600, key=9)])
    return ctx


@pytest.fixture(scope="module")
def landed(broker: object, spark: object, session_places: Places, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A home with both batches, made once; tests copy it."""
    world = world_at(session_places, tmp_path_factory.mktemp("landed"), "lost")
    world.land(published_then_landed(world))
    return world


@pytest.fixture
def mine(landed: World, places: Places) -> World:
    """That home, with tables of this test's own."""
    copied(landed.places.home, places)
    return replace(landed, places=places)


def states(world: World, ctx: Context) -> dict[str, str]:
    return {row["id"]: row["label_state"] for row in world.training(ctx)}


def test_a_lost_commit_stops_every_reader_until_it_is_restored(mine: World) -> None:
    world, ctx = mine, mine.pipeline(PIPELINE, now=at(10_000))
    before = clocks.observe(ctx.home)
    register = world.register(ctx)
    assert register, "the first interval is published"
    table = Path(ctx.home.landing(f"{world.name}.likes"))
    kept = table.with_name("kept")

    readers: dict[str, Callable[[], object]] = {
        "land": lambda: world.land(ctx),
        "train": lambda: world.train(ctx, run="damaged"),
        "reconcile": lambda: reconcile_range(ctx, at(0), at(60)),
        "verify": lambda: list(verify.verify(ctx, register)),  # at the pins of the first landing
    }
    for damage, act in DAMAGES.items():
        shutil.copytree(table, kept)
        act(table)
        for name, read in readers.items():
            with pytest.raises(
                (CommitsLost, TableDamaged), match=r"holds batches up to|is empty|is missing|was cut"
            ) as refused:
                read()
            assert str(table) in str(refused.value), f"{damage}: {name}"
            assert exit_code(refused.value) == 70
        assert world.register(ctx) == register, damage
        shutil.rmtree(table, ignore_errors=True)
        kept.rename(table)

    assert world.land(ctx).pins == before.pins
    world.train(ctx, run="restored")
    assert (states(world, ctx)["late"], states(world, ctx)["early"]) == ("positive", "negative")


def test_lost_batches_are_landed_again_as_they_were(mine: World) -> None:
    world, ctx = mine, mine.pipeline(PIPELINE, now=at(10_000))
    clock = clocks.observe(ctx.home)
    topic = f"{world.name}.likes"
    table, landed = Path(ctx.home.landing(topic)), world.table(ctx, f"landing/{topic}")
    for damage, lost in (("the newest commit is deleted with its sums", [2]), ("the folder is gone", [1, 2])):
        DAMAGES[damage](table)
        again = replay(ctx, Request("the disk was full", "ann"))
        assert [(one.topic, one.batch, one.gaps) for one in again] == [(topic, batch, ()) for batch in lost]
        assert all(one.rows == one.before for one in again)
        assert by_id(world.table(ctx, f"landing/{topic}")) == by_id(landed)
    assert replay(ctx, Request("again", "ann")) == []
    assert world.land(ctx).pins == clock.pins
    assert all(outcome.is_same for outcome in verify.verify(ctx, world.register(ctx)))
    world.train(ctx)
    assert states(world, ctx)["late"] == "positive"


def test_what_kafka_has_no_more_of_a_lost_batch_becomes_a_gap(world: World) -> None:
    ctx = published_then_landed(world)
    clock = world.land(ctx)
    shutil.rmtree(ctx.home.landing(f"{world.name}.likes"))
    delete(world, "likes", 2)
    first, second = replay(ctx, Request("the disk was lost", "ann"))
    assert [(one.batch, one.rows, one.before) for one in (first, second)] == [(1, 0, 1), (2, 1, 2)]
    assert [(lost.start, lost.until) for one in (first, second) for lost in one.gaps] == [(0, 1), (1, 2)]
    after = world.land(ctx)
    assert (after.pins, after.watermark) == (clock.pins, clock.watermark)
    assert {(gap.who, gap.why) for gap in after.gaps} == {("ann", "the disk was lost")}
    world.train(ctx)
    assert states(world, ctx)["late"] == "unknown", "its label is gone, and it is no negative"


@pytest.mark.parametrize("survived", [0, 1], ids=["killed behind its first batch", "killed behind its last batch"])
def test_a_killed_replay_has_its_gaps_on_record_and_the_next_one_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, survived: int
) -> None:
    ctx = published_then_landed(world)
    clock = world.land(ctx)
    shutil.rmtree(ctx.home.landing(f"{world.name}.likes"))
    delete(world, "likes", 2)
    points: list[str] = []

    def die(name: str) -> None:
        points.append(name)
        if points.count("land.after_commit") > survived:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(crash_points, "point", die)
        with pytest.raises(Killed):
            replay(ctx, Request("the disk was lost", "ann"))
    lost = {(gap.lost.start, gap.lost.until) for gap in clocks.observe(ctx.home).gaps}
    assert lost == {(0, 1), (1, 2)}, "before anything is landed again"

    again = replay(ctx, Request("the disk was lost", "ann"))
    assert [one.batch for one in again] == [2][survived:], "what was landed already is not landed again"
    seen = clocks.observe(ctx.home)
    assert {(gap.lost.start, gap.lost.until) for gap in seen.gaps} == lost
    (row,) = seen.of_topic(f"{world.name}.likes")
    assert (row["read"], row["landed"]) == (1, 1), "as the table has them"
    require_intact(ctx.home)

    assert replay(ctx, Request("once more", "ann")) == []
    assert clocks.observe(ctx.home).number == seen.number, "where no batch is lost, nothing happens"
    after = world.land(ctx)
    assert (after.pins, after.watermark) == (clock.pins, clock.watermark)
    world.train(ctx)
    assert states(world, ctx)["late"] == "unknown", "its label is gone, and it is no negative"


def by_id(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: str([row[name] for name in ROW_ID]))
