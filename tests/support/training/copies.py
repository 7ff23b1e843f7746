"""Tables that are written once and given to many tests: copied from memory into folders of their own.

Delta logs name their files relative to the table, so a copy is a table like the first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from windrow.places import Places

Tables = Mapping[str, bytes]
"""Content of every file below the tables of a home, by its name there."""


def tables_of(places: Places) -> Tables:
    """Everything below the tables of a home, which are in a folder."""
    folder = _folder(places)
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def put_tables(tables: Tables, places: Places) -> None:
    """Write these files into a home that has no tables yet."""
    for name, content in tables.items():
        path = _folder(places) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _folder(places: Places) -> Path:
    return Path(places.tables or places.home / "tables")
