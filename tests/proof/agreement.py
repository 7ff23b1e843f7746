"""One small, cheap agreement of Spark and Delta with the reference join: what the deliberate breaks must turn red.

A few hand-placed records, each there for a boundary or a rule, stand in landing tables that no broker filled. They are
read at a pin, joined, measured, published twice over: rows, counts and refusals are those of the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from windrow.columns import ERASED
from windrow.config import Pipeline, parse
from windrow.home import Home
from windrow.io.delta import locks
from windrow.io.landing import batches
from windrow.io.registers import clocks, erasures, publications
from windrow.io.training import inputs, unread
from windrow.jobs.join import make_candidates, measured
from windrow.jobs.plan.planning import record
from windrow.jobs.publish import publish
from windrow.jobs.run import Context
from windrow.outcomes import NothingToDo
from windrow.places import Lock, Places
from windrow.semantics.clock import PartitionClock
from windrow.semantics.erasure.keys import Erased, hash_of
from windrow.semantics.intervals import Interval, intervals_between
from windrow.semantics.landing import gaps, offsets
from windrow.semantics.landing.batch import Batch, Partition, Topic
from windrow.semantics.match import Mark
from windrow.semantics.plan import Plan
from windrow.semantics.publication import Superseded
from windrow.semantics.records import Gap, JoinSpec, Left, Record, Right, RowId, emptied, is_canary
from windrow.semantics.reference import Joined, reference_join
from windrow.transforms.decode import decode
from windrow.transforms.join import join_plans
from windrow.transforms.measure import written_of
from windrow.transforms.training import types_of

START = datetime(2026, 11, 1, tzinfo=UTC)
LENGTH = timedelta(seconds=20)
PINS = {"served": 1, "labels": 1, "features": 1}
COLUMNS = {"a": "string", "b": "string", "id": "string", "kind": "string", "t": "timestamp"}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def pipeline_text(clicks: str = "", features: str = "") -> str:
    columns = "{" + ", ".join(f"{name}: {kind}" for name, kind in COLUMNS.items()) + "}"
    shared = f"columns: {columns}, key: [a, b], event_time: t, event_id: id, out_of_orderness: 0s"
    return f"""\
name: proof
start: 2026-11-01T00:00:00Z
interval: 20s
left: {{name: served, topic: served, where: "kind = 'shown'", {shared}}}
right:
  - {{name: clicks, role: label, topic: labels, where: "kind = 'click'", window: {{before: 5s, after: 15s}},
      {shared}{clicks}}}
  - {{name: features, role: feature, topic: features, window: {{before: 2s, after: 2s}}, {shared}{features}}}
