"""A home folder with something in every state, kept as an archive, so that later code must work with it.

    WINDROW_KEEP_HOME=tests/faults/upgrade pytest tests/faults/upgrade -k keep --basetemp=/tmp/windrow

makes the archive of the present version; a release adds one. Topics are not kept: for the code that opens the home
they have been created again.
"""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

from deltalake import DeltaTable

from support.small_pipeline import PIPELINE, at, event, made
from support.world import World
from windrow.jobs import ledger
from windrow.jobs.check import check
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.rebuild import rebuild
from windrow.jobs.run import Context
from windrow.jobs.train import train_one

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.gz"))
TABLES = ("clock", "plans", "configs", "candidates", "measures", "quality", "training", "publications", "late")
TOPICS = ("served", "likes")


def lived(world: World) -> Context:
    """Live: two landings, publications, a rebuild, a late label, a candidate that waits, a plan that waits."""
    ctx = made(world, PIPELINE, dict.fromkeys(TOPICS, 1))
    rows = [event("served", 0, 60 * n + 10, key=n, name=f"row {n}") for n in range(4)]
    world.produce([*rows, ("served", 0, b"{", at(200)), event("likes", 0, 20, key=0, name="in time")])
    world.produce([event(topic, 0, 600, key=-1) for topic in TOPICS])
    world.land(ctx)
    train_one(ctx, "first", at(0), "publish")
    train_one(ctx, "second", at(60), "publish")
    world.produce([event("likes", 0, 80, key=1, name="late"), event("likes", 0, 30, key=0, name="late too")])
    world.land(replace(ctx, now=lambda: at(10_100)))
    rebuild(ctx, "rebuilt", at(0), at(60), lambda row: None)
    ledger.extend(ctx)
    waiting = plan_interval(ctx, "waits to be published", at(120), "publish", 1)
    make_candidates(ctx, waiting)
    assert check(ctx, waiting) == {}
    plan_interval(ctx, "waits to be joined", at(180), "publish", 1)
    return ctx


def keep(home: Path, archive: Path) -> None:
    """Write the tables of a home to an archive."""
    with tarfile.open(archive, "w:gz") as kept:
        kept.add(home / "tables", "tables")


def unpack(archive: Path, home: Path) -> None:
    """Put the tables of an archive into a home."""
    with tarfile.open(archive) as kept:
        kept.extractall(home, filter="data")


def columns(world: World, pipeline: str) -> dict[str, dict[str, str]]:
    """Return name and type of every column, and what a reader must know, by table."""
    paths = [*TABLES, *(f"landing/{world.name}.{topic}" for topic in TOPICS)]
    tables = {name: DeltaTable(world.places.table(pipeline, name)) for name in paths}
    return {
        name: {
            "reader": str(table.protocol().min_reader_version),
            **{field.name: str(field.type) for field in table.schema().fields},
        }
        for name, table in tables.items()
    }
