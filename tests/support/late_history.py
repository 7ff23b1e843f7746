"""A generated history in two parts: what comes in time, and what comes after its intervals were published.

early ─▶ landed, every interval published ─▶ late ─▶ landed: the ledger has lines, a rebuild changes rows
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from support.generated import PARTITIONS, PIPELINE, SPAN, START, KafkaRecord, history
from support.oracle import expected, expected_rows, found_rows, sent
from support.world import World
from windrow.io.registers import clocks
from windrow.jobs.run import Context

WAITING = PIPELINE.replace("idle: {mode: caught_up, after: 5m}", "idle: {mode: wait}").replace(
    "topic: t.", "topic: {t}."
)
"""Only events move the clock, so that every process closes the same intervals, whatever its host's clock says."""

FEW = WAITING.replace("interval: 5m", "interval: 10m")
"""Three closed intervals."""


def in_two_parts(
    seed: int, *, lefts: int = 60, closing: timedelta = timedelta(minutes=20)
) -> tuple[list[KafkaRecord], list[KafkaRecord]]:
    """Early and late records, with the offsets that they get when they are produced in this order.

    Every fifth record is late. The last of the early ones closes windows: one event on every partition, `closing`
    after the last left row.
    """
    whole = history(seed, lefts=lefts)
    late = whole[::5]
    early = [record for record in whole if record not in late]
    closed_at = START + SPAN + closing
    stamp = closed_at.isoformat().replace("+00:00", "Z")
    for topic, field in (("t.served", "served_at"), ("t.engagements", "engaged_at")):
        value = f'{{"{field}": "{stamp}", "action": "click", "user_id": 99, "item_id": 99}}'.encode()
        early += [KafkaRecord(topic, p, 0, value, closed_at) for p in range(PARTITIONS[topic])]
    offsets: dict[tuple[str, int], int] = {}
    numbered = []
    for record in [*early, *late]:
        at = offsets.setdefault((record.topic, record.partition), 0)
        offsets[record.topic, record.partition] += 1
        numbered.append(replace(record, offset=at))
    return numbered[: len(early)], numbered[len(early) :]


def prepared(world: World, text: str = FEW) -> Context:
    """The pipeline and its topics."""
    world.topics({topic.removeprefix("t."): n for topic, n in PARTITIONS.items()})
    return world.pipeline(text)


def landed(world: World, ctx: Context, records: list[KafkaRecord]) -> Any:
    """Produce and land; returns the clock."""
    world.produce(sent(records))
    return world.land(ctx)


def rows_are_the_reference_join(world: World, ctx: Context, records: list[KafkaRecord]) -> None:
    """Check that the training table is the reference join of all these records."""
    frontier = clocks.observe(ctx.home).frontier(ctx.pipeline)
    rows = expected_rows(expected(records, START + timedelta(days=1), frontier))
    assert len(rows) > 15
    assert found_rows(world.training(ctx), world) == rows
