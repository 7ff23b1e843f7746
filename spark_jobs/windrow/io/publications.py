"""The register of publications. Derived: the training table's commits are the truth, and it is repaired from them.

training commit n ──▶ register row n        killed between the two: the next reader under the lock
(carries row n in its userMetadata)         finds n missing here and writes it
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from windrow.config import Pipeline
from windrow.io import small
from windrow.io.locks import held
from windrow.places import Places
from windrow.schemas import PUBLICATIONS
from windrow.semantics.intervals import Interval, intervals_between

APP_ID = "windrow.publish"
_INSTANTS = ("interval", "interval_end", "published_at")


def registered(pipeline: Pipeline, places: Places) -> list[dict[str, Any]]:
    """Every publication, by number."""
    rows = small.read(places.table(pipeline.name, "publications"))
    return sorted(rows, key=lambda row: row["number"])


def repaired(pipeline: Pipeline, places: Places) -> list[dict[str, Any]]:
    """Every publication, after what a killed run committed and did not register was registered (rule 20)."""
    training = places.table(pipeline.name, "training")
    register = places.table(pipeline.name, "publications")
    if small.version_of(training, APP_ID) > small.version_of(register, APP_ID):
        with held(places.lock(pipeline.name, "training")):
            repair(pipeline, places)
    return registered(pipeline, places)


def standing(rows: list[dict[str, Any]]) -> dict[datetime, dict[str, Any]]:
    """The publication that readers see, by interval start: the newest of each interval."""
    return {row["interval"]: row for row in sorted(rows, key=lambda row: row["number"])}


def published(pipeline: Pipeline, places: Places, interval: datetime) -> dict[str, Any] | None:
    """The standing publication of one interval, or None."""
    return max(of_interval(pipeline, places, interval), key=lambda row: row["number"], default=None)


def of_interval(pipeline: Pipeline, places: Places, interval: datetime) -> list[dict[str, Any]]:
    """Every publication of one interval."""
    return small.read(places.table(pipeline.name, "publications"), filters=[("interval", "=", interval)])


def holes(pipeline: Pipeline, rows: list[dict[str, Any]], frontier: datetime | None) -> list[Interval]:
    """Closed intervals without a publication, oldest first (rule 20)."""
    if frontier is None:
        return []
    known = standing(rows)
    # whole intervals only: the last one that ends at or before the frontier
    return [i for i in intervals_between(pipeline.start, frontier, pipeline.interval) if i.start not in known]


def register(pipeline: Pipeline, places: Places, row: Mapping[str, Any]) -> None:
    """Add one publication, once. The caller holds the training lock."""
    small.append_once(
        places.table(pipeline.name, "publications"),
        PUBLICATIONS,
        [row],
        app_id=APP_ID,
        version=row["number"],
    )


def repair(pipeline: Pipeline, places: Places) -> int:
    """Register what the training table holds and the register lacks; returns the last publication's number.

    The caller holds the training lock.
    """
    training = places.table(pipeline.name, "training")
    last = small.version_of(training, APP_ID)
    known = small.version_of(places.table(pipeline.name, "publications"), APP_ID)
    if last > known:
        missing = []
        for commit in small.commits(training):
            row = from_json(commit.message)
            if row["number"] <= known:
                break
            missing.append({**row, "training_version": commit.version})
        if len(missing) != last - max(known, 0):
            raise RuntimeError(
                f"{training}: publications {known + 1} to {last} are not registered and only {len(missing)} of "
                "their commits are still in the log. Restore the publications table from a backup."
            )
        for row in reversed(missing):
            register(pipeline, places, row)
    return max(last, 0)


def to_json(row: Mapping[str, Any]) -> str:
    """The register row as the training commit carries it."""
    texts = {name: row[name].isoformat() for name in _INSTANTS}
    return json.dumps({**row, **texts, "windrow": "publication"}, sort_keys=True)


def from_json(text: str) -> dict[str, Any]:
    """The row that `to_json` wrote."""
    row = json.loads(text)
    del row["windrow"]
    return {**row, **{name: datetime.fromisoformat(row[name]) for name in _INSTANTS}}
