"""What an operator reads on a DAG's page, with the pipeline's own figures in it."""

from __future__ import annotations

from datetime import timedelta

from windrow.config import Pipeline, duration_text

_LAND = """
### Land `{name}`: Kafka to Delta

One landing run for all topics of the pipeline ({topics}), every {land_every}. Each record lands exactly once,
unreadable ones are quarantined in the same commit, and the clock of every partition is written, also when
nothing came. Rows of `<home>/tables/{name}/landing/<topic>` are never changed.

* **Paused or failing:** nothing is lost while Kafka keeps the records, but the clock stands still, so no
  interval closes. Turn it on again, it goes on at the next offset.
* **Run it now:** trigger it by hand, as often as you like. With `land_every` below a minute a run lasts ten
  minutes and lands all the time, because starting a JVM costs more than landing.
* **Exit 40, locked:** somebody lands on the command line; the next run goes on.
* **Offsets are gone** (retention was faster): it fails and names partition and range. That is a decision for
  a person, and no retry helps.
* **Same thing on a laptop:** `windrow land {name}`
"""

_TRAINING = """
### Training rows of `{name}`: one run, one interval of {interval}

| task | does | when it fails |
| --- | --- | --- |
| `wait` | waits, deferred, for watermark ≥ end + {after} (largest `after`) + {grace} (grace) | it does not |
| `join` | joins its rows with all their labels into a candidate (Spark) | retried; 40 is another writer |
| `check` | judges the candidate by the suite `{suite}` (no Spark) | **blocked**, not retried: see below |
| `publish` | makes the interval visible in one commit (Spark) | retried; twice publishes once |

A run starts {delay} after its interval's end, when the window should have closed by the wall clock.

* **Green `wait`, the rest skipped:** another run, catching up after an outage, has published this interval.
* **`wait` hangs:** its log names the partition that holds the clock and what is missing; then look at the DAG
  `{name}.land`. Waiting is right: a lagging partition's labels are never turned into false negatives.
  `windrow clock {name}` shows the same on the command line.
* **`check` is red:** the log names expectation, observed and expected value, and the report. The interval
  is not visible, later ones go on without it. Fix the cause and clear `join` with what follows, or override
  with a reason on the command line: `windrow override`.
* **Retry and clear differ:** a retry carries out the recorded plan again and does nothing where it is done. A
  clear plans anew with everything that has landed since, and publishes again. Clear `join` with downstream;
  clearing `check` alone judges the same candidate again.
* **Publish a range anew:** a backfill from this page or `airflow backfill create`, with reprocess behaviour
  *completed*. The runbook in `dags/README.md` has its traps.
* **Manual runs are refused:** they would take the logical date of an interval that has yet to come.

Published intervals update the asset `{asset}`.
"""


def land_manual(pipeline: Pipeline) -> str:
    """For `<name>.land`."""
    return _LAND.format(
        name=pipeline.name,
        topics=", ".join(f"`{topic}`" for topic in pipeline.topics),
        land_every=duration_text(pipeline.land_every),
    )


def training_manual(pipeline: Pipeline, delay: timedelta, asset: str) -> str:
    """For `<name>.training`."""
    return _TRAINING.format(
        name=pipeline.name,
        interval=duration_text(pipeline.interval),
        after=duration_text(pipeline.after),
        grace=duration_text(pipeline.grace),
        delay=duration_text(delay),
        suite=pipeline.suite,
        asset=asset,
    )
