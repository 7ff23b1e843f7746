"""The stand-in for run_job.py in `many.py`: landing moves the clock to the present, other jobs are done at once."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime

from windrow.config import find
from windrow.home import Home
from windrow.io.registers import clocks
from windrow.places import Places


def land(name: str) -> None:
    """Record a clock observation of every topic, as after a landing without records."""
    places = Places.from_env(os.environ)
    home = Home(find(name, places.pipelines, places.expectations), places)
    now, before = datetime.now(UTC), clocks.observe(home)
    counts = dict.fromkeys(("read", "landed", "quarantined", "skipped", "unexplained", "before_start"), 0)
    rows = [
        {"topic": topic, "topic_id": "x", "partition": 0, "epoch": 0, "batch": before.number + 1, "next_offset": 1,
         "end_offset": 1, "newest_at": now, "clock_at": now, "landed_at": now, "idle": False, **counts}
        for topic in home.pipeline.topics
    ]  # fmt: skip
    clocks.record(home, before.number + 1, rows)


if __name__ == "__main__":
    job, pipeline = sys.argv[1:3]
    if job == "land":
        land(pipeline)
    print("WINDROW_RESULT", json.dumps({"pipeline": pipeline}))
