"""Arrow schemas of the small tables, which are written without a JVM, and the same schemas as Spark DDL.

Large tables (landing, candidates, training) take their payload columns from the pipeline file; the columns that
every pipeline has are named in `windrow.columns`.
"""

from __future__ import annotations

import pyarrow as pa

_INSTANT = pa.timestamp("us", tz="UTC")
_TEXT, _LONG, _INT, _FLAG, _REAL = pa.string(), pa.int64(), pa.int32(), pa.bool_(), pa.float64()
_SPARK_NAMES = {
    _INSTANT: "timestamp",
    _TEXT: "string",
    _LONG: "bigint",
    _INT: "int",
    _FLAG: "boolean",
    _REAL: "double",
    pa.binary(): "binary",
}


def spark_type(kind: pa.DataType) -> str:
    """Spark's DDL for an Arrow type.

    >>> spark_type(pa.list_(pa.struct([("place", pa.int32()), ("newest", pa.int64())])))
    'array<struct<place:int,newest:bigint>>'
    """
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{spark_type(field.type)}' for field in kind)}>"
    return _SPARK_NAMES[kind]


def spark_ddl(schema: pa.Schema) -> str:
    """The columns of an Arrow schema as Spark DDL, so that a batch of a Python function is declared once.

    >>> spark_ddl(pa.schema([("lag", pa.int32()), ("steps", pa.binary())]))
    '`lag` int, `steps` binary'
    """
    return ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in schema)


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
        ("unexplained", _LONG),
        ("before_start", _LONG),
        ("gap", _TEXT),
        ("unreadable", _LONG),
        ("record_offset", _LONG),
        ("record_at", _INSTANT),
        ("oldest_offset", _LONG),
        ("retention_s", _REAL),
        ("reconsidered", _LONG),
        ("bytes", _LONG),
        ("gaps_since", _LONG),
        ("gap_from", _INSTANT),
        ("gap_until", _INSTANT),
    ]
)
"""State of a partition after a landing batch; an observation has a row for every partition."""

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
"""Plans, recorded before work starts; with reason and name if a person requested the run."""

CONFIGS = pa.schema([("config_hash", _TEXT), ("pipeline", _TEXT), ("recorded_at", _INSTANT)])
"""Pipeline files as they were when plans were made under them."""

SCHEMAS = pa.schema(
    [
        ("registry", _TEXT),
        ("id", _LONG),
        ("kind", _TEXT),
        ("schema", _TEXT),
        ("references", _TEXT),
        ("recorded_at", _INSTANT),
    ]
)
"""Schemas by which producers wrote records, as registries know them."""

CANARIES = pa.schema(
    [
        ("served_at", _INSTANT),
        ("number", _LONG),
        ("stream", _TEXT),
        ("delay_s", _REAL),
        ("event_time", _INSTANT),
        ("topic", _TEXT),
        ("partition", _INT),
        ("offset", _LONG),
        ("acknowledged_at", _INSTANT),
    ]
)
"""Canaries that the broker has acknowledged: left rows (`delay_s` null) and labels. `served_at` names the pair."""

MEASURES = pa.schema([("plan", _TEXT), ("interval", _INSTANT), ("name", _TEXT), ("value", _REAL)])
"""Measures of candidates, the only input of the gate."""

DISTRIBUTIONS = pa.schema(
    [
        ("plan", _TEXT),
        ("interval", _INSTANT),
        ("column", _TEXT),
        ("kind", _TEXT),
        ("psi", _REAL),
        ("ks", _REAL),
        ("recorded_at", _INSTANT),
        ("buckets", pa.list_(_LONG)),
        ("rows", pa.list_(_LONG)),
    ]
)
"""How the left columns of candidates are distributed: rows by bucket, and how far they have moved from earlier
intervals. `kind`: `number` or `category`."""

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
        ("why", _TEXT),
    ]
)
"""Judged measures."""

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
        ("why", _TEXT),
        ("left_canary", _LONG),
        ("canary_pairs", _LONG),
        ("canary_matched", _LONG),
        ("canary_delay_s", _REAL),
    ]
)
"""Published intervals, derived from the commits of the training table and repaired from them."""

