"""Traffic of the soak, in a process that may be killed: out of order, late, sent twice, poisoned, silent for a while.

    python producer.py KAFKA NAME SEED LIFE RATE WINDOW FILE      until SIGTERM

Event times are close to the wall clock. Each acknowledged record is one line of FILE, `topic partition offset id`; a
record without a line is in doubt, and the topic says whether it was written. LIFE counts the starts: ids differ.
"""

from __future__ import annotations

import heapq
import json
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TextIO

from confluent_kafka import KafkaError, Message, Producer

PARTITIONS = {"served": 3, "engagements": 2}
USERS, ITEMS = 400, 20
NEVER_SERVED = 10**9
"""User ids from here on are in poisoned labels only, so that these belong to no row."""
POISON = ("cut", "tombstone", "text", "timeless", "far", "nan", "garbage", "utf8", "null_key")
SECOND, PHASE = 1_000_000, 20_000_000
"""In microseconds; within a phase, one partition or a side may be silent."""
TICK_S = 0.02


@dataclass(order=True)
class Due:
    """A record that is sent at `at` (microseconds since 1970)."""

    at: int
    number: int
    side: str = field(compare=False)
    partition: int = field(compare=False)
    id: str = field(compare=False)
    value: bytes | None = field(compare=False)


class Traffic:
    """The records, by seed and life; only their instants come from the clock."""

    def __init__(self, seed: int, life: int, window_s: int) -> None:
        self.rng = random.Random(f"{seed}/{life}")
        self.seed, self.life, self.window = seed, life, window_s * SECOND
        self.number = 0

    def served(self, at: int) -> Iterator[Due]:
        """A served row at `at`, and what follows from it; nothing where everybody is silent."""
        rng, silent = self.rng, self._silent(at)
        user, item = int(USERS * rng.random() ** 2), rng.randrange(ITEMS)
        name = f"r{self.life}-{self.number}"
        self.number += 1
        if silent == "all":
            return
        body = {
            "request_id": name,
            "user_id": user,
            "item_id": item,
            "served_at": text(at),
            "features": [rng.randrange(-64, 64) / 64 for _ in range(4)],
        }
        yield from self._sent("served", name, at, body)
        if rng.random() < 0.01:
            yield self._poison("served", at, body)
        if rng.random() < 0.25:
            yield from self._engaged(name, at, user, item)

    def _engaged(self, name: str, at: int, user: int, item: int) -> Iterator[Due]:
        chance = self.rng.random()
        if chance < 0.1:
            when = at + self.window  # the last instant of the window,
        elif chance < 0.15:
            when = at + self.window + 1  # and the first one behind it
        else:
            when = at + int(self.rng.random() * 1.3 * self.window)
        action = "purchase" if self.rng.random() < 0.1 else "click"
        body = {
            "event_id": f"{action[0]}{name}",
            "user_id": user,
            "item_id": item,
            "action": action,
            "engaged_at": text(when),
        }
        yield from self._sent("engagements", f"{action[0]}{name}", when, body)
        if self.rng.random() < 0.03:
            yield self._poison("engagements", when, body)

    def _sent(self, side: str, name: str, at: int, body: dict[str, Any]) -> Iterator[Due]:
        """One sending: within a second, or late; now and then a second one on any partition."""
        rng = self.rng
        value = json.dumps(body, separators=(",", ":")).encode()
        late = rng.random() < (0.004 if side == "served" else 0.02)
        first = at + int(rng.random() * SECOND) + (rng.randrange(5, 40) * SECOND if late else 0)
        yield self._due(first, side, body["user_id"], name, value)
        if rng.random() < 0.03:
            again = first + (rng.randrange(20) * SECOND if rng.random() < 0.2 else rng.randrange(SECOND))
            yield self._due(again, side, rng.randrange(8), name, value)

    def _due(self, at: int, side: str, place: int, name: str, value: bytes | None) -> Due:
        """The record in its partition, or in the next one while that is silent; a silent side sends afterwards."""
        many, silent = PARTITIONS[side], self._silent(at)
        if silent == side:
            at = (at // PHASE + 1) * PHASE
        partition = place % many
        if silent == f"{side}/{partition}":
            partition = (partition + 1) % many
        self.number += 1
        return Due(at, self.number, side, partition, name, value)

    def _silent(self, at: int) -> str:
        """Who is silent in the phase of an instant."""
        phase, into = divmod(at, PHASE)
        rng = random.Random(f"{self.seed}/{phase}")
        partitions = [f"{side}/{p}" for side, many in PARTITIONS.items() for p in range(many)]
        who = rng.choices(["nobody", "all", "engagements", rng.choice(partitions)], [4, 1, 2, 3])[0]
        return "nobody" if who == "all" and into > PHASE * 2 // 5 else who

    def _poison(self, side: str, at: int, body: dict[str, Any]) -> Due:
        kind, name = self.rng.choice(POISON), f"x{self.life}-{self.number}"
        is_left = side == "served"
        identity, event_time = ("request_id", "served_at") if is_left else ("event_id", "engaged_at")
        spoiled = {**body, identity: name}
        if not is_left:
            spoiled |= {"user_id": NEVER_SERVED + self.number, "action": "click"}
        if kind == "text":
            spoiled["item_id"] = "seven"
        elif kind == "timeless":
            del spoiled[event_time]
        elif kind == "far":
            spoiled[event_time] = "2099-01-01T00:00:00Z"
        elif kind == "nan":
            spoiled["item_id"] = float("nan")
        elif kind == "null_key":
            spoiled["user_id"] = None
        value: bytes | None = json.dumps(spoiled, separators=(",", ":")).encode()
        assert value is not None
        if kind == "cut":
            value = value[:-4]
        elif kind == "garbage":
            value += b" {"
        elif kind == "utf8":
            value = value.replace(b'":"', b'":"\xff', 1)
        elif kind == "tombstone":
            value = None
        return self._due(at + self.rng.randrange(SECOND), side, self.rng.randrange(8), name, value)


def text(us: int) -> str:
    """An instant in microseconds since 1970 as the records have it."""
    second, micros = divmod(us, SECOND)
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}.{micros:06d}Z"


