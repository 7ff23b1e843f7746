"""What `windrow explain` prints about a row, sentence by sentence, against the pure model of the pipeline's life.

    random life ─▶ Model ─▶ case of each landed left row ─▶ answer ─▶ lines ─▶ for each line one check of the model

A line without a check fails: nothing is said that nobody verifies. The checks know the records, the publications and
`reference_join`; they use no function that `explain` finds its verdicts with.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from windrow.config import Pipeline, parse
from windrow.io.registers.clocks import Observation
from windrow.jobs.explain.answer import answer
from windrow.jobs.explain.case import Case
from windrow.jobs.explain.lines import lines
from windrow.schemas import LATE
from windrow.semantics.clock import IdlePolicy
from windrow.semantics.intervals import Interval, interval_of
from windrow.semantics.ledger import Line, Newer, ledger
from windrow.semantics.paper.landings import PartitionId, Rules, Sent
from windrow.semantics.paper.model import Model, NotClosed, Publication
from windrow.semantics.plan import Plan
from windrow.semantics.records import Gap, JoinSpec, Left, Record, Right, RowId
from windrow.semantics.reference import JoinedRow, landed_once, reference_join

START = datetime(2026, 11, 1, tzinfo=UTC)
SECOND, INTERVAL, GRACE = timedelta(seconds=1), timedelta(seconds=20), timedelta(seconds=5)
DISORDER = {"served": 4 * SECOND, "labels": 8 * SECOND, "views": timedelta(0)}
LONGEST_AFTER = 15 * SECOND
PLACES: tuple[PartitionId, ...] = (("served", 0), ("served", 1), ("labels", 0), ("labels", 1), ("views", 0))
ROW_ID = ("_topic", "_epoch", "_partition", "_offset")

PIPELINE = """\
name: model
start: 2026-11-01T00:00:00Z
interval: 20s
max_skew: 0s
grace: 5s
left: {{name: served, topic: served, columns: &columns {{key: string, id: string, kind: string, t: timestamp}},
  key: [key], event_time: t, event_id: id, out_of_orderness: 4s, where: "kind = 'real'"}}
right:
  - {{name: labels, role: label, topic: labels, columns: *columns, key: [key], event_time: t, event_id: id,
     out_of_orderness: 8s, window: {{before: 3s, after: 15s}}, take: {take}, silence: {silence},
     where: "kind = 'real'"}}
  - {{name: views, role: feature, topic: views, columns: *columns, key: [key], event_time: t, out_of_orderness: 0s,
     window: {{after: 10s}}, join: {views}}}
  - {{name: seen, role: feature, topic: views, key: [key], event_time: t, out_of_orderness: 0s,
     columns: {{key: string, id: string, kind: string, t: timestamp, n: bigint}}, window: {{after: 4s}}, join: {seen},
     where: "kind = 'real'"}}
idle: {{mode: {idle}, after: 10s}}
"""


def is_real(values: Mapping[str, Any]) -> bool | None:
    return None if values["kind"] is None else values["kind"] == "real"


@dataclass(frozen=True)
class PaperClock(Observation):
    """The newest observation of a model's clock."""

    model: Model | None = None

    def gaps_between(
        self, lo: datetime, hi: datetime, *, pipeline: Pipeline, pins: Mapping[str, int]
    ) -> tuple[Gap, ...]:
        assert self.model
        return tuple(
            gap
            for gap in self.model.spec_at(pins).gaps
            if (gap.start_at is None or gap.start_at <= hi) and (gap.end_at is None or gap.end_at >= lo)
        )


FAILED_CRITICAL = ("failed", "critical")


@dataclass(frozen=True)
class Judged:
    """What a gate said about a plan, and whether a person overrode it."""

    rows: tuple[dict[str, Any], ...]
    overridden_by: str | None

    @property
    def is_blocked(self) -> bool:
        return bool(self.blocking)

    @property
    def blocking(self) -> list[dict[str, Any]]:
        return [r for r in self.rows if r["verdict"] == "error" or (r["verdict"], r["severity"]) == FAILED_CRITICAL]

    def verdict(self, publication: Publication) -> tuple[str, str | None]:
        """Return the verdict of the register, and its reason."""
        if self.overridden_by:
            return "overridden", "label rate 0 % < 10 %"
        if any((r["verdict"], r["severity"]) == ("failed", "warning") for r in self.rows):
            return "warned", "unknown rate 24 % > 20 %"
        return ("passed", None) if publication.joined.rows else ("empty", "no row")


