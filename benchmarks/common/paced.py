"""Live traffic at a given rate: each row is sent at its event time; a fifth of them are clicked some seconds later.

    warm-up      step 1       step 2          …       tail, until somebody says stop
    |-----------|------------|------------|---- … ---|------ ─ ─
     first rate   first rate   second rate             first rate: so that the last step's windows close

A step has exactly rate × length rows, whoever is late: the schedule decides, not the producer's loop.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Event

from common.traffic import Records, send, sender

PARTITIONS = {"served": 4, "clicks": 2}
CLICKED_EVERY = 5
_TICK_S = 0.02


@dataclass(frozen=True)
class Step:
    """A period, in seconds since 1970, and its rows per second."""

    rate: int
    begins: float
    ends: float

    @property
    def rows(self) -> int:
        """Number of served rows."""
        return round(self.rate * (self.ends - self.begins))

    def due(self, now: float) -> int:
        """Number of rows that are due."""
        return int((min(now, self.ends) - self.begins) * self.rate)

    def moment(self, row: int) -> int:
        """Time of a row, counted from the step's first, in microseconds since 1970."""
        return int(self.begins * 1_000_000) + row * 1_000_000 // self.rate


def rising(rates: Sequence[int], begins: float, length: float, warm_up: float) -> list[Step]:
    """The schedule: warm-up, one step per rate, tail."""
    steps = [Step(rates[0], begins, begins + warm_up)]
    for rate in rates:
        steps.append(Step(rate, steps[-1].ends, steps[-1].ends + length))
    return [*steps, Step(rates[0], steps[-1].ends, math.inf)]


def produce(kafka: str, name: str, steps: Sequence[Step], stop: Event) -> None:
    """Run in its own process: produce both topics of `name` until `stop`."""
    records, producer = Records(), sender(kafka)
    clicks: list[tuple[int, int]] = []
    for number, at in _rows(steps, stop):
        if number is None:
            producer.poll(0)
        else:
            send(producer, f"{name}.served", number % PARTITIONS["served"], records.served(number, at), at)
            if number % CLICKED_EVERY == 0:
                heapq.heappush(clicks, (at + 1_000_000 + number * 7_919 % 8_000_000, number))
        while clicks and clicks[0][0] <= at:
            due, clicked = heapq.heappop(clicks)
            partition = clicked // CLICKED_EVERY % PARTITIONS["clicks"]
            send(producer, f"{name}.clicks", partition, records.click(clicked, due), due)
    producer.flush()


def _rows(steps: Sequence[Step], stop: Event) -> Iterator[tuple[int | None, int]]:
    """Number and moment of each row when it is due; (None, now) between them."""
    number = 0
    for step in steps:
        sent = 0
        while not stop.is_set():
            now = time.time()
            for row in range(sent, step.due(now)):
                yield number, step.moment(row)
                number += 1
            sent = max(sent, step.due(now))
            if now >= step.ends:
                break
            yield None, int(now * 1_000_000)
            time.sleep(_TICK_S)
