"""Simulated records on their way to the broker: drawn row by row, given out in the order of production."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np

from windrow.semantics.intervals import MICROSECOND, micros
from windrow.simulate import poison, record
from windrow.simulate.poison import KINDS, PoisonKind
from windrow.simulate.record import SimulatedRecord, text
from windrow.simulate.settings import Traffic

CHUNK = 4096
"""Rows whose random numbers are drawn at once."""


@dataclass(frozen=True)
class Draws:
    """The random numbers of a chunk of rows. Each chunk has its own generator, independent of the rows before it."""

    users: list[int]
    items: list[int]
    uniform: list[list[float]]
    normal: list[list[float]]
    features: list[list[float]]

    @classmethod
    def of(cls, traffic: Traffic, chunk: int) -> Draws:
        """The random numbers of a chunk, the same in every process."""
        rng = np.random.Generator(np.random.PCG64([traffic.seed, chunk]))
        return cls(
            users=_zipf(rng, traffic.users, traffic.skew),
            items=_zipf(rng, traffic.items, traffic.skew),
            uniform=rng.random((CHUNK, 12)).tolist(),
            normal=rng.standard_normal((CHUNK, 2)).tolist(),
            features=rng.random((CHUNK, traffic.features)).round(4).tolist(),
        )


def _zipf(rng: np.random.Generator, count: int, skew: float) -> list[int]:
    """Draw ids from 1 to `count` with weights 1 / id ** skew."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -skew
    bounds = np.cumsum(weights / weights.sum())
    places = np.searchsorted(bounds, rng.random(CHUNK), side="right").clip(max=count - 1)
    drawn: list[int] = (places + 1).tolist()
    return drawn


class Flow:
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

    def served(self, index: int, at: int, draws: Draws) -> int:
        """Push a served row and everything that follows from it; return its event time.

        Every decision has a random number of its own, whether it is used or not, so that a changed share changes
        nothing else. `u` of a row: 0 time, 1 disorder; 2 retry, 3 its place; 4 click, 5 on the boundary, 6 disorder,
        7 retry; 8 purchase, 9 disorder, 10 retry. `z`: delays of click and purchase.
        """
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
            return self.after + (self.boundaries + 1) % 2  # at the end of the window, then a microsecond after it
        # exp overflows a float above about 700; delay_max cuts far below that
        exponent = min(self.median + self.traffic.delay_sigma * normal, 700.0)
        return max(1, int(min(exp(exponent), self.delay_max)))

    def _engage(self, name: str, row: SimulatedRecord, us: int, action: str, uniform: float, *, retry: bool) -> None:
        """Push an engagement with a row, and the poison that waits for one; in the silent time it is lost."""
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
        """Push a record and, with `retry`, the same again: later, within the disorder, on any partition."""
        self._push(made)
        if retry:
            assert made.event_us is not None
            partitions = self.partitions if made.side == "left" else self.label_partitions
            jitter = self.jitter if made.side == "left" else self.label_jitter
            # times 2, so that every partition gets short and long delays: those come from the same number
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
