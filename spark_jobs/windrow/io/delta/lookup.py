"""Look-ups in large Delta tables without Spark: no file that can hold a wanted row is missed, the others stay closed.

    log: least and greatest value of a column, per file ─▶ files that can hold the rows ─▶ the wanted columns of the
                                                           wanted rows; other row groups are skipped

The table's history is not read. `Lookup.opened` keeps the files that were opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
from deltalake import DeltaTable

from windrow.io.delta import damage, store, tables

_TRUNCATED = timedelta(milliseconds=1)
"""Delta's statistics truncate instants to milliseconds, so a greatest value may be up to this much too low."""


class Range(NamedTuple):
    """Files whose column can lie in [least, most]; None means unbounded. Files without statistics qualify.

    A partition column has one value per file.
    """

    column: str
    least: Any = None
    most: Any = None


class Has(NamedTuple):
    """Files whose column has a null or, with `value=True`, a non-null. Files without statistics qualify."""

    column: str
    value: bool = False


Condition = Range | Has


class Estimate(NamedTuple):
    """How much of a table a look is about."""

    rows: int
    size: int
    """bytes of files"""

    def __add__(self, other: Estimate) -> Estimate:  # type: ignore[override]
        return Estimate(self.rows + other.rows, self.size + other.size)


@dataclass
class Lookup:
    """One version of one table, and which of its files have been opened so far."""

    table: DeltaTable
    files: pa.Table
    opened: set[str] = field(default_factory=set)

    @property
    def schema(self) -> pa.Schema:
        """All columns of the table, including those that older files lack."""
        return pa.schema(self.table.schema().to_arrow())

    @property
    def is_plain(self) -> bool:
        """Whether files hold the rows as they are: without deletion vectors and column mapping."""
        return self.table.protocol().min_reader_version <= 1

    @property
    def file_counts(self) -> dict[str, int]:
        """Number of opened files, and of all files."""
        return {"opened": len(self.opened), "of": self.files.num_rows}

    def read(
        self, columns: Iterable[str], wanted: pc.Expression | None, conditions: Sequence[Condition]
    ) -> list[dict[str, Any]]:
        """Return the rows that `wanted` selects (None: all), from the files that can meet every condition.

        A column that a file lacks is null; one that the table lacks is left out of the rows.

        Args:
            columns: names, of which unknown ones and repetitions are ignored.
            wanted: which rows; None for all.
            conditions: which files are opened; rows are not filtered by them.

        Raises:
            TableDamaged: a data file is missing or cut.
        """
        return self._rows(self.paths(conditions), columns, wanted)

    def having(self, columns: Iterable[str], column: str, value: Any) -> list[dict[str, Any]]:
        """Return the rows whose `column` has exactly this value, from the files that can hold it, as `read` does."""
        return self.read(columns, equal(column, value), [Range(column, value, value)])

    def having_any(self, columns: Iterable[str], column: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the rows whose `column` has one of these values, from the files that can hold one, as `read` does."""
        paths = dict.fromkeys(path for value in values for path in self.paths([Range(column, value, value)]))
        return self._rows([*paths], columns, pc.field(column).isin(list(values)))

    def read_files(
        self, paths: Sequence[str], columns: Iterable[str], wanted: pc.Expression | None
    ) -> dict[str, pa.Table]:
        """Return the rows that `wanted` selects (None: all) of each of these files, by path, as `read` does.

        Args:
            paths: of files of this version, as `paths` returns them.

        Raises:
            TableDamaged: a data file is missing or cut.
        """
        if not paths:
            return {}
        found: dict[str, list[pa.RecordBatch]] = {path: [] for path in paths}
        with damage.named(self.table.table_uri):
            scanner = self._scanner(paths, columns, wanted)
            for batch, fragment in scanner.scan_batches():
                found[fragment.path].append(batch)
        return {path: pa.Table.from_batches(rows, scanner.projected_schema) for path, rows in found.items()}

    def newest_first(
        self, columns: Iterable[str], wanted: pc.Expression, by: str, conditions: Sequence[Condition] = ()
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield the wanted rows of each file that has any, files with the greatest `by` first.

        For columns without statistics: the caller stops when it has found its row.

        Args:
            by: column whose greatest value orders the files.

        Raises:
            TableDamaged: a data file is missing or cut.
        """
        paths = self.paths(conditions, by)
        for path in reversed(paths):
            if rows := self._rows([path], columns, wanted):
                yield rows

    def paths(self, conditions: Sequence[Condition], order: str | None = None) -> list[str]:
        """Return the files that can meet every condition, sorted by their greatest value of the column `order`.

        They are not sorted without `order`, or where the log has no statistics of it.

        Returns:
            Paths relative to the table.
        """
        files = self.files_with(conditions)
        if order and f"max.{order}" in files.column_names:
            files = files.sort_by(f"max.{order}")
        return [str(path) for path in files["path"].to_pylist()]

    def files_with(self, conditions: Sequence[Condition]) -> pa.Table:
        """Return the files that can meet every condition, with the columns of `tables.data_files`."""
        files = self.files
        for condition in conditions:
            if isinstance(condition, Has) and condition.value and condition.column not in self.schema.names:
                return files.slice(length=0)
            files = files.filter(_possible(files, condition))
        return files

    def within(self, span: Range) -> Estimate:
        """Estimate how much has an instant within `span`: the sum of `parts`."""
        parts = list(self.parts(span))
        return Estimate(
            round(sum(part * whole.rows for _, whole, part in parts)),
            round(sum(part * whole.size for _, whole, part in parts)),
        )

    def parts(self, span: Range) -> Iterator[tuple[str, Estimate, float]]:
        """Yield each file that can hold an instant within `span`: its path, all of it, and which part can be meant.

        Rows of a file count as spread evenly; where the log has no statistics of a file, all of it can be meant.

        Args:
            span: both bounds set.
        """
        files = self.files_with([span, Has(span.column, value=True)])
        least, most = f"min.{span.column}", f"max.{span.column}"
        known = [name for name in ("path", "num_records", "size_bytes", least, most) if name in files.column_names]
        for file in files.select(known).to_pylist():
            low, high = file.get(least), file.get(most)
            is_whole = low is None or high is None or low == high
            part = 1.0 if is_whole else max(0.0, (min(high, span.most) - max(low, span.least)) / (high - low))
            yield file["path"], Estimate(file["num_records"] or 0, file["size_bytes"]), part

    def _rows(self, paths: list[str], columns: Iterable[str], wanted: pc.Expression | None) -> list[dict[str, Any]]:
        if not paths:
            return []
        with damage.named(self.table.table_uri):
            return list(self._scanner(paths, columns, wanted).to_table().to_pylist())

    def _scanner(self, paths: Sequence[str], columns: Iterable[str], wanted: pc.Expression | None) -> ds.Scanner:
        self.opened |= set(paths)
        schema, parquet = self.schema, ds.ParquetFileFormat()
        files = store.filesystem(self.table.table_uri)
        fragments = [parquet.make_fragment(path, filesystem=files) for path in paths]
        known = set(schema.names)
        return ds.FileSystemDataset(fragments, schema, parquet, files).scanner(
            columns=[name for name in dict.fromkeys(columns) if name in known], filter=wanted
        )


_seen: ContextVar[dict[str, Lookup | None] | None] = ContextVar("seen", default=None)


@contextmanager
def seen_once() -> Iterator[None]:
    """Within it the newest version of each table is opened once, so that all who look see the same one.

    For a step that only reads: what it writes it would not see.
    """
    before = _seen.set({})
    try:
        yield
    finally:
        _seen.reset(before)


def opened(path: str, version: int | None = None) -> Lookup | None:
    """Return a version of the table at `path`, None for the newest, or None where there is no table."""
    seen = _seen.get() if version is None else None
    if seen is not None and path in seen:
        return seen[path]
    table = tables.opened(path) if version is None else tables.at(path, version)
    found = None if table is None else Lookup(table, tables.data_files(table))
    if seen is not None:
        seen[path] = found
    return found


def equal(column: str, value: Any) -> pc.Expression:
    """Condition: the column has exactly this value. A null equals nothing.

    Args:
        column: name of the column.
        value: what a row must have there; not None.
    """
    return pc.field(column) == pc.scalar(value)


def in_range(span: Range) -> pc.Expression:
    """Condition: the column lies in a range of which at least one end is set. A null lies in none."""
    column = pc.field(span.column)
    ends = [None if span.least is None else column >= span.least, None if span.most is None else column <= span.most]
    return all_of(end for end in ends if end is not None)


def all_of(expressions: Iterable[pc.Expression]) -> pc.Expression:
    """Condition: all of these hold. At least one is needed."""
    first, *rest = expressions
    for expression in rest:
        first = first & expression
    return first


def _possible(files: pa.Table, condition: Condition) -> pa.Array:
    """Whether each file can meet the condition. Missing statistics compare as null, which means that it can."""
    possible = pa.array([True] * files.num_rows, pa.bool_())
    if isinstance(condition, Has):
        nulls = _column(files, f"null_count.{condition.column}")
        if nulls is None:
            return possible
        has = pc.less(nulls, files["num_records"]) if condition.value else pc.greater(nulls, 0)
        return pc.fill_null(has, True)
    name = condition.column
    least, most = (_column(files, f"{end}.{name}", f"partition.{name}") for end in ("min", "max"))
    if condition.most is not None and least is not None:
        possible = pc.and_(possible, pc.fill_null(pc.less_equal(least, _as(condition.most, least)), True))
    if condition.least is not None and most is not None:
        least_wanted = condition.least - _TRUNCATED if pa.types.is_timestamp(most.type) else condition.least
        possible = pc.and_(possible, pc.fill_null(pc.greater_equal(most, _as(least_wanted, most)), True))
    return possible


def _column(files: pa.Table, *names: str) -> Any:
    return next((files[name] for name in names if name in files.column_names), None)


def _as(value: Any, like: Any) -> pa.Scalar:
    return pa.scalar(value).cast(like.type)