class Life:
    """A pipeline of random rules, and some rounds of its life.

    Traffic, landings, records that can be read only later or by one stream, runs by schedule and by force, verdicts of
    every kind, and now and then another pipeline file.
    """

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.silence, self.idle = rng.choice(("unknown", "unknown", "negative")), rng.choice(("wait", "caught_up"))
        self.pipeline, spec = self.rules()
        policy = IdlePolicy(self.idle, timedelta(0) if self.idle == "wait" else 10 * SECOND)
        self.model = Model(Rules(spec, {"served": 2, "labels": 2, "views": 1}, DISORDER, policy))
        self.now, self.t, self.n = START, START, 0
        self.served: list[Sent] = []
        self.sent: dict[str, list[Sent]] = {}
        self.has_labels = rng.random() < 0.9
        self.arrived: dict[tuple[str, int], datetime] = {}
        self.judged: dict[Plan, Judged] = {}
        self.last_plan: dict[Interval, Plan] = {}
        self.published_at: dict[int, datetime] = {}
        self.lines: dict[int, tuple[Line, ...]] = {}
        self.of_other_file = 0  # publications up to this number were made under another pipeline file
        for _ in range(rng.randrange(1, 5)):
            self.round()
            if rng.random() < 0.2:
                self.change_file()
        self.files = {name: {"opened": rng.randrange(3), "of": rng.randrange(3, 9)} for name in ("served", "training")}

    def rules(self) -> tuple[Pipeline, JoinSpec]:
        """Return a pipeline with a random file, and the same rules as the model takes them."""
        rng = self.rng
        take, join = rng.choice(("all", "all", "first", "last")), rng.choice(("left", "inner", "inner"))
        views, seen = (join, join) if rng.random() < 0.7 else rng.sample(("left", "inner"), 2)
        text = PIPELINE.format(take=take, views=views, seen=seen, silence=self.silence, idle=self.idle)
        both = frozenset(("key", "id", "kind", "t"))
        key, label = ("key",), ("label", "id", is_real, "left", take, self.silence)
        right: list[Any] = [
            Right("labels", ("labels",), key, 15 * SECOND, 3 * SECOND, *label),  # type: ignore[arg-type]
            Right("views", ("views",), key, 10 * SECOND, role="feature", join=views, columns=both),
            Right("seen", ("views",), key, 4 * SECOND, role="feature", join=seen, where=is_real, columns=both | {"n"}),
        ]
        left = Left("served", ("served",), key, "id", is_real)
        return parse(text), JoinSpec(left, tuple(right), START, INTERVAL, GRACE)

    def change_file(self) -> None:
        """Write another pipeline file; what is published stays as the last one made it."""
        pipeline, spec = self.rules()
        if pipeline.config_hash == self.pipeline.config_hash or self.of_other_file:
            return
        self.of_other_file = len(self.model.publications)
        self.pipeline, self.model.rules = pipeline, replace(self.model.rules, spec=spec)
        self.model._at.clear()  # its cache is of the rules

    def round(self) -> None:
        rng, first = self.rng, self.t
        for _ in range(rng.randrange(3, 8)):
            self.event(first)
        self.t += rng.choice((20, 35, 60)) * SECOND
        for place in PLACES:
            if place[0] != "labels" or (self.has_labels and rng.random() < 0.7):
                self.model.produce(place, Sent(self.t, {"key": "z", "id": None, "kind": "real"}, self.t))
        self.now = max(self.now, self.t) + rng.choice((0, 1, 40)) * SECOND
        if rng.random() < 0.15:
            self.model.land_killed(self.now, rng.sample(("labels", "served", "views"), 2))
            self.note_batches()
            return
        self.model.land(self.now, unseen={rng.choice(PLACES): rng.randrange(1, 3)} if rng.random() < 0.2 else None)
        self.note_batches()
        self.run()
        if rng.random() < 0.4:
            self.reconsider()

    def note_batches(self) -> None:
        for batch in self.model.batches.items():
            self.arrived.setdefault(batch, self.now)

    def reconsider(self) -> None:
        """Judge the quarantined records again, after the reason for some of them is gone."""
        self.now += SECOND
        for log in self.model.log.values():
            for n, sent in enumerate(log):
                if sent.defect and self.rng.random() < 0.5:
                    log[n] = replace(sent, defect=None, event_at=sent.event_at or sent.record_at)
        self.model.reconsider(self.now)
        self.note_batches()

    def event(self, first: datetime) -> None:
        """A left row and right rows at and around its window; each of them may be bad in one way."""
        rng = self.rng
        back = rng.choice((0, 0, 0, 25)) * SECOND  # late for what is published
        at = max(first - back, START - SECOND) + rng.randrange(-1, 25) * SECOND
        left = self.send("served", at, rng.choice(("a", "a", "b", "7", None)))
        self.served.append(left)
        if rng.random() < 0.25:
            self.model.produce(("served", rng.randrange(2)), left)
        for topic, sent in self.sent.items():  # a retry that may land batches later, with a lesser row id
            if topic != "views" and rng.random() < 0.15:
                self.model.produce((topic, 0), rng.choice(sent))
        count = 30 if rng.random() < 0.02 else rng.randrange(0, 5)
        for topic in rng.choices(("labels", "labels", "views") if self.has_labels else ("views",), k=count):
            about = rng.choice(self.served)
            delays = (-4, -3, 0, 1, 4, 5, 10, 11, 15, 16, 40)
            at = (about.event_at or START) + rng.choice(delays) * SECOND
            key = about.values["key"]
            sent = self.send(topic, at, rng.choice((key, key, key, key and f" {key.upper()}", "b")))
            if rng.random() < 0.2:
                self.model.produce((topic, rng.randrange(2) if topic == "labels" else 0), sent)

    def send(self, topic: str, at: datetime, key: str | None) -> Sent:
        rng, self.n = self.rng, self.n + 1
        event_id = rng.choice((f"e{self.n}", f"e{self.n}", None))
        kind = rng.choice(("real",) * 8 + ("other", None))
        defect = "wrong_type" if rng.random() < 0.08 else None
        bad_time = defect and rng.random() < 0.5
        logged_at = at + rng.choice((0, 0, 0, 0, 40)) * SECOND
        unreadable = {"n": rng.choice(("wrong_type", "not_finite"))} if topic == "views" and rng.random() < 0.15 else {}
        sent = Sent(None if bad_time else at, {"key": key, "id": event_id, "kind": kind}, logged_at, defect, unreadable)
        is_lost = topic == "labels" and rng.random() < 0.03
        self.model.produce((topic, rng.randrange(2) if topic != "views" else 0), replace(sent, is_lost=is_lost))
        self.sent.setdefault(topic, []).append(sent)
        return sent

    def run(self) -> None:
        model, rng, name = self.model, self.rng, f"run {self.n}"
        deed = rng.random()
        if deed < 0.12:
            return  # closed, and not published yet
        try:
            if deed < 0.3:
                interval = interval_of(max(START, self.t - 20 * SECOND), START, INTERVAL)
                if interval not in model.standing:
                    self.publish(model.plan(name, [interval], forced=True))
            elif deed < 0.4 and model.standing:
                self.publish(model.plan(name, [rng.choice(sorted(model.standing))]))
            elif deed < 0.45 and all(clock.caught_up for clock in model.clocks):
                self.publish(model.plan(name, drained=True))
            else:
                self.publish(model.plan(name))
        except NotClosed:
            return

    def publish(self, plans: Iterable[Plan]) -> None:
        """Judge each plan, and publish it unless it is blocked and nobody overrides that."""
        for plan in plans:
            judged = self.judge()
            self.judged[plan], self.last_plan[plan.interval] = judged, plan
            if not judged.is_blocked or judged.overridden_by:
                publication = self.model.publish(plan)
                self.published_at[publication.number] = self.now

    def judge(self) -> Judged:
        rng, report = self.rng, f"r{len(self.judged)}.html"
        rows = []
        for name in ("rows", "label_rate", "unknown_rate"):
            failed = ("failed", rng.choice(("critical", "warning", "warning", "info")))
            verdict, severity = failed if rng.random() < 0.12 else ("passed", "critical")
            rows.append(
                {
                    "expectation": f"expect_{name}", "metric": name, "value": rng.randrange(9) / 8, "bound": ">= 0.5",
                    "severity": severity, "verdict": "error" if rng.random() < 0.02 else verdict, "report": report,
                    "judged_at": self.now,
                }
            )  # fmt: skip
        judged = Judged(tuple(rows), None)
        return replace(judged, overridden_by="ann") if judged.is_blocked and rng.random() < 0.5 else judged

    @property
    def clock(self) -> PaperClock:
        rows = tuple({**vars(c), "batch": self.model.pins[c.topic], "gap": None} for c in self.model.clocks)
        return PaperClock(0, self.pipeline.topics, rows, self.model)

    def case(self, left: Record) -> Case:
        """Everything on record about a row, as the tables would have it."""
        model = self.model
        grid = None if left.event_at is None else interval_of(left.event_at, START, INTERVAL)
        is_in = not left.quarantined and left.event_at is not None and left.event_at >= START and is_real(left.values)
        register = [self.registered(p) for p in model.publications if is_in and p.plan.interval == grid]
        standing = model.standing.get(grid) if grid else None
        row = row_in(standing, left)
        meta = dict(zip(ROW_ID, vars(left.row_id).values(), strict=True)) | {
            "_event_time": left.event_at, "_batch": left.batch, "_record_at": left.record_at,
            "_arrived_at": self.arrived[left.row_id.topic, left.batch], "_quarantined": left.quarantined,
            "_unreadable": None, "_reconsidered": left.reconsidered,
        }  # fmt: skip
        plan = None if not is_in else standing.plan if standing else self.last_plan.get(grid)  # type: ignore[arg-type]
        return Case(
            pipeline=self.pipeline,
            row={**meta, **left.values},
            interval=grid if is_in else None,
            records=tuple(self.rng.sample(model.landed, len(model.landed))),  # a table has no order
            register=register,
            training_row=row and training(row, standing.number if standing else 0, self.now),
            clock=self.clock,
            watermarks=model.watermark_at,
            judgements=self.judged[plan].rows if plan else [],
            ledger=self.ledger_of(standing, left) if standing and is_in else [],
            files=self.files,
        )

    def registered(self, p: Publication) -> dict[str, Any]:
        """Return the register's row of a publication."""
        judged = self.judged[p.plan]
        verdict, why = judged.verdict(p)
        return {
            "number": p.number, "plan": self.plan(p).to_json(), "published_at": self.published_at[p.number],
            "verdict": verdict, "why": why, "overridden_by": judged.overridden_by,
            "override_reason": judged.overridden_by and "known outage", "training_version": p.number + 100,
        }  # fmt: skip

    def ledger_of(self, p: Publication, left: Record) -> list[dict[str, Any]]:
        """Return the late ledger's lines about a row, with the columns that are printed."""
        if p.number <= self.of_other_file:
            return [{**dict.fromkeys(LATE.names), "publication": p.number, "kind": "config_changed"}]
        return [
            {
                **dict.fromkeys(LATE.names), "publication": p.number, "kind": line.kind, "stream": line.stream,
                "missed_by_us": line.missed_by and line.missed_by // timedelta(microseconds=1), "cause": line.cause,
                **dict(zip(("state_before", "reason_before"), line.state[0] if line.state else (), strict=False)),
                **dict(zip(("state_after", "reason_after"), line.state[1] if line.state else (), strict=False)),
            }
            for line in self.late(p)
            if left.row_id in (line.row_id, line.gone)
        ]  # fmt: skip

    def late(self, p: Publication) -> tuple[Line, ...]:
        """Return the late ledger of a publication, complete up to the newest pins."""
        if p.number not in self.lines:
            model, plan = self.model, p.plan
            clocks = {c.identity: c.newest_at and c.newest_at - DISORDER[c.topic] for c in plan.watermark}
            landed = {r.row_id: r for r in landed_once(model.landed, model.pins)[0]}
            how = {"drained": plan.drained, "forced": plan.is_forced(LONGEST_AFTER, GRACE)}
            newer = Newer(landed, plan.pins, model.watermark_at, clocks, DISORDER, **how)
            self.lines[p.number] = ledger(p.joined, model.rebuilt(p), model.spec_at(model.pins), newer)
        return self.lines[p.number]

    def plan(self, p: Publication) -> Plan:
        is_other = p.number <= self.of_other_file
        return replace(p.plan, config_hash="of another file" if is_other else self.pipeline.config_hash)

    def check_all(self) -> Counter[str]:
        """Check every sentence about every landed left row; return how often each kind of sentence was met."""
        seen: Counter[str] = Counter()
        lefts = {r.row_id: r for r in self.model.landed if r.row_id.topic == "served"}  # the reconsidered one stands
        for left in lefts.values():
            Statements(self, left, seen).check()
        return seen


