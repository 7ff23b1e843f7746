"""Past states of the training table: which version holds a publication's rows, and the rows of a version.

publication 3 of an interval        publication 8 of it
├── versions with the rows of 3 ───┤├── versions with the rows of 8 ──▶
    compaction in between changes files, not rows; vacuum deletes the files of old versions
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import DATE, INTERVAL
from windrow.home import Home, Table
from windrow.io.delta import staging, store, tables
from windrow.io.registers import publications
from windrow.outcomes import BadInput
from windrow.semantics.intervals import Interval


class VersionGone(BadInput):
    """Rows of an earlier publication were vacuumed, or the log of their version was cleaned. A retry does not help."""


def version_with(home: Home, register: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> int:
    """Return a version of the training table that holds a publication's rows and can still be read.

    It is the current one where the publication stands; otherwise the one that it made, or the last before it was
    replaced.

    Args:
        register: register rows, at least those of the publication's interval.
        row: the publication.
    Raises:
        VersionGone: there is no such version.
    """
    path, interval = home.table(Table.TRAINING), Interval(row["interval"], row["interval_end"])
    last = publications.last_version(register, row)
    tries = [tables.at(path).version()] if last is None else [row["training_version"], last]
    for version in tries:
        if _is_readable(path, interval, version):
            return version
    raise VersionGone(
        f"the rows of publication {row['number']} of {interval} are not in the training table any more: its versions "
        f"{tries[0]} to {tries[-1]} were vacuumed or their log was cleaned. A rebuild makes the interval anew."
    )


def training_at(spark: SparkSession, home: Home, version: int) -> DataFrame:
    """Return all training rows, as a version of the table has them.

    Args:
        version: one that the log still has.
    """
    return spark.read.format("delta").option("versionAsOf", version).load(home.table(Table.TRAINING))


def intervals_at(spark: SparkSession, home: Home, starts: Sequence[datetime], version: int) -> DataFrame:
    """Return training rows of the intervals with these starts, as a version of the table has them.

    Args:
        starts: at least one.
        version: of the training table.

    Returns:
        The columns of that version, rows in no order.
    """
    days = sorted({start.date() for start in starts})
    rows = training_at(spark, home, version)
    return rows.where(F.col(DATE).isin(days) & F.col(INTERVAL).isin([F.lit(start) for start in starts]))


def _is_readable(path: str, interval: Interval, version: int) -> bool:
    """Return whether the log has this version, and every file that can hold rows of the interval is there."""
    try:
        table = tables.at(path, version)
        return not store.missing(path, [file["path"] for file in staging.files_with(table, interval)])
    except DeltaError:
        return False
