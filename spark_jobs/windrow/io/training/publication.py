"""Publication: a candidate becomes visible in one atomic commit that replaces exactly its interval.

    lock ─▶ look again (fence) ─▶ number n+1 ─▶ one commit to training ─▶ read it back ─▶ register ─▶ unlock

The number is the transaction version of the training table, so it only grows, also when an older interval is
rebuilt. A plan that knows of an older publication than the standing one is refused.

A commit only names the files that come and go: the candidate's own, or those that one Spark job has written for many
intervals before the lock is taken (see `staging`). Where that cannot be (the table's schema grows, or compaction has
put several intervals into one file), Spark writes and replaces the interval itself. The session is a function
throughout: mostly nobody calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import Any

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructField, StructType

from windrow.home import Home, Table
from windrow.io.delta import crash_points, scan, staging, tables
from windrow.io.delta.locks import held
from windrow.io.registers import plans, publications
from windrow.io.training import candidates
from windrow.outcomes import AnotherWriter
from windrow.schemas import DATE, EVENT_TIME, INTERVAL, PAIRED, PLAN, PUBLICATION, TRAINING_META
from windrow.semantics.balance import BalanceBroken
from windrow.semantics.intervals import Interval
from windrow.semantics.plan import Plan

AT_ONCE = 100
"""Intervals whose files one Spark job writes."""


class Superseded(AnotherWriter):
    """The interval was published by somebody else since this plan was made. A new plan is needed."""


Row = dict[str, Any]
Session = Callable[[], SparkSession]


def publish_all(
    spark: Session,
    home: Home,
    planned: Sequence[Plan],
    facts: Mapping[str, Mapping[str, Any]],
    now: Callable[[], datetime],
) -> Iterator[Row | Superseded]:
    """Publish the candidates of the plans, one commit each; yields their register rows, or that somebody was faster.

    Args:
        facts: by plan id: counts, balance, verdict, report and who overrode, as columns of `publications`.
    """
    asked = plans.asked_for(home, planned)
    standing = _Standing(home, [plan.interval.start for plan in planned])
    waiting = list(planned)
    while waiting:
        first = publications.last_number(home) + 1
        numbers = {plan: first + n for n, plan in enumerate(waiting[:AT_ONCE])}
        with ExitStack() as held_files:
            staged = _staged(spark, home, numbers, facts, held_files)
            for plan, number in numbers.items():
                known = {**facts[plan.id], **asked[plan.id]}
                try:
                    row = _publish(spark, home, plan, known, now, standing, staged.get(plan.id))
                except Superseded as refused:
                    waiting.remove(plan)
                    yield refused
                    break
                waiting.remove(plan)
                yield row
                if row["number"] != number:  # somebody else published in between: the rest has other numbers
                    break


def _staged(
    spark: Session,
    home: Home,
    numbers: Mapping[Plan, int],
    facts: Mapping[str, Mapping[str, Any]],
    held_files: ExitStack,
) -> dict[str, staging.Staged]:
    """The files of those plans that have rows, by plan id."""
    filled = {plan: number for plan, number in numbers.items() if facts[plan.id]["rows"]}
    found = _own_files(home, filled)
    if others := {plan: number for plan, number in filled.items() if plan.id not in found}:
        root = home.places.home / "staging" / home.pipeline.name
        rows = _rows(spark(), home, others)
        found |= held_files.enter_context(staging.staged(rows, others, root))
    return found


def _own_files(home: Home, numbers: Mapping[Plan, int]) -> dict[str, staging.Staged]:
    """The files of those candidates that can be published as they are, by plan id."""
    files, columns = candidates.files_of(home, list(numbers))
    published = {name: columns[name] for name in _columns(columns) if name in columns}
    own = (staging.own(plan, number, files[plan.id], published) for plan, number in numbers.items())
    return {staged.plan.id: staged for staged in own if staged}


def _publish(
    spark: Session,
    home: Home,
    plan: Plan,
    facts: Mapping[str, Any],
    now: Callable[[], datetime],
    known: _Standing,
    staged: staging.Staged | None,
) -> Row:
    """Publish the candidate of a plan; returns its register row. A plan that is published is left alone.

    Raises:
        Superseded: the interval has a newer publication than the plan knows.
    """
    crash_points.point("publish.before_lock")
    with held(home.lock(Table.TRAINING)):
        number = publications.repair(home) + 1
        standing = known.of(plan.interval.start, number - 1)
        if standing is not None and standing["plan_id"] == plan.id:
            return standing
        found = standing["number"] if standing is not None else None
        if found != plan.supersedes:
            raise Superseded(
                f"{plan.interval} has publication {found}, but plan {plan.id} was made when it had "
                f"{plan.supersedes}: another run was faster. Nothing was written; clear the run or run the "
                "command again for a new plan."
            )
        row = {
            **facts,
            "number": number,
            "interval": plan.interval.start,
            "interval_end": plan.interval.end,
            "plan": plan.to_json(),
            "plan_id": plan.id,
            "run": plan.run,
            "config_hash": plan.config_hash,
            "published_at": now(),
        }

        if tables.opened(home.table(Table.TRAINING)) is None:
            _create(home)

        def rows() -> DataFrame:
            return _rows(spark(), home, {plan: number})

        row = commit(home, plan.interval, row, rows, staged)
        known.add(row)
        return row


class _Standing:
    """The standing publications of some intervals, read again whenever a number is out that is not known here."""

    def __init__(self, home: Home, starts: Sequence[datetime]) -> None:
        self._read = lambda: publications.standing(publications.of_intervals(home, starts))
        self._rows: dict[datetime, Row] = {}
        self._last: int | None = None

    def of(self, start: datetime, last: int) -> Row | None:
        """The one of an interval, where the newest of all has the number `last`. The caller holds the lock."""
        if last != self._last:
            self._rows, self._last = self._read(), last
        return self._rows.get(start)

    def add(self, row: Row) -> None:
        """What this process has published itself."""
        self._rows[row["interval"]], self._last = row, row["number"]


def commit(
    home: Home,
    interval: Interval,
    row: Row,
    rows: Callable[[], DataFrame],
    staged: staging.Staged | None = None,
) -> Row:
    """Make a publication visible in one commit, and register it. The caller holds the lock and has looked again.

    Args:
        row: of the register, without the training table's version; carried by the commit.
        rows: the training rows, numbered; asked for where `staged` cannot be used.
    Raises:
        BalanceBroken: there are not as many staged rows as the register is to say. Nothing was committed.
    """
    path = home.table(Table.TRAINING)
    crash_points.point("publish.before_commit")
    if not _swap_files(DeltaTable(path), path, interval, row, staged):
        _replace_rows(path, interval, row, rows())
    crash_points.point("publish.after_commit")
    row = {**row, "training_version": _read_back(path, row)}
    publications.register(home, row)
    crash_points.point("publish.after_register")
    return row


def _rows(spark: SparkSession, home: Home, numbers: Mapping[Plan, int]) -> DataFrame:
    """The training rows of some candidates, with their publication numbers."""
    by_plan = F.create_map(*[F.lit(x) for plan, number in numbers.items() for x in (plan.id, number)])
    staged = candidates.of_plans(spark, home, [plan.id for plan in numbers]).where(F.col(PAIRED))
    added = {
        PUBLICATION: F.element_at(by_plan, F.col(PLAN)).cast("bigint"),
        DATE: F.to_date(INTERVAL),
    }
    return staged.select(*[added.get(c, F.col(c)).alias(c) for c in _columns(staged.columns)])


def _columns(candidate: Iterable[str]) -> list[str]:
    """The training table's columns, in its order, by those of a candidate."""
    payload = [c for c in candidate if c not in (*TRAINING_META, PLAN, PAIRED) and not c.startswith("_all_")]
    return [*payload, *TRAINING_META]