grace: 0s
idle: {{mode: wait}}
max_skew: 0s
labels: {{clicked: "size(clicks) > 0"}}
canary: {{keys: {{a: canary}}}}
"""


def is_kind(kind: str) -> Any:
    return lambda values: None if values.get("kind") is None else values["kind"] == kind


def spec_of(**rules: Mapping[str, str]) -> JoinSpec:
    key, mark = ("a", "b"), Mark((("a", "canary"),))
    clicks = Right(
        "clicks", ("labels",), key, timedelta(seconds=15), timedelta(seconds=5), "label", "id", is_kind("click")
    )
    features = Right("features", ("features",), key, timedelta(seconds=2), timedelta(seconds=2), "feature", "id")
    return JoinSpec(
        left=Left("served", ("served",), key, "id", is_kind("shown"), canary=mark),
        right=(
            replace(clicks, canary=mark, **rules.get("clicks", {})),
            replace(features, canary=mark, **rules.get("features", {})),
        ),
        start=START,
        interval=LENGTH,
        event_clocks={"labels": (at(70),), "features": (at(100),), "served": (at(100),)},
        gaps=(Gap("labels", at(45), at(46)),),
    )


PLAIN = (pipeline_text(), spec_of())
TAKEN = (
    pipeline_text(", take: first, silence: negative", ", take: last, join: inner"),
    spec_of(clicks={"take": "first", "silence": "negative"}, features={"take": "last", "join": "inner"}),
)


class _Landed:
    """Records one after another; offsets count up by partition."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._next: dict[tuple[str, int], int] = {}

    def add(
        self,
        topic: str,
        key: str | None,
        seconds: float | None,
        kind: str,
        event_id: str | None = None,
        *,
        second: str = "x",
        partition: int = 0,
        batch: int = 1,
        quarantined: str | None = None,
        logged: float = 0,
    ) -> None:
        offset = self._next.get((topic, partition), 0)
        self._next[topic, partition] = offset + 1
        event_at = None if seconds is None else at(seconds)
        values = {"a": key, "b": second, "id": event_id, "kind": kind, "t": event_at}
        row_id = RowId(topic, 0, partition, offset)
        self.records.append(Record(row_id, batch, event_at, values, at(logged), quarantined))

    def serve(self, key: str | None, seconds: float, event_id: str | None = None, **more: Any) -> None:
        self.add("served", key, seconds, more.pop("kind", "shown"), event_id, **more)

    def click(self, key: str | None, seconds: float | None, event_id: str | None = None, **more: Any) -> None:
        self.add("labels", key, seconds, more.pop("kind", "click"), event_id, **more)


def records() -> list[Record]:
    """Each line a boundary: left rows and what could go wrong with their labels."""
    landed = _Landed()
    landed.serve("1", 0, second="12")  # not the key of the next label, though their texts are equal
    landed.click("11", 5, second="2")
    landed.click("1", -5, second="12")  # the first instant that is read at all
    landed.serve("k", 3)
    for seconds in (-2, -2.000001, 18, 18.000001):  # both ends of its window, and a microsecond beyond
        landed.click("k", seconds)
    landed.serve("n", 19.999999)  # the last of its interval
    landed.serve("n", 20)  # the first of the next
    landed.click("n", 34.999999)
    landed.click("n", 35)
    landed.serve(None, 6)  # nobody
    landed.click("q", 10, quarantined="wrong_type")
    landed.serve("q", 7)  # its label was there and cannot be read
    landed.click("r", None, quarantined="event_time_missing", logged=30)
    landed.serve("r", 8)  # so was this one's, logged late enough to be its label
    landed.click("o", None, quarantined="event_time_missing", logged=3)
    landed.click("x", None, quarantined="malformed", logged=30, batch=2)  # nobody's, and behind the pin
    landed.serve("o", 9)  # and this one's was logged before its window
    landed.serve("d", 10, "e1", partition=1)  # a producer's retry, in another partition
    landed.serve("d", 10, "e1")
    landed.click("d", 12, "l1", partition=1)
    landed.click("d", 12, "l1")
    landed.serve("d", 11, "e1")  # the same id at another time is another row
    landed.serve("p", 11)
    landed.click("p", 12, batch=2)  # behind the pin
    landed.serve("p", 12, batch=2)
    landed.serve("h", 12, kind="hidden")
    landed.serve("canary-1", 12)
    landed.click("canary-1", 13)
    landed.serve("canary", 14, kind="hidden")  # `where` comes first
    landed.click("canaria", 14)  # nobody's, and no canary
    landed.serve("w", 13)
    landed.click("w", 14, kind="view")
    for seconds in (29.999999, 30, 51, 51.000001):  # beside and at both ends of what the gap may concern
        landed.serve("g", seconds)
    landed.serve("s", 54.999999)  # the label side was heard just beyond its window
    landed.serve("s", 55)  # and only just up to its end
    landed.serve("y", 52)
    landed.click("y", 62)  # beyond the last interval's end
    landed.click("z", 75)  # the last instant that is read at all
    for row in [r for r in landed.records if r.row_id.topic == "served" and r.values["a"] != "w"]:
        seconds = (row.order[0] - START).total_seconds()
        landed.add("features", row.values["a"], seconds + 2, "f", second=row.values["b"])
        landed.add("features", row.values["a"], seconds - 2, "f", second=row.values["b"])
    return landed.records


