"""The `schemas` table: schemas of producers by registry and id, kept for good. No Spark, no registry.

A schema of an id never changes, so a second row of it says the same. What is kept is what the registry said; what is
made of it belongs to whoever reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime

from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.schemas import SCHEMAS
from windrow.transforms.formats.schemas import WriterSchema

_APP_ID = "windrow.schemas"


def kept(home: Home, registry: str) -> dict[int, WriterSchema]:
    """Return the kept schemas of a registry by id, without descriptors."""
    rows = tables.read(home.table(Table.SCHEMAS), filters=[("registry", "=", registry)])
    return {
        row["id"]: WriterSchema(row["id"], row["kind"], row["schema"], tuple(map(tuple, json.loads(row["references"]))))
        for row in rows
    }


def keep(home: Home, registry: str, schemas: Iterable[WriterSchema], now: datetime) -> None:
    """Add schemas of a registry."""
    rows = [
        {
            "registry": registry,
            "id": one.id,
            "kind": one.kind,
            "schema": one.text,
            "references": json.dumps(one.references),
            "recorded_at": now,
        }
        for one in schemas
    ]
    if rows:
        tables.append_next(home.table(Table.SCHEMAS), SCHEMAS, rows, app_id=_APP_ID)
