"""Landing: topics that change, offsets that are gone, and clocks that idle, wait or never start."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from deltalake import DeltaTable

from support.broken.faults import until
from support.side_by_side import Killed, doomed_landing, faults
from support.small_pipeline import IDLING, PIPELINE, START, at, delete, event, made, recreate
from support.world import World
from windrow.config import Pipeline, parse
from windrow.home import Table
from windrow.io.delta import lookup
from windrow.io.landing import batches, broker, log, present
from windrow.io.registers import clocks
from windrow.jobs import land
from windrow.jobs.landing import batch
from windrow.jobs.landing.batch import account_for, counts_in
from windrow.outcomes import ExitCode, exit_code
from windrow.semantics.balance import BalanceBroken
from windrow.semantics.clock import NotCaughtUp
from windrow.semantics.landing import spread
from windrow.semantics.landing.clock_rows import undelivered, with_retention
from windrow.semantics.landing.host_clock import ClockAhead, ClockWentBack
from windrow.semantics.landing.offsets import OffsetsGone
from windrow.semantics.landing.replaced import A_MARKER
from windrow.semantics.landing.undelivered import Account
from windrow.transforms.landed import pieces_of
from windrow.transforms.training import schema_differences, types_of

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_every_partition_is_on_the_clock_also_those_that_never_had_a_record(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 3, "likes": 1})
    world.produce([event("served", 0, 100), event("served", 1, 50), event("likes", 0, 400)])
    seen = world.land(ctx)
    assert len(seen.clocks) == 4
    assert seen.watermark is None  # partition 2 is empty and `wait` holds
    assert {(row["oldest_offset"], row["retention_s"]) for row in seen.rows} == {(0, None)}  # it keeps everything
    world.produce([event("served", 2, 500)])
    assert world.land(ctx).watermark == at(50 - 10)  # the slowest partition of the slowest side


def test_the_rows_of_uneven_partitions_are_spread_evenly_over_the_cores(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "LEAST_PER_TASK", 100)
    ctx = made(world, PIPELINE, {"served": 3, "likes": 1})
    world.produce([event("served", 0 if n % 20 else 1 + n // 20 % 2, n / 100) for n in range(2_000)])
    world.land(ctx)
    files = pa.table(DeltaTable(ctx.home.landing(f"{world.name}.served")).get_add_actions(flatten=True))
    assert sorted(files["num_records"].to_pylist()) == pytest.approx([1_000, 1_000], rel=0.2)  # two cores
    assert (
        len({(row["_partition"], row["_offset"]) for row in world.table(ctx, f"landing/{world.name}.served")}) == 2_000
    )


def test_an_error_of_the_broker_does_not_end_the_process(world: World) -> None:
    """The client aborts a process in which its own thread drops it last, as it did with the trace of an error."""
    for _ in range(60):
        with pytest.raises(broker.TopicMissing):
            broker.describe(world.places.kafka, [f"{world.name}.missing"])


def test_partitions_whose_leaders_are_not_known_yet_are_asked_again(world: World) -> None:
    world.topics({"many": 120})  # the broker answers questions about it while it makes them

    def described() -> broker.Topic | None:
        try:
            return broker.describe(world.places.kafka, [f"{world.name}.many"])[f"{world.name}.many"]
        except broker.TopicMissing:
            return None

    found = until(described, "the broker to know the topic")
    assert {(one.begin, one.end) for one in found.partitions} == {(0, 0)}


def test_the_retention_of_a_topic_is_known_where_it_deletes_by_age(world: World) -> None:
    world.topics({"an_hour": 1}, retention_ms="3600000")
    world.topics({"for_ever": 1}, retention_ms=str(2**63 - 1))
    world.topics({"compacted": 1}, retention_ms="3600000", cleanup_policy="compact")
    names = [f"{world.name}.{topic}" for topic in ("an_hour", "for_ever", "compacted")]
    found = broker.describe(world.places.kafka, names)
    hour, ever, compacted = (found[name] for name in names)
    assert hour.retention == timedelta(hours=1)
    assert ever.retention is not None  # too long for a timedelta
    assert ever.retention > timedelta(days=365_000)
    assert compacted.retention is None
    rows = [{"partition": 0, "topic": names[0]}]
    assert with_retention(rows, hour) == [{**rows[0], "oldest_offset": 0, "retention_s": 3_600.0}]


def test_an_idle_partition_follows_the_landing_time_only_when_it_is_caught_up(world: World) -> None:
    ctx = made(world, IDLING, {"served": 2, "likes": 1}, now=1_000)
    world.produce([event("served", 0, 900), event("likes", 0, 990)])
    seen = world.land(ctx)
    clock = {(c.topic.rpartition(".")[2], c.partition): c.clock_at for c in seen.clocks}
    assert clock["served", 1] == at(1_000 - 180 - 10)
    assert clock["served", 0] == at(900 - 10)
    assert clock["likes", 0] == at(990 - 5)
    assert world.land(replace(ctx, now=lambda: at(950))).watermark == seen.watermark  # a host clock that steps back


def test_a_host_clock_that_went_back_lands_nothing_until_it_is_right_or_trusted(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1}, now=1_000)
    world.produce([event("served", 0, 900), event("likes", 0, 900)])
    seen = world.land(ctx)
    world.produce([event("served", 0, 990)])
    back = replace(ctx, now=lambda: at(900))
    with pytest.raises(ClockWentBack, match=r"1m 40s before the last landing.*--trust-clock"):
        world.land(back)
    assert clocks.observe(ctx.home).number == seen.number
    assert len(world.table(ctx, f"landing/{world.name}.served")) == 1
    trusted = next(land.land(back, trust_clock=True)).after
    assert {row["landed_at"] for row in trusted.rows} == {at(900)}
    assert [row["quarantined"] for row in trusted.of_topic(f"{world.name}.served")] == [1]  # the person said so
    assert world.land(back).number == trusted.number + 1  # from now on this clock is the one to go by


def test_a_host_clock_ahead_of_the_brokers_lands_nothing_and_lets_nothing_idle_until_it_is_right_or_trusted(
    world: World, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_broker = broker.clock(spark, world.places.kafka)
    assert at_broker is not None
    assert abs(datetime.now(UTC) - at_broker) < timedelta(seconds=10)
    ctx = made(world, IDLING, {"served": 1, "likes": 1}, now=1_000)
    world.produce([event("served", 0, 900), event("likes", 0, 900)])
    seen = world.land(ctx)
    ahead = replace(ctx, now=lambda: at(8_200))
    monkeypatch.setattr(land, "host_time", lambda: datetime.now(UTC) + timedelta(hours=2))
    with pytest.raises(ClockAhead, match=r"which is (2h|1h 59m .*) behind it.*--trust-clock") as refused:
        world.land(ahead)
    assert exit_code(refused.value) == ExitCode.NOT_READY
    assert clocks.observe(ctx.home) == seen
    trusted = next(land.land(ahead, trust_clock=True)).after  # the broker's clock was wrong
    assert trusted.watermark == at(8_200 - 180 - 10)


def test_nothing_new_makes_no_batch_and_looks_at_the_clock_again(world: World) -> None:
    ctx = made(world, IDLING, {"served": 1, "likes": 1}, now=1_000)
    world.produce([event("served", 0, 10), event("likes", 0, 10)])
    landed = next(land.land(ctx))
    counts = land.by_topic(landed)
    assert [(counts[name]["read"], counts[name]["landed"]) for name in ctx.pipeline.topics] == [(1, 1), (1, 1)]
    first = landed.after
    later = world.land(replace(ctx, now=lambda: at(2_000)))
    opened = [lookup.opened(ctx.home.landing(topic)) for topic in ctx.pipeline.topics]
    sizes = [sum(table.files["size_bytes"].to_pylist()) for table in opened if table is not None]
    assert [row["bytes"] for row in first.rows] == [row["bytes"] for row in later.rows] == sizes
    assert later.pins == first.pins
    assert later.number == first.number + 1
    assert later.watermark == at(2_000 - 180 - 10)


def test_an_event_ahead_of_its_time_is_quarantined_and_moves_no_clock(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1}, now=1_000)
    ahead = (datetime(2099, 1, 1, tzinfo=UTC) - START).total_seconds()
    skewed = [event("served", 0, 1_060), event("served", 0, 1_060.000001), event("served", 0, ahead)]
    world.produce([event("likes", 0, 1_000), *skewed, event("served", 0, -1e9)])
    seen = world.land(ctx)
    assert seen.watermark == at(995)
    rows = world.table(ctx, f"landing/{world.name}.served")
    assert [r["_quarantined"] for r in sorted(rows, key=lambda r: r["_offset"])] == [
        None,
        "event_time_ahead",
        "event_time_ahead",
        None,
    ]
    assert sum(row["before_start"] for row in seen.rows) == 1


def test_where_the_broker_stamps_records_its_stamp_decides_what_is_ahead(world: World) -> None:
    """An event time two minutes ahead of the append time is not trusted, also when it lands a day later."""
    now = (datetime.now(UTC) - START).total_seconds()
    ctx = made(world, PIPELINE, {"likes": 1}, now=now + 86_400)
    world.topics({"served": 1}, message_timestamp_type="LogAppendTime")
    ahead = [event("served", 0, now + 120, name="ahead"), event("served", 0, now - 5, name="fine")]
    world.produce([*ahead, event("likes", 0, now + 120)])
    seen = world.land(ctx)
    rows = {r["id"]: r["_quarantined"] for r in world.table(ctx, f"landing/{world.name}.served")}
    assert rows == {"ahead": "event_time_ahead", "fine": None}
    assert {r["_quarantined"] for r in world.table(ctx, f"landing/{world.name}.likes")} == {None}  # its own stamp
    assert seen.watermark == at(now - 5 - 10)


def test_a_topic_created_again_is_another_epoch_and_its_offsets_are_other_rows(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("served", 0, 60, name="old"), event("likes", 0, 900)])
    first = world.land(ctx)
    admin = AdminClient({"bootstrap.servers": world.places.kafka})
    for future in admin.delete_topics([f"{world.name}.served"]).values():
        future.result(30)
    recreate(world)
    world.produce([event("served", 0, 70, name="new"), event("served", 0, 900, name="end")])
    seen = world.land(ctx)
    rows = world.table(ctx, f"landing/{world.name}.served")
    assert {(r["_epoch"], r["_offset"], r["id"]) for r in rows} == {(0, 0, "old"), (1, 0, "new"), (1, 1, "end")}
    assert seen.watermark is not None
    assert first.watermark is not None
    assert seen.watermark >= first.watermark
    world.train(ctx)
    assert [r["id"] for r in world.training(ctx)] == ["old", "new"]


def test_added_partitions_are_read_from_their_start_and_begin_at_the_topics_clock(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("served", 0, 600), event("likes", 0, 900)])
    first = world.land(ctx)
    admin = AdminClient({"bootstrap.servers": world.places.kafka})
    for future in admin.create_partitions([NewPartitions(f"{world.name}.served", 2)]).values():
        future.result(30)
    until_known(world, partitions=2)
    world.produce([event("served", 1, 100, name="late"), event("served", 0, 1_200)])
    seen = world.land(ctx)
    assert len(seen.of_topic(f"{world.name}.served")) == 2
    assert seen.watermark == first.watermark  # the new partition starts there and does not move W back
    assert "late" in {r["id"] for r in world.table(ctx, f"landing/{world.name}.served")}


def until_known(world: World, partitions: int) -> None:
    import time

    deadline = time.monotonic() + 30
    name = f"{world.name}.served"
    while len(broker.describe(world.places.kafka, [name])[name].partitions) < partitions:
        assert time.monotonic() < deadline


def test_offsets_that_the_broker_deleted_fail_the_landing_and_are_named(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("served", 0, n) for n in range(3)] + [event("likes", 0, 1)])
    before = world.land(ctx)
    world.produce([event("served", 0, n) for n in range(3, 10)])
    delete(world, "served", 6)
    with pytest.raises(OffsetsGone, match=r"served partition 0: offsets \[3, 6\) are gone"):
        world.land(ctx)
    assert clocks.observe(ctx.home) == before


def test_a_topic_that_fails_does_not_keep_the_others_from_landing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics are landed one at a time here: the first fails while the last waits for its turn."""
    monkeypatch.setattr(land, "TOPICS_AT_ONCE", 1)
    likes = PIPELINE[PIPELINE.index("  - name: likes") : PIPELINE.index("grace:")]
    text = PIPELINE.replace("grace:", likes.replace("likes", "saves") + "grace:")
    ctx = made(world, text, {"served": 1, "likes": 1, "saves": 1})
    world.produce([event(topic, 0, 1) for topic in ("likes", "saves", "served")])
    before = world.land(ctx)
    world.produce([event("likes", 0, n) for n in range(2, 5)] + [event("saves", 0, 2)])
    world.produce([event("served", 0, n) for n in range(2, 7)])
    delete(world, "likes", 3)
    with pytest.raises(OffsetsGone, match=r"likes partition 0: offsets \[1, 3\) are gone"):
        world.land(ctx)
    landed = [DeltaTable(ctx.home.landing(topic)).to_pyarrow_table() for topic in ctx.pipeline.topics]
    assert [table.num_rows for table in landed] == [1, 2, 6]
    assert clocks.observe(ctx.home) == before


