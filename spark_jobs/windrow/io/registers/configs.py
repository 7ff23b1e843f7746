"""The `configs` table: pipeline files by config hash, so that an old publication can be made again. No Spark.

A file is recorded with the first plan that is made under it, once per hash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from windrow.config import Pipeline
from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.schemas import CONFIGS
from windrow.text import duration_text, instant_text


def keep(home: Home, now: datetime) -> None:
    """Record the pipeline under its hash, unless it is recorded already."""
    path, config_hash = home.table(Table.CONFIGS), home.pipeline.config_hash
    row = {"config_hash": config_hash, "pipeline": to_text(home.pipeline), "recorded_at": now}

    def is_done() -> bool:
        return bool(tables.read(path, columns=["config_hash"], filters=[("config_hash", "=", config_hash)]))

    if not is_done():
        tables.append_next(path, CONFIGS, [row], app_id="windrow.configs", is_done=is_done)


def of_hash(home: Home, config_hash: str) -> Pipeline | None:
    """Return the pipeline with this hash, the present one or a recorded one; None where it is not on record."""
    if config_hash == home.pipeline.config_hash:
        return home.pipeline
    path = home.table(Table.CONFIGS)
    for row in tables.read(path, filters=[("config_hash", "=", config_hash)]):
        try:
            found = from_text(row["pipeline"])
        except ValidationError:  # recorded by a version of the code whose pipeline files this one cannot read
            continue
        if found.config_hash == config_hash:
            # what a join holds in memory is a matter of the present driver
            return found.model_copy(update={"max_labels_per_key": home.pipeline.max_labels_per_key})
    return None


def to_text(pipeline: Pipeline) -> str:
    """Return the fields of a pipeline as JSON, spelled as in a pipeline file."""
    return json.dumps(_spelled(pipeline.model_dump(by_alias=True)), separators=(",", ":"))


def from_text(text: str) -> Pipeline:
    """Return the pipeline that `to_text` wrote."""
    return Pipeline.model_validate(json.loads(text), by_alias=True, by_name=False)


def _spelled(value: Any) -> Any:
    """Return a value with its instants and durations as a pipeline file writes them."""
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, Mapping):
        return {name: _spelled(one) for name, one in value.items()}
    return [_spelled(one) for one in value] if isinstance(value, list | tuple) else value
