"""Lost commits of a landing table are noticed before anything is landed, joined, verified or reconciled.

A label in a lost commit would look like one that never came, and its row would be published as a negative.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.small_pipeline import PIPELINE, at, event, made
from support.world import World
from windrow.io.delta.tables import LogDamaged
from windrow.io.landing.batches import CommitsLost
from windrow.jobs import verify
from windrow.jobs.reconcile import reconcile_range
from windrow.outcomes import exit_code

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def newest_commit(table: Path) -> Path:
    return max((table / "_delta_log").glob("*.json"))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "the newest commit is deleted": lambda table: newest_commit(table).unlink(),
    "the newest commit is empty": lambda table: newest_commit(table).write_text(""),
    "the folder is gone": shutil.rmtree,
}


def test_a_lost_commit_stops_every_reader_until_it_is_restored(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("served", 0, 130, key=2, name="late"), event("served", 0, 20, key=1, name="early")])
    world.produce([event("served", 0, 300), event("likes", 0, 300, key=9)])
    world.land(ctx)
    world.train(ctx)
    world.produce([event("likes", 0, 200, key=2), event("served", 0, 600), event("likes", 0, 600, key=9)])
    before = world.land(ctx)
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
            if name == "verify" and table.exists():
                continue
            with pytest.raises((CommitsLost, LogDamaged), match=r"holds batches up to|cannot be read") as refused:
                read()
            assert str(table) in str(refused.value), f"{damage}: {name}"
            assert exit_code(refused.value) == 70
        assert world.register(ctx) == register, damage
        shutil.rmtree(table, ignore_errors=True)
        kept.rename(table)

    assert world.land(ctx).pins == before.pins
    world.train(ctx, run="restored")
    states = {row["id"]: row["label_state"] for row in world.training(ctx)}
    assert (states["late"], states["early"]) == ("positive", "negative")
