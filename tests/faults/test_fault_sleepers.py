"""A job sleeps for longer than its lease, just before its commit: what others did meanwhile stands.

publish ─ lock ─ look at register and erasures ─ (sleep) ······························· commit: refused
                                                   another machine takes the lock: publishes, erases
land, join, rollback ─ lock ─ look at erased keys ─ (sleep) ···· erases ················ commit: refused
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.broken.faults import expire
from support.copies import copied
from support.product import world_at
from support.side_by_side import Killed, dying, faults
from support.small_pipeline import PIPELINE, at, event, made
from support.world import World
from windrow.home import Home, Table
from windrow.io.delta import crash_points, leases, tables
from windrow.io.delta.locks import held
from windrow.io.registers import publications, snapshots
from windrow.io.registers.plans import Request
from windrow.io.training import maintenance, publication
from windrow.jobs.audit.intact import require_intact
from windrow.jobs.check import check
from windrow.jobs.erasure.erase import erase
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.publish import publish
from windrow.jobs.run import Context
from windrow.jobs.upkeep.rollback import rollback
from windrow.jobs.upkeep.snapshot import take
from windrow.outcomes import NothingToDo
from windrow.places import Lock, Places
from windrow.semantics.maintenance import RETENTION
from windrow.semantics.plan import Plan
from windrow.semantics.publication import CandidateErased, Superseded

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(600)]


TEXT = PIPELINE + "erase: {by: [k]}\n"


@pytest.fixture(scope="module")
def published(broker: object, spark: object, session_places: Places, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A home in a folder, made once; tests copy it and do without Kafka."""
    world = world_at(session_places, tmp_path_factory.mktemp("published"), "sleepers")
    first_published(world)
    return world


def first_published(world: World) -> Context:
    """A pipeline with closed intervals, of which the first is published."""
    ctx = made(world, TEXT, {"served": 1, "likes": 1})
    world.produce(
        [
            *(event("served", 0, n * 30, key, f"{key}-{n}") for n in range(4) for key in (1, 2)),
            *(event("likes", 0, n * 30 + 1, 1, f"l{n}") for n in range(4)),
            *(event(topic, 0, 600, 9) for topic in ("served", "likes")),
        ]
    )
    world.land(ctx)
    publish(ctx, judged(ctx, "first", 0))
    return ctx


@pytest.fixture
def ctx(world: World, published: World) -> Context:
    """That pipeline, with tables of this test's own."""
    copied(published.places.home, world.places)
    return replace(world, name=published.name).pipeline(TEXT, now=at(10_000))


def judged(ctx: Context, run: str, seconds: int) -> tuple[Plan, ...]:
    """A new plan of an interval, joined and judged."""
    planned = plan_interval(ctx, run, at(seconds), "republish", 1)
    make_candidates(ctx, planned)
    assert check(ctx, planned) == {}
    return planned


def elsewhere(ctx: Context, folder: Path) -> Context:
    """The same pipeline on another machine: the same tables, other lock files."""
    root = ctx.places.tables or f"{ctx.places.home}/tables"
    return replace(ctx, places=replace(ctx.places, home=folder / "elsewhere", tables=root))


@contextmanager
def asleep(
    ctx: Context, meanwhile: Callable[[], Any], where: str = "publish.before_commit", lock: Table = Table.TRAINING
) -> Iterator[None]:
    """Within the body, the first job at a point does something else there, when the lease of its lock is over."""
    acts = iter([meanwhile])

    def point(name: str) -> None:
        if name == where and (act := next(acts, None)):
            expire(ctx.home, lock)
            act()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leases, "RENEWAL", RETENTION)
        patch.setattr(crash_points, "point", point)
        yield
    assert next(acts, None) is None, f"nothing came to {where}"


def register(world: World, ctx: Context) -> list[tuple[int, str]]:
    return [(row["number"], row["run"]) for row in world.register(ctx)]


@pytest.mark.both_roots(long=True)
@pytest.mark.parametrize("seconds", [0, 60])
def test_a_publication_of_another_machine_stands(world: World, ctx: Context, tmp_path: Path, seconds: int) -> None:
    """Of an interval that has a publication, whose files both replace, and of one that has none."""
    slow, fast = judged(ctx, "slow", seconds), judged(ctx, "fast", seconds)
    with (
        asleep(ctx, lambda: publish(elsewhere(ctx, tmp_path), fast)),
        pytest.raises(tables.WriteSkipped, match="another writer was faster"),
    ):
        publish(ctx, slow)
    assert register(world, ctx) == [(1, "first"), (2, "fast")]
    assert {row["_publication"] for row in world.training(ctx) if row["t"] >= at(seconds)} == {2}
    with pytest.raises((Superseded, NothingToDo), match="has publication 2"):
        publish(ctx, slow)
    require_intact(ctx.home)


@pytest.mark.both_roots(long=True)
def test_an_erasure_on_another_machine_holds(world: World, ctx: Context, tmp_path: Path) -> None:
    waiting = judged(ctx, "waiting", 60)
    with (
        asleep(ctx, lambda: erased(ctx, tmp_path)),
        pytest.raises(tables.WriteSkipped),
    ):
        publish(ctx, waiting)
    with pytest.raises(CandidateErased):
        publish(ctx, waiting)
    publish(ctx, judged(ctx, "again", 60))
    assert {row["k"] for row in world.training(ctx)} == {2}
    require_intact(ctx.home)