def test_aborted_records_never_land_and_markers_are_no_gap(
    world: World, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    monkeypatch.setattr(batch, "pieces_of", partial(pieces_of, most=1))
    producer = Producer({"bootstrap.servers": world.places.kafka, "transactional.id": world.name})
    producer.init_transactions(30)
    for keep, name in ((True, "kept"), (False, "aborted"), (True, "kept too")):
        producer.begin_transaction()
        for seconds in (1, 2):
            _, partition, value, _ = event("served", 0, seconds, name=name)
            producer.produce(f"{world.name}.served", value, partition=partition)
        producer.flush(30)  # aborted records reach the broker too
        producer.commit_transaction(30) if keep else producer.abort_transaction(30)
    world.produce([event("likes", 0, 1)])
    seen = world.land(ctx)
    rows = world.table(ctx, f"landing/{world.name}.served")
    assert sorted(r["id"] for r in rows) == ["kept", "kept", "kept too", "kept too"]
    (served,) = seen.of_topic(f"{world.name}.served")
    assert (served["read"], served["landed"], served["skipped"]) == (9, 4, 5)
    assert seen.clocks[1].caught_up

    producer.begin_transaction()  # a range of aborted records and a marker only
    producer.produce(f"{world.name}.served", b"{}", partition=0)
    producer.flush(30)
    producer.abort_transaction(30)
    topic = f"{world.name}.served"
    with faults(), doomed_landing({topic: "land.after_commit"}), pytest.raises(Killed):
        world.land(ctx)  # killed before its undelivered offsets are explained
    monkeypatch.setattr(log, "FETCH_BYTES", 1)  # every fetch brings one batch
    seen = world.land(ctx)
    (served,) = seen.of_topic(topic)
    assert (served["read"], served["landed"], served["skipped"], served["quarantined"]) == (11, 4, 7, 0)
    assert (served["unexplained"], seen.gaps) == (0, ())
    assert len(world.table(ctx, f"landing/{world.name}.served")) == 4
    known = [batches.committed(ctx.home.landing(name), 1) for name in ctx.pipeline.topics]
    assert [one.account for one in known if one] == [None, Account(1, {0: 5}, {0: 0})]  # nothing to explain, no commit

    delete(world, "served", 11)  # what the broker showed is on record: it is not asked again
    shutil.rmtree(ctx.home.table(Table.CLOCK))
    counts = ("read", "landed", "skipped", "unexplained", "gap")
    assert [served[name] for name in counts] == [world.land(ctx).of_topic(topic)[0][name] for name in counts]
    known_topic = broker.describe(world.places.kafka, [topic])[topic]
    with closing(log.Log(spark, world.places.kafka, known_topic)) as shown:
        assert shown.batches(0, [(9, 11)]) == []  # it has deleted them
        with pytest.raises(log.LogUnreadable, match=r"requested offset is not within the range.*run again"):
            shown.batches(0, [(20, 21)])


def test_an_offset_is_looked_at_as_it_is_now(world: World, spark: Any) -> None:
    """A record, a marker, and a record that retention deleted."""
    made(world, PIPELINE, {"served": 3})
    world.produce([event("served", p, 10 + n) for p in range(3) for n in range(2)])
    producer = Producer({"bootstrap.servers": world.places.kafka, "transactional.id": world.name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(f"{world.name}.served", b"{}", partition=1)
    producer.commit_transaction(30)
    delete(world, "served", 1)
    served = broker.describe(world.places.kafka, [f"{world.name}.served"])[f"{world.name}.served"]
    assert present.at(spark, world.places.kafka, served, {0: 0, 1: 3, 2: 1}) == {1: A_MARKER, 2: at(11)}
    assert present.at(spark, world.places.kafka, served, {0: 1}) == {0: at(11)}
    assert present.at(spark, world.places.kafka, served, {}) == {}


def test_records_of_an_open_transaction_are_lag_until_their_producer_ends_it(world: World) -> None:
    """An empty partition with nothing but an open transaction is not idle, and a drain does not pass it over."""
    ctx = made(world, IDLING, {"served": 1, "likes": 2}, now=1_000)
    world.produce([event("served", 0, 900), event("likes", 0, 900)])
    producer = Producer({"bootstrap.servers": world.places.kafka, "transactional.id": world.name})
    producer.init_transactions(30)
    producer.begin_transaction()
    _, partition, value, _ = event("likes", 1, 910)
    producer.produce(f"{world.name}.likes", value, partition=partition)
    producer.flush(30)
    seen = world.land(ctx)
    held = next(clock for clock in seen.clocks if clock.topic.endswith("likes") and clock.partition == 1)
    assert (held.clock_at, held.lag) == (None, 1)
    assert seen.watermark is None
    with pytest.raises(NotCaughtUp, match=r"likes/1 at 0 of 1"):
        world.train(ctx, run="drain", drain=True)
    producer.commit_transaction(30)
    with pytest.raises(NotCaughtUp, match=r"likes/1 at 0 of 1"):  # the clock of the last landing
        world.train(ctx, run="drain", drain=True)
    seen = world.land(ctx)
    assert all(clock.caught_up for clock in seen.clocks)
    assert len(world.table(ctx, f"landing/{world.name}.likes")) == 2


def test_a_missing_topic_and_a_missing_broker_are_named_and_move_nothing(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1})
    with pytest.raises(broker.TopicMissing, match=r"likes' does not exist"):
        world.land(ctx)
    nowhere = replace(ctx, places=replace(ctx.places, kafka="127.0.0.1:9"))
    with pytest.raises(broker.BrokerUnreachable, match=r"no answer from Kafka at 127\.0\.0\.1:9"):
        world.land(nowhere)
    assert clocks.observe(ctx.home).number == -1


def test_a_drain_closes_everything_and_is_the_reason_of_its_labels(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("served", 0, 30, key=1), event("served", 0, 90, key=2), event("likes", 0, 31, key=1)])
    world.land(ctx)
    assert world.train(ctx) == []
    world.train(ctx, run="drain", drain=True)
    found = [(r["k"], r["label_state"], r["label_reason"], r["liked"]) for r in world.training(ctx)]
    assert found == [(1, "positive", "drained", True), (2, "negative", "drained", False)]


def test_a_drain_asks_the_broker_for_records_of_which_the_last_landing_did_not_know(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("served", 0, 30), event("likes", 0, 5)])
    world.land(ctx)
    world.produce([event("likes", 0, 31)])
    with pytest.raises(NotCaughtUp, match=r"likes/0 at 1 of 2.*Land them, then drain again"):
        world.train(ctx, run="drain", drain=True)
    assert world.register(ctx) == []
    world.land(ctx)
    world.train(ctx, run="drain", drain=True)
    assert [row["label_state"] for row in world.training(ctx)] == ["positive"]


