"""Expressions of a pipeline file: whatever their quoting, nothing but pure functions of one row is accepted.

Two checks, of which the first needs no Spark: the text against a list (`config.sql`), and Spark's own analysis. Fuzzers
hide forbidden calls, and constants that would become the current time, inside of what is allowed.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.generated import PIPELINE
from windrow.config import PipelineInvalid, parse
from windrow.config.column_types import ColumnType, parse_type
from windrow.config.sql import Scope, problems_of
from windrow.config.sql_functions import AGGREGATES, ALLOWED, GENERATORS, WINDOWS
from windrow.io import expressions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

GRAMMAR_ONLY = {"cast", "try_cast", "timestampdiff", "timestampadd", "extract", "position", "if"}
"""Spark's parser knows them, its register of functions does not have to."""
COLUMNS: dict[str, str] = {
    "a": "int",
    "x": "double",
    "b": "string",
    "t": "timestamp",
    "m": "map<string,int>",
    "xs": "array<double>",
    "clicks": "array<struct<price:double,action:string>>",
}
SCOPE = Scope({name: parse_type(kind) for name, kind in COLUMNS.items()})
FORBIDDEN = (
    "rand()",
    "randn(1)",
    "uuid()",
    "now()",
    "current_timestamp()",
    "current_date()",
    "shuffle(xs)",
    "monotonically_increasing_id()",
    "reflect('java.lang.System', 'getenv', 'HOME')",
    "user()",
    "version()",
    "java_method('java.lang.System', 'nanoTime')",
    "unix_timestamp()",
    "input_file_name()",
    "raise_error('x')",
    "max(a)",
    "explode(xs)",
    "row_number()",
    "current_timezone()",
    "base64(aes_encrypt(b, b))",
    "my_udf(a)",
)
WRAPPINGS = (
    "{0}",
    "({0})",
    "coalesce({0}, null)",
    "cast({0} as string)",
    "transform(xs, e -> {0})[0]",
    "case when a > 1 then {0} end",
    "exists(clicks, c -> c.price > 1 and {0} is not null)",
    "if(a > 1, {0}, {0})",
    "array({0})[0]",
    "aggregate(xs, 0D, (total, e) -> total + e, total -> {0})",
    "{0} = {0}",
    "try_cast({0} as double) + x",
    "map_values(transform_values(m, (k, v) -> {0}))[0]",
    "filter(xs, e -> {0} is null)[0]",
)


IMPURE = {"Nondeterministic", "AggregateFunction", "Generator", "CurrentTimestampLike", "UserDefinedExpression"}


def test_the_lists_are_those_of_spark(spark: Any) -> None:
    """Each allowed function is built in, and is no aggregate, generator, clock or random number."""
    known = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert known >= ALLOWED - GRAMMAR_ONLY
    assert not ALLOWED & (AGGREGATES | GENERATORS | WINDOWS)
    catalog, jvm = spark._jsparkSession.sessionState().catalog(), spark._jvm
    impure = {}
    for name in sorted(ALLOWED & known):
        info = catalog.lookupFunctionInfo(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name))
        kind = jvm.java.lang.Class.forName(info.getClassName())
        if IMPURE & {ancestor.getSimpleName() for ancestor in expressions._ancestors(kind)}:
            impure[name] = info.getClassName()
    assert impure == {}


@st.composite
def disguised(draw: st.DrawFn) -> str:
    """A forbidden call: quoted, qualified, in any case, with blanks, inside of something allowed."""
    call = draw(st.sampled_from(FORBIDDEN))
    name, _, rest = call.partition("(")
    quote = draw(st.sampled_from(("", "`")))
    name = "".join(draw(st.sampled_from((c.lower(), c.upper()))) for c in name)
    qualifier = draw(
        st.sampled_from(("", "", "builtin.", "system.builtin.", "`system`.`builtin`.", "spark_catalog.default."))
    )
    blank = draw(st.sampled_from(("", " ", "\n", "\t ")))
    text = f"{qualifier}{quote}{name}{quote}{blank}({rest}"
    for _ in range(draw(st.integers(0, 3))):
        text = draw(st.sampled_from(WRAPPINGS)).format(text)
    return text


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(disguised())
def test_no_disguise_of_a_forbidden_call_is_accepted(text: str) -> None:
    assert problems_of(text, SCOPE) != []


