"""Past states of the training table: which version holds a publication's rows, and rows that come back from there.

publication 3 of an interval        publication 8 of it
├── versions with the rows of 3 ───┤├── versions with the rows of 8 ──▶
    compaction in between changes files, not rows; vacuum takes the older versions away
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import DATE, INTERVAL, PUBLICATION
from windrow.home import Home, Table
from windrow.io.delta import staging
from windrow.io.delta.locks import held
from windrow.io.registers import plans, publications
from windrow.io.training import publication
from windrow.outcomes import BadInput
from windrow.semantics.balance import BalanceBroken
from windrow.semantics.intervals import Interval


class VersionGone(BadInput):
    """Rows of an earlier publication were vacuumed, or the log of their version was cleaned. A retry does not help."""


def version_with(home: Home, register: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> int:
    """A version of the training table that holds a publication's rows and can still be read.

    The current one where the publication stands; else the one that it made, or the last before it was replaced.

    Raises:
        VersionGone: there is none.
    """
    path, interval = home.table(Table.TRAINING), Interval(row["interval"], row["interval_end"])
    last = publications.last_version(register, row)
    tries = [DeltaTable(path).version()] if last is None else [row["training_version"], last]
    for version in tries:
        if _is_readable(path, interval, version):
            return version
    raise VersionGone(
        f"the rows of publication {row['number']} of {interval} are not in the training table any more: its versions "
        f"{tries[0]} to {tries[-1]} were vacuumed or their log was cleaned. A rebuild makes the interval anew."
    )


def at_version(spark: SparkSession, home: Home, starts: Sequence[datetime], version: int) -> DataFrame:
    """The training rows of some intervals, as a version of the table has them."""
    table = spark.read.format("delta").option("versionAsOf", version).load(home.table(Table.TRAINING))
    days = sorted({start.date() for start in starts})
    return table.where(F.col(DATE).isin(days) & F.col(INTERVAL).isin([F.lit(start) for start in starts]))


def roll_back(
    spark: SparkSession,
    home: Home,
    interval: Interval,
    number: int,
    why: plans.Asked,
    now: Callable[[], datetime],
) -> publication.Row | None:
    """Publish the rows of an earlier publication of an interval again; None where they stand already.

    Raises:
        LookupError: the interval has no such publication.
        VersionGone: its rows are not there any more.
        BalanceBroken: that version does not hold as many rows as were published.
    """
    with held(home.lock(Table.TRAINING)):
        new = publications.repair(home) + 1
        register = publications.of_intervals(home, [interval.start])
        earlier = next((row for row in register if row["number"] == number), None)
        if earlier is None:
            raise LookupError(f"{interval} has no publication {number}")
        standing = max(register, key=lambda row: row["number"])
        if number in (standing["number"], standing["rolled_back_to"]):
            return None
        version = version_with(home, register, earlier)
        rows = at_version(spark, home, [interval.start], version)
        if (found := rows.count()) != earlier["rows"]:
            raise BalanceBroken(
                f"{interval}: version {version} of the training table holds {found} rows of it, and publication "
                f"{number} had {earlier['rows']}. Nothing was changed; look who wrote to the table."
            )
        row = {
            **{name: value for name, value in earlier.items() if name != "training_version"},
            "number": new,
            "run": f"rollback__{new}",
            "kind": "rollback",
            "reason": why.reason,
            "asked_by": why.who,
            "rolled_back_to": number,
            "published_at": now(),
        }
        numbered = rows.withColumn(PUBLICATION, F.lit(new).cast("bigint"))
        return publication.commit(home, interval, row, lambda: numbered)


def _is_readable(path: str, interval: Interval, version: int) -> bool:
    try:
        table = DeltaTable(path, version=version)
        return all((Path(path) / file["path"]).exists() for file in staging.files_with(table, interval))
    except DeltaError:
        return False
