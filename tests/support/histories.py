"""Random histories of one pipeline: produce, retry, reorder, land, close, crash, restart, late, clear, rebuild.

    rules of the machine ──▶ verbs of `semantics.paper.model` ──▶ after every step and at the end, what must always hold
                                     └──▶ kept as a value: `drawn` gives histories that the product repeats on Spark

Whatever happens in whatever order: W and F never go back; published rows are the join at their pins, compared with a
second, independent join in this file; every row occurs once; counts add up; a retry changes nothing; a clear is a new
plan; published rows plus late ledger are a rebuild; no record that kept the promise of its partition is late; slicing
makes no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from windrow.io.delta.crash_points import POINTS
from windrow.semantics.clock import IdlePolicy, NotCaughtUp
from windrow.semantics.intervals import Interval
from windrow.semantics.landing.host_clock import ClockWentBack
from windrow.semantics.ledger import apply
from windrow.semantics.paper.landings import PartitionId, Rules, Sent
from windrow.semantics.paper.model import Model, NotClosed, Outdated, Publication
from windrow.semantics.plan import Plan
from windrow.semantics.records import JoinSpec, Left, Record, Right, RowId
from windrow.semantics.reference import Joined

START = datetime(2026, 11, 1, tzinfo=UTC)
SERVED, LABELS, FEATURES = "served", "labels", "features"
DISORDER = {SERVED: timedelta(seconds=4), LABELS: timedelta(seconds=8), FEATURES: timedelta(0)}
INTERVAL, GRACE = timedelta(seconds=20), timedelta(seconds=5)


def seconds(n: float) -> timedelta:
    return timedelta(seconds=n)


def rules(take: str, join: str, silence: str, idle: IdlePolicy) -> Rules:
    labels = Right("labels", (LABELS,), ("key",), seconds(15), seconds(3), event_id="id", take=take, silence=silence)
    features = Right("features", (FEATURES,), ("key",), seconds(10), role="feature", join=join)
    spec = JoinSpec(Left("served", (SERVED,), ("key",), "id"), (labels, features), START, INTERVAL, GRACE)
    return Rules(spec, {SERVED: 2, LABELS: 2, FEATURES: 1}, DISORDER, idle)


PLACES: tuple[PartitionId, ...] = ((SERVED, 0), (SERVED, 1), (LABELS, 0), (LABELS, 1), (FEATURES, 0))
places = st.sampled_from(PLACES)
keys = st.sampled_from(("a", "a", "b", None))
numbers = st.integers(0, 10**6)
delays = st.sampled_from((-3.000001, -3, 0, 2, 15, 15.000001))
"""Of a label after its left row: at both ends of the window, and a microsecond beyond."""


RUN_POINTS = tuple(p for p in POINTS if p.startswith(("join.", "check.", "publish.")) and p != "join.planned")
"""Where a run may die between its plans and its last publication."""


class Histories(RuleBasedStateMachine):
    """One pipeline's life. `t` is how far event time has come, `now` the landing host's clock."""

    model_of = Model
    seen: ClassVar[Counter[str]] = Counter()
    """How often each case occurred in all histories of this class; each class counts its own."""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        cls.seen = Counter()

    @initialize(
        take=st.sampled_from(("all", "first", "last")),
        join=st.sampled_from(("left", "inner")),
        silence=st.sampled_from(("unknown", "negative")),
        waits=st.booleans(),
        first=st.lists(st.tuples(keys, delays, st.integers(0, 1), st.booleans()), min_size=1, max_size=4),
    )
    def begin(self, take: str, join: str, silence: str, waits: bool, first: list[Any]) -> None:
        """Rows are served and published, so that everything after it can come late for them."""
        idle = IdlePolicy("wait") if waits else IdlePolicy("caught_up", seconds(10))
        self.model = type(self).model_of(rules(take, join, silence, idle))
        self.t, self.now, self.runs, self.ids = START, START, 0, 0
        self.sent: list[tuple[PartitionId, Sent]] = []
        self.newest: dict[PartitionId, datetime] = {}
        self.keeps_the_promise = waits
        self.marks: list[Any] = [None, None]
        for event in first:
            self.serve_and_engage(*event)
        self.a_run_of_the_schedule(40)

    # ---- producers

    @rule(place=places, key=keys, step=st.integers(0, 6), back=st.integers(0, 8))
    def produce(self, place: PartitionId, key: str | None, step: int, back: int) -> None:
        """An event, out of order by no more than its topic may be."""
        self.t += seconds(step)
        self.send(place, self.t - min(seconds(back), DISORDER[place[0]]), key)

    @rule(key=keys, delay=delays, partition=st.integers(0, 1), has_feature=st.booleans())
    def serve_and_engage(self, key: str | None, delay: float, partition: int, has_feature: bool) -> None:
        """A left row, with or without its feature, and a label at an end of its window or just outside."""
        at = self.t + seconds(4)
        self.send((SERVED, partition), at, key)
        if has_feature:
            self.send((FEATURES, 0), at, key)
        self.send((LABELS, partition), at + seconds(delay), key)

    @rule(n=numbers, place=places)
    def retry_of_a_producer(self, n: int, place: PartitionId) -> None:
        """An earlier event again, anywhere in its topic: same id and time, now and then another payload."""
        if self.sent:
            (topic, _), again = self.sent[n % len(self.sent)]
            values = {**again.values, "key": "b"} if n % 5 == 0 else again.values
            self.put((topic, place[1] if topic != FEATURES else 0), replace(again, values=values))

    @rule(place=places, key=keys, n=numbers, beside=st.integers(-5, 20))
    def late(self, place: PartitionId, key: str | None, n: int, beside: int) -> None:
        """An event near one that was sent long ago: it may break the promise of its partition."""
        about = self.sent[n % len(self.sent)][1].event_at or START
        self.send(place, max(START, min(self.t, about + seconds(beside))), key)

    @rule(n=numbers, topic=st.sampled_from((LABELS, FEATURES)), delay=delays)
    def late_for_a_row(self, n: int, topic: str, delay: float) -> None:
        """A label or feature in the window of a row that was served long ago, or just outside of it."""
        rows = [sent for place, sent in self.sent if place[0] == SERVED and not sent.defect]
        row = rows[n % len(rows)]
        at = (row.event_at or START) + seconds(max(delay, 0) if topic == FEATURES else delay)
        if at <= self.t:
            self.send((topic, 0), at, row.values["key"])

    @rule(place=places, kind=st.sampled_from(("ahead", "bad", "before_start")))
    def poison(self, place: PartitionId, kind: str) -> None:
        at = {"ahead": START + timedelta(days=3000), "bad": self.t, "before_start": START - seconds(1)}[kind]
        self.send(place, at, "a", defect="wrong_type" if kind == "bad" else None)

    @rule(key=keys, back=st.integers(0, 3), partition=st.integers(0, 1))
    def serve_and_lose_the_label(self, key: str | None, back: int, partition: int) -> None:
        """A left row, and a label in its window that nobody can read."""
        at = self.t + seconds(4)
        self.send((SERVED, partition), at, key)
        self.send((LABELS, partition), at - seconds(back), key, defect="wrong_type")

    @rule(step=st.integers(10, 60))
    def time_passes(self, step: int) -> None:
        """Every partition gets an event, so that the clock advances."""
        self.t += seconds(step)
        for place in PLACES:
            self.send(place, self.t, "z")

    @rule(step=st.integers(30, 60))
    def labels_fall_silent(self, step: int) -> None:
        """Only the other topics go on; what is caught up idles, and the interval closes if idling may close it."""
        self.send((SERVED, 0), self.t, "b")
        self.t += seconds(step)
        for place in PLACES:
            if place[0] != LABELS:
                self.send(place, self.t, "z")
        self.land(40)
        self.close()

    # ---- landing

    @rule(wait=st.integers(0, 40))
    def land(self, wait: int) -> None:
        self.now = max(self.now, self.t) + seconds(wait)
        self.model.land(self.now)

    @rule(place=places)
    def land_with_lag(self, place: PartitionId) -> None:
        self.now = max(self.now, self.t)
        self.model.land(self.now, unseen={place: 3})

    @rule(topics=st.sets(st.sampled_from(sorted(DISORDER)), min_size=1))
    def crash_while_landing(self, topics: set[str]) -> None:
        """Some topics are committed, then the process is killed: no clock. The next landing is the restart."""
        self.model.land_killed(max(self.now, self.t), tuple(sorted(topics)))
        self.seen["crash"] += 1

    @rule(place=places, n=numbers)
    def replay(self, place: PartitionId, n: int) -> None:
        position = self.model.position[place]
        if position:
            self.model.replay(place, n % position, max(self.now, self.t))
            self.seen["replay"] += 1

    @rule(hours=st.integers(1, 3))
    def host_clock_steps_back(self, hours: int) -> None:
        """Landing refuses, whatever waits to be landed; it is landed once the clock is right again."""
        position = dict(self.model.position)
        with pytest.raises(ClockWentBack):
            self.model.land(self.now - timedelta(hours=hours))
        assert self.model.position == position

    # ---- runs

    @rule(step=st.integers(20, 60))
    def a_run_of_the_schedule(self, step: int) -> None:
        self.time_passes(step)
        self.land(0)
        self.close()

    @rule()
    def close(self) -> None:
        self.carry_out(self.model.plan(self.run()))

    @rule()
    def crash_after_planning(self) -> None:
        self.model.plan(self.run())

    @rule(step=st.integers(10, 60), n=numbers, point=st.sampled_from(RUN_POINTS))
    def crash_in_a_run(self, step: int, n: int, point: str) -> None:
        """The run is killed between its plans and its end; a retry may follow, or the next run finds the holes."""
        self.time_passes(step)
        self.land(0)
        count = len(self.model.publications)
        plans = self.model.plan(self.run())
        if plans:
            self.model.killed_run(plans, point, n % len(plans))
            self.seen[point] += 1
        for publication in self.model.publications[count:]:
            check(self.model, publication)

    @precondition(lambda self: self.runs)
    @rule(n=numbers)
    def retry_of_a_run(self, n: int) -> None:
        """The recorded plans again: nothing where they are done, a refusal where they are outdated."""
        run = f"run {n % self.runs}"
        before = self.model.plans[run]
        plans = self.model.plan(run)
        assert plans == before, "a retry carries out the recorded plans"
        done = {p.plan.id for p in self.model.publications}
        count = len(self.model.publications)
        try:
            self.carry_out(plans)
        except Outdated:
            self.seen["superseded"] += 1
        if all(plan.id in done for plan in plans):
            assert len(self.model.publications) == count, "a retry of what is done is nothing"
            self.seen["retry"] += bool(plans)

    @precondition(lambda self: self.model.publications)
    @rule(n=numbers, length=st.integers(1, 3), is_raced=st.booleans())
    def clear_or_rebuild(self, n: int, length: int, is_raced: bool) -> None:
        """Publish one to three intervals again, each with a new plan and new pins. Another run may be slower."""
        standing = sorted(self.model.standing)
        chosen = [standing[n % len(standing)]]
        chosen += [i for i in standing if chosen[0].end <= i.start < chosen[0].start + length * INTERVAL]
        chosen = [i for k, i in enumerate(chosen) if i.start == chosen[0].start + k * INTERVAL]  # one range
        known = {plan.id for plans in self.model.plans.values() for plan in plans}
        count = len(self.model.publications)
        try:
            plans = self.model.plan(self.run(), chosen)
            slower = self.model.plan(self.run(), chosen) if is_raced else ()
        except NotClosed:  # a drain had published it
            self.model.plans[f"run {self.runs - 1}"] = ()
            return
        assert known.isdisjoint(plan.id for plan in plans), "a clear is a new plan"
        self.carry_out(plans)
        assert len(self.model.publications) == count + len(chosen)
        self.seen["rebuild"] += 1
        if slower:
            with pytest.raises(Outdated):
                self.model.publish_all(slower)
            self.seen["superseded"] += 1

    @precondition(lambda self: self.model.publications)
    @rule()
    def drain(self) -> None:
        self.keeps_the_promise = False  # the end was declared; what comes after is late
        try:
            self.carry_out(self.model.plan(self.run(), drained=True))
            self.seen["drain"] += 1
        except NotCaughtUp:
            self.model.plans[f"run {self.runs - 1}"] = ()
            self.seen["not caught up"] += 1

    # ---- what must hold

    @invariant()
    def clocks_never_go_back(self) -> None:
        if hasattr(self, "marks"):
            marks = [self.model.watermark, self.model.frontier]
            for before, after in zip(self.marks, marks, strict=True):
                assert before is None or (after is not None and after >= before)
            self.marks = marks

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        self.seen["histories"] += 1
        self.model.land(max(self.now, self.t))
        self.close()
        self.every_publication_still_is_its_join()
        rebuilt = {interval: self.model.rebuilt(p) for interval, p in self.model.standing.items()}
        self.live_and_ledger_are_a_rebuild(rebuilt)
        self.slicing_makes_no_difference(rebuilt)
        self.every_row_is_in_one_place()

    def every_publication_still_is_its_join(self) -> None:
        for publication in self.model.publications:
            assert publication.joined == self.model.joined(publication.plan), "the pins are the plan's"

    def live_and_ledger_are_a_rebuild(self, rebuilt: Mapping[Interval, Joined]) -> None:
        for interval, lines in self.model.late().items():
            assert apply(self.model.standing[interval].joined.rows, lines) == rebuilt[interval].rows
            self.seen.update(line.kind for line in lines)
            if self.keeps_the_promise:
                assert not [line for line in lines if line.kind.startswith("late")], "closed too early"

    def every_row_is_in_one_place(self) -> None:
        counts = vars(self.model.account())
        assert counts["read"] == sum(n for name, n in counts.items() if name != "read")
        ids = Counter(row.row_id for row in self.model.rows)
        assert max(ids.values(), default=0) <= 1
        self.seen["rows"] += len(ids)
        self.seen.update(f"{row.label_state} {row.label_reason}" for row in self.model.rows)

    def slicing_makes_no_difference(self, rebuilt: Mapping[Interval, Joined]) -> None:
        """All of it landed at once, at the end: the same rows as a rebuild of everything."""
        whole = Model(self.model.rules)
        for place, log in self.model.log.items():
            for sent in log:
                whole.produce(place, sent)
        whole.land(max(self.now, self.t))
        for interval, publication in self.model.standing.items():
            at_once = whole.joined(replace(publication.plan, pins=whole.pins))
            assert content(at_once.rows) == content(rebuilt[interval].rows)

    # ---- parts of the rules

    def send(self, place: PartitionId, at: datetime, key: str | None, defect: str | None = None) -> None:
        self.ids += 1
        event_id = None if self.ids % 7 == 0 else f"e{self.ids}"
        self.put(place, Sent(at, {"key": key, "id": event_id}, at, defect))

    def put(self, place: PartitionId, sent: Sent) -> None:
        at = sent.event_at
        assert at is not None
        is_trusted = at < START + timedelta(days=2000) and not sent.defect
        if is_trusted:
            if at < self.newest.get(place, START) - DISORDER[place[0]]:
                self.keeps_the_promise = False
            self.newest[place] = max(at, self.newest.get(place, START))
            self.t = max(self.t, at)
        self.model.produce(place, sent)
        self.sent.append((place, sent))

    def has_unlanded(self) -> bool:
        """Whether something waits to be landed: a host clock in the past would not trust it."""
        return any(self.model.position[place] < len(self.model.log[place]) for place in PLACES)

    def run(self) -> str:
        self.runs += 1
        return f"run {self.runs - 1}"

    def carry_out(self, plans: Sequence[Plan]) -> None:
        count = len(self.model.publications)
        try:
            self.model.publish_all(plans)
        finally:
            for publication in self.model.publications[count:]:
                check(self.model, publication)
                self.seen["publications"] += 1


def check(model: Model, publication: Publication) -> None:
    """Compare a publication with a second, independent join: same rows, same matches, and not closed too early."""
    plan, spec = publication.plan, model.rules.spec
    if not plan.drained:
        least = min(c.clock_at for c in plan.watermark if c.clock_at is not None)
        assert len(plan.watermark) == len(PLACES)
        assert plan.interval.end + seconds(15) + GRACE <= least, "closed before its time"
    seen = by_pins(model.landed, plan.pins)
    rights = {r.name: winners(seen, r.topics[0], r.event_id) for r in spec.right}
    expected = []
    for left in winners(seen, SERVED, "id", plan.interval):
        met = {}
        for right in spec.right:
            low, high = left.event_at - right.before, left.event_at + right.after
            same = [r for r in rights[right.name] if r.values["key"] == left.values["key"] is not None]
            found = sorted((r.event_at, r.row_id) for r in same if low <= r.event_at <= high)
            met[right.name] = {"all": found, "first": found[:1], "last": found[-1:]}[right.take]
        if all(met[r.name] for r in spec.right if r.join == "inner"):
            expected.append((left.event_at, left.row_id, met))
    expected.sort(key=lambda row: row[:2])
    published = [
        (r.event_at, r.row_id, {s: [(m.event_at, m.row_id) for m in ms] for s, ms in r.matches.items()})
        for r in publication.joined.rows
    ]
    assert published == expected
    for row in publication.joined.rows:
        assert (row.label_state == "positive") == bool(row.matches["labels"])
        assert row.label_state != "unknown" or row.label_reason


def by_pins(landed: Iterable[Record], pins: Mapping[str, int]) -> dict[RowId, Record]:
    seen: dict[RowId, Record] = {}
    for r in landed:  # in the order of landing
        if r.batch <= pins[r.row_id.topic] and r.row_id not in seen:
            seen[r.row_id] = r
    return seen


def winners(
    seen: Mapping[RowId, Record], topic: str, event_id: str | None, interval: Interval | None = None
) -> list[Any]:
    """One record per event: the least row id of those with the same event id and time."""
    of: dict[Any, Record] = {}
    for row_id in sorted(seen, reverse=True):
        r = seen[row_id]
        if row_id.topic != topic or r.quarantined or (interval and not interval.start <= r.event_at < interval.end):
            continue
        named = r.values.get(event_id) if event_id else None
        of[row_id if named is None else (named, r.event_at)] = r
    return list(of.values())


def content(rows: Iterable[Any]) -> list[Any]:
    """Rows without the batch, which is an audit column."""
    return [
        (
            (r.row_id, r.event_at, r.values, r.label_state, r.label_reason),
            {s: [(m.row_id, m.event_at, m.values) for m in ms] for s, ms in r.matches.items()},
        )
        for r in rows
    ]


@dataclass(frozen=True)
class Step:
    """One call of a verb of the model, and the error that refused it, if any."""

    verb: str
    values: tuple[Any, ...]
    named: Mapping[str, Any]
    refused: type[Exception] | None = None


@dataclass(frozen=True)
class History:
    """Rules and verbs: all that is needed to repeat a history. `seen`: the cases that occurred in it."""

    rules: Rules
    steps: tuple[Step, ...]
    seen: frozenset[str]

    def live(self, model: Model) -> None:
        """Call the same verbs on another model; it must refuse the same calls with the same errors."""
        for step in self.steps:
            verb = getattr(model, step.verb)
            if step.refused is None:
                verb(*step.values, **step.named)
            else:
                with pytest.raises(step.refused):
                    verb(*step.values, **step.named)

    @property
    def cost(self) -> int:
        """Cost of repeating the history, in landings; a run with join and gate costs three."""
        landings = sum(step.verb.startswith("land") for step in self.steps)
        runs = sum(step.verb in ("publish_all", "killed_run") and bool(step.values[0]) for step in self.steps)
        return landings + 3 * runs

    def __str__(self) -> str:
        return "\n".join([f"rules {self.rules}", *(f"{n:3d} {_step_text(step)}" for n, step in enumerate(self.steps))])


VERBS = ("produce", "land", "land_killed", "replay", "plan", "publish_all", "killed_run")


class Kept(Model):
    """A model that records the calls of its verbs as steps."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        self.steps: list[Step] = []
        self._is_inside = False

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return found if name not in VERBS or self._is_inside else self._keeping(name, found)

    def _keeping(self, name: str, verb: Any) -> Any:
        def kept(*values: Any, **named: Any) -> Any:
            self._is_inside, refused = True, None
            try:
                return verb(*values, **named)
            except (ClockWentBack, NotClosed, NotCaughtUp, Outdated) as refusal:
                refused = type(refusal)
                raise
            finally:
                self._is_inside = False
                self.steps.append(Step(name, values, named, refused))

        return kept


