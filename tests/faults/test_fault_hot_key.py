"""One key with very many labels: every match is in its row, or the join is refused; nothing is cut.

0 s        10 s       49 s             100 s ─ 130 s        169 s       179 s ─ 180 s     read for the interval
interval ─ row a ──── row b ────────── a tenth of ────────── window ─── the others:       up to 180 s
                                       the labels            of b ends  in no window
"""

from __future__ import annotations

import os

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from support.small_pipeline import PIPELINE, at, event, made
from support.world import World
from windrow.home import Table
from windrow.io.training.inputs import TooManyLabels
from windrow.jobs.train import train_one
from windrow.outcomes import exit_code

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1500)]

LABELS = int(os.environ.get("WINDROW_LABELS", "20000"))
"""Labels of one key; `make faults` has a million, of which two rows get 100 000 each."""


def limited(most: int) -> str:
    return f"{PIPELINE}max_labels_per_key: {most}\n"


def test_a_key_with_very_many_labels_gives_each_row_all_of_its_matches(world: World) -> None:
    matches = LABELS // 10
    ctx = made(world, limited(LABELS - 1), {"served": 1, "likes": 2})
    world.produce([event("served", 0, 10, name="a"), event("served", 0, 49, name="b"), event("served", 0, 600, key=9)])
    world.produce(
        event("likes", n % 2, 100 + 30 * n / matches if n < matches else 179 + n / LABELS) for n in range(LABELS)
    )
    world.produce([event("likes", p, 600, key=9) for p in (0, 1)])
    world.land(ctx)
    with pytest.raises(TooManyLabels) as refused:
        train_one(ctx, "hot", at(0), "publish")
    assert exit_code(refused.value) == 2
    for words in (f"{world.name}.likes: one key has {LABELS:,} rows", f"is {LABELS - 1:,}", "`window`", "`where`"):
        assert words in str(refused.value)
    assert not world.register(ctx)
    ctx = world.pipeline(limited(LABELS), now=at(10_000))
    train_one(ctx, "hot", at(0), "publish")

    rows = DeltaTable(ctx.home.table(Table.TRAINING)).to_pyarrow_table(columns=["id", "likes", "liked"])
    rows = rows.sort_by("id")
    assert rows["id"].to_pylist() == ["a", "b"]
    assert pc.list_value_length(rows["likes"]).to_pylist() == [matches, matches]
    assert rows["liked"].to_pylist() == [True, True]
    for found in rows["likes"].combine_chunks():
        offsets = pc.struct_field(found.values, ["_offset"]), pc.struct_field(found.values, ["_partition"])
        ids = {(o, p) for o, p in zip(*(column.to_pylist() for column in offsets), strict=True)}
        assert ids == {(n // 2, n % 2) for n in range(matches)}
