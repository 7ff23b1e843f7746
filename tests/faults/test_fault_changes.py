"""The pipeline file changes while intervals are open: each interval is made under one file, on record, or refused.

file        A          B: window    C: grace     D: key       E: label
published   0          1            2            3            4
planned     1 ┄ refused  2 ┄ refused  3 ┄ refused  4 ┄ refused: recorded under another file
"""

from __future__ import annotations

import shutil

import pytest

from support.small_pipeline import PIPELINE, at, event, made
from support.world import World
from windrow.config import Pipeline
from windrow.io.landing.joined import ColumnJoinedLater
from windrow.io.registers import clocks, configs
from windrow.jobs.audit.verify import verify
from windrow.jobs.check import check
from windrow.jobs.explain.answer import explain
from windrow.jobs.explain.question import Question
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.publish import publish
from windrow.jobs.run import BadRequest, WindowStillOpen
from windrow.jobs.train import train_one
from windrow.semantics.plan import Plan

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

CHANGES = (
    ("after: 2m", "after: 3m"),
    ("grace: 30s", "grace: 1m"),
    ("key: [k]", "key: [k, id]"),
    ("size(likes) > 0", "size(likes) > 2"),
)
LIKES = ((20, "x"), (30, "other"), (150, "x"))
"""Seconds after each row, and event id; the row's own id is x."""
EXPECTED = [(2, True), (3, True), (3, True), (2, True), (2, False)]
"""Number of labels and derived label of the row of each interval."""


def test_each_interval_is_made_under_one_pipeline_file_that_is_on_record(world: World) -> None:
    texts = [PIPELINE]
    for old, new in CHANGES:
        assert old in texts[-1]
        texts.append(texts[-1].replace(old, new))
    ctx = made(world, texts[0], {"served": 1, "likes": 1})
    rows = [event("served", 0, 60 * n + 10, key=n) for n in range(len(texts))]
    labels = [event("likes", 0, 60 * n + 10 + s, key=n, name=name) for n in range(len(texts)) for s, name in LIKES]
    world.produce([*rows, *labels, event("served", 0, 2000, key=99), event("likes", 0, 2000, key=98)])
    world.land(ctx)

    files: dict[str, Pipeline] = {}
    planned: tuple[Plan, ...] = ()
    for n, text in enumerate(texts):
        ctx = world.pipeline(text, now=at(10_000))
        if planned:
            with pytest.raises(BadRequest, match="was recorded under another pipeline file"):
                make_candidates(ctx, planned)
        train_one(ctx, f"train {n}", at(60 * n), "publish")
        planned = plan_interval(ctx, f"interrupted {n}", at(60 * (n + 1)), "publish", 1)
        files[ctx.pipeline.config_hash] = ctx.pipeline
    assert [(len(row["likes"]), row["liked"]) for row in world.training(ctx)] == EXPECTED
    assert [row["config_hash"] for row in world.register(ctx)] == list(files)
    assert {used: configs.of_hash(ctx.home, used) for used in files} == files

    # a candidate that waits for its publication stays under the file that it was joined under
    staged = plan_interval(ctx, "staged", at(0), "republish", 1)
    make_candidates(ctx, staged)
    last, before = ctx.pipeline.config_hash, world.pipeline(texts[0], now=at(10_000))
    assert check(before, staged) == {}
    assert [row["config_hash"] for row in publish(before, staged)] == [last]
    again = world.training(ctx)[0]
    assert (len(again["likes"]), again["liked"]) == (2, False)

    # also where the present file has a stream more, about which it has no counts
    staged = plan_interval(ctx, "staged again", at(60), "republish", 1)
    make_candidates(ctx, staged)
    more = world.pipeline(with_shares(texts[0]), now=at(10_000))
    assert check(more, staged) == {}
    assert [row["config_hash"] for row in publish(more, staged)] == [last]

    # a file under which the interval is not closed yet makes it wait
    patient = world.pipeline(texts[0].replace("grace: 30s", "grace: 1h"), now=at(10_000))
    with pytest.raises(WindowStillOpen, match="waiting helps"):
        plan_interval(patient, "patient", at(300), "publish", 1)
    assert plan_interval(before, "at once", at(300), "publish", 1)


