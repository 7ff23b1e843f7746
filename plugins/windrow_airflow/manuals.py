"""Manuals on the DAGs' pages, with the pipeline's own figures."""

from __future__ import annotations

from datetime import timedelta

from windrow.config import Pipeline
from windrow.text import duration_text

_LAND = """
### Land `{name}`: Kafka to Delta

One landing run for all topics of the pipeline ({topics}), every {land_every}. Each record lands exactly once;
unreadable ones are quarantined in the same commit. The clock of every partition is written even if nothing new
arrived. Rows of the landing tables (`<home>/tables/{name}/landing/<topic>`, or below WINDROW_TABLES) are never changed.

* **Paused or failing:** nothing is lost while Kafka keeps the records, but the clock does not move, so no
  interval closes. Unpause it, and landing continues at the next offset.
* **Run it now:** trigger it by hand, as often as you like. With `land_every` below a minute a run lasts ten
  minutes and lands repeatedly, because starting a JVM takes longer than landing.
* **Exit 40, locked:** somebody is landing on the command line; the task waits, deferred, and continues by itself.
* **Offsets are gone** (retention was faster): the task fails and names partition and range. A person must decide;
  a retry does not help. The runbook in `dags/README.md` says how to accept a gap.
* **On the command line:** `windrow land {name}`
"""

_TRAINING = """
### Training rows of `{name}`: one run per interval of {interval}

| task | does | when it fails |
| --- | --- | --- |
| `wait` | waits, deferred, for watermark ≥ end + {after} (largest `after`) + {grace} (grace) | it never times out |
| `join` | joins its rows with all their labels into a candidate (Spark) | retried; 40 is another writer |
| `check` | judges the candidate by the suite `{suite}` (no Spark) | **blocked**, not retried: see below |
| `publish` | makes what passed visible, one commit per interval (rarely Spark) | retried; twice publishes once |
| `trained` | nothing | where `check` failed: others that the run took along may be published |

A run starts {delay} after its interval's end, when the window should have closed by the wall clock.

* **Green `wait`, other tasks skipped:** another run, catching up after an outage, has published this interval.
* **`wait` takes long:** its log names the partition that holds the clock and what is missing; then look at the DAG
  `{name}.land`. Waiting is intended: labels of a lagging partition must not be counted as negatives.
  `windrow clock {name}` shows the same on the command line.
* **`check` is red:** the log names expectation, observed and expected value, and the report. The interval
  is not visible; later ones are published without it. Fix the cause and clear `join` with downstream, or publish
  it by your own decision, with a reason, in the form of `{name}.override`.
* **Retry and clear differ:** a retry repeats the recorded plan, and does nothing if that is done. A clear makes a
  new plan with everything that has landed since, and publishes again. Clear `join` with downstream; clearing
  `check` alone judges the same candidate again.
* **Publish a range again:** a backfill from this page or `airflow backfill create`, with reprocess behaviour
  *completed*. The runbook in `dags/README.md` lists its pitfalls. For a long range the form of `{name}.rebuild` is
  faster: it reads the labels once, and shows in advance what would change.
* **Manual runs are refused:** they would take the logical date of a future interval.

Published intervals update the asset `{asset}`.
"""


_CANARY = """
### Canaries of `{name}`: pairs that test the way

Every {every} this DAG sends a left row, and a label of each label stream {delays} after its row, through the real
topics ({topics}). Their keys are kept for them in the pipeline file ({keys}); they land, are joined and counted, and
are no training rows. What the broker acknowledged is in `<home>/tables/{name}/canaries`.

* **An interval is warned with `canary recall`:** a record that the broker had acknowledged did not come through.
  `windrow canary {name} --lost` lists the pairs; the runbook in `dags/README.md` says where to look.
* **Failing or paused:** nothing else is affected. No pair is sent, so none can be missed, and no loss is noticed.
* **Off for good:** take `every` out of the pipeline file. Leave `keys` there as long as canaries are in the topics.
* **On the command line:** `windrow canary {name}`
"""