class Prepared:
    """Landing tables and a clock, written once; every check reads them anew."""

    def __init__(self, places: Places, rules: tuple[str, JoinSpec] = PLAIN, erased: Sequence[str] = ()) -> None:
        text, self.spec = rules
        self.pipeline: Pipeline = parse(text, expectations=places.expectations)
        self.ctx = Context(self.pipeline, places, lambda: at(200))
        self.records = records()
        for topic in PINS:
            _write_landing(places.landing("proof", topic), [r for r in self.records if r.row_id.topic == topic])
        if erased:
            self._erase(erased)
        clocks.record(Home(self.pipeline, places), 0, [_clock_row(topic, p) for topic in PINS for p in (0, 1)])

    def _erase(self, keys: Sequence[str]) -> None:
        """Record keys of the column `a` as erased; their records stay in the landing tables as they landed."""
        secret = erasures.made_secret(self.ctx.home)
        hashes = frozenset(filter(None, (hash_of(secret, {"a": key}) for key in keys)))
        shared = {"who": "proof", "why": None, "now": at(200), "secret": secret}
        erasures.add_keys(self.ctx.home, "proof", hashes, ["a"], "delete", **shared)  # type: ignore[arg-type]
        self.spec = replace(self.spec, erased=(Erased(secret, ("a",), hashes),))

    @property
    def intervals(self) -> list[Interval]:
        return list(intervals_between(START, at(60), LENGTH))

    def plans(self, key: str) -> tuple[Plan, ...]:
        vector = clocks.observe(Home(self.pipeline, self.ctx.places)).clocks
        made = (Plan("proof", key, i, PINS, self.pipeline.config_hash, vector) for i in self.intervals)
        return tuple(made)

    @property
    def expected(self) -> list[Joined]:
        return [reference_join(self.records, self.spec, i, PINS) for i in self.intervals]

    # ---- checks: each raises AssertionError, or whatever a break makes of it

    def joins(self, spark: Any) -> None:
        """The joined rows are the reference's, and those without their pair are told."""
        plans = self.plans("joins")
        read = inputs.read(spark, self.ctx.home, plans, clocks.observe(self.ctx.home))
        rows = join_plans(self.pipeline, plans, read).where("_paired").toArrow().to_pylist()
        inputs.release(read)
        self._are_expected(rows)

    def counts(self, spark: Any) -> None:
        """The measures add up to the reference's balance."""
        plans = self.plans("counts")
        read = inputs.read(spark, self.ctx.home, plans, clocks.observe(self.ctx.home))
        rows = join_plans(self.pipeline, plans, read).persist()
        written = written_of(rows, self.pipeline, list(self.pipeline.left.columns))
        numbers = measured(
            self.pipeline,
            plans,
            read,
            written,
            types_of(rows.schema),
            {},
            {},
            unread.of_intervals(spark, self.ctx.home, plans),
        )
        rows.unpersist()
        inputs.release(read)
        for plan, joined in zip(plans, self.expected, strict=True):
            found = {row["name"]: row["value"] for row in numbers if row["plan"] == plan.id}
            wanted: dict[str, float] = {**joined.balance.measures(), "left_conflict": joined.conflict["served"]}
            wanted |= {f"{r.name}.conflict": joined.conflict[r.name] for r in self.spec.right}
            states = [row.label_state for row in joined.rows]
            wanted |= {state: states.count(state) for state in ("positive", "negative", "unknown")}
            wanted |= {"duplicate_row_ids": 0, "labels_outside_window": 0, "state_contradictions": 0}
            wanted |= self._volumes(plan.interval)
            assert {name for name in found if name.startswith("volume.")} <= wanted.keys()
            assert {name: found[name] for name in wanted} == wanted

    def _volumes(self, interval: Interval) -> dict[str, float]:
        """Volumes and quarantine of an interval, record by record; the streams have one topic each."""
        streams = {stream.topics[0]: stream for stream in (self.spec.left, *self.spec.right)}
        found = {f"volume.{stream.name}": 0.0 for stream in streams.values()}
        found |= {f"{name}.{topic}": 0 for topic in streams for name in ("records", "quarantined")}
        for record_ in self.records:
            one = emptied(record_, self.spec)
            counts_at = one.event_at or one.record_at
            topic, is_in = one.row_id.topic, counts_at is not None and interval.start <= counts_at < interval.end
            where = streams[topic].where
            is_probe = is_canary(one, streams[topic]) and (where is None or where(one.values))
            if one.batch > PINS[topic] or not is_in or is_probe or one.quarantined == ERASED:
                continue
            found[f"records.{topic}"] += 1
            if one.quarantined:
                found[f"quarantined.{topic}"] += 1
                continue
            partition = f"volume.{topic}/{one.row_id.partition}"
            found[partition] = found.get(partition, 0) + 1
            found[f"volume.{streams[topic].name}"] += where is None or bool(where(one.values))
        return found

    def publishes(self, spark: Any) -> None:
        """Three intervals of a day, then one of them from two plans at once: each row once, the slower plan refused."""
        places = self.ctx.places
        home = Home(self.pipeline, places)
        seen, published = clocks.observe(home), publications.grid(home)
        first = record(self.ctx, "first", self.intervals, seen, published, drained=False)
        slower = record(self.ctx, "slower", self.intervals[:1], seen, published, drained=False)
        for planned in (first, slower):
            make_candidates(self.ctx, planned)
        publish(self.ctx, first, override=("proof", "no gate here"))
        with pytest.raises((Superseded, NothingToDo)):
            publish(self.ctx, slower, override=("proof", "no gate here"))
        table = DeltaTable(places.table("proof", "training")).to_pyarrow_table().to_pylist()
        self._are_expected(table)

    def _are_expected(self, rows: list[dict[str, Any]]) -> None:
        found, wanted = _found(rows), [_wanted(row) for joined in self.expected for row in joined.rows]
        extra, missing = [row for row in found if row not in wanted], [row for row in wanted if row not in found]
        assert found == wanted, f"too much: {extra}\nmissing: {missing}"


