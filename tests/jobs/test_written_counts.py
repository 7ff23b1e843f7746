"""What was written is counted where it was written to: a file that changes before it is counted is never published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from support.small_pipeline import PIPELINE, at, event, made
from support.world import World
from windrow.io.delta import crash_points
from windrow.io.registers import measures
from windrow.io.training import candidates
from windrow.jobs.check import check
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.publish import publish
from windrow.jobs.run import Context
from windrow.semantics.balance import BalanceBroken
from windrow.semantics.plan import Plan

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Change = Callable[[pa.Table], pa.Table]


def without_labels(rows: pa.Table) -> pa.Table:
    """Empty the array of labels of every row; the states stay."""
    place = rows.schema.get_field_index("likes")
    kind = rows.schema.field("likes").type
    return rows.set_column(place, rows.schema.field(place), pa.array([[]] * rows.num_rows, kind))


def an_hour_later(rows: pa.Table) -> pa.Table:
    place = rows.schema.get_field_index("_event_time")
    later = pc.add(rows["_event_time"], pa.scalar(3_600_000_000, pa.duration("us")))
    return rows.set_column(place, rows.schema.field(place), later.cast(rows.schema.field(place).type))


CHANGES: dict[str, tuple[Change, str]] = {
    "a row is lost": (lambda rows: rows.slice(1), "left_imbalance 1, not 0"),
    "a row is there twice": (lambda rows: pa.concat_tables([rows, rows.slice(1, 1)]), "left_imbalance"),
    "labels are lost": (without_labels, "state_contradictions 1, not 0"),
    "times are changed": (an_hour_later, "rows_outside_interval 3, not 0"),
}


def test_a_file_that_changes_after_it_was_written_is_never_published(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change in an interval of its own, of one run."""
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    for n in range(len(CHANGES)):
        world.produce([event("served", 0, 60 * n + 10 + i, key=10 * n + i, name=f"s{i}") for i in range(3)])
        world.produce([event("likes", 0, 60 * n + 20, key=10 * n + 1)])
    world.produce([event("served", 0, 900), event("likes", 0, 900)])
    world.land(ctx)
    planned = plan_interval(ctx, "run", at(60 * (len(CHANGES) - 1)), "publish", along=len(CHANGES))
    assert [plan.interval.start for plan in planned] == [at(60 * n) for n in range(len(CHANGES))]

    def spoil(point: str) -> None:
        if point == "join.after_commit":
            for plan, (change, _) in zip(planned, CHANGES.values(), strict=True):
                rewritten(ctx, plan, change)

    with monkeypatch.context() as spoiling:
        spoiling.setattr(crash_points, "point", spoil)
        make_candidates(ctx, planned)
    refused = check(ctx, planned)
    for plan, (_, why) in zip(planned, CHANGES.values(), strict=True):
        assert why in refused[plan.id].why
    assert publish(ctx, planned) == []
    for plan, (_, why) in zip(planned, CHANGES.values(), strict=True):
        if "imbalance" in why:
            with pytest.raises(BalanceBroken):
                publish(ctx, (plan,), override=("a person", "the balance is not to be overridden"))
    assert world.register(ctx) == []


def rewritten(ctx: Context, plan: Plan, change: Change) -> None:
    """Write the one file of a candidate again with other rows, under its own name."""
    files, _ = candidates.files_of(ctx.home, [plan])
    ((name,),) = files.values()
    file = Path(name)
    rows = pq.ParquetFile(file).read()
    assert rows.num_rows == 3
    pq.write_table(change(rows), file)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # the checksum of Spark's local file system


def test_nulls_of_unpaired_rows_do_not_count_and_columns_without_a_null_are_not_read(world: World) -> None:
    ctx = made(world, PIPELINE.replace("role: label\n", "role: label\n    join: inner\n"), {"served": 1, "likes": 1})
    topic, partition, value, stamp = event("served", 0, 11, key=9, name="left")
    unpaired = (topic, partition, value.replace(b'"left"', b"null"), stamp)
    world.produce([event("served", 0, 10, key=1), unpaired, event("likes", 0, 20, key=1)])
    world.produce([event("served", 0, 900), event("likes", 0, 900)])
    world.land(ctx)
    planned = plan_interval(ctx, "run", at(0), "publish", along=1)
    make_candidates(ctx, planned)
    (only,) = planned
    assert candidates.null_counts(ctx.home, planned) == {only.id: {"k": 0, "t": 0}}
    found = measures.by_plan(ctx.home, planned)[only.id]
    assert [found[name] for name in ("rows", "left_unpaired", "left_imbalance")] == [1, 1, 0]
    assert [found[f"null_rate.{column}"] for column in ("id", "k", "t")] == [0, 0, 0]