@st.composite
def clock_text(draw: st.DrawFn) -> str:
    """A constant that Spark would fold into the current time, in one piece or in several."""
    word = draw(st.sampled_from(("now", "TODAY", " tomorrow", "yesterday", "now UTC", "today Europe/Paris")))
    cut, code = draw(st.integers(1, len(word) - 1)), word.encode().hex()
    return draw(
        st.sampled_from(
            (
                f"'{word}'",
                f"concat('{word[:cut]}', '{word[cut:]}')",
                f"'{word[:cut]}' || '{word[cut:]}'",
                f"reverse('{word[::-1]}')",
                f"array('{word}')[0]",
                f"named_struct('n', '{word}').n",
                f"lower('{word}')",
                f"cast(X'{code}' as string)",
                f"if(true, '{word}', 'x')",
                f"decode(unhex('{code}'), 'utf-8')",
                f"element_at(map('k', '{word}'), 'k')",
                f"coalesce(null, '{word}')",
                f"substr('x{word}', 2)",
            )
        )
    )


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    clock_text(),
    st.sampled_from(
        (
            "t > {0}",
            "cast({0} as timestamp) < t",
            "date_add({0}, 1) < t",
            "{0}::date = t",
            "t in ({0}, t)",
            "t between {0} and t",
            "coalesce(t, {0}) = t",
            "datediff(t, {0}) > 1",
            "year({0}) = a",
            "exists(clicks, c -> t < {0})",
            "timestampdiff(SECOND, t, {0}) < 1",
            "to_date({0}) = t",
        )
    ),
)
def test_no_constant_that_becomes_the_current_time_is_accepted(constant: str, use: str) -> None:
    assert problems_of(use.format(constant), SCOPE) != []


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ("clicks > 0", "labels.clicked", "does not fit the declared columns"),
        ("date_add(request_id, user_id) = 1", "labels.clicked", "does not fit the declared columns"),
        ("size(clicks, 1) > 0", "labels.clicked", ""),
        ("interval 5 minutes", "labels.clicked", "is of type interval"),
    ],
)
def test_an_expression_that_does_not_fit_its_types_is_refused_with_its_field(
    spark: Any, change: str, field: str, says: str
) -> None:
    text = PIPELINE.replace('clicked: "size(clicks) > 0"', f'clicked: "{change}"')
    assert text != PIPELINE
    with pytest.raises(PipelineInvalid) as refused:
        expressions.require_sound(spark, parse(text, "generated.yaml"))
    assert field in str(refused.value)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 600, "one line, no plan"


def test_sound_expressions_pass_both_checks(spark: Any) -> None:
    expressions.require_sound(spark, parse(PIPELINE, "generated.yaml"))


@pytest.mark.parametrize(
    "text",
    [
        "`rand`() > 0.5",
        "system.builtin.reflect('java.lang.System', 'getenv', 'HOME') = 'x'",
        "t > 'now'",
        "current_date > t",
        "cast(concat('no', 'w') as timestamp) > t",
        "`current_timestamp` > t",
        "uuid() = b",
    ],
)
def test_sparks_analysis_alone_refuses_what_slipped_past_the_text(spark: Any, text: str) -> None:
    found = list(expressions._problems(spark, text, COLUMNS, is_condition=True))
    assert any("a different value on every call" in one or "current time" in one for one in found), json.dumps(found)


@pytest.mark.parametrize(
    "text",
    [
        "to_timestamp(b) > t",
        "try_cast(b as timestamp) > t",
        "b > t",
        "hour(b) = 1",
        "from_json(b, 'at timestamp').at > t",
        "from_csv(b, 'at timestamp').at > t",
        "size(cast(split(b, ',') as array<timestamp>)) > 0",
    ],
)
def test_a_text_that_spark_would_read_as_a_time_of_today_is_no_time(spark: Any, text: str) -> None:
    found = list(expressions._problems(spark, text, COLUMNS, is_condition=True))
    assert any("12:30 as today's" in one for one in found), json.dumps(found)


@pytest.mark.parametrize(
    "text",
    [
        "to_timestamp(b, 'yyyy-MM-dd HH:mm:ss') > t",
        "cast(b as date) > t",
        "from_json(b, 'at timestamp', map('timestampFormat', 'yyyy-MM-dd')).at > t",
        "cast(a as timestamp) > t",
    ],
)
def test_a_text_with_a_format_is_a_time(spark: Any, text: str) -> None:
    assert list(expressions._problems(spark, text, COLUMNS, is_condition=True)) == []


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("date_format(served_at, 'no pattern') = 'x'", "stops on a row of ordinary values"),
        ("request_id rlike '('", "stops on a row of ordinary values"),
        ("from_utc_timestamp(served_at, 'Europe/Nowhere') is null", "stops on a row of ordinary values"),
        ("element_at(split(request_id, 'a'), cast(user_id as int)) = 'x'", "stops the job where the index is 0"),
    ],
)
def test_a_constant_or_an_index_that_stops_every_job_is_found_before(spark: Any, condition: str, says: str) -> None:
    text = PIPELINE.replace('clicked: "size(clicks) > 0"', f'clicked: "{condition}"')
    assert text != PIPELINE
    [(field, problem)] = expressions.findings(spark, parse(text, "generated.yaml"))
    assert field == ("labels", "clicked")
    assert says in problem
    assert len(problem) < 600
    assert expressions.findings(spark, parse(PIPELINE, "generated.yaml")) == []


def test_the_scope_of_these_tests_is_typed() -> None:
    assert all(isinstance(kind, ColumnType) for kind in SCOPE.columns.values())
