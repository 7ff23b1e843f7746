"""Training tables of a pipeline on paper, written by the platform's own commit: no broker and no Spark.

Model (semantics.paper) ──▶ publications with their rows ──▶ one Parquet file each ──▶ io.training.publication.commit
                                                                                         └▶ training, publications
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema

from windrow.columns import (
    ARRIVED_AT,
    BATCH,
    DATE,
    ELEMENT_META,
    ELEMENT_TYPES,
    EVENT_TIME,
    INTERVAL,
    OBSERVED_UNTIL,
    PUBLICATION,
    REASON,
    ROW_ID,
    STATE,
    TRAINING_META,
    TRAINING_STATISTICS,
    TRAINING_TYPES,
)
from windrow.config import Pipeline, load
from windrow.config.column_types import ColumnType, parse_type
from windrow.home import Home, Table
from windrow.io.delta import store, tables
from windrow.io.delta.files import DataFile
from windrow.io.delta.staging import Staged
from windrow.io.registers import configs, erasures, publications
from windrow.io.training import publication
from windrow.places import Places
from windrow.scenarios.kafka import pipeline_file
from windrow.semantics.paper.landings import Rules
from windrow.semantics.paper.model import Publication
from windrow.semantics.plan import Plan
from windrow.semantics.records import Record, RowId
from windrow.semantics.reference import JoinedRow

Labels = Mapping[str, Callable[[JoinedRow], bool]]
"""Derived labels of type boolean, by name."""

PLAIN = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "double": pa.float64(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
}


def arrow_type(kind: ColumnType) -> pa.DataType:
    """A column type of a pipeline file as Arrow has it."""
    if kind.name == "array":
        return pa.list_(arrow_type(kind.inner[0]))
    if kind.name == "struct":
        return pa.struct([(n, arrow_type(t)) for n, t in zip(kind.fields, kind.inner, strict=True)])
    return PLAIN[kind.name]


def training_types(pipeline: Pipeline) -> dict[str, str]:
    """Column → type of the training table, in its order, without the date; derived labels are boolean."""
    rights = {
        stream.name: ",".join(f"{n}:{t}" for n, t in {**ELEMENT_TYPES, **stream.columns}.items())
        for stream in pipeline.right
    }
    fixed = {**TRAINING_TYPES, PUBLICATION: "bigint"}
    return {
        **pipeline.left.columns,
        **{name: f"array<struct<{fields}>>" for name, fields in rights.items()},
        **dict.fromkeys(pipeline.labels, "boolean"),
        **{name: fixed[name] for name in (STATE, REASON, *TRAINING_META) if name != DATE},
    }


def empty_places(folder: Path) -> Places:
    """Places with an empty home and one folder for pipeline files."""
    (folder / "pipelines").mkdir(parents=True)
    read = Places.from_env({"WINDROW_HOME": str(folder / "home")})
    return replace(read, pipelines=(folder / "pipelines",))


def home_of(places: Places, text: str) -> Home:
    """A pipeline file of this text in its places."""
    path = places.pipelines[0] / "pipeline.yaml"
    path.write_text(text)
    pipeline = load(path, places.expectations)
    path.rename(path.with_name(f"{pipeline.name}.yaml"))
    return Home(pipeline, places)


def paper_home(places: Places, rules: Rules, name: str = "paper") -> Home:
    """The pipeline file of rules on paper; its derived label is `seen`."""
    return home_of(places, pipeline_file(rules, name))


def seen(home: Home) -> Labels:
    """The derived label of `paper_home`."""
    return {"seen": lambda row: any(row.matches[stream.name] for stream in home.pipeline.label_streams)}


def table_of(pipeline: Pipeline, labels: Labels, one: Publication) -> pa.Table:
    """The rows of a publication in the training table's columns, without the date."""
    schema = pa.schema([(name, arrow_type(parse_type(kind))) for name, kind in training_types(pipeline).items()])
    return pa.Table.from_pylist([_row(pipeline, labels, row, one) for row in one.joined.rows], schema)


