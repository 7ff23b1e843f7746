"""The generated histories cover the contract: every state, reason and count occurs in them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from support.generated import (
    DISORDER,
    ENGAGEMENTS,
    KEY,
    LANDED_AT,
    MAX_SKEW,
    SERVED,
    START,
    KafkaRecord,
    decode,
    history,
    oracle_records,
    oracle_spec,
)
from windrow.semantics.paper.account import account, closed_intervals
from windrow.semantics.records import Record
from windrow.semantics.reference import reference_join

PINS = {SERVED: 1, ENGAGEMENTS: 1}
EVERYTHING = START + timedelta(days=2)
CLICK = '"action": "click"'


def test_offsets_of_a_partition_count_from_zero_without_a_hole() -> None:
    for seed in range(5):
        seen = Counter[tuple[str, int]]()
        for r in history(seed):
            assert r.offset == seen[r.topic, r.partition]
            seen[r.topic, r.partition] += 1


def test_disorder_of_a_partition_stays_within_what_is_promised() -> None:
    for seed in range(20):
        newest: dict[tuple[str, int], object] = {}
        for r in oracle_records(history(seed)):
            if r.event_at is None or r.quarantined:
                continue
            p = (r.row_id.topic, r.row_id.partition)
            known = newest.setdefault(p, r.event_at)
            assert r.event_at >= known - DISORDER[p[0]]
            newest[p] = max(known, r.event_at)


def test_every_state_reason_and_count_occurs() -> None:
    seen = Counter[str]()
    for seed in range(20):
        records = oracle_records(history(seed))
        by = oracle_spec(records, PINS)
        seen.update(str(r.quarantined) for r in records)
        seen["before_start"] += account(records, by, PINS, None).before_start
        for interval in closed_intervals(records, by, PINS, EVERYTHING):
            joined = reference_join(records, by, interval, PINS)
            seen.update(f"{r.label_state} {r.label_reason}" for r in joined.rows)
            seen.update(f"{len(r.matches['clicks'])} labels" for r in joined.rows)
            seen.update(joined.balance.measures())
            seen["conflict"] += sum(joined.conflict.values())
    few = {name for name in EXPECTED if seen[name] < 5}
    assert not few, {name: seen[name] for name in few}


EXPECTED = [
    *(
        "tombstone",
        "bad_utf8",
        "malformed",
        "event_time_ahead",
        "wrong_type",
        "event_time_missing",
        "null_key",
    ),
    *("negative None", "positive None", "positive side_silent", "positive label_quarantined"),
    *("unknown side_silent", "unknown null_key", "unknown label_quarantined"),
    *("0 labels", "1 labels", "2 labels", "left_duplicate", "clicks.duplicate", "clicks.filtered"),
    *("clicks.unmatched", "before_start", "conflict"),
]


def decoded(topic: str, value: bytes | None) -> Record:
    return decode(KafkaRecord(topic, 0, 0, value, START), 1, landed_at=LANDED_AT, max_skew=MAX_SKEW)


GOOD_TIME = '"engaged_at": "2026-11-01T00:00:05.000001Z"'
RECORDS = [
    (None, "tombstone"),
    (b'{"user_id": "\xff"}', "bad_utf8"),
    (b"", "malformed"),
    (b"[1]", "malformed"),
    (b"null", "malformed"),
    (b'{"user_id": 1', "malformed"),
    (f'{{"user_id": 1, "item_id": 2, {CLICK}, {GOOD_TIME}}}'.encode(), None),
    (f'{{"user_id": "1", "item_id": 2, {CLICK}, {GOOD_TIME}}}'.encode(), "wrong_type"),
    (f'{{"user_id": true, "item_id": 2, {CLICK}, {GOOD_TIME}}}'.encode(), "wrong_type"),
    (f'{{"user_id": 1, "item_id": 2, {CLICK}, "engaged_at": "soon"}}'.encode(), "wrong_type"),
    (f'{{"user_id": 1, "item_id": 2, {CLICK}}}'.encode(), "event_time_missing"),
    (
        f'{{"user_id": 1, "item_id": 2, {CLICK}, "engaged_at": "2099-01-01T00:00:00Z"}}'.encode(),
        "event_time_ahead",
    ),
    (f'{{"user_id": null, "item_id": 2, {CLICK}, {GOOD_TIME}}}'.encode(), "null_key"),
    (b'{"action": "view"}', None),
    (b"{}", None),
]


@pytest.mark.parametrize(("value", "reason"), RECORDS, ids=[str(r[0])[:60] for r in RECORDS])
def test_a_record_is_quarantined_for_one_reason(value: bytes | None, reason: str | None) -> None:
    assert decoded(ENGAGEMENTS, value).quarantined == reason


@pytest.mark.parametrize(("skew", "reason"), [(0, None), (1, "event_time_ahead")])
def test_an_event_is_trusted_up_to_the_skew_beyond_landing(skew: int, reason: str | None) -> None:
    when = (LANDED_AT + MAX_SKEW + timedelta(microseconds=skew)).isoformat()
    read = decoded(SERVED, f'{{"served_at": "{when}"}}'.encode())
    assert (read.quarantined, read.event_at is None) == (reason, reason is not None)


def test_a_left_row_with_a_null_key_lands() -> None:
    assert decoded(SERVED, b'{"user_id": null, "served_at": "2026-11-01T00:00:00Z"}').quarantined is None


def test_the_key_of_a_quarantined_record_is_kept_where_it_can_be_read() -> None:
    read = decoded(ENGAGEMENTS, f'{{"user_id": 1, "item_id": 2, {CLICK}}}'.encode())
    assert [read.values[k] for k in KEY] == [1, 2]
