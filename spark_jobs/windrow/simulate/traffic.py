"""Seeded traffic of a feed: served rows, and the clicks and purchases that follow them.

The same settings give the same records, byte for byte, in every process. Every partition keeps the promise of the
pipeline file: no event, retries included, is older than the newest one before it by more than the out-of-orderness.
Poison does not break this promise for the good records around it.

    event time   s1   s2  s3        c1        a served row every span / rows, a click after a lognormal delay
    produced       s1 s3   s2    c1  c1'      delayed by up to the out-of-orderness; c1' is a producer's retry
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import exp, log
from typing import Any

import numpy as np

from windrow.semantics.intervals import MICROSECOND, micros
from windrow.simulate import poison, record
from windrow.simulate.poison import KINDS, PoisonKind
from windrow.simulate.record import Message, SimulatedRecord, text
from windrow.simulate.truth import JoinRules, Truth
from windrow.text import duration_text, short_instant_text

_CHUNK = 4096


@dataclass(frozen=True)
class Traffic:
    """Settings of the traffic. Shares are between 0 and 1; `start` has a time zone."""

    start: datetime
    rows: int = 10_000
    span: timedelta = timedelta(hours=1)
    seed: int = 1
    # who is served what
    users: int = 20_000
    items: int = 1_000
    skew: float = 0.8
    """Zipf exponent of users and items: 0 is uniform, above 1 a few keys take most of the traffic."""
    features: int = 16
    # what they do
    click_rate: float = 0.05
    purchase_share: float = 0.1
    """Share of clicks that are followed by a purchase, an event of the same topic that is not a click."""
    delay_median: timedelta = timedelta(seconds=90)
    delay_sigma: float = 1.4
    delay_max: timedelta = timedelta(minutes=45)
    """Longest delay; longer than the window of 30 minutes, so that some labels come too late."""
    boundary_share: float = 0.02
    """Share of clicks put at the end of the window, alternately exactly at it and a microsecond after it."""
    # how it arrives
    disorder: float = 1.0
    """Used share of the out-of-orderness: 0 produces in event order."""
    retries: float = 0.01
    """Share of events that are sent twice: same bytes, another offset, any partition."""
    served_partitions: int = 4
    engagement_partitions: int = 3
    idle_partition: int | None = None
    """A partition of the served topic that never gets a record."""
    idle_engagement_partition: int | None = None
    silent: tuple[datetime, datetime] | None = None
    """Engagements with an event time in `[from, to)` are lost before Kafka."""
    poison: Mapping[PoisonKind, float] = field(default_factory=dict)
    """By kind, share of the rows that are followed by poison on each topic; at least one row if above 0."""
    stamp_ahead: bool = False
    """Whether `far_ahead` poison also has a CreateTime of 2099."""
    # what the pipeline file says
    served_topic: str = "feed.served"
    engagements_topic: str = "feed.engagements"
    before: timedelta = timedelta(0)
    after: timedelta = timedelta(minutes=30)
    interval: timedelta = timedelta(minutes=10)
    grace: timedelta = timedelta(minutes=1)
    out_of_orderness: timedelta = timedelta(seconds=30)
    label_out_of_orderness: timedelta = timedelta(minutes=1)

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        if self.start.tzinfo is None:
            raise ValueError("start has no time zone: give an aware UTC datetime")
        if self.rows < 1 or self.span <= timedelta(0):
            raise ValueError(f"rows ({self.rows}) and span ({self.span}) must be positive")
        if self.users < 1 or self.items < 1 or self.features < 0:
            raise ValueError("users and items must be at least 1, features at least 0")
        for name in ("click_rate", "purchase_share", "boundary_share", "disorder", "retries"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1, not {getattr(self, name)}")
        for kind, share in self.poison.items():
            if kind not in KINDS:
                raise ValueError(f"unknown poison {kind!r}: one of {', '.join(KINDS)}")
            if not 0 <= share <= 1:
                raise ValueError(f"the share of poison {kind!r} must be between 0 and 1, not {share}")
        if self.silent is not None and not self.silent[0] < self.silent[1]:
            raise ValueError("silent must be (from, to) with from before to")
        if self.delay_median <= timedelta(0) or self.delay_max <= timedelta(0) or self.delay_sigma < 0:
            raise ValueError("delay_median and delay_max must be positive, delay_sigma at least 0")
        for topic, partitions, idle in (
            (self.served_topic, self.served_partitions, self.idle_partition),
            (self.engagements_topic, self.engagement_partitions, self.idle_engagement_partition),
        ):
            if partitions < (1 if idle is None else 2) or not (idle is None or 0 <= idle < partitions):
                raise ValueError(f"{topic}: {partitions} partitions, partition {idle} idle, leave none to use")

    @property
    def rate(self) -> float:
        """Served rows per second."""
        return self.rows / self.span.total_seconds()

    @property
    def topics(self) -> dict[str, int]:
        """Topics and their numbers of partitions."""
        return {
            self.served_topic: self.served_partitions,
            self.engagements_topic: self.engagement_partitions,
        }

    @property
    def ends_at(self) -> datetime:
        """Before this instant all records are produced and all events happen, except `far_ahead` poison."""
        latest = max(self.delay_max, self.after + MICROSECOND) * 2
        return self.start + self.span + latest + max(self.out_of_orderness, self.label_out_of_orderness)

    @property
    def rules(self) -> JoinRules:
        """The join rules of `pipeline_yaml`."""
        return JoinRules(self.start, self.interval, self.after, self.label_out_of_orderness, before=self.before)


def messages(traffic: Traffic) -> Iterator[Message]:
    """The messages of the traffic, in produce order."""
    return record.messages(records(traffic))


def truth(traffic: Traffic, until: datetime | None = None) -> Truth:
    """The expected result; with `until`, of what is produced before that instant."""
    return Truth(lambda: records(traffic), traffic.rules, until)


def records(traffic: Traffic) -> Iterator[SimulatedRecord]:
    """Yield every record in produce order, `lost` ones included; memory holds only records that are not yet due."""
    flow = _Flow(traffic)
    for first in range(0, traffic.rows, _CHUNK):
        draws = _Draws.of(traffic, first // _CHUNK)
        for i in range(min(_CHUNK, traffic.rows - first)):
            yield from flow.until(flow.served(first + i, i, draws))
    yield from flow.until(None)


@dataclass(frozen=True)
class _Draws:
    """The random numbers of a chunk of rows. Each chunk has its own generator, independent of the rows before it."""

    users: list[int]
    items: list[int]
    uniform: list[list[float]]
    normal: list[list[float]]
    features: list[list[float]]

    @classmethod
    def of(cls, traffic: Traffic, chunk: int) -> _Draws:
        rng = np.random.Generator(np.random.PCG64([traffic.seed, chunk]))
        return cls(
            users=_zipf(rng, traffic.users, traffic.skew),
            items=_zipf(rng, traffic.items, traffic.skew),
            uniform=rng.random((_CHUNK, 12)).tolist(),
            normal=rng.standard_normal((_CHUNK, 2)).tolist(),
            features=rng.random((_CHUNK, traffic.features)).round(4).tolist(),
        )


def _zipf(rng: np.random.Generator, count: int, skew: float) -> list[int]:
    """Draw ids from 1 to `count` with weights 1 / id ** skew."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -skew
    bounds = np.cumsum(weights / weights.sum())
    places = np.searchsorted(bounds, rng.random(_CHUNK), side="right").clip(max=count - 1)
    drawn: list[int] = (places + 1).tolist()
    return drawn


