"""Kafka, Spark and Delta agree with the reference join on generated histories, however landing is sliced.

Candidates come to their payload in one of two ways (`windrow.io.training.ways`). tests/jobs/test_payload.py compares
them row by row, with `take`, `inner` and right streams of both roles; here each way meets the reference join. What
other tests and the scenarios have through Spark, these have from files.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from support.generated import (
    AFTER,
    BEFORE,
    COLUMNS,
    DISORDER,
    ENGAGEMENTS,
    KEY,
    PARTITIONS,
    PIPELINE,
    PRICED,
    READERS,
    SPAN,
    START,
    KafkaRecord,
    Reader,
    history,
    is_click,
    oracle_records,
    oracle_spec,
)
from support.oracle import PINS, expected, expected_rows, found_rows, sent
from support.world import World
from windrow.io.registers import canaries
from windrow.io.registers import measures as measured
from windrow.jobs.run import Context
from windrow.semantics.canary.pairs import Pair, pairs_of
from windrow.semantics.match import Mark
from windrow.semantics.plan import Plan
from windrow.semantics.records import Right, unreadable_for
from windrow.semantics.reference import event_clocks, side_of

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
from_files = pytest.mark.parametrize("either_way", ["files"], indirect=True)

LANDED_AT = START + SPAN + timedelta(minutes=35)
"""Late enough for every event, early enough that idling does not close weeks of empty intervals."""


def prepared(world: World, seed: int, pipeline: str = PIPELINE) -> tuple[Context, list[Any]]:
    ctx = world.pipeline(pipeline.replace("topic: t.", "topic: {t}."), now=LANDED_AT)
    world.topics({topic.removeprefix("t."): n for topic, n in PARTITIONS.items()})
    return ctx, history(seed)


@pytest.mark.usefixtures("compiled", "either_way")
@pytest.mark.parametrize(("seed", "slices", "either_way"), [(1, 1, "files"), (2, 3, "spark")], indirect=["either_way"])
def test_published_rows_are_those_of_the_reference_join(world: World, seed: int, slices: int) -> None:
    ctx, records = prepared(world, seed)
    size = -(-len(records) // slices)
    for n in range(slices):
        world.produce(sent(records[n * size : (n + 1) * size]))
        seen = world.land(ctx)
    rounds = world.train(ctx)
    assert not [why for one in rounds for why in one.blocked.values()]

    joined = expected(records, LANDED_AT, seen.frontier(ctx.pipeline))
    assert sum(len(one.rows) for one in joined.values()) > 40  # the history says something
    assert found_rows(world.training(ctx), world) == expected_rows(joined)
    register = {row["interval"]: row for row in world.register(ctx)}
    assert register.keys() == joined.keys()
    for start, one in joined.items():
        measures = {
            row["name"]: row["value"] for row in measured.of_plans(ctx.home, [Plan.from_json(register[start]["plan"])])
        }
        wanted = one.balance.measures()
        assert {name: measures[name] for name in wanted} == wanted
        assert measures["left_conflict"] == one.conflict["served"]
        assert measures["clicks.conflict"] == one.conflict["clicks"]


SEVERAL = PIPELINE.replace(
    "window: {before: 30s, after: 6m}\n", "window: {before: 30s, after: 6m}\n    take: last\n"
).replace(
    "grace: 1m",
    """\
  - name: soon
    role: feature
    topic: t.engagements
    where: "action = 'click'"
    columns: {event_id: string, user_id: bigint, item_id: bigint, action: string, engaged_at: timestamp, price: double}
    key: [user_id, item_id]
    event_time: engaged_at
    out_of_orderness: 1m
    window: {before: 2m, after: 3m}
    join: inner
  - name: ever
    role: label
    topic: t.engagements
    where: "action = 'click'"
    silence: negative
    columns: {event_id: string, user_id: bigint, item_id: bigint, action: string, engaged_at: timestamp, price: double}
    key: [user_id, item_id]
    event_time: engaged_at
    event_id: event_id
    out_of_orderness: 1m
    window: {before: 0s, after: 8m}
    take: first
grace: 1m""",
)
"""Three right streams on one topic: a label with take, a feature that must match, a label that may be silent.

