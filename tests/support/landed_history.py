"""A topic's life on paper: random landings of two partitions that lose offsets, by kills, retention and new topics."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from windrow.semantics.clock import ClockRow, IdlePolicy
from windrow.semantics.landing.batch import Batch, Partition, Topic
from windrow.semantics.landing.clock_rows import Counts, clock_rows
from windrow.semantics.landing.gaps import CARRIED, GivenUp, recorded_once
from windrow.semantics.landing.offsets import lost_ranges, next_batch
from windrow.semantics.landing.undelivered import Explained, Neighbours, account_of, size

START = datetime(2026, 11, 1, tzinfo=UTC)
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


def landed(
    script: list[Step], *, is_whole: bool = True, once_from: int = 0, carried: int = CARRIED
) -> tuple[list[Batch], list[ClockRow], Topic]:
    """Land a random history as `jobs.land` does; return the committed batches, every observation, and the topic.

    Observations before `once_from` have every gap there ever was, as an earlier release wrote them.
    """
    committed: list[Batch] = []
    history: list[ClockRow] = []
    clock: tuple[ClockRow, ...] = ()
    observed = clock
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
        if number >= once_from:
            clock = tuple(recorded_once(clock, observed, number, carried))
        observed = clock
        history += [{**row, "observation": number} for row in clock]
    return committed, history, topic


def after(batch: Batch, before: tuple[ClockRow, ...], *, is_whole: bool = True) -> tuple[ClockRow, ...]:
    """The clock after a batch; unless it is whole, landing finds that every seventh offset has no record."""
    ranges = {p: (start, until) for p, (start, until, _) in batch.ranges.items()}
    missing = {p: [] if is_whole else [(n, n + 1) for n in range(*ranges[p]) if n % 7 == 6] for p in ranges}
    account = account_of(
        batch,
        before,
        {p: Explained(0, size(found), tuple(found)) for p, found in missing.items()},
        {(p, one): Neighbours(batch.landed_at) for p, found in missing.items() for one in found},
        "lost",
    )
    counts = {
        p: Counts(
            landed=until - start - len(missing[p]),
            newest_at=batch.landed_at,
            first_at=batch.landed_at,
            first_record_at=batch.landed_at,
        )
        for p, (start, until) in ranges.items()
        if until - start > len(missing[p])
    }
    return clock_rows(batch, before, counts, account, out_of_orderness=MINUTE, idle=IdlePolicy("wait"))
