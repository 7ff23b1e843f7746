"""The `alerts` table: begins and ends of conditions, and who was told of them. No Spark.

It is kept by the name of the pipeline, because a pipeline whose file cannot be used has alerts too. One process looks
and tells at a time, under the table's lock; a commit follows the state that its writer has read, or fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from windrow.home import Table
from windrow.io.delta import store, tables
from windrow.io.delta.locks import held
from windrow.places import Places
from windrow.schemas import ALERTS
from windrow.semantics.alerts.register import Alert, Row, alerts

APP_ID = "windrow.alerts"
KEPT = timedelta(days=90)
"""How far back the register is read. A condition that lasts longer begins anew, so that it is told again."""


@contextmanager
def looking(places: Places, pipeline: str) -> Iterator[None]:
    """Be the only one that looks at a pipeline and tells of it.

    Raises:
        Locked: another process does.
    """
    with held(places.lock(pipeline, Table.ALERTS), wait_seconds=1.0):
        yield


def others(places: Places, pipelines: Collection[str]) -> list[str]:
    """Return the names of other pipelines of which alerts were recorded, sorted: their files were taken away."""
    found = store.folders(places.table("", "").rstrip("/"))
    return [
        name
        for name in found
        if name not in pipelines and tables.version_of(places.table(name, Table.ALERTS), APP_ID) >= 0
    ]


def known(places: Places, pipeline: str, now: datetime) -> tuple[list[Alert], int]:
    """Return the alerts of a pipeline, oldest begin first, and the version that a change of them follows."""
    path = places.table(pipeline, Table.ALERTS)
    version = tables.version_of(path, APP_ID)
    return alerts(tables.read(path, filters=[("at", ">=", now - KEPT)])), version


def record(places: Places, pipeline: str, rows: Sequence[Row], version: int) -> int:
    """Append rows in one commit; return the version that the next change follows.

    Args:
        version: what `known` or the last call returned.

    Raises:
        WriteSkipped: another process was faster; nothing was written.
    """
    if not rows:
        return version
    following = max(0, version) + 1
    tables.append_once(places.table(pipeline, Table.ALERTS), ALERTS, rows, app_id=APP_ID, version=following)
    return following
