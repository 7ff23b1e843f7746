"""One pipeline and where its tables, locks and reports are: the value that readers and writers are handed.

Home(pipeline, places).table(Table.TRAINING)     <home>/tables/<pipeline>/training
                      .landing("feed.served")    <home>/tables/<pipeline>/landing/feed.served
                      .lock(Table.TRAINING)      <home>/locks/<pipeline>/training.lock
                      .reports                   <home>/reports/<pipeline>
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from windrow.config import Pipeline
from windrow.places import Lock, Places


class Table(StrEnum):
    """Tables of a pipeline, by the names of their folders; docs/TABLES.md describes each."""

    ALERTS = "alerts"
    CANARIES = "canaries"
    CANDIDATES = "candidates"
    CLOCK = "clock"
    CONFIGS = "configs"
    DISTRIBUTIONS = "distributions"
    ERASURES = "erasures"
    EXPORTS = "exports"
    LAG_IMPACT = "lag_impact"
    LANDING = "landing"
    """The folder of the landing tables, one per topic; its lock is held while a process lands."""
    LATE = "late"
    MEASURES = "measures"
    PLANS = "plans"
    PUBLICATIONS = "publications"
    QUALITY = "quality"
    RECONCILED = "reconciled"
    SCHEMAS = "schemas"
    SNAPSHOTS = "snapshots"
    TRAINING = "training"


@dataclass(frozen=True)
class Home:
    """A pipeline, which gives its rows their meaning, and the places where they are stored."""

    pipeline: Pipeline
    places: Places

    def table(self, table: Table) -> str:
        """Location of a table."""
        return self.places.table(self.pipeline.name, table)

    def landing(self, topic: str) -> str:
        """Location of the landing table of a topic."""
        return self.places.landing(self.pipeline.name, topic)

    def lock(self, table: Table) -> Lock:
        """The lock that the writers of a table take in turn."""
        return self.places.lock(self.pipeline.name, table)

    @property
    def reports(self) -> Path:
        """Folder of the reports."""
        return self.places.reports(self.pipeline.name)