def _row(pipeline: Pipeline, labels: Labels, row: JoinedRow, one: Publication) -> dict[str, Any]:
    label_topics = {topic for stream in pipeline.label_streams for topic in stream.topics}
    clocks = [c.clock_at for c in one.plan.watermark if c.topic in label_topics]
    unknown = row.label_state == "unknown"
    values = {pipeline.left.event_time: row.event_at, **row.values}
    return {
        **{name: values.get(name) for name in pipeline.left.columns},
        **{s.name: [_element(m, s.event_time, s.columns) for m in row.matches[s.name]] for s in pipeline.right},
        **{name: None if unknown else of(row) for name, of in labels.items()},
        STATE: row.label_state,
        REASON: row.label_reason,
        EVENT_TIME: row.event_at,
        **_row_id(row.row_id),
        BATCH: 1,
        ARRIVED_AT: row.event_at + timedelta(seconds=1),
        INTERVAL: one.plan.interval.start,
        OBSERVED_UNTIL: None if None in clocks else min(filter(None, clocks), default=None),
        PUBLICATION: one.number,
    }


class Writer:
    """Writes publications to the training table of a home, each in a commit of its own."""

    def __init__(self, home: Home, labels: Labels) -> None:
        self.home, self.labels = home, labels
        self.types = training_types(home.pipeline)
        self.now = home.pipeline.start + timedelta(days=1)

    def publish_all(self, publications: Iterable[Publication]) -> None:
        """Publish in the order of their numbers."""
        for one in publications:
            self.publish(one)

    def publish(self, one: Publication) -> dict[str, Any]:
        """Publish one, under the pipeline file of this home; returns its register row."""
        plan = replace(one.plan, pipeline=self.home.pipeline.name, config_hash=self.home.pipeline.config_hash)
        table = table_of(self.home.pipeline, self.labels, one)
        self._create(table.schema)
        configs.keep(self.home, self.now)
        staged = Staged(plan, one.number, (self._file(table, plan),), self.types) if table.num_rows else None
        register = self._register_row(one, plan)
        return publication.commit(self.home, plan.interval, register, _unwanted, staged)

    def _create(self, schema: pa.Schema) -> None:
        path = self.home.table(Table.TRAINING)
        if tables.opened(path) is None:
            DeltaTable.create(
                path,
                Schema.from_arrow(schema.append(pa.field(DATE, pa.date32()))),
                partition_by=[DATE],
                configuration={tables.STATISTICS: ",".join(TRAINING_STATISTICS), "delta.checkpointInterval": "10"},
            )

    def _file(self, table: pa.Table, plan: Plan) -> DataFile:
        folder, name = self.home.places.staging(self.home.pipeline.name), f"{plan.id}.parquet"
        if not store.is_remote(folder):
            Path(folder).mkdir(parents=True, exist_ok=True)
        pq.write_table(table, name, filesystem=store.filesystem(folder))
        return DataFile.read(f"{folder}/{name}")

    def _register_row(self, one: Publication, plan: Plan) -> dict[str, Any]:
        states = [row.label_state for row in one.joined.rows]
        left = one.joined.balance.left
        self.now += timedelta(minutes=1)
        return {
            "number": one.number,
            **publications.columns_of(plan),
            "code_version": "0",
            "rows": len(states),
            "left_landed": left.landed,
            "left_duplicate": left.duplicate,
            "left_unpaired": left.unpaired,
            **{state: states.count(state) for state in ("positive", "negative", "unknown")},
            "balance": one.joined.balance.to_json(),
            "verdict": "passed",
            "overridden_by": None,
            "override_reason": None,
            "report": None,
            "published_at": self.now,
            "kind": "train",
            "reason": None,
            "asked_by": None,
        }


def _element(match: Record, event_time: str, columns: Mapping[str, str]) -> dict[str, Any]:
    values = {event_time: match.event_at, **match.values}
    assert match.event_at is not None
    of_row = {EVENT_TIME: match.event_at, **_row_id(match.row_id), ARRIVED_AT: arrival(match.event_at)}
    return {**{name: of_row[name] for name in ELEMENT_META}, **{name: values.get(name) for name in columns}}


def arrival(event_at: datetime) -> datetime:
    """When a label of this event time lands in these tables."""
    return event_at + timedelta(seconds=2)


def _row_id(row_id: RowId) -> dict[str, Any]:
    return dict(zip(ROW_ID, (row_id.topic, row_id.epoch, row_id.partition, row_id.offset), strict=True))


def _unwanted() -> Any:
    raise AssertionError("the files can be published as they are")


def erase_key(home: Home, by: list[str], now: datetime) -> None:
    """Put a key that nobody has on record as erased; `by`: the columns of the key."""
    secret = erasures.made_secret(home)
    erasures.add_keys(home, "e", ["0" * 64], by, "delete", who="ann", why=None, now=now, secret=secret)
