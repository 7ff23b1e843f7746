"""Past states: every reader finds the rows of a publication by its version, and a rollback makes them stand again."""

from __future__ import annotations

from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

from support.generated import START
from support.late_history import in_two_parts, landed, prepared
from support.world import World, content
from windrow import training
from windrow.home import Table
from windrow.io.delta import store, tables
from windrow.io.ledger import table as ledger_table
from windrow.io.registers.plans import Request
from windrow.jobs import ledger, rebuild
from windrow.jobs.audit import verify
from windrow.jobs.join import make_candidates
from windrow.jobs.plan import survey
from windrow.jobs.publish import publish
from windrow.jobs.run import BadRequest, Context
from windrow.jobs.upkeep import snapshot
from windrow.jobs.upkeep.rollback import rollback
from windrow.outcomes import NothingToDo
from windrow.semantics.publication import Superseded
from windrow.transforms.ledger.passes import Pass

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

WHY = Request("the new labels are wrong", "a person")


def last_pass(ctx: Context) -> Pass:
    found = ledger_table.last_pass(ctx.home)
    assert found is not None
    return found


def by_spark(spark: Any, path: str, version: int) -> list[tuple[Any, ...]]:
    rows = spark.read.format("delta").option("versionAsOf", version).load(path)
    return sorted(map(tuple, rows.select("_partition", "_offset", "label_state", "_publication").collect()))


def by_delta_rs(path: str, version: int) -> list[tuple[Any, ...]]:
    rows = DeltaTable(path, version=version).to_pyarrow_table().to_pylist()
    return sorted((r["_partition"], r["_offset"], r["label_state"], r["_publication"]) for r in rows)


def by_polars(path: str, version: int) -> list[tuple[Any, ...]]:
    rows = pl.scan_delta(path, version=version)
    return sorted(rows.select("_partition", "_offset", "label_state", "_publication").collect().rows())


def by_duckdb(path: str, version: int) -> list[tuple[Any, ...]]:
    """DuckDB reads the files of a folder itself, and those of a store through Arrow: its extension is elsewhere."""
    table = DeltaTable(path, version=version)
    rows = table.to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by its name
    source = "rows" if store.is_remote(path) else f"read_parquet({table.file_uris()})"
    return sorted(duckdb.sql(f"select _partition, _offset, label_state, _publication from {source}").fetchall())


@pytest.mark.both_roots(long=True)
def test_every_reader_finds_a_past_publication_and_a_rollback_makes_it_stand(world: World, spark: Any) -> None:
    ctx = prepared(world)
    early, late = in_two_parts(seed=24)
    landed(world, ctx, early)
    world.train(ctx)
    path = ctx.home.table(Table.TRAINING)
    before = world.training(ctx)
    landed(world, ctx, late)
    first, second = START, START + ctx.pipeline.interval
    rebuild.rebuild(ctx, "again", first, second, lambda row: None, Request("late rows", "me"))
    after = world.training(ctx)
    register = world.register(ctx)
    old, new = register[0], register[-1]
    assert old["interval"] == new["interval"] == first
    assert content(before) != content(after)

    snapshot.take(ctx, "rebuilt", who=WHY.who)

    # a plan that was made before the rollback: afterwards it is outdated
    outdated = survey.plan_range(ctx, "outdated", first, second, WHY, everything=True)
    make_candidates(ctx, outdated)
    DeltaTable(path).optimize.compact()  # several intervals in one file now
    assert len(DeltaTable(path).file_uris()) < len(register)

    versions = {old["number"]: before, new["number"]: after}
    for number, rows in versions.items():
        row = next(r for r in register if r["number"] == number)
        wanted = sorted((r["_partition"], r["_offset"], r["label_state"], r["_publication"]) for r in rows)
        version = row["training_version"] if number == new["number"] else register[-2]["training_version"]
        found = [read(path, version) for read in (by_delta_rs, by_polars, by_duckdb)]
        assert [by_spark(spark, path, version), *found] == [wanted] * 4
        assert sum(r[3] == number for r in by_polars(path, row["training_version"])) == row["rows"]

    kept = versions[new["number"]]
    wanted = sorted((r["_partition"], r["_offset"], r["label_state"], r["_publication"]) for r in kept)
    commits = len(list(tables.commits(path)))
    back = rollback(ctx, first, old["number"], WHY)
    assert len(list(tables.commits(path))) == commits + 1
    assert content(world.training(ctx)) == content(before)
    assert {r["_publication"] for r in world.training(ctx) if r["_interval"] == first} == {back["number"]}
    rows = training.read(ctx.pipeline.name, at="snapshot:rebuilt", labels="all", places=ctx.places).rows
    assert sorted(rows.select("_partition", "_offset", "label_state", "_publication").collect().rows()) == wanted
    columns = {name: back[name] for name in ("kind", "reason", "asked_by", "rolled_back_to")}
    assert columns == {"kind": "rollback", "reason": WHY.reason, "asked_by": WHY.who, "rolled_back_to": old["number"]}
    same = ("interval", "rows", "positive", "negative", "unknown", "plan", "config_hash", "verdict", "balance")
    assert [back[name] for name in same] == [old[name] for name in same]
    assert world.register(ctx)[-1] == back
    (total,) = ledger.totals(ctx, [first])
    assert (total["publication"], total["lines"] > 0) == (back["number"], True), "a rebuild would change it"
    assert ledger.unseen(ctx, last_pass(ctx)) == []

    with pytest.raises(NothingToDo, match="that stand"):
        rollback(ctx, first, old["number"], WHY)
    with pytest.raises(BadRequest, match=r"has no publication 99; it has 1, "):
        rollback(ctx, first, 99, WHY)
    with pytest.raises(Superseded, match="another run was faster"):
        publish(ctx, outdated, override=("the test", "no gate"))
    assert all(outcome.is_same for outcome in verify.verify(ctx, [old, new, back]))
    forward = rollback(ctx, first, new["number"], WHY)
    assert content(world.training(ctx)) == content(after)
    assert forward["rolled_back_to"] == new["number"]
