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

AUDIT = (BATCH, ARRIVED_AT, OBSERVED_UNTIL, PUBLICATION)
"""Columns that may differ between two publications of the same landed rows (rule 15)."""

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
    ]
)
"""What a run is about to do, recorded before it starts."""

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
    ]
)
"""An interval made visible. Derived from the training table's commits, and repaired from them."""
