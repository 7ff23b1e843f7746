"""Since which batch a landing table has each column. Spark is not needed.

    pipeline file    A         A         A, new column      A, new column used by `where`
    batch            1         2         3                  4
    its rows hold    NULL      NULL      what was produced  what was produced

A row that landed before its column holds NULL there, as if nothing had been produced. What selects, pairs and orders
rows must not read that: an interval whose windows hold such rows is refused under a file that uses the column so. In a
payload and in labels NULL is what is known of the column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from deltalake import DeltaTable

from windrow.columns import BATCH, EVENT_TIME
from windrow.config import Stream
from windrow.config.conditions import columns_in
from windrow.home import Home
from windrow.io.delta import lookup, tables
from windrow.io.delta.lookup import Has, Range
from windrow.outcomes import BadInput
from windrow.text import shown_instant

PROPERTY = "windrow.columns"
"""Table property: column → first batch that was landed with it, as JSON. Without it every column is from the start."""


class ColumnJoinedLater(BadInput):
    """An interval holds rows from before a column that the pipeline file uses to select or pair. An edit helps."""


def keep(table: DeltaTable, columns: Sequence[str], batch: int) -> None:
    """Record which columns the next batch brings, where they are others than before. The caller holds the lock.

    A column that the pipeline file lacked for a while joins anew.

    Args:
        columns: payload columns of the batch.
        batch: its number.
    """
    known = _since(table)
    if known.keys() != set(columns):
        since = {name: known.get(name, batch) for name in columns}
        tables.set_properties(table, {PROPERTY: json.dumps(since)})


def require_whole(home: Home, begin: datetime, end: datetime, pins: Mapping[str, int]) -> None:
    """Refuse intervals whose windows can hold rows from before a column that decides about them.

    Args:
        begin, end: start of the first interval and end of the last.
        pins: topic → last batch whose rows are read.

    Raises:
        ColumnJoinedLater: names stream, column and batch.
    """
    if reason := reason_not_whole(home, begin, end, pins):
        name = home.pipeline.name
        raise ColumnJoinedLater(
            f"intervals from {shown_instant(begin)} to {shown_instant(end)}: {reason}. Nothing was planned. Keep the "
            "column in `columns`, but take it out of `where`, `key`, `event_id` and `event_time`; run "
            f"`windrow land {name}` and `windrow train {name}` until these intervals are published; then use it."
        )


def reason_not_whole(home: Home, begin: datetime, end: datetime, pins: Mapping[str, int]) -> str | None:
    """Return which stream and column would decide about rows from before the column, or None; see `require_whole`."""
    pipeline = home.pipeline
    reach = (Range(EVENT_TIME, begin - pipeline.before, end + pipeline.after), Has(EVENT_TIME, value=True))
    for topic in pipeline.topics:
        path, pin = home.landing(topic), pins.get(topic, 0)
        if (landed := lookup.opened(path)) is None:
            continue
        known = _since(landed.table)
        for stream in pipeline.streams_of(topic):
            for name in sorted(_deciding(stream)):
                since = known.get(name, pin + 1)
                if since > 1 and landed.paths((*reach, Range(BATCH, most=min(since - 1, pin)))):
                    return (
                        f"windows reach rows of {topic} from before its column {name} (batch {since}), and stream "
                        f"{stream.name} selects or pairs by it: they would count as rows without a value"
                    )
    return None


def _since(table: DeltaTable) -> dict[str, int]:
    recorded = table.metadata().configuration.get(PROPERTY)
    if recorded is not None:
        return {str(name): int(batch) for name, batch in json.loads(recorded).items()}
    return {field.name: 0 for field in table.schema().fields if not field.name.startswith("_")}


def _deciding(stream: Stream) -> set[str]:
    """Columns by which a stream's rows are selected, paired, ordered and recognised; all, if `where` is obscure."""
    named = {stream.event_time, *stream.key, *([stream.event_id] if stream.event_id else [])}
    if not stream.where:
        return named
    read = columns_in(stream.where)
    return named | {name for name in stream.columns if not read or name.lower() in read}
