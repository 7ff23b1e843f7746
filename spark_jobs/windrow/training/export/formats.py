"""Formats of an export: how rows become a shard, and how many rows a shard has. Equal rows make equal bytes.

    parquet, arrow    columns as they are
    tfrecord          one tf.train.Example per row: whole numbers, instants (microseconds since 1970) and booleans as
                      int64, fractions as float (32 bits, the format has no other), text as bytes; a label's fields are
                      features of their own, `clicks/_offset`; null is no feature
    webdataset        one JSON object per row in a tar file, as `<shard>-<row>.json`

The writers of the last two are libraries of the extra `windrow[export]`; what they read is checked without them.
"""

from __future__ import annotations

import base64
import importlib
import json
import struct
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import IO, Any, Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from windrow.outcomes import BadInput
from windrow.semantics.intervals import micros
from windrow.text import instant_text

Format = Literal["parquet", "arrow", "tfrecord", "webdataset"]

_EPOCH = date(1970, 1, 1)


class ExtraMissing(BadInput):
    """The library of a format is not installed."""


class Writer(Protocol):
    """Writes rows to one file."""

    def write(self, rows: pa.Table) -> None:
        """Append rows."""

    def close(self) -> None:
        """Finish the file."""


@dataclass(frozen=True)
class Kind:
    """A format.

    Args:
        ending: of the names of its files.
        writer: opens a file of this machine for rows of a schema; the number is that of the shard.
        count: rows of a file that is opened for reading.
    """

    ending: str
    writer: Callable[[str, pa.Schema, int], Writer]
    count: Callable[[IO[bytes]], int]


class _Arrow:
    def __init__(self, path: str, schema: pa.Schema, number: int) -> None:
        self._file = pa.OSFile(path, "wb")
        self._writer = pa.ipc.new_file(self._file, schema)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def close(self) -> None:
        self._writer.close()
        self._file.close()


class _Parquet:
    def __init__(self, path: str, schema: pa.Schema, number: int) -> None:
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def close(self) -> None:
        self._writer.close()


class _TFRecord:
    def __init__(self, path: str, schema: pa.Schema, number: int) -> None:
        tfrecord = _library("tfrecord")
        self._writer, self._example = tfrecord.TFRecordWriter(path), tfrecord.example_pb2.Example
        self._columns = {name: column for field in schema for name, column in _features(field)}

    def write(self, rows: pa.Table) -> None:
        for row in _rows(rows):
            example = self._example()
            for name, feature in self._columns.items():
                values = feature.values(row)
                if values is not None:
                    held = getattr(example.features.feature[name], feature.kind)
                    held.SetInParent()  # an empty list has its kind too
                    held.value.extend(values)
            # in the library's own way of writing, the order of the features is another one in each process
            self._append(example.SerializeToString(deterministic=True))

    def _append(self, record: bytes) -> None:
        length, file = struct.pack("<Q", len(record)), self._writer.file
        for part in (length, self._writer.masked_crc(length), record, self._writer.masked_crc(record)):
            file.write(part)

    def close(self) -> None:
        self._writer.close()


class _WebDataset:
    def __init__(self, path: str, schema: pa.Schema, number: int) -> None:
        webdataset = _library("webdataset")
        self._file = pa.OSFile(path, "wb")
        self._writer = webdataset.TarWriter(self._file, mtime=0, encoder=False)
        self._number, self._row = number, 0

    def write(self, rows: pa.Table) -> None:
        for row in _rows(rows):
            text = json.dumps(_plain(row), separators=(",", ":"))
            self._writer.write({"__key__": f"{self._number:06d}-{self._row:09d}", "json": text.encode()})
            self._row += 1

    def close(self) -> None:
        self._writer.close()
        self._file.close()


