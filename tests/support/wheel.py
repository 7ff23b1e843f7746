"""The wheel of this checkout, what a user of it writes, and a shell that does not know the repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from windrow.places import PROJECT

DAG_FILE = """\
from pathlib import Path
from windrow_airflow.factory import make_dags
globals().update(make_dags(Path(__file__).parent / "pipelines"))
"""
DAGS = """
import sys
from airflow import plugins_manager
from airflow.dag_processing.dagbag import DagBag
assert "windrow_airflow.window_timetable.WindowTimetable" in plugins_manager.get_timetables_plugins()
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
from windrow import places
print(sorted(bag.dags), places.PROJECT, sorted({"pyspark", "great_expectations"} & set(sys.modules)))
"""
"""Reads a DAG folder; prints the DAGs, where Windrow is, and which engines have been imported."""


def build(folder: Path) -> Path:
    """Build the wheel into a folder, and return its path."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def environ(folder: Path, **more: str) -> dict[str, str]:
    """Environment of a shell that does not know the repository, with a home of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "JAVA_HOME") if name in os.environ}
    return {**kept, "HOME": str(folder), "AIRFLOW_HOME": str(folder / "airflow"), **more}
