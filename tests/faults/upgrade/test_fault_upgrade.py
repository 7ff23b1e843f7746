"""The code is replaced: a home that an earlier version made goes on, and nothing is in it that the earlier one lacks.

earlier version   lands ─ publishes ─ rebuilds ─ joins ─ plans │ archive
this version                                                   │ verifies ─ publishes ─ joins ─ lands ─ reconciles
back again        every column that it knows is there, with its type, and no reader has to know more; on request the
                  earlier code itself goes on in a home of this version
"""

from __future__ import annotations

import os
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from faults.upgrade import old_home
from support.small_pipeline import PIPELINE, at, event
from support.world import World, content
from windrow.jobs.audit import verify
from windrow.jobs.audit.reconcile import reconcile_range
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import recorded_plans
from windrow.jobs.publish import publish
from windrow.jobs.train import carry_out
from windrow.places import PROJECT

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def named(world: World) -> World:
    """Return the world whose topics have the names that stand in the archives."""
    return World(world.places, "old")


def test_there_is_a_home_to_open() -> None:
    assert old_home.ARCHIVES


@pytest.mark.parametrize("archive", old_home.ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_a_home_of_an_earlier_version_goes_on_and_stays_readable_for_it(world: World, archive: Path) -> None:
    world = named(world)
    old_home.unpack(archive, world.places.home)
    ctx = world.pipeline(PIPELINE, now=at(20_000))
    before, register = old_home.columns(world, ctx.pipeline.name), world.register(ctx)
    rows = content(world.training(ctx))
    assert [row["number"] for row in register] == [1, 2, 3]

    # a publication that was replaced is what this version makes at its pins
    (replaced,) = verify.verify(ctx, register[:1])
    assert (replaced.number, replaced.different) == (1, {})

    # runs that the earlier version has begun are carried out as they were planned
    waiting = recorded_plans(ctx, "waits to be published", first="join")
    make_candidates(ctx, waiting)
    assert [row["number"] for row in publish(ctx, waiting)] == [4]
    carry_out(ctx, recorded_plans(ctx, "waits to be joined", first="join"), lambda row: None)
    assert content(world.training(ctx))[: len(rows)] == rows

    # landing goes on behind what has landed, in topics that have been created again
    world.topics(dict.fromkeys(old_home.TOPICS, 1))
    world.produce([event("served", 0, 700, key=7, name="new"), event("likes", 0, 710, key=7)])
    world.produce([event(topic, 0, 1_200, key=-1) for topic in old_home.TOPICS])
    world.land(ctx)
    world.train(ctx)
    found = {row["id"]: row["label_state"] for row in world.training(ctx)}
    assert (found["row 0"], found["row 1"], found["new"]) == ("positive", "negative", "positive")
    done = reconcile_range(ctx, at(0), at(240))
    assert {row["outcome"] for row in done.intervals} == {"equal"}

    # and back: the earlier version selects its columns by name
    after = old_home.columns(world, ctx.pipeline.name)
    lost = {
        (table, name): (kind, after[table].get(name))
        for table, known in before.items()
        for name, kind in known.items()
        if after[table].get(name) != kind
    }
    assert lost == {}


EARLIER = os.environ.get("WINDROW_EARLIER")
"""A commit whose code goes on in a home of this version; `make faults` names one."""


@pytest.mark.skipif(EARLIER is None, reason="needs an earlier commit of the repository: make faults")
def test_earlier_code_goes_on_in_a_home_of_this_version(world: World, tmp_path: Path) -> None:
    ctx = old_home.lived(world)
    code = tmp_path / "earlier"
    code.mkdir()
    archive = ["git", "-C", str(PROJECT), "archive", str(EARLIER), "spark_jobs", "expectations"]
    with subprocess.Popen(archive, stdout=subprocess.PIPE) as packed:
        subprocess.run(["tar", "-x", "-C", str(code)], stdin=packed.stdout, check=True)
    assert packed.returncode == 0

    def earlier(job: str, *arguments: str) -> None:
        done = world.script(job, ctx.pipeline.name, *arguments, code=code)
        assert done.returncode == 0, done.stderr

    # what this version has begun, the earlier one carries out as it was planned
    earlier("publish", "--run", "waits to be published")
    earlier("join", "--run", "waits to be joined", "--planned")
    for job in ("check", "publish"):
        earlier(job, "--run", "waits to be joined")
    # and it begins work of its own
    world.produce([event("served", 0, 700, key=7, name="new"), event("likes", 0, 710, key=7)])
    world.produce([event(topic, 0, 1_200, key=-1) for topic in old_home.TOPICS])
    earlier("land")
    earlier("join", "--run", "earlier", "--interval", at(660).isoformat())
    for job in ("check", "publish", "late"):
        earlier(job, *(["--run", "earlier"] if job != "late" else []))

    # this version finds the rows that it would have made itself, and goes on in turn
    ctx = world.pipeline(PIPELINE, now=at(20_000))
    register = world.register(ctx)
    numbers = [row["number"] for row in register]
    assert numbers == list(range(1, len(register) + 1))
    assert len(numbers) > 5  # the two that waited, and those that the earlier one has begun
    checked = {one.number: one.different for one in verify.verify(ctx, register[1:])}
    assert checked == {number: {} for number in numbers[1:]}
    world.train(ctx)
    assert {row["outcome"] for row in reconcile_range(ctx, at(0), at(720)).intervals} == {"equal"}
    found = {row["id"]: row["label_state"] for row in world.training(ctx)}
    assert [found[name] for name in ("row 0", "row 1", "row 2", "row 3", "new")] == [
        *("positive", "negative", "negative", "negative"),  # the label of row 1 came late: the ledger has it
        "positive",
    ]


@pytest.mark.skipif("WINDROW_KEEP_HOME" not in os.environ, reason="makes the archive of a release, on request")
def test_keep_a_home_of_this_version(world: World) -> None:
    world = named(world)
    old_home.lived(world)
    folder = Path(os.environ["WINDROW_KEEP_HOME"])
    old_home.keep(world.places.home, folder / f"{version('windrow')}.tar.gz")