TIMES = {
    "2026-11-01T00:00:01Z": 1.0,
    "2026-11-01 00:00:02.5": 2.5,
    "2026-11-01T05:30:03+05:30": 3.0,
    "2026-11-01t00:00:04.000005z": 4.000005,
    "2026-11-01T05:00:05+05": 5.0,
    1793491206: 6.0,
    1793491207.25: 7.25,
    1793491208000: None,  # milliseconds
    "12:30": None,
    "2026": 2026 - 1793491200,  # a number, quoted or not, is of seconds
    "yesterday": None,
    "0000-01-01T00:00:00Z": None,
    "10000-01-01T00:00:00Z": None,
    "-62200000000": None,
}
"""Event time as a producer may write it → seconds after START, or None: quarantined."""


def test_every_way_to_write_an_instant_is_understood_or_quarantined(world: World) -> None:
    import json

    ctx = made(world, PIPELINE, {"served": 1, "likes": 1}, now=1_000)
    values = [json.dumps({"id": "x", "k": 1, "t": time}).encode() for time in TIMES]
    world.produce([("served", 0, value, START) for value in values])
    world.land(ctx)
    rows = sorted(world.table(ctx, f"landing/{world.name}.served"), key=lambda r: r["_offset"])
    found = [(r["_event_time"] - START).total_seconds() if r["_event_time"] else None for r in rows]
    assert dict(zip(TIMES, found, strict=True)) == TIMES
    assert {r["_quarantined"] for r in rows if r["_event_time"] is None} <= {"wrong_type", "event_time_ahead"}