_REBUILD = """
### Rebuild `{name}`: publish a range again

Late labels or late rows have landed since a range was published, or the pipeline file was changed. The form asks for
`from` and `to` (starts of intervals of {interval}, UTC, `to` not included) and a reason; only closed intervals can be
rebuilt.

| task | does |
| --- | --- |
| `plan` | lists what will be replaced, what will not and why, and what will change; refuses a wrong range (no Spark) |
| `is_no_dry_run` | ends a dry run here |
| `join` | carries out the plan: one job for the whole range, which reads the labels once (Spark) |
| `check` | judges every interval separately (no Spark) |
| `publish` | replaces each interval that passed, one commit per interval (rarely Spark) |

* **Dry run first:** it is the default of the form. The log of `plan`, its XCom and the *Report* link show the list.
* **One rebuild runs at a time;** the next one waits. Scheduled runs continue: where both need the same table, one
  waits, deferred, and its log names the other.
* **`check` is red:** the log names the blocked intervals. The others are published; of the blocked ones readers see the
  old rows until somebody decides.
* **It stopped in the middle:** clear the failed task with downstream. Published intervals are not repeated.
* **On the command line:** `windrow rebuild {name} --from … --to …`
"""

_OVERRIDE = """
### Override `{name}`: publish a blocked interval by your own decision

Expectations blocked an interval, you have read the report (the *Report* link of the failed `check`), and its rows are
right nevertheless. The form asks for the start of the interval and a reason. Both are recorded in the publication for
good, with the name of the user who sent the form, and are shown on the pipeline's page.

* **What cannot be overridden:** counts that do not balance, and a candidate that has not been judged.
* **The candidate is published as it was judged.** If better data has landed since, clear `join` of the failed run in
  `{name}.training` instead.
* **You may also do nothing:** the interval stays invisible, and the others are published without it.
* **On the command line:** `windrow override {name} --interval … --reason …`
"""

_ERASE = """
### Erase from `{name}`: rows of a person leave every table

The form asks for the path of a CSV file of keys on the machine where tasks run; its first line names the columns
({columns}). There is no field for a key, because Airflow keeps what a form was given.

* **What happens:** landed records of the keys lose every value, candidates that hold them are discarded, their training
  rows {what}. No later landing, backfill or rebuild brings them back.
* **The report** (the *Report* link) has no key and is for the person who asked: what was erased, which snapshots and
  exports remain, when the bytes are gone.
* **It failed or was killed:** retry, or send the form again: what is done is not done twice.
* **`publish` of another run is red with `CandidateErased`:** clear its `join` with downstream.
* **Afterwards** delete the file of keys.
* **On the command line:** `windrow erase {name} --keys-file …`
"""

_RECONCILE = """
### Reconcile `{name}`: the ledger explains every difference from a rebuild

Every day the late ledger is completed. Then yesterday's intervals are computed again with everything that has landed,
without touching the published table. The published rows plus the late ledger must equal that rebuild exactly.

| task | does | when it is red |
| --- | --- | --- |
| `late` | adds newly landed rows to the ledger (Spark) | a retry continues where it stopped |
| `reconcile` | compares, and names holes (Spark) | **a difference that the ledger does not explain**: read its log |
| `summarise` | the day's page of trends (no Spark) | a retry helps |
| `card` | the data card of the newest seven days (no Spark) | a retry helps |

* **Many late lines are not a failure.** They say what a rebuild would change: `windrow late {name}`, `{name}.rebuild`.
* **A hole** is a closed interval without a publication: look at its run in `{name}.training`.
* **An unexplained difference:** keep the log and the rows in it, pause `{name}.training`, and look for a writer
  other than Windrow, or a restored table. `windrow verify {name}` compares with the recorded pins.
"""

