"""A task dies after its plan is recorded, new rows land, the task is tried again: its rows are those of its pins.

first try   plan ─ SIGKILL                        rows and labels of the same interval land
second try         the recorded plan ─ join ─ check ─ publish        as if nothing had landed
another run        a new plan, with all of it
"""

from __future__ import annotations

import signal

import pytest

from support.broken.faults import FIRST, LANDED_AT, landed_history, prepared
from support.generated import START, history
from support.oracle import expected, expected_rows, found_rows, sent
from support.world import World
from windrow.io.registers import clocks
from windrow.jobs.train import train_one
from windrow.outcomes import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_a_retry_makes_the_rows_of_its_recorded_pins_whatever_has_landed_since(warm_engine: World) -> None:
    world = warm_engine
    ctx, _ = prepared(world, seed=20)
    world.land(ctx)
    job = (ctx.pipeline.name, "--run", "tried twice")
    join = ("join", *job, "--interval", FIRST, "--along", "1")
    killed = world.warm(*join, CRASH_AT="join.planned")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    at_the_pins = expected(landed_history(world, ctx), LANDED_AT, clocks.observe(ctx.home).frontier(ctx.pipeline))
    wanted = expected_rows({START: at_the_pins[START]})

    world.produce(sent(history(21)[:60]))
    world.land(ctx)
    for attempt in (join, ("check", *job), ("publish", *job)):
        done = world.warm(*attempt)
        assert done.returncode == ExitCode.DONE, done.stderr[-2000:]
    assert found_rows(world.training(ctx), world) == wanted

    train_one(ctx, "another", START, "republish")
    assert found_rows(world.training(ctx), world) != wanted
