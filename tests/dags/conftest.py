"""Airflow without its database: an empty home, this checkout's plugins, no examples.

The environment is set when this file is imported, because Airflow reads it when it is imported.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]

_home = tempfile.mkdtemp(prefix="windrow-airflow-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ.update(
    AIRFLOW_HOME=_home,
    AIRFLOW__CORE__PLUGINS_FOLDER=str(PROJECT / "plugins"),
    AIRFLOW__CORE__DAGS_FOLDER=str(PROJECT / "dags"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
)

PIPELINE = """
name: {name}
start: {start}
interval: {interval}
left:
  name: served
  topic: {name}.served
  columns: {{request_id: string, user_id: bigint, served_at: timestamp}}
  key: [user_id]
  event_time: served_at
  out_of_orderness: 30s
right:
  - name: clicks
    role: label
    topic: {name}.clicks
    columns: {{user_id: bigint, clicked_at: timestamp}}
    key: [user_id]
    event_time: clicked_at
    out_of_orderness: 1m
    window: {{before: 0s, after: 30m}}
grace: 1m
idle: {{mode: caught_up, after: 5m}}
erase: {{by: [user_id]}}
"""


@pytest.fixture
def pipelines(tmp_path, monkeypatch):
    """A folder of pipeline files of our own, a home of our own; call it to add a pipeline."""
    folder = tmp_path / "pipelines"
    folder.mkdir()
    monkeypatch.setenv("WINDROW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WINDROW_PIPELINES", str(folder))

    def add(name, start="2026-11-01T00:00:00Z", interval="10m"):
        path = folder / f"{name}.yaml"
        path.write_text(PIPELINE.format(name=name, start=start, interval=interval))
        return path

    add.folder = folder
    return add
