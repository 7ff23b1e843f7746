"""What a rebuild would do, and what it refuses: decided from the tables alone, without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from support.generated import PARTITIONS, PIPELINE, START
from windrow.cli import jobs as commands
from windrow.config import Pipeline, parse
from windrow.config.streams import Waiting
from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.landing import earliest, joined
from windrow.io.registers import clocks, configs, measures, plans, publications
from windrow.io.registers.plans import Request
from windrow.io.training import shares
from windrow.jobs import join, size
from windrow.jobs.decision import decision
from windrow.jobs.plan import far_start, plan_intervals, planning, survey
from windrow.jobs.run import BadRequest, Context, WindowStillOpen
from windrow.jobs.upkeep import override
from windrow.outcomes import NothingToDo
from windrow.places import Places
from windrow.schemas import PUBLICATIONS
from windrow.semantics.intervals import Interval
from windrow.semantics.plan import Plan

FIVE = timedelta(minutes=5)
WHY = Request("because", "somebody")
COUNTS = ("rows", "left_landed", "left_duplicate", "left_unpaired", "positive", "negative", "unknown")


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    places = Places.from_env({"WINDROW_HOME": str(tmp_path)})
    return Context(parse(PIPELINE, "generated.yaml"), places)


def observe(ctx: Context, number: int, batch: int, minutes: int) -> None:
    """A landing run that left every clock at START + minutes."""
    rows = [
        {
            "topic": topic, "topic_id": topic, "epoch": 0, "partition": p, "batch": batch, "next_offset": 10,
            "end_offset": 10, "newest_at": START + timedelta(minutes=minutes),
            "clock_at": START + timedelta(minutes=minutes), "idle": False, "landed_at": START,
        }
        for topic, n in PARTITIONS.items()
        for p in range(n)
    ]  # fmt: skip
    clocks.record(ctx.home, number, rows)


def published(ctx: Context, number: int, interval: int, batch: int, **other: Any) -> None:
    start = START + interval * FIVE
    pins = dict.fromkeys(ctx.pipeline.topics, batch)
    made = Plan(
        "generated", f"run {number}", Interval(start, start + FIVE), pins,
        other.pop("config_hash", ctx.pipeline.config_hash), drained=other.pop("drained", False),
    )  # fmt: skip
    row = {
        "number": number, "interval": start, "interval_end": start + FIVE, "plan": made.to_json(), "plan_id": made.id,
        "config_hash": made.config_hash, "code_version": version("windrow"), **dict.fromkeys(COUNTS, 7), **other,
    }  # fmt: skip
    commits = {"app_id": publications.APP_ID, "version": number}
    training = ctx.home.table(Table.TRAINING)
    tables.append_once(training, PUBLICATIONS, [row], **commits)  # what it holds is of no matter here
    publications.register(ctx.home, row)


def test_a_plan_says_for_each_interval_what_happens_to_it_and_why(ctx: Context) -> None:
    observe(ctx, 0, batch=5, minutes=60)
    published(ctx, 1, 0, batch=5)
    published(ctx, 2, 1, batch=3)
    published(ctx, 3, 3, batch=5, config_hash="other")
    published(ctx, 4, 4, batch=5, code_version="0.0.1")
    published(ctx, 5, 5, batch=5, drained=True)
    found = survey.survey(ctx, START, START + 6 * FIVE)
    result = [(line.action, line.publication, line.why) for line in found.lines]
    assert [action for action, _, _ in result] == ["leave", "replace", "publish", "replace", "replace", "replace"]
    assert result[0][2] == "published at these very pins, file and version"
    assert result[1] == ("replace", 2, "t.engagements: 2 batches newer; t.served: 2 batches newer")
    assert result[2] == ("publish", None, "it has no publication")
    assert result[3][2] == "the pipeline file was another"
    assert result[4][2] == f"made by version 0.0.1, now {version('windrow')}"
    assert result[5][2] == "the end of the stream was declared"
    assert plan_intervals.listing(found)["counts"] == {"leave": 1, "replace": 4, "publish": 1}
    assert plan_intervals.listing(found, 2)["not_listed"] == 4
    every = survey.survey(ctx, START, START + 6 * FIVE, everything=True)
    assert [line.action for line in every.lines] == ["replace", "replace", "publish", *["replace"] * 3]


def test_recorded_plans_stand_and_carry_reason_and_name(ctx: Context) -> None:
    observe(ctx, 0, batch=5, minutes=60)
    published(ctx, 1, 0, batch=3)
    first = survey.plan_range(ctx, "mine", START, START + 2 * FIVE, WHY)
    assert [(p.interval.start, p.supersedes) for p in first] == [(START, 1), (START + FIVE, None)]
    observe(ctx, 1, batch=6, minutes=70)
    assert survey.plan_range(ctx, "mine", START, START + 2 * FIVE, WHY) == first
    origins = plans.origins(ctx.home, first)
    assert list(origins.values()) == [{"kind": "rebuild", "reason": "because", "asked_by": "somebody"}] * 2
    with pytest.raises(BadRequest, match="another range is another run"):
        survey.plan_range(ctx, "mine", START, START + FIVE, WHY)


def test_the_driver_after_a_plan_is_made_for_its_size(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "LARGE", 4)
    observe(ctx, 0, batch=5, minutes=60)
    landed(ctx, 0, 2, 6, 8)
    have_all_columns(ctx)
    for run, intervals, is_large in [("small", 1, False), ("large", 2, True), ("another small", 1, False)]:
        planned = survey.plan_range(ctx, run, START, START + intervals * FIVE, WHY)
        assert ctx.places.large("generated").exists() is is_large, run
        size.remember_size(ctx.home, 0 if is_large else size.LARGE)
        assert survey.plan_range(ctx, run, START, START + intervals * FIVE, WHY) == planned
        assert ctx.places.large("generated").exists() is is_large, f"{run}, planned again"


def tasks_of(ctx: Context, planned: Sequence[Plan], cores: int) -> list[tuple[int, int]]:
    return [tuple(share) for share in shares.shares_of(ctx.home, planned, cores).of.values()]


def test_neighbouring_intervals_of_a_range_share_a_task(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    observe(ctx, 0, batch=5, minutes=200)
    landed(ctx, *[n / 10 for n in range(401)])
    have_all_columns(ctx)
    planned = survey.plan_range(ctx, "range", START, START + 8 * FIVE, WHY)
    in_one, in_pairs, alone = [(0, 1)] * 8, [(n // 2, 1) for n in range(8)], [(n, 1) for n in range(8)]
    assert tasks_of(ctx, planned, 100) == in_one, "401 rows are not worth two tasks"
    for rows, cores, divided in [(400, 1, in_one), (400, 4, in_pairs), (400, 100, alone), (100, 1, in_pairs)]:
        monkeypatch.setattr(shares, "ROWS", rows)
        assert tasks_of(ctx, planned, cores) == divided, (rows, cores)
    assert tasks_of(ctx, planned[:2], 8) == [(0, 4), (4, 4)], "few intervals, many cores"
    monkeypatch.setattr(shares, "ROWS", 25)
    assert tasks_of(ctx, planned, 1) == [(2 * n, 2) for n in range(8)]


def test_a_file_without_an_event_time_is_of_no_interval(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    observe(ctx, 0, batch=5, minutes=60)
    landed(ctx, *range(10))
    landed(ctx, *[None] * 1_000)
    have_all_columns(ctx)
    monkeypatch.setattr(shares, "ROWS", 10)
    planned = survey.plan_range(ctx, "range", START, START + 2 * FIVE, WHY)
    assert tasks_of(ctx, planned, 1) == [(0, 1)] * 2
    assert size.estimated(ctx.home, planned).rows == 10


def test_intervals_of_other_sizes_have_other_shares(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    observe(ctx, 0, batch=5, minutes=200)
    landed(ctx, *[n / 100 for n in range(500)])
    landed(ctx, *[5 + n / 6 for n in range(60)])
    landed(ctx, 20, 20.1)
    have_all_columns(ctx)
    monkeypatch.setattr(shares, "ROWS", 100)
    planned = survey.plan_range(ctx, "range", START, START + 6 * FIVE, WHY)
    assert tasks_of(ctx, planned, 1) == [(0, 5), (5, 1), (5, 1), (5, 1), (5, 1), (5, 1)]
    assert shares.shares_of(ctx.home, planned, 1).count == 6


def test_row_groups_at_the_borders_of_tasks_are_read_again(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "ROWS", 10)
    observe(ctx, 0, batch=5, minutes=60)
    landed(ctx, 0, 4)
    landed(ctx, 6, 9)
    have_all_columns(ctx)

    def readings(planned: Sequence[Plan], cores: int = 2) -> float:
        return shares.readings(ctx.home, planned, cores)

    apart = survey.plan_range(ctx, "apart", START, START + 2 * FIVE, WHY)
    assert readings(apart) == readings(apart[:1]) == 1
    landed(ctx, 1, 2, 3, 6, 7, 8)
    often = readings(apart)
    assert 1 < often < 2
    assert readings(apart, cores=1) == 1, "one task has both"
    assert readings(apart[1:]) == 1
    landed(ctx, 11, 12)
    assert readings(apart) == often, "files outside of the range do not count"
    monkeypatch.setattr(shares, "ROWS", 1)
    assert readings(apart) > often, "more tasks"
    assert readings(apart[:1]) == 1, "each task of one interval has files of its own"


def test_a_range_without_rows_reads_nothing_again(ctx: Context) -> None:
    observe(ctx, 0, batch=5, minutes=60)
    planned = survey.plan_range(ctx, "empty", START, START + 2 * FIVE, WHY)
    assert shares.shares_of(ctx.home, planned, 2) == shares.Shares(dict.fromkeys((START, START + FIVE), (0, 1)), 1, 1.0)


def test_the_pipeline_file_of_a_plan_is_on_record(ctx: Context) -> None:
    observe(ctx, 0, batch=5, minutes=60)
    survey.plan_range(ctx, "mine", START, START + FIVE, WHY)
    changed = parse(PIPELINE.replace("after: 6m", "after: 7m"), "generated.yaml")
    assert configs.of_hash(Home(changed, ctx.places), ctx.pipeline.config_hash) == ctx.pipeline
    assert configs.of_hash(Home(changed, ctx.places), "never seen") is None


@pytest.mark.parametrize(
    ("begin", "end", "error", "message"),
    [
        (START, START, BadRequest, "at or before it begins"),
        (START + FIVE, START, BadRequest, "at or before it begins"),
        (START - FIVE, START, BadRequest, "no interval of generated starts at"),
        (START + FIVE / 5, START + FIVE, BadRequest, "no interval of generated starts at"),
        (START, START + FIVE / 5, BadRequest, "no interval of generated ends at"),
        (START, datetime(2199, 1, 1, tzinfo=UTC), WindowStillOpen, "t.engagements/"),
        (START + 10 * FIVE, START + 11 * FIVE, WindowStillOpen, "closes when the watermark is at 2026-11-01 01:02:00"),
    ],
)
def test_a_range_that_cannot_be_is_refused_with_a_reason(
    ctx: Context, begin: datetime, end: datetime, error: type[Exception], message: str
) -> None:
    observe(ctx, 0, batch=5, minutes=60)
    with pytest.raises(error, match=message):
        survey.survey(ctx, begin, end)
    assert not Path(ctx.places.table("generated", "plans")).exists()


def test_a_range_that_closes_at_this_watermark_is_taken(ctx: Context) -> None:
    observe(ctx, 0, batch=5, minutes=62)
    assert len(survey.survey(ctx, START, START + 11 * FIVE).lines) == 11


def test_nothing_to_change_is_no_plan(ctx: Context) -> None:
    observe(ctx, 0, batch=5, minutes=60)
    published(ctx, 1, 0, batch=5)
    with pytest.raises(NothingToDo, match="--all makes them again"):
        survey.plan_range(ctx, "mine", START, START + FIVE, WHY)
    assert survey.plan_range(ctx, "mine", START, START + FIVE, WHY, everything=True)


@pytest.mark.parametrize("reason", ["", "  ", "two\nlines", "x" * 1001, "bell \a"])
def test_a_reason_is_one_line_that_says_something(reason: str) -> None:
    with pytest.raises(BadRequest, match="a rebuild needs a reason"):
        decision("a rebuild", reason, "me")


def rows_at(ctx: Context, number: int, served: int, labels: int, *, landed: int, lag: int = 0) -> None:
    """A landing run: newest events and clocks in minutes after START, rows of each partition of the served topic."""
    rows = [
        {
            "topic": topic, "topic_id": topic, "epoch": 0, "partition": p, "batch": number + 1, "next_offset": 10,
            "end_offset": 10 + lag, "newest_at": START + timedelta(minutes=minutes), "idle": False,
            "clock_at": START + timedelta(minutes=minutes), "landed_at": START, "landed": count,
        }
        for topic, minutes, count in (("t.served", served, landed), ("t.engagements", labels, 0))
        for p in range(PARTITIONS[topic])
    ]  # fmt: skip
    clocks.record(ctx.home, number, rows)


@pytest.fixture
def bounded(ctx: Context) -> Context:
    bounds = Waiting(max_rows=11 * PARTITIONS["t.served"], policy="force")
    return replace(ctx, pipeline=ctx.pipeline.model_copy(update={"waiting": bounds}))


def landed(ctx: Context, *minutes: float | None) -> None:
    """A landing file with a served row at each of these times after START."""
    times = [None if one is None else START + timedelta(minutes=one) for one in minutes]
    rows = pa.table({"_event_time": pa.array(times, pa.timestamp("us", tz="UTC"))})
    write_deltalake(ctx.places.landing("generated", "t.served"), rows, mode="append")


def have_all_columns(ctx: Context) -> None:
    """Landed files count as having every column of the stream."""
    served = DeltaTable(ctx.home.landing("t.served"))
    tables.set_properties(served, {joined.PROPERTY: json.dumps(dict.fromkeys(ctx.pipeline.left.columns, 0))})


def test_many_empty_intervals_before_the_first_row_are_told_until_one_is_published(ctx: Context) -> None:
    observe(ctx, 0, batch=5, minutes=1)
    assert far_start.far_start(ctx.home) is None, "nothing has landed"
    landed(ctx, 505 + 1000, None)
    landed(ctx, 507, 900)
    wrong = str(far_start.far_start(ctx.home))
    assert "generated starts at 2026-11-01T00:00:00Z" in wrong
    assert "in the interval of 2026-11-01T08:25:00Z: 101 intervals before it" in wrong
    assert "Set `start: 2026-11-01T08:25:00Z` in the pipeline file. If you want" in wrong
    assert "`windrow train generated --from-start`" in wrong
    published(ctx, 1, 0, batch=5)
    assert far_start.far_start(ctx.home) is None


def test_many_closed_intervals_without_any_row_are_not_published_unasked(ctx: Context) -> None:
    """Topics that are there before their producers: idle partitions have a clock, and every interval closes empty."""
    closing = (ctx.pipeline.after + ctx.pipeline.grace) // timedelta(minutes=1)
    for number, (intervals, is_far) in enumerate(((100, False), (101, True))):
        observe(ctx, number, batch=0, minutes=intervals * 5 + closing)
        assert (far_start.far_start(ctx.home) is not None) is is_far
    wrong = str(far_start.far_start(ctx.home))
    assert "no row of served has landed since: 101 intervals that have closed would be published without a row" in wrong
    assert "Wait for the first row, or set a later `start` in the pipeline file." in wrong
    landed(ctx, 3)
    assert far_start.far_start(ctx.home) is None


def test_a_stray_early_row_does_not_let_thousands_of_intervals_be_published_behind_it(ctx: Context) -> None:
    landed(ctx, 3, 99_000)
    rows = 2 * PARTITIONS["t.served"]
    for number, (intervals, is_far) in enumerate(((rows + 100, False), (10 * rows, False), (20 * rows + 100, True))):
        rows_at(ctx, number, served=5 * intervals + 7, labels=5 * intervals + 7, landed=2)
        assert (far_start.far_start(ctx.home) is not None) is is_far, intervals
    wrong = str(far_start.far_start(ctx.home))
    assert f"{rows} rows of served have landed since, while {20 * rows + 100:,} intervals have closed" in wrong
    assert "If a stray row is the first one, set a later `start` in the pipeline file." in wrong


def test_left_rows_that_are_all_before_start_are_told_until_one_is_behind_it(ctx: Context) -> None:
    rows_at(ctx, 0, served=-5, labels=60, landed=2)
    assert far_start.late_start(ctx.home) is None, "none was left out"
    counted = [row | {"before_start": 2} for row in observed_rows(ctx)]
    clocks.record(ctx.home, 1, counted)
    cause, move = far_start.late_start(ctx.home) or ("", "")
    assert cause.startswith("`start` is 2026-11-01T00:00:00Z, and every row of served that has landed is before it: ")
    assert f"{2 * PARTITIONS['t.served']} rows left out" in cause
    assert "earlier `start`" in move
    rows_at(ctx, 2, served=5, labels=60, landed=2)
    assert far_start.late_start(ctx.home) is None


def test_a_far_start_is_not_told_while_the_first_row_may_still_come(ctx: Context) -> None:
    """A partition that lags may hold an earlier row; whoever moved `start` would lose it."""
    landed(ctx, 600)
    for number, minutes in enumerate((-10, 0)):
        observe(ctx, number, batch=5, minutes=minutes)
        assert far_start.far_start(ctx.home) is None
    assert far_start.far_start(ctx.home, is_last=True) is not None, "a drain declares that nothing comes"
    observe(ctx, 2, batch=5, minutes=1)
    assert far_start.far_start(ctx.home) is not None
    landed(ctx, 5)
    assert far_start.far_start(ctx.home) is None


def test_bounds_do_not_publish_from_a_far_start_before_its_partitions_are_read_beyond_it(bounded: Context) -> None:
    rows_at(bounded, 0, served=600, labels=0, landed=60)
    late = [row | {"clock_at": START if row["partition"] else row["clock_at"]} for row in observed_rows(bounded)]
    clocks.record(bounded.home, 1, late)
    landed(bounded, 600)
    assert far_start.far_start(replace(bounded, pipeline=waits(bounded)).home) is None, "nothing is forced"
    wrong = str(far_start.far_start(bounded.home))
    assert "or wait: a partition is not read beyond `start` yet, and may have an earlier row. If you want" in wrong
    with pytest.raises(far_start.FarStart):
        far_start.refuse_far_start(bounded.home)


def test_an_override_does_not_make_the_first_publication_from_a_far_start(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier release joined the candidate, and its gate blocked it."""
    observe(ctx, 0, batch=5, minutes=60)
    planning.plan_interval(ctx, "earlier", START, "publish", 1)
    landed(ctx, 600)
    monkeypatch.setattr(measures, "are_recorded", lambda home, planned: True)
    monkeypatch.setattr(override, "_refuse_unblocked", lambda ctx, planned: None)
    with pytest.raises(far_start.FarStart):
        override.override(ctx, START, "somebody", "because")


