"""verify: is a publication what its plan makes of the landed rows?

read     plan, pipeline file of its time, landed rows at its pins, the training version that it made
compute  the join again; both sides hashed row by row and column by column, and compared
report   columns, numbers of rows and row ids, never values; nothing is written

Without --publication, --interval and --last it compares the newest publication only.
Rows of keys that were erased since are left out on both sides (rule 22).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import INTERVAL, PAIRED, ROW_ID
from windrow.config import Pipeline
from windrow.home import Home
from windrow.io.landing import erased
from windrow.io.registers import clocks, configs, erasures, publications
from windrow.io.registers.clocks import Observation
from windrow.io.training import inputs, versions
from windrow.jobs.audit.intact import require_intact
from windrow.jobs.options import LastPublications, PipelineName, PublicationNumber, StandingOf
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.spark import spark_for
from windrow.semantics.intervals import at_micros
from windrow.semantics.plan import Plan
from windrow.text import counted, shown_instant
from windrow.transforms.content import (
    ADDED,
    MISSING,
    REPEATED,
    SUMS,
    ContentDiffers,
    compared,
    differs,
    findings,
    hashed,
)
from windrow.transforms.join import join_plans

SHOWN = 20
"""Row ids that are named for a publication that differs."""
AT_ONCE = 50
"""Publications with the same pins that one join rebuilds."""
NEWEST_ONLY = (
    "Only the newest publication was compared; --last N compares the N newest, --interval T the standing one of an "
    "interval."
)
"""What is printed where no option names publications."""


@dataclass(frozen=True)
class Verification:
    """A publication compared with its rebuild."""

    number: int
    interval: datetime
    version: int
    """of the training table, at which its rows were read"""
    rows: int
    content: str
    """hash over the published rows, in any order"""
    different: Mapping[str, int]
    """column or kind of difference → number of rows; empty where both are the same to the byte"""
    row_ids: tuple[str, ...]
    """the first rows that differ"""

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not self.different


def chosen(
    ctx: Context, *, number: int | None = None, at: datetime | None = None, last: int | None = None
) -> list[dict[str, Any]]:
    """Return the register rows of the publications to verify, oldest first.

    Args:
        number: the one with this number.
        at: the standing one of the interval that starts here.
        last: this many of the newest; 1 where no argument is given.
    Raises:
        BadRequest: there is no such publication.
    """
    if sum(value is not None for value in (number, at, last)) > 1:
        raise BadRequest("give one of --publication, --interval and --last")
    publications.repair_if_behind(ctx.home)
    if number is not None:
        found = [publications.of_number(ctx.home, number)]
    elif at is not None:
        found = [publications.published(ctx.home, at)]
    else:
        found = [*publications.newest(ctx.home, last or 1)]
    rows = [row for row in found if row is not None]
    if not rows:
        raise BadRequest(f"no such publication; `windrow publications {ctx.pipeline.name}` lists them")
    return rows


def verify(ctx: Context, rows: Sequence[Mapping[str, Any]]) -> Iterator[Verification]:
    """Compare publications, given by their register rows; those with the same pins and clock share a join.

    Raises:
        BadRequest: the pipeline file has changed since, and the old one is not on record.
        VersionGone: the rows as they were published are not in the table any more.
        CommitsLost, TableDamaged, TrainingBehind: commits or files of a table were lost.
    """
    starts = [row["interval"] for row in rows]
    register = publications.of_intervals(ctx.home, starts, ("number", "interval", "training_version"))
    plans = {row["number"]: Plan.from_json(row["plan"]) for row in rows}
    readable = {row["number"]: (_config_of(ctx, row), versions.version_with(ctx.home, register, row)) for row in rows}
    spark = spark_for(f"verify {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    for _, alike in groupby(rows, key=lambda row: _shared_facts(plans[row["number"]])):
        for group in _without_repeats(alike):
            config, _ = readable[group[0]["number"]]
            read_at = {row["number"]: readable[row["number"]][1] for row in group}
            home = Home(config, ctx.places)
            yield from _compare(spark, home, group, plans, read_at, clocks.observe(home))


def _config_of(ctx: Context, row: Mapping[str, Any]) -> Pipeline:
    found = configs.of_hash(ctx.home, row["config_hash"])
    if found is None:
        raise BadRequest(
            f"publication {row['number']} was made under another pipeline file ({row['config_hash'][:12]}, now "
            f"{ctx.pipeline.config_hash[:12]}), which is not on record: it cannot be made again. Verify it with the "
            "file of that time."
        )
    return found


def _shared_facts(plan: Plan) -> tuple[Any, ...]:
    """Return what plans must have in common to share a join."""
    return tuple(plan.pins.items()), plan.watermark, plan.drained, plan.config_hash


def _without_repeats(rows: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the rows in groups of at most `AT_ONCE`, with one publication per interval in each.

    Two publications of an interval can have the same plan (a rollback has that of its target); in one join their rows
    would count twice.
    """
    groups: list[list[Mapping[str, Any]]] = []
    for row in rows:
        fitting = (g for g in groups if len(g) < AT_ONCE and row["interval"] not in {r["interval"] for r in g})
        group = next(fitting, None)
        if group is None:
            groups.append(group := [])
        group.append(row)
    return groups