GOOD = '{"id": "x", "k": 1, "t": "2026-11-01T00:00:01Z"}'


def test_the_where_of_the_left_stream_is_not_asked_of_a_right_topic(world: World) -> None:
    """Its columns need not be there."""
    columns = "{id: string, k: bigint, t: timestamp}\n  key"
    assert columns in PIPELINE
    left = f"{columns.replace('}', ', kind: string}')}".replace("\n  key", "\n  where: \"kind = 'feed'\"\n  key")
    ctx = made(world, PIPELINE.replace(columns, left, 1), {"served": 1, "likes": 1})
    world.produce([event("served", 0, 1), event("likes", 0, 2)])
    seen = world.land(ctx)
    assert sum(row["landed"] for row in seen.rows) == 2


def test_text_that_is_not_one_json_object_is_malformed(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1}, now=1_000)
    broken = [
        GOOD + " and more",
        GOOD + "} and more",
        GOOD + GOOD,
        GOOD + "," + GOOD,
        GOOD + ',"x":2',
        GOOD + ' ,"end":5',
        'null,"row":' + GOOD,
        "null",
        "[" + GOOD + "]",
        "",
        GOOD[:-1],
        GOOD.replace("x", "x\x01"),
        GOOD[:-1] + ',"k":2}',  # the same name twice
        GOOD[:-1] + ',"more":[{"a":1,"b":{"a":2},"a":1}]}',
        GOOD.replace('"', "'"),
    ]
    world.produce([("served", 0, text.encode(), START) for text in [GOOD, *broken]])
    world.land(ctx)
    rows = sorted(world.table(ctx, f"landing/{world.name}.served"), key=lambda r: r["_offset"])
    assert [r["_quarantined"] for r in rows] == [None, *["malformed"] * len(broken)]
    assert bytes(rows[1]["_raw"]) == broken[0].encode()


