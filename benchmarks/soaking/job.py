"""One job of Windrow, under a host clock that may be off: `job.py JOB PIPELINE …`.

JOB is one that `run_job.py` knows, or else, and with SOAK_TOOL=windrow, a command of `windrow`. SOAK_CLOCK holds the
seconds by which the clock is off. Jobs take the time from their context alone: moving that moves the host's clock as
they see it.
"""

import os
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from windrow import jobs
from windrow.jobs import run

OFF = timedelta(seconds=float(os.environ.get("SOAK_CLOCK") or 0))
_context = run.context


def moved(name: str, *, is_reader: bool = False) -> run.Context:
    """The context of a pipeline, with the moved clock."""
    return replace(_context(name, is_reader=is_reader), now=lambda: datetime.now(UTC) + OFF)


if __name__ == "__main__":
    run.context = moved  # before any job is imported
    if sys.argv[1] in jobs.MODULES and os.environ.get("SOAK_TOOL") != "windrow":
        run.leave(jobs.main_of(sys.argv[1])(sys.argv[2:]))
    from windrow.cli import main

    main()
