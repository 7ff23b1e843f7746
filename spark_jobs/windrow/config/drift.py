"""Which left columns are compared with earlier intervals: those that the file names, or those whose type tells.

Numbers and categories have types of their own. Identifiers, times and lists have no distribution that is worth a
comparison: the key, the event id and the event time are left out, and so are types that are neither.
"""

from __future__ import annotations

from collections.abc import Iterator

from windrow.config.problems import Finding, Location, near_miss
from windrow.config.streams import PipelineFields
from windrow.semantics.drift import Kind

MOST = 50
"""Columns that are compared where the file names none."""
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_CATEGORIES = ("string", "boolean")


def kinds_of(pipeline: PipelineFields) -> dict[str, Kind]:
    """Return left column → kind, in the file's order."""
    left, named = pipeline.left, pipeline.drift.columns if pipeline.drift else None
    if named is None:
        others = {*left.key, left.event_time, left.event_id}
        found = {name: kind for name, type_ in left.columns.items() if name not in others and (kind := kind_of(type_))}
        return dict(list(found.items())[:MOST])
    return {name: kind for name in named if (kind := kind_of(left.columns.get(name, "")))}


def kind_of(type_: str) -> Kind | None:
    """Return what a column of this type holds; None where it is neither.

    >>> kind_of("decimal(10,2)"), kind_of("string"), kind_of("array<float>")
    ('number', 'category', None)
    """
    if type_ in _NUMBERS or type_.startswith("decimal("):
        return "number"
    return "category" if type_ in _CATEGORIES else None


def findings(pipeline: PipelineFields) -> Iterator[Finding]:
    """Yield what is wrong with the columns that the file names."""
    left = pipeline.left
    for position, name in enumerate((pipeline.drift.columns if pipeline.drift else None) or ()):
        where: Location = ("drift", "columns", position)
        if name not in left.columns:
            yield where, f"{name!r} is no column of stream {left.name}; {near_miss(name, left.columns)}"
        elif kind_of(left.columns[name]) is None:
            yield where, f"{name!r} is {left.columns[name]}: numbers, string and boolean can be compared"