def drawn(count: int, steps: int, kinds: Set[str] = frozenset()) -> list[History]:
    """`count` histories of `steps` rules, chosen so that together they cover many cases at a low cost.

    They are chosen from many more histories, without chance: the same code gives the same histories (Hypothesis draws
    constants from it).

    Args:
        kinds: cases that must occur; as long as one is missing, more histories are made, up to a limit.
    """
    for times in (15, 30, 60, 120):
        chosen = _chosen(_lived(times * count, steps), count)
        if kinds <= {name for history in chosen for name in history.seen}:
            break
    return chosen


def _lived(count: int, steps: int) -> list[History]:
    """`count` histories, each with the cases that occurred in it."""
    found: list[History] = []

    class Life(Histories):
        model_of = Kept
        replay = None  # the product cannot land an offset twice; a scenario loses its position instead

        def teardown(self) -> None:
            super().teardown()
            if hasattr(self, "model") and self.model.rows:
                seen = {row.label_reason or row.label_state for row in self.model.rows}
                seen |= {line.kind for lines in self.model.late().values() for line in lines}
                seen |= {step.verb for step in self.model.steps}
                seen |= {step.refused.__name__ for step in self.model.steps if step.refused}
                seen |= {step.values[1] for step in self.model.steps if step.verb == "killed_run"}
                found.append(History(self.model.rules, tuple(self.model.steps), frozenset(seen)))

    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=count,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
    return found


