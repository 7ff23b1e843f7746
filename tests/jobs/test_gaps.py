"""Lost offsets (rule 13): landing fails until a person gives them up, and no row becomes negative whose label may be
among them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ResourceType

from support.broken.compaction import COMPACTING, alter, produce_one_by_one, until_compacted
from support.small_pipeline import PIPELINE, START, at, delete, event, made, recreate
from support.world import World
from windrow.home import Table
from windrow.io.registers import clocks
from windrow.jobs import land
from windrow.jobs.run import BadRequest, Context
from windrow.outcomes import ExitCode, exit_code
from windrow.semantics.landing import offsets
from windrow.semantics.landing.gaps import GivenUp, Lost, NoSuchGap
from windrow.semantics.landing.offsets import OffsetsGone, TopicCompacted
from windrow.semantics.records import Gap

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def given_up(world: World, topic: str, start: int, until: int) -> GivenUp:
    return GivenUp((Lost(f"{world.name}.{topic}", 0, start, until),), "ann", "retention was too short")


def accept(ctx: Context, range_: GivenUp) -> Any:
    *_, last = land.land(ctx, given_up=range_)
    return last.after


def test_rows_whose_window_overlaps_an_accepted_gap_are_unknown_to_the_microsecond(world: World) -> None:
    """The record behind the gap is a late one, of 200, which was logged at 400: the lost ones may be of up to then."""
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    likes = f"{world.name}.likes"
    served = {"ends before": 174.999999, "touches": 175, "liked": 250, "last": 460, "begins after": 460.000001}
    world.produce([event("served", 0, t, key=n, name=name) for n, (name, t) in enumerate(served.items())])
    world.produce([event("likes", 0, 300, key=2), event("served", 0, 2_000)])
    before = world.land(ctx)
    world.produce([event("likes", 0, 310, key=1), event("likes", 0, 320, key=2)])
    world.produce([(*event("likes", 0, 200, key=99)[:3], at(400)), event("likes", 0, 2_000)])
    delete(world, "likes", 3)

    with pytest.raises(OffsetsGone, match=rf"--accept-gap {likes}/0:1-3 --reason") as refused:
        world.land(ctx)
    assert exit_code(refused.value) == ExitCode.NEEDS_PERSON
    with pytest.raises(NoSuchGap, match=rf"0:1-4 is not lost.*lost ranges: {likes}/0:1-3"):
        accept(ctx, given_up(world, "likes", 1, 4))
    with pytest.raises(BadRequest, match="needs a reason"):
        land.giving_up([f"{likes}/0:1-3"], "ann", " ")
    assert clocks.observe(ctx.home) == before

    seen = accept(ctx, given_up(world, "likes", 1, 3))
    (row,) = seen.of_topic(likes)
    assert (row["read"], row["landed"], row["next_offset"]) == (3, 3, 5)  # lost offsets do not count as read
    (gap,) = seen.gaps
    assert (gap.who, gap.why, str(gap.lost)) == ("ann", "retention was too short", f"{likes}/0:1-3")
    assert accept(ctx, given_up(world, "likes", 1, 3)).pins == seen.pins  # accepted again: nothing more

    world.train(ctx)
    found = {r["id"]: (r["label_state"], r["label_reason"], r["liked"]) for r in world.training(ctx)}
    assert found == {
        "ends before": ("negative", None, False),
        "touches": ("unknown", "offset_gap", None),
        "liked": ("positive", "offset_gap", True),
        "last": ("unknown", "offset_gap", None),
        "begins after": ("negative", None, False),
    }


def test_a_gap_at_the_end_is_bounded_by_its_acceptance_until_a_record_follows(world: World) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1}, now=1_000)
    world.produce([event("served", 0, 10), event("likes", 0, 300)])
    first = world.land(ctx)
    world.produce([event("likes", 0, 310)])
    delete(world, "likes", 2)
    accepted = accept(ctx, given_up(world, "likes", 1, 2))  # a batch without a record
    world.produce([event("likes", 0, 700)])
    last = world.land(ctx)

    def seen(observation: clocks.Observation) -> tuple[Gap, ...]:
        return clocks.observe(ctx.home).gaps_between(START, at(5_000), pipeline=ctx.pipeline, pins=observation.pins)

    likes = f"{world.name}.likes"
    assert seen(first) == ()
    assert seen(accepted) == (Gap(likes, at(295), at(1_060)),)
    assert seen(last) == (Gap(likes, at(295), at(760)),)
    assert clocks.observe(ctx.home).gaps_between(at(761), at(900), pipeline=ctx.pipeline, pins=last.pins) == ()

    shutil.rmtree(ctx.home.table(Table.CLOCK))
    with pytest.raises(clocks.ClockBehind, match="windrow land small"):
        seen(last)
    *_, again = land.land(ctx)  # restored from the landing commits
    assert again.after.gaps == last.gaps
    done = land.summary(again)
    assert (done["read"], done["landed"], done["restored"]) == (0, 0, 3)  # what was landed before is not read again


def test_records_of_a_deleted_topic_that_were_not_landed_are_lost_and_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("served", 0, 60), event("served", 0, 70), event("likes", 0, 900)])
    monkeypatch.setattr(offsets, "RECORDS_PER_PARTITION", 1)
    behind = next(land.land(ctx)).after
    monkeypatch.undo()
    assert [clock.lag for clock in behind.clocks] == [0, 1]
    admin = AdminClient({"bootstrap.servers": world.places.kafka})
    for future in admin.delete_topics([f"{world.name}.served"]).values():
        future.result(30)
    recreate(world)
    world.produce([event("served", 0, 900)])
    with pytest.raises(OffsetsGone, match=rf"{world.name}.served/0:1-2"):
        world.land(ctx)
    seen = accept(ctx, given_up(world, "served", 1, 2))
    (row,) = seen.of_topic(f"{world.name}.served")
    assert (row["epoch"], row["next_offset"]) == (1, 1)
    (gap,) = seen.gaps
    assert (gap.epoch, gap.next_after) == (0, None)
    assert world.land(replace(ctx, now=lambda: at(20_000))).gaps == (gap,)


ACCEPTING = PIPELINE.replace("role: label", "role: label\n    compacted: accept")


def test_labels_that_compaction_removed_are_a_gap_and_no_row_is_negative_for_them(world: World) -> None:
    """Refused, then accepted; then the topic is no longer compacted, but the broker's log lacks the records."""
    ctx = world.pipeline(PIPELINE, now=at(10_000))
    world.topics({"served": 1})
    world.topics({"likes": 1}, **COMPACTING)
    likes = f"{world.name}.likes"
    served = {"ends before": 174.999999, "touches": 175, "liked": 250, "last": 460, "begins after": 460.000001}
    world.produce([event("served", 0, t, key=n, name=name) for n, (name, t) in enumerate(served.items())])
    world.produce([event("served", 0, 2_000)])
    liked = [("a", 300, 2), ("b", 310, 1), ("b", 320, 2), ("b", 400, 99), ("c", 2_000, 1)]
    kafka = world.places.kafka
    produce_one_by_one(kafka, likes, [(record_key, *event("likes", 0, t, key=k)[1:]) for record_key, t, k in liked])
    until_compacted(kafka, likes, 0, left=[0, 3, 4])

    with pytest.raises(TopicCompacted, match=rf"topic {likes} is compacted .* `compacted: accept`") as refused:
        world.land(ctx)
    assert exit_code(refused.value) == ExitCode.NEEDS_PERSON
    assert clocks.observe(ctx.home).number == -1
    assert len(world.table(ctx, f"landing/{world.name}.served")) == 6  # other topics do not wait for a decision

    ctx = world.pipeline(ACCEPTING, now=at(10_000))
    seen = world.land(ctx)
    (row,) = seen.of_topic(likes)
    assert (row["read"], row["landed"], row["skipped"], row["unexplained"]) == (5, 3, 0, 2)
    (gap,) = seen.gaps
    assert (str(gap.lost), gap.newest_before, gap.next_after) == (f"{likes}/0:1-3", at(300), at(400))
    assert gap.next_record_at == at(400)
    assert (gap.who, "compacted: accept" in gap.why) == ("landing", True)
    world.train(ctx)
    assert {r["id"]: (r["label_state"], r["label_reason"], r["liked"]) for r in world.training(ctx)} == {
        "ends before": ("negative", None, False),
        "touches": ("unknown", "offset_gap", None),
        "liked": ("positive", "offset_gap", True),
        "last": ("unknown", "offset_gap", None),
        "begins after": ("negative", None, False),
    }
    measured = {r["name"]: r["value"] for r in world.table(ctx, "measures")}
    assert (measured["landing_unexplained"], measured["landing_imbalance"]) == (2, 0)

    alter(kafka, ResourceType.TOPIC, likes, "cleanup.policy", "delete")
    other = world.pipeline(PIPELINE.replace("name: small", "name: other"), now=at(10_000))
    (again,) = world.land(other).gaps
    assert (again.lost, again.newest_before, again.next_after) == (gap.lost, gap.newest_before, gap.next_after)
    assert "neither a record nor a transaction marker" in again.why

    alter(kafka, ResourceType.TOPIC, likes, "cleanup.policy", "compact")  # the policy is asked at each landing
    landed = clocks.observe(other.home)
    with pytest.raises(TopicCompacted, match=rf"topic {likes} is compacted"):
        world.land(other)
    assert clocks.observe(other.home) == landed
    alter(kafka, ResourceType.TOPIC, likes, "cleanup.policy", "delete")
    assert world.land(other).number == landed.number + 1
