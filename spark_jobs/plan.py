"""Thin entry point, without Spark: see windrow.jobs.plan."""

from windrow.jobs.plan import main
from windrow.jobs.run import leave

if __name__ == "__main__":
    leave(main())
