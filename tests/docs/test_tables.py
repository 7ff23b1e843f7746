"""docs/TABLES.md names every column of every table, with the type that the code gives it, in the table's order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from windrow import columns, schemas
from windrow.home import Table

PAGE = Path(__file__).resolve().parents[2] / "docs/TABLES.md"

SPARK = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.bool_(): "boolean",
    pa.float64(): "double",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.list_(pa.int64()): "array<bigint>",
}
SMALL = {name.lower(): schema for name, schema in vars(schemas).items() if isinstance(schema, pa.Schema)}
"""The tables whose columns are the same for every pipeline."""

TYPES = {
    **columns.TRAINING_TYPES,
    columns.RECORD_AT: "timestamp",
    columns.QUARANTINED: "string",
    columns.UNREADABLE_VALUES: "string",
    columns.RECONSIDERED: "bigint",
    columns.RAW: "binary",
    columns.RAW_ENVELOPE: columns.RAW_ENVELOPE_TYPE.partition("<")[0],
    columns.PUBLICATION: "bigint",
    columns.DATE: "date",
    columns.PLAN: "string",
    columns.PAIRED: "boolean",
}

Columns = list[tuple[str, str]]


def documented(page: str) -> dict[str, list[Columns]]:
    """By section of the page, its tables of columns as (name, type); a row without meaning or null rule is refused."""
    found: dict[str, list[Columns]] = {}
    section, is_open = "", False
    for line in page.splitlines():
        if heading := re.fullmatch(r"## `?(.+?)`?", line):
            section, is_open = heading[1], False
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if cells[1:] == ["type", "meaning", "null"]:
            found.setdefault(section, []).append([])
            is_open = True
        elif not cells:
            is_open = False
        elif is_open and not line.startswith("| ---"):
            assert len(cells) == 4, f"{section}: not name, type, meaning and null rule: {line}"
            assert all(cells), f"{section}: an empty cell: {line}"
            found[section][-1].append((cells[0].strip("`"), cells[1]))
    return found


def of_schema(schema: pa.Schema) -> Columns:
    return [(field.name, SPARK[field.type]) for field in schema]


def of_names(names: Iterable[str], types: Mapping[str, str] = TYPES) -> Columns:
    return [(name, types[name]) for name in names]


@pytest.fixture(scope="module")
def page() -> dict[str, list[Columns]]:
    return documented(PAGE.read_text())


@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_small_table_is_documented_as_it_is_written(page: dict[str, list[Columns]], name: str) -> None:
    assert page[name] == [of_schema(SMALL[name])]


def test_the_fixed_columns_of_the_large_tables_are_documented_as_they_are_written(
    page: dict[str, list[Columns]],
) -> None:
    assert page["landing"] == [of_names((*columns.LANDING_META, columns.RAW, columns.RAW_ENVELOPE))]
    training = (columns.STATE, columns.REASON, *columns.TRAINING_META)
    elements = of_names(columns.ELEMENT_META, columns.ELEMENT_TYPES)
    assert page["training"] == [of_names(training), elements]
    assert page["candidates"] == [[*of_names((columns.PLAN, columns.PAIRED)), ("_all_<stream>", "array<struct>")]]


def test_every_table_is_documented_and_no_other(page: dict[str, list[Columns]]) -> None:
    assert page.keys() == set(Table)
    assert set(Table) - SMALL.keys() == {"landing", "training", "candidates"}


BAD = """
## `plans`

| column | type | meaning | null |
| --- | --- | --- | --- |
| `run` | string | key of the run | never |
| `interval` | {kind} | {meaning} | never |
"""


def test_a_wrong_type_a_missing_column_and_an_empty_cell_are_seen() -> None:
    found = documented(BAD.format(kind="bigint", meaning="start"))["plans"]
    assert found == [[("run", "string"), ("interval", "bigint")]]
    assert found != [of_schema(schemas.PLANS)]
    with pytest.raises(AssertionError, match="an empty cell"):
        documented(BAD.format(kind="timestamp", meaning=""))
    with pytest.raises(AssertionError, match="not name, type, meaning and null rule"):
        documented(BAD.format(kind="timestamp | start", meaning="of the interval"))