The last two read a price too, which for a quarter of the records is no number: only they cannot read these.
"""
PRICED_READER = Reader(PRICED, is_click)
SEVERAL_READERS = {
    **READERS,
    ENGAGEMENTS: (*READERS[ENGAGEMENTS], PRICED_READER, replace(PRICED_READER, key=KEY)),
}


@from_files
@pytest.mark.usefixtures("compiled", "either_way")
def test_several_streams_inner_and_take_agree_with_the_reference_join(world: World) -> None:
    ctx, records = prepared(world, 6, SEVERAL)
    world.produce(sent(records))
    seen = world.land(ctx)
    world.train(ctx)

    def right(name: str, **rules: Any) -> Right:
        shared = {"topics": (ENGAGEMENTS,), "key": KEY, "where": is_click, "columns": frozenset(PRICED)}
        return Right(name=name, **{**shared, **rules})

    streams = (
        right(
            "clicks",
            before=BEFORE,
            after=AFTER,
            event_id="event_id",
            take="last",
            columns=frozenset(COLUMNS[ENGAGEMENTS]),
        ),
        right("soon", before=timedelta(minutes=2), after=timedelta(minutes=3), role="feature", join="inner"),
        right("ever", after=timedelta(minutes=8), event_id="event_id", silence="negative", take="first"),
    )
    landed = oracle_records(records, landed_at=LANDED_AT, readers=SEVERAL_READERS)
    spec = replace(oracle_spec(landed, PINS), right=streams)
    joined = expected(records, LANDED_AT, seen.frontier(ctx.pipeline), spec, SEVERAL_READERS)
    names = ("clicks", "soon", "ever")
    rows = expected_rows(joined)
    assert len(rows) > 5
    assert sum(one.balance.left.unpaired for one in joined.values()) > 5
    assert found_rows(world.training(ctx), world, names) == rows
    assert {row["label_reason"] for row in world.training(ctx)} >= {"label_quarantined", None}

    spoilt = [r for r in landed if not r.quarantined and any(unreadable_for(r, stream) for stream in streams)]
    assert len(spoilt) > 5
    assert sum(row["unreadable"] for row in seen.rows) == len(spoilt)
    register = {row["interval"]: row for row in world.register(ctx)}
    for start, one in joined.items():
        plan = Plan.from_json(register[start]["plan"])
        measures = {row["name"]: row["value"] for row in measured.of_plans(ctx.home, [plan])}
        wanted = one.balance.measures()
        assert {name: measures[name] for name in wanted} == wanted


@from_files
@pytest.mark.usefixtures("compiled", "either_way")
def test_canaries_are_left_out_and_counted_as_the_reference_does(world: World) -> None:
    """A quarter of the traffic is made canaries by the file alone; acknowledged are all pairs that one may think of."""
    ctx, records = prepared(world, 7, PIPELINE.replace("grace: 1m", "grace: 1m\ncanary: {keys: {user_id: [3, 3]}}"))
    mark = Mark((("user_id", (3, 3)),))
    world.produce(sent(records))
    seen = world.land(ctx)
    landed = oracle_records(records, landed_at=LANDED_AT)
    spec = oracle_spec(landed, PINS, canary=mark)
    spec = replace(spec, left=replace(spec.left, canary=mark))
    spec = replace(spec, event_clocks=event_clocks(landed, PINS, DISORDER, spec.streams))
    found = {c.event_clock(DISORDER[f"t.{c.topic.rpartition('.')[2]}"]) for c in seen.clocks}
    assert found == {clock for clocks in spec.event_clocks.values() for clock in clocks}

    served, clicks = (side_of(landed, stream, lambda at: True).canaries for stream in spec.streams)
    pairs = [
        Pair("clicks", s.order[0], ENGAGEMENTS, c.row_id.partition, c.row_id.offset, c.order[0])
        for s in served
        for c in clicks
    ]
    canaries.record(ctx.home, [{**vars(pair), "topic": f"{world.name}.engagements"} for pair in pairs])
    world.train(ctx)
    joined = expected(records, LANDED_AT, seen.frontier(ctx.pipeline), spec)
    assert sum(one.balance.left.canary for one in joined.values()) > 5
    assert sum(one.balance.right["clicks"].canary for one in joined.values()) > 5
    assert found_rows(world.training(ctx), world) == expected_rows(joined)
    register = {row["interval"]: row for row in world.register(ctx)}
    total = Counter()
    for start, one in joined.items():
        plan = Plan.from_json(register[start]["plan"])
        counted = pairs_of(pairs, landed, spec, plan.interval, PINS)["clicks"]
        wanted = {
            **one.balance.measures(),
            "canary_pairs.clicks": counted.sent,
            "canary_matched.clicks": counted.matched,
        }
        measures = {row["name"]: row["value"] for row in measured.of_plans(ctx.home, [plan])}
        assert {name: measures[name] for name in wanted} == wanted
        assert measures["canary_recall.clicks"] == counted.recall
        assert register[start]["left_canary"] == one.balance.left.canary
        total += Counter(sent=counted.sent, matched=counted.matched)
    assert total["sent"] > total["matched"] > 3


EXACT = {"note": "string", "paid": "decimal(38,2)"}
NUMBERS = ("1.10", "-0", "1e5", '"1.10"', "12.345", "99.5", "1e999999999", "[1.50]", "true", '"1,5"', "12.3400", "null")
"""Values that Spark's JSON reader would change, or take long to read, and others that look like them."""


@pytest.mark.usefixtures("compiled")
def test_landing_quarantines_what_the_reference_decoder_does(world: World) -> None:
    exact = ", ".join(f'{name}: "{kind}"' for name, kind in EXACT.items())
    pipeline = PIPELINE.replace("engaged_at: timestamp}", f"engaged_at: timestamp, {exact}}}")
    ctx, records = prepared(world, 4, pipeline)
    texts = [
        f'{{"user_id": 1, "item_id": 1, "action": "click", "engaged_at": "{START:%Y-%m-%dT%H:%M:%SZ}", {value}}}'
        for number in NUMBERS
        for value in (f'"note": {number}', f'"paid": {number}')
    ]
    first = sum((record.topic, record.partition) == (ENGAGEMENTS, 0) for record in records)
    records += [KafkaRecord(ENGAGEMENTS, 0, first + n, text.encode(), START) for n, text in enumerate(texts)]
    world.produce(sent(records))
    world.land(ctx)
    found = {
        (topic, row["_partition"], row["_offset"]): (
            row["_quarantined"],
            json.loads(row["_unreadable"] or "{}"),
            [row.get(name) for name in EXACT],
        )
        for topic in ("served", "engagements")
        for row in world.table(ctx, f"landing/{world.name}.{topic}")
    }
    clicks = Reader({**COLUMNS[ENGAGEMENTS], **EXACT}, is_click, KEY)
    expected_of = {
        (r.row_id.topic.removeprefix("t."), r.row_id.partition, r.row_id.offset): (
            r.quarantined,
            r.unreadable,
            [r.values.get(name) for name in EXACT],
        )
        for r in oracle_records(records, landed_at=LANDED_AT, readers={**READERS, ENGAGEMENTS: (clicks,)})
    }
    assert found == expected_of
    assert len({reason for reason, _, _ in found.values()}) > 4
    assert len({str(values) for _, _, values in found.values()}) > 12
