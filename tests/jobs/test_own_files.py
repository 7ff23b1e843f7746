"""A candidate's own files are published without Spark; where they cannot be, Spark writes them again."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from support.small_pipeline import PIPELINE, at, event, made
from support.world import World
from windrow.io.delta import appending, scan, store, tables
from windrow.jobs import publish
from windrow.jobs.audit.intact import require_intact
from windrow.jobs.check import check
from windrow.jobs.join import make_candidates
from windrow.jobs.plan import survey
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.run import Context
from windrow.outcomes import NeedsSpark
from windrow.semantics.plan import Plan

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def landed(world: World, rows: int) -> Context:
    """A pipeline with a row in each of so many closed intervals, and a like of the first row."""
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    served = [event("served", 0, 10 + 60 * n, key=n, name=f"s{n}") for n in range(rows)]
    world.produce([*served, event("likes", 0, 20, key=0), event("served", 0, 900), event("likes", 0, 900)])
    world.land(ctx)
    return ctx


def judged(ctx: Context, run: str, start: float) -> tuple[Plan, ...]:
    planned = plan_interval(ctx, run, at(start), "publish", along=1)
    make_candidates(ctx, planned)
    assert check(ctx, planned) == {}
    return planned


def digests(ctx: Context, table: str) -> set[str]:
    """Digests of the table's files; one that was written again has another publication number in its rows."""
    path = ctx.home.table(table)
    return {hashlib.sha256(store.read(file)).hexdigest() for file in DeltaTable(path).file_uris()}


def served(ctx: Context, world: World) -> list[tuple[str, bool, int]]:
    return [(row["id"], row["liked"], row["_publication"]) for row in world.training(ctx)]


@pytest.mark.both_roots(long=True)
def test_the_files_of_a_candidate_are_published_unless_another_number_came_in_between(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = landed(world, 4)
    first, second, third = (judged(ctx, f"run {n}", 60 * n) for n in range(3))
    mine = digests(ctx, "candidates")

    with monkeypatch.context() as without:
        without.setenv("WINDROW_WITHOUT_SPARK", "1")
        publish.publish(ctx, first)  # every candidate was made for the number 1; this one gets it
        assert served(ctx, world) == [("s0", True, 1)]
        assert digests(ctx, "training") < mine
        with pytest.raises(NeedsSpark):
            publish.publish(ctx, second)
        assert served(ctx, world) == [("s0", True, 1)]
    publish.publish(ctx, second)
    assert served(ctx, world) == [("s0", True, 1), ("s1", False, 2)]
    assert len(digests(ctx, "training") & mine) == 1

    # intervals of one run have a number each, and so do those that replace others
    publish.publish(ctx, third)
    again = survey.plan_range(ctx, "again", at(0), at(180), None, everything=True)
    make_candidates(ctx, again)
    assert check(ctx, again) == {}
    monkeypatch.setenv("WINDROW_WITHOUT_SPARK", "1")
    at_path, opened = tables.at, Counter[str]()
    monkeypatch.setattr(tables, "at", lambda path, *version: (opened.update([path]), at_path(path, *version))[1])
    publish.publish(ctx, again)
    for table in ("training", "publications"):
        assert opened[ctx.home.table(table)] <= 3, "a run keeps its tables open"
    assert served(ctx, world) == [("s0", True, 4), ("s1", False, 5), ("s2", False, 6)]
    assert [row["rows"] for row in world.register(ctx)] == [1] * 6


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(
    ("changed", "published", "either_way"),
    [
        ({"    role: label\n": "    role: label\n    join: inner\n"}, [("s0", True, 1)], "files"),
        ({"    role: label\n": "    role: label\n    take: first\n"}, [("s0", True, 1), ("s9", False, 1)], "spark"),
    ],
    indirect=["either_way"],
)
def test_a_candidate_that_holds_more_than_is_published_is_written_again(
    world: World, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], published: list[Any]
) -> None:
    text = PIPELINE
    for old, new in changed.items():
        text = text.replace(old, new)
    ctx = made(world, text, {"served": 1, "likes": 1})
    rows = [event("served", 0, 10, key=0, name="s0"), event("served", 0, 11, key=9, name="s9")]
    world.produce([*rows, event("likes", 0, 20, key=0), event("served", 0, 900), event("likes", 0, 900)])
    world.land(ctx)
    (only,) = (judged(ctx, "run", 0),)
    monkeypatch.setenv("WINDROW_WITHOUT_SPARK", "1")
    with pytest.raises(NeedsSpark):
        publish.publish(ctx, only)
    monkeypatch.delenv("WINDROW_WITHOUT_SPARK")
    publish.publish(ctx, only)
    assert served(ctx, world) == published


