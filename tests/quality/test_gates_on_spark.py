"""Volume and quarantine from topic to register: what an interval lacks is named, in its own interval and topic alone.

interval   0  1   2                  3                     4 to 7   8   9 on
served     as usual                  only partition 0      none     as usual   none
likes      …      half unreadable    …
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from support.small_pipeline import PIPELINE, at, event, made
from support.world import Sent, World
from windrow.io.registers import measures
from windrow.jobs.check import judge
from windrow.semantics.plan import Plan

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SERVED, LIKED = 60, 40
"""Rows of a served partition, and of the label topic, in a minute."""


def minute(number: int, partitions: tuple[int, ...] = (0, 1), unreadable: int = 0) -> Iterator[Sent]:
    start = 60 * number
    for partition in partitions:
        for n in range(SERVED):
            yield event("served", partition, start + n, key=n, name=f"{number} {partition} {n}")
    for n in range(LIKED):
        if n < unreadable:
            yield ("likes", 0, b"{", at(start + n))
        else:
            yield event("likes", 0, start + n, key=-1)


def test_what_an_interval_lacks_is_in_its_verdict_and_in_no_other(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 2, "likes": 1})
    records = [*minute(0), *minute(1), *minute(2, unreadable=LIKED // 2), *minute(3, (0,)), *minute(8)]
    world.produce(records)
    world.produce([event(topic, partition, 1000) for topic, partition in (("served", 0), ("served", 1), ("likes", 0))])
    world.land(ctx)
    (round_,) = world.train(ctx)
    assert round_.blocked == {}

    register = {round((row["interval"] - at(0)) / timedelta(minutes=1)): row for row in world.register(ctx)}
    served, likes = f"{world.name}.served", f"{world.name}.likes"
    lines = {number: (row["verdict"], row["why"]) for number, row in register.items()}
    assert lines[0] == lines[1] == lines[8] == ("passed", None)
    assert lines[2] == ("warned", f"quarantine {likes} at least 22 % > 1 %")
    assert lines[3][0] == "warned"
    assert f"partition {served}/1 has no row, usual {SERVED}" in str(lines[3][1])
    assert lines[4][0] == "warned"
    assert "served has no row, for the first time" in str(lines[4][1])
    assert {lines[number] for number in (7, *range(9, len(lines)))} == {("empty", "no row")}

    counts_are_those_of_the_records(ctx, records, register)
    again_and_later_the_verdicts_are_the_same(ctx, register, lines)


def counts_are_those_of_the_records(ctx: Any, records: list[Sent], register: dict[int, dict[str, Any]]) -> None:
    """Volumes and quarantine in the measures, against the records as they were produced."""
    plans = {number: Plan.from_json(row["plan"]) for number, row in register.items()}
    found = measures.by_plan(ctx.home, list(plans.values()))
    prefix = ctx.pipeline.left.topics[0].removesuffix("served")
    for number, plan in plans.items():
        inside = [one for one in records if plan.interval.start <= (one[3] or at(0)) < plan.interval.end]
        for topic in ("served", "likes"):
            readable = [one for one in inside if one[0] == topic and one[2] != b"{"]
            assert found[plan.id][f"volume.{topic}"] == len(readable), number
            assert found[plan.id][f"records.{prefix}{topic}"] == sum(one[0] == topic for one in inside), number
            assert found[plan.id][f"quarantined.{prefix}{topic}"] == sum(
                one[0] == topic and one[2] == b"{" for one in inside
            )
            for partition in (0, 1):
                wanted = sum(one[1] == partition for one in readable) or None
                assert found[plan.id].get(f"volume.{prefix}{topic}/{partition}") == wanted, number


def again_and_later_the_verdicts_are_the_same(ctx: Any, register: dict[int, dict[str, Any]], lines: Any) -> None:
    """A check of the same plans, and a rebuild of the interval in the middle, come to the same verdict."""
    from windrow.jobs.rebuild import rebuild

    plans = [Plan.from_json(row["plan"]) for row in register.values()]
    checked = judge(ctx, plans)
    assert [(one.verdict, one.why) for one in checked.judged.values()] == [lines[number] for number in sorted(lines)]
    done = rebuild(ctx, "again", at(180), at(300), lambda row: None)
    assert [(row["verdict"], row["why"]) for row in done.published] == [lines[3], lines[4]]
