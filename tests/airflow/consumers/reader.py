"""What a training team would write: a DAG that runs when an interval is published, and reads that publication only."""

from __future__ import annotations

import os

from airflow.sdk import DAG, Asset, task

with DAG(
    "reader",
    schedule=[Asset(name="good.training", uri="windrow://tables/good/training", group="windrow")],
    catchup=False,
    doc_md="Reads each publication of `good` that has been made since it ran last, at its own table version.",
):

    @task
    def read(triggering_asset_events: dict) -> list[dict]:
        import polars as pl

        table = os.path.join(os.environ["WINDROW_HOME"], "tables", "good", "training")
        publications = [
            publication
            for events in triggering_asset_events.values()
            for event in events
            for publication in event.extra["publications"]
        ]
        read = []
        for publication in publications:
            rows = pl.scan_delta(table, version=publication["training_version"])
            mine = rows.filter(pl.col("_publication") == publication["number"])
            count, positive = mine.select(pl.len(), (pl.col("label_state") == "positive").sum()).collect().row(0)
            read.append({**publication, "read": count, "read_positive": positive})
        return read

    read()
