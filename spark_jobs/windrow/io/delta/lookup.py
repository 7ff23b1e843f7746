"""Look-ups in large Delta tables without Spark: only files that can hold the wanted rows are opened.

    the table's log: least and greatest value of a column, by file ─▶ files that can hold it ─▶ a few columns of
                                                                      the wanted rows, the rest skipped by row group

The log is read, the history is not: how many files were opened, of how many, is kept and can be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

from windrow.io.delta import tables

_TRUNCATED = timedelta(milliseconds=1)
"""Delta's statistics of instants are cut off at the millisecond."""


class Range(NamedTuple):
    """Files in which a column can be in [least, most]; None is no bound. A file without statistics counts.

    Of a partition column a file has one value.
    """

    column: str
    least: Any = None
    most: Any = None


class Has(NamedTuple):
    """Files in which a column has a null, or, with `value`, something that is none."""

    column: str
    value: bool = False


Condition = Range | Has


@dataclass
class Lookup:
    """One version of one table, and which of its files have been opened so far."""

    table: DeltaTable
    files: pa.Table
    opened: set[str] = field(default_factory=set)

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, those that joined it last too."""
        return pa.schema(self.table.schema().to_arrow())

    @property
    def is_plain(self) -> bool:
        """Whether a file holds the table's rows as they are: no deletion vectors, no columns by another name."""
        return self.table.protocol().min_reader_version <= 1

    @property
    def looked(self) -> dict[str, int]:
        """How many files were opened, of how many."""
        return {"opened": len(self.opened), "of": self.files.num_rows}

    def read(
        self, columns: Iterable[str], wanted: pc.Expression | None, conditions: Sequence[Condition]
    ) -> list[dict[str, Any]]:
        """Rows that `wanted` selects, in files that meet every condition. A column that is missing is null."""
        return self._rows(self.paths(conditions), columns, wanted)

    def newest_first(
        self, columns: Iterable[str], wanted: pc.Expression, by: str, conditions: Sequence[Condition] = ()
    ) -> Iterator[list[dict[str, Any]]]:
        """Rows file after file, those with the greatest `by` first: for what has no statistics. Stop when found."""
        paths = self.paths(conditions, by)
        for path in reversed(paths):
            if found := self._rows([path], columns, wanted):
                yield found

    def paths(self, conditions: Sequence[Condition], order: str | None = None) -> list[str]:
        """Files that can hold such rows."""
        files = self.files
        for condition in conditions:
            files = files.filter(_possible(files, condition))
        if order and f"max.{order}" in files.column_names:
            files = files.sort_by(f"max.{order}")
        return [str(path) for path in files["path"].to_pylist()]

    def rows_within(self, span: Range) -> int:
        """About how many rows have an instant within `span`, if those of a file are spread evenly."""
        files, least, most = self.files.filter(_possible(self.files, span)), f"min.{span.column}", f"max.{span.column}"
        if not {least, most} <= set(files.column_names):
            return int(pc.sum(files["num_records"]).as_py() or 0)
        total = 0.0
        for file in files.select(["num_records", least, most]).to_pylist():
            lo, hi = file[least], file[most]
            if lo is None or hi is None or lo == hi:
                total += file["num_records"]
            else:
                total += file["num_records"] * max(0.0, (min(hi, span.most) - max(lo, span.least)) / (hi - lo))
        return round(total)

    def _rows(self, paths: list[str], columns: Iterable[str], wanted: pc.Expression | None) -> list[dict[str, Any]]:
        self.opened |= set(paths)
        if not paths:
            return []
        schema, kind = self.schema, ds.ParquetFileFormat()
        files = pa.fs.PyFileSystem(DeltaStorageHandler(self.table.table_uri))
        fragments = [kind.make_fragment(path, filesystem=files) for path in paths]
        known = set(schema.names)
        read = ds.FileSystemDataset(fragments, schema, kind, files).to_table(
            columns=[name for name in dict.fromkeys(columns) if name in known], filter=wanted
        )
        return list(read.to_pylist())


def opened(path: str) -> Lookup | None:
    """The newest version of the table, or None where there is none."""
    table = tables.opened(path)
    return None if table is None else Lookup(table, pa.table(table.get_add_actions(flatten=True)))


def equal(column: str, value: Any) -> pc.Expression:
    """Rows with exactly this value; a null equals nothing."""
    return pc.field(column) == pc.scalar(value)


def all_of(expressions: Iterable[pc.Expression]) -> pc.Expression:
    """Every one of at least one."""
    first, *rest = expressions
    for one in rest:
        first = first & one
    return first


def _possible(files: pa.Table, condition: Condition) -> pa.Array:
    everywhere = pa.array([True] * files.num_rows, pa.bool_())
    if isinstance(condition, Has):
        nulls = _column(files, f"null_count.{condition.column}")
        if nulls is None:
            return everywhere
        found = pc.less(nulls, files["num_records"]) if condition.value else pc.greater(nulls, 0)
        return pc.fill_null(found, True)
    of = condition.column
    least, most = (_column(files, f"{end}.{of}", f"partition.{of}") for end in ("min", "max"))
    if condition.most is not None and least is not None:
        everywhere = pc.and_(everywhere, pc.fill_null(pc.less_equal(least, _as(condition.most, least)), True))
    if condition.least is not None and most is not None:
        least_wanted = condition.least - _TRUNCATED if pa.types.is_timestamp(most.type) else condition.least
        everywhere = pc.and_(everywhere, pc.fill_null(pc.greater_equal(most, _as(least_wanted, most)), True))
    return everywhere


def _column(files: pa.Table, *names: str) -> Any:
    return next((files[name] for name in names if name in files.column_names), None)


def _as(value: Any, like: Any) -> pa.Scalar:
    return pa.scalar(value).cast(like.type)