def waits(ctx: Context) -> Pipeline:
    return ctx.pipeline.model_copy(update={"waiting": Waiting()})


def observed_rows(ctx: Context) -> list[dict[str, Any]]:
    return [dict(row) for row in clocks.observe(ctx.home).rows]


def test_a_rebuild_does_not_make_the_first_publication_from_a_far_start(ctx: Context) -> None:
    landed(ctx, 600)
    observe(ctx, 0, batch=5, minutes=60)
    with pytest.raises(far_start.FarStart):
        survey.plan_range(ctx, "mine", START, START + FIVE, WHY)


@pytest.mark.parametrize(
    ("files", "is_far"),
    [
        ([(505,)], True),
        ([(504.9,)], False),
        ([(505,), (3,)], False),
        ([(-9_999, 505)], True),
        ([(-9_999, 3, 505)], False),
        ([(-9_999,)], False),
        ([(None,), (505,)], True),
        ([(-9_999, 505)] * 3, False),
    ],
    ids=["101", "100", "an earlier file", "across", "a row between", "before", "no time", "too many to open"],
)
def test_rows_from_before_start_and_rows_without_a_time_count_for_nothing(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, files: list[tuple[float | None, ...]], is_far: bool
) -> None:
    monkeypatch.setattr(earliest, "MOST_OPENED", 2)
    observe(ctx, 0, batch=5, minutes=1)
    for file in files:
        landed(ctx, *file)
    assert (far_start.far_start(ctx.home) is not None) is is_far


