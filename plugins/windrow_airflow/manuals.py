"""What an operator reads on a DAG's page, with the pipeline's own figures in it."""

from __future__ import annotations

from datetime import timedelta

from windrow.config import Pipeline
from windrow.text import duration_text

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
  a person, and no retry helps; the runbook in `dags/README.md` says how a gap is accepted.
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
  is not visible, later ones go on without it. Fix the cause and clear `join` with what follows, or publish it
  on your word, with a reason, by the form of `{name}.override`.
* **Retry and clear differ:** a retry carries out the recorded plan again and does nothing where it is done. A
  clear plans anew with everything that has landed since, and publishes again. Clear `join` with downstream;
  clearing `check` alone judges the same candidate again.
* **Publish a range anew:** a backfill from this page or `airflow backfill create`, with reprocess behaviour
  *completed*. The runbook in `dags/README.md` has its traps. For a long range the form of `{name}.rebuild` is
  faster: it reads the labels once, and shows beforehand what would change.
* **Manual runs are refused:** they would take the logical date of an interval that has yet to come.

Published intervals update the asset `{asset}`.
"""


_REBUILD = """
### Rebuild `{name}`: a range, published anew

Late labels or late rows have landed since a range was published, or the pipeline file was changed. The form asks for
`from` and `to` (starts of intervals of {interval}, UTC, `to` not included) and a reason; only closed intervals can be
rebuilt.

| task | does |
| --- | --- |
| `plan` | lists what will be replaced, what not and why, and what it will change; no Spark, refuses a wrong range |
| `is_no_dry_run` | ends the run here in a dry run |
| `join` | carries out the plan: one job for the whole range, labels are read once (Spark) |
| `check` | judges every interval by itself (no Spark) |
| `publish` | replaces each interval that passed in a commit of its own (Spark) |

* **Dry run first:** it is the default of the form. The log of `plan`, its XCom and the *Report* link show the list.
* **One rebuild at a time;** the next waits. Scheduled runs go on beside it: where both want the same table, one waits,
  deferred, and its log says for whom.
* **`check` is red:** the log names the blocked intervals. The others are published all the same; readers see the old
  rows of the blocked ones until somebody decides.
* **It stopped in the middle:** clear the failed task with what follows. What is published is not done again.
* **Same thing on a laptop:** `windrow rebuild {name} --from … --to …`
"""

_OVERRIDE = """
### Override `{name}`: publish a blocked interval on your word

Expectations blocked an interval, you have read the report (the *Report* link of the failed `check`), and its rows are
right all the same. The form asks for the start of the interval and a reason. Both stand in the publication for good,
beside the name of the user who sent the form, and on the pipeline's page.

* **What cannot be overridden:** counts that do not balance, and a candidate without a verdict. Those are no opinions.
* **The candidate is published as it was judged.** Has better data landed since? Then clear `join` of the failed run in
  `{name}.training` instead.
* **Leave it** is a decision too: the interval stays invisible, the others go on without it.
* **Same thing on a laptop:** `windrow override {name} --interval … --reason …`
"""

_RECONCILE = """
### Reconcile `{name}`: nothing is wrong that the ledger does not know

Every day: the late ledger is completed, then yesterday's intervals are computed again with everything that has landed,
beside the published table. Live result plus late ledger must be that rebuild, exactly.

| task | does | when it is red |
| --- | --- | --- |
| `late` | adds what newly landed to the ledger (Spark) | a retry goes on where it stopped |
| `reconcile` | compares, names holes (Spark) | **a difference that the ledger does not explain**: read its log |
| `summarise` | the day's page of trends (no Spark) | a retry helps |

* **Many late lines are no failure.** They say what a rebuild would change: `windrow late {name}`, `{name}.rebuild`.
* **A hole** is a closed interval without a publication: look at its run in `{name}.training`.
* **An unexplained difference:** keep the log and the rows that it shows, pause `{name}.training`, and look for a writer
  that is not Windrow, or a restored table. `windrow verify {name}` compares with the recorded pins.
"""

_LAG_IMPACT = """
### Lag impact of `{name}`: what lag would have cost, and which window is right

Every day over the last closed day, or by hand over a range of the form: the landed events are played again with lag
injected on a side, a partition or all, and under other clocks. The *Report* link shows labels lost, rows delayed,
recall against window, and the smallest settings that reach a wanted recall.

* **The form may stay empty.** Lists take commas. A sample keeps all events of a key.
* **The range must be closed** for recall to be known; the report says what is censored.
* **It changes nothing** but the table `lag_impact` and its page. Settings are changed in the pipeline file.
* **Same thing on a laptop:** `windrow lag-impact {name}`
"""

_MAINTENANCE = """
### Maintenance of `{name}`: small files together, dead files away

Every day. The rows of closed hours in `landing` and `training` are put into few files, without changing one of them.
Candidates that can never be published, files that no version of the last {retention} needs, and old reports go.

* **Safe beside everything else:** it holds a table's lock for an hour's rows at a time; land, join and publish wait or
  go on, and a reader keeps the files that it began with.
* **Past versions** of the training table can be read for the retention, {retention}. Below 7 days is refused.
* **It failed or was killed:** nothing is half done; the next run goes on.
* **It is paused:** nothing breaks, but disk fills and reads slow down.
* **Same thing on a laptop:** `windrow maintain {name}`
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


def rebuild_manual(pipeline: Pipeline) -> str:
    """For `<name>.rebuild`."""
    return _REBUILD.format(name=pipeline.name, interval=duration_text(pipeline.interval))


def override_manual(pipeline: Pipeline) -> str:
    """For `<name>.override`."""
    return _OVERRIDE.format(name=pipeline.name)


def reconcile_manual(pipeline: Pipeline) -> str:
    """For `<name>.reconcile`."""
    return _RECONCILE.format(name=pipeline.name)


def lag_impact_manual(pipeline: Pipeline) -> str:
    """For `<name>.lag_impact`."""
    return _LAG_IMPACT.format(name=pipeline.name)


def maintenance_manual(pipeline: Pipeline, retention: timedelta) -> str:
    """For `<name>.maintenance`."""
    return _MAINTENANCE.format(name=pipeline.name, retention=duration_text(retention))
