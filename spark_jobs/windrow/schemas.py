"""Names and types of every column that Windrow adds, and the schemas of its small tables.

Large tables (landing, candidates, training) take their payload columns from the pipeline file; what stands
here is the part that is the same for every pipeline. Small tables are written without a JVM, so their
schemas are Arrow's.
"""

from __future__ import annotations

import pyarrow as pa

EVENT_TIME = "_event_time"
ROW_ID = ("_topic", "_epoch", "_partition", "_offset")
ROW_ORDER = (EVENT_TIME, *ROW_ID)
BATCH = "_batch"
ARRIVED_AT = "_arrived_at"
RECORD_AT = "_record_at"
QUARANTINED = "_quarantined"
RAW = "_raw"
INTERVAL = "_interval"
OBSERVED_UNTIL = "_observed_until"
PUBLICATION = "_publication"
DATE = "_date"
PLAN = "_plan"
PAIRED = "_paired"
STATE = "label_state"
REASON = "label_reason"

LANDING_META = (*ROW_ORDER, BATCH, ARRIVED_AT, RECORD_AT, QUARANTINED)
"""They stand first, so that Delta's statistics cover them however wide the payload is."""

ELEMENT_META = (*ROW_ORDER, ARRIVED_AT)
"""They stand first in each element of a right stream's array, so that sorting the array is row order."""

TRAINING_META = (*ROW_ORDER, BATCH, ARRIVED_AT, INTERVAL, OBSERVED_UNTIL, PUBLICATION, DATE)

_ORDER_TYPES = dict(zip(ROW_ORDER, ("timestamp", "string", "int", "int", "bigint"), strict=True))
ELEMENT_TYPES = {**_ORDER_TYPES, ARRIVED_AT: "timestamp"}
"""Types of `ELEMENT_META`, in Spark's words."""

TRAINING_TYPES = {
    **_ORDER_TYPES,
    STATE: "string",
    REASON: "string",
    BATCH: "bigint",
    ARRIVED_AT: "timestamp",
    INTERVAL: "timestamp",
    OBSERVED_UNTIL: "timestamp",
}
"""Types of the training table's columns that are the same for every pipeline, as candidates have them."""

_INSTANT = pa.timestamp("us", tz="UTC")
_TEXT, _LONG, _INT, _FLAG, _REAL = pa.string(), pa.int64(), pa.int32(), pa.bool_(), pa.float64()

CLOCK = pa.schema(
    [
        ("observation", _LONG),
        ("topic", _TEXT),
        ("topic_id", _TEXT),
        ("epoch", _INT),
        ("partition", _INT),
        ("batch", _LONG),
        ("next_offset", _LONG),
        ("end_offset", _LONG),
        ("newest_at", _INSTANT),
        ("clock_at", _INSTANT),
        ("idle", _FLAG),
        ("landed_at", _INSTANT),
        ("read", _LONG),
        ("landed", _LONG),
        ("quarantined", _LONG),
        ("skipped", _LONG),
        ("before_start", _LONG),
        ("gap", _TEXT),
    ]
)
"""A partition at the end of a landing batch; one observation is the full vector of all partitions."""

PLANS = pa.schema(
    [
        ("run", _TEXT),
        ("plan_id", _TEXT),
        ("interval", _INSTANT),
        ("plan", _TEXT),
        ("recorded_at", _INSTANT),
        ("reason", _TEXT),
        ("asked_by", _TEXT),
    ]
)
"""What a run is about to do, recorded before it starts; why and by whom, where a person asked for it."""

CONFIGS = pa.schema([("config_hash", _TEXT), ("pipeline", _TEXT), ("recorded_at", _INSTANT)])
"""A pipeline file as it was when plans were made under it."""

MEASURES = pa.schema([("plan", _TEXT), ("interval", _INSTANT), ("name", _TEXT), ("value", _REAL)])
"""A number about a candidate; the gate judges these and nothing else."""

QUALITY = pa.schema(
    [
        ("plan", _TEXT),
        ("interval", _INSTANT),
        ("suite", _TEXT),
        ("expectation", _TEXT),
        ("metric", _TEXT),
        ("value", _REAL),
        ("bound", _TEXT),
        ("severity", _TEXT),
        ("verdict", _TEXT),
        ("report", _TEXT),
        ("judged_at", _INSTANT),
    ]
)
"""A judged measure."""

PUBLICATIONS = pa.schema(
    [
        ("number", _LONG),
        ("interval", _INSTANT),
        ("interval_end", _INSTANT),
        ("plan", _TEXT),
        ("plan_id", _TEXT),
        ("run", _TEXT),
        ("code_version", _TEXT),
        ("config_hash", _TEXT),
        ("rows", _LONG),
        ("left_landed", _LONG),
        ("left_duplicate", _LONG),
        ("left_unpaired", _LONG),
        ("positive", _LONG),
        ("negative", _LONG),
        ("unknown", _LONG),
        ("balance", _TEXT),
        ("verdict", _TEXT),
        ("overridden_by", _TEXT),
        ("override_reason", _TEXT),
        ("report", _TEXT),
        ("training_version", _LONG),
        ("published_at", _INSTANT),
        ("kind", _TEXT),
        ("reason", _TEXT),
        ("asked_by", _TEXT),
        ("rolled_back_to", _LONG),
    ]
)
"""An interval made visible. Derived from the training table's commits, and repaired from them."""

