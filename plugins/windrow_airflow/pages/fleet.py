"""The page of all pipelines: a row for each that the reader may see, the worst first. Names and counts only.

The tables are read here, and Airflow's database in `runs`; what was read of a table is kept for the next request, until
the table has a newer version. Between requests the tables are looked at too (`between`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from windrow.places import Places
from windrow.quality import html, pictures
from windrow.semantics.fleet.health import Status, age, holder_reason
from windrow.semantics.fleet.strip import Cell
from windrow.text import rounded_duration
from windrow_airflow.pages.between import Between

if TYPE_CHECKING:
    from windrow.io.registers.recent import Recent
    from windrow.jobs.upkeep.health import Health, Runs
    from windrow.jobs.upkeep.metrics import Sample

REFRESH = 30
"""Seconds after which the page looks again."""
RECENT = timedelta(days=1)
"""How far back ended runs are looked at."""
_LOOKING = Lock()


@dataclass(frozen=True)
class Filter:
    """What a reader wants to see; every part stands in the page's address."""

    name: str = ""
    """a part of the name"""
    status: str = ""
    refresh: str = ""
    """`off`: the page does not look again by itself"""

    def keeps(self, one: Health) -> bool:
        """Whether a pipeline is shown."""
        return self.name.lower() in one.seen.name and self.status in ("", one.status.words)

    def link(self, **other: str) -> str:
        """Return the address of the page with other parts."""
        parts = {"name": self.name, "status": self.status, "refresh": self.refresh, **other}
        return "?" + urlencode({name: value for name, value in parts.items() if value})


def look(names: Sequence[str], places: Places, now: datetime, runs: Mapping[str, Runs]) -> list[Health]:
    """Return the health of pipelines, the worst first."""
    from windrow.jobs.upkeep import health  # loads delta-rs

    with known() as read_before:
        return health.worst_first(health.look(names, places, now, runs=runs, known=read_before))


@cache
def between() -> Between:
    """Return what looks at tables between requests."""
    from windrow.jobs.upkeep import health  # loads delta-rs

    def look_at(name: str) -> None:
        with known() as read_before:
            health.look([name], Places.from_env(os.environ), datetime.now(UTC), known=read_before)

    return Between(look_at)


def measure(names: Sequence[str], places: Places, now: datetime, runs: Mapping[str, Runs]) -> list[Sample]:
    """Return the figures of pipelines as metrics."""
    from windrow.jobs.upkeep import health, metrics  # loads delta-rs

    with known() as read_before:
        found = health.look(names, places, now, runs=runs, known=read_before)
        return metrics.samples(found, places, now, read_before)


def page(found: Sequence[Health], wanted: Filter, now: datetime | None = None) -> str:
    """Return the page of these pipelines."""
    now = now or datetime.now(UTC)
    counts = Counter(one.status for one in found)
    known = [(status.words, counts[status]) for status in sorted(Status, reverse=True)]
    statuses = [("all", len(found), wanted.link(status=""))]
    statuses += [(words, count, wanted.link(status=words)) for words, count in known]
    return html.render(
        "fleet.html",
        title="Windrow",
        now=now.replace(microsecond=0),
        refresh=0 if wanted.refresh == "off" else REFRESH,
        toggle=wanted.link(refresh="" if wanted.refresh == "off" else "off"),
        wanted=wanted.name,
        chosen=wanted.status or "all",
        statuses=statuses,
        rows=[_row(one, now) for one in found if wanted.keeps(one)],
    )


def runs(names: Iterable[str], now: datetime) -> dict[str, Runs]:
    """Return what Airflow's database says of the DAGs that publish: which are paused, whose newest ended run failed."""
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    from windrow.jobs.upkeep.health import Runs

    dags = {name: (f"{name}.land", f"{name}.training") for name in names}
    ids = [dag for both in dags.values() for dag in both]
    newest = (
        select(func.max(DagRun.id))
        .where(DagRun.dag_id.in_(ids), DagRun.run_after >= now - RECENT, DagRun.state.in_(("success", "failed")))
        .group_by(DagRun.dag_id)
    )
    with create_session() as session:
        paused = set(session.scalars(select(DagModel.dag_id).where(DagModel.dag_id.in_(ids), DagModel.is_paused)))
        ended = select(DagRun.dag_id, DagRun.data_interval_start).where(DagRun.id.in_(newest))
        failed = {row.dag_id: row.data_interval_start for row in session.execute(ended.where(DagRun.state == "failed"))}
    return {
        name: Runs([dag for dag in both if dag in paused], {dag: failed[dag] for dag in both if dag in failed})
        for name, both in dags.items()
    }


@contextmanager
def known() -> Iterator[Recent]:
    """Yield what was read of tables before; the threads that answer requests share it, one at a time."""
    with _LOOKING:
        yield _known()


@cache
def _known() -> Recent:
    from windrow.io.registers.recent import Recent

    return Recent()


def _row(one: Health, now: datetime) -> dict[str, Any]:
    seen, strip, old = one.seen, one.strip, age(one.seen, now)
    published = [cell for cell in strip if cell.row]
    newest = published[-1] if published else None
    return {
        "name": seen.name,
        "status": one.status,
        "findings": one.findings,
        "age": rounded_duration(old) if old is not None else "unknown" if seen.broken else "nothing published",
        "promise": "" if seen.broken else rounded_duration(seen.terms.promise),
        "watermark": seen.watermark,
        "holder": "" if seen.broken else holder_reason(seen.clocks, seen.terms.idle_mode),
        "held_since": seen.held_since,
        "strip": pictures.strip(strip),
        "strip_words": pictures.strip_words(strip),
        "label_line": pictures.line("label rate", [cell.label_rate for cell in strip], html.percent),
        "label_rate": _percent(newest and newest.label_rate),
        "rows_line": pictures.line("rows", [cell.rows for cell in strip], lambda rows: f"{rows:,.0f}"),
        "newest_rows": f"{newest.rows:,}" if newest and newest.rows is not None else "-",
        "unknown": _percent(_unknown(published)),
        "blocked": len(seen.blocked),
    }


def _unknown(cells: Sequence[Cell]) -> float | None:
    """Unknown of all rows of these intervals."""
    rows = sum(cell.rows or 0 for cell in cells)
    return sum(cell.row["unknown"] for cell in cells if cell.row) / rows if rows else None


def _percent(rate: float | None) -> str:
    return "-" if rate is None else html.percent(rate)
