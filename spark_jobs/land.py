"""Thin entry point for spark-submit: see windrow.jobs.land."""

import sys

from windrow.jobs.land import main

if __name__ == "__main__":
    sys.exit(main())