LATE = pa.schema(
    [
        ("interval", _INSTANT),
        ("publication", _LONG),
        ("pass", _LONG),
        ("kind", _TEXT),
        ("subject", _TEXT),
        ("event_time", _INSTANT),
        ("topic", _TEXT),
        ("epoch", _INT),
        ("partition", _INT),
        ("offset", _LONG),
        ("gone_topic", _TEXT),
        ("gone_epoch", _INT),
        ("gone_partition", _INT),
        ("gone_offset", _LONG),
        ("stream", _TEXT),
        ("appeared_at", _INSTANT),
        ("appeared_topic", _TEXT),
        ("appeared_epoch", _INT),
        ("appeared_partition", _INT),
        ("appeared_offset", _LONG),
        ("vanished_at", _INSTANT),
        ("vanished_topic", _TEXT),
        ("vanished_epoch", _INT),
        ("vanished_partition", _INT),
        ("vanished_offset", _LONG),
        ("state_before", _TEXT),
        ("reason_before", _TEXT),
        ("state_after", _TEXT),
        ("reason_after", _TEXT),
        ("batch", _LONG),
        ("missed_by_us", _LONG),
        ("cause", _TEXT),
    ]
)
"""A line of the late ledger: what a rebuild would change in one left row of a publication (rule 17).

`event_time` and the four columns behind it are the left row's; `gone_…` the left row that leaves; `appeared_…` and
`vanished_…` a right row that comes and one that leaves (`…_at` their event times); `…before` and `…after` the label
state, on the one line of a row that carries its change. `batch`, `missed_by_us` and `cause` are of what came late.
"""

RECONCILED = pa.schema(
    [
        ("run", _TEXT),
        ("interval", _INSTANT),
        ("publication", _LONG),
        ("pass", _LONG),
        ("outcome", _TEXT),
        ("rows", _LONG),
        ("ledger_lines", _LONG),
        ("unexplained", _LONG),
        ("reconciled_at", _INSTANT),
    ]
)
"""An interval that was rebuilt and compared with what is published and the ledger: `equal`, `differs`, `hole` (it is
closed and has no publication) or `config_changed` (nothing to compare). `unexplained` rows should be 0."""

LAG_IMPACT = pa.schema(
    [
        ("analysis", _TEXT),
        ("analysed_at", _INSTANT),
        ("range_start", _INSTANT),
        ("range_end", _INSTANT),
        ("sample", _REAL),
        ("config_hash", _TEXT),
        ("policy", _TEXT),
        ("tick_s", _REAL),
        ("idle_after_s", _REAL),
        ("side", _TEXT),
        ("partitions", _TEXT),
        ("lag", _TEXT),
        ("lag_s", _REAL),
        ("lag_start", _INSTANT),
        ("lag_rate", _LONG),
        ("after_s", _REAL),
        ("grace_s", _REAL),
        ("interval_s", _REAL),
        ("rows", _LONG),
        ("rows_missing", _LONG),
        ("rows_closed_too_early", _LONG),
        ("rows_open", _LONG),
        ("labels", _LONG),
        ("labels_lost", _LONG),
        ("recall", _REAL),
        ("states_flipped", _LONG),
        ("flips", _TEXT),
        ("rows_delayed", _LONG),
        ("delay_p50_s", _REAL),
        ("delay_p99_s", _REAL),
        ("delay_max_s", _REAL),
        ("wait_p50_s", _REAL),
        ("wait_p99_s", _REAL),
        ("wait_max_s", _REAL),
        ("open_rows_peak", _LONG),
        ("report", _TEXT),
    ]
)
"""A scenario of a lag analysis: what a lag would have done to the rows of `[range_start, range_end)` under a clock.

The lines of one run share `analysis` and `analysed_at`; a run that is started again adds lines with a new
`analysed_at`. `sample` is the share of the keys. `policy` is the clock that closes rows
(`semantics.lag.scenario.Policy`), with its `tick_s` and `idle_after_s`. `side` is where `lag` (`none`, `constant`,
`pause`, `drain`) was injected, on `partitions` (`all`, or numbers); `lag_s` is its length, `lag_start` and `lag_rate`
belong to a pause or a drain. `after_s`, `grace_s` and `interval_s` are the settings that the scenario ran with
(`interval_s` null: row by row). What follows is `semantics.lag.scenario.Outcome`, durations in seconds; null where it
cannot be known. `flips` is JSON: "state with all labels>state as it left" → rows.
"""
