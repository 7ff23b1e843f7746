"""`where` without Spark: judged as SQL does, or not judged at all."""

from __future__ import annotations

from typing import Any

import pytest

from windrow.config.conditions import columns_in, predicate

COLUMNS = {
    "action": "string",
    "n": "bigint",
    "x": "double",
    "bot": "boolean",
    "at": "timestamp",
    "tags": "array<string>",
}


@pytest.mark.parametrize(
    ("text", "row", "truth"),
    [
        ("action = 'click'", {"action": "click"}, True),
        ("action = 'click'", {"action": "Click"}, False),
        ("action = 'click'", {"action": None}, None),
        ("ACTION <> 'click'", {"action": None}, None),
        ("action in ('click', 'like')", {"action": "like"}, True),
        ("action in ('click', null)", {"action": "view"}, None),
        ("action not in ('click', 'like')", {"action": "view"}, True),
        ("n between 1 and 3", {"n": 3}, True),
        ("n between 1 and 3", {"n": 4}, False),
        ("n >= -1 and x < 0.5", {"n": -1, "x": 0.25}, True),
        ("x = 0.1", {"x": 0.1}, True),
        ("not bot", {"bot": None}, None),
        ("bot or action = 'click'", {"bot": None, "action": "click"}, True),
        ("bot and action = 'click'", {"bot": None, "action": "view"}, False),
        ("bot and action = 'click'", {"bot": None, "action": "click"}, None),
        ("at is not null", {"at": None}, False),
        ("tags is null", {}, True),
        ("(n = 1 or n = 2) and not (n = 2)", {"n": 2}, False),
    ],
)
def test_simple_conditions_are_judged_as_sql_judges_them(text: str, row: dict[str, Any], truth: bool | None) -> None:
    judge = predicate(text, COLUMNS)
    assert judge is not None
    assert judge(row) is truth


@pytest.mark.parametrize(
    "text",
    [
        "lower(action) = 'click'",
        "n = '1'",
        "action = 1",
        "n + 1 = 2",
        "at > '2026-11-01'",
        "tags[0] = 'a'",
        "action like 'cl%'",
        "action <=> 'click'",
        "unknown = 1",
        "n",
        "x = 1e3",
        "case when bot then true end",
    ],
)
def test_what_only_spark_can_judge_is_not_guessed(text: str) -> None:
    assert predicate(text, COLUMNS) is None


def test_the_columns_of_a_condition_are_known_even_where_it_cannot_be_judged() -> None:
    assert columns_in("lower(Action) = 'click' and n > 1") == {"action", "n"}
