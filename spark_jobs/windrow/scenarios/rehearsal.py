"""Run a scenario on paper (`semantics.paper.model`), and collect every difference from what it expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windrow.scenarios.notation import Event, Row, line_text, own_column, row_of
from windrow.scenarios.scenario import Change, Erase, Expect, Land, Publish, Reconsider, RecordPlans, Replay, Scenario
from windrow.scenarios.timeline import Windows, differences
from windrow.semantics.clock import NotCaughtUp
from windrow.semantics.intervals import interval_of, intervals_between
from windrow.semantics.landing.host_clock import ClockWentBack
from windrow.semantics.paper.landings import Sent
from windrow.semantics.paper.model import Model, NotClosed, Outdated
from windrow.semantics.records import Left, Record, Right, is_canary, unreadable_for
from windrow.semantics.reference import landed_once, side_of

REFUSALS: Mapping[type[Exception], str] = {
    NotClosed: "open",
    Outdated: "superseded",
    NotCaughtUp: "behind",
    ClockWentBack: "clock",
}
"""Word of a scenario for each refusal."""


@dataclass(frozen=True)
class Mismatch:
    """A difference from what is expected. `line` of the scenario's file; `message` may have several lines."""

    line: int
    message: str


class Rehearsal:
    """A model on which a scenario runs, with the scenario's names of rows.

    Args:
        model: default: a model on paper. Tests pass one that repeats every step on the product.
    """

    def __init__(self, scenario: Scenario, model: Model | None = None) -> None:
        self.scenario = scenario
        self.model = model or Model(scenario.rules)
        self.names: dict[Any, str] = {}
        self.now = scenario.times.start

    def run(self) -> tuple[Mismatch, ...]:
        """Run every step in turn, and return all mismatches: one does not stop the steps after it."""
        return tuple(
            Mismatch(self.scenario.lines[n], message)
            for n, step in enumerate(self.scenario.history)
            for message in self._step(n, step)
        )

    @property
    def rows(self) -> tuple[Row, ...]:
        """The training table in the scenario's words."""
        return tuple(row_of(row, self.names) for row in self.model.rows)

    @property
    def late(self) -> tuple[str, ...]:
        """The late ledger in the scenario's words."""
        lines = (line for lines in self.model.late().values() for line in lines)
        return tuple(line_text(line, self.names, self.scenario.times) for line in lines)

    def _step(self, n: int, step: object) -> Iterator[str]:
        if isinstance(step, Land):
            yield from self._land(step)
        elif isinstance(step, Replay):
            row_id = next(i for i, name in self.names.items() if name == step.name and i.topic == step.topic)
            self.model.replay((row_id.topic, row_id.partition), row_id.offset, self.now)
        elif isinstance(step, Reconsider):
            self.now = step.now_at
            self.model.reconsider(self.now)
        elif isinstance(step, Erase):
            self.model.erase([dict(zip(self.scenario.key, step.key, strict=True))], step.mode)
        elif isinstance(step, Change) and step.partitions is None:
            self.model.recreate(step.topic)
        elif isinstance(step, Change):
            self.model.add_partitions(step.topic, step.partitions or 1)
        elif isinstance(step, RecordPlans):
            self.model.plan(step.run, self._intervals(step.intervals))
        elif isinstance(step, Publish):
            yield from self._publish(f"step {n}", step)
        elif isinstance(step, Expect):
            yield from self._compare(step)

    def _land(self, step: Land) -> Iterator[str]:
        for event in step.events:
            row_id = self.model.produce(event.partition_id, sent(event, self.scenario))
            self.names[row_id] = event.name
        logged = [event.logged_at or event.at for event in step.events]
        self.now = step.now_at or max([self.now, *logged])
        refused = None
        try:
            if step.is_unanswered:
                self.model.land_unanswered(self.now)
            elif step.is_killed:
                self.model.land_killed(self.now, tuple(self.model.batches))
            else:
                self.model.land(self.now, unseen=step.unseen)
        except ClockWentBack:
            refused = REFUSALS[ClockWentBack]
        if refused != step.refused:
            yield f"expected  {step.refused or 'no refusal'}\nfound     {refused or 'it was carried out'}"

    def _publish(self, run: str, step: Publish) -> Iterator[str]:
        try:
            chosen = self._intervals(step.intervals)
            plans = self.model.plan(step.run or run, chosen, drained=step.is_drain, forced=step.is_forced)
            self.model.publish_all(plans)
        except tuple(REFUSALS) as refusal:
            if step.refused != REFUSALS[type(refusal)]:
                yield f"expected  {step.refused or 'no refusal'}\nfound     {REFUSALS[type(refusal)]}: {refusal}"
        else:
            if step.refused is not None:
                yield f"expected  a refusal: {step.refused}\nfound     it was carried out"

    def _before_start(self, landed: list[Record]) -> int:
        spec = self.scenario.rules.spec
        served = side_of(landed, spec.left, lambda at: at < spec.start)
        return len(served.rows) + served.duplicate

    def _is_lost_to_a_stream(self, record: Record) -> bool:
        spec = self.scenario.rules.spec
        streams: tuple[Left | Right, ...] = (spec.left, *spec.right)
        return any(record.row_id.topic in s.topics and unreadable_for(record, s) for s in streams)

    def _intervals(self, bounds: tuple[datetime, datetime] | None) -> list[Any] | None:
        return None if bounds is None else list(intervals_between(*bounds, self.scenario.rules.spec.interval))

    def _compare(self, expect: Expect) -> Iterator[str]:
        times = self.scenario.times
        values = {
            "watermark": (expect.watermark, times.text_at(self.model.watermark)),
            "frontier": (expect.frontier, times.text_at(self.model.frontier)),
            "holder": (expect.holder, _partition_text(self.model.holder)),
        }
        for name, (wanted, found) in values.items():
            if wanted is not None and not _is_same(wanted, found, self.scenario):
                yield f"{name}: expected {wanted}, found {found}"
        clocks = {f"{c.topic}/{c.partition}": times.text_at(c.clock_at) for c in self.model.clocks}
        for partition, wanted in expect.clocks.items():
            found = clocks.get(partition, "no such partition")
            if not _is_same(wanted, found, self.scenario):
                yield f"clock of {partition}: expected {wanted}, found {found}"
        if expect.rows is not None and expect.rows != self.rows:
            yield "\n".join(["rows", *differences(expect.rows, self.rows, windows(self.scenario))]).rstrip()
        if expect.open is not None and sorted(expect.open) != sorted(self.open):
            yield f"open rows\n  expected  {' '.join(expect.open)}\n  found     {' '.join(self.open)}"
        counts = self.counts() if expect.counts else {}
        for name, number in expect.counts.items():
            if counts.get(name) != number:
                known = "" if name in counts else f"; counts are: {', '.join(sorted(counts))}"
                yield f"count {name}: expected {number}, found {counts.get(name)}{known}"
        if expect.exceeded is not None and expect.exceeded != self.model.decision.exceeded:
            yield f"exceeded\n  expected  {expect.exceeded}\n  found     {self.model.decision.exceeded}"
        if expect.late is not None and not _are_lines(expect.late, self.late):
            yield "\n".join(
                ["late ledger", *(f"  expected  {x}" for x in expect.late), *(f"  found     {x}" for x in self.late)]
            )

    @property
    def open(self) -> tuple[str, ...]:
        """Left rows of intervals without a publication."""
        spec = self.scenario.rules.spec
        landed, _ = landed_once(self.model.landed, self.model.batches)
        return tuple(
            self.names[r.row_id]
            for r in sorted((r for r in landed if r.event_at is not None), key=lambda r: r.order)
            if r.row_id.topic in spec.left.topics
            and unreadable_for(r, spec.left) is None
            and not is_canary(r, spec.left)
            and r.order[0] >= spec.start
            and interval_of(r.order[0], spec.start, spec.interval) not in self.model.standing
        )

    def counts(self) -> dict[str, int]:
        """Every count that a scenario may expect, by its name there."""
        landed, replayed = landed_once(self.model.landed, self.model.pins)
        standing = [p.joined for p in self.model.standing.values()]
        counted = {
            "publications": len(self.model.publications),
            "waiting": self.model.decision.waiting.rows,
            "read": len(landed) + replayed,
            "replayed": replayed,
            "quarantined": sum(r.quarantined is not None for r in landed),
            "unreadable": sum(r.quarantined is None and self._is_lost_to_a_stream(r) for r in landed),
            "before_start": self._before_start(landed),
            "emitted": sum(j.balance.left.emitted for j in standing),
            "duplicate": sum(j.balance.left.duplicate for j in standing),
            "unpaired": sum(j.balance.left.unpaired for j in standing),
            "canary": sum(j.balance.left.canary for j in standing),
            "erased": sum(j.balance.left.erased for j in standing),
        }
        spec = self.scenario.rules.spec
        counted["conflict"] = sum(j.conflict[spec.left.name] for j in standing)
        for right in spec.right:
            sides = [j.balance.right[right.name] for j in standing]
            for name in ("read", "matched", "unmatched", "duplicate", "filtered", "canary", "erased"):
                counted[f"{right.name}.{name}"] = sum(getattr(side, name) for side in sides)
            counted[f"{right.name}.not_taken"] = sum(j.not_taken[right.name] for j in standing)
            counted[f"{right.name}.conflict"] = sum(j.conflict[right.name] for j in standing)
        return counted


