"""Parquet files of a Delta table: what their footers tell, and the log entries that add or remove a file.

    file ─▶ footer (one read) ─▶ rows, columns, nulls by column
                              └▶ Delta's statistics: bounds that may be too wide and never too narrow

A footer is read once. Nothing here reads rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq
from deltalake.transaction import AddAction, RemoveAction

from windrow.columns import DATE
from windrow.io.delta import damage, store
from windrow.semantics.intervals import MICROSECOND, micros
from windrow.text import instant_text

_LONGEST_TEXT = 32
"""Characters of a text in the statistics; a longer one has its beginning as bound."""
_LAST = "\U0010ffff"
"""The last character that a text can have."""


@dataclass(frozen=True)
class DataFile:
    """A Parquet file with its footer."""

    path: str
    """location"""
    footer: pq.FileMetaData

    @classmethod
    def read(cls, path: str) -> DataFile:
        """Read the footer of the file at `path`.

        Raises:
            TableDamaged: it is missing or cut.
        """
        with damage.named(path):
            return cls(path, store.footer(path))

    @property
    def name(self) -> str:
        """The last part of its location, without the `part-` that all have."""
        return self.path.rsplit("/", 1)[1].removeprefix("part-")

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.footer.num_rows)

    @property
    def columns(self) -> list[str]:
        """Names of the top-level columns."""
        return list(self.footer.schema.to_arrow_schema().names)

    @property
    def null_counts(self) -> dict[str, int]:
        """Number of nulls by top-level column; a column is left out where the footer does not give its exact number."""
        names = self.columns
        groups = [group for group in self._groups if group.num_rows]
        counts: dict[str, int] = {}
        uncertain: set[str] = set()
        for leaf in range(self.footer.num_columns):
            path = self.footer.schema.column(leaf).path
            # a name may contain dots itself, so a leaf belongs to the longest column name that its path begins with
            name = path if path in names else max((n for n in names if path.startswith(f"{n}.")), key=len, default=path)
            statistics = [group.column(leaf).statistics for group in groups]
            if any(part is None or not part.has_null_count for part in statistics):
                uncertain.add(name)
                continue
            count = sum(part.null_count for part in statistics)
            if path != name and count:  # a nested leaf counts empty lists and inner nulls too: only zero is certain
                uncertain.add(name)
            counts[name] = max(count, counts.get(name, 0))
        return {name: count for name, count in counts.items() if name not in uncertain}

    def statistics(self, columns: Sequence[str]) -> dict[str, Any]:
        """Return Delta's statistics of these columns, as a log entry holds them.

        A column is left out where a row group has no statistics of it.

        Args:
            columns: names; one that the file lacks is left out.

        Returns:
            `numRecords`, and by column `minValues`, `maxValues` and `nullCount`.
        """
        leaves = {self.footer.schema.column(i).path: i for i in range(self.footer.num_columns)}
        least: dict[str, Any] = {}
        greatest: dict[str, Any] = {}
        nulls: dict[str, int] = {}
        for name in columns:
            parts = [group.column(leaves[name]).statistics for group in self._groups] if name in leaves else []
            if not parts or any(part is None or not part.has_null_count for part in parts):
                continue
            nulls[name] = sum(part.null_count for part in parts)
            bounds = [(part.min, part.max) for part in parts if part.has_min_max]
            # every row group with values must have bounds, or a reader would skip rows of the one that has none
            if bounds and len(bounds) == sum(part.num_values > 0 for part in parts):
                low, high = _bound(min(b[0] for b in bounds), up=False), _bound(max(b[1] for b in bounds), up=True)
                if low is not None and high is not None:
                    least[name], greatest[name] = low, high
        return {"numRecords": self.rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}

    @property
    def _groups(self) -> list[Any]:
        return [self.footer.row_group(g) for g in range(self.footer.num_row_groups)]


def add_action(
    path: str,
    name: str,
    footer: DataFile,
    columns: Sequence[str],
    value: str | None,
    *,
    by: str = DATE,
    data_change: bool = True,
) -> AddAction:
    """Return the log entry that adds the file `name`, which is already in the folder of the table.

    Args:
        path: location of the table.
        footer: the same file, read under this or another path; its statistics of `columns` go into the entry.
        value: of the partition column `by`, where the table has one.
        data_change: false where the rows were in the table before (compaction).
    """
    file = store.stat(f"{path}/{name}")
    assert file is not None, "it was given this name just now"
    known = json.dumps(footer.statistics(columns), separators=(",", ":"))
    return AddAction(name, file.size, _partition(value, by), micros(file.modified) // 1000, data_change, known)


def remove_action(name: str, size: int, day: str | None, at: datetime, *, data_change: bool = True) -> RemoveAction:
    """Return the log entry that removes a file.

    Args:
        size: bytes of the file.
        day: value of the partition column, where the table has one.
        at: when the file leaves the table; vacuum counts its retention from here.
        data_change: false where its rows stay in the table (compaction).
    """
    return RemoveAction(name, data_change, micros(at) // 1000, size, _partition(day))


def _partition(value: str | None, by: str = DATE) -> dict[str, str | None]:
    return {by: value} if value else {}


def _bound_of_text(value: str, *, up: bool) -> str | None:
    """Return a bound of a text with few characters: its beginning, followed by the last character for an upper one."""
    if len(value) <= _LONGEST_TEXT:
        return value
    begin = value[:_LONGEST_TEXT]
    if not up:
        return begin
    return begin + _LAST if value[_LONGEST_TEXT] < _LAST else None


def _bound(value: Any, *, up: bool) -> Any:
    """Return a bound as Delta's log writes it, None where the value gives none.

    Instants are rounded to milliseconds: up for an upper bound, down for a lower one, so that no row is outside.
    """
    if isinstance(value, datetime):
        at = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        floor = at - at.microsecond % 1000 * MICROSECOND
        at = floor + timedelta(milliseconds=1) if up and floor < at else floor
        return instant_text(at).replace("000Z", "Z")
    if isinstance(value, str):
        return _bound_of_text(value, up=up)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else None
