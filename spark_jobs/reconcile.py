"""Thin entry point for spark-submit: see windrow.jobs.reconcile."""

from windrow.jobs.reconcile import main
from windrow.jobs.run import leave

if __name__ == "__main__":
    leave(main())
