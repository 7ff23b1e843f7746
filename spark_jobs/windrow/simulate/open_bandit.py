"""The Open Bandit data as traffic: a left row for each logged impression, a label for each click.

`NOTE` says what is real and what is made up, and is shown wherever the data is shown. The same settings give the same
records in every process: whatever the data does not have is derived from SHA-256 of the impression's name.

    2019-11-24                        2019-12-01
    |----- a week, as it was logged -----|
    start        start + span                        the same week, times scaled: order and bursts are kept
    |------------|
         shown *----- delay -----> click             delays are made up at the new scale, not compressed

The data is produced at once, with event times in the past. Intervals up to about the last click close by events; those
after it close because the topics idle, and their rows without a click are `unknown/side_silent`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import exp, log
from pathlib import Path
from statistics import NormalDist
from typing import Any

from windrow.semantics.intervals import MICROSECOND, micros
from windrow.simulate import poison, record
from windrow.simulate.bandit_wheel import FILES, Impression, fetch, read
from windrow.simulate.poison import PoisonKind
from windrow.simulate.record import Message, SimulatedRecord, text
from windrow.simulate.truth import JoinRules, Truth
from windrow.text import duration_text, short_instant_text

__all__ = ["FILES", "NOTE", "Moved", "fetch", "messages", "pipeline_yaml", "recent", "records", "truth"]

NOTE = """\
What is real: the impressions, items, positions, clicks, propensities, user features and affinities are the
Open Bandit Dataset, logged by the fashion store ZOZOTOWN in November 2019 (Saito, Aihara, Matsutani,
Narita: Open Bandit Dataset and Pipeline, NeurIPS 2021; ZOZO, Inc.), licence CC BY 4.0. It is changed: times
are moved, a week is scaled down to the span of the demo, and impressions are named after file and line.