def _chosen(found: list[History], count: int) -> list[History]:
    """Choose greedily the history whose cases are the rarest so far, for its cost."""
    chosen: list[History] = []
    known: Counter[str] = Counter()
    while found and len(chosen) < count:
        best = max(found, key=lambda one: sum(1 / (1 + 4 * known[name]) for name in one.seen) / (6 + one.cost))
        found.remove(best)
        chosen.append(best)
        known.update(best.seen)
    return chosen


def _step_text(step: Step) -> str:
    """A step for people to read, times in seconds after the start: `produce labels/0 a at 12 id=e4`."""

    def at(t: datetime) -> str:
        return f"{(t - START).total_seconds():g}"

    refused = f"  (refused: {step.refused.__name__})" if step.refused else ""
    if step.verb == "produce":
        (topic, partition), sent = step.values
        more = "".join(f" {word}" for word in (sent.values["id"] and f"id={sent.values['id']}", sent.defect) if word)
        return f"produce {topic}/{partition} {sent.values['key']} at {at(sent.event_at)}{more}"
    if step.verb in ("land", "land_killed"):
        killed = f", killed after committing {' '.join(step.values[1])}" if step.values[1:] else ""
        lag = f", lag {dict(step.named['unseen'])}" if step.named.get("unseen") else ""
        return f"{step.verb} now {at(step.values[0])}{killed}{lag}"
    if step.verb == "plan":
        chosen = step.values[1] if step.values[1:] else None
        what = "all that is closed" if chosen is None else " ".join(f"[{at(i.start)},{at(i.end)})" for i in chosen)
        return f"plan {step.values[0]}: {what}{' drained' if step.named.get('drained') else ''}{refused}"
    if step.verb == "killed_run":
        return f"run of {step.values[0][0].run} is killed at {step.values[1]} of plan {step.values[2]}"
    plans: Sequence[Plan] = step.values[0]
    return f"publish {' '.join(f'[{at(p.interval.start)},{at(p.interval.end)}) of {p.run}' for p in plans)}{refused}"
