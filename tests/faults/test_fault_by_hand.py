"""What is changed by hand in a table, or lost from it, is found: `verify` and `reconcile` end with a comparison.

Each damage is made in a copy of one world, which is then restored.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from support.broken.damage import cut_file, empty_commit, lose_commit, lose_file, without
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
from windrow.jobs.ledger import extend_table
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.run import Context
from windrow.jobs.spark import spark_for
from windrow.outcomes import NeedsPerson

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def delete_rows(table: Path) -> None:
    DeltaTable(str(table)).delete()


def update(**values: str) -> Callable[[Path], None]:
    def act(table: Path) -> None:
        DeltaTable(str(table)).update(values)

    act.__name__ = f"update {values}"
    return act


def append_again(table: Path) -> None:
    rows = DeltaTable(str(table))
    write_deltalake(rows, rows.to_pyarrow_table(), mode="append")


def forget_first_row(table: Path) -> None:
    DeltaTable(str(table)).delete("number = 1")


EMPTY = "is empty|cannot be read"
"""A table of a single commit cannot be read at all."""
DAMAGES: list[tuple[str, Callable[[Path], object], type[Exception], str]] = [
    ("landing", lose_commit, CommitsLost, "holds batches up to"),
    ("landing", empty_commit, TableDamaged, EMPTY),
    ("landing", lose_file, TablesDisagree, "is missing"),
    ("landing", cut_file, TablesDisagree, "bytes, and"),
    ("landing", delete_rows, TablesDisagree, r"likes holds 0 rows, and 3 were landed"),
    ("landing", append_again, TablesDisagree, r"likes holds 6 rows, and 3 were landed"),
    ("landing", shutil.rmtree, CommitsLost, "holds batches up to 0"),
    ("clock", empty_commit, TableDamaged, EMPTY),
    ("clock", lose_commit, TablesDisagree, "the clock of .*likes is at batch 1, and a plan was made at batch 2"),
    ("clock", shutil.rmtree, TablesDisagree, "is at batch 0, and a plan was made at batch 2"),
    ("clock", without("txn"), TableDamaged, "does not name its transaction"),
    ("clock", without("add"), TableDamaged, "and it names 0"),
    ("clock", update(skipped="skipped + 1"), TablesDisagree, "do not add up by 1"),
    ("clock", update(landed="landed - 1", skipped="skipped + 1"), TablesDisagree, "holds 3 rows, and 2 were landed"),
    (
        "clock",
        update(read="read + 5", skipped="skipped + 5"),
        TablesDisagree,
        "the clock counts 8 offsets of .* as read",
    ),
    ("clock", update(read="read + 5", unexplained="5"), TablesDisagree, "as unexplained, its landing commits 0"),
    ("clock", update(next_offset="1"), CommitsLost, "by the clock"),
    ("training", lose_commit, TrainingBehind, "lost, reset or restored"),
    ("training", shutil.rmtree, TrainingBehind, "lost, reset or restored"),
    ("training", delete_rows, TablesDisagree, "the training table holds 0 rows of 2026-11-01"),
    ("training", lose_file, TablesDisagree, "is missing"),
    ("publications", empty_commit, TableDamaged, EMPTY),
    ("publications", without("add"), TableDamaged, "and it names 0"),
    ("publications", forget_first_row, TablesDisagree, "publication 1 is not in the register"),
    ("publications", update(negative="77"), TablesDisagree, "another negative in the register"),
    ("publications", update(plan_id="'0'"), TablesDisagree, "is not the one that its id names"),
    ("candidates", lose_commit, TablesDisagree, "holds 0 rows, and 1 were measured"),
    ("candidates", shutil.rmtree, TablesDisagree, "holds 0 rows, and 1 were measured"),
    ("candidates", delete_rows, TablesDisagree, "holds 0 rows, and 1 were measured"),
    ("candidates", lose_file, TablesDisagree, "is missing"),
    ("late", empty_commit, TableDamaged, EMPTY),
    ("late", delete_rows, TablesDisagree, "the late ledger holds 0 lines, and 1 were written"),
    ("late", lose_file, TablesDisagree, "is missing"),
]
MADE_AGAIN: list[tuple[str, Callable[[Path], object]]] = [
    ("publications", lose_commit),
    ("publications", shutil.rmtree),
    ("late", lose_commit),
    ("late", shutil.rmtree),
]
"""What is derived from the commits of other tables is made again when it is looked for (rule 20)."""


def test_damages_made_by_hand_are_found(world: World) -> None:
    """Both commands end with the same comparison, so they take turns: each meets every kind of condition."""
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

    register, lines = world.register(ctx), world.table(ctx, "late")
    equal = [outcome for outcome in verify.verify(ctx, register) if outcome.is_same]
    assert len(equal) == len(register) > 1
    asked: dict[str, Callable[[], object]] = {  # how both commands end, where the rows that they compare are equal
        "verify": lambda: verify.refuse_differences(ctx.home, equal),
        "reconcile": lambda: check(ctx, late),
    }
    missed = []
    turns: defaultdict[type[Exception], Iterator[str]] = defaultdict(lambda: cycle(asked))
    for table, damage, condition, words in DAMAGES:
        command = next(turns[condition])
        found = what_is_found(ctx, table, damage, asked[command])
        if not isinstance(found, condition) or not re.search(words, str(found)):
            missed.append(f"{command} of {table}, {damage.__name__}: {words!r}, found {found}")
    assert not missed, "\n".join(missed)
    for table, loss in MADE_AGAIN:
        with damaged(ctx, table, loss):
            extend_table(ctx.home, lambda: spark_for("late", ctx.places, ctx.pipeline))
            require_intact(ctx.home)
            assert (world.register(ctx), unnumbered(world.table(ctx, "late"))) == (register, unnumbered(lines)), table
    with damaged(ctx, "candidates", delete_rows):
        with pytest.raises(TablesDisagree):
            verify.refuse_differences(ctx.home, list(verify.verify(ctx, register)))
        with pytest.raises(TablesDisagree):
            check(ctx, reconcile_range(ctx, at(0), at(120)))
    require_intact(ctx.home)


def what_is_found(
    ctx: Context, table: str, damage: Callable[[Path], object], ask: Callable[[], object]
) -> NeedsPerson | None:
    with damaged(ctx, table, damage):
        try:
            ask()
        except NeedsPerson as condition:
            return condition
    return None


def unnumbered(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines of the ledger without the number of their pass."""
    return [{**line, "pass": None} for line in lines]


@contextmanager
def damaged(ctx: Context, table: str, damage: Callable[[Path], object]) -> Iterator[None]:
    """Damage a table for the body, then restore it."""
    where = ctx.home.landing(ctx.pipeline.topics[0]) if table == "landing" else ctx.home.table(Table(table))
    path, kept = Path(where), Path(where).with_name("kept")
    shutil.copytree(path, kept)
    damage(path)
    try:
        yield
    finally:
        shutil.rmtree(path, ignore_errors=True)
        kept.rename(path)
