"""Thin entry point for spark-submit: see windrow.jobs.summarise."""

from windrow.jobs.run import leave
from windrow.jobs.summarise import main

if __name__ == "__main__":
    leave(main())
