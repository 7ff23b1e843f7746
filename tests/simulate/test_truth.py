"""The truth, against the hand and against a join of the messages that knows nothing of the generator."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from windrow.semantics.intervals import at_micros, micros
from windrow.simulate.record import Message, SimulatedRecord
from windrow.simulate.traffic import Traffic, messages, records, truth
from windrow.simulate.truth import JoinRules, Truth

START = datetime(2026, 11, 1, tzinfo=UTC)
SMALL = Traffic(
    START, rows=600, span=timedelta(minutes=40), users=12, items=5, click_rate=0.3, purchase_share=0.5,
    after=timedelta(minutes=5), delay_max=timedelta(minutes=9), boundary_share=0.2, retries=0.1, features=2,
)  # fmt: skip
"""So few keys that labels have several rows, and rows several labels."""

TRAFFICS = {
    "plain": SMALL,
    "in order": replace(SMALL, disorder=0.0, seed=2),
    "idle partitions": replace(SMALL, idle_partition=1, idle_engagement_partition=0, seed=3),
    "labels silent at the end": replace(
        SMALL, silent=(START + timedelta(minutes=15), START + timedelta(hours=9))
    ),
    "labels silent for a while": replace(
        SMALL, silent=(START + timedelta(minutes=10), START + timedelta(minutes=20))
    ),
    "labels silent always": replace(SMALL, silent=(START, START + timedelta(days=1))),
    "a window on both sides": replace(SMALL, before=timedelta(minutes=2), seed=4),
    "poison": replace(
        SMALL,
        poison={
            "bad_json": 0.02, "tombstone": 0.02, "wrong_type": 0.02, "time_missing": 0.02, "far_ahead": 0.02,
            "nan": 0.02, "infinity": 0.02, "deep_nesting": 0.02, "bad_utf8": 0.02, "control_characters": 0.02,
            "trailing_garbage": 0.02, "null_key": 0.02, "before_start": 0.02,
        },
    ),
}  # fmt: skip


def _strict(value: bytes | None) -> dict[str, object] | None:
    """A JSON object of numbers, texts and lists of numbers that ends where it ends, or None."""

    def refuse(word: str) -> float:
        raise ValueError(word)

    try:
        found = json.loads((value or b"").decode(), parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _well_typed(row: dict[str, object], id_: str, time: str) -> bool:
    numbers = all(row[k] is None or isinstance(row[k], int) for k in ("user_id", "item_id"))
    features = row.get("features", [])
    vector = isinstance(features, list) and all(isinstance(x, float) for x in features)
    return numbers and vector and isinstance(row[id_], str) and isinstance(row.get(time), str)


def brute_force(traffic: Traffic, sent: Iterable[Message]) -> dict[tuple[int, int], tuple[object, ...]]:
    """Rows by (partition, offset), from nothing but the messages: every row against every label."""
    offsets: Counter[tuple[str, int]] = Counter()
    served: dict[tuple[object, ...], list[tuple[int, int, dict[str, object]]]] = defaultdict(list)
    engaged: dict[tuple[object, ...], list[tuple[int, int, dict[str, object]]]] = defaultdict(list)
    newest: dict[int, datetime] = {}
    for message in sent:
        where = message.topic, message.partition
        offset = offsets[where]
        offsets[where] += 1
        left = message.topic == traffic.served_topic
        id_, time = ("request_id", "served_at") if left else ("event_id", "engaged_at")
        row = _strict(message.value)
        if row is None or not _well_typed(row, id_, time):
            continue
        at = datetime.fromisoformat(str(row[time]))
        if at > START + timedelta(days=100) or (left and at < START):
            continue
        if not left:
            if row["user_id"] is None:
                continue
            newest[message.partition] = max(at, newest.get(message.partition, at))
        kept = served if left else engaged
        kept[row[id_], at].append((message.partition, offset, row))
    clocks = [at - traffic.label_out_of_orderness for at in newest.values()]
    rows = {}
    for (_, at), copies in served.items():
        partition, offset, row = min(copies, key=lambda one: one[:2])
        labels = sorted(
            (when, *min(same, key=lambda one: one[:2])[:2], name)
            for (name, when), same in engaged.items()
            if same[0][2]["action"] == "click"
            and (same[0][2]["user_id"], same[0][2]["item_id"]) == (row["user_id"], row["item_id"])
            and at - traffic.before <= when <= at + traffic.after
        )
        complete = any(clock > at + traffic.after for clock in clocks)
        reason = "null_key" if row["user_id"] is None else None if complete else "side_silent"
        state = "positive" if labels else "unknown" if reason else "negative"
        rows[partition, offset] = (
            row["request_id"], at, tuple(name for *_, name in labels), state, reason,
        )  # fmt: skip
    return rows


@pytest.mark.parametrize("name", TRAFFICS)
def test_truth_is_what_a_join_of_the_messages_by_brute_force_gives(name: str) -> None:
    traffic = TRAFFICS[name]
    rows = list(truth(traffic).rows())
    found = {(r.partition, r.offset): (r.id, r.event_at, r.labels, r.state, r.reason) for r in rows}
    assert len(found) == len(rows), "a row id twice"
    assert found == brute_force(traffic, messages(traffic))


def test_truth_of_a_part_is_the_join_of_what_was_produced_by_then() -> None:
    traffic = TRAFFICS["plain"]
    until = START + timedelta(minutes=22)
    part = [m for m in messages(traffic) if m.produced_at is not None and m.produced_at < until]
    rows = {
        (r.partition, r.offset): (r.id, r.event_at, r.labels, r.state, r.reason) for r in truth(traffic, until).rows()
    }
    assert rows == brute_force(traffic, part)
    assert {state for *_, state, _ in rows.values()} == {"positive", "negative", "unknown"}


def test_the_small_traffic_shows_every_case_that_the_join_must_get_right() -> None:
    rows = list(truth(SMALL).rows())
    assert any(len(r.labels) > 1 for r in rows), "no row with several labels"
    shared = Counter(name for r in rows for name in r.labels)
    assert max(shared.values()) > 1, "no label of several rows"
    clicks = {r.id: at_micros(r.event_us or 0) for r in records(SMALL) if r.kind == "click"}
    ends = Counter(clicks[name] - r.event_at == SMALL.after for r in rows for name in r.labels)
    assert ends[True] > 0, "no label on a window's end"
    assert ends[False] > 0
    counts = truth(SMALL).counts
    assert counts.total.duplicate > 0
    assert counts.total.negative > 0
    assert truth(TRAFFICS["labels silent at the end"]).counts.total.unknown["side_silent"] > 0


@pytest.mark.parametrize("name", TRAFFICS)
def test_every_record_and_every_row_is_counted_once(name: str) -> None:
    traffic = TRAFFICS[name]
    counts = truth(traffic).counts
    sent = Counter((m.topic, m.partition) for m in messages(traffic))
    assert counts.produced == dict(sent)
    for topic in traffic.topics:
        landing = counts.landing(topic)
        assert landing["read"] == landing["landed"] + landing["quarantined"]
        assert landing["read"] == sum(n for (of, _), n in sent.items() if of == topic)
        assert sum(counts.kinds[topic].values()) == landing["read"] + counts.fates[topic]["lost"]
    total = counts.total
    assert total.rows == total.positive + total.negative + total.unknown.total()
    assert total.rows + total.duplicate == counts.fates[traffic.served_topic]["landed"]
    rows = list(truth(traffic).rows())
    assert total.labels == sum(len(r.labels) for r in rows)
    for start, one in counts.intervals.items():
        inside = [r for r in rows if start <= r.event_at < start + traffic.interval]
        assert len(inside) == one.rows
        assert {r.interval_at for r in inside} == {start}


def _record(side: str, name: str, at_s: float, key: str | None = "k", **changes: object) -> SimulatedRecord:
    us = micros(START) + round(at_s * 1_000_000)
    made = SimulatedRecord(
        side="left" if side == "left" else "right", topic=side, partition=0, id=name,
        key=None if key is None else (key,), event_us=us, produced_us=us, fate="landed", kind=side,
        again=False, body=None, stamp_us=us,
    )  # fmt: skip
    return made._replace(**changes)  # type: ignore[arg-type]


def _states(*made: SimulatedRecord, silence: str = "unknown") -> dict[str, tuple[object, ...]]:
    rules = JoinRules(
        START, timedelta(seconds=1000), timedelta(seconds=100), timedelta(0),
        silence="negative" if silence == "negative" else "unknown",
    )  # fmt: skip
    return {r.id: (r.labels, r.state, r.reason) for r in Truth(lambda: made, rules).rows()}


def test_both_ends_of_the_window_are_in() -> None:
    made = [_record("left", "l", 0), _record("right", "a", 100), _record("right", "b", 100.000001)]
    assert _states(*made) == {"l": (("a",), "positive", None)}
    made = [_record("left", "l", 50), _record("right", "a", 50), _record("right", "b", 49.999999)]
    assert _states(*made, _record("right", "c", 999, "j"))["l"] == (("a",), "positive", None)


def test_a_row_is_silent_until_an_event_is_beyond_its_window() -> None:
    row = _record("left", "l", 0)
    assert _states(row, _record("right", "a", 100, "j")) == {"l": ((), "unknown", "side_silent")}
    assert _states(row, _record("right", "a", 100.000001, "j")) == {"l": ((), "negative", None)}
    assert _states(row) == {"l": ((), "unknown", "side_silent")}
    assert _states(row, silence="negative") == {"l": ((), "negative", None)}


def test_one_partition_that_goes_on_is_no_silence() -> None:
    made = [_record("right", "a", 3, "j"), _record("right", "b", 500, "j", partition=1)]
    assert _states(_record("left", "l", 0), *made) == {"l": ((), "negative", None)}


def test_a_positive_row_keeps_the_reason_for_a_list_that_may_be_incomplete() -> None:
    made = [_record("left", "l", 0), _record("right", "a", 60)]
    assert _states(*made) == {"l": (("a",), "positive", "side_silent")}


def test_a_quarantined_label_of_the_key_makes_rows_unknown_where_it_may_belong_to_them() -> None:
    made = [_record("left", "l", 0), _record("left", "m", 300), _record("right", "e", 999, "j")]
    broken = _record("right", "x", 350, fate="quarantined")
    assert _states(*made, broken) == {
        "l": ((), "negative", None),
        "m": ((), "unknown", "label_quarantined"),
    }
    timeless = broken._replace(event_us=None)
    assert {state for _, state, _ in _states(*made, timeless).values()} == {"unknown"}


def test_a_null_in_the_key_is_the_reason_whatever_else_is_wrong() -> None:
    assert _states(_record("left", "l", 0, key=None)) == {"l": ((), "unknown", "null_key")}


def test_one_key_gives_every_label_to_every_row_in_row_order() -> None:
    lefts = [_record("left", name, at) for name, at in (("A1", 3), ("B", 5), ("A2", 7))]
    labels = [_record("right", "b", 6), _record("right", "a", 4), _record("right", "end", 900, "j")]
    rules = JoinRules(START, timedelta(minutes=10), timedelta(seconds=10), timedelta(0), before=timedelta(seconds=10))
    rows = list(Truth(lambda: [*lefts, *labels], rules).rows())
    assert [(r.id, r.labels) for r in rows] == [("A1", ("a", "b")), ("B", ("a", "b")), ("A2", ("a", "b"))]


def test_the_least_row_id_of_a_retried_event_is_the_row() -> None:
    first = _record("left", "l", 0, partition=1)
    again = first._replace(partition=0, again=True)
    rules = JoinRules(START, timedelta(seconds=1000), timedelta(seconds=100), timedelta(0))
    of = Truth(lambda: [_record("left", "z", 0, "j"), first, again], rules)
    assert [(r.id, r.partition, r.offset) for r in of.rows()] == [("z", 0, 0), ("l", 0, 1)]
    assert of.counts.total.duplicate == 1
