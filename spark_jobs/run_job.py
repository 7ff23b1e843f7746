"""Entry point of every job: `run_job.py JOB PIPELINE …` runs the job JOB and ends with its exit code.

spark-submit starts it for jobs that need Spark, plain Python for the others; `windrow.jobs.MODULES` names the module
of each job. `run_job.py JOB --help` lists the options of a job.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from windrow.jobs import main_of
from windrow.jobs.run import keep_to_owner, leave
from windrow.outcomes import BadInput


def main(argv: Sequence[str]) -> int:
    """Return the exit code of the job that the first argument names."""
    try:
        keep_to_owner()
    except BadInput as wrong:
        print(wrong, file=sys.stderr)
        return wrong.code
    return main_of(argv[0] if argv else "")(argv[1:])


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
