"""The late ledger on Spark is that of the pure model, however often it is extended, and nothing is left out of it.

A history is divided at random: what lands first is published, the rest lands after that, in several batches. The
division heeds no out-of-orderness, so rows of every kind are late.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from support.divided_history import LANDED_AT, Paper, divided, in_order, lived, prepared
from support.generated import (
    AFTER,
    BEFORE,
    PIPELINE,
    history,
    is_click,
    oracle_records,
    oracle_spec,
)
from support.oracle import sent
from support.side_by_side import Killed, dying, faults
from support.world import World
from windrow.io.ledger import table as ledger_table
from windrow.jobs import ledger as job
from windrow.jobs.run import Context
from windrow.semantics.records import Right

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_the_ledger_is_that_of_the_model_and_several_extensions_are_one(world: World) -> None:
    ctx = prepared(world)
    batches = divided(history(28), 21, (0.7, 0.1, 0.1, 0.1))
    records = oracle_records([r for batch in batches for r in batch], landed_at=LANDED_AT)
    paper = lived(world, ctx, batches, oracle_spec(records, {"t.served": 0, "t.engagements": 0}))
    for batch in batches[1:]:
        world.produce(sent(batch))
        world.land(ctx)
        job.extend(ctx)
    kinds = paper.check()
    assert {"late_left", "late_label", "winner_changed", "state_changed", "flip"} <= set(kinds), kinds
    in_steps = counted(ctx)

    passes = DeltaTable(ledger_table.path_of(ctx.home)).version()
    job.extend(ctx)
    assert DeltaTable(ledger_table.path_of(ctx.home)).version() == passes  # nothing landed since: no commit
    shutil.rmtree(ledger_table.path_of(ctx.home))
    job.extend(ctx)
    assert counted(ctx) == in_steps
    what_people_see(ctx, paper)

    other = world.pipeline(PIPELINE.replace("topic: t.", "topic: {t}.").replace("grace: 1m", "grace: 2m"))
    job.extend(other)
    marks = ledger_table.lines(other.home)
    assert [*marks["kind"]] == ["config_changed"] * len(paper.lines())
    assert counted(ctx) == in_steps  # put back, the file makes them comparable again


def what_people_see(ctx: Context, paper: Paper) -> None:
    """Sums, look-ups and the page agree with the lines."""
    totals = {row["interval"]: row for row in job.totals(ctx)}
    summary = ledger_table.summary(ctx.home, list(totals))
    for start, (published, _, lines) in paper.lines().items():
        kinds = Counter(line.kind for line in lines)
        flips = sum(1 for line in lines if line.state and line.state[0][0] != line.state[1][0])
        assert summary.get(start, {}) == ({**kinds, "flips": flips} if lines else {})
        labels = {line.appeared.row_id for line in lines if line.kind == "late_label" and line.appeared}
        in_time = {m.row_id for row in published.rows for m in row.matches["clicks"]}
        total = totals[start]
        assert (total["late_lefts"], total["late_labels"], total["flips"]) == (kinds["late_left"], len(labels), flips)
        known = len(in_time) + len(labels)
        assert total["recall"] == (len(in_time) / known if known else None)
        assert total["flip_rate"] == (flips / len(published.rows) if published.rows else None)
        assert total["missed_by_max"] == max((line.missed_by for line in lines if line.missed_by), default=None)
        for line in lines[:2]:
            topic = line.row_id.topic.replace("t.", f"{paper.world.name}.")
            about = ledger_table.of_row(ctx.home, replace(line.row_id, topic=topic))
            assert in_order(paper.found(one) for one in about) == in_order(
                paper.expected(start, one) for one in lines if line.row_id in (one.row_id, one.gone)
            )
    page = job.page(ctx).read_text()
    drawn = [row[rate] for row in totals.values() for rate in ("recall", "flip_rate") if row[rate] is not None]
    assert page.count("<circle") == len(drawn) > len(totals) - 1
    assert "http" not in page


SEVERAL = PIPELINE.replace("after: 6m}\n", "after: 6m}\n    take: last\n").replace(
    "grace: 1m",
    """\
  - name: soon
    role: feature
    topic: t.engagements
    where: "action = 'click'"
    columns: {event_id: string, user_id: bigint, item_id: bigint, action: string, engaged_at: timestamp}
    key: [user_id, item_id]
    event_time: engaged_at
    out_of_orderness: 1m
    window: {before: 3m, after: 4m}
    join: inner
grace: 1m""",
)


def test_take_inner_features_a_crash_and_a_persons_deletion(world: World) -> None:
    ctx = prepared(world, SEVERAL)
    batches = divided(history(6), 21, (0.7, 0.3))
    records = oracle_records([r for batch in batches for r in batch], landed_at=LANDED_AT)
    shared: dict[str, Any] = {"topics": ("t.engagements",), "key": ("user_id", "item_id"), "where": is_click}
    streams = (
        Right(name="clicks", before=BEFORE, after=AFTER, event_id="event_id", take="last", **shared),
        Right(
            name="soon", before=timedelta(minutes=3), after=timedelta(minutes=4), role="feature", join="inner", **shared
        ),
    )
    spec = replace(oracle_spec(records, {"t.served": 0, "t.engagements": 0}), right=streams)
    paper = lived(world, ctx, batches, spec)
    world.produce(sent(batches[1]))
    world.land(ctx)
    with faults(), dying("late.after_commit"), pytest.raises(Killed):
        job.extend(ctx)
    made = ledger_table.last_pass(ctx.home)
    job.extend(ctx)
    assert ledger_table.last_pass(ctx.home) == made
    kinds = paper.check()
    assert {"late_left", "late_label", "late_feature", "pair_appeared", "flip"} <= set(kinds), kinds

    labels = [m for published, _, _ in paper.lines().values() for row in published.rows for m in row.matches["clicks"]]
    rows = [row for published, _, _ in paper.lines().values() for row in published.rows]
    for row_id in (labels[0].row_id, rows[-1].row_id):
        paper.erased.add(row_id)
        table = DeltaTable(ctx.home.landing(row_id.topic.replace("t.", f"{world.name}.")))
        table.delete(f"_partition = {row_id.partition} and _offset = {row_id.offset}")
    job.extend(ctx)
    assert paper.check()["erased"] >= 2


def counted(ctx: Context) -> list[dict[str, Any]]:
    """The lines that count, without the number of their pass."""
    return in_order({**line, "pass": None} for line in ledger_table.lines(ctx.home).to_dicts())
