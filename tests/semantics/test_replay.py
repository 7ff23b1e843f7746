"""Replay (`semantics.landing.replay`): the clock alone tells which offsets every lost batch had."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.semantics.clock import ClockRow, IdlePolicy
from windrow.semantics.landing.batch import Batch, Partition, Topic
from windrow.semantics.landing.clock_rows import Counts, clock_rows
from windrow.semantics.landing.gaps import AcceptedGap, GivenUp
from windrow.semantics.landing.offsets import lost_ranges, next_batch
from windrow.semantics.landing.replay import corrected_totals, growth, lost_batches, rows_at
from windrow.semantics.landing.undelivered import Explained, Neighbours, account_of

START = datetime(2026, 11, 1, tzinfo=UTC)
NOW = START + timedelta(days=1)
MINUTE = timedelta(minutes=1)

Step = tuple[list[tuple[int, int]], bool, bool]
"""Records that each partition gets and records that retention then takes from it; whether the topic is made again
first; whether the run is killed after its landing commit."""

steps = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=2, max_size=2), st.booleans(), st.booleans()
    ),
    min_size=1,
    max_size=8,
)


def landed(script: list[Step], *, is_whole: bool = True) -> tuple[list[Batch], list[ClockRow], Topic]:
    """Land a random history as `jobs.land` does; return the committed batches, every observation, and the topic."""
    committed: list[Batch] = []
    history: list[ClockRow] = []
    clock: tuple[ClockRow, ...] = ()
    topic = Topic("t", "id0", (Partition(0, 0, 0), Partition(1, 0, 0)))
    for number, (records, is_new, is_killed) in enumerate(script):
        landed_at = START + number * MINUTE
        if is_new and number and not (committed and committed[-1].number > (clock[0]["batch"] if clock else 0)):
            topic = Topic("t", f"id{number}", (Partition(0, 0, 0), Partition(1, 0, 0)))
        grown = []
        for partition, (more, taken) in zip(topic.partitions, records, strict=True):
            end = partition.end + more
            grown.append(Partition(partition.number, min(partition.begin + taken, end), end))
        topic = replace(topic, partitions=tuple(grown))
        for batch in [one for one in committed if one.number > (clock[0]["batch"] if clock else 0)]:
            clock = after(batch, clock, is_whole=is_whole)  # what a killed run has committed is clocked first
        batch = next_batch(topic, landed_at, clock, GivenUp(tuple(lost_ranges(topic, clock)), "ann", "why"))
        if not batch.is_empty:
            committed.append(batch)
            if is_killed:
                continue
        clock = after(batch, clock, is_whole=is_whole)
        history += [{**row, "observation": number} for row in clock]
    return committed, history, topic


def after(batch: Batch, before: tuple[ClockRow, ...], *, is_whole: bool = True) -> tuple[ClockRow, ...]:
    """The clock after a batch; unless it is whole, landing finds that every seventh offset has no record."""
    ranges = {p: (start, until) for p, (start, until, _) in batch.ranges.items()}
    missing = {p: [] if is_whole else [(n, n + 1) for n in range(*ranges[p]) if n % 7 == 6] for p in ranges}
    account = account_of(
        batch,
        before,
        {p: Explained(0, tuple(found)) for p, found in missing.items()},
        {(p, one): Neighbours(batch.landed_at) for p, found in missing.items() for one in found},
        "lost",
    )
    counts = {
        p: Counts(landed=until - start - len(missing[p]), newest_at=batch.landed_at, first_at=batch.landed_at)
        for p, (start, until) in ranges.items()
        if until - start > len(missing[p])
    }
    return clock_rows(batch, before, counts, account, out_of_orderness=MINUTE, idle=IdlePolicy("wait"))


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
        replace(gap, next_after=None, next_batch=None) for gap in gaps
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
    assert corrected_totals(latest, rows) == latest
