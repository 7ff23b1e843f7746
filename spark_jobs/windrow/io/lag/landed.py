"""The landed records that a lag analysis reads: DataFrames up to the pins of one observation of the clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import BATCH, LANDING_TYPES
from windrow.config import Stream
from windrow.home import Home
from windrow.io.delta import scan
from windrow.io.delta.session import schema_of
from windrow.io.training import inputs
from windrow.transforms.conditions import any_of
from windrow.transforms.streams import is_canary


@dataclass(frozen=True)
class LandedRecords:
    """The landing tables of a pipeline as of one observation. `pins`: topic → its last batch."""

    spark: SparkSession
    home: Home
    pins: Mapping[str, int]

    def of_topic(self, topic: str, first: datetime, last: datetime) -> DataFrame:
        """Return every record of a topic, but canaries, from the files that can hold event times in [first, last].

        Other records of these files are among them: callers filter the times.

        Returns:
            `LANDING_TYPES`, and each column that a stream of the topic names; null where the column joined the pipeline
            file after the last landing.
        """
        columns = {**LANDING_TYPES, **self.home.pipeline.topic_columns(topic)}
        schema = schema_of(", ".join(f"`{name}` {kind}" for name, kind in columns.items()))
        landed = scan.rows(self.spark, self.home.landing(topic), inputs.within(first, last))
        if landed is None:
            return scan.nothing(self.spark, schema)
        records = inputs.with_columns(landed.where(F.col(BATCH) <= self.pins.get(topic, 0)), schema)
        pipeline = self.home.pipeline
        return records.where(~any_of(is_canary(pipeline.mark_of(stream)) for stream in pipeline.streams_of(topic)))

    def of_stream(self, stream: Stream, first: datetime, last: datetime) -> DataFrame:
        """Return the landing rows of a stream's topics from the files that can hold event times in [first, last].

        Args:
            first: oldest event time, included.
            last: newest event time, included.

        Returns:
            Landing rows up to the pins; whole files are read, so rows with times outside can come along.
        """
        return inputs.landed_of(self.spark, self.home, stream, self.pins, inputs.within(first, last))
