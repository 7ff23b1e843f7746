"""Thin entry point for spark-submit: see windrow.jobs.publish."""

import sys

from windrow.jobs.publish import main

if __name__ == "__main__":
    sys.exit(main())