class Grouped:
    """Writes rows in groups of one size, so that a file does not depend on how its rows came."""

    def __init__(self, writer: Writer, rows: int = 20_000) -> None:
        self._writer, self._size = writer, rows
        self._held: list[pa.Table] = []
        self.rows = 0
        """rows so far"""

    def write(self, rows: pa.Table) -> None:
        """Append rows."""
        while rows.num_rows:
            room = self._size - self.rows % self._size
            self._held.append(rows.slice(0, room))
            self.rows += self._held[-1].num_rows
            if self.rows % self._size == 0:
                self._flush()
            rows = rows.slice(room)

    def close(self) -> None:
        """Finish the file."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._held:
            self._writer.write(pa.concat_tables(self._held).combine_chunks())
        self._held = []


def _library(name: str) -> Any:
    """Import the library of a format.

    Raises:
        ExtraMissing: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        raise ExtraMissing(
            f"the format needs the library {name} ({missing}): install Windrow with its extra, `windrow[export]`"
        ) from missing


def _rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in rows.to_batches(max_chunksize=1000):
        yield from batch.to_pylist()


# ---- features of a tf.train.Example


@dataclass(frozen=True)
class _Feature:
    kind: str
    values: Callable[[Mapping[str, Any]], list[Any] | None]
    """of a row; None where it has none"""


def _features(field: pa.Field) -> Iterator[tuple[str, _Feature]]:
    """Yield the features of a column, by name: several where it holds structs."""
    name, kind = field.name, field.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    inner = kind.value_type if is_list else kind
    if pa.types.is_struct(inner):
        for part in inner:
            yield f"{name}/{part.name}", _Feature(_kind(part.type), _getter(name, is_list, part.type, part.name))
    else:
        yield name, _Feature(_kind(inner), _getter(name, is_list, inner, None))


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "float_list"
    whole = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_timestamp, pa.types.is_date)
    return "int64_list" if any(is_of(kind) for is_of in whole) else "bytes_list"


def _getter(
    name: str, is_list: bool, kind: pa.DataType, part: str | None
) -> Callable[[Mapping[str, Any]], list[Any] | None]:
    convert = _converter(kind)

    def values(row: Mapping[str, Any]) -> list[Any] | None:
        found = row[name] if is_list else [row[name]]
        if found is None:
            return None
        parts = found if part is None else [one and one[part] for one in found]
        if any(one is None for one in parts):
            if not is_list:
                return None
            # parallel lists stay parallel: an absent value of a list is 0, NaN or empty
            return [_absent(kind) if one is None else convert(one) for one in parts]
        return [convert(one) for one in parts]

    return values


def _absent(kind: pa.DataType) -> Any:
    return {"float_list": float("nan"), "int64_list": 0, "bytes_list": b""}[_kind(kind)]


def _converter(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_timestamp(kind):
        return micros
    if pa.types.is_date(kind):
        return lambda day: (day - _EPOCH).days
    if _kind(kind) == "float_list":
        return float
    if _kind(kind) == "int64_list":
        return int
    return _as_bytes


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(_plain(value), separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    """A value as JSON has it: instants and days as text, bytes in base64, durations in seconds."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, datetime):
        return instant_text(value if value.tzinfo else value.replace(tzinfo=UTC))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


# ---- how many rows a file has


def _rows_of_arrow(file: IO[bytes]) -> int:
    reader = pa.ipc.open_file(file)
    return sum(reader.get_batch(n).num_rows for n in range(reader.num_record_batches))


def _rows_of_parquet(file: IO[bytes]) -> int:
    return int(pq.read_metadata(file).num_rows)


def _rows_of_tfrecord(file: IO[bytes]) -> int:
    """Length (8 bytes), its checksum (4), record, its checksum (4)."""
    count = 0
    while len(length := file.read(8)) == 8:
        file.seek(4 + struct.unpack("<Q", length)[0] + 4, 1)
        count += 1
    return count


def _rows_of_webdataset(file: IO[bytes]) -> int:
    with tarfile.open(fileobj=file) as tar:
        return sum(member.name.endswith(".json") for member in tar)


KINDS: Mapping[str, Kind] = {
    "parquet": Kind("parquet", _Parquet, _rows_of_parquet),
    "arrow": Kind("arrow", _Arrow, _rows_of_arrow),
    "tfrecord": Kind("tfrecord", _TFRecord, _rows_of_tfrecord),
    "webdataset": Kind("tar", _WebDataset, _rows_of_webdataset),
}