def row_in(publication: Publication | None, left: Record) -> JoinedRow | None:
    rows = publication.joined.rows if publication else ()
    return next((row for row in rows if row.row_id == left.row_id), None)


def training(row: JoinedRow, number: int, now: datetime) -> dict[str, Any]:
    met = {
        name: [dict(zip(ROW_ID, vars(match.row_id).values(), strict=True)) for match in found]
        for name, found in row.matches.items()
    }
    state = {"label_state": row.label_state, "label_reason": row.label_reason}
    return {**met, **state, "_publication": number, "_observed_until": now}


def text(row_id: RowId) -> str:
    return "/".join(str(part) for part in vars(row_id).values())


def shown(at: datetime | None) -> str:
    if at is None:
        return "-"
    return f"{at:%Y-%m-%d %H:%M:%S}" + (f".{at:%f}".rstrip("0") if at.microsecond else "") + "Z"


def length(printed: str) -> timedelta:
    units = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
    return timedelta(seconds=sum(float(part[:-1]) * units[part[-1]] for part in printed.split()))


@dataclass
class Statements:
    """The sentences about one left row, each with the check that its words call for."""

    life: Life
    left: Record
    seen: Counter[str]
    stream: str = ""
    listed: dict[str, set[str]] = field(default_factory=dict)
    known: dict[str, JoinedRow] = field(default_factory=dict)
    more: Counter[str] = field(default_factory=Counter)
    changes: list[tuple[str, str | None]] = field(default_factory=list)
    has_flip: bool = False

    def __post_init__(self) -> None:
        model, left = self.life.model, self.left
        self.model, self.spec = model, model.rules.spec
        is_in = not left.quarantined and left.event_at is not None and left.event_at >= START and is_real(left.values)
        self.interval = interval_of(left.event_at, START, INTERVAL) if left.event_at and is_in else None
        self.standing = model.standing.get(self.interval) if self.interval else None
        self.pins = self.standing.plan.pins if self.standing else model.pins
        self.published = row_in(self.standing, left)
        self.is_of_other_file = self.standing is not None and self.standing.number <= self.life.of_other_file
        self.by_batch = {(text(r.row_id), r.batch): r for r in model.landed}
        self.standing_at_pins = self.landed_at(self.pins)
        self.landed_now = self.landed_at(dict.fromkeys(model.pins, 10**9))

    # ---- what the model says

    def alone(self, pins: Mapping[str, int], **changes: Any) -> JoinedRow:
        """The row as the reference join makes it if nothing keeps it from being emitted."""
        asked = f"{pins} {changes}"
        if asked not in self.known:
            self.known[asked] = self._alone(pins, changes)
        return self.known[asked]

    def _alone(self, pins: Mapping[str, int], changes: Mapping[str, Any]) -> JoinedRow:
        right = tuple(replace(r, join="left", **changes) for r in self.spec.right)
        spec = replace(self.model.spec_at(pins), right=right, left=replace(self.spec.left, event_id=None))
        assert self.interval
        records = [replace(self.left, batch=0), *(r for r in self.model.landed if r.row_id.topic != "served")]
        return reference_join(records, spec, self.interval, {**pins, "served": 0}).rows[0]

    def landed_at(self, pins: Mapping[str, int]) -> dict[str, Record]:
        """Return by row id what stands at the pins: no offset lands twice here, but it may be reconsidered."""
        return {text(r.row_id): r for r in self.model.landed if self.landed_by(r, pins)}

    def near_misses(self, right: Right) -> dict[str, Record]:
        """Return by row id the right rows that nearly match, by rules 8, 11 and 12 alone.

        Of a record that was reconsidered above the pin, what stood at the pin counts if that is near.
        """
        later = [r for r in self.model.landed if not self.landed_by(r, self.pins)]
        rows = [r for r in (*self.standing_at_pins.values(), *later) if r.row_id.topic in right.topics]
        near = {text(r.row_id): r for r in reversed(rows) if self.is_near(r, right)}
        return {row: r for row, r in near.items() if row not in self.matched(right.name)}

    def is_near(self, r: Record, right: Right) -> bool:
        ours, theirs, at = self.left.values["key"], r.values["key"], self.left.event_at
        if ours is None or theirs is None or ours.strip().lower() != theirs.strip().lower():
            return False
        assert at
        is_chosen = True if right.where is None else right.where(r.values)
        is_inside = r.event_at is not None and at - right.before <= r.event_at <= at + right.after
        if unread(r, right):
            was_in_time = r.record_at is None or r.record_at >= at - right.before
            return is_chosen is not False and (is_inside if r.event_at else was_in_time)
        if ours != theirs:
            return is_inside and is_chosen is True
        return r.event_at is not None and (is_inside or is_chosen is True)

    def rebuilt(self) -> JoinedRow | None:
        assert self.standing
        return next((r for r in self.model.rebuilt(self.standing).rows if r.row_id == self.left.row_id), None)

    def matched(self, stream: str) -> set[str]:
        row = self.published or self.alone(self.pins)
        return {text(match.row_id) for match in row.matches[stream]}

    def landed_by(self, row: Record, pins: Mapping[str, int]) -> bool:
        return row.batch <= pins[row.row_id.topic]

    def stands_for(self, winner: str, row: Record, pins: Mapping[str, int]) -> bool:
        """Whether a record is the least landed one of the event of another one (rule 11)."""
        topic = row.row_id.topic
        same = [
            r for r in self.landed_at(pins).values()
            if r.row_id.topic == topic and not r.quarantined and is_real(r.values)
            and r.values["id"] is not None and (r.values["id"], r.event_at) == (row.values["id"], row.event_at)
        ]  # fmt: skip
        return bool(same) and text(min(r.row_id for r in same)) == winner != text(row.row_id)

    def state(self) -> tuple[str | None, str | None]:
        """State and reason as published, or as the join has them at the pins; twice None without a row."""
        row = self.published
        if row is None and self.standing:
            found = self.model.joined(self.standing.plan).rows
            row = next((r for r in found if r.row_id == self.left.row_id), None)
        elif row is None:
            pins = self.model.pins
            assert self.interval
            found = reference_join(self.model.landed, self.model.spec_at(pins), self.interval, pins).rows
            row = next((r for r in found if r.row_id == self.left.row_id), None)
        return (row.label_state, row.label_reason) if row else (None, None)

    def inner_without_match(self, pins: Mapping[str, int]) -> list[str]:
        row = self.alone(pins)
        assert pins != self.pins or not self.is_of_other_file, "only its own pipeline file says why it is left out"
        return [r.name for r in self.spec.right if r.join == "inner" and not row.matches[r.name]]

    def is_doubted(self, bad: Record) -> bool:
        """Whether a quarantined record alone makes the row doubtful, in a label stream with the window of its own."""
        (stream,) = (r for r in self.spec.right if r.name == self.stream)
        spec = replace(
            self.spec,
            right=(replace(stream, role="label", join="left", silence="negative"),),
            left=replace(self.spec.left, event_id=None),
        )
        assert self.interval
        records = [replace(self.left, batch=0), replace(bad, batch=0)]
        (row,) = reference_join(records, spec, self.interval, dict.fromkeys(self.pins, 0)).rows
        return row.label_reason == "label_quarantined"

    @property
    def is_forced(self) -> bool:
        return bool(self.standing and self.standing.plan.is_forced(LONGEST_AFTER, GRACE))

    @property
    def watermark(self) -> datetime | None:
        clocks = self.standing.plan.watermark if self.standing else self.model.clocks
        at = [c.clock_at for c in clocks]
        return None if None in at or not at else min(c for c in at if c)

    @property
    def closing(self) -> datetime:
        assert self.interval
        return self.interval.end + LONGEST_AFTER + GRACE

    @property
    def is_closed(self) -> bool:
        return self.model.watermark is not None and self.closing <= self.model.watermark

    # ---- the sentences

    def check(self) -> None:
        found = answer(self.life.case(self.left), all_columns=False)
        printed = list(lines(found))
        self.seen[found["outcome"]] += 1
        self.seen["reconsidered left row"] += self.left.reconsidered is not None
        for line in printed:
            self.one(line, printed)
            self.seen.update(word for word in WORDS if word in line)
        self.nothing_is_left_out(found)

    def one(self, line: str, printed: list[str]) -> None:
        for pattern, check in SENTENCES:
            if parts := re.fullmatch(pattern, line):
                self.seen[pattern] += 1
                assert check(self, *parts.groups()), (line, "\n".join(printed), self.left)
                return
        raise AssertionError(f"nobody checks this sentence: {line!r}")

    def nothing_is_left_out(self, found: Mapping[str, Any]) -> None:
        """Every match and near miss is listed or counted, and so is every change that a rebuild would make."""
        assert found["agrees"] in (True, None), found
        assert (found["agrees"] is None) <= (self.standing is None or self.is_of_other_file)
        assert (found["interval"] is None) == (self.interval is None) == (found["streams"] == {})
        state = (found["label_state"], found["label_reason"])
        assert state == ((None, None) if found["outcome"] not in STATED else self.state())
        for right in self.spec.right if self.interval else ():
            matched, near, more = self.matched(right.name), self.near_misses(right), self.more[right.name]
            listed = self.listed.get(right.name, set())
            missed = listed - matched
            assert matched <= listed <= matched | set(near), right.name
            assert len(missed) + more == len(near), (right.name, listed, near)
            assert not more or len(missed) == MOST
            self.are_nearest(missed, near)
        assert sorted(self.changes, key=str) == sorted(self.expected_changes(), key=str), found["late"]
        assert self.has_flip == self.is_flipped()

    def are_nearest(self, listed: set[str], near: Mapping[str, Record]) -> None:
        """Check that no near miss that is only counted is nearer in event time than one that is listed."""
        at = self.left.event_at or START
        apart = {row: abs(r.event_at - at) if r.event_at else FOREVER for row, r in near.items()}
        farthest = max((apart[row] for row in listed), default=timedelta(0))
        assert farthest <= min((apart[row] for row in apart if row not in listed), default=FOREVER)

    def rebuilt_if_comparable(self) -> JoinedRow | None:
        return self.rebuilt() if self.standing and not self.is_of_other_file else None

    def expected_changes(self) -> list[tuple[str, str | None]]:
        """Return kind and stream of each change that the late ledger must hold about the row."""
        if self.standing is None:
            return []
        if self.is_of_other_file:
            return [("config_changed", None)]
        old, new = self.published, self.rebuilt()
        if old is None or new is None:
            if old is None and new is None:
                return []
            events = [r.values["id"] is not None and (r.values["id"], r.event_at) for r in self.standing.joined.rows]
            is_replaced = new is None or (new.values["id"], new.event_at) in events
            is_late = not self.landed_by(self.left, self.pins)
            return [("winner_changed" if is_replaced else "late_left" if is_late else "pair_appeared", None)]
        changes: list[tuple[str, str | None]] = [
            (self.kind_of(match, old.matches[right.name], right), right.name)
            for right in self.spec.right
            for match in new.matches[right.name]
            if match.row_id not in {m.row_id for m in old.matches[right.name]}
        ]
        if self.is_flipped() and ("labels" not in {stream for _, stream in changes}):
            changes.append(("state_changed", None))
        return changes

    def kind_of(self, match: Record, before: Iterable[Record], right: Right) -> str:
        """Return the kind of an added match: it replaces a retry of its event, or is new."""
        event = (match.values["id"], match.event_at) if right.name == "labels" and match.values["id"] else None
        is_retry = event in {(m.values["id"], m.event_at) for m in before}
        return "winner_changed" if is_retry or self.landed_by(match, self.pins) else f"late_{right.role}"

    def is_flipped(self) -> bool:
        """Whether a rebuild changes the label state, or the reason, of a row that stays."""
        old, new = self.published, self.rebuilt_if_comparable()
        if old is None or new is None:
            return False
        return (old.label_state, old.label_reason) != (new.label_state, new.label_reason)

    def change(self, number: str, kind: str, stream: str | None, missed: str | None, flip: str | None,
               cause: str | None) -> bool:  # fmt: skip
        """Check a line of the late ledger; `nothing_is_left_out` checks that there is one for each change."""
        assert self.standing
        self.changes.append((kind, stream))
        if flip:
            old, new = self.published, self.rebuilt()
            assert old
            assert new
            assert not self.has_flip
            assert kind == "state_changed" or stream == "labels"
            self.has_flip = True
            if old.label_state != new.label_state:
                assert flip == f"{old.label_state} becomes {new.label_state}"
            else:
                was, now = old.label_reason or "none", new.label_reason or "none"
                assert flip == f"{old.label_state} as before, its reason {was} becomes {now}"
        if kind in ("config_changed", "pair_appeared", "state_changed"):
            return not missed and not cause and self.standing.number == int(number)
        late = [r for r in self.added(stream) if not self.landed_by(r, self.pins)]
        ways = {(self.missed(r), self.why_late(r)) for r in late} or {(None, None)}
        return (missed, cause) in ways and self.standing.number == int(number)

    def added(self, stream: str | None) -> list[Record]:
        """Return what a rebuild adds: the left row of the event, or matches of a stream."""
        assert self.standing
        if stream is None:
            rows = self.model.rebuilt(self.standing).rows
            event = (self.left.values["id"], self.left.event_at)
            ours = [r for r in rows if r.row_id == self.left.row_id or (r.values["id"], r.event_at) == event]
            return [self.landed_now[text(r.row_id)] for r in ours]
        new, old = self.rebuilt(), self.published
        assert new
        assert old
        before = {m.row_id for m in old.matches[stream]}
        return [m for m in new.matches[stream] if m.row_id not in before]

    def missed(self, r: Record) -> str | None:
        came = self.model.watermark_at[r.row_id.topic, r.batch]
        return plain_length(came - self.closing) if came and came > self.closing else None

    def why_late(self, r: Record) -> str:
        assert self.standing
        plan, topic = self.standing.plan, r.row_id.topic
        if plan.drained or self.is_forced:
            return "drained" if plan.drained else "forced"
        newest = [c.newest_at for c in plan.watermark if (c.topic, c.partition) == (topic, r.row_id.partition)]
        if not newest or newest[0] is None or newest[0] - DISORDER[topic] < self.closing:
            return "idle_advance"
        return "lag" if r.record_at and r.record_at - DISORDER[topic] <= self.closing else "producer_delay"

    def open_or_closed(self, start: str, end: str, state: str, needed: str | None = None) -> bool:
        assert self.interval
        is_right = self.interval_text() == (start, end) and self.standing is None
        if state == "open":
            return is_right and not self.is_closed and needed == shown(self.closing)
        return is_right and self.is_closed

    def interval_text(self) -> tuple[str, str]:
        assert self.interval
        return f"[{self.interval.start:%Y-%m-%dT%H:%M:%SZ}", f"{self.interval.end:%Y-%m-%dT%H:%M:%SZ})"

    def waits(self, start: str, end: str, state: str, needed: str, at: str, lacks: str, held_by: str, lag: str) -> bool:
        """Check what an open interval waits for, and which partition holds it up."""
        watermark, clocks = self.model.watermark, self.model.clocks
        assert watermark
        holders = [c for c in clocks if f"{c.topic}/{c.partition}" == held_by and c.clock_at == watermark]
        most = max(c.end_offset - c.next_offset for c in clocks if c.clock_at == watermark)
        return (
            self.open_or_closed(start, end, state, needed)
            and (at, length(lacks)) == (shown(watermark), self.closing - watermark)
            and [c.end_offset - c.next_offset for c in holders] == [int(lag)] == [most]
        )

    def waits_for_start(self, start: str, end: str, state: str, needed: str, held_by: str, lag: str) -> bool:
        """Check what an open interval waits for while a partition has no clock."""
        stopped = {
            f"{c.topic}/{c.partition}": c.end_offset - c.next_offset for c in self.model.clocks if not c.clock_at
        }
        is_open = self.open_or_closed(start, end, state, needed)
        return is_open and stopped[held_by] == int(lag) == max(stopped.values())

    def blocked(self, names: str, report: str) -> bool:
        assert self.interval
        judged = self.life.judged[self.life.last_plan[self.interval]]
        expected = ", ".join(f"{row['expectation']}({row['metric']})" for row in judged.blocking)
        is_waiting = self.is_closed and self.standing is None and judged.is_blocked
        return is_waiting and (names, report) == (expected, judged.rows[0]["report"])

    def is_blocked(self) -> bool:
        plan = self.life.last_plan.get(self.interval) if self.interval else None
        return plan is not None and self.life.judged[plan].is_blocked

    def judged(self) -> tuple[dict[str, Any], ...]:
        assert self.interval
        plan = self.standing.plan if self.standing else self.life.last_plan[self.interval]
        return self.life.judged[plan].rows

    def expectations(self, counts: str, report: str) -> bool:
        rows = self.judged()
        printed = {part.split(" ")[1]: int(part.split(" ")[0]) for part in counts.split(", ")}
        return printed == Counter(row["verdict"] for row in rows) and report == rows[0]["report"]

    def expectation(self, name: str, metric: str, value: str, bound: str, verdict: str) -> bool:
        rows = [row for row in self.judged() if row["expectation"] == name]
        fields = ("metric", "value", "bound", "verdict")
        return [tuple(str(row[f]) for f in fields) for row in rows] == [(metric, value, bound, verdict)] and (
            verdict != "passed"
        )

    def late_left(self, batches: str, number: str, start: str, end: str, is_published: str, why: str | None) -> bool:
        assert self.standing
        assert (start, end) == self.interval_text()
        above = self.left.batch - self.pins["served"]
        is_right = (above, self.standing.number) == (int(batches), int(number)) and above > 0
        return is_right and (is_published == "publishes it") == (self.rebuilt() is not None) and (
            why is None or self.not_emitted(why, self.model.pins)
        )  # fmt: skip

    def not_emitted(self, why: str, pins: Mapping[str, int]) -> bool:
        if parts := re.fullmatch(r"a retry: (\S+) is the same event and stands for it", why):
            return self.stands_for(parts[1], self.left, pins)
        if parts := re.fullmatch(r"no match in (.+), which (is|are) joined as inner", why):
            streams = parts[1].split(" and ")
            return streams == self.inner_without_match(pins) and (parts[2] == "is") == (len(streams) == 1)
        return "the clock does not have its batch yet" in why and not self.landed_by(self.left, pins)

    def right_row(self, row: str, batch: str, at: str, values: str) -> Record:
        """Return the right row of a line, whose batch, time and values must be its own."""
        listed = self.listed.setdefault(self.stream, set())
        assert row not in listed, "listed twice"
        listed.add(row)
        r = self.by_batch[row, int(batch)]
        shown_columns = ("key", "id") if self.stream == "labels" else ("key",)
        assert (at, values) == (shown(r.event_at), " ".join(f"{n}={r.values[n]}" for n in shown_columns if r.values[n]))
        is_at_pins = self.landed_by(r, self.pins)
        if is_at_pins:
            assert r == self.standing_at_pins[row]
        is_match = row in self.matched(self.stream)
        again = self.landed_now[row]
        self.seen["reconsidered match"] += is_match and r.reconsidered is not None
        self.seen["reconsidered above the pin"] += again.reconsidered is not None and not self.landed_by(
            again, self.pins
        )
        is_of_one = bool(r.unreadable) and not r.quarantined
        self.seen["match that another stream cannot read"] += is_match and is_of_one and self.stream == "views"
        self.seen["miss that another stream can read"] += not is_match and is_of_one and self.stream == "seen"
        return r

    def miss(self, row: str, batch: str, at: str, values: str, why: str) -> bool:
        r = self.right_row(row, batch, at, values)
        assert row not in self.matched(self.stream)
        for pattern, check in MISSES:
            if parts := re.fullmatch(pattern, why):
                self.seen[pattern] += 1
                return check(self, r, *parts.groups())
        raise AssertionError(f"nobody checks this reason: {why!r}")

    def window(self) -> tuple[datetime, datetime]:
        (right,) = (r for r in self.spec.right if r.name == self.stream)
        assert self.left.event_at
        return self.left.event_at - right.before, self.left.event_at + right.after

    def outside(self, r: Record, by: str, above: str | None, *, is_before: bool) -> bool:
        (begin, end), batches = self.window(), r.batch - self.pins[r.row_id.topic]
        distance = begin - r.event_at if is_before else r.event_at - end  # type: ignore[operator]
        return distance == length(by) > timedelta(0) and (int(above or 0) or None) == (batches if batches > 0 else None)

    def late(self, r: Record, batches: str, beyond: str | None, rebuild: str) -> bool:
        topic = r.row_id.topic
        came, closing = self.model.watermark_at[topic, r.batch], self.closing
        row = self.rebuilt()
        is_in = row is not None and r.row_id in {match.row_id for match in row.matches[self.stream]}
        is_beyond = length(beyond) == came - closing if beyond and came else not came or came < closing
        above = r.batch - self.pins[topic]
        return above == int(batches) > 0 and is_beyond and is_in == (rebuild == "takes it in")

    def is_beside(self, r: Record, take: str) -> bool:
        """Whether a row is a match that only `take` leaves out."""
        everything = {match.row_id for match in self.alone(self.pins, take="all").matches[self.stream]}
        return take != "all" and r.row_id in everything

    def quarantined(self, r: Record, reason: str, could: str, above: str | None) -> bool:
        (right,) = (right for right in self.spec.right if right.name == self.stream)
        is_same = r.values["key"] == self.left.values["key"]
        is_above = int(above or 0) == max(0, r.batch - self.pins[r.row_id.topic])
        is_doubted = self.is_doubted(replace(r, values={**r.values, "key": self.left.values["key"]}))
        return unread(r, right) == reason and is_above and is_doubted and is_same == (could == "it could have matched")

    def near_key(self, r: Record) -> bool:
        ours, theirs = self.left.values["key"], r.values["key"]
        begin, end = self.window()
        return (
            ours != theirs and ours.strip().lower() == theirs.strip().lower() and begin <= (r.event_at or START) <= end
        )

    def header(self, stream: str, role: str, begin: str, end: str, count: str) -> bool:
        self.stream = stream
        bounds = tuple(map(shown, self.window()))
        n = len(self.matched(stream))
        (right,) = (r for r in self.spec.right if r.name == stream)
        return (right.role, *bounds, n or "none") == (role, begin, end, int(count) if count != "none" else "none")

    def match(self, row: str, batch: str, at: str, values: str) -> bool:
        r = self.right_row(row, batch, at, values)
        return row in self.matched(self.stream) and self.landed_by(r, self.pins)

    def count_more(self, count: str) -> bool:
        self.more[self.stream] = int(count)
        return int(count) > 0

    def not_published(self, r: Record) -> bool:
        """Check that only another pipeline file can have left a match out."""
        row = self.alone(self.pins)
        return self.is_of_other_file and r.row_id in {match.row_id for match in row.matches[self.stream]}

    def missing(self, number: str) -> bool:
        """Check that a publication under another pipeline file has read the row, and left it out."""
        assert self.standing
        is_read = self.landed_by(self.left, self.pins) and self.published is None
        return is_read and self.is_of_other_file and self.standing.number == int(number)

    def landing(self, batch: str, at: str, logged_at: str) -> bool:
        arrived = self.life.arrived[self.left.row_id.topic, self.left.batch]
        return (int(batch), at, logged_at) == (self.left.batch, shown(arrived), shown(self.left.record_at))

    def same_event(self, row: str, batch: str, how: str) -> bool:
        """Check another landed row with the event id: the one that stands for the event, or one that does not."""
        pins = self.pins if self.standing else dict.fromkeys(self.pins, 10**9)
        other = self.landed_now[row]
        is_same = other.batch == int(batch) and other.values["id"] == self.left.values["id"]
        return is_same and (how == "stands for the event") == self.stands_for(row, self.left, pins)

    def head(self, not_published: str | None, state: str, labels: str | None) -> bool:
        matching = len(self.matched("labels"))
        return (not_published is None) == (self.published is not None) and self.state()[0] == state and (
            labels is None or int(labels) == matching
        )  # fmt: skip

    def reason(self, reason: str, words: str, incomplete: str | None) -> bool:
        state, expected = self.state()
        ends = self.left.event_at + LONGEST_AFTER  # type: ignore[operator]
        clocks = self.model.spec_at(self.pins).event_clocks.get("labels", ())
        true = {
            "null_key": words == "a key column is null (key)" and self.left.values["key"] is None,
            "offset_gap": any(g.topic == "labels" for g in self.model.spec_at(self.pins).gaps),
            "forced": self.is_forced,
            "label_quarantined": True,  # that there is one is `is_doubted`, below
            "side_silent": all(c is None or c <= ends for c in clocks),
            "drained": bool(self.standing and self.standing.plan.drained),
        }
        if reason == "label_quarantined":
            self.stream = "labels"
            bad = [r for r in self.standing_at_pins.values() if r.quarantined and r.row_id.topic == "labels"]
            true[reason] = any(self.is_doubted(r) for r in bad)
        return reason == expected and true[reason] and bool(incomplete) == (state == "positive" and reason != "drained")

    def progress(self, at: str, is_not: str, ends: str, silence: str | None) -> bool:
        newest = [
            r.event_at for r in self.standing_at_pins.values()
            if r.row_id.topic == "labels" and not r.quarantined and r.event_at
        ]  # fmt: skip
        reached, end = max(newest) - DISORDER["labels"], self.left.event_at + LONGEST_AFTER  # type: ignore[operator]
        is_negative = self.spec.right[0].silence == "negative"
        return (shown(reached), shown(end)) == (at, ends) and (reached <= end) == bool(is_not) and (
            bool(silence) == (is_negative and reached <= end)
        )  # fmt: skip

    def clock(self, number: str | None, watermark: str, frontier: str, drained: str | None) -> bool:
        at = self.watermark
        reached = at - LONGEST_AFTER - GRACE if at else None
        is_drained = bool(self.standing and self.standing.plan.drained)
        return (int(number) if number else None) == (self.standing.number if self.standing else None) and (
            shown(at), shown(reached), is_drained
        ) == (watermark, frontier, bool(drained))  # fmt: skip

    def holder(self, held_by: str, behind: str | None, pins: str) -> bool:
        clocks = self.standing.plan.watermark if self.standing else self.model.clocks
        is_least = [c for c in clocks if f"{c.topic}/{c.partition}" == held_by and c.clock_at == self.watermark]
        is_behind = bool(is_least) and is_least[0].end_offset - is_least[0].next_offset == int(behind or 0)
        return is_behind and dict(pin.split("=") for pin in pins.split()) == {t: str(n) for t, n in self.pins.items()}

    def publication(
        self, number: str, at: str, verdict: str, why: str | None, by: str | None, held: str, state: str | None,
        version: str,
    ) -> bool:  # fmt: skip
        publication = self.model.publications[int(number) - 1]
        row, judged = row_in(publication, self.left), self.life.judged[publication.plan]
        assert (at, version) == (shown(self.life.published_at[int(number)]), f"{int(number) + 100}")
        assert (verdict, why) == judged.verdict(publication)
        assert by == (judged.overridden_by and "ann: known outage")
        assert (verdict == "overridden") == judged.is_blocked
        is_past = int(number) <= self.life.of_other_file and publication is not self.standing
        if is_past:  # only its own pipeline file could tell
            return held == "may have held it (other pipeline file)" and state is None
        return (held == "held it", state) == (row is not None, row.label_state if row else None)


