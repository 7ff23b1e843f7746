"""Thin entry point for spark-submit: see windrow.jobs.late."""

from windrow.jobs.late import main
from windrow.jobs.run import leave

if __name__ == "__main__":
    leave(main())
