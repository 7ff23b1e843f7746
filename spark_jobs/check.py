"""Thin entry point for spark-submit: see windrow.jobs.check."""

import sys

from windrow.jobs.check import main

if __name__ == "__main__":
    sys.exit(main())
