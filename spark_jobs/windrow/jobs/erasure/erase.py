"""erase: rows of asked keys leave every table, and no later landing, join or rebuild brings them back (rule 22).

    read        the keys, once: only their hashes are kept
    tombstones  recorded first: from here on every landing and every join leaves the keys out
    landing     their records lose payload and raw bytes, also the quarantined
                originals of reconsidered ones                                      (lock `landing`)
    candidates  those that hold them are discarded, and their plans not published   (lock `candidates`)
    training    their rows leave, or lose their payload                             (lock `training`)
    report      what was erased where, and what remains until when; without a key
    ledger      made anew: a pass between two steps took rows that left later for published ones

Every step looks for all keys that were ever erased. A run that is killed is finished by the next one, with the same
keys or with none. The bytes are gone after the next vacuum that is older than its retention.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import INTERVAL, LANDING_META, PLAN, PUBLICATION, ROW_ID, TRAINING_STATISTICS
from windrow.home import Home, Table
from windrow.io.delta import crash_points, scan, store, tables
from windrow.io.delta.locks import held
from windrow.io.delta.staging import remove_abandoned
from windrow.io.landing import batches, erased
from windrow.io.registers import erasures, exports, publications, snapshots
from windrow.io.training import candidates, rewriting
from windrow.jobs.decision import noted
from windrow.jobs.erasure import report
from windrow.jobs.erasure.asked import erasable, hashes_of
from windrow.jobs.erasure.options import Keys, KeysFile, Why
from windrow.jobs.ledger import extend_after_publication
from windrow.jobs.options import PipelineName, RunKey, Who
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.spark import spark_for
from windrow.semantics.erasure.keys import columns_in
from windrow.semantics.intervals import at_micros
from windrow.semantics.maintenance import RETENTION
from windrow.text import instant_text
from windrow.transforms.erased import (
    MODE,
    ErasedKeys,
    emptied,
    landing_ways,
    marked,
    marked_landing,
    matches_of_erased,
    originals_of_erased,
    training_ways,
    unsearchable,
    without_erased,
)


def erase(
    ctx: Context, run: str, keys: Iterable[str] = (), file: str | None = None, *, who: str, why: str | None = None
) -> dict[str, Any]:
    """Erase keys, and return what was done as the report has it.

    Args:
        run: name of this erasure.
        keys, file: as for `asked.hashes_of`; without any, what was erased before is looked for again.
    Raises:
        BadRequest: the pipeline file names no columns, or a key does not fit them. Nothing was erased.
        SecretLost: the secret of earlier erasures is gone.
        Locked: another process holds a table.
    """
    home = ctx.home
    rule = erasable(ctx.pipeline)
    secret = erasures.made_secret(home)
    hashes = hashes_of(ctx.pipeline, secret, list(keys), file)
    if not hashes and not erasures.are_any(home):
        raise BadRequest("no key was given, and none was ever erased: --key user_id=7, or --keys-file PATH")
    spark = spark_for(f"erase {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    remove_abandoned(ctx.places.staging(ctx.pipeline.name))
    with held(home.lock(Table.LANDING)):
        fresh = erasures.add_keys(home, run, hashes, rule.by, rule.mode, who=who, why=why, now=ctx.now(), secret=secret)
        erasures.note_holders(home, erasures.unnoted_holders(home), ctx.now(), run)
        crash_points.point("erase.after_keys")
        begun = erasures.unfinished(home)  # of these, and no later ones, this run looks for the keys
        found = erased.keys_of(spark, home)
        assert found is not None, "keys were recorded, now or before"
        landed = {topic: _empty_landing(spark, home, run, topic, found) for topic in ctx.pipeline.topics}
        crash_points.point("erase.after_landing")
    gone = _discard_candidates(spark, home, run, found, ctx.now())
    crash_points.point("erase.after_candidates")
    left = _erase_training(spark, home, run, found, ctx.now())
    crash_points.point("erase.after_training")
    tables.fence(home.table(Table.SNAPSHOTS), f"erasure {run}")  # a snapshot that has looked at the rows before
    done: dict[str, Any] = {
        "erasure": run,
        "pipeline": ctx.pipeline.name,
        "at": ctx.now(),
        "asked_by": who,
        "columns": list(rule.by),
        "mode": rule.mode,
        "keys": len(hashes),
        "new_keys": fresh,
        "landing": landed,
        "candidates": len(gone),
        "training": left,
        "other_rows": _in_other_rows(spark, home, found),
        "snapshots": _snapshots_with(spark, home, found),
        "exports": exports.listed(home),
        "not_covered": [s.name for s in ctx.pipeline.streams if columns_in(s, ctx.pipeline.left, rule.by) is None],
        "unknown_tables": _unknown_tables(home),
        "gone_after": ctx.now() + RETENTION,
        "retention_days": RETENTION.days,
    }
    page = report.write(done, home.reports)
    extend_after_publication(ctx, everything=True)
    erasures.finish(home, begun if erasures.are_covered(home) else {*begun} & {run}, ctx.now())
    return {**done, "report": str(page)}


def _empty_landing(spark: SparkSession, home: Home, run: str, topic: str, keys: ErasedKeys) -> dict[str, int]:
    """Take payload and raw bytes from the landed records of erased keys; the caller holds the landing lock.

    Returns:
        `rows` that were emptied, and `unsearchable`: records with bytes in which a key could not be read.
    """
    path = home.landing(topic)
    tables.fence(path, f"erasure {run}")  # a landing that has read the keys before, and has not committed yet
    rows = rewriting.table_rows(spark, path)
    if rows is None:
        return {"rows": 0, "unsearchable": 0}
    originals = originals_of_erased(rows, home.pipeline, topic, keys)
    every = marked_landing(rows, home.pipeline, topic, keys, originals)
    hidden = unsearchable(every, landing_ways(home.pipeline, topic, keys)).count()
    held_rows = rewriting.held_in(every.where(F.col(MODE).isNotNull()), F.lit(False))
    change = partial(emptied, pipeline=home.pipeline, topic=topic, keys=keys, originals=originals)
    rewriting.write_again(spark, home, path, held_rows, change, LANDING_META, _host_now(), batches.erasure_message())
    return {"rows": sum(one.rows for one in held_rows), "unsearchable": hidden}


def _unknown_tables(home: Home) -> list[str]:
    """Return the landing tables of topics that left the pipeline file; which columns hold a key is not known."""
    known = set(home.pipeline.topics)
    return [name for name in store.folders(home.table(Table.LANDING)) if name not in known]


def _discard_candidates(spark: SparkSession, home: Home, run: str, keys: ErasedKeys, now: datetime) -> list[str]:
    """Discard the candidates that hold rows of erased keys; return the ids of their plans.

    The lock is taken for the look, so that a join that began before the keys were recorded has ended; one that slept
    and does not know that it has lost the lock cannot commit.
    """
    with held(home.lock(Table.CANDIDATES)):
        tables.fence(home.table(Table.CANDIDATES), f"erasure {run}")
        rows = rewriting.table_rows(spark, home.table(Table.CANDIDATES))
        if rows is None:
            return []
        plan_ids = [row[PLAN] for row in _with_key(rows, home, keys, PLAN).distinct().collect()]
        erasures.add_candidates(home, run, plan_ids, now)
    candidates.discard(home, plan_ids)
    return sorted(plan_ids)


def _erase_training(spark: SparkSession, home: Home, run: str, keys: ErasedKeys, now: datetime) -> dict[str, int]:
    """Take the rows of erased keys out of the training table; return how many, and of how many intervals."""
    with held(home.lock(Table.TRAINING)):
        path = home.table(Table.TRAINING)
        tables.fence(path, f"erasure {run}")  # a publication that has asked before which candidates were discarded
        rows = rewriting.table_rows(spark, path)
        if rows is None:
            return {"rows": 0, "intervals": 0}
        publications.repair(home)
        ways, leaves = training_ways(home.pipeline, keys), F.col(MODE) == "delete"

        def without(some: DataFrame) -> DataFrame:
            return without_erased(marked(some, keys, ways), home.pipeline)

        every = marked(rows, keys, ways)
        by = every.groupBy(PUBLICATION, F.unix_micros(INTERVAL).alias("at")).agg(
            F.count_if(F.col(MODE).isNotNull()).alias("rows"),
            F.count_if(~F.coalesce(leaves, F.lit(False))).alias("staying"),
        )
        counts = by.where(F.col("rows") > 0).collect()
        # before the rows leave: a run that is killed in between has recorded what the table will hold
        staying = [
            {"publication": row[PUBLICATION], "interval": at_micros(row["at"]), "rows": row["staying"]}
            for row in counts
        ]
        erasures.add_publications(home, run, staying, now)
        crash_points.point("erase.before_training")
        held_rows = rewriting.held_in(every.where(F.col(MODE).isNotNull()), leaves)
        rewriting.write_again(spark, home, path, held_rows, without, TRAINING_STATISTICS, _host_now())
        return {"rows": sum(row["rows"] for row in counts), "intervals": len({row["at"] for row in counts})}


def _in_other_rows(spark: SparkSession, home: Home, keys: ErasedKeys) -> dict[str, int]:
    """Return interval start → rows of other keys that have a match of an erased key, until they are rebuilt."""
    rows = rewriting.table_rows(spark, home.table(Table.TRAINING))
    found = None if rows is None else matches_of_erased(rows, home.pipeline, keys, INTERVAL, *ROW_ID)
    if found is None:
        return {}
    counts = found.distinct().groupBy(F.unix_micros(INTERVAL).alias("at")).count().collect()
    return {instant_text(at_micros(row["at"])): row["count"] for row in sorted(counts, key=lambda row: row["at"])}


def _snapshots_with(spark: SparkSession, home: Home, keys: ErasedKeys) -> dict[str, int]:
    """Return name → rows of erased keys, of the snapshots that hold some; deleting a snapshot ends that."""
    counts = {}
    for one in snapshots.kept(home):
        files = snapshots.files_of(home, one.name)
        if files.files:
            paths = [file.path for file in files.files]
            rows = scan.rows_of_files(spark, files.path, scan.schema_of(files.columns), paths)
            if found := _with_key(rows, home, keys, *ROW_ID).distinct().count():
                counts[one.name] = found
    return counts


def _with_key(rows: DataFrame, home: Home, keys: ErasedKeys, *columns: str) -> DataFrame:
    """Return these columns of training or candidate rows that have an erased key, or a match of one."""
    found = _found(rows, keys, training_ways(home.pipeline, keys)).select(*columns)
    others = matches_of_erased(rows, home.pipeline, keys, *columns)
    return found if others is None else found.unionByName(others)


def _found(rows: DataFrame, keys: ErasedKeys, ways: Mapping[tuple[str, ...], Any]) -> DataFrame:
    return marked(rows, keys, ways).where(F.col(MODE).isNotNull())


def _host_now() -> datetime:
    """Return the time of the host, even where `ctx.now` is another clock: vacuum compares with the host's alone."""
    return datetime.now(UTC)


def execute(
    pipeline: PipelineName,
    run: RunKey,
    key: Keys = None,
    keys_file: KeysFile = None,
    why: Why = "",
    who: Who = None,
) -> Mapping[str, Any]:
    """Erase the keys, and return the report."""
    user, reason = noted(why, who)
    return erase(context(pipeline), run, key or (), keys_file, who=user, why=reason)


main = job(execute)
