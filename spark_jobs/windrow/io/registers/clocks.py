"""The `clock` table: what each landing run saw, and so the watermark. No Spark, no broker.

One observation is one commit and holds every partition of every topic of the pipeline, the silent ones too:
the newest observation alone tells the watermark, the pins and who holds the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windrow.config import Pipeline
from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.schemas import CLOCK
from windrow.semantics.clock import PartitionClock, watermark
from windrow.semantics.close import frontier

APP_ID = "windrow.clock"
_CLOCK_FIELDS = ("topic", "epoch", "partition", "next_offset", "end_offset", "newest_at", "clock_at")


@dataclass(frozen=True)
class Observation:
    """The clock at the end of a landing run; `number` only grows, -1 before the first."""

    number: int
    topics: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]

    @property
    def clocks(self) -> tuple[PartitionClock, ...]:
        """One value a partition, for the functions of `semantics.clock`."""
        return tuple(partition_clock(row) for row in self.rows)

    @property
    def pins(self) -> dict[str, int]:
        """The last landed batch of every topic."""
        return {row["topic"]: row["batch"] for row in self.rows}

    @property
    def watermark(self) -> datetime | None:
        """Rule 3: the least clock of all partitions of all topics; None while one has not started."""
        seen = {row["topic"] for row in self.rows}
        return watermark(self.clocks) if seen == set(self.topics) else None

    def frontier(self, pipeline: Pipeline) -> datetime | None:
        """Rule 4: before it every window has closed."""
        return frontier(self.watermark, pipeline.after, pipeline.grace)

    def of_topic(self, topic: str) -> tuple[Mapping[str, Any], ...]:
        """The rows of one topic."""
        return tuple(row for row in self.rows if row["topic"] == topic)


def observe(home: Home) -> Observation:
    """The newest observation."""
    path = home.table(Table.CLOCK)
    number = tables.version_of(path, APP_ID)
    if number < 0:  # a table that was copied without its transactions still knows its observations
        number = max((row["observation"] for row in tables.read(path, ["observation"])), default=-1)
    rows = tables.read(path, filters=[("observation", "=", number)]) if number >= 0 else []
    read = [row for row in rows if row["topic"] in home.pipeline.topics]
    return Observation(number, home.pipeline.topics, _ordered(read))


def record(home: Home, number: int, rows: Iterable[Mapping[str, Any]]) -> Observation:
    """Append an observation, exactly once per number. The caller holds the landing lock."""
    stamped = [{**row, "observation": number} for row in rows]
    tables.append_once(home.table(Table.CLOCK), CLOCK, stamped, app_id=APP_ID, version=number)
    return Observation(number, home.pipeline.topics, _ordered(stamped))


def _ordered(rows: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple(sorted(rows, key=lambda row: (row["topic"], row["partition"])))


def partition_clock(row: Mapping[str, Any]) -> PartitionClock:
    """A row of the `clock` table as the value that `semantics.clock` reasons about."""
    return PartitionClock(**{name: row[name] for name in _CLOCK_FIELDS})
