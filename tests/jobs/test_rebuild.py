"""Rebuilds of a range: one join, one commit per interval, and an interruption anywhere changes nothing."""

from __future__ import annotations

import json
import signal
from datetime import timedelta
from typing import Any

import pytest

from support.generated import START
from support.late_history import WAITING, in_two_parts, landed, prepared, rows_are_the_reference_join
from support.world import World, content
from windrow.home import Table
from windrow.io.delta import tables
from windrow.io.registers import plans, publications
from windrow.io.registers.plans import Request
from windrow.io.training import candidates
from windrow.jobs import check, rebuild
from windrow.jobs.join import make_candidates
from windrow.jobs.plan import planning, survey
from windrow.jobs.publish import publish
from windrow.jobs.run import Context
from windrow.outcomes import ExitCode, NothingToDo
from windrow.text import instant_text

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]

WHY = Request("late clicks after the outage", "a person")


def test_an_interrupted_rebuild_goes_on_and_publishes_nothing_twice(world: World, spark: Any) -> None:
    ctx = prepared(world)
    early, late = in_two_parts(seed=21)
    landed(world, ctx, early)
    (first,) = world.train(ctx)
    begin, end = START, START + len(first.published) * ctx.pipeline.interval
    with pytest.raises(NothingToDo, match="these very pins, file and version"):
        survey.plan_range(ctx, "for nothing", begin, end, WHY)

    seen = landed(world, ctx, late)
    rows_of = {row["interval"]: row["rows"] for row in first.published}
    found = survey.survey(ctx, begin, end)
    assert {line.action for line in found.lines} == {"replace"}
    assert {line.interval.start: line.rows for line in found.lines} == rows_of
    assert all(set(line.newer.values()) == {1} for line in found.lines)

    process = world.script(
        "plan", ctx.pipeline.name, "--run", "killed", "--from", instant_text(begin), "--to", instant_text(end),
        "--reason", WHY.reason, "--who", WHY.who,
    )  # fmt: skip
    assert process.returncode == ExitCode.DONE, process.stderr
    result = json.loads(process.stdout.rpartition("WINDROW_RESULT ")[2])
    assert (result["counts"], result["pins"]) == ({"replace": len(rows_of)}, seen.pins)
    planned = plans.of_run(ctx.home, "killed")
    make_candidates(ctx, planned)
    check.check(ctx, planned)
    done = world.script("publish", ctx.pipeline.name, "--run", "killed", CRASH_AT="publish.after_register")
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    one = world.register(ctx)[-1]
    assert one["number"] == len(rows_of) + 1

    again = rebuild.resume(ctx, "killed", lambda row: None)
    register = world.register(ctx)
    assert [row["number"] for row in register] == list(range(1, 2 * len(rows_of) + 1))
    assert register[len(rows_of)] == one  # what was published before the kill stands as it was
    assert len(again.published) == len(rows_of)
    assert {(row["kind"], row["reason"], row["asked_by"]) for row in register[len(rows_of) :]} == {("rebuild", *WHY)}
    assert {row["kind"] for row in register[: len(rows_of)]} == {"train"}
    commits = {publications.from_json(c.message)["number"]: c for c in tables.commits(_training(ctx))}
    assert json.loads(commits[one["number"]].message)["reason"] == WHY.reason  # a lost register has it again
    rows_are_the_reference_join(world, ctx, [*early, *late])
    left = candidates.read(spark, ctx.home, planned)
    assert left.count() == 0


MANY = WAITING.replace("interval: 5m", "interval: 8s")


def test_one_rebuild_of_everything_makes_the_rows_of_hundreds_of_intervals(world: World, spark: Any) -> None:
    """Most intervals are empty. The gate is left out: it is the same for each, and slow."""
    ctx = prepared(world, MANY)
    early, late = in_two_parts(seed=22, lefts=24, closing=timedelta(minutes=11))
    landed(world, ctx, [*early, *late])
    rounds = 0
    while planned := planning.plan_all(ctx, f"slices {rounds}", most=120):
        make_candidates(ctx, planned)
        publish(ctx, planned, override=("the test", "no gate"))
        rounds += 1
    before, register = world.training(ctx), world.register(ctx)
    count = len(register)
    assert (rounds, count > 200) == (2, True)
    assert sum(row["rows"] == 0 for row in register) > 150
    rows_are_the_reference_join(world, ctx, [*early, *late])

    planned = survey.plan_range(ctx, "all", START, START + count * ctx.pipeline.interval, WHY, everything=True)
    make_candidates(ctx, planned)
    publish(ctx, planned, override=("the test", "no gate"))
    joins = list(tables.commits(ctx.home.table(Table.CANDIDATES)))
    assert len(json.loads(joins[0].message)["plans"]) == count  # one join for the whole range
    after, register = world.training(ctx), world.register(ctx)
    assert content(after) == content(before)
    assert min(row["_publication"] for row in after) > count  # every row was published again
    assert [row["number"] for row in register] == list(range(1, 2 * count + 1))
    versions = [row["training_version"] for row in register]
    assert versions == sorted(set(versions))  # each interval had a commit of its own


def _training(ctx: Context) -> str:
    return ctx.home.table(Table.TRAINING)
