"""What fault tests share: a generated history on the broker, the oracle's answer, a reader that reads all the time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import psutil
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from support.generated import PARTITIONS, PIPELINE, SPAN, START, KafkaRecord, history
from support.oracle import expected, expected_rows, found_rows, sent
from support.world import World
from windrow.home import Home, Table
from windrow.io.delta import store
from windrow.io.registers import clocks
from windrow.jobs.run import Context
from windrow.semantics.intervals import EPOCH

WAITING = PIPELINE.replace("idle: {mode: caught_up, after: 5m}", "idle: {mode: wait}")
"""Only events move the clock, so that processes with the host's clock close the same intervals."""
FIRST = "2026-11-01T00:00:00Z"
LANDED_AT = START + timedelta(days=1)
EVERY = 2
"""Seconds between two reads of a whole table: a read takes a part of a core that the jobs lack."""
EVERYWHERE: dict[str, Iterable[int]] = {topic.removeprefix("t."): range(n) for topic, n in PARTITIONS.items()}


def prepared(world: World, seed: int, also: Iterable[Any] = (), text: str = WAITING) -> tuple[Context, list[object]]:
    """The pipeline and its topics with a history on them, `also` behind it, and events that close it all."""
    ctx = world.pipeline(text.replace("topic: t.", "topic: {t}."))
    world.topics({topic.removeprefix("t."): n for topic, n in PARTITIONS.items()})
    records = history(seed)
    world.produce([*sent(records), *also])
    # one event behind the history on every partition, so that each clock passes the last window's end
    world.produce(closing(START + SPAN + timedelta(minutes=20), EVERYWHERE))
    return ctx, records


def check_against_oracle(world: World, ctx: Context) -> None:
    frontier = clocks.observe(ctx.home).frontier(ctx.pipeline)
    joined = expected(landed_history(world, ctx), LANDED_AT, frontier)
    rows = expected_rows(joined)
    assert len(rows) > 40
    assert found_rows(world.training(ctx), world) == rows
    assert [r["number"] for r in world.register(ctx)] == list(range(1, len(world.register(ctx)) + 1))


def landed_history(world: World, ctx: Context) -> list[object]:
    """What was produced, closing events included, as the oracle takes it: read back from the broker."""
    records = []
    consumer = Consumer({"bootstrap.servers": ctx.places.kafka, "group.id": "check", "enable.auto.commit": False})
    for topic, partitions in PARTITIONS.items():
        name = f"{world.name}.{topic.removeprefix('t.')}"
        for p in range(partitions):
            end = consumer.get_watermark_offsets(TopicPartition(name, p), timeout=30)[1]
            consumer.assign([TopicPartition(name, p, 0)])
            left = end
            while left:
                for m in consumer.consume(left, timeout=10):  # it waits for as many, or for the time
                    at = EPOCH + timedelta(milliseconds=m.timestamp()[1])
                    records.append(KafkaRecord(topic, p, m.offset(), m.value(), at))
                    left -= 1
    consumer.close()
    return records


def joining(spark: SparkSession) -> dict[str, str]:
    """Environment variables with which a process has a session in the Spark of this one."""
    gateway = spark.sparkContext._gateway.gateway_parameters
    return {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}


def closing(at: datetime, partitions: dict[str, Iterable[int]]) -> list[Any]:
    """One event at `at` on each of these partitions, which matches nothing and moves their clocks."""
    stamp = at.isoformat().replace("+00:00", "Z")
    return [
        (topic, p, f'{{"{field}": "{stamp}", "action": "click", "user_id": 99, "item_id": 99}}'.encode(), at)
        for topic, field in (("served", "served_at"), ("engagements", "engaged_at"))
        for p in partitions[topic]
    ]


def until(condition: Callable[[], Any], what: str, seconds: float = 300) -> Any:
    """Wait until the condition is true, and return its value."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.05)
    return found


@contextmanager
def asleep(besides: psutil.Process | None = None) -> Iterator[psutil.Process]:
    """Yield the descendant of this process that has stopped itself at a named point; afterwards it continues.

    Args:
        besides: one that is not meant.
    """

    def look() -> psutil.Process | None:
        children = (p for p in psutil.Process().children(recursive=True) if p != besides)
        return next((p for p in children if p.status() == psutil.STATUS_STOPPED), None)

    found: psutil.Process = until(look, "a job to stop at its point")
    try:
        yield found
    finally:
        with suppress(psutil.NoSuchProcess):  # it was killed
            found.resume()


class Reader:
    """Reads the training table in a loop, with delta-rs and with Polars, and keeps what it saw of each interval.

    In the end it reads every version once, so that none is unread that came and went between two reads.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._stop = threading.Event()
        self.seen: set[tuple[datetime, tuple[int, ...], int]] = set()
        """Interval, its publications and its number of rows, as one read showed them."""
        self.reads = 0
        self.beside = 0
        """How many of them were made while the body ran."""

    def _loop(self) -> None:
        while not self._stop.wait(EVERY):
            if DeltaTable.is_deltatable(self._path):
                self._read()
        self.beside = self.reads
        for version in range(DeltaTable(self._path).version() + 1):
            self._read(version)

    def _read(self, version: int | None = None) -> None:
        if self.reads % 2:
            read = pl.scan_delta(self._path, version=version).select("_interval", "_publication").collect()
        else:
            arrow = DeltaTable(self._path, version).to_pyarrow_table(columns=["_interval", "_publication"])
            read = pl.DataFrame(pl.from_arrow(arrow))
        by_interval = read.group_by("_interval").agg(pl.col("_publication").unique(), pl.len().alias("rows"))
        self.seen |= {(r["_interval"], tuple(r["_publication"]), r["rows"]) for r in by_interval.to_dicts()}
        self.reads += 1

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Read while the body runs; whatever the loop raises is raised here."""
        failed: list[BaseException] = []

        def run() -> None:
            try:
                self._loop()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()
        assert not failed, failed

    def saw_whole_intervals(self, register: Iterable[dict[str, Any]]) -> None:
        """Every interval that was seen was seen as one publication, with all of its rows."""
        rows = {row["number"]: (row["interval"], row["rows"]) for row in register}
        assert self.beside > 0
        for interval, numbers, count in self.seen:
            assert len(numbers) == 1, f"{interval} was read with rows of publications {numbers}"
            assert rows[numbers[0]] == (interval, count)


def expire(home: Home, lock: Table) -> None:
    """End the lease of a lock, where it has one."""
    if lease := home.lock(lock).lease:
        _, tag = store.tagged(lease)
        assert store.replace(lease, b'{"until": "1970-01-01T00:00:00Z"}', tag)
