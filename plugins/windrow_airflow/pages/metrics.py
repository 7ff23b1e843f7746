"""Figures of pipelines, for whoever scrapes the page and for Airflow's own exporter. docs/METRICS.md lists them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from airflow.sdk.configuration import conf

from windrow.places import Places
from windrow_airflow.pages import fleet

TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Media type of Prometheus's text."""
_WITH_TAGS = ("otel_on", "statsd_datadog_enabled", "statsd_influxdb_enabled")


def page(names: Sequence[str], places: Places, now: datetime) -> str:
    """Return the figures of pipelines as the text that Prometheus reads."""
    from windrow.jobs.upkeep import metrics  # loads delta-rs

    return metrics.text(fleet.measure(names, places, now, fleet.runs(names, now)))


def export(names: Sequence[str], places: Places, now: datetime) -> int:
    """Hand the figures of pipelines to Airflow's exporter, as `windrow.<metric>` with tags; return their number.

    Nothing is measured where the exporter is off, or knows no tags: pipelines would overwrite each other. What Airflow
    knows of runs is not in it.
    """
    if not any(conf.getboolean("metrics", option, fallback=False) for option in _WITH_TAGS):
        return 0
    from airflow.sdk.observability import stats

    found = fleet.measure(names, places, now, {})
    for one in found:
        stats.gauge(one.name.replace("windrow_", "windrow.", 1), one.value, tags=dict(one.labels))
    return len(found)
