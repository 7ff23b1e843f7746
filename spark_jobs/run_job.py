"""The one door for spark-submit: `run_job.py JOB PIPELINE …` runs `windrow.jobs.JOB` and leaves with its exit code.

Jobs that need no Spark are started the same way, by plain Python. `run_job.py JOB --help` lists a job's options.
"""

from __future__ import annotations

import sys

from windrow.jobs import main_of
from windrow.jobs.run import leave

if __name__ == "__main__":
    leave(main_of(sys.argv[1] if len(sys.argv) > 1 else "")(sys.argv[2:]))