class Sender:
    """Sends records and notes the acknowledged ones."""

    def __init__(self, kafka: str, name: str, notes: TextIO) -> None:
        settings = {"enable.idempotence": True, "acks": "all", "linger.ms": 10, "message.timeout.ms": 3_600_000}
        quiet = {"log_level": 0, "error_cb": lambda _: None}
        self._producer = Producer({"bootstrap.servers": kafka, **settings, **quiet})
        self._name, self._notes = name, notes

    def send(self, due: Due) -> None:
        """Hand a record over, waiting while the queue is full."""
        while True:
            try:
                self._producer.produce(
                    f"{self._name}.{due.side}",
                    due.value,
                    partition=due.partition,
                    timestamp=due.at // 1000,
                    on_delivery=lambda error, message, id=due.id: self._noted(error, message, id),
                )
                return
            except BufferError:
                self._producer.poll(0.1)

    def _noted(self, error: KafkaError | None, message: Message, name: str) -> None:
        if error is not None:
            raise SystemExit(f"not delivered: {error}")
        self._notes.write(f"{message.topic()} {message.partition()} {message.offset()} {name}\n")

    def serve(self) -> None:
        """Take acknowledgements, and put their lines on the disk."""
        self._producer.poll(0)
        self._notes.flush()

    def finish(self) -> None:
        """Wait until everything is acknowledged."""
        self._producer.flush(300)
        self._notes.flush()


def main() -> None:
    """Produce until SIGTERM, then wait for the last acknowledgements."""
    kafka, name, seed, life, rate, window, file = sys.argv[1:]
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stop.append(number))
    traffic, waiting = Traffic(int(seed), int(life), int(window)), list[Due]()
    begins, rows = time.time(), 0
    with open(file, "a") as notes:
        sender = Sender(kafka, name, notes)
        while not stop:
            now = time.time()
            while rows < (now - begins) * float(rate):
                for due in traffic.served(int((begins + rows / float(rate)) * SECOND)):
                    heapq.heappush(waiting, due)
                rows += 1
            while waiting and waiting[0].at <= now * SECOND:
                sender.send(heapq.heappop(waiting))
            sender.serve()
            time.sleep(TICK_S)
        sender.finish()


if __name__ == "__main__":
    main()