def sent(event: Event, scenario: Scenario) -> Sent:
    """An event as input of the model."""
    values: Mapping[str, Any] = {
        **dict(zip(scenario.key, event.key, strict=True)),
        "id": event.event_id,
        "action": None,
        "value": None if event.is_bad else 1,
        **event.values,
    }
    defect = "wrong_type" if event.is_bad else None
    unreadable = {own_column(stream): "wrong_type" for stream in event.bad_for}
    return Sent(event.at, values, event.logged_at or event.at, defect, unreadable, event.is_lost)


def windows(scenario: Scenario) -> Windows:
    """The event times and windows of a scenario, for its timeline."""
    spec = scenario.rules.spec
    return Windows(
        times=scenario.times,
        at={
            (stream, event.name): event.at
            for stream, topics in scenario.streams
            for event in scenario.events
            if event.topic in topics
        },
        window={r.name: (r.before, r.after) for r in spec.right},
        left=spec.left.name,
    )


def _partition_text(clock: Any) -> str:
    return "none" if clock is None else f"{clock.topic}/{clock.partition}"


def _is_same(wanted: str, found: str, scenario: Scenario) -> bool:
    """Whether two values are equal as text or as times."""
    if wanted == found or "none" in (wanted, found):
        return wanted == found
    try:
        return scenario.times.length(wanted) == scenario.times.length(found)
    except ValueError:
        return False


def _are_lines(wanted: tuple[str, ...], found: tuple[str, ...]) -> bool:
    """Whether the lines agree in any order; an expected line may leave out its end from a comma or a space on."""
    rest = sorted(found)
    for line in sorted(wanted, key=len, reverse=True):
        same = [f for f in rest if f == line or f.startswith((f"{line} ", f"{line},"))]
        if not same:
            return False
        rest.remove(same[0])
    return not rest