def unread(r: Record, right: Right) -> str | None:
    """Why a stream cannot read a record, by rule 12."""
    is_chosen = right.where is None or right.where(r.values) is not False
    return r.quarantined or (r.unreadable.get("n") if right.name == "seen" and is_chosen else None)


def plain_length(span: timedelta) -> str:
    """A length as `explain` writes it."""
    seconds, text = span.total_seconds(), ""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        text += f" {count:.0f}{unit}" if count else ""
    return text.strip()


FOREVER = timedelta.max
MOST = 20
"""Near misses of a stream that are listed; the others are counted."""
STATED = ("published", "closed", "blocked", "missing")
"""Outcomes of a row that has a label state, or that gets one by a run now."""
WORDS = (
    *("null_key:", "offset_gap:", "forced:", "label_quarantined:", "side_silent:", "drained:", "may be incomplete"),
    *("takes it in", "leaves it out too", "publishes it", "does not publish it either: a retry", "either: no match in"),
    *("left out: no match in", "views and seen", "beyond the closing", "could have matched", "its key reads the same"),
    *("and landed", "not beyond this", "its silence is an answer", "stands for the event", "has the same event id"),
    *(
        "did not hold it",
        "the end of the stream was declared",
        "not published: positive",
        "`take: last`",
        "records behind",
    ),
    *(
        "(passed)",
        "(warned: ",
        "(overridden: ",
        "(empty: no row)",
        ", overridden by ann: known outage",
        "may have held it",
    ),
    *("1 error", " failed; report", ": late_label of labels", ": late_feature of ", ": late_left"),
    *(": pair_appeared", ": state_changed", ": config_changed", " becomes positive", " as before, its reason "),
    *(
        ", missed by ",
        ", lag",
        ", producer_delay",
        ", forced",
        ", drained",
        "quarantined: not_finite",
    ),
)
"""Parts of sentences, each of which must have been printed and checked somewhere."""
KINDS = (
    *("reconsidered left row", "reconsidered match", "reconsidered above the pin"),
    *("match that another stream cannot read", "miss that another stream can read"),
)
"""Kinds of rows, each of which must have been explained somewhere."""
BEHIND = r"(?:, (\d+) records? behind)?"
ABOVE = r"(?:, and landed (\d+) batch(?:es)? above the pin)?"
OPEN = r"  its interval (\S+), (\S+) is (open): it closes when the watermark is at (\S+ \S+)"
Check = Callable[..., Any]
SENTENCES: tuple[tuple[str, Check], ...] = (
    ("", lambda s: True),
    (
        r"row (\S+)  (?:key=(.*))?",
        lambda s, row, key: (row, key) == (text(s.left.row_id), s.left.values["key"]),
    ),
    (r"  published, in publication (\d+)", lambda s, n: s.published and s.standing.number == int(n)),
    (r"  quarantined at landing: (\S+); it is in no interval", lambda s, why: s.left.quarantined == why),
    (
        r"  left out by where: kind = 'real'; it is in no interval",
        lambda s: not is_real(s.left.values) and not s.interval,
    ),
    (
        r"  before the pipeline's start 2026-11-01 00:00:00Z: it is in no interval",
        lambda s: s.left.event_at < START and not s.interval,
    ),
    (
        r"  a retry: (\S+) is the same event and stands for it",
        lambda s, row: s.stands_for(row, s.left, s.pins if s.standing else dict.fromkeys(s.pins, 10**9)),
    ),
    (
        r"  late: it landed (\d+) batch(?:es)? above the pin of publication (\d+)\. A rebuild of (\S+), (\S+) "
        r"(publishes it|does not publish it either)(?:: (.*))?",
        Statements.late_left,
    ),
    (r"  left out: (.*)", lambda s, why: s.standing and not s.published and s.not_emitted(why, s.pins)),
    (
        rf"{OPEN}; it is at (\S+ \S+) and lacks (.*), held by (\S+/\d+), (\d+) records? behind",
        Statements.waits,
    ),
    (rf"{OPEN}; it has not started, held by (\S+/\d+), (\d+) records? behind", Statements.waits_for_start),
    (
        rf"{OPEN}; it has not started, because nothing has landed",
        lambda s, *open: s.open_or_closed(*open) and not s.model.clocks,
    ),
    (
        r"  its interval (\S+), (\S+) is (closed) and not published yet: `windrow train model`",
        lambda s, *closed: s.open_or_closed(*closed) and not s.is_blocked(),
    ),
    (r"  its candidate is blocked by (.*); the report: (\S+)", Statements.blocked),
    (r"  publication (\d+) was made under another pipeline file, and did not publish it", Statements.missing),
    (
        r"  event time (\S+(?: \S+)?)(?:, event id (\S+))?",
        lambda s, at, event: (at, event) == (shown(s.left.event_at), s.left.values["id"]),
    ),
    (
        r"  landed in batch (\d+) at (.*), logged at (.*)",
        Statements.landing,
    ),
    (
        r"  (\S+) \(batch (\d+)\) (stands for the event|has the same event id)",
        Statements.same_event,
    ),
    (
        r"interval (\S+ \S+) to (\S+ \S+), closes when the watermark is at (\S+ \S+)",
        lambda s, *at: s.interval and at == tuple(map(shown, (s.interval.start, s.interval.end, s.closing))),
    ),
    (
        r"clock (?:as of the last landing|at the pins of publication (\d+)): watermark (\S+(?: \S+)?), "
        r"frontier (\S+(?: \S+)?)(; the end of the stream was declared)?",
        Statements.clock,
    ),
    (rf"  held by (\S+/\d+){BEHIND}; pins (.*)", Statements.holder),
    (r"  held by nothing; pins ", lambda s: not s.model.clocks),
    (r"(\S+) \((label|feature)\), window (\S+ \S+) to (\S+ \S+): (\d+|none) matched", Statements.header),
    (r"  \+ (\S+) \(batch (\d+)\) at (\S+ \S+Z)  (.*)", Statements.match),
    (r"  - (\S+) \(batch (\d+)\) at (-|\S+ \S+Z)  (.*?): (.*)", Statements.miss),
    (r"  - and (\d+) more", Statements.count_more),
    (r"(as the landed rows give it, not published: )?(positive): (\d+) labels? matched", Statements.head),
    (
        r"(as the landed rows give it, not published: )?(negative): no label matched, and the label side counts as "
        r"complete for the whole window()",
        lambda s, now, state, _: s.head(now, state, "0"),
    ),
    (
        r"(as the landed rows give it, not published: )?(unknown): no label matched, and whether there was one cannot "
        r"be known()",
        lambda s, now, state, _: s.head(now, state, "0"),
    ),
    (
        r"no label state yet, because the interval is open: (\d+) labels? matched so far",
        lambda s, n: not s.is_closed and not s.standing and int(n) == len(s.matched("labels")),
    ),
    (
        r"  (null_key|offset_gap|forced|label_quarantined|side_silent|drained): (.*?)(; the list may be incomplete)?",
        Statements.reason,
    ),
    (
        r"  labels: the newest event of labels, less its out-of-orderness, is at (\S+ \S+), (not )?beyond this "
        r"window's end (\S+ \S+Z)(; its silence is an answer \(`silence: negative`\))?",
        Statements.progress,
    ),
    (
        r"  labels: no event of labels has landed",
        lambda s: "labels" not in {c.topic for c in s.model.clocks if c.newest_at},
    ),
    (
        r"publication (\d+) of (\S+ \S+) \((\w+)(?:: (.*?))?(?:, overridden by (.*))?\) "
        r"(held it|did not hold it|may have held it \(other pipeline file\))(?: as (\w+))?; "
        r"training table version (\d+)",
        Statements.publication,
    ),
    (r"expectations: (.*); report (\S+)", Statements.expectations),
    (r"  (expect_\w+) (\w+) = (\S+), (.*): (failed|error)", Statements.expectation),
    (
        r"late ledger of publication (\d+): (\w+)(?: of (\w+))?(?:, missed by ([^,]*))?"
        r"(?:, (\w+ becomes \w+|\w+ as before, its reason \w+ becomes \w+))?(?:, (\w+))?",
        Statements.change,
    ),
    (
        r"looked into (\d+) of (\d+) files",
        lambda s, *n: tuple(map(int, n)) == tuple(sum(f[k] for f in s.life.files.values()) for k in ("opened", "of")),
    ),
)  # fmt: skip
"""Every sentence that may be printed, and what must be true of the model then."""