def excludes(folder: Path) -> None:
    """A lock that is held is not had by another."""
    with locks.held(Lock(folder / "proof.lock")), pytest.raises(locks.Locked):  # noqa: SIM117 - the inner one is the attempt
        with locks.held(Lock(folder / "proof.lock"), wait_seconds=0):
            pass


def takes(folder: Path) -> None:
    """Landing begins at the first offset, goes on where it was, and gives nothing up by itself."""
    topic = Topic("t", "id", (Partition(0, 3, 9),))
    assert offsets.next_batch(topic, START, (), gaps.NOTHING).ranges == {0: (3, 9, 9)}
    known = {"topic": "t", "topic_id": "id", "epoch": 0, "batch": 4, "partition": 0, "gap": None}
    known |= {"newest_at": None, "clock_at": None}
    row = {**known, "next_offset": 5, "end_offset": 5}
    went_on = offsets.next_batch(topic, START, (row,), gaps.NOTHING)
    assert (went_on.number, went_on.ranges) == (5, {0: (5, 9, 9)})
    with pytest.raises(offsets.OffsetsGone):
        offsets.next_batch(topic, START, ({**row, "next_offset": 2},), gaps.NOTHING)
    other = replace(topic, id="other", partitions=(Partition(0, 0, 9),))
    begun_again = offsets.next_batch(other, START, (row,), gaps.NOTHING)
    assert (begun_again.epoch, begun_again.ranges) == (1, {0: (0, 9, 9)})


