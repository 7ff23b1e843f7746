"""Faults may delay rows and must change none: kills at every named point, lost control state, many writers."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.broken.faults import FIRST, Reader, check_against_oracle, prepared
from support.generated import START
from support.world import World, content
from windrow.home import Table
from windrow.io.delta import crash_points, store
from windrow.io.registers import plans
from windrow.jobs.check import check
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.publish import publish
from windrow.jobs.train import train_one
from windrow.outcomes import ExitCode, exit_code

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1500)]


@pytest.mark.both_roots(long=True)
def test_a_kill_at_every_named_point_changes_nothing(warm_engine: World) -> None:
    """Each step is killed at each of its points in turn and started again; the result is that of a run without kills.

    Killed in the engine, where Spark may go on with what another thread has asked for. The last start of each step is
    in this process, which has Spark already.
    """
    world = warm_engine
    ctx, _ = prepared(world, seed=11)
    name, run = ctx.pipeline.name, ("--run", "killed")
    steps: dict[str, tuple[tuple[str, ...], Callable[[], object]]] = {
        "land": ((), lambda: world.land(ctx)),
        "join": (
            (*run, "--interval", FIRST, "--along", "24"),
            lambda: make_candidates(ctx, plan_interval(ctx, "killed", START, "publish", along=24)),
        ),
        "check": (run, lambda: check(ctx, planned)),
        "publish": (run, lambda: publish(ctx, planned)),
    }
    killed = []
    reader = Reader(world.places.table(name, "training"))
    with reader.reading():
        for job, (arguments, finish) in steps.items():
            for point in (p for p in crash_points.POINTS if p.startswith(f"{job}.")):
                done = world.warm(job, name, *arguments, CRASH_AT=point)
                assert done.returncode == -signal.SIGKILL, (point, done.stdout[-500:], done.stderr[-2000:])
                killed.append(point)
                if point == "join.planned":
                    planned = plans.of_run(ctx.home, "killed")
            finish()
    assert tuple(killed) == crash_points.POINTS
    assert plans.of_run(ctx.home, "killed") == planned  # every retry carried out the same plans
    for topic in ("served", "engagements"):
        rows = world.table(ctx, f"landing/{world.name}.{topic}")
        assert len({(r["_epoch"], r["_partition"], r["_offset"]) for r in rows}) == len(rows)
    reader.saw_whole_intervals(world.register(ctx))
    assert publish(ctx, planned) == world.register(ctx)  # a task that was killed after all its work was done
    check_against_oracle(world, ctx)


@pytest.mark.both_roots(long=True)
def test_a_lost_clock_and_a_lost_register_are_made_again_from_the_commits(world: World) -> None:
    ctx, _ = prepared(world, seed=12)
    seen = world.land(ctx)
    world.train(ctx)
    before, published = content(world.training(ctx)), world.register(ctx)
    store.remove_all(ctx.home.table(Table.CLOCK))
    store.remove_all(ctx.home.table(Table.PUBLICATIONS))

    again = world.land(ctx)
    assert again.pins == seen.pins
    assert list(again.clocks) == list(seen.clocks)
    world.train(ctx, run="after")  # finds every commit of the training table; publishes nothing twice
    kept = [{k: v for k, v in row.items() if k != "published_at"} for row in world.register(ctx)][: len(published)]
    assert kept == [{k: v for k, v in row.items() if k != "published_at"} for row in published]
    assert content(world.training(ctx)) == before


@pytest.mark.both_roots(long=True)
def test_many_writers_at_once_land_and_publish_each_row_once(warm_engine: World) -> None:
    """Two landers, then a scheduled run, a cleared one and a person's command on the same interval, all at once.

    Each is a process; those of the engine share its Spark, and the lander and command of this process have another.
    """
    world = warm_engine
    ctx, _ = prepared(world, seed=13)
    name = ctx.pipeline.name
    with ThreadPoolExecutor(3) as pool:
        other = pool.submit(world.warm, "land", name)
        world.land(ctx)
        assert other.result().returncode == ExitCode.DONE, other.result().stderr[-1500:]

        errors: list[str] = []

        def step_by_step(run: str, mode: str) -> int:
            done = world.warm("join", name, "--run", run, "--interval", FIRST, "--mode", mode)
            for job in ("check", "publish"):
                done = world.warm(job, name, "--run", run) if done.returncode == ExitCode.DONE else done
            errors.append(done.stderr[-3000:])
            return done.returncode

        def in_one_process() -> int:
            try:
                train_one(ctx, "command", START, "republish")
            except Exception as error:
                return exit_code(error)
            return ExitCode.DONE

        runs = [pool.submit(step_by_step, *run) for run in (("scheduled", "publish"), ("cleared", "republish"))]
        ends = [one.result() for one in (*runs, pool.submit(in_one_process))]
    assert set(ends) <= {ExitCode.DONE, ExitCode.NOTHING_TO_DO, ExitCode.ANOTHER_WRITER}, (ends, errors)
    assert ExitCode.DONE in ends
    world.train(ctx, run="rest")
    check_against_oracle(world, ctx)
