"""Thin entry point for spark-submit: see windrow.jobs.verify."""

from windrow.jobs.run import leave
from windrow.jobs.verify import main

if __name__ == "__main__":
    leave(main())
