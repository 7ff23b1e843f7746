"""Framed records of any number of schemas in one pass: a function over Arrow batches, for executors.

    frame? ─▶ id known? ─▶ decoded by its writer's schema ─▶ projected onto the declared columns
      │          │                    │                              └ values that are not of their column's type
      unframed   unknown_schema:<id>  malformed, trailing bytes too; other_schema:<id>

Each record comes out once: with its columns, or with the reason why it has none.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from windrow.columns import BAD_UTF8, MALFORMED, OTHER_SCHEMA, UNFRAMED, UNKNOWN_SCHEMA
from windrow.config.column_types import ColumnType
from windrow.config.formats import Format
from windrow.transforms.formats import avro, protobuf
from windrow.transforms.formats.framing import unframed
from windrow.transforms.formats.schemas import KIND_OF, Schemas
from windrow.transforms.formats.values import Fitted, arrow_type, fitted

Decoder = Callable[[bytes], Any]


def reader(of: Format, columns: Mapping[str, ColumnType], schemas: Schemas) -> Callable[[pa.Array], pa.Array]:
    """Return what reads a batch of records.

    Args:
        of: Avro or Protobuf.
        columns: declared columns.
        schemas: the known schemas; a record of another one has the reason `unknown_schema:<id>`.

    Returns:
        A function from records (null for those that are not to be read) to structs: `reason`, null if the record could
        be read; `row`, its columns; `wrong` and `not_finite`, names of the columns whose value is null because it is
        of another type, or infinite or no number.
    """
    decoders: dict[int, Decoder | str] = {}

    def decoder_of(number: int) -> Decoder | str:
        if number not in decoders:
            decoders[number] = _decoder(of, columns, schemas, number)
        return decoders[number]

    def read(batch: pa.Array) -> pa.Array:
        with _without_collector():
            return read_all(batch)

    def read_all(batch: pa.Array) -> pa.Array:
        found = [_decoded(value, decoder_of) for value in batch.to_pylist()]
        rows = [row for row, _ in found]
        parts = {name: fitted([row.get(name) for row in rows], kind) for name, kind in columns.items()}
        return _structs([reason for _, reason in found], parts, columns)

    return read


@contextmanager
def _without_collector() -> Iterator[None]:
    """Values of records make no circles; looking for some takes a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def result_ddl(columns: Mapping[str, ColumnType]) -> str:
    """Type of what a `reader` returns, as Spark DDL."""
    row = ",".join(f"`{name}`:{kind}" for name, kind in columns.items())
    return f"struct<reason:string,row:struct<{row}>,wrong:array<string>,not_finite:array<string>>"


def _decoder(of: Format, columns: Mapping[str, ColumnType], schemas: Schemas, number: int) -> Decoder | str:
    """What decodes the records of a schema, or the reason why they cannot be read."""
    schema = schemas.get(number)
    if schema is None:
        return f"{UNKNOWN_SCHEMA}{number}"
    try:
        if schema.kind != KIND_OF[of.kind]:
            raise ValueError(f"schema {number} is {schema.kind}")
        if of.kind == "avro":
            return avro.decoder(schema)
        return protobuf.decoder(schema, columns.keys(), of.message)
    except (ValueError, TypeError):
        return f"{OTHER_SCHEMA}{number}"


def _decoded(value: bytes | None, decoder_of: Callable[[int], Decoder | str]) -> tuple[Mapping[str, Any], str | None]:
    """A record's fields, or none and the reason."""
    if value is None:
        return {}, None
    framed = unframed(value)
    if framed is None:
        return {}, UNFRAMED
    decode = decoder_of(framed.schema)
    if isinstance(decode, str):
        return {}, decode
    try:
        return decode(framed.payload), None
    except UnicodeDecodeError:
        return {}, BAD_UTF8
    except protobuf.OtherMessage:
        return {}, f"{OTHER_SCHEMA}{framed.schema}"
    except Exception:  # the libraries raise errors of many kinds for bytes that are no record
        return {}, MALFORMED


def _structs(reasons: list[str | None], parts: Mapping[str, Fitted], columns: Mapping[str, ColumnType]) -> pa.Array:
    fields = [pa.field(name, arrow_type(kind)) for name, kind in columns.items()]
    row = pa.StructArray.from_arrays([part.array for part in parts.values()], fields=fields)
    wrong = _names({name: part.unfit for name, part in parts.items()}, len(reasons))
    not_finite = _names({name: part.not_finite for name, part in parts.items()}, len(reasons))
    return pa.StructArray.from_arrays(
        [pa.array(reasons, pa.string()), row, wrong, not_finite], names=["reason", "row", "wrong", "not_finite"]
    )


def _names(rows_of: Mapping[str, set[int]], count: int) -> pa.Array:
    """By row, the names whose set has it; null where none has."""
    names: list[list[str] | None] = [None] * count
    for name, rows in rows_of.items():
        for row in rows:
            names[row] = [*(names[row] or ()), name]
    return pa.array(names, pa.list_(pa.string()))
