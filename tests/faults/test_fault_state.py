"""Control state that is lost or reset is noticed: nothing is published from it, and published rows stay."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from support.broken.faults import prepared
from support.generated import START
from support.world import World
from windrow.io.registers import clocks, measures, publications
from windrow.io.training.candidates import CandidatesGone
from windrow.jobs.check import check
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.publish import publish
from windrow.jobs.run import BadRequest, Context
from windrow.jobs.train import train_one
from windrow.outcomes import ExitCode
from windrow.semantics.balance import BalanceBroken
from windrow.semantics.plan import Plan

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_lost_or_reset_control_state_is_noticed_and_nothing_is_published_from_it(world: World) -> None:
    ctx, _ = prepared(world, seed=17)
    world.land(ctx)
    train_one(ctx, "first", START, "publish")
    planned = plan_interval(ctx, "again", START, "republish", along=1)
    make_candidates(ctx, planned)
    before = world.training(ctx)
    lost_plans(world, ctx)
    lost_measures_are_made_again(ctx, planned)
    lost_verdicts(ctx, planned)
    lost_candidates(ctx, planned)
    training_behind_its_register(ctx, planned)
    assert world.training(ctx) == before
    reset_clock(world, ctx)
    reset_register(ctx)
    publish(ctx, planned)
    assert [row["number"] for row in world.register(ctx)] == [1, 2]
    assert publish(ctx, planned) == world.register(ctx)[1:]  # again: there is nothing to do, which is no failure


def lost_plans(world: World, ctx: Context) -> None:
    with without(ctx, "plans"):
        done = world.script("publish", ctx.pipeline.name, "--run", "again")
    assert done.returncode == ExitCode.BAD_INPUT
    assert "has recorded no plan" in done.stderr


def lost_measures_are_made_again(ctx: Context, planned: tuple[Plan, ...]) -> None:
    """The gate passes no candidate without measures; a retry of the join measures the candidate that is there."""
    with without(ctx, "measures"):
        assert list(check(ctx, planned)) == [planned[0].id]
        make_candidates(ctx, planned)
        assert measures.are_recorded(ctx.home, planned)
        assert check(ctx, planned) == {}
    assert check(ctx, planned) == {}


def lost_verdicts(ctx: Context, planned: tuple[Plan, ...]) -> None:
    with without(ctx, "quality"), pytest.raises(BadRequest, match="has not been judged"):
        publish(ctx, planned)


def lost_candidates(ctx: Context, planned: tuple[Plan, ...]) -> None:
    """An interval is never published empty because its candidate is gone."""
    with without(ctx, "candidates"), pytest.raises(CandidatesGone, match="clear the run"):
        publish(ctx, planned)
    with without(ctx, "candidates", leave=True):
        DeltaTable(path_of(ctx, "candidates")).delete()
        with pytest.raises(BalanceBroken, match="0 rows staged"):
            publish(ctx, planned)


def training_behind_its_register(ctx: Context, planned: tuple[Plan, ...]) -> None:
    """A training table that is lost, or copied without its transactions, is neither written nor created again."""
    path = path_of(ctx, "training")
    with without(ctx, "training"):
        with pytest.raises(publications.TrainingBehind, match="knows of publication 0, its register of 1"):
            publish(ctx, planned)
        assert not Path(path).exists()
    with without(ctx, "training", leave=True):
        reset(path, partition_by=["_date"])
        for act in (lambda: publish(ctx, planned), lambda: publications.repaired(ctx.home)):
            with pytest.raises(publications.TrainingBehind, match="lost, reset or restored"):
                act()
        assert DeltaTable(path).version() == 0


def reset_clock(world: World, ctx: Context) -> None:
    """A clock table copied without its transactions continues after its last observation."""
    seen = clocks.observe(ctx.home)
    reset(path_of(ctx, "clock"))
    assert clocks.observe(ctx.home) == seen
    after = world.land(ctx)
    assert after.number == seen.number + 1
    assert clocks.observe(ctx.home) == after
    assert list(after.clocks) == list(seen.clocks)


def reset_register(ctx: Context) -> None:
    """A register copied without its transactions gets no publication twice."""
    rows = publications.registered(ctx.home)
    reset(path_of(ctx, "publications"))
    assert publications.repaired(ctx.home) == rows


def path_of(ctx: Context, table: str) -> str:
    return ctx.home.table(table)


def reset(path: str, **options: Any) -> None:
    """Write the same rows to a new table, which has no transactions."""
    rows = DeltaTable(path).to_pyarrow_table()
    shutil.rmtree(path)
    write_deltalake(path, rows, **options)


@contextmanager
def without(ctx: Context, table: str, *, leave: bool = False) -> Iterator[None]:
    """Remove a table for the body, or with `leave` keep it to be damaged; restore it afterwards."""
    path = Path(path_of(ctx, table))
    kept = path.with_name(f"{table}.kept")
    shutil.copytree(path, kept)
    if not leave:
        shutil.rmtree(path)
    try:
        yield
    finally:
        shutil.rmtree(path, ignore_errors=True)
        kept.rename(path)
