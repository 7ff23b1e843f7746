"""Publications are rebuilt at their recorded pins and pipeline file; differences are named by column and row id."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from support.generated import START
from support.late_history import FEW, in_two_parts, landed, prepared
from support.register import whole_reads
from support.world import World
from windrow.home import Table
from windrow.io.registers.plans import Request
from windrow.io.training import versions
from windrow.jobs.audit import verify
from windrow.jobs.rebuild import rebuild
from windrow.jobs.run import BadRequest, Context
from windrow.transforms.content import ContentDiffers

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def verified(ctx: Context, rows: list[dict[str, Any]]) -> list[verify.Verification]:
    return sorted(verify.verify(ctx, rows), key=lambda outcome: outcome.number)


def test_a_publication_is_what_its_plan_makes_and_every_change_by_hand_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = prepared(world)
    early, late = in_two_parts(seed=23)
    landed(world, ctx, early)
    world.train(ctx)
    landed(world, ctx, late)
    first, second = START, START + ctx.pipeline.interval
    rebuild(ctx, "again", first, second, lambda row: None, Request("late rows", "me"))
    register = world.register(ctx)

    with monkeypatch.context() as patch:
        whole_reads(ctx.home, patch)
        assert verify.chosen(ctx) == verify.chosen(ctx, number=register[-1]["number"]) == register[-1:]
        assert verify.chosen(ctx, last=len(register) + 1) == register
        verify.refuse_differences(ctx.home, verified(ctx, verify.chosen(ctx)))

    # each at its own pins, the replaced one at the version that it made; the changed file makes no difference
    changed = world.pipeline(FEW.replace("after: 6m", "after: 7m"))
    assert changed.pipeline.config_hash != ctx.pipeline.config_hash
    outcomes = verified(changed, register)
    assert [(o.number, o.rows) for o in outcomes] == [(row["number"], row["rows"]) for row in register]
    assert [o.different for o in outcomes] == [{}] * len(register)
    verify.refuse_differences(ctx.home, outcomes)
    replaced, standing = outcomes[0], outcomes[-1]
    assert (replaced.interval, replaced.content != standing.content) == (standing.interval, True)
    assert replaced.version == register[0]["training_version"]

    path = ctx.home.table(Table.TRAINING)
    victims = [row for row in world.training(ctx) if row["_interval"] == first][:2]
    assert all(row["score"] is not None for row in victims)
    where = [f"_partition = {row['_partition']} and _offset = {row['_offset']}" for row in victims]
    DeltaTable(path).update(updates={"score": "score + 1"}, predicate=where[0])
    DeltaTable(path).delete(where[1])
    (found,) = verified(changed, register[-1:])
    assert found.different == {"rows missing": 1, "score": 1}
    ids = {f"{r['_topic']}/{r['_epoch']}/{r['_partition']}/{r['_offset']}" for r in victims}
    assert set(found.row_ids) == ids
    with pytest.raises(ContentDiffers, match="1 row not published, score in 1 row"):
        verify.refuse_differences(ctx.home, [found])

    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(versions.VersionGone, match=r"publication 1 of .* are not in the training table any more"):
        verified(changed, register[:1])
    shutil.rmtree(Path(ctx.home.table(Table.CONFIGS)))
    with pytest.raises(BadRequest, match=r"made under another pipeline file .* not on record"):
        verified(changed, register[-1:])
    with pytest.raises(BadRequest, match="no such publication"):
        verify.chosen(ctx, number=99)
    assert [row["number"] for row in verify.chosen(ctx, at=first)] == [register[-1]["number"]]