_LAG_IMPACT = """
### Lag impact of `{name}`: what lag would have cost, and which window would be right

Every day for the last closed day, or for the range of the form, the landed events are replayed with lag injected on a
side, a partition or all of them, and under other clocks. The *Report* link shows labels lost, rows delayed,
recall against window, and the smallest settings that reach a wanted recall.

* **All fields are optional.** Separate lists by commas. A sample keeps all events of a key.
* **Recall is known only for closed ranges;** the report says what is censored.
* **It changes only** the table `lag_impact` and its page. Change settings in the pipeline file.
* **On the command line:** `windrow lag-impact {name}`
"""

_MAINTENANCE = """
### Maintenance of `{name}`: compact small files, delete unused ones

Every day the rows of closed hours in `landing` and `training` are rewritten into fewer files, without changing any row.
Candidates that can never be published, files that no version of the last {retention} needs, and old reports are
deleted.

* **Safe at any time:** it holds a table's lock for one hour of rows at a time, so that land, join and publish wait only
  briefly; a reader keeps the files with which it began.
* **Past versions** of the training table can be read for {retention}. Less than 7 days is refused. Files of a snapshot
  stay until it is deleted: `windrow snapshots {name}` says how many bytes these are.
* **It failed or was killed:** nothing is half done; the next run continues.
* **It is paused:** nothing breaks, but the disk fills up and reads slow down.
* **On the command line:** `windrow maintain {name}`
"""


def land_manual(pipeline: Pipeline) -> str:
    """Markdown for the page of `<name>.land`."""
    return _LAND.format(
        name=pipeline.name,
        topics=", ".join(f"`{topic}`" for topic in pipeline.topics),
        land_every=duration_text(pipeline.land_every),
    )


def canary_manual(pipeline: Pipeline) -> str:
    """Markdown for the page of `<name>.canary`."""
    assert pipeline.canary is not None, "the pipeline has canaries"
    return _CANARY.format(
        name=pipeline.name,
        every=duration_text(pipeline.canary.every or timedelta(minutes=1)),
        delays=", ".join(map(duration_text, pipeline.canary.delays)),
        topics=", ".join(f"`{topic}`" for topic in pipeline.topics),
        keys=", ".join(f"`{column}`" for column in pipeline.canary.keys),
    )


def training_manual(pipeline: Pipeline, delay: timedelta, asset: str) -> str:
    """Markdown for the page of `<name>.training`."""
    return _TRAINING.format(
        name=pipeline.name,
        interval=duration_text(pipeline.interval),
        after=duration_text(pipeline.after),
        grace=duration_text(pipeline.grace),
        delay=duration_text(delay),
        suite=pipeline.expectations,
        asset=asset,
    )


def rebuild_manual(pipeline: Pipeline) -> str:
    """Markdown for the page of `<name>.rebuild`."""
    return _REBUILD.format(name=pipeline.name, interval=duration_text(pipeline.interval))


def override_manual(pipeline: Pipeline) -> str:
    """Markdown for the page of `<name>.override`."""
    return _OVERRIDE.format(name=pipeline.name)


def erase_manual(pipeline: Pipeline) -> str:
    """Markdown for the page of `<name>.erase`."""
    rule = pipeline.erase
    columns = ", ".join(f"`{name}`" for name in rule.by) if rule else ""
    what = "stay without any value" if rule and rule.mode == "null" else "leave the table"
    return _ERASE.format(name=pipeline.name, columns=columns, what=what)


def reconcile_manual(pipeline: Pipeline) -> str:
    """Markdown for the page of `<name>.reconcile`."""
    return _RECONCILE.format(name=pipeline.name)


def lag_impact_manual(pipeline: Pipeline) -> str:
    """Markdown for the page of `<name>.lag_impact`."""
    return _LAG_IMPACT.format(name=pipeline.name)


def maintenance_manual(pipeline: Pipeline, retention: timedelta) -> str:
    """Markdown for the page of `<name>.maintenance`."""
    return _MAINTENANCE.format(name=pipeline.name, retention=duration_text(retention))
