"""Rows on their way to the training table: a candidate is written as the training table's rows will be.

joined rows ─▶ candidate_rows ─▶ files of the candidate ─▶ published as they are, if the foreseen number holds
                                                └▶ training_rows ─▶ written again, if it does not
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from windrow.columns import DATE, ELEMENT_TYPES, INTERVAL, PAIRED, PLAN, PUBLICATION, TRAINING_META, TRAINING_TYPES
from windrow.config import Pipeline
from windrow.config.column_types import parse_type
from windrow.outcomes import BadInput

ColumnTypes = Mapping[str, str]
"""Column name → type as Spark spells it, e.g. `array<struct<id:string>>`."""


class LabelNotPublishable(BadInput):
    """A label expression has a type that not every reader knows. The pipeline file must change."""


def types_of(schema: StructType) -> ColumnTypes:
    """Types of a frame's columns, by name."""
    return {field.name: field.dataType.simpleString() for field in schema}


def candidate_rows(rows: DataFrame, pipeline: Pipeline, numbers: Mapping[str, int]) -> DataFrame:
    """Joined rows with their foreseen publication number; `_paired` stays only where it can be false.

    Args:
        numbers: plan id → the publication number that is foreseen for it.
    """
    numbered = rows.withColumn(PUBLICATION, number_of_plan(numbers))
    return numbered if any(stream.join == "inner" for stream in pipeline.right) else numbered.drop(PAIRED)


def training_rows(candidates: DataFrame, numbers: Mapping[str, int]) -> DataFrame:
    """Training rows of candidates: paired rows only, with their publication numbers (plan id → number) and dates.

    Args:
        candidates: candidate rows, unpaired ones too.
        numbers: plan id → publication number, of every plan among the candidates.

    Returns:
        Columns in the order of the training table; unpaired rows are left out.
    """
    added = {PUBLICATION: number_of_plan(numbers), DATE: F.to_date(INTERVAL)}
    paired = candidates.where(F.col(PAIRED))
    return paired.select(*[added.get(c, F.col(c)).alias(c) for c in training_columns(candidates.columns)])


def training_columns(candidate: Iterable[str]) -> list[str]:
    """The training table's columns in their order, from the columns of a candidate."""
    payload = [c for c in candidate if c not in (*TRAINING_META, PLAN, PAIRED) and not c.startswith("_all_")]
    return [*payload, *TRAINING_META]


def number_of_plan(numbers: Mapping[str, int]) -> Column:
    """Publication number of a row's plan.

    >>> rows = spark.sql("select * from values ('a'), ('b') as (_plan)")
    >>> rows.withColumn("_publication", number_of_plan({"a": 7, "b": 8})).show()
    +-----+------------+
    |_plan|_publication|
    +-----+------------+
    |    a|           7|
    |    b|           8|
    +-----+------------+
    <BLANKLINE>
    """
    by_plan = F.create_map(*[F.lit(x) for item in numbers.items() for x in item])
    return F.element_at(by_plan, F.col(PLAN)).cast("bigint")


def refuse_unreadable_labels(types: ColumnTypes, pipeline: Pipeline) -> None:
    """Check that every label has a type that all readers of the training table know.

    Raises:
        LabelNotPublishable: a label has another type.
    """
    for name in pipeline.labels:
        try:
            parse_type(types[name])
        except ValueError as problem:
            raise LabelNotPublishable(
                f"label {name!r} is of type {types[name]}: {problem}. Cast it in `labels:`, e.g. cast(... as double)."
            ) from None


def schema_differences(types: ColumnTypes, pipeline: Pipeline) -> int:
    """Number of columns that the pipeline file promises and that are missing or of another type."""
    elements = {
        stream.name: ",".join(f"{name}:{kind}" for name, kind in {**ELEMENT_TYPES, **stream.columns}.items())
        for stream in pipeline.right
    }
    promised = {
        **pipeline.left.columns,
        **{name: f"array<struct<{fields}>>" for name, fields in elements.items()},
        **TRAINING_TYPES,
    }
    missing = [name for name in pipeline.labels if name not in types]
    return len(missing) + sum(types.get(name) != kind for name, kind in promised.items())