ALERTS = pa.schema(
    [
        ("alert", _TEXT),
        ("condition", _TEXT),
        ("subject", _TEXT),
        ("event", _TEXT),
        ("at", _INSTANT),
        ("cause", _TEXT),
        ("move", _TEXT),
        ("notifiers", _TEXT),
    ]
)
"""Begins and ends of conditions that need a person, and who was told of them."""

SNAPSHOTS = pa.schema(
    [
        ("name", _TEXT),
        ("kind", _TEXT),
        ("recorded_at", _INSTANT),
        ("asked_by", _TEXT),
        ("reason", _TEXT),
        ("range_start", _INSTANT),
        ("range_end", _INSTANT),
        ("publications", _TEXT),
        ("training_version", _LONG),
        ("rows", _LONG),
        ("file_count", _LONG),
        ("bytes", _LONG),
        ("columns", _TEXT),
        ("files", _TEXT),
        ("code_version", _TEXT),
    ]
)
"""Named states of the training table whose files maintenance spares. `kind`: `taken` or `deleted`."""

ERASURES = pa.schema(
    [
        ("erasure", _TEXT),
        ("kind", _TEXT),
        ("recorded_at", _INSTANT),
        ("asked_by", _TEXT),
        ("reason", _TEXT),
        ("columns", _TEXT),
        ("mode", _TEXT),
        ("hash", _TEXT),
        ("secret_check", _TEXT),
        ("plan", _TEXT),
        ("publication", _LONG),
        ("interval", _INSTANT),
        ("rows", _LONG),
        ("topic", _TEXT),
        ("stream", _TEXT),
        ("code_version", _TEXT),
    ]
)
"""Erased keys and what was done about them. `kind`: `key` (a tombstone: the hash of one key), `candidate` (a plan whose
candidate held rows of an erased key and was discarded), `publication` (`rows` that a publication has left), `holder` (a
right stream of a topic that holds these columns), `done`."""

EXPORTS = pa.schema(
    [
        ("location", _TEXT),
        ("exported_at", _INSTANT),
        ("range_start", _INSTANT),
        ("range_end", _INSTANT),
        ("state", _TEXT),
        ("rows", _LONG),
        ("asked_by", _TEXT),
        ("code_version", _TEXT),
    ]
)
"""Exports that the command has begun or finished, so that an erasure can name them."""

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
"""Lines of the late ledger: what a rebuild would change in a left row of a publication (rule 17).

`event_time` and the four columns after it belong to the left row, `gone_…` to a removed left row, `appeared_…` and
`vanished_…` to an added and a removed right row (`…_at`: event times). `…before` and `…after` are the label state, on
the one line of a row that has its change. `batch`, `missed_by_us` and `cause` describe the late record.
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
"""Intervals that were rebuilt and compared with publication and ledger. `outcome`: `equal`, `differs`, `hole` (closed
without a publication) or `config_changed` (not comparable). `unexplained` rows should be 0."""

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
"""Scenarios of lag analyses: what a lag would have done to the rows of `[range_start, range_end)` under a clock.

The rows of one run share `analysis` and `analysed_at`; a repeated run adds rows with a new `analysed_at`. `sample` is
the share of the keys. `policy` is the clock that closes rows (`semantics.lag.scenario.Policy`), with its `tick_s` and
`idle_after_s`. `side` is where `lag` (`none`, `constant`, `pause`, `drain`) was injected, on `partitions` (`all`, or
numbers); `lag_s` is its length, `lag_start` and `lag_rate` belong to a pause or a drain. `after_s`, `grace_s` and
`interval_s` are the settings that the scenario ran with (`interval_s` null: row by row). What follows is
`semantics.lag.outcome.LagOutcome`, durations in seconds; null where it cannot be known. `flips` is JSON: "state with
all labels>state as it left" → rows.
"""
