"""Quarantined records are judged again after the clock or the pipeline file was corrected, and count once."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from support.broken.damage import lose_commit
from support.explained import explained
from support.side_by_side import Killed
from support.small_pipeline import PIPELINE, START, at, event, made
from support.world import World
from windrow.config import load
from windrow.io.delta import crash_points, tables
from windrow.io.landing import broker
from windrow.io.ledger import table as ledger_table
from windrow.io.registers import clocks
from windrow.io.registers.plans import Request
from windrow.jobs import land
from windrow.jobs import ledger as ledger_job
from windrow.jobs.audit.intact import require_intact
from windrow.jobs.audit.reconcile import reconcile_range
from windrow.jobs.audit.verify import chosen, verify
from windrow.jobs.landing.replay import replay
from windrow.jobs.rebuild import rebuild
from windrow.jobs.run import Context
from windrow.semantics.balance import landing_measures
from windrow.semantics.landing.batch import Reconsidered

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]

ANN = Reconsidered("ann", "the clock of the host was behind")
COUNTS = ("read", "landed", "quarantined", "skipped")


def reconsider(ctx: Context) -> Any:
    *_, last = land.land(ctx, reconsider=ANN)
    return last.after


def counts(seen: Any) -> tuple[int, ...]:
    return tuple(sum(row[name] for row in seen.rows) for name in COUNTS)


def test_reconsidered_records_are_late_count_once_and_stand_for_the_quarantined_ones(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = made(world, PIPELINE, {"served": 1, "likes": 1}, now=500)
    ctx = replace(behind, now=lambda: at(1_000))
    world.produce([event("served", 0, 10, key=1), event("served", 0, 12, key=2), event("likes", 0, 20, key=1)])
    world.produce([event("served", 0, 590, key=1), event("likes", 0, 600, key=2), event("likes", 0, 2_000, key=1)])
    assert counts(world.land(behind)) == (6, 3, 3, 0)
    world.produce([event("served", 0, 900, key=9), event("likes", 0, 900, key=9)])
    world.land(ctx)
    world.train(ctx)
    assert [row["label_reason"] for row in world.training(ctx)] == ["label_quarantined", "label_quarantined"]

    def die(point: str) -> None:
        if point == "land.after_commit":
            raise Killed

    with monkeypatch.context() as killing:
        killing.setattr(crash_points, "point", die)
        with pytest.raises(Killed):
            reconsider(ctx)
    assert counts(world.land(ctx)) == (8, 6, 2, 0)  # the next landing clocks the batch of the killed run
    seen = reconsider(ctx)
    assert counts(seen) == (8, 7, 1, 0)  # the event at 2000 is ahead of this clock as well
    assert landing_measures(seen.rows)["landing_imbalance"] == 0
    assert (reconsider(ctx).pins, counts(clocks.observe(ctx.home))) == (seen.pins, counts(seen))  # adds nothing

    rows = [row for topic in ("served", "likes") for row in world.table(ctx, f"landing/{world.name}.{topic}")]
    again = [row for row in rows if row["_reconsidered"] is not None]
    assert [(row["_offset"], row["_reconsidered"]) for row in again] == [(2, 1), (1, 1)]
    assert [row["_quarantined"] for row in again] == [None, None]
    assert len(rows) == 10  # the quarantined originals stay
    (message,) = [c.message for c in tables.commits(ctx.home.landing(f"{world.name}.served")) if "ann" in c.message]
    assert json.loads(message)["reconsidered"] == {"who": "ann", "why": "the clock of the host was behind"}

    late = explained(ctx, f"{world.name}.served/0/0/2")
    assert (late["outcome"], late["row"]["batch"]) == ("late_left", 3)
    ledger_job.extend(ctx)
    lines = {(line["kind"], line["offset"]) for line in ledger_table.lines(ctx.home).to_dicts()}
    assert lines == {("late_left", 2), ("state_changed", 1)}
    done = reconcile_range(ctx, START, START + timedelta(minutes=12))
    assert {row["outcome"] for row in done.intervals} == {"equal"}
    assert all(outcome.is_same for outcome in verify(ctx, chosen(ctx, last=12)))
    rebuild(ctx, "again", START, START + timedelta(minutes=12), lambda row: None)
    states = [(row["_offset"], row["label_state"], row["label_reason"]) for row in world.training(ctx)]
    assert states == [(0, "positive", "label_quarantined"), (1, "negative", None), (2, "unknown", "label_quarantined")]


def test_a_record_from_before_its_topic_was_stamped_is_not_believed_by_its_producers_stamp(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1}, now=1_000)
    world.produce([event("served", 0, 900_000), event("likes", 0, 10)])  # its record has the same wrong timestamp
    assert counts(world.land(ctx)) == (2, 1, 1, 0)
    stamped = ConfigResource(ResourceType.TOPIC, f"{world.name}.served")
    stamped.add_incremental_config(
        ConfigEntry("message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET)
    )
    admin = AdminClient({"bootstrap.servers": world.places.kafka})
    for future in admin.incremental_alter_configs([stamped]).values():
        future.result(30)
    known = broker.describe(world.places.kafka, [f"{world.name}.served"])
    assert known[f"{world.name}.served"].is_stamped
    assert counts(reconsider(ctx)) == (2, 1, 1, 0)


def test_a_corrected_pipeline_file_reads_what_the_old_one_could_not(world: World) -> None:
    text = PIPELINE.replace("{id: string, k: bigint, t: timestamp}", "{id: string, k: bigint, t: timestamp, n: int}", 1)
    ctx = made(world, text, {"served": 1, "likes": 1}, now=1_000)
    topic, partition, value, stamp = event("served", 0, 10)
    world.produce([(topic, partition, value[:-1] + b', "n": 1.5}', stamp), event("likes", 0, 10)])
    assert counts(world.land(ctx)) == (2, 1, 1, 0)
    assert counts(reconsider(ctx)) == (2, 1, 1, 0)  # not corrected yet
    path = world.places.pipelines[0] / "small.yaml"
    path.write_text(PIPELINE.replace("{t}", world.name))
    corrected = replace(ctx, pipeline=load(path, world.places.expectations))
    assert counts(reconsider(corrected)) == (2, 2, 0, 0)

    landing = Path(corrected.home.landing(f"{world.name}.served"))
    lose_commit(landing)
    again = replay(corrected, Request("the disk lost it", "ann"))
    assert [(one.batch, one.rows) for one in again] == [(2, 0)], "it took no offsets"
    assert counts(clocks.observe(corrected.home)) == (2, 2, 0, 0)
    assert sum(row["_reconsidered"] is not None for row in world.table(corrected, f"landing/{landing.name}")) == 1
    require_intact(corrected.home)


VIEWS = """\
  - name: views
    role: feature
    topic: {t}.likes
    columns: {id: string, k: bigint, t: timestamp}
    key: [k]
    event_time: t
    out_of_orderness: 5s
    window: {before: 0s, after: 2m}
grace: 30s
"""


def test_a_record_that_only_another_stream_can_read_leaves_its_row_in_doubt(world: World) -> None:
    likes = "topic: {t}.likes\n    columns: {id: string, k: bigint, t: timestamp"
    text = PIPELINE.replace(likes, f"{likes}, price: int").replace("grace: 30s\n", VIEWS)
    behind = made(world, text, {"served": 1, "likes": 1}, now=500)
    ctx = replace(behind, now=lambda: at(1_000))
    topic, partition, value, stamp = event("likes", 0, 600)
    world.produce([(topic, partition, value[:-1] + b', "price": "cheap"}', stamp)])
    world.land(behind)
    world.produce([event("served", 0, 590), event("served", 0, 900, key=9), event("likes", 0, 900, key=9)])
    world.land(ctx)
    reconsider(ctx)
    world.train(ctx)
    (row,) = [row for row in world.training(ctx) if row["k"] == 1]
    assert (row["label_state"], row["label_reason"]) == ("unknown", "label_quarantined")
    assert len(row["views"]) == 1
