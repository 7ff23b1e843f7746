"""Import what tasks need before Airflow forks the processes that run them, so that not every task imports it again.

Airflow's local executor forks its workers once, when the scheduler starts, and each task from one of them; the DAG
processor forks a process for each look at a DAG file. Only modules are imported: nothing is read, opened or connected.
"""

from __future__ import annotations

from importlib import import_module

from airflow.listeners import hookimpl

MODULES = (
    "airflow.sdk.execution_time.task_runner",
    "windrow_airflow.factory",
    "windrow_airflow.close_trigger",
    "windrow.config.sql",
    "windrow.io.registers.recent",
    "windrow.io.registers.unclosed",
)


@hookimpl
def on_starting(component: object) -> None:
    """Called by Airflow when a component starts: `component` is a `Job` in those that fork, a marker in a task."""
    if type(component).__name__ == "Job":
        for module in MODULES:
            import_module(module)
