"""Erased keys are in no table, whenever their records landed, and nothing brings them back (rule 22)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from support.documents import parsed
from support.environ import environ_of
from support.generated import START, KafkaRecord, oracle_records, oracle_spec
from support.late_history import FEW, in_two_parts, landed, prepared
from support.oracle import PINS, expected, expected_rows, found_rows
from support.side_by_side import Killed, dying, faults
from support.small_pipeline import at, made
from support.world import World, content
from windrow.cli import app
from windrow.config import load
from windrow.home import Table
from windrow.io.delta import crash_points, tables
from windrow.io.ledger import table as ledger_table
from windrow.io.registers import clocks, erasures, snapshots
from windrow.io.registers.plans import Request
from windrow.jobs import land
from windrow.jobs import ledger as late
from windrow.jobs.audit import reconcile, verify
from windrow.jobs.audit.intact import require_intact
from windrow.jobs.check import check
from windrow.jobs.erasure import erase
from windrow.jobs.join import make_candidates
from windrow.jobs.landing.reconsider import reconsider_once
from windrow.jobs.landing.replay import replay
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.plan.survey import survey
from windrow.jobs.publish import publish
from windrow.jobs.rebuild import rebuild
from windrow.jobs.run import Context
from windrow.jobs.upkeep import maintain, snapshot
from windrow.jobs.upkeep.rollback import rollback
from windrow.outcomes import ExitCode, exit_code
from windrow.semantics.erasure.keys import Erased, hash_of
from windrow.semantics.landing.batch import Reconsidered
from windrow.semantics.maintenance import RETENTION
from windrow.semantics.publication import CandidateErased
from windrow.text import instant_text

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]

SECRET = b"the oracle has one of its own"


def oracle(world: World, ctx: Context, records: Iterable[KafkaRecord], *users: int) -> list[dict[str, Any]]:
    """The rows of a join of all these records without these users."""
    hashes = frozenset(filter(None, (hash_of(SECRET, {"user_id": user}) for user in users)))
    records = list(records)
    spec = replace(oracle_spec(oracle_records(records), PINS), erased=(Erased(SECRET, ("user_id",), hashes),))
    frontier = clocks.observe(ctx.home).frontier(ctx.pipeline)
    return expected_rows(expected(records, ctx.now(), frontier, spec))


def erase_user(ctx: Context, user: int) -> dict[str, Any]:
    return erase.erase(ctx, f"erase {user}", [f"user_id={user}"], who="ann")


def printed(world: World, ctx: Context, command: str, job: Any, name: str, answer: Any) -> Any:
    """What a command prints under `--json` of what its job has answered here."""
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in environ_of(world.places).items():
            patch.setenv(variable, value)
        patch.setattr(job, name, lambda *anything, **more: answer)
        done = CliRunner().invoke(app, [command, ctx.pipeline.name, "--json"])
    assert done.exit_code == 0, done.output or done.exception
    return parsed(command, done.stdout)


def test_a_key_stays_erased_through_landing_join_rebuild_verify_replay_and_rollback(world: World) -> None:
    ctx = prepared(world, FEW + "erase: {by: [user_id]}\n")
    early, late = in_two_parts(seed=24)
    erase_user(ctx, 0)  # before anything has landed
    landed(world, ctx, early)
    done = erase_user(ctx, 1)  # between landing and join
    assert all(one["rows"] > 3 for one in done["landing"].values())
    world.train(ctx)
    rows = oracle(world, ctx, early, 0, 1)
    assert found_rows(world.training(ctx), world) == rows
    assert {row["user_id"] for row in world.training(ctx)} >= {2, 3}

    done = erase_user(ctx, 2)  # after the publication
    assert done["training"]["rows"] == sum(row["values"]["user_id"] == 2 for row in rows) > 3
    assert found_rows(world.training(ctx), world) == [row for row in rows if row["values"]["user_id"] != 2]
    landed(world, ctx, late)
    begin, end = START, START + 3 * ctx.pipeline.interval
    compared = reconcile.reconcile_range(ctx, begin, end)
    reconcile.check(ctx, compared)
    assert sum(row["ledger_lines"] for row in compared.intervals) > 3

    before = clocks.observe(ctx.home)
    shutil.rmtree(ctx.home.table(Table.CLOCK))
    assert list(world.land(ctx).clocks) == list(before.clocks)  # an erased record still moves the clock
    rebuild(ctx, "again", begin, end, lambda row: None)
    assert found_rows(world.training(ctx), world) == oracle(world, ctx, [*early, *late], 0, 1, 2)
    verified = list(verify.verify(ctx, world.register(ctx)[-3:]))
    verify.refuse_differences(ctx.home, verified)
    assert printed(world, ctx, "erase", erase, "erase", done)["keys"] == 1
    assert len(printed(world, ctx, "reconcile", reconcile, "reconcile_range", compared)["intervals"]) == 3
    assert [one["is_same"] for one in printed(world, ctx, "verify", verify, "verify", verified)] == [True] * 3
    balance = [row["balance"] for row in world.register(ctx)]
    assert any('"left_erased":0' not in one for one in balance)

    standing = content(world.training(ctx))
    first = world.register(ctx)[0]
    row = rollback(ctx, first["interval"], first["number"], Request("to see", "ann"))
    assert row["rows"] < first["rows"]
    assert {row["user_id"] for row in world.training(ctx)} <= {3, 99, None}
    verify.refuse_differences(ctx.home, list(verify.verify(ctx, [row])))
    assert content(world.training(ctx)) != standing
    for topic in ctx.pipeline.topics:
        for held in world.table(ctx, f"landing/{topic}"):
            assert held["user_id"] not in (0, 1, 2), held
            if held["_quarantined"] == "erased":
                assert {value for name, value in held.items() if name[0] != "_" or name == "_raw"} == {None}


PERSON = "Wilhelmina-4711"
TEXT = """\
name: small
start: 2026-11-01T00:00:00Z
interval: 1m
left:
  name: served
  topic: {t}.served
  columns: {id: string, who: string, page: string, n: bigint, t: timestamp}
  key: [page]
  event_time: t
  out_of_orderness: 0s
