"""Simulated traffic is the same in every process, keeps its promises, and carries what its settings say."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from windrow.config import parse
from windrow.semantics.intervals import micros
from windrow.simulate.poison import KINDS
from windrow.simulate.traffic import Traffic, messages, pipeline_yaml, records, truth

START = datetime(2026, 11, 1, tzinfo=UTC)
TRAFFIC = Traffic(START, rows=9_000, retries=0.05, poison={"bad_json": 0.001, "null_key": 0.001})
SOURCES = Path(__file__).resolve().parents[2] / "spark_jobs"


def _digest(traffic: Traffic) -> str:
    sum_ = hashlib.sha256()
    for message in messages(traffic):
        sum_.update(repr(message).encode())
    return sum_.hexdigest()


def test_the_same_settings_give_the_same_bytes_in_another_process() -> None:
    code = (
        "from datetime import *; import hashlib; from windrow.simulate.traffic import *\n"
        "s = hashlib.sha256()\n"
        "t = Traffic(datetime(2026, 11, 1, tzinfo=UTC), rows=9_000, retries=0.05,"
        " poison={'null_key': 0.001, 'bad_json': 0.001})\n"
        "for m in messages(t): s.update(repr(m).encode())\n"
        "print(s.hexdigest())"
    )
    env = os.environ | {"PYTHONPATH": str(SOURCES), "PYTHONHASHSEED": "7", "TZ": "America/New_York"}
    other = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == _digest(TRAFFIC)


def test_another_seed_gives_other_traffic() -> None:
    assert _digest(TRAFFIC) != _digest(replace(TRAFFIC, seed=2))


@pytest.mark.parametrize("disorder", [0.0, 0.5, 1.0])
def test_no_event_is_older_than_the_out_of_orderness_allows(disorder: float) -> None:
    traffic = replace(TRAFFIC, disorder=disorder)
    allowed = {
        "left": disorder * (traffic.out_of_orderness // timedelta(microseconds=1)),
        "right": disorder * (traffic.label_out_of_orderness // timedelta(microseconds=1)),
    }
    newest: dict[tuple[str, int], int] = {}
    worst: Counter[str] = Counter()
    for record in records(traffic):
        if record.fate not in ("landed", "filtered") or record.event_us is None:
            continue
        where = record.topic, record.partition
        behind = newest.get(where, record.event_us) - record.event_us
        assert behind <= allowed[record.side]
        worst[record.side] = max(worst[record.side], behind)
        newest[where] = max(record.event_us, newest.get(where, record.event_us))
    if disorder:
        assert worst["left"] > allowed["left"] / 2, "hardly any disorder: the test shows nothing"
    else:
        assert worst["left"] == worst["right"] == 0


def test_messages_leave_in_the_order_and_not_before_the_time_of_their_production() -> None:
    made = [r for r in records(TRAFFIC) if r.event_us is not None]
    assert [r.produced_us for r in made] == sorted(r.produced_us for r in made)
    assert all(r.produced_us >= r.event_us for r in made if r.event_us is not None)
    assert max(r.produced_us for r in made) < micros(TRAFFIC.ends_at)


def test_every_partition_is_used_and_an_idle_one_never() -> None:
    used = {(m.topic, m.partition) for m in messages(TRAFFIC)}
    assert used == {(topic, p) for topic, many in TRAFFIC.topics.items() for p in range(many)}
    idle = replace(TRAFFIC, idle_partition=2, idle_engagement_partition=0)
    still = {(m.topic, m.partition) for m in messages(idle)}
    assert used - still == {("feed.served", 2), ("feed.engagements", 0)}


def test_topics_have_the_names_they_are_given() -> None:
    other = replace(TRAFFIC, served_topic="a.b", engagements_topic="c")
    assert {m.topic for m in messages(other)} == {"a.b", "c"}


def test_a_silent_label_side_loses_exactly_the_engagements_of_that_time() -> None:
    silent = START + timedelta(minutes=20), START + timedelta(minutes=30)
    loud = {r.id: r.event_us for r in records(TRAFFIC) if r.side == "right" and r.kind in ("click", "purchase")}
    quiet_records = [r for r in records(replace(TRAFFIC, silent=silent)) if r.side == "right"]
    kept = {r.id for r in quiet_records if r.kind in ("click", "purchase") and r.fate != "lost"}
    lost = {r.id for r in quiet_records if r.fate == "lost"}
    assert lost == {name for name, at in loud.items() if at is not None and micros(silent[0]) <= at < micros(silent[1])}
    assert lost
    assert kept == set(loud) - lost


def test_every_kind_of_poison_is_there_as_often_as_asked_on_both_sides() -> None:
    kinds = [kind for kind in KINDS if kind != "too_large"]
    traffic = replace(TRAFFIC, poison=dict.fromkeys(kinds, 0.001))
    counts = truth(traffic).counts
    for topic in traffic.topics:
        assert {kind: counts.kinds[topic][kind] for kind in kinds} == dict.fromkeys(kinds, 9)
    assert counts.fates["feed.served"]["quarantined"] == 9 * (len(kinds) - 2)
    assert counts.fates["feed.served"]["before_start"] == 9
    assert counts.fates["feed.engagements"]["quarantined"] == 9 * (len(kinds) - 1)
    assert counts.total.unknown["null_key"] == 9


def test_poison_changes_no_good_record_and_no_label_state() -> None:
    clean = replace(TRAFFIC, poison={})
    poisoned = replace(TRAFFIC, poison={kind: 0.001 for kind in KINDS if kind != "too_large"})
    good = [m for r, m in zip(records(poisoned), messages(poisoned), strict=True) if not r.id.startswith("x")]
    assert good == list(messages(clean))
    rows = {r.id: (r.labels, r.state, r.reason) for r in truth(poisoned).rows() if not r.id.startswith("x")}
    assert rows == {r.id: (r.labels, r.state, r.reason) for r in truth(clean).rows()}


def test_too_large_poison_is_above_the_default_limit_and_below_the_producers() -> None:
    traffic = replace(TRAFFIC, rows=50, click_rate=1.0, poison={"too_large": 0.02})
    sizes = [len(m.value or b"") for m in messages(traffic)]
    assert [8_388_608 < size < 12 * 1024 * 1024 for size in sizes if size > 10_000] == [True, True]


def test_retries_are_the_same_bytes_at_another_place() -> None:
    copies: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    partitions: set[bool] = set()
    for record in records(TRAFFIC):
        copies[record.id].append((record.body, record.event_us, record.again, record.partition))
    for same in copies.values():
        assert [again for _, _, again, _ in same] in ([False], [False, True])
        assert len({str(body) for body, *_ in same}) == 1
        if len(same) == 2:
            partitions.add(same[0][3] == same[1][3])
    assert partitions == {True, False}, "retries at the same partition and at others"


def test_keys_are_skewed_as_asked() -> None:
    def share_of_first(skew: float) -> float:
        of = replace(TRAFFIC, users=100, skew=skew, retries=0.0)
        users = Counter(r.key[0] for r in records(of) if r.kind == "served" and r.key)
        return users[1] / users.total()

    assert share_of_first(0.0) == pytest.approx(0.01, abs=0.005)
    assert share_of_first(1.2) == pytest.approx(0.28, abs=0.03)


def test_labels_are_inside_on_and_beyond_the_window() -> None:
    traffic = replace(TRAFFIC, click_rate=0.5, delay_median=timedelta(minutes=10))
    served = {r.id[1:]: r.event_us for r in records(traffic) if r.kind == "served"}
    delays = Counter(
        (r.event_us or 0) - (served[r.id[1:]] or 0) - traffic.after // timedelta(microseconds=1)
        for r in records(traffic) if r.kind == "click"
    )  # fmt: skip
    assert delays[0] > 5
    assert delays[1] > 5
    assert sum(n for beyond, n in delays.items() if beyond > 1) > 50
    assert sum(n for beyond, n in delays.items() if beyond < 0) > 50


def test_the_pipeline_file_that_fits_is_a_valid_one_and_says_the_same() -> None:
    pipeline = parse(pipeline_yaml(TRAFFIC, "feed"))
    assert pipeline.name == "feed"
    assert pipeline.topics == tuple(sorted(TRAFFIC.topics))
    assert pipeline.after == TRAFFIC.after
    assert pipeline.left.out_of_orderness == TRAFFIC.out_of_orderness
    assert pipeline.right[0].out_of_orderness == TRAFFIC.label_out_of_orderness
    first = next(iter(messages(TRAFFIC)))
    assert all(f'"{column}":'.encode() in (first.value or b"") for column in pipeline.left.columns)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"start": datetime(2026, 11, 1)}, "time zone"),  # noqa: DTZ001 - the mistake that is refused
        ({"rows": 0}, "rows"),
        ({"click_rate": 1.5}, "click_rate"),
        ({"poison": {"arsenic": 0.1}}, "arsenic"),
        ({"silent": (START, START)}, "silent"),
        ({"idle_partition": 4}, "feed.served"),
        ({"engagement_partitions": 1, "idle_engagement_partition": 0}, "feed.engagements"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Traffic(**{"start": START, **wrong})  # type: ignore[arg-type]
