"""A full disk: in a data file, a commit, a checkpoint, a spill. It fails loudly, and goes on when there is room.

The home folder is a file system of its own; a table's log is moved to another one where only the log is to fail.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.broken.small_disk import full, small_disk
from support.small_pipeline import PIPELINE, at, event, made
from support.world import World
from windrow.home import Table
from windrow.io.delta import tables
from windrow.io.registers import clocks, publications
from windrow.jobs.causes import DiskFull, known_cause
from windrow.jobs.check import check
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.publish import publish
from windrow.outcomes import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]

ROWS, KILOBYTE = 300, 1024
FULL = "No space left on device"


def test_a_full_disk_fails_loudly_and_the_next_try_goes_on(world: World, tmp_path: Path) -> None:
    with small_disk(world.places.home, "64m") as disk, small_disk(tmp_path / "other", "1m") as other:
        ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
        world.produce(event("served", 0, 10 + n / ROWS, key=n, name=_large(n)) for n in range(ROWS))
        world.produce([event("likes", 0, 20, key=7), event("served", 0, 600, key=-1), event("likes", 0, 600, key=-2)])

        # a data file: nothing is on the clock, and nobody sees a part of the batch
        with full(disk, leave=256 * KILOBYTE), pytest.raises(Exception, match=FULL):
            world.land(ctx)
        assert clocks.observe(ctx.home).number == -1
        assert world.land(ctx).number == 0
        _landed_once(world, ctx, served=ROWS + 1, likes=2)

        # the commit of a landing, whose data file has room
        likes = Path(ctx.home.landing(f"{world.name}.likes"))
        _move_log(likes, other)
        before = clocks.observe(ctx.home)
        world.produce([event("likes", 0, 601, key=-2)])
        with full(other), pytest.raises(Exception, match=FULL):
            world.land(ctx)
        assert clocks.observe(ctx.home) == before
        world.land(ctx)
        _landed_once(world, ctx, served=ROWS + 1, likes=3)

        # the checkpoint behind a commit: the writer gets an error, and the log shows that the commit stands
        clock = Path(ctx.home.table(Table.CLOCK))
        _move_log(clock, other)
        _until_a_checkpoint_is_due(world, ctx)
        before = clocks.observe(ctx.home)
        with full(other, leave=8 * KILOBYTE):
            assert world.land(ctx).number == before.number + 1
        assert not list((clock / "_delta_log").glob("*.checkpoint.parquet"))
        assert world.land(ctx).number == before.number + 2

        # a spill: the join's own process has no room for what it shuffles
        run = ("join", ctx.pipeline.name, "--run", "spilled", "--interval", "2026-11-01T00:00:00Z", "--along", "1")
        with full(other):
            spilled = world.script(*run, SPARK_LOCAL_DIRS=str(other))
        assert spilled.returncode == ExitCode.NOT_READY
        assert FULL in spilled.stderr
        assert publications.registered(ctx.home) == []

        # the candidate, then the publication
        planned = plan_interval(ctx, "spilled", at(0), "publish", 1)
        with full(disk, leave=64 * KILOBYTE), pytest.raises(Exception, match=FULL):
            make_candidates(ctx, planned)
        make_candidates(ctx, planned)
        assert check(ctx, planned) == {}
        with full(disk), pytest.raises(OSError, match=FULL):
            publish(ctx, planned)
        assert publications.registered(ctx.home) == []
        assert [row["number"] for row in publish(ctx, planned)] == [1]
        rows = world.training(ctx)
        assert [row["id"] for row in rows] == [_large(n) for n in range(ROWS)]
        assert [row["k"] for row in rows if row["liked"]] == [7]


def test_a_quota_fails_loudly_and_the_next_try_goes_on(world: World, spark: Any) -> None:
    """A limit of file sizes needs no right to mount, and stops data files in the JVM as a full disk does."""
    jvm = psutil.Process(int(spark._jvm.java.lang.ProcessHandle.current().pid()))
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("likes", 0, 20, key=7), event("likes", 0, 600, key=-2)])
    world.land(ctx)  # what the JVM unpacks once is larger than the quota
    world.produce(event("served", 0, 10 + n / ROWS, key=n, name=_large(n)) for n in range(ROWS))
    world.produce([event("served", 0, 600, key=-1)])

    with quota(jvm, 64 * KILOBYTE), pytest.raises(Exception, match="File too large") as refused:
        world.land(ctx)
    assert isinstance(known_cause(refused.value), DiskFull)
    assert clocks.observe(ctx.home).number == 0
    assert world.land(ctx).number == 1
    _landed_once(world, ctx, served=ROWS + 1, likes=2)

    planned = plan_interval(ctx, "again", at(0), "publish", 1)
    with quota(jvm, 64 * KILOBYTE), pytest.raises(Exception, match="File too large"):
        make_candidates(ctx, planned)
    make_candidates(ctx, planned)
    assert check(ctx, planned) == {}
    with quota(psutil.Process(), 1), pytest.raises(OSError, match="File too large"):
        publish(ctx, planned)
    assert publications.registered(ctx.home) == []
    assert [row["number"] for row in publish(ctx, planned)] == [1]
    assert [row["k"] for row in world.training(ctx) if row["liked"]] == [7]


@contextmanager
def quota(process: psutil.Process, size: int) -> Iterator[None]:
    """Let a process write no file beyond this many bytes."""
    before = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        process.rlimit(psutil.RLIMIT_FSIZE, before)


def _large(n: int) -> str:
    """Four kilobytes that do not compress well, the same every time."""
    return "".join(uuid.uuid5(uuid.NAMESPACE_OID, f"{n}/{part}").hex for part in range(128))


def _landed_once(world: World, ctx: Any, **expected: int) -> None:
    for topic, count in expected.items():
        rows = world.table(ctx, f"landing/{world.name}.{topic}")
        assert sorted(row["_offset"] for row in rows) == list(range(count))


def _move_log(table: Path, disk: Path) -> None:
    """Keep the log of a table on another disk."""
    log, moved = table / "_delta_log", disk / table.name
    shutil.move(log, moved)
    log.symlink_to(moved)


def _until_a_checkpoint_is_due(world: World, ctx: Any) -> None:
    while True:
        table = tables.opened(ctx.home.table(Table.CLOCK))
        assert table is not None
        if table.version() % 10 == 8:
            return
        world.land(ctx)
