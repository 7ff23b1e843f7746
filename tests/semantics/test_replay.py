"""Replay (`semantics.landing.replay`): the clock alone tells which offsets every lost batch had."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from support.landed_history import START, Step, after, landed, steps
from windrow.semantics.clock import ClockRow
from windrow.semantics.landing.batch import Batch
from windrow.semantics.landing.gaps import AcceptedGap
from windrow.semantics.landing.replay import corrected_totals, growth, lost_batches, rows_at

NOW = START + timedelta(days=1)


def offsets(batches: list[Batch]) -> set[tuple[str, int, int]]:
    return {
        (batch.topic_id, p, offset)
        for batch in batches
        for p, (start, until, _) in batch.ranges.items()
        for offset in range(start, until)
    }


def given_up(gaps: Iterable[AcceptedGap]) -> set[tuple[int, int, int]]:
    return {(gap.epoch, gap.lost.partition, n) for gap in gaps for n in range(gap.lost.start, gap.lost.until)}


def before(batches: list[Batch]) -> list[AcceptedGap]:
    """The gaps that were accepted when these batches were landed first."""
    return [gap for batch in batches for gap in batch.gaps]


@settings(max_examples=200, deadline=None)
@given(steps, st.data())
def test_a_replay_has_the_offsets_of_the_lost_batches_or_names_them_as_gaps(
    script: list[Step], data: st.DataObject
) -> None:
    is_whole = data.draw(st.booleans())
    committed, history, topic = landed(script, is_whole=is_whole)
    newest = max((row["batch"] for row in history), default=0)
    held = data.draw(st.sampled_from([0, *[batch.number for batch in committed if batch.number <= newest]]))
    lost = [batch for batch in committed if held < batch.number <= newest]

    rows = tuple(rows_at(history, held))
    for batch in committed:
        if (rows[0]["batch"] if rows else 0) < batch.number <= held:  # clocked only together with the next one
            rows = after(batch, rows, is_whole=is_whole)

    replayed = list(lost_batches(history, rows, topic, NOW, "ann", "why"))

    clocked = sorted({row["batch"] for row in history if row["batch"] > held})
    assert [batch.number for batch in replayed] == clocked
    begins = {p.number: p.begin for p in topic.partitions}
    expected = offsets(lost)
    readable = {one for one in expected if one[0] == topic.id and one[2] >= begins[one[1]]}
    assert offsets(replayed) == readable
    epochs = {batch.topic_id: batch.epoch for batch in committed}
    gone = {(epochs[topic_id], p, offset) for topic_id, p, offset in expected - readable}
    gaps = [gap for batch in replayed for gap in batch.gaps]
    assert gone <= given_up(gap for gap in gaps if gap.accepted_at == NOW) <= gone | given_up(before(committed))
    assert {gap for gap in before(lost) if gap.next_batch is None} <= {
        replace(gap, next_after=None, next_batch=None, next_record_at=None) for gap in gaps
    }


@settings(max_examples=100, deadline=None)
@given(steps)
def test_a_replay_without_gaps_leaves_the_clock_as_it_is(script: list[Step]) -> None:
    _, history, topic = landed([([(more, 0) for more, _ in records], False, killed) for records, _, killed in script])
    latest = [row for row in history if row["observation"] == history[-1]["observation"]] if history else []
    rows: tuple[ClockRow, ...] = ()
    for batch in lost_batches(history, (), topic, NOW, "ann", "why"):
        first = growth(rows_at(history, batch.number - 1), rows_at(history, batch.number))
        earlier, rows = rows, after(batch, rows)
        assert growth(earlier, rows) == first
    assert corrected_totals(latest, rows, history) == latest
