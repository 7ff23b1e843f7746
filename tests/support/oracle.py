"""The reference join of a generated history, and rows of the training table in the same form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from support.generated import INTERVAL, READERS, START, KafkaRecord, Reader, oracle_records, oracle_spec
from support.world import World
from windrow.semantics.intervals import intervals_between
from windrow.semantics.records import JoinSpec
from windrow.semantics.reference import Joined, JoinedRow, reference_join

PINS = {"t.served": 1, "t.engagements": 1}


def expected(
    records: Iterable[KafkaRecord],
    landed_at: datetime,
    frontier: datetime | None,
    spec: JoinSpec | None = None,
    readers: Mapping[str, tuple[Reader, ...]] = READERS,
) -> dict[datetime, Joined]:
    """Every interval before the frontier, joined by the oracle."""
    assert frontier is not None
    landed = oracle_records(records, landed_at=landed_at, readers=readers)
    rules = spec or oracle_spec(landed, PINS)
    return {
        interval.start: reference_join(landed, rules, interval, PINS)
        for interval in intervals_between(START, frontier, INTERVAL)
    }


def expected_rows(joined: dict[datetime, Joined]) -> list[dict[str, Any]]:
    """All rows in served order."""
    return [_as_expected(row) for _, one in sorted(joined.items()) for row in one.rows]


def found_rows(rows: Iterable[dict[str, Any]], world: World, streams: tuple[str, ...] = ("clicks",)) -> list[Any]:
    """Rows of the training table in the form of `expected_rows`."""
    return [_as_found(row, world, streams) for row in rows]


def sent(records: Iterable[KafkaRecord]) -> list[Any]:
    """Records as `World.produce` takes them."""
    return [(r.topic.removeprefix("t."), r.partition, r.value, r.timestamp) for r in records]


def _as_expected(row: JoinedRow) -> dict[str, Any]:
    def row_id(x: Any) -> tuple[Any, ...]:
        return (x.row_id.topic, x.row_id.epoch, x.row_id.partition, x.row_id.offset)

    state = row.label_state
    return {
        "row": row_id(row),
        "at": row.event_at,
        "values": {k: list(v) if isinstance(v, tuple) else v for k, v in row.values.items()},
        **{name: [(row_id(m), _without_price(m.values)) for m in met] for name, met in row.matches.items()},
        "state": (state, row.label_reason),
        "clicked": None if state == "unknown" else bool(row.matches["clicks"]),
    }


def _without_price(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an engagement that each of its streams reads."""
    return {name: value for name, value in values.items() if name != "price"}


def _as_found(row: dict[str, Any], world: World, streams: tuple[str, ...]) -> dict[str, Any]:
    def row_id(x: dict[str, Any]) -> tuple[Any, ...]:
        topic = x["_topic"].replace(world.name + ".", "t.")
        return (topic, x["_epoch"], x["_partition"], x["_offset"])

    names = ("request_id", "user_id", "item_id", "served_at", "score", "features")
    columns = ("event_id", "user_id", "item_id", "action", "engaged_at")
    return {
        "row": row_id(row),
        "at": row["_event_time"],
        "values": {name: row[name] for name in names},
        **{s: [(row_id(m), {name: m[name] for name in columns}) for m in row[s]] for s in streams},
        "state": (row["label_state"], row["label_reason"]),
        "clicked": row["clicked"],
    }
