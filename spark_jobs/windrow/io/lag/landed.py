"""The landed records that a lag analysis reads: DataFrames up to the pins of one observation of the clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import ARRIVED_AT, BATCH, ELEMENT_TYPES, EVENT_TIME, QUARANTINED, RECORD_AT, ROW_ID
from windrow.config import Stream
from windrow.home import Home
from windrow.io.delta import scan
from windrow.io.delta.session import schema_of
from windrow.io.training import inputs

_META = {
    **{name: ELEMENT_TYPES[name] for name in (EVENT_TIME, *ROW_ID, ARRIVED_AT)},
    RECORD_AT: "timestamp",
    QUARANTINED: "string",
}


@dataclass(frozen=True)
class LandedRecords:
    """The landing tables of a pipeline as of one observation. `pins`: topic → its last batch."""

    spark: SparkSession
    home: Home
    pins: Mapping[str, int]

    def of_topic(self, topic: str, first: datetime, last: datetime) -> DataFrame:
        """Every record of a topic from the files that can hold event times in [first, last]; callers filter the times.

        Returns:
            event time, row id, arrival, record time, quarantine reason, and each column that a stream of the topic
            names; null where the column joined the pipeline file after the last landing.
        """
        columns = {**_META, **self.home.pipeline.topic_columns(topic)}
        schema = schema_of(", ".join(f"`{name}` {kind}" for name, kind in columns.items()))
        landed = scan.rows(self.spark, self.home.landing(topic), inputs.within(first, last))
        if landed is None:
            return scan.nothing(self.spark, schema)
        known = {name.lower() for name in landed.columns}
        return landed.where(F.col(BATCH) <= self.pins.get(topic, 0)).select(
            *[F.col(f.name) if f.name.lower() in known else F.lit(None).cast(f.dataType).alias(f.name) for f in schema]
        )

    def of_stream(self, stream: Stream, first: datetime, last: datetime) -> DataFrame:
        """The landing rows of a stream's topics from the files that can hold event times in [first, last]."""
        return inputs.landed_of(self.spark, self.home, stream, self.pins, inputs.within(first, last))