def _compare(
    spark: SparkSession,
    home: Home,
    rows: Sequence[Mapping[str, Any]],
    plans: Mapping[int, Plan],
    read_at: Mapping[int, int],
    clock: Observation,
) -> Iterator[Verification]:
    """Read the rows of a group as published and as landed, join the landed ones again, and compare.

    Args:
        rows: register rows with the same pins and clock, one per interval.
        plans: number of the publication → its plan.
        read_at: number of the publication → version of the training table with its rows.
    """
    planned = tuple(sorted((plans[row["number"]] for row in rows), key=lambda plan: plan.interval.start))
    read = inputs.read(spark, home, planned, clock)
    published = reduce(
        lambda one, other: one.unionByName(other, allowMissingColumns=True),
        [versions.intervals_at(spark, home, starts, v) for v, starts in _by_version(rows, read_at).items()],
    )

    left = erasures.remaining(home)
    held = _rows_by_interval(published) if erasures.are_any(home) else {}
    published = erased.published(spark, home, published)
    rebuilt = join_plans(home.pipeline, planned, read).where(F.col(PAIRED))
    both = compared(hashed(published, home.pipeline), hashed(rebuilt, home.pipeline))
    found = findings(both, home.pipeline).withColumn("_at", F.unix_micros(INTERVAL)).drop(INTERVAL)

    try:
        counts = {at_micros(row["_at"]): row.asDict() for row in found.collect()}
        for row in rows:
            counted = counts.get(row["interval"], {})
            ids = _row_ids(both, row["interval"]) if counted.get("_different") else ()
            expected = {row["rows"], left.get(row["number"], row["rows"])}
            yield _outcome(row, read_at[row["number"]], counted, ids, held.get(row["interval"]), expected)
    finally:
        inputs.release(read)


def _by_version(rows: Sequence[Mapping[str, Any]], read_at: Mapping[int, int]) -> dict[int, list[datetime]]:
    """Return version of the training table → starts of the intervals that are read at it."""
    starts: dict[int, list[datetime]] = {}
    for row in rows:
        starts.setdefault(read_at[row["number"]], []).append(row["interval"])
    return starts


def _rows_by_interval(published: DataFrame) -> dict[datetime, int]:
    counts = published.groupBy(F.unix_micros(INTERVAL).alias("at")).count().collect()
    return {at_micros(row["at"]): row["count"] for row in counts}


def _outcome(
    row: Mapping[str, Any],
    version: int,
    counted: Mapping[str, Any],
    ids: tuple[str, ...],
    held: int | None,
    expected: Collection[int],
) -> Verification:
    """Return what the comparison has found.

    Args:
        held: rows of the publication in the version that was read, with those of keys that were erased since; None
            where none are left out.
        expected: how many there may be: as registered, or what an erasure has left.
    """
    rows, content = counted.get("_rows", 0), counted.get("_published") or ""
    different = {name: n for name, n in counted.items() if name not in SUMS and n}
    if (
        rows if held is None else held
    ) not in expected and not different:  # both sides lack the same rows: only the register still knows of them
        different["rows registered"] = row["rows"]
    return Verification(row["number"], row["interval"], version, rows, content, different, ids)


def _row_ids(both: DataFrame, interval: datetime) -> tuple[str, ...]:
    """Return the first rows of an interval that differ, as topic/epoch/partition/offset."""
    found = both.where(differs() & (F.col(INTERVAL) == F.lit(interval))).orderBy(*ROW_ID).limit(SHOWN)
    return tuple("/".join(str(row[name]) for name in ROW_ID) for row in found.select(*ROW_ID).collect())


def described(outcome: Verification) -> str:
    """Return an outcome as a line of text for people.

    Args:
        outcome: with at most a few row ids.
    """
    head = f"publication {outcome.number}, {shown_instant(outcome.interval)}, read at version {outcome.version}: "
    if outcome.is_same:
        return head + f"{counted(outcome.rows, 'row')}, the same to the byte ({outcome.content[:16] or 'empty'})"
    kinds = {MISSING: "not published", ADDED: "published and not made again", REPEATED: "there more than once"}
    parts = [
        f"{counted(n, 'row')} {kinds[name]}" if name in kinds else f"{name} in {counted(n, 'row')}"
        for name, n in outcome.different.items()
    ]
    return head + "DIFFERS: " + ", ".join(parts) + f". First rows: {', '.join(outcome.row_ids) or '-'}"


def refuse_differences(home: Home, outcomes: Sequence[Verification]) -> None:
    """Fail where a publication differs, or where the tables of the pipeline disagree.

    Raises:
        ContentDiffers: describes each that does.
        TablesDisagree: names tables and files.
    """
    if wrong := [described(outcome) for outcome in outcomes if not outcome.is_same]:
        raise ContentDiffers(
            "\n".join(wrong) + "\nThe training table or a landing table was changed by hand, or this version of the "
            "code joins differently. `windrow explain` shows a row; a rebuild makes the interval again."
        )
    require_intact(home)


def execute(
    pipeline: PipelineName,
    publication: PublicationNumber = None,
    interval: StandingOf = None,
    last: LastPublications = None,
) -> Mapping[str, Any]:
    """Compare the chosen publications, print a line for each, and fail if one differs.

    Raises:
        BadRequest: there is no such publication, or more than one choice is given.
        ContentDiffers: a publication is not what its own plan makes.
        TablesDisagree: the tables of the pipeline contradict each other.
    """
    ctx = context(pipeline)
    outcomes = []
    for outcome in verify(ctx, chosen(ctx, number=publication, at=interval, last=last)):
        print(described(outcome), flush=True)
        outcomes.append(outcome)
    if publication is None and interval is None and last is None:
        print(NEWEST_ONLY, flush=True)
    refuse_differences(ctx.home, outcomes)
    return {"verified": [outcome.number for outcome in outcomes], "rows": sum(o.rows for o in outcomes)}


main = job(execute)
