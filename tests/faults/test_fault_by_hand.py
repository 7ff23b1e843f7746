"""What is changed by hand in a table, or lost from it, is found: `verify` and `reconcile` end with a comparison.

Each damage is made in a copy of one world, which is then restored.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable

from support.broken.damage import cut_file, empty_commit, lose_commit, lose_file
from support.small_pipeline import PIPELINE, at, event, made
from support.world import World
from windrow.home import Table
from windrow.io.delta.damage import TableDamaged
from windrow.io.landing.batches import CommitsLost
from windrow.io.registers.publications import TrainingBehind
from windrow.jobs.audit import verify
from windrow.jobs.audit.intact import TablesDisagree, require_intact
from windrow.jobs.audit.reconcile import check, reconcile_range
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.run import Context
from windrow.outcomes import NeedsPerson

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def delete_rows(table: Path) -> None:
    DeltaTable(str(table)).delete()


def update(column: str, value: str) -> Callable[[Path], None]:
    def act(table: Path) -> None:
        DeltaTable(str(table)).update({column: value})

    return act


def forget_first_row(table: Path) -> None:
    DeltaTable(str(table)).delete("number = 1")


EMPTY = "is empty|cannot be read"
"""A table of a single commit cannot be read at all."""
DAMAGES: list[tuple[str, Callable[[Path], None], type[Exception], str]] = [
    ("landing", lose_commit, CommitsLost, "holds batches up to"),
    ("landing", empty_commit, TableDamaged, EMPTY),
    ("landing", lose_file, TablesDisagree, "is missing"),
    ("landing", cut_file, TablesDisagree, "bytes, and"),
    ("clock", empty_commit, TableDamaged, EMPTY),
    ("clock", update("next_offset", "1"), CommitsLost, "by the clock"),
    ("training", lose_commit, TrainingBehind, "lost, reset or restored"),
    ("training", delete_rows, TablesDisagree, "the training table holds 0 rows of 2026-11-01"),
    ("training", lose_file, TablesDisagree, "is missing"),
    ("publications", empty_commit, TableDamaged, EMPTY),
    ("publications", forget_first_row, TablesDisagree, "publication 1 is not in the register"),
    ("publications", update("negative", "77"), TablesDisagree, "another negative in the register"),
    ("publications", update("plan_id", "'0'"), TablesDisagree, "is not the one that its id names"),
    ("candidates", lose_commit, TablesDisagree, "holds 0 rows, and 1 were measured"),
    ("candidates", delete_rows, TablesDisagree, "holds 0 rows, and 1 were measured"),
    ("candidates", lose_file, TablesDisagree, "is missing"),
    ("late", empty_commit, TableDamaged, EMPTY),
    ("late", lose_file, TablesDisagree, "is missing"),
]


def test_damages_made_by_hand_are_found(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("served", 0, 20, key=1), event("likes", 0, 25, key=1), event("served", 0, 70, key=2)])
    world.produce([event("served", 0, 400), event("likes", 0, 400, key=9)])
    world.land(ctx)
    world.train(ctx)
    world.produce([event("likes", 0, 75, key=2)])
    world.land(ctx)
    late = reconcile_range(ctx, at(0), at(120))  # extends the ledger
    assert not late.unexplained
    make_candidates(ctx, plan_interval(ctx, "waiting", at(0), "republish", along=1))
    assert world.table(ctx, "late")
    require_intact(ctx.home)

    register = world.register(ctx)
    missed = [
        f"{table}, {damage.__name__}: {words!r}, found {found}"
        for table, damage, condition, words in DAMAGES
        if not isinstance(found := what_is_found(ctx, table, damage), condition) or not re.search(words, str(found))
    ]
    assert not missed, "\n".join(missed)
    with damaged(ctx, "candidates", delete_rows):
        with pytest.raises(TablesDisagree):
            verify.refuse_differences(ctx.home, list(verify.verify(ctx, register)))
        with pytest.raises(TablesDisagree):
            check(ctx, reconcile_range(ctx, at(0), at(120)))
    require_intact(ctx.home)


def what_is_found(ctx: Context, table: str, damage: Callable[[Path], None]) -> Exception | None:
    with damaged(ctx, table, damage):
        try:
            require_intact(ctx.home)
        except NeedsPerson as found:
            return found
    return None


@contextmanager
def damaged(ctx: Context, table: str, damage: Callable[[Path], None]) -> Iterator[None]:
    """Damage a table for the body, then restore it."""
    where = ctx.home.landing(ctx.pipeline.topics[0]) if table == "landing" else ctx.home.table(Table(table))
    path, kept = Path(where), Path(where).with_name("kept")
    shutil.copytree(path, kept)
    damage(path)
    try:
        yield
    finally:
        shutil.rmtree(path)
        kept.rename(path)
