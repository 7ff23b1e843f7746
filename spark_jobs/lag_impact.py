"""Thin entry point for spark-submit: see windrow.jobs.lag_impact."""

from windrow.jobs.lag_impact import main
from windrow.jobs.run import leave

if __name__ == "__main__":
    leave(main())
