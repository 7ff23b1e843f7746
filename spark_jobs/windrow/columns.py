"""Names and types of the columns that Windrow adds to payloads, the same for every pipeline.

Names of columns begin with an underscore, which the columns of a pipeline file may not (`label_state` and
`label_reason` are reserved by name). Types are Spark DDL. docs/TABLES.md says what each column means.
"""

from __future__ import annotations

EVENT_TIME = "_event_time"
TOPIC, EPOCH, PARTITION, OFFSET = ROW_ID = ("_topic", "_epoch", "_partition", "_offset")
ROW_ORDER = (EVENT_TIME, *ROW_ID)
BATCH = "_batch"
ARRIVED_AT = "_arrived_at"
RECORD_AT = "_record_at"
QUARANTINED = "_quarantined"
UNREADABLE_VALUES = "_unreadable"
RECONSIDERED = "_reconsidered"
RAW = "_raw"
RAW_ENVELOPE = "_raw_envelope"
FILE, ROW = "_file", "_row"
INTERVAL = "_interval"
OBSERVED_UNTIL = "_observed_until"
PUBLICATION = "_publication"
DATE = "_date"
PLAN = "_plan"
PAIRED = "_paired"
STATE = "label_state"
REASON = "label_reason"

PLACE_TYPES = {FILE: "string", ROW: "bigint"}
"""Where a landed row stands: the name of its file, and how many rows of this file come before it. No table has these
columns; a row of an erased key has nulls there, because nothing of its payload may be read."""

AUDIT = (BATCH, ARRIVED_AT, OBSERVED_UNTIL, PUBLICATION)
"""Columns that may differ between two publications of the same landed rows (rule 15); a label may not use them."""

LANDING_META = (*ROW_ORDER, BATCH, ARRIVED_AT, RECORD_AT, QUARANTINED, UNREADABLE_VALUES, RECONSIDERED)
"""First columns of a landing table, and the only ones with statistics in its log: files are chosen by them, and a
payload column would put its least and greatest value into the log."""

ELEMENT_META = (*ROW_ORDER, ARRIVED_AT)
"""First fields of each element of a right stream's array, so that sorting the array gives row order."""

TRAINING_STATISTICS = (INTERVAL, EVENT_TIME)
"""Columns of the training table with statistics in its log."""

TRAINING_META = (*ROW_ORDER, BATCH, ARRIVED_AT, INTERVAL, OBSERVED_UNTIL, PUBLICATION, DATE)

ORDER_TYPES = dict(zip(ROW_ORDER, ("timestamp", "string", "int", "int", "bigint"), strict=True))
LABEL_TYPES = {STATE: "string", REASON: "string"}
"""What the join decides about each training row."""

LANDING_TYPES = {
    **ORDER_TYPES,
    BATCH: "bigint",
    ARRIVED_AT: "timestamp",
    RECORD_AT: "timestamp",
    QUARANTINED: "string",
    UNREADABLE_VALUES: "string",
    RECONSIDERED: "bigint",
    RAW: "binary",
}
"""Types of `LANDING_META`, and of `RAW`, which follows it."""

RAW_ENVELOPE_TYPE = "struct<key:binary,headers:array<struct<key:string,value:binary>>>"
"""Type of `RAW_ENVELOPE`, which follows `RAW` where columns of the topic come from the keys or headers of records."""

ERASED = "erased"
"""Reason in `QUARANTINED` of a record whose key was erased: nothing of it is left but `LANDING_META` (rule 22)."""

TOMBSTONE, TOO_LARGE, BAD_UTF8, MALFORMED, UNFRAMED = "tombstone", "too_large", "bad_utf8", "malformed", "unframed"
UNREADABLE = (TOMBSTONE, TOO_LARGE, BAD_UTF8, MALFORMED, UNFRAMED)
"""Reasons in `QUARANTINED` of records that cannot be read as a whole: none of their columns has a value."""

UNKNOWN_SCHEMA, OTHER_SCHEMA = "unknown_schema:", "other_schema:"
UNREADABLE_BEGINNINGS = (UNKNOWN_SCHEMA, OTHER_SCHEMA)
"""Beginnings of further such reasons; the id of the record's schema follows."""

ELEMENT_TYPES = {**ORDER_TYPES, ARRIVED_AT: "timestamp"}
"""Types of `ELEMENT_META`."""

TRAINING_TYPES = {
    **ORDER_TYPES,
    **LABEL_TYPES,
    BATCH: "bigint",
    ARRIVED_AT: "timestamp",
    INTERVAL: "timestamp",
    OBSERVED_UNTIL: "timestamp",
}
"""Types of the training table's columns that are the same for every pipeline, as candidates have them."""
