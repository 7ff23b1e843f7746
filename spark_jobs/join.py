"""Thin entry point for spark-submit: see windrow.jobs.join."""

import sys

from windrow.jobs.join import main

if __name__ == "__main__":
    sys.exit(main())