What is made up, because the data does not have it, and the same in every run: the time of each click (a
lognormal delay, median 40 s, at most 9 min; one click is exactly at the end of the window, one a microsecond
after it, and six some minutes after it, so that these seven match no row); the order of arrival; producer
retries; and poisoned records that must be quarantined, one of them a broken click, so that its impression is
unknown/label_quarantined.
"""
"""Shown wherever this data is shown."""

_WEEK_US = micros(datetime(2019, 11, 24, tzinfo=UTC)), timedelta(days=7) // MICROSECOND
_MEDIAN_S, _SIGMA, _MOST_S = 40.0, 1.1, 540.0
_LATE = 6
_RETRIED_IMPRESSIONS, _RETRIED_CLICKS = 200, 10
"""One in so many is sent twice."""
_POISON_SHOWN: tuple[PoisonKind, ...] = (
    "bad_json", "tombstone", "wrong_type", "time_missing", "far_ahead", "deep_nesting", "bad_utf8",
    "trailing_garbage", "null_key",
)  # fmt: skip
_POISON_CLICKS: tuple[PoisonKind, ...] = (
    "bad_json", "tombstone", "wrong_type", "time_missing", "far_ahead", "bad_utf8", "null_key",
)  # fmt: skip


@dataclass(frozen=True)
class Moved:
    """Where the week is moved to, and how it is spread over the topics."""

    start: datetime
    span: timedelta = timedelta(minutes=100)
    files: tuple[str, ...] = ("random/all", "bts/all", "bts/men")
    impressions_topic: str = "open_bandit.impressions"
    clicks_topic: str = "open_bandit.clicks"
    impression_partitions: int = 3
    click_partitions: int = 2
    interval: timedelta = timedelta(minutes=10)
    after: timedelta = timedelta(minutes=10)
    grace: timedelta = timedelta(seconds=30)
    out_of_orderness: timedelta = timedelta(seconds=30)
    click_out_of_orderness: timedelta = timedelta(minutes=1)
    poisoned: bool = True

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        if self.start.tzinfo is None:
            raise ValueError("start has no time zone: give an aware UTC datetime")
        if self.span <= timedelta(0):
            raise ValueError(f"span must be positive, not {self.span}")
        if self.after <= timedelta(seconds=_MOST_S):
            raise ValueError(f"the window must be longer than the longest usual delay of 9 minutes: {self.after}")
        if unknown := set(self.files) - set(FILES):
            raise ValueError(f"no such files: {sorted(unknown)}; the data has {', '.join(FILES)}")
        if self.impression_partitions < 1 or self.click_partitions < 1:
            raise ValueError("a topic has at least one partition")

    @property
    def topics(self) -> dict[str, int]:
        """Topics and their numbers of partitions."""
        return {self.impressions_topic: self.impression_partitions, self.clicks_topic: self.click_partitions}

    @property
    def ends_at(self) -> datetime:
        """All events happen before this instant, except `far_ahead` poison: produce when it has passed."""
        return self.start + self.span + self.after + timedelta(minutes=_LATE)

    @property
    def rules(self) -> JoinRules:
        """The join rules of `pipeline_yaml`."""
        return JoinRules(self.start, self.interval, self.after, self.click_out_of_orderness)


def recent(now: datetime) -> Moved:
    """Settings of the demo: the data begins two to three hours ago, on the hour, and ends before now."""
    return Moved(now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2))


def messages(moved: Moved, wheel: Path) -> Iterator[Message]:
    """The messages, in produce order; `wheel` comes from `fetch`."""
    return record.messages(records(moved, wheel))


def truth(moved: Moved, wheel: Path, until: datetime | None = None) -> Truth:
    """The expected result after everything has landed and the topics have idled."""
    made = records(moved, wheel)
    return Truth(lambda: made, moved.rules, until)


def records(moved: Moved, wheel: Path) -> tuple[SimulatedRecord, ...]:
    """Every record, in produce order."""
    shown = [_shown(moved, one) for file in moved.files for one in read(wheel, file)]
    clicked = [row for row in shown if row.kind == "clicked impression"]
    # The special clicks are among the first four fifths, where labels are complete and each one matters.
    early = [row for row in clicked if (row.event_us or 0) < micros(moved.start + moved.span * 0.8)]
    special = sorted(early, key=lambda row: _hash(row.id, "special"))[: 2 + _LATE]
    delays = {row.id: _special_delay(moved, rank) for rank, row in enumerate(special)}
    clicks = [_click(moved, row, delays.get(row.id) or _delay(row.id)) for row in clicked]
    made = [*shown, *clicks]
    made += [_again(moved, one) for one in shown if _hash(one.id, "again") % _RETRIED_IMPRESSIONS == 0]
    made += [_again(moved, one) for one in clicks if _hash(one.id, "again") % _RETRIED_CLICKS == 0]
    if moved.poisoned:
        made += _poisoned(moved, shown, clicks)
    return tuple(sorted(made, key=lambda one: (one.produced_us, one.again, one.id)))


def _shown(moved: Moved, one: Impression) -> SimulatedRecord:
    origin, week = _WEEK_US
    us = micros(moved.start) + (micros(one.shown_at) - origin) * (moved.span // MICROSECOND) // week
    return SimulatedRecord(
        side="left",
        topic=moved.impressions_topic,
        partition=_hash(one.impression_id, "partition") % moved.impression_partitions,
        id=one.impression_id,
        key=(one.impression_id,),
        event_us=us,
        produced_us=us + int(_uniform(one.impression_id, "disorder") * _disorder(moved, "left")),
        fate="landed",
        kind="clicked impression" if one.clicked else "impression",
        again=False,
        body={
            "impression_id": one.impression_id,
            "shown_at": text(us),
            "policy": one.policy,
            "campaign": one.campaign,
            "item_id": one.item_id,
            "position": one.position,
            "propensity": one.propensity,
            "user_features": list(one.user_features),
            "features": list(one.affinities),
        },
        stamp_us=us,
    )


def _click(moved: Moved, row: SimulatedRecord, delay_us: int) -> SimulatedRecord:
    assert row.event_us is not None
    assert isinstance(row.body, dict)
    us, name = row.event_us + delay_us, f"click-{row.id}"
    return SimulatedRecord(
        side="right",
        topic=moved.clicks_topic,
        partition=_hash(name, "partition") % moved.click_partitions,
        id=name,
        key=row.key,
        event_us=us,
        produced_us=us + int(_uniform(name, "disorder") * _disorder(moved, "right")),
        fate="landed",
        kind="click",
        again=False,
        body={
            "click_id": name,
            "impression_id": row.id,
            "item_id": row.body["item_id"],
            "position": row.body["position"],
            "clicked_at": text(us),
        },
        stamp_us=us,
    )


def _again(moved: Moved, one: SimulatedRecord) -> SimulatedRecord:
    """A producer's retry on the next partition, no later than the out-of-orderness allows."""
    assert one.event_us is not None
    latest = one.event_us + _disorder(moved, one.side)
    return one._replace(
        again=True,
        partition=(one.partition + 1) % moved.topics[one.topic],
        produced_us=one.produced_us + (latest - one.produced_us) // 2,
    )


