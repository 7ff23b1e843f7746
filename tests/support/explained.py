"""Explain every landed left row, and compare the answer with the tables."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from support.generated import AFTER, BEFORE
from support.world import World
from windrow.jobs.explain.answer import explain
from windrow.jobs.explain.question import Question
from windrow.jobs.run import Context

ROW_ID = ("_topic", "_epoch", "_partition", "_offset")


def row_text(row: dict[str, Any]) -> str:
    return "/".join(str(row[name]) for name in ROW_ID)


def explained(ctx: Context, row: str) -> dict[str, Any]:
    return explain(ctx, Question(row=row))


def explains_rows(world: World, ctx: Context, each: int = 1) -> Counter[str]:
    """Check that state, reason and labels are those of the training table, and that near misses miss by `missed_by`.

    Args:
        each: every row is explained, or every second, third, …

    Returns:
        How often each outcome and each kind of near miss occurred.
    """
    published = {row_text(row): row for row in world.training(ctx)}
    labels = {row_text(row): row for row in world.table(ctx, f"landing/{world.name}.engagements")}
    outcomes: Counter[str] = Counter()
    for row in world.table(ctx, f"landing/{world.name}.served")[::each]:
        found = explained(ctx, row_text(row))
        outcomes[found["outcome"]] += 1
        assert found["agrees"] in (True, None), found
        assert (found["outcome"] == "published") == (row_text(row) in published), found
        if found["outcome"] == "published":
            stands = published[row_text(row)]
            assert (found["label_state"], found["label_reason"]) == (stands["label_state"], stands["label_reason"])
            assert [m["id"] for m in found["streams"]["clicks"]["matched"]] == [row_text(m) for m in stands["clicks"]]
            assert found["agrees"] is True
        if found["outcome"] in ("quarantined", "filtered", "before_start"):
            assert (found["interval"], found["streams"], found["label_state"]) == (None, {}, None)
            continue
        for miss in found["streams"]["clicks"]["near_misses"]:
            outcomes[miss["kind"]] += 1
            _is_a_miss(miss, labels[miss["id"]]["_event_time"], row["_event_time"])
    return outcomes


def _is_a_miss(miss: dict[str, Any], at: datetime, left_at: datetime) -> None:
    if miss["kind"] == "before_window":
        assert at + miss["missed_by"] == left_at - BEFORE
    elif miss["kind"] == "after_window":
        assert at - miss["missed_by"] == left_at + AFTER
    else:
        assert at is None or left_at - BEFORE <= at <= left_at + AFTER
    assert miss["missed_by"] is None or miss["missed_by"] > timedelta(0)