right:
  - name: likes
    role: label
    topic: {t}.likes
    columns: {id: string, who: string, page: string, t: timestamp}
    key: [page]
    event_time: t
    out_of_orderness: 0s
    window: {before: 0s, after: 1m}
grace: 0s
idle: {mode: wait}
max_skew: 1m
labels: {liked: "size(likes) > 0"}
erase: {by: [who]}
"""


def event(topic: str, seconds: float, who: str, page: str = "", **more: Any) -> Any:
    stamp = at(seconds).isoformat().replace("+00:00", "Z")
    value = {"id": f"{who} {seconds}", "who": who, "page": page or who, "t": stamp, **more}
    return (topic, 0, json.dumps(value).encode(), at(seconds))


def gone_rows(ctx: Context) -> int:
    """Published rows of which the ledger says that they were erased."""
    lines = ledger_table.lines(ctx.home, columns=("kind", "stream"))
    return lines.filter((pl.col("kind") == "erased") & pl.col("stream").is_null()).height


def holding(home: Path, text: str) -> list[Path]:
    """Files below a folder that hold the text, as bytes or as a value of a Parquet file."""
    found = []
    for path in (one for one in home.rglob("*") if one.is_file()):
        shown = repr(pq.ParquetFile(path).read().to_pylist()) if path.suffix == ".parquet" else ""
        if text.encode() in path.read_bytes() or text in shown:
            found.append(path)
    return found


def test_a_killed_erasure_is_finished_by_the_next_and_after_vacuum_no_byte_of_the_key_is_left(
    world: World, spark: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    ctx = made(world, TEXT, {"served": 1, "likes": 1})
    world.produce(
        [
            *(event("served", n * 30, who, n=n) for n in range(4) for who in (PERSON, "other")),
            event("served", 5, PERSON, n="no number"),  # quarantined, and its key can be read
            *(event("likes", n * 30 + 1, who) for n in range(4) for who in (PERSON, "other")),
            event("likes", 32, PERSON, page="other"),  # a like of somebody else's row
            *(event(topic, 600, "last") for topic in ("served", "likes")),
        ]
    )
    world.land(ctx)
    assert [one.blocked for one in world.train(ctx)] == [{}]
    snapshot.take(ctx, "kept", who="ann")
    waiting = plan_interval(ctx, "waiting", at(60), "republish", 1)
    make_candidates(ctx, waiting)
    check(ctx, waiting)
    rows = world.training(ctx)
    assert len(holding(world.places.home, PERSON)) > 3  # the search can find it

    keys = world.places.home.parent / "keys.csv"
    keys.write_text(f"who\n{PERSON}\n")
    with faults():
        for n, point in enumerate(crash_points.ERASE_POINTS):
            with dying(point), pytest.raises(Killed):
                erase.erase(ctx, f"try {n}", file=str(keys), who="ann")
            assert len(erasures.unfinished(ctx.home)) == 1
            if point == "erase.after_landing":
                late.extend(ctx)  # the rows of the key are still published, and have no landed row any more
                assert gone_rows(ctx) == 4
    done = erase.erase(ctx, "last", file=str(keys), who="ann")
    assert erasures.unfinished(ctx.home) == []
    assert gone_rows(ctx) == 0
    assert (done["new_keys"], done["training"]["rows"]) == (0, 0)  # the killed tries have done that
    assert (done["snapshots"], done["not_covered"]) == ({"kept": 6}, [])

    left = [row for row in rows if row["who"] != PERSON]
    assert world.training(ctx) == left
    assert len(left) == len(rows) - 4
    assert done["other_rows"] == {instant_text(at(0)): 2}
    assert survey(ctx, at(0), at(120)).counts == {"replace": 1, "leave": 1}  # no pin has changed
    rebuild(ctx, "without", at(0), at(60), lambda row: None)
    assert PERSON not in repr(world.training(ctx))
    standing = world.training(ctx)
    first = next(row for row in world.register(ctx) if row["interval"] == at(0))
    with pytest.raises(erasures.HoldsErased, match=r"matches of such a key.*Rebuild the interval instead"):
        rollback(ctx, at(0), first["number"], Request("to see", "ann"))
    assert world.training(ctx) == standing
    require_intact(ctx.home)
    with pytest.raises(CandidateErased, match=r"was discarded\. Nothing was published") as refused:
        publish(ctx, waiting)
    assert exit_code(refused.value) == ExitCode.ANOTHER_WRITER
    again = erase.erase(ctx, "once more", who="ann")  # without a key: looks for what was erased before
    assert {one["rows"] for one in again["landing"].values()} == {0}

    assert snapshots.kept(ctx.home)
    snapshot.delete(ctx, "kept", who="ann")
    for table in [
        *(ctx.home.table(one) for one in Table if one is not Table.LANDING),
        *map(ctx.home.landing, ctx.pipeline.topics),
    ]:
        if tables.opened(table) is not None:
            assert DeltaTable(table).protocol().min_reader_version == 1
            DeltaTable(table).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert holding(world.places.home, PERSON) == []
    said = capfd.readouterr()
    secret = Path(ctx.places.erasure_secret("small"))
    assert secret.stat().st_mode & 0o077 == 0
    for hidden in (PERSON, secret.read_text()):
        assert hidden not in said.out + said.err
    text = TEXT.replace("who: string, page: string, n", "page: string, n").replace("erase: {by: [who]}\n", "")
    blind = world.pipeline(text, now=ctx.now())
    planned = plan_interval(blind, "blind", at(60), "republish", 1)
    moves: list[Callable[[], object]] = [
        lambda: world.land(blind),
        lambda: reconsider_once(spark, blind, Reconsidered("ann", "to see")),
        lambda: make_candidates(blind, planned),
        lambda: rollback(blind, at(0), first["number"], Request("to see", "ann")),
        lambda: replay(blind, Request("lost", "ann")),
    ]
    for move in moves:
        with pytest.raises(erasures.ErasedColumnGone, match="erased by who, and the left stream served has no such"):
            move()
    deaf = world.pipeline(TEXT.replace("who: string, page: string, t", "page: string, t"), now=ctx.now())
    with pytest.raises(erasures.ErasedColumnGone, match=r"the stream likes, which reads .* lacks one now"):
        world.land(deaf)
    secret.unlink()
    world.produce([event("served", 700, "last")])
    with pytest.raises(erasures.SecretLost):
        world.land(ctx)


VIEWS = """\
  - name: views
    role: feature
    topic: {t}.likes
    columns: {id: string, page: string, t: timestamp}
    key: [page]
    event_time: t
    out_of_orderness: 0s
    window: {before: 0s, after: 1m}