def _swap_files(table: DeltaTable, path: str, interval: Interval, row: Row, staged: staging.Staged | None) -> bool:
    """Commit the staged files in place of those of the interval; False where Spark must do it."""
    if (staged.number if staged else 0) != (row["number"] if row["rows"] else 0):
        return False
    going = staging.removals(table, interval, row["published_at"])
    if going is None or (staged and not staging.fits(table, staged.columns)):
        return False
    if staged and staged.rows != row["rows"]:
        raise BalanceBroken(
            f"{interval}: {staged.rows} rows were staged for publication {row['number']}, {row['rows']} were counted. "
            "Nothing was published; run again, and report this if it stays."
        )
    columns = table.metadata().configuration.get("delta.dataSkippingStatsColumns", INTERVAL).split(",")
    coming = staging.additions(path, staged, columns) if staged else []
    table.create_write_transaction(
        [*coming, *going],
        mode="append",
        schema=table.schema(),
        partition_by=[DATE],
        commit_properties=CommitProperties(
            custom_metadata={"userMetadata": publications.to_json(row)},
            app_transactions=[Transaction(publications.APP_ID, row["number"])],
        ),
    )
    return True


def _replace_rows(path: str, interval: Interval, row: Row, rows: DataFrame) -> None:
    start = interval.start
    exactly = f"{DATE} = DATE'{start:%Y-%m-%d}' AND {INTERVAL} = TIMESTAMP'{start:%Y-%m-%d %H:%M:%S.%f}'"
    (
        rows.write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", exactly)
        .option("mergeSchema", "true")
        .option("txnAppId", publications.APP_ID)
        .option("txnVersion", str(row["number"]))
        .option("userMetadata", publications.to_json(row))
        .save(path)
    )


def _read_back(path: str, row: Row) -> int:
    """The version that the commit made; looked up, because Delta skips known versions in silence."""
    last = next(tables.commits(path), None)
    found = publications.from_json(last.message) if last else {}
    if last is None or (found["number"], found["plan_id"]) != (row["number"], row["plan_id"]):
        raise tables.WriteSkipped(
            f"{path}: publication {row['number']} is not the last commit after it was written. Do not trust "
            "this interval; run again, and look for a writer that does not take the lock."
        )
    return last.version


def _has_statistics(kind: str) -> bool:
    """Whether Delta keeps a minimum and a maximum for a column of this type."""
    return kind in ("string", "tinyint", "smallint", "int", "bigint", "date", "timestamp") or kind.startswith("decimal")


def _create(home: Home) -> None:
    """An empty table first: partitioned by UTC date, with statistics where readers filter."""
    candidate = tables.opened(home.table(Table.CANDIDATES))
    assert candidate is not None, "its rows are about to be published"
    known = {field.name: field for field in scan.spark_schema(candidate)}
    fields = [known.get(name, StructField(name, DateType())) for name in _columns(known)]
    key = [key for key in home.pipeline.left.key if _has_statistics(home.pipeline.left.columns[key])]
    DeltaTable.create(
        home.table(Table.TRAINING),
        Schema.from_json(StructType(fields).json()),
        partition_by=[DATE],
        configuration={
            "delta.enableDeletionVectors": "false",
            "delta.dataSkippingStatsColumns": ",".join((INTERVAL, EVENT_TIME, *key)),
            "delta.checkpointInterval": "10",
        },
    )