def with_shares(text: str) -> str:
    """The pipeline file with a second label stream."""
    begin, end = text.index("  - name: likes"), text.index("grace:")
    return text[:end] + text[begin:end].replace("likes", "shares") + text[end:]


def test_a_stream_that_was_away_goes_on_where_it_was(world: World) -> None:
    """
    file     A: likes, shares      B: likes      A
    batch    1                     2             3: only what came since
    """
    without, text = PIPELINE, with_shares(PIPELINE)
    ctx = made(world, text, {"served": 1, "likes": 1, "shares": 1})
    topics = ("served", "likes", "shares")
    world.produce([event(topic, 0, seconds, key=1, name=f"{seconds}") for seconds in (10, 600) for topic in topics])
    world.land(ctx)
    train_one(ctx, "first", at(0), "publish")
    (before,) = clocks.observe(ctx.home).of_topic(f"{world.name}.shares")

    away = world.pipeline(without, now=at(10_000))
    world.produce([event("likes", 0, 700, key=1, name="a"), event("served", 0, 700, key=1, name="b")])
    world.land(away)
    assert [one.is_same for one in verify(away, world.register(away))] == [True]

    back = world.pipeline(text, now=at(10_000))
    assert clocks.observe(back.home).of_topic(f"{world.name}.shares") == (before,)
    world.produce([event("shares", 0, 700, key=1, name="c")])
    world.land(back)
    (after,) = clocks.observe(back.home).of_topic(f"{world.name}.shares")
    assert (after["batch"], after["landed"]) == (before["batch"] + 1, before["landed"] + 1)
    train_one(back, "again", at(0), "republish")
    assert [len(row["shares"]) for row in world.training(back)] == [1]

    # a folder that was deleted meanwhile, as the report of an erasure advises, is filled anew
    world.produce([event(topic, 0, 800, key=1, name="d") for topic in ("served", "likes")])
    world.land(away)
    shutil.rmtree(back.home.landing(f"{world.name}.shares"))
    world.land(back)
    (anew,) = clocks.observe(back.home).of_topic(f"{world.name}.shares")
    assert (anew["batch"], anew["landed"]) == (1, after["landed"])


def test_a_label_without_a_time_that_another_where_means_makes_its_key_unknown(world: World) -> None:
    """No `where` of the file under which it landed meant it, so it was not quarantined."""
    wanted = """{{id: string, k: bigint, t: timestamp, v: string}}
    key: [k]
    where: "{where}"
"""
    likes = """{id: string, k: bigint, t: timestamp}
    key: [k]
    event_time: t
    out_of_orderness: 5s
"""
    assert PIPELINE.count(likes) == 1
    narrow, wide = (
        PIPELINE.replace(likes, wanted.format(where=where) + likes.split("\n", 2)[2])
        for where in ("v = 'click'", "v in ('click', 'like')")
    )
    ctx = made(world, narrow, {"served": 1, "likes": 1})
    undated = ("likes", 0, b'{"id": "l", "k": 1, "v": "like"}', at(20))
    far = [event(topic, 0, 2000, key=99) for topic in ("served", "likes")]
    world.produce([*(event("served", 0, 10, key=key) for key in (1, 2)), undated, *far])
    world.land(ctx)
    assert [row["_quarantined"] for row in world.table(ctx, f"landing/{world.name}.likes")] == [None, None]
    train_one(ctx, "narrow", at(0), "publish")
    ctx = world.pipeline(wide, now=at(10_000))
    train_one(ctx, "wide", at(0), "republish")
    states = {row["k"]: (row["label_state"], row["label_reason"]) for row in world.training(ctx)}
    assert states == {1: ("unknown", "label_quarantined"), 2: ("negative", None)}
    told = [explain(ctx, Question(key={"k": key}, at=at(10))) for key in "12"]
    assert [one["agrees"] for one in told] == [True, True]


