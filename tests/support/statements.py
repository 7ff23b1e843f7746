"""What `windrow explain` prints about a row, sentence by sentence, against the pure model of the pipeline's life.

    random life ─▶ Model ─▶ case of each landed left row ─▶ answer ─▶ lines ─▶ for each line one check of the model

A line without a check fails: nothing is said that nobody verifies. The checks know the records, the publications and
`reference_join`; they use no function that `explain` finds its verdicts with.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from windrow.cli.explain import lines
from windrow.config import Pipeline, parse
from windrow.io.registers.clocks import Observation
from windrow.jobs.explain.answer import answer
from windrow.jobs.explain.case import Case
from windrow.semantics.clock import IdlePolicy
from windrow.semantics.intervals import interval_of
from windrow.semantics.paper.landings import PartitionId, Rules, Sent
from windrow.semantics.paper.model import Model, NotClosed, Publication
from windrow.semantics.plan import Plan
from windrow.semantics.records import Gap, JoinSpec, Left, Record, Right, RowId
from windrow.semantics.reference import JoinedRow, reference_join

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
     window: {{after: 10s}}, join: {join}}}
  - {{name: seen, role: feature, topic: views, columns: *columns, key: [key], event_time: t, out_of_orderness: 0s,
     window: {{after: 4s}}, join: {join}}}
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


class Life:
    """A pipeline of random rules, and some rounds of its life: traffic, landings, runs, now and then by force."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        take, join = rng.choice(("all", "all", "first", "last")), rng.choice(("left", "inner", "inner"))
        silence, idle = rng.choice(("unknown", "unknown", "negative")), rng.choice(("wait", "caught_up"))
        self.pipeline = parse(PIPELINE.format(take=take, join=join, silence=silence, idle=idle))
        right: list[Any] = [
            Right(
                "labels", ("labels",), ("key",), 15 * SECOND, 3 * SECOND, "label", "id", is_real, "left", take, silence
            ),
            Right("views", ("views",), ("key",), 10 * SECOND, role="feature", join=join),
            Right("seen", ("views",), ("key",), 4 * SECOND, role="feature", join=join),
        ]
        spec = JoinSpec(Left("served", ("served",), ("key",), "id", is_real), tuple(right), START, INTERVAL, GRACE)
        policy = IdlePolicy(idle, timedelta(0) if idle == "wait" else 10 * SECOND)
        self.model = Model(Rules(spec, {"served": 2, "labels": 2, "views": 1}, DISORDER, policy))
        self.now, self.t, self.n = START, START, 0
        self.served: list[Sent] = []
        self.has_labels = rng.random() < 0.9
        for _ in range(rng.randrange(1, 5)):
            self.round()

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
            return
        self.model.land(self.now, unseen={rng.choice(PLACES): 1} if rng.random() < 0.2 else None)
        self.run()

    def event(self, first: datetime) -> None:
        """A left row and right rows at and around its window; each of them may be bad in one way."""
        rng = self.rng
        back = rng.choice((0, 0, 0, 25)) * SECOND  # late for what is published
        at = max(first - back, START - SECOND) + rng.randrange(-1, 25) * SECOND
        left = self.send("served", at, rng.choice(("a", "a", "b", "7", None)))
        self.served.append(left)
        if rng.random() < 0.25:
            self.model.produce(("served", rng.randrange(2)), left)
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
        sent = Sent(None if bad_time else at, {"key": key, "id": event_id, "kind": kind}, at, defect)
        is_lost = topic == "labels" and rng.random() < 0.03
        self.model.produce((topic, rng.randrange(2) if topic != "views" else 0), replace(sent, is_lost=is_lost))
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
                    model.publish_all(model.plan(name, [interval], forced=True))
            elif deed < 0.4 and model.standing:
                model.publish_all(model.plan(name, [rng.choice(sorted(model.standing))]))
            elif deed < 0.45 and all(clock.caught_up for clock in model.clocks):
                model.publish_all(model.plan(name, drained=True))
            else:
                model.publish_all(model.plan(name))
        except NotClosed:
            return

    @property
    def clock(self) -> PaperClock:
        rows = tuple({**vars(c), "batch": self.model.pins[c.topic], "gap": None} for c in self.model.clocks)
        return PaperClock(0, self.pipeline.topics, rows, self.model)

    def case(self, left: Record) -> Case:
        """Everything on record about a row, as the tables would have it."""
        model = self.model
        grid = None if left.event_at is None else interval_of(left.event_at, START, INTERVAL)
        is_in = not left.quarantined and left.event_at is not None and left.event_at >= START and is_real(left.values)
        register = [
            {
                "number": p.number, "plan": self.plan(p.plan).to_json(), "published_at": self.now, "verdict": "passed",
                "overridden_by": None, "override_reason": None, "training_version": p.number, "why": None,
            }
            for p in model.publications if is_in and p.plan.interval == grid
        ]  # fmt: skip
        standing = model.standing.get(grid) if grid else None
        row = row_in(standing, left)
        meta = dict(zip(ROW_ID, vars(left.row_id).values(), strict=True)) | {
            "_event_time": left.event_at, "_batch": left.batch, "_arrived_at": self.now, "_record_at": left.record_at,
            "_quarantined": left.quarantined, "_raw": None,
        }  # fmt: skip
        return Case(
            pipeline=self.pipeline,
            row={**meta, **left.values},
            interval=grid if is_in else None,
            records=tuple(model.landed),
            register=register,
            training_row=row and training(row, standing.number if standing else 0, self.now),
            clock=self.clock,
            watermarks=model.watermark_at,
            judgements=[],
            ledger=[],
            files={},
        )

    def plan(self, plan: Plan) -> Plan:
        return replace(plan, config_hash=self.pipeline.config_hash)

    def check_all(self) -> Counter[str]:
        """Check every sentence about every landed left row; return how often each kind of sentence was met."""
        seen: Counter[str] = Counter()
        for left in self.model.landed:
            if left.row_id.topic == "served":
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

    def __post_init__(self) -> None:
        model, left = self.life.model, self.left
        self.model, self.spec = model, model.rules.spec
        is_in = not left.quarantined and left.event_at is not None and left.event_at >= START and is_real(left.values)
        self.interval = interval_of(left.event_at, START, INTERVAL) if left.event_at and is_in else None
        self.standing = model.standing.get(self.interval) if self.interval else None
        self.pins = self.standing.plan.pins if self.standing else model.pins
        self.published = row_in(self.standing, left)
        self.of = {r.row_id: r for r in model.landed}
        self.by_text = {text(row_id): r for row_id, r in self.of.items()}

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
            r for r in self.model.landed
            if r.row_id.topic == topic and not r.quarantined and is_real(r.values) and self.landed_by(r, pins)
            and r.values["id"] is not None and (r.values["id"], r.event_at) == (row.values["id"], row.event_at)
        ]  # fmt: skip
        return bool(same) and text(min(r.row_id for r in same)) == winner != text(row.row_id)

    def state(self) -> tuple[str | None, str | None]:
        """State and reason as published, or as a publication at the newest pins has them; twice None without a row."""
        row = self.published
        if row is None:
            pins = self.model.pins
            assert self.interval
            found = reference_join(self.model.landed, self.model.spec_at(pins), self.interval, pins).rows
            row = next((r for r in found if r.row_id == self.left.row_id), None)
        return (row.label_state, row.label_reason) if row else (None, None)

    def inner_without_match(self, pins: Mapping[str, int]) -> list[str]:
        row = self.alone(pins)
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
        """Every match is listed as one, and every readable row of the key in the window is listed at all."""
        assert found["agrees"] in (True, None), found
        assert (found["interval"] is None) == (self.interval is None) == (found["streams"] == {})
        state = (found["label_state"], found["label_reason"])
        assert state == ((None, None) if found["outcome"] not in STATED else self.state())
        for right in self.spec.right if self.interval else ():
            listed = self.listed.get(right.name, set())
            assert self.matched(right.name) <= listed
            all_of_key = self.alone(dict.fromkeys(self.pins, 10**9), take="all", event_id=None)
            if not found["streams"][right.name]["more_near_misses"]:
                assert {text(match.row_id) for match in all_of_key.matches[right.name]} <= listed

    def open_or_closed(self, start: str, state: str, needed: str | None = None) -> bool:
        assert self.interval
        is_right = f"[{self.interval.start:%Y-%m-%dT%H:%M:%SZ}" == start and self.standing is None
        if state == "open":
            return is_right and not self.is_closed and needed == shown(self.closing)
        return is_right and self.is_closed

    def late_left(self, batches: str, number: str, is_published: str, why: str | None) -> bool:
        assert self.standing
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

    def miss(self, row: str, batch: str, at: str, why: str) -> bool:
        r = self.by_text[row]
        self.listed.setdefault(self.stream, set()).add(row)
        assert (str(r.batch), shown(r.event_at)) == (batch, at)
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
        is_same = r.values["key"] == self.left.values["key"]
        is_above = int(above or 0) == max(0, r.batch - self.pins[r.row_id.topic])
        is_doubted = self.is_doubted(replace(r, values={**r.values, "key": self.left.values["key"]}))
        return r.quarantined == reason and is_above and is_doubted and is_same == (could == "it could have matched")

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

    def match(self, row: str) -> bool:
        self.listed.setdefault(self.stream, set()).add(row)
        return row in self.matched(self.stream)

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
            bad = [r for r in self.model.landed if r.quarantined and r.row_id.topic == "labels"]
            true[reason] = any(self.is_doubted(r) for r in bad if self.landed_by(r, self.pins))
        return reason == expected and true[reason] and bool(incomplete) == (state == "positive" and reason != "drained")

    def progress(self, at: str, is_not: str, ends: str, silence: str | None) -> bool:
        newest = [
            r.event_at for r in self.model.landed
            if r.row_id.topic == "labels" and not r.quarantined and r.event_at and self.landed_by(r, self.pins)
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

    def publication(self, number: str, held: str, state: str | None) -> bool:
        publication = self.model.publications[int(number) - 1]
        row = row_in(publication, self.left)
        return (held == "held it", state) == (row is not None, row.label_state if row else None)


STATED = ("published", "closed")
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
)
"""Parts of sentences, each of which must have been printed and checked somewhere."""
BEHIND = r"(?:, (\d+) records? behind)?"
ABOVE = r"(?:, and landed (\d+) batch(?:es)? above the pin)?"
Check = Callable[..., Any]
SENTENCES: tuple[tuple[str, Check], ...] = (
    ("", lambda s: True),
    (r"row (\S+)  .*", lambda s, row: row == text(s.left.row_id)),
    (r"  published, in publication (\d+)", lambda s, n: s.published and s.standing.number == int(n)),
    (r"  quarantined at landing: (\S+); it is in no interval", lambda s, why: s.left.quarantined == why),
    (r"  left out by where: .*; it is in no interval", lambda s: not is_real(s.left.values) and not s.interval),
    (
        r"  before the pipeline's start 2026-11-01 00:00:00Z: it is in no interval",
        lambda s: s.left.event_at < START and not s.interval,
    ),
    (
        r"  a retry: (\S+) is the same event and stands for it",
        lambda s, row: s.stands_for(row, s.left, s.pins if s.standing else dict.fromkeys(s.pins, 10**9)),
    ),
    (
        r"  late: it landed (\d+) batch(?:es)? above the pin of publication (\d+)\. A rebuild of \S+ \S+ "
        r"(publishes it|does not publish it either)(?:: (.*))?",
        Statements.late_left,
    ),
    (r"  left out: (.*)", lambda s, why: s.standing and not s.published and s.not_emitted(why, s.pins)),
    (
        r"  its interval (\S+), \S+ is (open): it closes when the watermark is at (\S+ \S+); it is at \S+ \S+ and "
        r"lacks .*, held by .*",
        lambda s, start, state, needed: s.open_or_closed(start, state, needed),
    ),
    (
        r"  its interval (\S+), \S+ is (open): it closes when the watermark is at (\S+ \S+); it has not started.*",
        lambda s, start, state, needed: s.open_or_closed(start, state, needed) and s.model.watermark is None,
    ),
    (r"  its interval (\S+), \S+ is (closed) and not published yet: `windrow train model`", Statements.open_or_closed),
    (
        r"  event time (\S+(?: \S+)?)(?:, event id (\S+))?",
        lambda s, at, event: (at, event) == (shown(s.left.event_at), s.left.values["id"]),
    ),
    (
        r"  landed in batch (\d+) at .*, logged at (.*)",
        lambda s, batch, at: (int(batch), at) == (s.left.batch, shown(s.left.record_at)),
    ),
    (
        r"  (\S+) \(batch \d+\) (stands for the event|has the same event id)",
        lambda s, row, how: (how.startswith("has") and s.by_text[row].values["id"] == s.left.values["id"])
        or s.stands_for(row, s.left, s.pins if s.standing else dict.fromkeys(s.pins, 10**9)),
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
    (r"  \+ (\S+) \(batch \d+\) at .*", Statements.match),
    (r"  - (\S+) \(batch (\d+)\) at (\S+Z|-)  .*?: (.*)", Statements.miss),
    (r"  - (\S+) \(batch (\d+)\) at (\S+ \S+Z)  .*?: (.*)", Statements.miss),
    (r"  - and \d+ more", lambda s: True),
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
        r"publication (\d+) of .* \(passed\) (held it|did not hold it)(?: as (\w+))?; training table version \d+",
        Statements.publication,
    ),
    (r"looked into 0 of 0 files", lambda s: True),
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
    (r"left out by where: kind = 'real'", lambda s, r: not is_real(r.values)),
    (r"matched, and left out by `take: (\w+)`", Statements.is_beside),
    (rf"quarantined: (\w+); (it could have matched|its key reads the same){ABOVE}", Statements.quarantined),
    (r"its key reads the same and is not equal: keys are equal by type and value, to the letter", Statements.near_key),
)  # fmt: skip
"""Every reason of a near miss, and what must be true of the right row then."""
