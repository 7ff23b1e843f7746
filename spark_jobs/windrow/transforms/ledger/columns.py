"""Lines of the late ledger as its table has them: their columns, which of them count, and which are revoked.

The table is append only. A pass that looks at a subject again and finds no difference any more appends an
`as_published` line, which takes the older lines about the subject out of the count and does not count itself.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from windrow.columns import INTERVAL, PUBLICATION, ROW_ID
from windrow.schemas import LATE, spark_ddl, spark_type
from windrow.semantics.ledger import AS_PUBLISHED, CONFIG_CHANGED
from windrow.transforms.ledger.subjects import SUBJECT

DDL = spark_ddl(LATE)
"""Columns of the ledger's table as Spark DDL."""


def as_lines(changes: DataFrame) -> DataFrame:
    """Changes as the columns of `schemas.LATE` without `pass`; a column that the changes lack is null.

    Args:
        changes: any of `_interval`, `_publication`, `_subject`, `_stream`, `_row` and `_gone`, `_appeared`,
            `_vanished` (structs with `at` and `id`; `_gone` is an id), and of the ledger's own columns.
    """
    has = set(changes.columns)
    renamed = {"interval": INTERVAL, "publication": PUBLICATION, "subject": SUBJECT, "stream": "_stream"}
    values = {name: F.col(source) for name, source in renamed.items() if source in has}
    if "_row" in has:
        values |= {"event_time": F.col("_row.at"), **_id_columns("", F.col("_row.id"))}
        values |= _id_columns("gone_", F.col("_gone"))
    for side in ("appeared", "vanished"):
        if f"_{side}" in has:
            values |= {f"{side}_at": F.col(f"_{side}.at"), **_id_columns(f"{side}_", F.col(f"_{side}.id"))}
    values |= {name: F.col(name) for name in LATE.names if name in has}
    fields = [field for field in LATE if field.name != "pass"]
    return changes.select(*[values.get(f.name, F.lit(None)).cast(spark_type(f.type)).alias(f.name) for f in fields])


def _id_columns(prefix: str, row_id: Column) -> dict[str, Column]:
    return {f"{prefix}{name.removeprefix('_')}": row_id[name] for name in ROW_ID}


def counting(ledger: DataFrame, standing: DataFrame) -> DataFrame:
    """The lines that count, of publications of the current config; `reading.counting` states the rule for all configs.

    Args:
        standing: `_interval` and `_publication` of the publications that readers see.

    >>> ledger = spark.sql('''select 0 as interval, * from values (1, 's', 1, 'late_left'), (1, 's', 2, 'late_label'),
    ...     (1, 't', 1, 'late_left'), (1, 't', 2, 'as_published'), (7, 'u', 1, 'late_left')
    ...     as l(publication, subject, pass, kind)''')
    >>> standing = spark.sql("select 0 as _interval, 1 as _publication")
    >>> counting(ledger, standing).show()
    +--------+-----------+-------+----+----------+
    |interval|publication|subject|pass|      kind|
    +--------+-----------+-------+----+----------+
    |       0|          1|      s|   2|late_label|
    +--------+-----------+-------+----+----------+
    <BLANKLINE>
    """
    publications = standing.select(F.col(INTERVAL).alias("interval"), F.col(PUBLICATION).alias("publication"))
    compared = ledger.where(F.col("kind") != CONFIG_CHANGED).join(
        F.broadcast(publications), on=["interval", "publication"], how="left_semi"
    )
    of_subject = Window.partitionBy("interval", "publication", "subject")
    newest = compared.withColumn("_newest", F.max("pass").over(of_subject)).where(F.col("pass") == F.col("_newest"))
    return newest.where(F.col("kind") != AS_PUBLISHED).drop("_newest")


def taken_back(lines: DataFrame, before: DataFrame, scope: DataFrame) -> DataFrame:
    """`as_published` lines for the subjects that were looked at again and differ no longer.

    Args:
        lines: the lines of this pass.
        before: the lines that counted until now.
        scope: `_interval` and `_subject` of what this pass looked at.

    >>> before = spark.sql("select 0 as interval, 1 as publication, explode(array('a', 'b', 'c')) as subject")
    >>> lines = spark.sql("select 0 as interval, 'a' as subject")
    >>> scope = spark.sql("select 0 as _interval, explode(array('a', 'b')) as _subject")
    >>> taken_back(lines, before, scope).select("publication", "kind", "subject").show()
    +-----------+------------+-------+
    |publication|        kind|subject|
    +-----------+------------+-------+
    |          1|as_published|      b|
    +-----------+------------+-------+
    <BLANKLINE>
    """
    on = ["interval", "subject"]
    looked_at = scope.select(F.col(INTERVAL).alias("interval"), F.col(SUBJECT).alias("subject"))
    gone = before.join(looked_at, on=on, how="left_semi").join(lines.select(*on).distinct(), on=on, how="left_anti")
    return as_lines(gone.select(*on, "publication").distinct().withColumn("kind", F.lit(AS_PUBLISHED)))


def with_erased(scope: DataFrame, before: DataFrame) -> DataFrame:
    """Add every subject that has lines to the scope, because after a deletion a subject may have no landed row.

    Args:
        scope: `_interval` and `_subject` of what the pass looked at.
        before: the lines that counted until now.
    """
    known = before.select(F.col("interval").alias(INTERVAL), F.col("subject").alias(SUBJECT))
    return scope.unionByName(known).distinct()
