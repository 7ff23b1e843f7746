"""Thin entry point for spark-submit: see windrow.jobs.land."""

from windrow.jobs.land import main
from windrow.jobs.run import leave

if __name__ == "__main__":
    leave(main())
