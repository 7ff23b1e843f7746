"""Payload is in data files alone, and what Windrow makes is for its owner only."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from support.small_pipeline import START, at, made
from support.world import World
from windrow.columns import LANDING_META, TRAINING_STATISTICS
from windrow.io.delta import tables
from windrow.jobs import ledger, summarise
from windrow.jobs.audit import verify
from windrow.jobs.upkeep import maintain
from windrow.places import PROJECT, umask_of

PLANTED = "alice@planted.example"
PIPELINE = """\
name: private
start: 2026-11-01T00:00:00Z
interval: 1m
left:
  name: served
  topic: {t}.served
  columns: {id: string, k: string, feature: string, amount: bigint, t: timestamp}
  key: [k]
  event_id: id
  event_time: t
  out_of_orderness: 10s
right:
  - name: likes
    role: label
    topic: {t}.likes
    columns: {id: string, k: string, comment: string, t: timestamp}
    key: [k]
    event_id: id
    event_time: t
    out_of_orderness: 5s
    window: {before: 0s, after: 2m}
grace: 30s
idle: {mode: wait}
max_skew: 1m
labels: {liked: "size(likes) > 0"}
"""
HOLD_PAYLOAD = ("landing", "training", "candidates")


def event(topic: str, seconds: float, name: str) -> Any:
    text = (
        f'{{"id": "id {name}", "k": "key {name}", "feature": "f {name}", "comment": "c {name}", "amount": 987654321, '
    )
    return (topic, 0, f'{text}"t": "{START + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"}}'.encode(), at(seconds))


def texts(file: Path) -> str:
    """Everything that a file says; checkpoints are Parquet, whose bytes may be compressed."""
    if file.name.endswith(".checkpoint.parquet"):
        return str(pq.read_table(file).to_pylist())
    return file.read_bytes().decode(errors="replace")


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_payload_is_in_data_files_alone_and_everything_is_for_its_owner_only(world: World) -> None:
    # the clock of the processes that land too
    ctx = replace(made(world, PIPELINE, {"served": 1, "likes": 1}), now=lambda: datetime.now(UTC))
    home = world.places.home
    world.produce(event(topic, n, f"{PLANTED} {n}") for topic in ("served", "likes") for n in (5, 20, 700))
    world.produce([("served", 0, f"no JSON {PLANTED}".encode(), at(701))])
    done = world.script("land", ctx.pipeline.name)
    assert done.returncode == 0, done.stderr[-2000:]
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in (home, *home.rglob("*"))}
    assert len(modes) > 20
    assert {str(path): oct(mode) for path, mode in modes.items() if mode & 0o077} == {}

    landing = ctx.home.landing(f"{world.name}.served")
    DeltaTable(landing).alter.set_table_properties({tables.STATISTICS: "k,_batch"})  # as an older release had it
    world.produce(event(topic, n, f"{PLANTED} {n}") for topic in ("served", "likes") for n in (21, 800))
    world.land(ctx)
    world.train(ctx)
    world.produce([event("likes", 25, f"{PLANTED} 20")])
    world.land(ctx)
    ledger.extend(ctx)
    maintain.maintain(ctx, timedelta(days=14))
    summarise.summarise(ctx, START.date())
    assert all(outcome.is_same for outcome in verify.verify(ctx, verify.chosen(ctx)))
    assert any(row["liked"] for row in world.training(ctx))

    for path, kept in ((landing, LANDING_META), (world.places.table("private", "training"), TRAINING_STATISTICS)):
        known = {name.partition(".")[2] for name in tables.data_files(DeltaTable(path)).column_names if "." in name}
        assert known - {"_date"} == set(kept)
    for log in sorted(home.glob("tables/**/_delta_log")):
        DeltaTable(log.parent).create_checkpoint()
    files = [path for path in home.rglob("*") if path.is_file()]
    holding = {path.relative_to(home) for path in files if PLANTED in texts(path) or "987654321" in texts(path)}
    assert any(file.parts[:2] == ("tables", "private") for file in holding)
    assert {
        str(file)
        for file in holding
        if file.suffix != ".parquet" or "_delta_log" in file.parts or file.parts[2] not in HOLD_PAYLOAD
    } == set()


@pytest.mark.parametrize("text", ["77", "8", "u=rwx", "0777", "177", "-22"])
def test_a_mask_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="WINDROW_UMASK"):
        umask_of({"WINDROW_UMASK": text})


@pytest.mark.parametrize(("text", "mode"), [(None, 0o600), ("077", 0o600), ("0027", 0o640), ("022", 0o644)])
@pytest.mark.parametrize("entry", [["-m", "windrow.platform", "nothing"], [f"{PROJECT}/spark_jobs/run_job.py", "x"]])
def test_every_entry_sets_the_mask(tmp_path: Path, entry: list[str], text: str | None, mode: int) -> None:
    """The process leaves with an error at once; what it would have written, `sitecustomize` writes at its end."""
    made_at_exit = "import atexit\n"
    made_at_exit += f"end = lambda: open({str(tmp_path / 'made')!r}, 'w').close()\n"
    (tmp_path / "sitecustomize.py").write_text(f"{made_at_exit}atexit.register(end)\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", ""), str(PROJECT / "spark_jobs")])
    env = {**os.environ, "PYTHONPATH": path, **({"WINDROW_UMASK": text} if text else {})}
    subprocess.run([sys.executable, *entry], env=env, capture_output=True, timeout=120, check=False, umask=0o000)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == mode


def test_the_command_sets_the_mask_and_refuses_one_that_is_none(tmp_path: Path) -> None:
    env = {**os.environ, "WINDROW_HOME": str(tmp_path / "home"), "WINDROW_UMASK": "u=rwx"}
    windrow = Path(sys.executable).with_name("windrow")
    done = subprocess.run([windrow, "pipeline", "list"], env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert "WINDROW_UMASK='u=rwx' is not a file mode mask; write 077 (owner only)" in done.stderr
