"""Thin entry point for spark-submit: see windrow.jobs.join."""

from windrow.jobs.join import main
from windrow.jobs.run import leave

if __name__ == "__main__":
    leave(main())