UNUSUAL = (
    PIPELINE.replace(
        "{id: string, k: bigint, t: timestamp}\n  key: [k]",
        "{t: timestamp, key: boolean, value: binary, timestamp: double, order: 'map<string,int>', "
        "topic: 'struct<a:int,b:array<string>>'}\n  key: [key]",
    )
    .replace(
        "{id: string, k: bigint, t: timestamp}\n    key: [k]",
        "{t: timestamp, yes: boolean, offset: 'decimal(10,2)'}\n    key: [yes]",
    )
    .replace("liked:", 'first: "likes[0].offset", share: "10 / (timestamp - 1)", liked:')
)


def load_text(text: str, world: World) -> Pipeline:
    return parse(text.replace("{t}", world.name), expectations=world.places.expectations)


def test_columns_of_unusual_names_and_types_come_through(world: World, spark: Any) -> None:
    """Names of Kafka's columns and of SQL, a boolean key, a map; a label whose expression fails for a row is null."""
    import json

    ctx = made(world, UNUSUAL, {"served": 1, "likes": 1})
    served = [
        {"t": "2026-11-01T00:00:01Z", "key": True, "value": "aGk=", "timestamp": 1.0, "order": {"a": 1}},
        {"t": "2026-11-01T00:00:02Z", "key": False, "timestamp": 3.0, "topic": {"a": 7, "b": ["x", None]}},
        {"t": "2026-11-01T00:20:00Z", "key": True, "timestamp": 1.0},
    ]
    likes = [
        {"t": "2026-11-01T00:00:09Z", "yes": True, "offset": 12.5},
        {"t": "2026-11-01T00:20:00Z", "yes": True, "offset": 1},
    ]
    world.produce([("served", 0, json.dumps(row).encode(), START) for row in served])
    world.produce([("likes", 0, json.dumps(row).encode(), START) for row in likes])
    world.land(ctx)
    world.train(ctx)
    measured = {r["value"] for r in world.table(ctx, "measures") if r["name"] == "schema_differences"}
    assert measured == {0.0}  # also for a map, a struct, a decimal in an array
    other = load_text(UNUSUAL.replace("timestamp: double", "timestamp: float"), world)
    written = spark.read.format("delta").load(ctx.places.table("small", "candidates"))
    assert schema_differences(types_of(written.schema), other) == 1
    first, second = world.training(ctx)
    assert (first["key"], bytes(first["value"]), first["timestamp"], first["order"]) == (True, b"hi", 1.0, [("a", 1)])
    assert (first["liked"], str(first["first"]), first["share"]) == (True, "12.50", None)
    assert (second["topic"], second["liked"], second["first"], second["share"]) == (
        {"a": 7, "b": ["x", None]},
        False,
        None,
        5.0,
    )