def _poisoned(moved: Moved, shown: list[SimulatedRecord], clicks: list[SimulatedRecord]) -> Iterator[SimulatedRecord]:
    """Poison next to good records of the first four fifths, and a broken click of a real impression."""
    for kinds, good in ((_POISON_SHOWN, shown), (_POISON_CLICKS, clicks)):
        in_time = sorted(good, key=lambda one: (one.event_us or 0, one.id))
        for place, kind in enumerate(kinds, start=1):
            neighbour = in_time[place * len(in_time) * 4 // (len(kinds) + 1) // 5]
            if kind == "wrong_type" and neighbour.side == "right":
                row = min(
                    (row for row in shown if row.kind == "impression"),
                    key=lambda row: abs((row.event_us or 0) - (neighbour.event_us or 0)),
                )
                yield _spoiled(kind, _click(moved, row, _delay(row.id)), named_after=row)
            else:
                yield _spoiled(kind, neighbour)


def _spoiled(kind: PoisonKind, good: SimulatedRecord, named_after: SimulatedRecord | None = None) -> SimulatedRecord:
    """A good record, spoiled; its key belongs to no row unless `named_after` is one."""
    assert isinstance(good.body, dict)
    left = good.side == "left"
    nobody = f"poison-{good.side}-{kind}"
    key = nobody if named_after is None else named_after.id
    body: dict[str, Any] = good.body | {"impression_id": key}
    if not left:
        body["click_id"] = nobody
    value = poison.spoil(
        kind,
        body,
        event_time="shown_at" if left else "clicked_at",
        number="features" if left and kind == "deep_nesting" else "position",
        identity="impression_id" if left else "click_id",
        key="impression_id",
    )
    times: dict[PoisonKind, int | None] = {"far_ahead": poison.FAR_AHEAD_US, "time_missing": None}
    return good._replace(
        id=nobody,
        key=None if kind in ("null_key", "tombstone") else (key,),
        event_us=times.get(kind, good.event_us),
        fate=poison.fate(kind, good.side),
        kind=kind,
        body=value,
    )


def _disorder(moved: Moved, side: str) -> int:
    return (moved.out_of_orderness if side == "left" else moved.click_out_of_orderness) // MICROSECOND


def _special_delay(moved: Moved, rank: int) -> int:
    """Delay of a special click: the window's end, a microsecond after it, then 55 s later for each further rank."""
    window = moved.after // MICROSECOND
    return window + (rank if rank < 2 else (rank - 1) * 55_000_000)


def _delay(name: str) -> int:
    """Microseconds from an impression to its click: lognormal, between 1 s and 9 min."""
    normal = NormalDist().inv_cdf(min(max(_uniform(name, "delay"), 1e-12), 1 - 1e-12))
    return int(min(max(exp(log(_MEDIAN_S) + _SIGMA * normal), 1.0), _MOST_S) * 1_000_000)


def _hash(name: str, purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(f"windrow/{purpose}/{name}".encode()).digest()[:8], "big")


def _uniform(name: str, purpose: str) -> float:
    return _hash(name, purpose) / 2**64


def pipeline_yaml(moved: Moved, name: str = "open_bandit") -> str:
    """The pipeline file for the moved data."""
    return f"""\
# Real impressions of a fashion store (Open Bandit Dataset, Saito et al., ZOZO, Inc., CC BY 4.0), times moved.
name: {name}
start: {short_instant_text(moved.start)}
interval: {duration_text(moved.interval)}
left:
  name: impressions
  topic: {moved.impressions_topic}
  format: json
  columns:
    impression_id: string
    shown_at: timestamp
    policy: string
    campaign: string
    item_id: bigint
    position: int
    propensity: double
    user_features: "array<string>"
    features: "array<float>"
  key: [impression_id]
  event_time: shown_at
  event_id: impression_id
  out_of_orderness: {duration_text(moved.out_of_orderness)}
right:
  - name: clicks
    role: label
    topic: {moved.clicks_topic}
    format: json
    columns:
      click_id: string
      impression_id: string
      item_id: bigint
      position: int
      clicked_at: timestamp
    key: [impression_id]
    event_time: clicked_at
    event_id: click_id
    out_of_orderness: {duration_text(moved.click_out_of_orderness)}
    window: {{before: 0s, after: {duration_text(moved.after)}}}
    join: left
    take: all
grace: {duration_text(moved.grace)}
idle: {{mode: caught_up, after: 20s}}
max_skew: 10m
labels:
  clicked: "size(clicks) > 0"
expectations: training_rows
land_every: 2m
"""
