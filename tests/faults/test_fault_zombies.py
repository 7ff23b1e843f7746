"""A first attempt stops before its commit, a second finishes, the first wakes: it cannot commit any more.

    first    plan ─ join ─ check ─ publish … SIGSTOP ··············································· SIGCONT ─ refused
    second   plan ─ join ─ check ─ publish ─ lock ─ SIGSTOP ············· SIGCONT ─ commit ─ done
    third    plan ─ join ─ check ─ publish ─ waits for the lock, names its holder ··········· refused

A refused attempt ends with exit code 40. One that sleeps while it holds the lock is waited for; awake, it commits.
"""

from __future__ import annotations

import subprocess
from concurrent.futures import Future, ThreadPoolExecutor

import psutil
import pytest

from support.broken.faults import LANDED_AT, asleep, landed_history, prepared, until
from support.generated import INTERVAL, START
from support.oracle import expected, expected_rows, found_rows
from support.world import World
from windrow.home import Table
from windrow.io.delta.locks import Locked, held
from windrow.io.registers import publications
from windrow.jobs.check import check
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.publish import publish
from windrow.jobs.run import Context
from windrow.jobs.train import train_one
from windrow.outcomes import ExitCode
from windrow.semantics.plan import Plan
from windrow.semantics.publication import Superseded

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def checked(ctx: Context, run: str) -> tuple[Plan, ...]:
    """Return a new plan of the first interval, joined and judged but not published."""
    planned = plan_interval(ctx, run, START, "republish", along=1)
    make_candidates(ctx, planned)
    assert check(ctx, planned) == {}
    return planned


def stands(ctx: Context) -> tuple[int, str]:
    row = publications.published(ctx.home, START)
    assert row is not None
    return row["number"], row["run"]


@pytest.mark.both_roots(long=True)
def test_a_zombie_cannot_commit_and_one_inside_the_lock_is_waited_for(
    warm_engine: World, capfd: pytest.CaptureFixture[str]
) -> None:
    world = warm_engine
    ctx, _ = prepared(world, seed=15)
    world.land(ctx)
    train_one(ctx, "zeroth", START, "publish")
    planned = {run: checked(ctx, run) for run in ("first", "second", "third")}
    with ThreadPoolExecutor(3) as pool:

        def publishing(run: str, point: str) -> Future[subprocess.CompletedProcess[str]]:
            job = ("publish", ctx.pipeline.name, "--run", run)
            return pool.submit(world.warm, *job, PAUSE_AT=point)

        first = publishing("first", "publish.before_lock")
        with asleep() as zombie:
            second = publishing("second", "publish.before_commit")
            with asleep(besides=zombie) as holder:
                third = pool.submit(publish, ctx, planned["third"])
                waits_and_says_for_whom(ctx, holder, capfd)
                assert stands(ctx) == (1, "zeroth")
            assert second.result().returncode == ExitCode.DONE, second.result().stderr[-2000:]
            with pytest.raises(Superseded, match="has publication 2"):
                third.result()
            assert stands(ctx) == (2, "second")
        woken = first.result()
    assert woken.returncode == ExitCode.ANOTHER_WRITER, woken.stderr[-2000:]
    assert "has publication 2" in woken.stderr
    assert "Nothing was written" in woken.stderr

    register = world.register(ctx)
    assert [(row["number"], row["run"]) for row in register] == [(1, "zeroth"), (2, "second")]
    joined = expected(landed_history(world, ctx), LANDED_AT, START + INTERVAL)
    assert found_rows(world.training(ctx), world) == expected_rows(joined)
    assert {row["_publication"] for row in world.training(ctx)} == {2}


def waits_and_says_for_whom(ctx: Context, holder: psutil.Process, capfd: pytest.CaptureFixture[str]) -> None:
    """A publisher waits for the lock and names its holder; one without time to wait ends."""
    errors: list[str] = []

    def is_reported() -> bool:
        errors.append(capfd.readouterr().err)
        return f"waiting for training, held by pid {holder.pid}" in "".join(errors)

    until(is_reported, "the third to say for whom it waits")
    lock = ctx.home.lock(Table.TRAINING)
    with pytest.raises(Locked, match=f"held by pid {holder.pid}"), held(lock, wait_seconds=0.1):
        pass
