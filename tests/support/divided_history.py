"""A history that is divided at random: what lands first is published, the rest lands later, in several batches.

`Paper` is the pure model of the same history: the late ledger that it must come to.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from support.generated import (
    DISORDER,
    PARTITIONS,
    PIPELINE,
    SPAN,
    START,
    KafkaRecord,
    oracle_records,
    oracle_spec,
)
from support.oracle import sent
from support.world import World
from windrow.io.ledger import table as ledger_table
from windrow.io.registers import clocks, publications
from windrow.jobs.run import Context
from windrow.semantics.ledger import Line, Newer, apply, ledger
from windrow.semantics.plan import Plan
from windrow.semantics.records import JoinSpec, Record, RowId
from windrow.semantics.reference import Joined, landed_once, reference_join
from windrow.transforms.ledger import reading

MINUTE = timedelta(minutes=1)
LANDED_AT = START + SPAN + 35 * MINUTE


def prepared(world: World, pipeline: str = PIPELINE) -> Context:
    ctx = world.pipeline(pipeline.replace("topic: t.", "topic: {t}."), now=LANDED_AT)
    world.topics({topic.removeprefix("t."): n for topic, n in PARTITIONS.items()})
    return ctx


def divided(records: Iterable[KafkaRecord], seed: int, shares: Sequence[float]) -> list[list[KafkaRecord]]:
    """The records in batches, at random by these shares, with the offsets that they get in that order."""
    rng = random.Random(seed)
    batches: list[list[KafkaRecord]] = [[] for _ in shares]
    for record in records:
        batches[rng.choices(range(len(shares)), shares)[0]].append(record)
    offsets: Counter[tuple[str, int]] = Counter()
    for batch in batches:
        for n, record in enumerate(batch):
            place = (record.topic, record.partition)
            batch[n] = replace(record, offset=offsets[place])
            offsets[place] += 1
    return batches


class Paper:
    """The same history in the pure model: what the ledger must contain."""

    def __init__(self, world: World, ctx: Context, batches: Sequence[Sequence[KafkaRecord]], spec: JoinSpec) -> None:
        self.world, self.ctx, self.spec = world, ctx, spec
        everything = [record for batch in batches for record in batch]
        numbers = [n for n, batch in enumerate(batches, 1) for _ in batch]
        self.records = oracle_records(everything, batches=numbers, landed_at=LANDED_AT)
        self.erased: set[RowId] = set()

    def joined(self, plan: Plan, pins: dict[str, int], records: list[Record]) -> Joined:
        clocks_at = oracle_spec(self.records, pins).event_clocks  # the clock does not go back for a deletion
        return reference_join(records, replace(self.spec, event_clocks=clocks_at), plan.interval, pins)

    def lines(self) -> dict[datetime, tuple[Joined, Joined, tuple[Line, ...]]]:
        """By interval: published, rebuilt at the newest pins, and the ledger between them."""
        seen = clocks.observe(self.ctx.home)
        now = self.pins(seen.pins)
        left_over = [r for r in self.records if r.row_id not in self.erased]
        landed = {r.row_id: r for r in landed_once(left_over, now)[0]}
        found = {}
        for row in publications.standing(self.world.register(self.ctx)).values():
            plan = Plan.from_json(row["plan"])
            then = self.pins(plan.pins)
            published, rebuilt = self.joined(plan, then, self.records), self.joined(plan, now, left_over)
            newer = Newer(
                landed,
                then,
                {(topic, n): LANDED_W for topic in PARTITIONS for n in range(2, 9)},
                {(self.plain(c.topic), c.epoch, c.partition): c.event_clock(DISORDER[self.plain(c.topic)])
                 for c in plan.watermark},
                DISORDER,
            )  # fmt: skip
            found[plan.interval.start] = (published, rebuilt, ledger(published, rebuilt, self.spec, newer))
        return found

    def pins(self, pins: Any) -> dict[str, int]:
        return {self.plain(topic): batch for topic, batch in pins.items()}

    def plain(self, topic: str) -> str:
        return topic.replace(f"{self.world.name}.", "t.")

    def check(self) -> Counter[str]:
        """Compare the table with the model, line by line; return how often each kind occurs."""
        wanted, kinds = [], Counter[str]()
        for start, (published, rebuilt, lines) in self.lines().items():
            assert apply(published.rows, lines) == rebuilt.rows
            wanted += [self.expected(start, line) for line in lines]
            kinds.update(line.kind for line in lines)
            kinds.update(f"cause {line.cause}" for line in lines if line.cause)
            kinds.update("flip" for line in lines if line.state and line.state[0][0] != line.state[1][0])
        lines = ledger_table.lines(self.ctx.home).to_dicts()
        assert in_order(self.found(line) for line in lines) == in_order(wanted)
        return kinds

    def expected(self, start: datetime, line: Line) -> dict[str, Any]:
        states = [part for state in line.state or ((None, None), (None, None)) for part in state]
        return {
            "interval": start,
            "kind": line.kind,
            "row": line.row_id,
            "gone": line.gone,
            "stream": line.stream,
            "appeared": line.appeared.row_id if line.appeared else None,
            "vanished": line.vanished.row_id if line.vanished else None,
            "states": states,
            "missed_by": line.missed_by,
            "cause": line.cause,
        }

    def found(self, line: dict[str, Any]) -> dict[str, Any]:
        return {
            "interval": line["interval"],
            "kind": line["kind"],
            "row": self.row_id(line, ""),
            "gone": self.row_id(line, "gone_"),
            "stream": line["stream"],
            "appeared": self.row_id(line, "appeared_"),
            "vanished": self.row_id(line, "vanished_"),
            "states": [line[f"{part}_{when}"] for when in ("before", "after") for part in ("state", "reason")],
            "missed_by": reading.missed_by(line),
            "cause": line["cause"],
        }

    def row_id(self, line: dict[str, Any], prefix: str) -> RowId | None:
        topic = line[f"{prefix}topic"]
        names = ("epoch", "partition", "offset")
        return None if topic is None else RowId(self.plain(topic), *(line[f"{prefix}{n}"] for n in names))


LANDED_W = LANDED_AT - 6 * MINUTE
"""All has landed at one moment, and every partition was caught up: idling had brought W here."""


def in_order(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(lines, key=repr)


def lived(world: World, ctx: Context, batches: Sequence[Sequence[KafkaRecord]], spec: JoinSpec) -> Paper:
    """Land and publish the first batch; return the history on paper."""
    world.produce(sent(batches[0]))
    world.land(ctx)
    world.train(ctx)
    return Paper(world, ctx, batches, spec)
