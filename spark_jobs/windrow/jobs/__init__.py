"""The jobs: arguments in, tables read, rows computed, tables written, and an exit code. One job per module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module

MODULES = {
    "canary": "canary",
    "card": "upkeep.card",
    "check": "check",
    "erase": "erasure.erase",
    "join": "join",
    "lag_impact": "lag.impact",
    "land": "land",
    "late": "ledger",
    "maintenance": "upkeep.maintain",
    "override": "upkeep.override",
    "plan": "plan.plan_intervals",
    "publish": "publish",
    "reconcile": "audit.reconcile",
    "replay": "landing.replay",
    "rollback": "upkeep.rollback",
    "snapshot": "upkeep.snapshot",
    "summarise": "summarise",
    "verify": "audit.verify",
}
"""Name of a job for DAGs and `run_job.py` → its module."""


def main_of(job: str) -> Callable[[Sequence[str]], int]:
    """Return the `main` of a job, which takes the command line after the job's name and returns the exit code.

    Raises:
        SystemExit: no job has that name; the code is 2, and the names are printed.
    """
    if job not in MODULES:
        print(f"{job!r} is not a job; choose one of: {', '.join(MODULES)}", file=sys.stderr)
        raise SystemExit(2)
    main: Callable[[Sequence[str]], int] = import_module(f"windrow.jobs.{MODULES[job]}").main
    return main
