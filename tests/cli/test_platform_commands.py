"""`windrow status` and `down` look after processes, whatever is said of tables; `train` says how much is to come."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import windrow


@pytest.mark.parametrize("command", ["status", "down"])
def test_the_parts_are_shown_and_stopped_where_the_location_of_tables_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("WINDROW_TABLES", "gs://bucket")
    kept = tmp_path / "platform" / "airflow" / "tables"
    kept.parent.mkdir(parents=True)
    kept.write_text("s3://lake at https://store.example")
    done = windrow({"WINDROW_HOME": str(tmp_path), "WINDROW_KAFKA": "127.0.0.1:9"}, command)
    assert done.returncode == 0, done.stderr
    assert ("s3://lake at https://store.example" in done.stdout) == (command == "status")
