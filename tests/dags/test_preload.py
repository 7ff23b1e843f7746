"""What tasks need is imported where Airflow forks, and nowhere else."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from airflow.listeners.listener import get_listener_manager
from windrow_airflow import preload
manager = get_listener_manager()
if not manager.has_listeners or preload not in manager.pm.get_plugins():
    manager.add_listener(preload)
component = type(sys.argv[1], (), {})()
manager.hook.on_starting(component=component)
print(sorted(set(preload.MODULES) & set(sys.modules)) == sorted(preload.MODULES))
"""


@pytest.mark.parametrize(("component", "is_loaded"), [("Job", True), ("TaskRunnerMarker", False)])
def test_a_component_that_forks_imports_what_its_tasks_need(component: str, is_loaded: bool) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, component], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(is_loaded)
