"""Thin entry point for spark-submit: see windrow.jobs.override."""

from windrow.jobs.override import main
from windrow.jobs.run import leave

if __name__ == "__main__":
    leave(main())
