"""Thin entry point for spark-submit: see windrow.jobs.check."""

from windrow.jobs.check import main
from windrow.jobs.run import leave

if __name__ == "__main__":
    leave(main())
