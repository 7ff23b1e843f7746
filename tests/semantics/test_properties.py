"""What must hold for every history: slicing, replay and order of landing change when rows close, and nothing else.

Histories come from a seed (`support.generated`), so that one number reproduces a failure.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.generated import (
    DISORDER,
    ENGAGEMENTS,
    GRACE,
    INTERVAL,
    PARTITIONS,
    SERVED,
    SPAN,
    START,
    history,
    oracle_records,
    oracle_spec,
)
from windrow.semantics.clock import IdlePolicy, PartitionClock, Progress, advance, topic_clock, watermark
from windrow.semantics.close import frontier
from windrow.semantics.erasure.keys import Erased, hash_of
from windrow.semantics.paper.account import account, closed_intervals
from windrow.semantics.paper.landings import Landings, Rules, Sent
from windrow.semantics.records import Record
from windrow.semantics.reference import Joined, reference_join

FEW = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
SEEDS = st.integers(0, 10**6)
EVERYTHING = START + timedelta(days=2)
LEFTS = 25


def published(records: Sequence[Record], pins: dict[str, int], **changes: Any) -> list[Joined]:
    """Every interval up to the last left row."""
    by = oracle_spec(records, pins, **changes)
    return [reference_join(records, by, i, pins) for i in closed_intervals(records, by, pins, EVERYTHING)]


def content(joined: Sequence[Joined]) -> list[Any]:
    """All of it but the audit columns: batches are not part of what was published."""
    return [
        (
            j.interval,
            j.balance,
            j.conflict,
            [
                (
                    r.row_id,
                    r.event_at,
                    r.values,
                    {s: [(m.row_id, m.event_at, m.values) for m in ms] for s, ms in r.matches.items()},
                    r.label_state,
                    r.label_reason,
                )
                for r in j.rows
            ],
        )
        for j in joined
    ]


def sliced(seed: int, count: int) -> list[int]:
    """Batch numbers that grow along the arrival, cut at random places."""
    rng = random.Random(seed)
    cuts = sorted(rng.choices(range(count + 1), k=rng.randrange(12)))
    return [1 + sum(cut <= n for cut in cuts) for n in range(count)]


ONE = {SERVED: 1, ENGAGEMENTS: 1}
ALL = {SERVED: 10**6, ENGAGEMENTS: 10**6}


@FEW
@given(SEEDS)
def test_how_landing_was_sliced_into_batches_changes_nothing(seed: int) -> None:
    sent = history(seed, lefts=LEFTS)
    whole = published(oracle_records(sent), ONE)
    cut = published(oracle_records(sent, batches=sliced(seed, len(sent))), ALL)
    assert content(cut) == content(whole)
    assert sum(len(j.rows) for j in whole) > 0


@FEW
@given(SEEDS)
def test_how_partitions_interleave_changes_nothing(seed: int) -> None:
    sent = history(seed, lefts=LEFTS)
    shuffled = sorted(sent, key=lambda r: (r.partition, r.topic, r.offset))
    assert content(published(oracle_records(shuffled), ONE)) == content(published(oracle_records(sent), ONE))


@FEW
@given(SEEDS, st.floats(0, 1))
def test_landing_any_suffix_again_changes_nothing(seed: int, share: float) -> None:
    sent = history(seed, lefts=LEFTS)
    suffix = sent[int(share * len(sent)) :]
    again = oracle_records(sent) + oracle_records(suffix, batches=[2] * len(suffix))
    assert content(published(again, ALL)) == content(published(oracle_records(sent), ONE))
    counted = account(again, oracle_spec(again, ALL), ALL, EVERYTHING)
    assert counted.replayed == sum(r.topic == SERVED for r in suffix)


@FEW
@given(SEEDS, st.integers(0, 600))
def test_a_larger_after_never_removes_a_label(seed: int, more: int) -> None:
    records = oracle_records(history(seed, lefts=LEFTS))
    narrow, wide = (
        {
            r.row_id: {m.row_id for m in r.matches["clicks"]}
            for j in published(records, ONE, after=timedelta(seconds=after))
            for r in j.rows
        }
        for after in (120, 120 + more)
    )
    assert narrow.keys() == wide.keys()
    assert all(narrow[row] <= wide[row] for row in narrow)


@FEW
@given(SEEDS, st.integers(0, 3000))
def test_every_left_record_is_in_exactly_one_place(seed: int, closed_until: int) -> None:
    records = oracle_records(history(seed, lefts=LEFTS))
    counts = vars(account(records, oracle_spec(records, ONE), ONE, START + timedelta(seconds=closed_until)))
    assert counts["read"] == sum(n for name, n in counts.items() if name != "read")
    assert counts["read"] == sum(r.row_id.topic == SERVED for r in records)


@FEW
@given(SEEDS)
def test_every_interval_balances_and_no_row_comes_twice(seed: int) -> None:
    joined = published(oracle_records(history(seed, lefts=LEFTS)), ONE)
    for j in joined:
        j.balance.check()
    ids = Counter(r.row_id for j in joined for r in j.rows)
    assert max(ids.values(), default=0) <= 1
    assert all(j.interval.contains(r.event_at) for j in joined for r in j.rows)


def clock_vectors(seed: int) -> list[tuple[datetime | None, dict[str, int]]]:
    """Land a history slice by slice, with lag, idling and pauses: (W, pins) after every landing."""
    rng = random.Random(seed)
    sent = history(seed, lefts=LEFTS)
    batches = sliced(seed, len(sent))
    records = oracle_records(sent, batches=batches)
    idle = IdlePolicy(rng.choice(("caught_up", "wait")), timedelta(minutes=2))
    ends = Counter((r.topic, r.partition) for r in sent)
    clocks: dict[tuple[str, int], PartitionClock] = {}
    seen = []
    for batch in range(1, max(batches) + 1):
        by_now = [r for r in records if r.batch <= batch]
        landed_at = max(r.timestamp for r, b in zip(sent, batches, strict=True) if b <= batch) if by_now else START
        landed_at += timedelta(seconds=rng.choice((0, -3600, 30)))
        held = {t: topic_clock([c for c in clocks.values() if c.topic == t]) for t in PARTITIONS}
        for topic, count in PARTITIONS.items():
            for p in range(count):
                mine = [r for r in by_now if (r.row_id.topic, r.row_id.partition) == (topic, p)]
                times = [r.event_at for r in mine if r.event_at is not None and not r.quarantined]
                clocks[topic, p] = advance(
                    clocks.get((topic, p)),
                    Progress(topic, 0, p, len(mine), ends[topic, p], max(times, default=None), landed_at),
                    out_of_orderness=DISORDER[topic],
                    idle=idle,
                    topic_clock=held[topic],
                )
        seen.append((watermark(clocks.values()), {SERVED: batch, ENGAGEMENTS: batch}))
    return seen


@FEW
@given(SEEDS)
def test_watermark_and_frontier_never_go_back(seed: int) -> None:
    marks = [w for w, _ in clock_vectors(seed)]
    fronts = [frontier(w, timedelta(minutes=6), GRACE) for w in marks]
    for clocks in (marks, fronts):
        known = [c for c in clocks if c is not None]
        assert known == sorted(known)
        assert clocks[len(clocks) - len(known) :] == known, "once known, always known"


@FEW
@given(SEEDS)
def test_what_closed_at_its_own_pins_is_what_a_rebuild_of_everything_gives(seed: int) -> None:
    """Events keep to their out-of-orderness here, so nothing is late: the first publication is the last."""
    sent = history(seed, lefts=LEFTS)
    records = oracle_records(sent, batches=sliced(seed, len(sent)))
    rebuilt = {j.interval: labels(j) for j in published(records, ALL)}
    assert rebuilt
    done: set[Any] = set()
    for w, pins in clock_vectors(seed):
        by = oracle_spec(records, pins)
        for interval in closed_intervals(records, by, pins, frontier(w, by.after, by.grace)):
            if interval not in done:
                done.add(interval)
                assert labels(reference_join(records, by, interval, pins)) == rebuilt[interval]


def labels(joined: Joined) -> list[Any]:
    return [(r.row_id, [m.event_at for m in r.matches["clicks"]]) for r in joined.rows]


@FEW
@given(SEEDS, st.integers(0, 3))
def test_erased_keys_leave_the_rows_of_a_join_without_their_records(seed: int, user: int) -> None:
    records, pins = oracle_records(history(seed, lefts=LEFTS)), {SERVED: 1, ENGAGEMENTS: 1}
    hashes = frozenset([str(hash_of(b"secret", {"user_id": user}))])
    by = oracle_spec(records, pins)
    without = [r for r in records if r.values.get("user_id") != user]
    for interval in closed_intervals(records, by, pins, EVERYTHING):
        erased = reference_join(records, replace(by, erased=(Erased(b"secret", ("user_id",), hashes),)), interval, pins)
        left = reference_join(without, by, interval, pins)
        assert erased.rows == left.rows
        erased.balance.check()
        assert erased.balance.left.landed - erased.balance.left.erased == left.balance.left.landed


@FEW
@given(SEEDS)
def test_no_negative_when_nothing_is_heard_of_the_label_side(seed: int) -> None:
    records = oracle_records(history(seed, lefts=LEFTS))
    served = [r for r in records if r.row_id.topic == SERVED]
    assert {r.label_state for j in published(served, ONE) for r in j.rows} == {"unknown"}


def test_histories_are_of_the_size_that_was_asked_for() -> None:
    assert timedelta(0) == SPAN % INTERVAL
    assert history(7) == history(7) != history(8)


@FEW
@given(st.integers(0, 10**6))
def test_a_gap_holds_every_lost_event_that_keeps_its_promises(seed: int) -> None:
    """However late the record behind it is: a lost event is bounded by what was logged behind it.

    Its promises: it is within the out-of-orderness when it is logged, and at most `max_skew` ahead of its log.
    """
    rng = random.Random(seed)
    disorder, skew = timedelta(seconds=rng.randrange(4)), timedelta(seconds=rng.randrange(4))
    newest, log = START, []
    for n in range(rng.randrange(2, 30)):
        logged_at = START + timedelta(seconds=10 * n)
        is_late = rng.random() < 0.3
        event_at = max(newest - disorder, logged_at - timedelta(seconds=rng.randrange(30)) + skew)
        if is_late:
            event_at = min(event_at, newest) - timedelta(seconds=rng.randrange(1, 300))
        log.append((event_at, logged_at, is_late))
        newest = max(newest, event_at)
    first = rng.randrange(len(log))
    until = rng.randrange(first, len(log)) + 1
    rules = Rules(oracle_spec([], {}), {"labels": 1}, {"labels": disorder}, IdlePolicy("wait"))
    paper = Landings(replace(rules, spec=replace(rules.spec, max_skew=skew)))
    for n, (event_at, logged_at, _) in enumerate(log):
        paper.produce(("labels", 0), Sent(event_at, {}, logged_at, is_lost=first <= n < until))
    paper.land(log[-1][1])
    gaps = paper.gaps_at(paper.landed, paper.pins)
    for event_at, _, is_late in log[first:until]:
        assert is_late or any((g.start_at or event_at) <= event_at <= (g.end_at or event_at) for g in gaps)