def test_columns_that_join_the_candidates_while_a_run_publishes_join_the_table_with_its_next_files(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run may have made candidates under a file that a column of a right stream has joined."""
    ctx = landed(world, 3)
    planned = plan_interval(ctx, "run", at(120), "publish", along=3)
    make_candidates(ctx, planned)
    assert check(ctx, planned) == {}

    def widen(_: object) -> None:
        path = ctx.home.table("candidates")
        table = tables.at(path)
        fields = scan.spark_schema(table)
        fields["likes"].dataType.elementType.add("joined", "string")  # type: ignore[attr-defined]
        appending.grow(table, fields, path)

    monkeypatch.setattr(publish, "AT_ONCE", 1)
    publish.publish(ctx, planned, each=widen)
    assert served(ctx, world) == [("s0", True, 1), ("s1", False, 2), ("s2", False, 3)]
    table = DeltaTable(ctx.home.table("training"))
    known = set(pl.Schema(table.schema())["likes"].inner.to_schema())  # type: ignore[attr-defined]
    assert "joined" in known
    for file in table.file_uris():
        assert set(pl.read_parquet_schema(file)["likes"].inner.to_schema()) <= known  # type: ignore[attr-defined]


def test_the_table_says_what_its_columns_mean_and_follows_the_pipeline_file(world: World, spark: Any) -> None:
    described = 'describe: {row: "one impression", columns: {k: "who saw it"}}\n'
    ctx = made(world, PIPELINE + described, {"served": 1, "likes": 1})
    rows = [event("served", 0, 10 + 60 * n, key=n) for n in range(3)]
    world.produce([*rows, event("served", 0, 900), event("likes", 0, 900)])
    world.land(ctx)
    path = ctx.home.table("training")

    def comments() -> dict[str, str]:
        described = spark.sql(f"DESCRIBE TABLE delta.`{path}`").collect()
        mine = {field.name: field.metadata.get("comment", "") for field in DeltaTable(path).schema().fields}
        assert {row["col_name"]: row["comment"] or "" for row in described if row["col_name"] in mine} == mine
        return mine

    publish.publish(ctx, judged(ctx, "first", 0))
    table = DeltaTable(path)
    assert table.metadata().description.startswith("one impression\nOne row per served event of served (key: k)")
    first = comments()
    assert (first["k"], first["label_state"]) == ("who saw it", "positive, negative or unknown.")
    assert first["liked"] == "Derived label: size(likes) > 0"
    assert [name for name, text in first.items() if not text] == ["id", "t"]

    publish.publish(ctx, judged(ctx, "second", 60))
    assert DeltaTable(path).version() == table.version() + 1, "nothing to say, no commit"

    changed = world.pipeline((PIPELINE + described).replace("who saw it", "the user"), now=ctx.now())
    publish.publish(changed, judged(changed, "third", 120))
    assert DeltaTable(path).version() == table.version() + 3
    assert comments() == {**first, "k": "the user"}
    assert [row["id"] for row in world.training(ctx)] == ["x"] * 3
    require_intact(ctx.home)
