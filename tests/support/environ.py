"""The environment in which a command or a job finds the tables of a test."""

from __future__ import annotations

from windrow.places import Places


def environ_of(places: Places) -> dict[str, str]:
    """Return home, tables, brokers and pipeline files as the variables of the product."""
    return {
        "WINDROW_HOME": str(places.home),
        "WINDROW_TABLES": places.tables or "",
        "WINDROW_KAFKA": places.kafka,
        "WINDROW_PIPELINES": str(places.pipelines[0]),
    }