grace: 0s
"""


def abandoned(ctx: Context) -> Path:
    """A file that a killed process staged long ago."""
    file = Path(ctx.places.staging(ctx.pipeline.name)) / "erase-gone-7" / "part.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(PERSON.encode())
    os.utime(file, (0, 0))
    return file


def test_bytes_of_reconsidered_records_go_too_and_what_cannot_be_searched_is_named(world: World) -> None:
    text = TEXT.replace("page: string, t: timestamp}\n    key", "page: string, t: timestamp, n: int}\n    key")
    text = text.replace("grace: 0s\n", VIEWS)
    small = made(world, f"{text}max_record_bytes: 1024\n", {"served": 1, "likes": 1})
    _, _, doubtful, stamp = event("likes", 20, "other", n="no number")
    world.produce(
        [
            *(event("served", 10, who, page="x" * 1100) for who in (PERSON, "Heloise-1", "other")),
            ("served", 0, f"no JSON of {PERSON}".encode(), at(11)),
            ("likes", 0, doubtful.replace(b'"who": "other", ', b""), stamp),  # lands for `views`, and keeps its bytes
        ]
    )
    world.land(small)

    def unsearchable(done: dict[str, Any]) -> list[int]:
        return [done["landing"][f"{world.name}.{topic}"]["unsearchable"] for topic in ("served", "likes")]

    def kept() -> list[str]:
        rows = world.table(small, f"landing/{world.name}.served")
        return sorted(who for row in rows for who in (PERSON, "Heloise-1", "other") if who in repr(row))

    done = erase.erase(small, "before", [f"who={PERSON}"], who="ann")
    assert (unsearchable(done), done["unknown_tables"]) == ([4, 1], [])
    path = world.places.pipelines[0] / "small.yaml"
    path.write_text(text.replace("{t}", world.name))
    ctx = replace(small, pipeline=load(path, world.places.expectations))
    *_, last = land.land(ctx, reconsider=Reconsidered("ann", "larger records are read"))
    assert sum(row["landed"] for row in last.after.rows) >= 3
    assert kept() == ["Heloise-1", "Heloise-1", PERSON, PERSON, "other", "other"]  # one of them is no JSON

    shutil.copytree(ctx.home.landing(f"{world.name}.likes"), ctx.home.landing("stream.of.old"))
    staged = abandoned(ctx)
    done = erase.erase(ctx, "after", ["who=Heloise-1"], who="ann")
    assert done["landing"][f"{world.name}.served"]["rows"] == 3  # her row, its original, and his original
    assert kept() == [PERSON, "other", "other"]
    assert (unsearchable(done), done["unknown_tables"]) == ([1, 1], ["stream.of.old"])
    assert "landing/stream.of.old, whose topic left" in Path(done["report"]).read_text()
    again = erase.erase(ctx, "once more", who="ann")
    assert {one["rows"] for one in again["landing"].values()} == {0}
    require_intact(ctx.home)

    assert not staged.parent.exists()
    staged = abandoned(ctx)
    kept_up = maintain.maintain(ctx, RETENTION)
    assert printed(world, ctx, "maintain", maintain, "maintain", kept_up)["snapshots"] == 0
    assert not staged.parent.exists()
