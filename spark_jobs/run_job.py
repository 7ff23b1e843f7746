"""Entry point of every job: `run_job.py JOB PIPELINE …` runs the job JOB and ends with its exit code.

spark-submit starts it for jobs that need Spark, plain Python for the others; `windrow.jobs.MODULES` names the module
of each job. `run_job.py JOB --help` lists the options of a job.
"""

from __future__ import annotations

import sys

from windrow.jobs import main_of
from windrow.jobs.run import leave

if __name__ == "__main__":
    leave(main_of(sys.argv[1] if len(sys.argv) > 1 else "")(sys.argv[2:]))
