"""verify: is a publication what its plan makes of the landed rows? Joined again at its recorded pins, under the
pipeline file of its time, and compared with the training table's version that it made, column by column.

Nothing is written. What differs is told by column, number of rows and row ids, never by values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.config import Pipeline
from windrow.home import Home
from windrow.io.registers import configs, publications
from windrow.io.training import inputs, versions
from windrow.jobs.options import LastPublications, PipelineName, PublicationNumber, StandingOf
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.spark import spark_for
from windrow.schemas import INTERVAL, PAIRED, ROW_ID
from windrow.semantics.intervals import at_micros
from windrow.semantics.plan import Plan
from windrow.transforms.content import ADDED, MISSING, REPEATED, ContentDiffers, compared, differs, findings, hashed

SHOWN = 20
"""Row ids that a difference names."""
AT_ONCE = 50
"""Publications of the same pins that one join makes again."""


@dataclass(frozen=True)
class Outcome:
    """One publication, compared."""

    number: int
    interval: datetime
    version: int
    """of the training table, as it was read"""
    rows: int
    content: str
    """hash over the published rows"""
    different: Mapping[str, int]
    """column, or kind of difference → number of rows; empty: the same to the byte"""
    row_ids: tuple[str, ...]
    """the first rows that differ"""

    @property
    def is_same(self) -> bool:
        return not self.different


def chosen(
    ctx: Context, *, number: int | None = None, at: datetime | None = None, last: int | None = None
) -> list[dict[str, Any]]:
    """Register rows: one by number, the standing one of an interval, or the last ones that were published.

    Raises:
        BadRequest: there is none, or more than one of the three is given.
    """
    if sum(value is not None for value in (number, at, last)) > 1:
        raise BadRequest("give one of --publication, --interval and --last")
    rows = publications.repaired(ctx.home)
    if number is not None:
        found = [row for row in rows if row["number"] == number]
    elif at is not None:
        found = [row for start, row in publications.standing(rows).items() if start == at]
    else:
        found = rows[-max(1, last or 1) :]
    if not found:
        raise BadRequest(f"no such publication; `windrow publications {ctx.pipeline.name}` lists them")
    return found


def verify(ctx: Context, rows: Sequence[Mapping[str, Any]]) -> Iterator[Outcome]:
    """Compare publications; those of one run are joined at once.

    Raises:
        BadRequest: the pipeline file has changed since, and the old one is not on record.
        versions.VersionGone: the rows as they were published are not there any more.
    """
    register = publications.registered(ctx.home)
    plans = {row["number"]: Plan.from_json(row["plan"]) for row in rows}
    readable = {row["number"]: (_config_of(ctx, row), versions.version_with(ctx.home, register, row)) for row in rows}
    spark = spark_for(f"verify {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    for _, alike in groupby(rows, key=lambda row: _facts(plans[row["number"]])):
        for some in _without_repeats(alike):
            config, _ = readable[some[0]["number"]]
            read_at = {row["number"]: readable[row["number"]][1] for row in some}
            yield from _compare(spark, Home(config, ctx.places), some, plans, read_at)


def _config_of(ctx: Context, row: Mapping[str, Any]) -> Pipeline:
    found = configs.of_hash(ctx.home, row["config_hash"])
    if found is None:
        raise BadRequest(
            f"publication {row['number']} was made under another pipeline file ({row['config_hash'][:12]}, now "
            f"{ctx.pipeline.config_hash[:12]}), which is not on record: it cannot be made again. Verify it with the "
            "file of that time."
        )
    return found


def _facts(plan: Plan) -> tuple[Any, ...]:
    """What plans must share to be joined at once."""
    return tuple(plan.pins.items()), plan.watermark, plan.drained, plan.config_hash


def _without_repeats(rows: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The rows in groups of at most `AT_ONCE` that name an interval once (a rollback has its target's plan)."""
    groups: list[list[Mapping[str, Any]]] = []
    for row in rows:
        fits = (g for g in groups if len(g) < AT_ONCE and row["interval"] not in {r["interval"] for r in g})
        free = next(fits, None)
        if free is None:
            groups.append(free := [])
        free.append(row)
    return groups


