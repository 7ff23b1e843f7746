"""Reconcile: live rows plus late ledger equal a rebuild, counted for each interval; rows that differ are named."""

from __future__ import annotations

from datetime import timedelta

import pytest
from deltalake import DeltaTable

from support.divided_history import divided, lived, prepared
from support.generated import INTERVAL, START, history, oracle_records, oracle_spec
from support.oracle import sent
from support.register import whole_reads
from support.world import World, content
from windrow.home import Table
from windrow.io.ledger import table as ledger_table
from windrow.io.registers import measures
from windrow.jobs import ledger as ledger_job
from windrow.jobs.audit.reconcile import NotReconciled, check, reconcile_range
from windrow.jobs.rebuild import rebuild
from windrow.jobs.summarise import summarise
from windrow.outcomes import ExitCode, exit_code
from windrow.semantics.plan import Plan

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1500)]

END = START + 9 * INTERVAL


def test_live_rows_and_ledger_are_a_rebuild_and_what_somebody_changed_is_named(world: World) -> None:
    ctx = prepared(world)
    batches = divided(history(22), 22, (0.75, 0.25))
    records = oracle_records([r for batch in batches for r in batch])
    lived(world, ctx, batches, oracle_spec(records, {"t.served": 0, "t.engagements": 0}))
    world.produce(sent(batches[1]))
    world.land(ctx)  # the ledger has not seen it: reconcile extends it first

    done = reconcile_range(ctx, START, END)
    check(ctx, done)
    assert [row["outcome"] for row in done.intervals] == ["equal"] * 9
    assert sum(row["ledger_lines"] for row in done.intervals) == ledger_table.lines(ctx.home).height > 20
    plans = [Plan.from_json(row["plan"]) for row in world.register(ctx)]
    assert {row["plan"] for row in measures.of_plans(ctx.home, plans)} == {plan.id for plan in plans}
    assert world.table(ctx, "candidates") == []  # it has left nothing behind

    path = ctx.home.table(Table.TRAINING)
    untouched = {line["subject"] for line in ledger_table.lines(ctx.home).to_dicts()}
    assert untouched
    victim = next(row for row in world.training(ctx) if row["label_state"] == "negative")
    where = f"_topic = '{victim['_topic']}' and _partition = {victim['_partition']} and _offset = {victim['_offset']}"
    DeltaTable(path).update(updates={"score": "score + 1"}, predicate=where)
    broken = reconcile_range(ctx, START, END)
    assert broken.unexplained == 1
    (named,) = broken.shown
    assert named.row == f"{victim['_topic']}/0/{victim['_partition']}/{victim['_offset']}"
    assert (named.interval, named.columns) == (victim["_interval"], ("score",))
    with pytest.raises(NotReconciled, match=f"{named.row}  score") as refused:
        check(ctx, broken)
    assert exit_code(refused.value) == ExitCode.NEEDS_PERSON
    assert str(victim["score"]) not in str(refused.value)
    assert {row["outcome"] for row in world.table(ctx, "reconciled")} == {"equal", "differs"}

    # a rebuild repairs exactly that, and the ledger of the new publications is empty
    rebuild(ctx, "repair", START, END, lambda row: None)
    ledger_job.extend(ctx)
    assert ledger_table.lines(ctx.home).is_empty()
    repaired = reconcile_range(ctx, START, END)
    assert (repaired.unexplained, [row["ledger_lines"] for row in repaired.intervals]) == (0, [0] * 9)
    assert content(world.training(ctx))


def test_a_closed_interval_without_a_publication_is_a_hole_and_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of other intervals than those in question few columns of the register are read, also for the day's summary."""
    from windrow.jobs.train import train_one

    ctx = prepared(world)
    world.produce(sent(history(23)))
    world.land(ctx)
    train_one(ctx, "one", START, "republish")
    whole = whole_reads(ctx.home, monkeypatch)
    done = reconcile_range(ctx, START, START + timedelta(minutes=15))
    check(ctx, done)
    assert [(row["interval"], row["outcome"]) for row in done.intervals] == [
        (START, "equal"),
        (START + INTERVAL, "hole"),
        (START + 2 * INTERVAL, "hole"),
    ]
    assert {"plan", "number", "plan_id"} in whole
    whole.clear()
    summarise(ctx, START.date())
    assert not whole
