"""A damaged file that only Spark meets is named in one line, with its exit code, in front of Spark's trace."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from support.small_pipeline import PIPELINE, event, made
from support.world import World
from windrow.io.delta import tables
from windrow.jobs.causes import known_cause
from windrow.outcomes import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_a_damaged_data_file_is_named_and_needs_a_person(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("served", 0, 20), event("served", 0, 400), event("likes", 0, 400)])
    world.land(ctx)
    table = Path(ctx.home.landing(f"{world.name}.served"))
    file = table / tables.data_files(DeltaTable(str(table)))["path"][0].as_py()
    kept = shutil.copy(file, table.parent / "kept")
    for damage in (lambda: file.unlink(), lambda: file.write_bytes(Path(kept).read_bytes()[:-20])):
        damage()
        done = world.script("join", ctx.pipeline.name, "--run", "r", "--interval", "2026-11-01T00:00:00Z")
        assert done.returncode == ExitCode.NEEDS_PERSON, done.stderr[-2000:]
        line = next(line for line in done.stderr.splitlines() if line.startswith("TableDamaged: "))
        assert file.name in line
        assert "Restore it" in line
    shutil.copy(kept, file)
    assert world.script("join", ctx.pipeline.name, "--run", "r", "--interval", "2026-11-01T00:00:00Z").returncode == 0


def test_other_errors_have_no_known_cause() -> None:
    assert known_cause(ValueError("[SOMETHING_ELSE] Encountered no file")) is None