def _compare(
    spark: SparkSession,
    home: Home,
    rows: Sequence[Mapping[str, Any]],
    plans: Mapping[int, Plan],
    read_at: Mapping[int, int],
) -> Iterator[Outcome]:
    planned = tuple(sorted((plans[row["number"]] for row in rows), key=lambda plan: plan.interval.start))
    read = inputs.inputs(spark, home, planned)
    made = inputs.joined(home.pipeline, planned, read).where(F.col(PAIRED))
    published = reduce(
        lambda a, b: a.unionByName(b, allowMissingColumns=True),
        [versions.at_version(spark, home, starts, v) for v, starts in _by_version(rows, read_at).items()],
    )
    both = compared(hashed(published, home.pipeline), hashed(made, home.pipeline))
    try:
        found = {at_micros(row["_at"]): row.asDict() for row in _counted(both, home.pipeline).collect()}
        for row in rows:
            seen = found.get(row["interval"], {})
            ids = _row_ids(both, row["interval"]) if seen.get("_different") else ()
            yield _outcome(row, read_at[row["number"]], seen, ids)
    finally:
        read.release()


def _by_version(rows: Sequence[Mapping[str, Any]], read_at: Mapping[int, int]) -> dict[int, list[datetime]]:
    """The intervals that are read at each version."""
    starts: dict[int, list[datetime]] = {}
    for row in rows:
        starts.setdefault(read_at[row["number"]], []).append(row["interval"])
    return starts


def _counted(both: DataFrame, pipeline: Pipeline) -> DataFrame:
    return findings(both, pipeline).withColumn("_at", F.unix_micros(INTERVAL)).drop(INTERVAL)


def _outcome(row: Mapping[str, Any], version: int, seen: Mapping[str, Any], ids: tuple[str, ...]) -> Outcome:
    different = {name: n for name, n in seen.items() if name not in _SUMS and n}
    if seen.get("_rows", 0) != row["rows"] and not different:
        different["rows registered"] = row["rows"]
    return Outcome(
        row["number"], row["interval"], version, seen.get("_rows", 0), seen.get("_published") or "", different, ids
    )


_SUMS = ("_rows", "_different", "_published", "_made", "_at")


def _row_ids(both: DataFrame, interval: datetime) -> tuple[str, ...]:
    found = both.where(differs() & (F.col(INTERVAL) == F.lit(interval))).orderBy(*ROW_ID).limit(SHOWN)
    return tuple("/".join(str(row[name]) for name in ROW_ID) for row in found.select(*ROW_ID).collect())


def told(outcome: Outcome) -> str:
    """One publication, for a person."""
    head = f"publication {outcome.number}, {outcome.interval:%Y-%m-%d %H:%M:%SZ}, version {outcome.version}: "
    if outcome.is_same:
        return head + f"{outcome.rows:,} rows, the same to the byte ({outcome.content[:16] or 'empty'})"
    kinds = {MISSING: "not published", ADDED: "published and not made again", REPEATED: "there more than once"}
    parts = [
        f"{n:,} rows {kinds[name]}" if name in kinds else f"{name} in {n:,} rows"
        for name, n in outcome.different.items()
    ]
    return head + "DIFFERS: " + ", ".join(parts) + f". First rows: {', '.join(outcome.row_ids) or '-'}"


def refuse_differences(outcomes: Sequence[Outcome]) -> None:
    """Raise where anything differs.

    Raises:
        ContentDiffers
    """
    if wrong := [told(outcome) for outcome in outcomes if not outcome.is_same]:
        raise ContentDiffers(
            "\n".join(wrong) + "\nThe training table or a landing table was changed by hand, or this version of the "
            "code joins otherwise. `windrow explain` shows a row; a rebuild makes the interval again."
        )


def execute(
    pipeline: PipelineName,
    publication: PublicationNumber = None,
    interval: StandingOf = None,
    last: LastPublications = None,
) -> Mapping[str, Any]:
    """Compare the chosen publications, print a line for each, and fail if one differs."""
    ctx = context(pipeline)
    outcomes = []
    for outcome in verify(ctx, chosen(ctx, number=publication, at=interval, last=last)):
        print(told(outcome), flush=True)
        outcomes.append(outcome)
    refuse_differences(outcomes)
    return {"verified": [outcome.number for outcome in outcomes], "rows": sum(o.rows for o in outcomes)}


main = job(execute)
