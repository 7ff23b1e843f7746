"""Maintenance: fewer files, the same rows, the same history; files that a job still reads are kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from support.product import world_at
from support.small_pipeline import PIPELINE, at, event, made
from support.world import World, content
from windrow import training
from windrow.home import Table
from windrow.io.delta import store
from windrow.io.registers import publications
from windrow.io.training import maintenance
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.rebuild import rebuild
from windrow.jobs.run import Context
from windrow.jobs.upkeep import maintain as job
from windrow.jobs.upkeep import snapshot
from windrow.places import Places
from windrow.semantics.maintenance import RetentionUnsafe, landing_pieces, require_safe, training_pieces

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

WEEK = timedelta(days=7)


def worked(world: World) -> Context:
    """Three landings in one hour, one in the next; four intervals of one hour published, each in a file of its own."""
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    for n in range(4):
        world.produce(
            [event("served", 0, 60 * n + 10, key=n, name=f"s{n}"), event("likes", 0, 60 * n + 20, key=n, name=f"l{n}")]
        )
        world.land(replace(ctx, now=lambda n=n: at(1_000 + 100 * n if n < 3 else 4_000)))
    world.produce([event("served", 0, 600, name="late"), event("likes", 0, 600, name="far")])
    world.land(replace(ctx, now=lambda: at(4_100)))
    world.train(ctx)
    return ctx


def files(world: World, ctx: Context, name: str) -> int:
    return len(DeltaTable(world.places.table(ctx.pipeline.name, name)).file_uris())


def everything(world: World, ctx: Context) -> Any:
    """All rows of landing and training as they are, the audit columns too, and what the registers say."""
    tables = [f"landing/{topic}" for topic in ctx.pipeline.topics]
    landed = [sorted(world.table(ctx, name), key=lambda row: row["_offset"]) for name in tables]
    return landed, world.training(ctx), world.register(ctx)


@pytest.fixture(scope="module")
def has_worked(
    broker: object, spark: object, session_places: Places, tmp_path_factory: pytest.TempPathFactory
) -> tuple[World, Context]:
    """One of them for tests that leave its first hour and its files as they are."""
    world = world_at(session_places, tmp_path_factory.mktemp("worked"), "worked")
    return world, worked(world)


@pytest.fixture(scope="module")
def kept(broker: object, spark: object) -> dict[str, tuple[World, Context]]:
    """What `shared` has made, by root."""
    return {}


@pytest.fixture
def shared(
    kept: dict[str, tuple[World, Context]],
    root: str | None,
    session_places: Places,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[World, Context]:
    """One of them on each root, for tests that go on with whatever the one before has left."""
    where = "store" if root else "folder"
    if where not in kept:
        made_here = world_at(session_places, tmp_path_factory.mktemp("shared"), f"worked_{where}")
        world = replace(made_here, places=replace(made_here.places, tables=root))
        kept[where] = world, worked(world)
    return kept[where]


@pytest.mark.both_roots(long=True)
def test_maintenance_changes_the_number_of_files_and_no_row_and_no_history(
    shared: tuple[World, Context], spark: Any
) -> None:
    world, ctx = shared
    before = everything(world, ctx)
    landing = f"landing/{world.name}.served"
    many = files(world, ctx, landing), files(world, ctx, "training")
    reader = spark.read.format("delta").load(world.places.table("small", "training"))  # before, read afterwards
    planned = plan_interval(ctx, "during", at(0), "republish", 1)
    make_candidates(ctx, planned)

    snapshot.take(ctx, "kept", who="a person")
    kept = training.read("small", at="snapshot:kept", labels="all", places=ctx.places).rows

    done = job.maintain(replace(ctx, now=lambda: at(26 * 3600)), WEEK)

    assert done["snapshots"] == 1
    assert done["snapshot_bytes"] > 0, "compaction has replaced its files"
    assert {row["id"] for row in kept.collect().to_dicts()} == {row["id"] for row in before[1]}
    assert done["fewer_files"][landing] > 0
    assert done["fewer_files"]["training"] > 0
    assert (files(world, ctx, landing), files(world, ctx, "training")) < many
    assert everything(world, ctx) == before
    assert reader.count() == len(before[1])

    # what a compaction commits is no publication and no batch: everybody goes on as before
    history = DeltaTable(world.places.table("small", "training")).history()
    assert "userMetadata" not in next(entry for entry in history if entry["operation"] == "WRITE")
    assert publications.repaired(ctx.home) == before[2]
    published = _publish(ctx, planned)
    assert published["number"] == before[2][-1]["number"] + 1
    world.produce([event("served", 0, 70, key=1, name="again")])
    world.land(replace(ctx, now=lambda: at(26 * 3600 + 1)))
    rebuild(ctx, "all", at(0), at(240), lambda row: None)
    assert {row["id"] for row in world.training(ctx)} == {"s0", "s1", "s2", "s3", "again"}
    old = [row for row in content(world.training(ctx)) if row["id"] != "again"]
    assert old == content(before[1])

    # and there is nothing left to do the second time
    again = job.maintain(replace(ctx, now=lambda: at(50 * 3600)), WEEK)
    third = job.maintain(replace(ctx, now=lambda: at(50 * 3600)), WEEK)
    assert set(third["fewer_files"].values()) == {0}
    assert again["outdated_candidates"] == 0


def _publish(ctx: Context, planned: Any) -> dict[str, Any]:
    from windrow.jobs.check import check
    from windrow.jobs.publish import publish

    assert check(ctx, planned) == {}
    return publish(ctx, planned)[0]


def test_an_open_hour_is_left_alone(has_worked: tuple[World, Context]) -> None:
    world, ctx = has_worked
    landed = maintenance.landing_files(ctx.home, f"{world.name}.served")
    assert landing_pieces(landed, at(3_600) - timedelta(microseconds=1)) == []
    pieces = landing_pieces(landed, at(3_600))
    assert [(piece.begins, len(piece.paths), piece.wanted) for piece in pieces] == [(at(0), 3, 1)]
    day = at(24 * 3600)
    training = maintenance.training_files(ctx.home)
    assert training_pieces(training, day - timedelta(microseconds=1)) == []
    assert [piece.begins for piece in training_pieces(training, day)] == [at(0)]
    assert ctx.pipeline.name == "small"


def test_a_day_that_was_published_to_since_its_files_were_chosen_waits_for_the_next_run(
    has_worked: tuple[World, Context], spark: Any
) -> None:
    world, ctx = has_worked
    [piece] = training_pieces(maintenance.training_files(ctx.home), at(24 * 3600))
    world.produce([event("served", 0, 900, name="later"), event("likes", 0, 900, name="farther")])
    world.land(replace(ctx, now=lambda: at(4_200)))
    world.train(ctx)
    before, path = everything(world, ctx), ctx.home.table(Table.TRAINING)
    assert len(maintenance.training_files(ctx.home)) > len(piece.paths)

    assert maintenance.compact(spark, ctx.home, path, Table.TRAINING, piece, lambda: at(24 * 3600)) == 0

    assert everything(world, ctx) == before


@pytest.mark.parametrize("retention", [timedelta(), timedelta(hours=1), WEEK - timedelta(microseconds=1)])
def test_an_unsafe_retention_is_refused_before_anything_is_done(retention: timedelta, places: Any) -> None:
    with pytest.raises(RetentionUnsafe, match="7d"):
        job.maintain(Context(None, places), retention)  # type: ignore[arg-type]
    require_safe(WEEK)


@pytest.mark.both_roots(long=True)
def test_dead_files_go_after_the_retention_and_a_candidate_that_may_still_be_published_stays(
    shared: tuple[World, Context],
) -> None:
    world, ctx = shared
    older, newer = (plan_interval(ctx, run, at(0), "republish", 1) for run in ("older", "newer"))
    for planned in (older, newer):
        make_candidates(ctx, planned)
    _publish(ctx, newer)
    waiting = plan_interval(ctx, "waiting", at(60), "republish", 1)
    make_candidates(ctx, waiting)
    assert job.discard_outdated(ctx) == 1  # `older`: its interval has moved on
    assert {row["_plan"] for row in world.table(ctx, "candidates")} == {waiting[0].id}

    folder = world.places.table("small", "candidates")
    on_disk = len(store.listed(folder))
    assert maintenance.vacuum(ctx.home, WEEK)["candidates"] == 0  # they died just now
    assert len(store.listed(folder)) == on_disk
    assert _publish(ctx, waiting)["plan_id"] == waiting[0].id