def test_a_batch_that_holds_fewer_rows_than_were_delivered_is_never_clocked(world: World, spark: Any) -> None:
    """The same batch, checked against one record more than it holds."""
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("served", 0, n) for n in range(5)] + [("served", 0, b"{", START), event("likes", 0, 1)])
    world.land(ctx)
    path = ctx.home.landing(f"{world.name}.served")
    found = batches.committed(path, 1)
    assert found is not None
    batch, written, _ = found
    assert written == 6  # the number that Spark reported; a repair after a kill checks against it
    counted = counts_in(spark, ctx.home, batch, written)
    assert (counted[0].landed, counted[0].quarantined) == (5, 1)
    with pytest.raises(BalanceBroken, match="holds 6 rows, but 7 records were delivered"):
        counts_in(spark, ctx.home, batch, written + 1)

    DeltaTable(path).delete("_offset = 3")  # and against the broker's log, where the commit does not count its rows
    counted = counts_in(spark, ctx.home, batch, None)
    assert undelivered(batch, counted) == {0: 1}
    topic = broker.describe(world.places.kafka, [batch.topic])[batch.topic]
    with pytest.raises(BalanceBroken, match=r"the broker has the records at offsets \[3, 4\), and the landing table"):
        account_for(spark, ctx.home, topic, batch, (), undelivered(batch, counted))