def test_nothing_is_joined_or_published_before_a_far_start_is_corrected_or_wanted(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first publication fixes `start` for good: neither Airflow's runs nor `windrow train` make it unasked."""
    landed(ctx, 600)
    observe(ctx, 0, batch=5, minutes=1)
    for module in (join, commands):
        monkeypatch.setattr(module, "context", lambda name, **_: ctx)
    for interval in (START, START + FIVE):
        with pytest.raises(far_start.FarStart):
            join.execute("generated", "run", interval)
        with pytest.raises(far_start.FarStart):
            commands.train("generated", interval)
    with pytest.raises(far_start.FarStart):
        commands.train("generated")
    assert not plans.of_run(ctx.home, "run")
    commands.train("generated", from_start=True)
    assert "nothing to publish: no closed interval is missing" in capsys.readouterr().out
    with pytest.raises(WindowStillOpen):
        commands.train("generated", START, from_start=True)


def starts(planned: Sequence[Plan]) -> list[int]:
    return [(plan.interval.start - START) // FIVE for plan in planned]


def test_beyond_a_bound_a_run_plans_the_oldest_open_intervals_with_their_reason(bounded: Context) -> None:
    rows_at(bounded, 0, served=15, labels=0, landed=15)  # a row each minute: 1 to 4 in the first
    with pytest.raises(WindowStillOpen):
        planning.plan_interval(bounded, "second", START + FIVE, "publish", 9)  # the first one is enough
    planned = planning.plan_interval(bounded, "first", START, "publish", 9)
    assert starts(planned) == [0]
    assert planned[0].is_forced(bounded.pipeline.after, bounded.pipeline.grace)
    [origin] = plans.origins(bounded.home, planned).values()
    rows, bound = 15 * PARTITIONS["t.served"], 11 * PARTITIONS["t.served"]
    assert origin["reason"] == f"waiting: {rows} rows > max_rows {bound}"
    assert (origin["asked_by"], origin["kind"]) == (plans.BY_BOUNDS, "train")
    rows_at(bounded, 1, served=60, labels=0, landed=60)
    assert planning.plan_interval(bounded, "first", START, "publish", 9) == planned, "a retry has its recorded plan"


def test_what_a_bound_forces_comes_behind_what_is_closed_and_not_again_once_it_is_published(bounded: Context) -> None:
    closing = (bounded.pipeline.after + bounded.pipeline.grace) // timedelta(minutes=1)
    rows_at(bounded, 0, served=closing + 25, labels=closing + 5, landed=closing + 25)
    planned = planning.plan_all(bounded, "run", most=99)
    assert starts(planned)[0] == 0
    forced = [plan for plan in planned if plan.is_forced(bounded.pipeline.after, bounded.pipeline.grace)]
    assert starts(forced) == list(range(1, len(planned)))
    assert {one: row["reason"] is None for one, row in plans.origins(bounded.home, planned).items()} == {
        plan.id: plan not in forced for plan in planned
    }
    for number, plan in enumerate(planned, 1):
        published(bounded, number, (plan.interval.start - START) // FIVE, batch=1)
    assert planning.plan_all(bounded, "next", most=99) == ()


def test_a_bound_forces_nothing_while_records_wait_nor_by_another_policy_nor_in_a_republished_run(
    bounded: Context,
) -> None:
    rows_at(bounded, 0, served=15, labels=0, landed=15, lag=1)
    assert planning.plan_all(bounded, "behind", most=9) == ()
    rows_at(bounded, 1, served=15, labels=0, landed=15)
    for policy in ("wait", "alert"):
        other = Waiting(max_rows=1, policy=policy)
        ctx = replace(bounded, pipeline=bounded.pipeline.model_copy(update={"waiting": other}))
        assert planning.plan_all(ctx, policy, most=9) == ()
    with pytest.raises(WindowStillOpen):
        planning.plan_interval(bounded, "cleared", START, "republish", 9)
    assert starts(planning.plan_all(bounded, "bounded", most=9)) == [0]
