"""Tables that are written once and given to many tests: copied from memory, into a folder or an object store.

Delta logs name their files relative to the table, so a copy is a table like the first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from windrow.io.delta import store
from windrow.places import Places

Tables = Mapping[str, bytes]
"""Content of every file below the tables of a home, by its name there."""


def tables_of(places: Places) -> Tables:
    """Everything below the tables of a home, which are in a folder."""
    folder = Path(_location(places))
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def put_tables(tables: Tables, places: Places) -> None:
    """Write these files into a home that has no tables yet."""
    files = {f"{_location(places)}/{name}": content for name, content in tables.items()}
    for folder in {Path(file).parent for file in files if not store.is_remote(file)}:
        folder.mkdir(parents=True, exist_ok=True)
    written = store.each(files, lambda file: store.create(file, files[file]))
    assert all(written), "there were tables before"


def copied(home: Path, places: Places) -> None:
    """Begin with the tables of a home that was made in a folder: in a folder too, or in a store."""
    put_tables(tables_of(replace(places, home=home, tables=None)), places)


def _location(places: Places) -> str:
    return places.tables or f"{places.home}/tables"