MISSES: tuple[tuple[str, Check], ...] = (
    (rf"(.*) before the window{ABOVE}", lambda s, r, by, above: s.outside(r, by, above, is_before=True)),
    (rf"(.*) after the window's end{ABOVE}", lambda s, r, by, above: s.outside(r, by, above, is_before=False)),
    (
        r"late: it landed (\d+) batch(?:es)? above the pin(?:; the watermark was (.*) beyond the closing when it came)?"
        r"\. A rebuild (takes it in|leaves it out too)",
        Statements.late,
    ),
    (
        r"matches, and the clock does not have its batch yet: the next `windrow land` adds it",
        lambda s, r: not s.landed_by(r, s.model.pins),
    ),
    (
        r"a retry: (\S+) is the same event and stands for it",
        lambda s, r, winner: s.stream == "labels" and s.stands_for(winner, r, s.pins),
    ),
    (r"left out by where: kind = 'real'", lambda s, r: s.stream != "views" and not is_real(r.values)),
    (r"matched, and left out by `take: (\w+)`", Statements.is_beside),
    (r"it matches, and the training table has the row without it", Statements.not_published),
    (rf"quarantined: (\w+); (it could have matched|its key reads the same){ABOVE}", Statements.quarantined),
    (r"its key reads the same and is not equal: keys are equal by type and value, to the letter", Statements.near_key),
)  # fmt: skip
"""Every reason of a near miss, and what must be true of the right row then."""
