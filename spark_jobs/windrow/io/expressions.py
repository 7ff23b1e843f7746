"""Check of a pipeline's expressions by Spark's own analysis. The check of their text (`config.sql`) comes before it.

    where, labels ─▶ analysed over the declared columns, without a row ─▶ does it resolve? which type has it?
                  ─▶ every node of the plan ─▶ built in, deterministic, no clock, no text that becomes today's time?
    `pipeline check` ─▶ evaluated on one made-up row ─▶ does a constant, such as a pattern, stop it?

No table is read, and without the last step no Spark job runs: analysis takes a few milliseconds per expression.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.config import Pipeline, PipelineInvalid, Problem
from windrow.config.checks import expressions_of
from windrow.config.column_types import ColumnType, parse_type
from windrow.config.problems import Finding, field_text
from windrow.config.sql import CLOCK_TEXT
from windrow.io.delta.session import schema_of

_BUILT_IN = "org.apache.spark.sql.catalyst."
"""Package of Spark's own expressions; the class of a user's function is elsewhere."""
_CLOCKS = frozenset({"CurrentTimestampLike", "CurrentDate", "CurrentTime", "LocalTimestamp", "CurrentTimeZone"})
"""Current time or zone, which Spark takes as deterministic within one query."""
_TIMES = ("timestamp", "timestamp_ntz", "date")
_LEAF = re.compile(r"(?:^|(?<=[:<,]))\w+(?=[,>(]|$)")
"""Types that hold values, in a type's text: `array<struct<at:timestamp>>` has one."""


def findings(spark: SparkSession, pipeline: Pipeline, *, is_tried: bool = True) -> list[Finding]:
    """Return (field of the pipeline file, message) for each `where` and label that is wrong; empty if none is.

    Args:
        is_tried: whether what is right so far is evaluated on a row, which is a small Spark job per expression.
    """
    found: list[Finding] = []
    with _quiet():
        for one in expressions_of(pipeline):
            problems = list(_problems(spark, one.text, one.columns, one.is_condition))
            if is_tried and not problems:
                problems = list(_stopping(spark, one.text, one.columns))
            found += [(one.where, problem) for problem in problems]
    return found


def require_sound(spark: SparkSession, pipeline: Pipeline) -> None:
    """Refuse a pipeline whose expressions Spark cannot run, or not twice with the same result.

    Raises:
        PipelineInvalid: names every such field; the command `pipeline check` also names its line.
    """
    if found := findings(spark, pipeline, is_tried=False):
        raise PipelineInvalid(None, [Problem(0, field_text(where), message) for where, message in found])


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence PySpark, which logs each failed analysis with plan and trace: the finding has the reason in one line.

    The loggers are asked for as PySpark does it: a plain one under these names could not take its arguments later.
    """
    loggers = [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
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


def _stopping(spark: SparkSession, text: str, columns: dict[str, str]) -> Iterator[str]:
    """Yield why the expression fails on an ordinary row, which the analysis of a pattern or a format does not show."""
    row = spark.range(1).select(*[F.expr(_ordinary(parse_type(kind))).alias(name) for name, kind in columns.items()])
    try:
        row.select(F.expr(text).alias("value")).write.format("noop").mode("overwrite").save()
    except PySparkException as error:
        yield f"stops on a row of ordinary values: {_reason(error)}"
    except Py4JError as error:
        cause = str(getattr(error, "java_exception", error)).splitlines()
        yield f"stops on a row of ordinary values: {' '.join(cause)[:200]}"


def _ordinary(kind: ColumnType) -> str:
    """Return an ordinary value of a type as SQL.

    >>> _ordinary(parse_type("array<struct<a:int,b:string>>"))
    "array(named_struct('a', cast('1' as int), 'b', cast('1' as string)))"
    """
    if kind.name == "array":
        return f"array({_ordinary(kind.inner[0])})"
    if kind.name == "map":
        return f"map({_ordinary(kind.inner[0])}, {_ordinary(kind.inner[1])})"
    if kind.name == "struct":
        fields = [f"'{name}', {_ordinary(inner)}" for name, inner in zip(kind.fields, kind.inner, strict=True)]
        return f"named_struct({', '.join(fields)})"
    text = "2026-11-01" if kind.name in ("date", "timestamp") else "1"
    return f"cast('{text}' as {'boolean' if kind.name == 'boolean' else kind})"


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
        kinds = {kind.getSimpleName() for kind in _ancestors(node.getClass())}
        stack += _each(node.children())
        stack += [node.replacement()] if "RuntimeReplaceable" in kinds else []  # what it is when it runs
        name = node.prettyName()
        if not node.getClass().getName().startswith(_BUILT_IN):
            yield f"{name} is not built into Spark"
        elif not node.deterministic() or kinds & _CLOCKS:
            yield f"{name} returns a different value on every call; use the columns of the row, such as _event_time"
        elif node.getClass().getSimpleName() in ("JsonToStructs", "CsvToStructs") and _reads_times(node):
            yield f"{name} reads 12:30 as today's; give it map('timestampFormat', 'yyyy-MM-dd HH:mm:ss') as options"
        elif node.getClass().getSimpleName() == "ElementAt" and _has_any_index(node):
            yield "element_at() stops the job where the index is 0; write the index as a constant, or use get()"
        elif node.getClass().getSimpleName() == "Cast":
            yield from _todays_time(node)


def _ancestors(kind: Any) -> Iterator[Any]:
    """Yield a Java class, its superclasses, and the interfaces that each of them names."""
    while kind is not None:
        yield kind
        yield from kind.getInterfaces()
        kind = kind.getSuperclass()


def _reads_times(node: Any) -> bool:
    """Return whether a reader of JSON or CSV makes times of texts, without a format."""
    return "timestamp" in _LEAF.findall(node.dataType().catalogString()) and not node.options().contains(
        "timestampFormat"
    )


def _has_any_index(node: Any) -> bool:
    """Return whether the index into an array is computed."""
    return node.left().dataType().typeName() == "array" and not node.right().foldable()


def _todays_time(cast: Any) -> Iterator[str]:
    """Yield why a cast from text to time can depend on the day: the text can be 'now', or 12:30 without a date."""
    child = cast.child()
    of, to = (_LEAF.findall(kind.catalogString()) for kind in (child.dataType(), cast.dataType()))
    if not any(was == "string" and kind in _TIMES for was, kind in zip(of, to, strict=False)):
        return
    if child.foldable():
        value = child.eval(None)
        if value is not None and CLOCK_TEXT.match(str(value)):
            yield "holds a constant that Spark reads as the current time; write the instant itself"
    elif "timestamp" in to:
        yield (
            "makes a time of a text, and Spark reads 12:30 as today's; "
            "use to_timestamp with a format, such as to_timestamp(text, 'yyyy-MM-dd HH:mm:ss')"
        )


def _each(sequence: Any) -> Iterator[Any]:
    """Yield the elements of a Scala sequence."""
    for index in range(sequence.size()):
        yield sequence.apply(index)