class _Flow:
    """Records that are not yet due, in a heap by produce time."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = t = traffic
        self.start, self.span = micros(t.start), t.span // MICROSECOND
        self.after, self.delay_max = t.after // MICROSECOND, t.delay_max // MICROSECOND
        self.median = log(t.delay_median / MICROSECOND)
        self.jitter = t.disorder * (t.out_of_orderness // MICROSECOND)
        self.label_jitter = t.disorder * (t.label_out_of_orderness // MICROSECOND)
        self.partitions = [p for p in range(t.served_partitions) if p != t.idle_partition]
        self.label_partitions = [p for p in range(t.engagement_partitions) if p != t.idle_engagement_partition]
        self.silent = None if t.silent is None else (micros(t.silent[0]), micros(t.silent[1]))
        self.poison = _poisoned_rows(t)
        self.waiting: list[PoisonKind] = []
        """Poison to be put behind the next label."""
        self.heap: list[tuple[int, int, SimulatedRecord]] = []
        self.sequence = 0
        self.boundaries = 0
        self.poisoned = 0

    def until(self, us: int | None) -> Iterator[SimulatedRecord]:
        """Yield the records produced before an instant. Rows come in event order, so no later one is due earlier."""
        while self.heap and (us is None or self.heap[0][0] < us):
            yield heapq.heappop(self.heap)[2]

    def served(self, index: int, at: int, draws: _Draws) -> int:
        """Push a served row and everything that follows from it; return its event time."""
        t, u, z = self.traffic, draws.uniform[at], draws.normal[at]
        served = self.start + int((index + u[0]) * self.span / t.rows)
        user, item = draws.users[at], draws.items[at]
        name = f"{t.seed}-{index:08d}"
        body: dict[str, Any] = {
            "request_id": f"r{name}", "user_id": user, "item_id": item, "served_at": text(served),
            "features": draws.features[at],
        }  # fmt: skip
        row = self._record("left", f"r{name}", (user, item), served, u[1], "served", body)
        self._send(row, retry=u[2] < t.retries, uniform=u[3])
        for kind in self.poison.get(index, ()):
            self._spoil(kind, row)
            self.waiting.append(kind)
        if u[4] < t.click_rate:
            clicked = served + self._delay(z[0], boundary=u[5] < t.boundary_share)
            self._engage(f"c{name}", row, clicked, "click", u[6], retry=u[7] < t.retries)
            if u[8] < t.purchase_share:
                bought = clicked + self._delay(z[1], boundary=False)
                self._engage(f"p{name}", row, bought, "purchase", u[9], retry=u[10] < t.retries)
        return served

    def _delay(self, normal: float, *, boundary: bool) -> int:
        """Microseconds from a row to its label."""
        if boundary:
            self.boundaries += 1
            return self.after + (self.boundaries + 1) % 2
        # exp overflows a float above about 700; delay_max cuts far below that
        exponent = min(self.median + self.traffic.delay_sigma * normal, 700.0)
        return max(1, int(min(exp(exponent), self.delay_max)))

    def _engage(self, name: str, row: SimulatedRecord, us: int, action: str, uniform: float, *, retry: bool) -> None:
        assert row.key is not None
        body = {
            "event_id": name, "user_id": row.key[0], "item_id": row.key[1], "action": action,
            "engaged_at": text(us),
        }  # fmt: skip
        made = self._record("right", name, row.key, us, uniform, action, body)
        if self.silent is not None and self.silent[0] <= us < self.silent[1]:
            self._push(made._replace(fate="lost"))
            return
        self._send(made, retry=retry, uniform=uniform)
        for kind in self.waiting:
            self._spoil(kind, made)
        self.waiting.clear()

    def _record(
        self, side: record.SideName, name: str, key: tuple[object, ...], us: int, uniform: float, kind: str,
        body: dict[str, Any],
    ) -> SimulatedRecord:  # fmt: skip
        left = side == "left"
        partitions = self.partitions if left else self.label_partitions
        return SimulatedRecord(
            side=side,
            topic=self.traffic.served_topic if left else self.traffic.engagements_topic,
            partition=partitions[body["user_id"] % len(partitions)],
            id=name,
            key=key,
            event_us=us,
            produced_us=us + int(uniform * (self.jitter if left else self.label_jitter)),
            fate="filtered" if kind == "purchase" else "landed",
            kind=kind,
            again=False,
            body=body,
            stamp_us=us,
        )

    def _send(self, made: SimulatedRecord, *, retry: bool, uniform: float) -> None:
        self._push(made)
        if retry:
            assert made.event_us is not None
            partitions = self.partitions if made.side == "left" else self.label_partitions
            jitter = self.jitter if made.side == "left" else self.label_jitter
            other = partitions[int(uniform * 2 * len(partitions)) % len(partitions)]
            later = made.produced_us + int(uniform * (made.event_us + jitter - made.produced_us))
            self._push(made._replace(again=True, produced_us=later, partition=other))

    def _spoil(self, kind: PoisonKind, good: SimulatedRecord) -> None:
        """Push poison behind a good record: same partition and times, another id."""
        assert isinstance(good.body, dict)
        assert good.key is not None
        left = good.side == "left"
        self.poisoned += 1
        name = f"x{self.traffic.seed}-{self.poisoned:06d}"
        # no row is ever served to this user, so that a spoiled label belongs to no row
        key = good.key if left else (self.traffic.users + self.poisoned, good.key[1])
        identity = "request_id" if left else "event_id"
        body = good.body | {identity: name, "user_id": key[0]}
        if not left:
            body["action"] = "click"
        event_time = "served_at" if left else "engaged_at"
        number = "features" if left and self.traffic.features else "item_id"
        value = poison.spoil(kind, body, event_time=event_time, number=number, identity=identity, key="user_id")
        times: dict[PoisonKind, int | None] = {
            "far_ahead": poison.FAR_AHEAD_US, "before_start": poison.LONG_AGO_US, "time_missing": None,
        }  # fmt: skip
        fate = poison.fate(kind, good.side)
        stamped = kind == "far_ahead" and self.traffic.stamp_ahead
        self._push(
            good._replace(
                id=name,
                key=None if kind in ("null_key", "tombstone") else key,
                event_us=times.get(kind, good.event_us),
                fate=fate,
                kind=kind,
                again=False,
                body=value,
                stamp_us=poison.FAR_AHEAD_US if stamped else good.stamp_us,
            )
        )

    def _push(self, made: SimulatedRecord) -> None:
        self.sequence += 1
        heapq.heappush(self.heap, (made.produced_us, self.sequence, made))


def _poisoned_rows(traffic: Traffic) -> dict[int, list[PoisonKind]]:
    """Rows that are followed by poison, in the first four fifths: later ones might have no label after them."""
    rng = np.random.Generator(np.random.PCG64([traffic.seed, 0, 1]))
    rows: dict[int, list[PoisonKind]] = {}
    for kind in KINDS:
        share = traffic.poison.get(kind, 0.0)
        count = max(1, round(share * traffic.rows)) if share else 0
        for at in rng.integers(0, max(1, traffic.rows * 4 // 5), count).tolist():
            rows.setdefault(at, []).append(kind)
    return rows


def pipeline_yaml(traffic: Traffic, name: str = "feed", *, idle: str = "{mode: caught_up, after: 5m}") -> str:
    """The pipeline file of the traffic; `idle` is the text of that field."""
    t = traffic
    return f"""\
name: {name}
start: {short_instant_text(t.start)}
interval: {duration_text(t.interval)}
left:
  name: served
  topic: {t.served_topic}
  format: json
  columns:
    request_id: string
    user_id: bigint
    item_id: bigint
    served_at: timestamp
    features: "array<float>"
  key: [user_id, item_id]
  event_time: served_at
  event_id: request_id
  out_of_orderness: {duration_text(t.out_of_orderness)}
right:
  - name: clicks
    role: label
    topic: {t.engagements_topic}
    format: json
    where: "action = 'click'"
    silence: unknown
    columns: {{event_id: string, user_id: bigint, item_id: bigint, action: string, engaged_at: timestamp}}
    key: [user_id, item_id]
    event_time: engaged_at
    event_id: event_id
    out_of_orderness: {duration_text(t.label_out_of_orderness)}
    window: {{before: {duration_text(t.before)}, after: {duration_text(t.after)}}}
    join: left
    take: all
grace: {duration_text(t.grace)}
idle: {idle}
max_skew: 10m
labels:
  clicked: "size(clicks) > 0"
expectations: training_rows
"""
