"""What lands after a publication: a label, a left row, a retry with a lesser row id, all in one batch.

A rebuild of the interval repairs exactly that, and a reader who reads all the time sees whole intervals only.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from support.broken.faults import LANDED_AT, Reader, check_against_oracle, landed_history, prepared
from support.explained import explained, explains_rows, row_text
from support.generated import INTERVAL, START
from support.oracle import expected
from support.world import World, content
from windrow.io.registers import measures, publications
from windrow.jobs.rebuild import rebuild
from windrow.jobs.run import Context
from windrow.semantics.plan import Plan

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
BEGIN, END = START, START + INTERVAL
"""What is rebuilt: the first interval."""


def served(partition: int, at: datetime, key: int, request_id: str, score: float = 0.5) -> Any:
    value = {
        "request_id": request_id,
        "user_id": key,
        "item_id": 1,
        "served_at": stamp(at),
        "score": score,
        "features": [1.0],
    }
    return ("served", partition, json.dumps(value).encode(), at)


def click(partition: int, at: datetime, key: int, event_id: str) -> Any:
    value = {"event_id": event_id, "user_id": key, "item_id": 1, "action": "click", "engaged_at": stamp(at)}
    return ("engagements", partition, json.dumps(value).encode(), at)


def stamp(at: datetime) -> str:
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def test_a_rebuild_repairs_exactly_what_came_late_and_readers_see_whole_intervals(world: World) -> None:
    two = START + 2 * MINUTE
    first = [
        served(1, two, 77, "negative"),  # its label and its neighbour come late
        served(1, two, 78, "winner"),  # at another partition, time and payload it comes again
        served(1, two + INTERVAL, 77, "next interval"),
        click(1, two + 30 * SECOND, 78, "click"),
    ]
    ctx, _ = prepared(world, 16, first)
    late = [
        served(0, two + 10 * SECOND, 77, "late left"),
        click(0, two + SECOND, 77, "late label"),
        served(0, two, 78, "winner", score=0.25),  # a lesser row id: it wins
        served(0, two + SECOND, 78, "winner"),  # another time: a row of its own
        click(2, two + 31 * SECOND, 78, "click"),  # the same id at another time: another label
    ]
    path = world.places.table(ctx.pipeline.name, "training")
    reader = Reader(path)
    with reader.reading():
        world.land(ctx)
        world.train(ctx)
        before = world.training(ctx)
        world.produce(late)
        world.land(ctx)
        explained_rows = late_is_explained(ctx, before)
        rebuild(ctx, "repair", BEGIN, END, lambda row: None)
    register = world.register(ctx)
    reader.saw_whole_intervals(register)
    assert len({numbers for interval, numbers, _ in reader.seen if interval == BEGIN}) == 2  # old, then new

    after = world.training(ctx)
    check_against_oracle(world, ctx)
    last = max(row["number"] for row in register)
    assert [row["number"] for row in register if row["interval"] == BEGIN][-1] == last
    untouched = [row for row in before if row["_interval"] != BEGIN]
    assert [row for row in after if row["_interval"] != BEGIN] == untouched  # to the publication number
    assert changes(before, after) == {
        "late left": ("came", 1),
        "negative": ("changed", 1),
        "winner": ("came twice, left once", 2),
    }
    conflicts_are_counted(world, ctx)
    for row_id in explained_rows:
        assert explained(ctx, row_id)["outcome"] in ("published", "duplicate")
    explains_rows(world, ctx)


def late_is_explained(ctx: Context, before: list[dict[str, Any]]) -> list[str]:
    """Before the rebuild: explain what the published row lacks and where the late rows stand; return their row ids."""
    rows = {row["request_id"]: row for row in before}
    result = explained(ctx, row_text(rows["negative"]))
    assert (result["label_state"], result["agrees"]) == ("negative", True)
    (miss,) = result["streams"]["clicks"]["near_misses"]
    assert (miss["kind"], miss["batches"]) == ("late", 1)
    assert miss["missed_by"] > timedelta(0)  # the clock was beyond the closing before the batch began
    ids = [miss_of(ctx, name, "late_left") for name in ("late left",)]
    assert explained(ctx, row_text(rows["winner"]))["outcome"] == "published"
    return [row_text(rows["negative"]), row_text(rows["winner"]), *ids]


def miss_of(ctx: Context, request_id: str, outcome: str) -> str:
    result = explained(ctx, request_id)
    assert result["outcome"] == outcome, result["why"]
    return str(result["row"]["id"])


def changes(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> dict[str, tuple[str, int]]:
    """Return, by request id, what became of the rows of an interval, and how many labels the new ones have."""
    old, new = ({row_text(r): content([r])[0] for r in rows} for rows in (before, after))
    came, left = ([r["request_id"] for i, r in a.items() if i not in b] for a, b in ((new, old), (old, new)))
    changed = [r["request_id"] for i, r in new.items() if i in old and old[i] != r]
    words = {1: "once", 2: "twice"}
    result = {}
    for name in {*came, *left, *changed}:
        labels = max(len(r["clicks"]) for r in new.values() if r["request_id"] == name)
        moved = f"came {words[came.count(name)]}, left {words[left.count(name)]}" if name in left else "came"
        result[name] = ("changed" if name in changed else moved, labels)
    return result


def conflicts_are_counted(world: World, ctx: Context) -> None:
    joined = expected(landed_history(world, ctx), LANDED_AT, END)[BEGIN]
    row = publications.published(ctx.home, BEGIN)
    assert row is not None
    plan = Plan.from_json(row["plan"])
    measured = {m["name"]: m["value"] for m in measures.of_plans(ctx.home, [plan])}
    assert measured["left_conflict"] == joined.conflict["served"] >= 2  # another payload, another time
    assert measured["clicks.conflict"] == joined.conflict["clicks"] >= 1