@pytest.mark.both_roots(long=True)
def test_a_join_does_not_bring_back_a_key_that_was_erased_meanwhile(world: World, ctx: Context, tmp_path: Path) -> None:
    planned = plan_interval(ctx, "slow", at(60), "republish", 1)
    with (
        asleep(ctx, lambda: erased(ctx, tmp_path), "join.before_commit", Table.CANDIDATES),
        pytest.raises(tables.WriteSkipped, match="were erased while rows were written"),
    ):
        make_candidates(ctx, planned)
    make_candidates(ctx, planned)
    assert check(ctx, planned) == {}
    publish(ctx, planned)
    assert {row["k"] for row in world.training(ctx)} == {2}
    require_intact(ctx.home)


@pytest.mark.both_roots(long=True)
@pytest.mark.parametrize("sleeps", ["before its last look", "after it"])
def test_a_landing_does_not_bring_back_a_key_that_was_erased_meanwhile(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sleeps: str
) -> None:
    ctx = first_published(world)
    world.produce([event("served", 0, 700, key, f"again-{key}") for key in (1, 2)])
    if sleeps == "after it":  # the erasure comes between the look at the register and the commit
        commit, acts, served = tables.commit_files, [erased], ctx.home.landing(f"{world.name}.served")

        def slept(path: str, *args: Any, **options: Any) -> None:
            if acts and path == served and options.get("transaction"):
                expire(ctx.home, Table.LANDING)
                acts.pop()(ctx, tmp_path)
            commit(path, *args, **options)

        monkeypatch.setattr(leases, "RENEWAL", RETENTION)
        monkeypatch.setattr(tables, "commit_files", slept)
        with pytest.raises(tables.WriteSkipped):
            world.land(ctx)
    else:
        with (
            asleep(ctx, lambda: erased(ctx, tmp_path), "land.before_commit", Table.LANDING),
            pytest.raises(tables.WriteSkipped, match="were erased while rows were written"),
        ):
            world.land(ctx)
    world.land(ctx)
    landed = world.table(ctx, f"landing/{world.name}.served")
    assert len(landed) == len({row["_offset"] for row in landed}) == 11
    assert {row["k"] for row in landed} == {None, 2, 9}
    require_intact(ctx.home)


@pytest.mark.both_roots(long=True)
@pytest.mark.parametrize("is_written", [False, True])
def test_a_rollback_does_not_bring_back_a_key_that_was_erased_meanwhile(
    world: World, ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """Before its last look at the keys, or after it has written the rows."""
    publish(ctx, judged(ctx, "second", 0))
    if is_written:
        written = publication._written

        def slept(*arguments: Any) -> Any:
            found = written(*arguments)
            monkeypatch.undo()
            expire(ctx.home, Table.TRAINING)
            erased(ctx, tmp_path)
            return found

        monkeypatch.setattr(leases, "RENEWAL", RETENTION)
        monkeypatch.setattr(publication, "_written", slept)
        with pytest.raises(tables.WriteSkipped, match="another writer was faster"):
            rollback(ctx, at(0), 1, Request("to see", "ann"))
    else:
        with (
            asleep(ctx, lambda: erased(ctx, tmp_path)),
            pytest.raises(tables.WriteSkipped, match="were erased while rows were written"),
        ):
            rollback(ctx, at(0), 1, Request("to see", "ann"))
    rollback(ctx, at(0), 1, Request("to see", "ann"))
    assert {row["k"] for row in world.training(ctx)} == {2}
    require_intact(ctx.home)


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_snapshot_does_not_keep_a_key_that_was_erased_meanwhile(ctx: Context, tmp_path: Path, is_begun: bool) -> None:
    """Also where the erasure has recorded its keys before, and goes on while the snapshot sleeps."""
    if is_begun:
        with faults(), dying("erase.after_keys"), pytest.raises(Killed):
            erased(ctx, tmp_path)
    with (
        asleep(ctx, lambda: erased(ctx, tmp_path), "snapshot.before_commit"),
        pytest.raises(tables.WriteSkipped, match="another writer was faster"),
    ):
        take(ctx, "slow", who="ann")
    assert snapshots.kept(ctx.home) == []
    kept, standing = take(ctx, "slow", who="ann"), tables.at(ctx.home.table(Table.TRAINING)).to_pyarrow_table()
    assert set(standing["k"].to_pylist()) == {2}
    assert sum(file.rows for file in snapshots.files_of(ctx.home, kept.name).files) == len(standing)


def test_a_publication_while_a_snapshot_is_taken_is_not_kept_under_another_number(
    ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = judged(ctx, "waiting", 0)

    def late(home: Home) -> int:
        monkeypatch.undo()
        publish(elsewhere(ctx, tmp_path), waiting)
        return publications.repair(home)

    monkeypatch.setattr(publications, "repair", late)
    with pytest.raises(tables.WriteSkipped, match="was published to while the snapshot was taken"):
        take(ctx, "slow", who="ann")
    assert take(ctx, "slow", who="ann").numbers == (2,)


def erased(ctx: Context, folder: Path) -> None:
    """Another machine erases a key."""
    erase(elsewhere(ctx, folder), "one", ["k=1"], who="ann")


def test_a_vacuum_that_waited_for_a_publication_spares_its_files(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of a candidate is published as it is, under its old date."""
    waiting = judged(ctx, "waiting", 60)
    for file in Path(ctx.home.table(Table.CANDIDATES)).rglob("*.parquet"):
        os.utime(file, (0, 0))

    @contextmanager
    def held_late(lock: Lock) -> Iterator[None]:
        if lock == ctx.home.lock(Table.TRAINING):
            publish(ctx, waiting)
        with held(lock):
            yield

    monkeypatch.setattr(maintenance, "held", held_late)
    maintenance.vacuum(ctx.home, RETENTION)
    assert len(world.training(ctx)) == 8
    require_intact(ctx.home)