def test_a_column_that_joined_later_decides_about_no_row_that_landed_before_it(world: World) -> None:
    """
    file        A        A + column   uses it        A + column   uses it
    batch       1        2
    interval 0                        0 ┄ refused    0            2, of rows that landed with the column
    """
    plain = PIPELINE.replace(
        "{id: string, k: bigint, t: timestamp}", "{id: string, k: bigint, t: timestamp, v: string}"
    )
    using = plain.replace(
        "event_time: t\n    out_of_orderness: 5s", "where: \"v = 'x'\"\n    event_time: t\n    out_of_orderness: 5s"
    )
    assert using != plain
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})

    def produce(*seconds: int) -> None:
        values = [(topic, 0, f'{{"id": "x", "k": {s}, "t": "{at(s):%Y-%m-%dT%H:%M:%SZ}", "v": "x"}}'.encode(), at(s))
                  for s in seconds for topic in ("served", "likes")]  # fmt: skip
        world.produce(values)
        world.land(ctx)

    produce(10)
    ctx = world.pipeline(using, now=at(10_000))
    produce(300)
    with pytest.raises(ColumnJoinedLater, match=r"before its column v \(batch 2\)"):
        plan_interval(ctx, "too early", at(0), "publish", 1)
    told = explain(ctx, Question(key={"k": "10"}, at=at(10)))
    assert (told["outcome"], "from before its column v (batch 2)" in told["why"]) == ("closed", True), told["why"]
    ctx = world.pipeline(plain, now=at(10_000))
    produce(700)
    train_one(ctx, "first", at(0), "publish")
    ctx = world.pipeline(using, now=at(10_000))
    train_one(ctx, "later", at(300), "publish")
    assert [(row["k"], len(row["likes"])) for row in world.training(ctx)] == [(10, 1), (300, 1)]

    # a file without the column lands rows that lack it again
    ctx = world.pipeline(PIPELINE, now=at(10_000))
    produce(1100)
    ctx = world.pipeline(using, now=at(10_000))
    produce(2000)
    with pytest.raises(ColumnJoinedLater, match=r"before its column v \(batch 5\)"):
        plan_interval(ctx, "between", at(1080), "publish", 1)


def test_columns_that_are_renamed_reordered_and_dropped_are_each_read_as_declared(world: World) -> None:
    """A record has both names of a column; a row has the values of the columns that its file declared."""
    served = "columns: {id: string, k: bigint, t: timestamp"
    files = [
        PIPELINE.replace(served, f"{served}, v: string", 1),
        PIPELINE.replace(served, f"{served}, w: string", 1),
        PIPELINE.replace(served, "columns: {w: string, t: timestamp, k: bigint, id: string", 1),
        PIPELINE,
    ]
    assert len(set(files)) == len(files)
    made(world, files[0], {"served": 1, "likes": 1})
    for n, text in enumerate(files):
        ctx = world.pipeline(text, now=at(10_000))
        seconds = 600 * n + 10
        value = f'{{"id": "x", "k": {n}, "t": "{at(seconds):%Y-%m-%dT%H:%M:%SZ}", "v": "v{n}", "w": "w{n}"}}'
        world.produce([("served", 0, value.encode(), at(seconds)), event("likes", 0, seconds + 5, key=n, name="x")])
        world.produce([event("served", 0, seconds + 500, key=-1), event("likes", 0, seconds + 500, key=-2)])
        world.land(ctx)
        train_one(ctx, f"train {n}", at(600 * n), "publish")
    rows = [row for row in world.training(ctx) if row["k"] >= 0]
    assert [(row["k"], row.get("v"), row.get("w"), row["liked"]) for row in rows] == [
        (0, "v0", None, True),
        (1, None, "w1", True),
        (2, None, "w2", True),
        (3, None, None, True),
    ]
