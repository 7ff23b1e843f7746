"""Check of a pipeline's expressions by Spark's own analysis. The check of their text (`config.sql`) comes before it.

    where, labels ─▶ analysed over the declared columns, without a row ─▶ does it resolve? which type has it?
                  ─▶ every node of the plan ─▶ built in, deterministic, no clock, no constant that becomes a time?

No table is read and no Spark job runs: analysis takes a few milliseconds per expression.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.config import Pipeline, PipelineInvalid, Problem
from windrow.config.checks import Finding, expressions_of
from windrow.config.column_types import parse_type
from windrow.config.problems import field_text
from windrow.config.sql import CLOCK_TEXT
from windrow.io.delta.session import schema_of

_BUILT_IN = "org.apache.spark.sql.catalyst."
"""Package of Spark's own expressions; the class of a user's function is elsewhere."""
_TIMES = ("timestamp", "timestamp_ntz", "date")


def findings(spark: SparkSession, pipeline: Pipeline) -> list[Finding]:
    """Return (field of the pipeline file, message) for each `where` and label that is wrong; empty if none is."""
    with _quiet():
        return [
            (expression.where, problem)
            for expression in expressions_of(pipeline)
            for problem in _problems(spark, expression.text, expression.columns, expression.is_condition)
        ]


def require_sound(spark: SparkSession, pipeline: Pipeline) -> None:
    """Refuse a pipeline whose expressions Spark cannot run, or not twice with the same result.

    Raises:
        PipelineInvalid: names every such field; the command `pipeline check` also names its line.
    """
    if found := findings(spark, pipeline):
        raise PipelineInvalid(None, [Problem(0, field_text(where), message) for where, message in found])


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence PySpark, which logs each failed analysis with plan and trace: the finding has the reason in one line."""
    loggers = [logging.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _problems(spark: SparkSession, text: str, columns: dict[str, str], is_condition: bool) -> Iterator[str]:
    """Yield what is wrong with one expression over these columns (name → type)."""
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    try:
        frame = spark.createDataFrame([], schema_of(ddl)).select(F.expr(text).alias("value"))
        kind = frame.schema["value"].dataType.simpleString()
    except AnalysisException as error:
        yield f"does not fit the declared columns: {_reason(error)}"
        return
    except PySparkException as error:
        yield f"is refused by Spark: {_reason(error)}"
        return
    if is_condition and kind not in ("boolean", "void"):
        yield f"is of type {kind}; a condition is true or false, for example `{text} is not null`"
    if not is_condition:
        try:
            parse_type(kind)
        except ValueError as problem:
            yield f"is of type {kind}: {problem}; cast it, for example cast(… as double)"
    yield from dict.fromkeys(_changing(frame))


def _reason(error: PySparkException) -> str:
    """Return the first sentences of Spark's message, without its error class, its plan and its link."""
    text = str(error.getMessage() or error).split(" SQLSTATE:")[0].split("; line ")[0]
    return " ".join(text.partition("] ")[2].split() or text.split())[:400].rstrip(".")


def _changing(frame: DataFrame) -> Iterator[str]:
    """Yield why the value of the frame's only column may be another one at the next reading of the same row."""
    plan = frame._jdf.queryExecution().analyzed()
    stack = list(_each(plan.expressions()))
    while stack:
        node = stack.pop()
        stack += _each(node.children())
        name = node.prettyName()
        if not node.getClass().getName().startswith(_BUILT_IN):
            yield f"{name} is not built into Spark"
        elif not node.deterministic() or _looks_at_a_clock(node):
            yield f"{name} gives another value at every reading; use the columns of the row, such as _event_time"
        elif node.getClass().getSimpleName() == "Cast" and _folds_into_a_time(node):
            yield "holds a constant that Spark reads as the current time; write the instant itself"


def _looks_at_a_clock(node: Any) -> bool:
    """Return whether a node is the current time or zone, which Spark takes as deterministic within one query."""
    kinds = {kind.getSimpleName() for kind in _ancestors(node.getClass())}
    return bool(kinds & {"CurrentTimestampLike", "CurrentDate", "CurrentTime", "LocalTimestamp", "CurrentTimeZone"})


def _ancestors(kind: Any) -> Iterator[Any]:
    """Yield a Java class, its superclasses, and the interfaces that each of them names."""
    while kind is not None:
        yield kind
        yield from kind.getInterfaces()
        kind = kind.getSuperclass()


def _folds_into_a_time(cast: Any) -> bool:
    """Return whether Spark replaces this cast of a constant text, such as 'now', by the time when it plans."""
    child = cast.child()
    if cast.dataType().typeName() not in _TIMES or child.dataType().typeName() != "string" or not child.foldable():
        return False
    value = child.eval(None)
    return value is not None and CLOCK_TEXT.match(str(value)) is not None


def _each(sequence: Any) -> Iterator[Any]:
    """Yield the elements of a Scala sequence."""
    for index in range(sequence.size()):
        yield sequence.apply(index)
