"""The erased keys of a pipeline as Spark joins them, read from the register; None where no key was ever erased."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.home import Home, Table
from windrow.io.delta import scan
from windrow.io.delta.session import frame_of
from windrow.io.registers import erasures
from windrow.semantics.erasure.keys import pads
from windrow.transforms.erased import ErasedKeys, marked, training_ways, without_erased


def published(spark: SparkSession, home: Home, rows: DataFrame) -> DataFrame:
    """Return training rows, of any version of the table, as they stand without the keys that were erased since."""
    keys = keys_of(spark, home)
    return (
        rows if keys is None else without_erased(marked(rows, keys, training_ways(home.pipeline, keys)), home.pipeline)
    )


def keys_of(spark: SparkSession, home: Home) -> ErasedKeys | None:
    """Return the hashes of the erased keys, and the secret with which others are compared with them.

    Raises:
        SecretLost: keys were erased, and their secret is gone.
    """
    known = erasures.known(home)
    if known is None:
        return None
    table = scan.rows(spark, home.table(Table.ERASURES), ())
    assert table is not None, "its rows were just read"
    rows = table.where(F.col("kind") == erasures.KEY)

    def of(columns: tuple[str, ...]) -> DataFrame:
        mine = rows.where(F.col("columns") == json.dumps(list(columns)))
        # two runs at once may record one hash twice; a row joined twice would be two rows
        return mine.groupBy(F.col("hash").alias("_hash")).agg(F.min("mode").alias("_mode"))

    hashes = {columns: of(columns) for columns in known.column_lists}
    return ErasedKeys(hashes, frame_of(spark, [pads(known.secret)], "_inner binary, _outer binary"))
