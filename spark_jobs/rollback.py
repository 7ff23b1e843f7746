"""Thin entry point for spark-submit: see windrow.jobs.rollback."""

from windrow.jobs.rollback import main
from windrow.jobs.run import leave

if __name__ == "__main__":
    leave(main())
