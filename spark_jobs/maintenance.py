"""Thin entry point for spark-submit: see windrow.jobs.maintenance."""

from windrow.jobs.maintenance import main
from windrow.jobs.run import leave

if __name__ == "__main__":
    leave(main())
