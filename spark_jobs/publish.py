"""Thin entry point for spark-submit: see windrow.jobs.publish."""

from windrow.jobs.publish import main
from windrow.jobs.run import leave

if __name__ == "__main__":
    leave(main())