def reads(spark: Any) -> None:
    """Numbers land as they stand in a record, or not at all."""
    records = [
        f'{{"a": {text}, "b": {number}, "id": "x", "kind": "shown", "t": "{START.isoformat()}"}}'.encode()
        for text, number in (("1.10", "1.5"), ("1.0", "1.555"), ("7", f'"{"0" * 100}1.5"'))
    ]
    frame = spark.createDataFrame(
        [(value, "served", 0, n, START, 0) for n, value in enumerate(records)],
        "value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int",
    )
    pipeline = parse(pipeline_text().replace("b: string", "b: 'decimal(38,2)'"), "proof.yaml")
    batch = Batch("served", "id", 0, 1, START, {0: (0, len(records), len(records))})
    rows = decode(frame, pipeline, batch).orderBy("_offset").collect()
    assert [(row["a"], row["b"], row["_quarantined"]) for row in rows] == [
        ("1.10", Decimal("1.50"), None),
        ("1.0", None, "wrong_type"),
        ("7", None, "wrong_type"),
    ]


def _found(rows: list[dict[str, Any]]) -> list[Any]:
    """Rows in served order, in the words of `_wanted`."""

    def row_id(x: Mapping[str, Any]) -> RowId:
        return RowId(x["_topic"], x["_epoch"], x["_partition"], x["_offset"])

    def comparable(row: Mapping[str, Any]) -> Any:
        met = {name: [row_id(m) for m in row[name]] for name in ("clicks", "features")}
        state = row["label_state"]
        return (row_id(row), row["_event_time"], met, (state, row["label_reason"]), row["clicked"])

    return sorted((comparable(row) for row in rows), key=lambda row: (row[1], row[0]))


def _wanted(row: Any) -> Any:
    met = {name: [m.row_id for m in found] for name, found in row.matches.items()}
    clicked = None if row.label_state == "unknown" else bool(met["clicks"])
    return (row.row_id, row.event_at, met, (row.label_state, row.label_reason), clicked)


_INSTANT = pa.timestamp("us", tz="UTC")
_SCHEMA = pa.schema(
    [
        ("_event_time", _INSTANT),
        ("_topic", pa.string()),
        ("_epoch", pa.int32()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_batch", pa.int64()),
        ("_arrived_at", _INSTANT),
        ("_record_at", _INSTANT),
        ("_quarantined", pa.string()),
        ("_raw", pa.binary()),
        *[(name, _INSTANT if kind == "timestamp" else pa.string()) for name, kind in COLUMNS.items()],
    ]
)


def _write_landing(path: str, landed: list[Record]) -> None:
    rows = [
        {
            **record.values,
            "_event_time": record.event_at,
            **{f"_{name}": value for name, value in vars(record.row_id).items()},
            "_batch": record.batch,
            "_arrived_at": at(100),
            "_record_at": record.record_at,
            "_quarantined": record.quarantined,
        }
        for record in landed
    ]
    Path(path).mkdir(parents=True)
    newest = Transaction(batches.APP_ID, max(record.batch for record in landed))
    properties = CommitProperties(app_transactions=[newest])
    write_deltalake(path, pa.Table.from_pylist(rows, _SCHEMA), commit_properties=properties)


def _clock_row(topic: str, partition: int) -> dict[str, Any]:
    """The labels were heard up to 70 on the livelier partition, and lost something between 45 and 46."""
    lost = gaps.AcceptedGap(gaps.Lost("labels", 1, 3, 5), 0, 1, at(45), at(100), "proof", "a test", at(46), 1)
    newest = at(100) if topic != "labels" else at(70) if partition == 0 else at(10)
    clock = PartitionClock(topic, 0, partition, 99, 99, newest, at(100))
    counts = dict.fromkeys(("read", "landed", "quarantined", "skipped", "unexplained", "before_start"), 0)
    gap = gaps.gaps_text([lost]) if (topic, partition) == ("labels", 1) else None
    return {**vars(clock), "topic_id": topic, "batch": 1, "idle": True, "landed_at": at(100), **counts, "gap": gap}
