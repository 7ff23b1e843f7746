"""Faults that must change nothing but when: kills at every named point, lost control state, many writers, replays."""

from __future__ import annotations

import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from generated import PARTITIONS, PIPELINE, SPAN, START, history
from oracle import expected, expected_rows, found_rows, sent
from windrow.io import clocks, crash, plans
from windrow.jobs.run import ANOTHER_WRITER, DONE, NOTHING_TO_DO, Context
from world import World, content

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1500)]

WAITING = PIPELINE.replace("idle: {mode: caught_up, after: 5m}", "idle: {mode: wait}")
"""Only events move the clock, so that processes with the host's clock close the same intervals."""
FIRST = "2026-11-01T00:00:00Z"
LANDED_AT = START + timedelta(days=1)


def prepared(world: World, seed: int) -> tuple[Context, list[object]]:
    ctx = world.pipeline(WAITING.replace("topic: t.", "topic: {t}."))
    world.topics({topic.removeprefix("t."): n for topic, n in PARTITIONS.items()})
    records = history(seed)
    world.produce(sent(records))
    # one event behind the history on every partition, so that each clock passes the last window's end
    closing = START + SPAN + timedelta(minutes=20)
    stamp = closing.isoformat().replace("+00:00", "Z")
    for topic, field in (("served", "served_at"), ("engagements", "engaged_at")):
        value = f'{{"{field}": "{stamp}", "action": "click", "user_id": 99, "item_id": 99}}'.encode()
        world.produce([(topic, p, value, closing) for p in range(PARTITIONS[f"t.{topic}"])])
    return ctx, records


def check_against_oracle(world: World, ctx: Context) -> None:
    frontier = clocks.observe(ctx.pipeline, ctx.places).frontier(ctx.pipeline)
    joined = expected(landed_history(world, ctx), LANDED_AT, frontier)
    rows = expected_rows(joined)
    assert len(rows) > 40
    assert found_rows(world.training(ctx), world) == rows
    assert [r["number"] for r in world.register(ctx)] == list(range(1, len(world.register(ctx)) + 1))


def landed_history(world: World, ctx: Context) -> list[object]:
    """What was produced, closing events included, as the oracle takes it: read back from the broker."""
    from confluent_kafka import Consumer, TopicPartition

    from generated import KafkaRecord
    from windrow.semantics.intervals import EPOCH

    records = []
    consumer = Consumer({"bootstrap.servers": ctx.places.kafka, "group.id": "check", "enable.auto.commit": False})
    for topic, partitions in PARTITIONS.items():
        name = f"{world.name}.{topic.removeprefix('t.')}"
        for p in range(partitions):
            end = consumer.get_watermark_offsets(TopicPartition(name, p), timeout=30)[1]
            consumer.assign([TopicPartition(name, p, 0)])
            while len([r for r in records if (r.topic, r.partition) == (topic, p)]) < end:
                for m in consumer.consume(500, timeout=10):
                    at = EPOCH + timedelta(milliseconds=m.timestamp()[1])
                    records.append(KafkaRecord(topic, p, m.offset(), m.value(), at))
    consumer.close()
    return records


def test_a_kill_at_every_named_point_changes_nothing(world: World) -> None:
    """Each step is killed at each of its points in turn and started again; the end is as if never killed."""
    ctx, _ = prepared(world, seed=11)
    name, run = ctx.pipeline.name, ("--run", "killed")
    steps = {
        "land": (),
        "join": (*run, "--interval", FIRST, "--along", "24"),
        "check": run,
        "publish": run,
    }
    killed = []
    for job, arguments in steps.items():
        for point in (p for p in crash.POINTS if p.startswith(f"{job}.")):
            done = world.script(job, name, *arguments, CRASH_AT=point)
            assert done.returncode == -signal.SIGKILL, (point, done.stdout[-500:], done.stderr[-2000:])
            killed.append(point)
            if point == "join.planned":
                planned = plans.of_run(ctx.pipeline, ctx.places, "killed")
        done = world.script(job, name, *arguments)
        assert done.returncode == DONE, (job, done.stderr[-3000:])
    assert tuple(killed) == crash.POINTS
    assert plans.of_run(ctx.pipeline, ctx.places, "killed") == planned  # every retry carried out the same plans
    for topic in ("served", "engagements"):
        rows = world.table(ctx, f"landing/{world.name}.{topic}")
        assert len({(r["_epoch"], r["_partition"], r["_offset"]) for r in rows}) == len(rows)
    check_against_oracle(world, ctx)


def test_a_lost_clock_and_a_lost_register_are_made_again_from_the_commits(world: World) -> None:
    ctx, _ = prepared(world, seed=12)
    seen = world.land(ctx)
    world.train(ctx)
    before, published = content(world.training(ctx)), world.register(ctx)
    shutil.rmtree(Path(ctx.places.table(ctx.pipeline.name, "clock")))
    shutil.rmtree(Path(ctx.places.table(ctx.pipeline.name, "publications")))

    again = world.land(ctx)
    assert again.pins == seen.pins
    assert list(again.clocks) == list(seen.clocks)
    world.train(ctx, run="after")  # finds every commit of the training table; publishes nothing twice
    kept = [{k: v for k, v in row.items() if k != "published_at"} for row in world.register(ctx)][: len(published)]
    assert kept == [{k: v for k, v in row.items() if k != "published_at"} for row in published]
    assert content(world.training(ctx)) == before


def test_many_writers_at_once_land_and_publish_each_row_once(world: World) -> None:
    """Two landers, then a scheduled run, a backfill and a cleared run of the same interval, all at once."""
    ctx, _ = prepared(world, seed=13)
    name = ctx.pipeline.name
    with ThreadPoolExecutor(3) as pool:
        landers = list(pool.map(lambda _: world.script("land", name), range(2)))
        assert [done.returncode for done in landers] == [DONE, DONE], [d.stderr[-1500:] for d in landers]

        def whole_run(run: str, mode: str) -> list[int]:
            codes = [world.script("join", name, "--run", run, "--interval", FIRST, "--mode", mode).returncode]
            if codes == [DONE]:
                codes.append(world.script("check", name, "--run", run).returncode)
                codes.append(world.script("publish", name, "--run", run).returncode)
            return codes

        runs = [("scheduled", "publish"), ("backfill", "republish"), ("cleared", "republish")]
        codes = list(pool.map(lambda r: whole_run(*r), runs))
    ends = [code[-1] for code in codes]
    assert set(ends) <= {DONE, NOTHING_TO_DO, ANOTHER_WRITER}, codes
    assert DONE in ends
    world.train(ctx, run="rest")
    check_against_oracle(world, ctx)


def test_the_same_events_produced_again_are_duplicates_and_change_no_row(world: World) -> None:
    """A producer that starts over: every event with an id comes twice, at other offsets."""
    ctx, records = prepared(world, seed=14)
    named = [r for r in records if r.value and b'_id": "' in r.value and b"2099" not in r.value]
    world.land(ctx)
    world.produce(sent(named))
    world.land(ctx)
    world.train(ctx)
    assert sum(row["left_duplicate"] for row in world.register(ctx)) > 30
    check_against_oracle(world, ctx)
