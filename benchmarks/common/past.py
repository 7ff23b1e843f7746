"""A past that never ran: the logs and registers that ten-minute intervals leave behind, made from those of real ones.

    seed: two real intervals  ─▶  pattern of each table  ─▶  the same table with thousands of intervals

Landing, training and candidates get their logs: hours and days compacted, as maintenance leaves them, with the files
that it removed in the last week, and the commits of the last month. Registers get merged files of all older rows, the
newest ones in a commit each, and the commits of the last week. What one table says of an interval, all say: counts,
offsets, batches, plans, publication numbers and versions follow from the number of the interval.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import WriterProperties, write_deltalake

from common import logs
from common.logs import Action
from windrow.columns import DATE, PLAN
from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.landing import batches
from windrow.io.ledger import append
from windrow.io.registers import clocks, measures, publications
from windrow.jobs.run import Context
from windrow.schemas import CLOCK, DISTRIBUTIONS, MEASURES, PLANS, PUBLICATIONS, QUALITY
from windrow.semantics.clock import PartitionClock
from windrow.semantics.intervals import Interval
from windrow.semantics.landing.batch import Batch
from windrow.semantics.maintenance import SETTLED
from windrow.semantics.plan import Plan
from windrow.text import instant_text
from windrow.transforms.ledger.passes import Pass

TEN, HOUR, DAY = timedelta(minutes=10), timedelta(hours=1), timedelta(days=1)
OF_HOUR, OF_DAY = HOUR // TEN, DAY // TEN
REPEATED = (Table.MEASURES, Table.QUALITY, Table.DISTRIBUTIONS)
"""Registers with many rows of an interval, which are those of the seed's."""
SINGLE = 4
"""Newest commits of a register that are not merged yet."""
KEPT, KEPT_OF_REGISTER, REMOVED = 30, 7, 7
"""Days for which a log keeps commits, that of a register too, and removed files."""
_EDGE = timedelta(seconds=1)
"""The newest event of a batch is so much older than its end."""
_CHUNK = 4_000
"""Intervals whose rows of a register are made at once."""
_SPACE = uuid.UUID(int=0)


@dataclass(frozen=True)
class PastTopic:
    """A topic of the simulated past: rows per interval, in one partition."""

    name: str
    rows: int
    out_of_orderness: timedelta


@dataclass(frozen=True)
class Past:
    """Intervals since a start; whole days."""

    start: datetime
    intervals: int
    topics: tuple[PastTopic, ...]

    def of_topic(self, name: str) -> PastTopic:
        """Return the topic with a name."""
        return next(topic for topic in self.topics if topic.name == name)

    def at(self, n: int) -> datetime:
        """Return the start of the interval with number `n`."""
        return self.start + n * TEN

    @property
    def days(self) -> int:
        """Whole days."""
        return self.intervals // OF_DAY

    def version(self, n: int, commits: int = 1) -> int:
        """Return the version of the first commit of an interval, in a table that is compacted once a day, by hours.

        The last version is a multiple of ten, because a checkpoint is made there.

        Args:
            commits: commits of an interval.
        """
        return self._first(commits) + n // OF_DAY * self._of_day(commits) + n % OF_DAY * commits

    def last_version(self, commits: int = 1) -> int:
        """Return the version of the last compaction."""
        return self._first(commits) + self.days * self._of_day(commits) - 1

    def _of_day(self, commits: int) -> int:
        return OF_DAY * commits + (24 if commits == 1 else 0)

    def _first(self, commits: int) -> int:
        return 1 - self.days * self._of_day(commits) % -10

    def clock(self, topic: PastTopic, n: int) -> PartitionClock:
        """Return the clock of a topic's partition after the landing of the interval with number `n`."""
        newest, until = self.at(n + 1) - _EDGE, (n + 1) * topic.rows
        return PartitionClock(topic.name, 0, 0, until, until, newest, newest - topic.out_of_orderness)

    def batch(self, topic: PastTopic, n: int) -> Batch:
        """Return the batch that brought the interval with number `n`."""
        start, until = n * topic.rows, (n + 1) * topic.rows
        return Batch(topic.name, topic.name, 0, n + 1, self.at(n + 1), {0: (start, until, until)})


class Story:
    """A past of one pipeline, interval by interval, in the columns of its registers."""

    def __init__(self, ctx: Context, seed: Home, behind: Past) -> None:
        self.ctx, self.seed, self.past = ctx, seed, behind
        self._last: tuple[PartitionClock, ...] = ()
        self._publication = dict(publications.registered(seed)[-1])
        plan_id = self._publication["plan_id"]
        self._patterns = {table: _rows_of(seed.table(table), plan_id) for table in REPEATED}

    @property
    def home(self) -> Home:
        """Where the tables of the past are written."""
        return self.ctx.home

    def close_with(self, observed: clocks.Observation) -> None:
        """Note the real landing that closes the last interval of the past."""
        self._last = observed.clocks

    def plan(self, n: int) -> Plan:
        """Return the plan of an interval: at the pins of the landing after its own, which closed it."""
        past = self.past
        assert self._last, "the last plan needs the landing that closes its interval"
        seen = self._last if n + 1 == past.intervals else tuple(past.clock(topic, n + 1) for topic in past.topics)
        return Plan(
            pipeline=self.ctx.pipeline.name,
            run=f"scheduled__{instant_text(past.at(n))}",
            interval=Interval(past.at(n), past.at(n + 1)),
            pins={topic.name: n + 2 for topic in past.topics},
            config_hash=self.ctx.pipeline.config_hash,
            watermark=seen,
        )

    @cached_property
    def plans(self) -> list[Plan]:
        """The plans of all intervals."""
        return [self.plan(n) for n in range(self.past.intervals)]

    @cached_property
    def ids(self) -> list[str]:
        """Their ids."""
        return [plan.id for plan in self.plans]

    def publication(self, n: int) -> dict[str, Any]:
        """Return the register row of an interval, as its commit carries it."""
        row = {**self._publication, **publications.columns_of(self.plans[n]), "number": n + 1}
        del row["training_version"]
        report = self._publication["report"].replace(self._publication["plan_id"], self.ids[n])
        return {**row, "report": report, "published_at": self.past.at(n + 2)}

    def rows(self, table: Table, n: int) -> list[dict[str, Any]]:
        """Return the rows that an interval leaves in a register."""
        past, plan = self.past, self.plans[n] if table is not Table.CLOCK else None
        if table is Table.CLOCK:
            return [_clock_row(past, topic, n) for topic in past.topics]
        assert plan is not None
        if table is Table.PUBLICATIONS:
            return [{**self.publication(n), "training_version": past.version(n)}]
        if table is Table.PLANS:
            row = {"run": plan.run, "plan_id": plan.id, "interval": plan.interval.start, "plan": plan.to_json()}
            return [{**row, "recorded_at": past.at(n + 2)}]
        return self.chunk(table, range(n, n + 1)).to_pylist()

    def chunk(self, table: Table, numbers: range) -> pa.Table:
        """Return the rows of several intervals at once."""
        schema = REGISTERS[table].schema
        if table not in REPEATED:
            rows = [row for n in numbers for row in self.rows(table, n)]
            return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)
        return _repeated(self._patterns[table], schema, self.ids[numbers.start : numbers.stop], self.past, numbers)


def _rows_of(path: str, plan_id: str) -> pa.Table:
    """The rows of a plan in a register."""
    opened = tables.opened(path)
    assert opened is not None, "the seed was measured and checked"
    return opened.to_pyarrow_table(filters=[("plan", "=", plan_id)])


def _clock_row(past: Past, topic: PastTopic, n: int) -> dict[str, Any]:
    clock = past.clock(topic, n)
    counts = {"read": clock.next_offset, "landed": clock.next_offset, "quarantined": 0, "skipped": 0}
    place = {"observation": n, "topic_id": topic.name, "batch": n + 1, "idle": False, "landed_at": past.at(n + 1)}
    return {**vars(clock), **place, **counts, "unexplained": 0, "before_start": 0}


def _repeated(pattern: pa.Table, schema: pa.Schema, ids: Sequence[str], past: Past, numbers: range) -> pa.Table:
    """Return the rows of a pattern once for each plan, with its id and times."""
    each = pattern.num_rows
    rows = pattern.take(pa.array(np.tile(np.arange(each), len(ids)))).select(schema.names).cast(schema)
    which = pa.array(np.repeat(np.arange(len(ids)), each))
    starts = pa.array([past.at(n) for n in numbers], pa.timestamp("us", "UTC"))
    later = pa.array([past.at(n + 2) for n in numbers], pa.timestamp("us", "UTC"))
    own = {"plan": pa.array(ids), "interval": starts, "judged_at": later, "recorded_at": later}
    for name, values in own.items():
        if name in schema.names:
            rows = rows.set_column(schema.get_field_index(name), schema.field(name), values.take(which))
    return rows


@dataclass(frozen=True)
class Register:
    """A small table: its columns, the app id of its commits, and its version after interval `n`."""

    schema: pa.Schema
    app_id: str
    version: Callable[[int], int] = lambda n: n + 1


REGISTERS: Mapping[Table, Register] = {
    Table.CLOCK: Register(CLOCK, clocks.APP_ID, lambda n: n),
    Table.PLANS: Register(PLANS, "windrow.plans"),
    Table.MEASURES: Register(MEASURES, measures.APP_ID),
    Table.QUALITY: Register(QUALITY, "windrow.quality"),
    Table.DISTRIBUTIONS: Register(DISTRIBUTIONS, "windrow.distributions"),
    Table.PUBLICATIONS: Register(PUBLICATIONS, publications.APP_ID),
}


def write_landed(story: Story) -> None:
    """Write what landing leaves: the logs of its tables, and the clock."""
    for topic in story.past.topics:
        _write_landing(story, topic)
    write_register(story, Table.CLOCK)


def write_published(story: Story) -> None:
    """Write what is made from it: candidates, training, the other registers, and the passes of the late ledger.

    The landing that closes the last interval was made, and `close_with` was called.
    """
    _write_candidates(story)
    _write_training(story)
    for table in REGISTERS:
        if table is not Table.CLOCK:
            write_register(story, table)
    _write_late(story)


def write_register(story: Story, table: Table) -> None:
    """Write one register: older rows in merged files, the newest ones in a commit each."""
    register, home, total = REGISTERS[table], story.home, story.past.intervals
    old = max(total - SINGLE, 1)
    path = home.table(table)
    made = f"{path}.rows"
    chunks = (range(first, min(first + _CHUNK, old)) for first in range(0, old, _CHUNK))
    batches_of = (batch for numbers in chunks for batch in story.chunk(table, numbers).to_batches())
    rows = pa.RecordBatchReader.from_batches(register.schema, batches_of)
    write_deltalake(
        made,
        rows,
        configuration=tables.REGISTER,
        target_file_size=4 * 1024 * 1024,
        writer_properties=WriterProperties(max_row_group_size=8192),
    )
    added = [line for line in logs.actions_of(Path(made, "_delta_log", f"{0:020}.json")) if "add" in line]
    for line in added:
        target = Path(path, line["add"]["path"])
        target.parent.mkdir(parents=True, exist_ok=True)
        Path(made, line["add"]["path"]).rename(target)
    version = old // 10 * 10  # a multiple at which the product merges, so that it does not do so within the passes
    done = {"txn": {"appId": register.app_id, "version": register.version(old - 1)}}
    tail: list[list[Action]] = [
        [
            _info(n, "WRITE"),
            _single_file(table, added[0]["add"], n),
            {"txn": {**done["txn"], "version": register.version(n)}},
        ]
        for n in range(max(0, old - min(KEPT_OF_REGISTER * OF_DAY, version)), old)
    ]
    logs.write(path, [*logs.head_of(made), *added, done], tail, version)
    for n in range(old, total):
        version_of = register.version(n)
        tables.append_once(
            path, register.schema, story.rows(table, n), app_id=register.app_id, version=version_of, merge_files=False
        )


def _single_file(table: Table, pattern: Mapping[str, Any], n: int) -> Action:
    """The file that an interval once added, and that was merged since."""
    return {"add": {**pattern, "path": f"part-{_name(str(table), n)}", "size": 4_000}}


def _write_landing(story: Story, topic: PastTopic) -> None:
    past, path, seed = story.past, story.home.landing(topic.name), story.seed.landing(topic.name)
    pattern = logs.newest_with(seed, "add")
    known = json.loads(pattern["stats"])
    rows = known["numRecords"]

    def added(first: int, many: int, kind: str) -> Action:
        begin, end = past.at(first), past.at(first + many)
        least = {"_event_time": begin, "_record_at": begin, "_arrived_at": past.at(first + 1)}
        most = {"_event_time": end - _EDGE, "_record_at": end - _EDGE, "_arrived_at": end}
        numbers = {
            "_batch": (first + 1, first + many),
            "_offset": (first * topic.rows, (first + many) * topic.rows - 1),
        }
        found = {
            "numRecords": many * topic.rows,
            "minValues": {**known["minValues"], **_times(least), **{name: low for name, (low, _) in numbers.items()}},
            "maxValues": {**known["maxValues"], **_times(most), **{name: high for name, (_, high) in numbers.items()}},
            "nullCount": {n: many * topic.rows if nulls == rows else 0 for n, nulls in known["nullCount"].items()},
        }
        size = pattern["size"] * topic.rows * many // rows
        name = f"part-{kind}{_name(topic.name, first)}"
        return {**pattern, "path": name, "size": size, "stats": json.dumps(found, separators=(",", ":"))}

    def commit(n: int) -> list[Action]:
        info = _info(n, "WRITE", userMetadata=past.batch(topic, n).to_json(), operationParameters={"mode": "Append"})
        info["commitInfo"]["operationMetrics"] = {"num_added_files": 1, "num_added_rows": topic.rows}
        return [info, {"add": added(n, 1, "")}, {"txn": {"appId": batches.APP_ID, "version": n + 1}}]

    settled = max(0, past.days - SETTLED // DAY - 1)
    _write_compacted(story, path, logs.head_of(seed), added, commit, {batches.APP_ID: past.intervals}, settled)


def _write_training(story: Story) -> None:
    past, path, seed = story.past, story.home.table(Table.TRAINING), story.seed.table(Table.TRAINING)
    pattern = logs.newest_with(seed, "add")
    rows = json.loads(pattern["stats"])["numRecords"]

    def added(first: int, many: int, kind: str) -> Action:
        least, most = past.at(first), past.at(first + many - 1)
        found = {
            "numRecords": many * rows,
            "minValues": _times({"_interval": least, "_event_time": least}),
            "maxValues": _times({"_interval": most, "_event_time": past.at(first + many) - _EDGE}),
            "nullCount": {"_interval": 0, "_event_time": 0},
        }
        day = f"{least:%Y-%m-%d}"
        name = f"{DATE}={day}/part-{kind}{_name('training', first)}"
        stats = json.dumps(found, separators=(",", ":"))
        own = {"path": name, "partitionValues": {DATE: day}, "size": pattern["size"] * many, "stats": stats}
        return {**pattern, **own}

    def commit(n: int) -> list[Action]:
        message = publications.to_json(story.publication(n))
        own = {"windrow.digest": "0" * 64, "windrow.actions": "2", "operationParameters": {"mode": "Append"}}
        done = {"txn": {"appId": publications.APP_ID, "version": n + 1}}
        return [_info(n, "WRITE", userMetadata=message, **own), {"add": added(n, 1, "")}, done]

    _write_compacted(story, path, logs.head_of(seed), added, commit, {publications.APP_ID: past.intervals})


def _write_compacted(
    story: Story,
    path: str,
    head: Sequence[Action],
    added: Callable[[int, int, str], Action],
    commit: Callable[[int], list[Action]],
    transactions: Mapping[str, int],
    by_day: int = 0,
) -> None:
    """Write the log of a table with a commit for each interval, compacted to a file per hour at the end of each day.

    Args:
        by_day: so many days, the first ones, are a file each.
        head: protocol and metadata.
        added: entry of the file with the rows of so many intervals from a first one on.
        commit: commit of an interval.
        transactions: app id → version.
    """
    past = story.past
    live = [added(n * OF_DAY, OF_DAY, "days-") for n in range(by_day)]
    live += [added(first, OF_HOUR, "compact-") for first in range(by_day * OF_DAY, past.intervals, OF_HOUR)]
    logs.make_holes(path, live)
    gone = (added(n, 1, "") for n in range(max(0, past.intervals - REMOVED * OF_DAY), past.intervals))
    removed = [_removal(one, past, n) for n, one in enumerate(gone, max(0, past.intervals - REMOVED * OF_DAY))]
    state = [*head, *({"add": one} for one in live), *removed]
    state += [{"txn": {"appId": app_id, "version": version}} for app_id, version in transactions.items()]
    logs.write(path, state, [*_tail(past, added, commit)], past.last_version())


def _tail(
    past: Past, added: Callable[[int, int, str], Action], commit: Callable[[int], list[Action]]
) -> Iterator[list[Action]]:
    """The commits of the last month: those of a day's intervals, then one compaction for each of its hours."""
    for day in range(max(0, past.days - KEPT), past.days):
        for n in range(day * OF_DAY, (day + 1) * OF_DAY):
            yield commit(n)
        for first in range(day * OF_DAY, (day + 1) * OF_DAY, OF_HOUR):
            removed = [_removal(added(n, 1, ""), past, n) for n in range(first, first + OF_HOUR)]
            whole = {**added(first, OF_HOUR, "compact-"), "dataChange": False}
            yield [_info(first, "WRITE", **{"windrow.digest": "0" * 64}), {"add": whole}, *removed]


def _write_candidates(story: Story) -> None:
    """Write the log of the candidates: each was written, and discarded once it was published."""
    past, path, seed = story.past, story.home.table(Table.CANDIDATES), story.seed.table(Table.CANDIDATES)
    pattern = logs.newest_with(seed, "add")
    recent, kept = past.intervals - REMOVED * OF_DAY, past.intervals - KEPT * OF_DAY

    def added(n: int) -> Action:
        place = f"{PLAN}={story.ids[n]}"
        return {**pattern, "path": f"{place}/part-{_name('candidates', n)}", "partitionValues": {PLAN: story.ids[n]}}

    def done(n: int) -> Action:
        return {"txn": {"appId": f"windrow.join/{story.ids[n]}", "version": 1, "lastUpdated": _written_at(past, n)}}

    def commits(n: int) -> Iterator[list[Action]]:
        plan = story.plans[n]
        message = {"windrow": "candidates", "plan": json.loads(plan.to_json()), "plans": [plan.id]}
        yield [_info(n, "WRITE", userMetadata=json.dumps(message)), done(n), {"add": added(n)}]
        yield [_info(n, "DELETE"), _removal(added(n), past, n, data_change=True)]

    removed = [_removal(added(n), past, n, data_change=True) for n in range(max(0, recent), past.intervals)]
    state = [*logs.head_of(seed), *removed, *(done(n) for n in range(max(0, kept), past.intervals))]
    listed = max(0, past.intervals - KEPT_OF_REGISTER * OF_DAY)
    tail = [commit for n in range(listed, past.intervals) for commit in commits(n)]
    logs.write(path, state, tail, past.last_version(2))


def _write_late(story: Story) -> None:
    """Write the passes of the late ledger, one after each publication; none of them has found a line."""
    past, home, seed = story.past, story.home, story.seed.table(Table.LATE)
    behind = past.last_version()

    def made(n: int) -> Pass:
        versions = {topic.name: behind + 1 if n + 1 == past.intervals else past.version(n + 1) for topic in past.topics}
        return Pass(n + 1, story.plans[n], n + 1, versions)

    def commit(n: int) -> list[Action]:
        info = _info(n, "WRITE", userMetadata=made(n).to_json())
        info["commitInfo"]["operationMetrics"] = {"num_added_files": 0, "num_added_rows": 0}
        return [info, {"txn": {"appId": "windrow.late", "version": n + 1}}]

    old = max(past.intervals - SINGLE, 1) // 10 * 10
    tail = [commit(n) for n in range(max(0, old - KEPT * OF_DAY), old)]
    logs.write(home.table(Table.LATE), [*logs.head_of(seed), tail[-1][-1]], tail, old)
    for n in range(old, past.intervals):
        append.append(home, made(n), [])


def _info(n: int, operation: str, **more: Any) -> dict[str, dict[str, Any]]:
    return {"commitInfo": {"timestamp": n, "operation": operation, "engineInfo": "delta-rs:py-1.6.6", **more}}


def _removal(added: Action, past: Past, n: int, *, data_change: bool = False) -> Action:
    gone = {"deletionTimestamp": _written_at(past, n), "dataChange": data_change, "extendedFileMetadata": True}
    kept = {name: added[name] for name in ("path", "partitionValues", "size")}
    return {"remove": {**kept, **gone}}


def _written_at(past: Past, n: int) -> int:
    """When an interval was written, as if the last one were written now: readers compare with the host's clock."""
    return int((time.time() - (past.intervals - n) * TEN.total_seconds()) * 1000)


def _name(table: str, n: int) -> str:
    return f"00000-{uuid.uuid5(_SPACE, f'{table} {n}')}-c000.snappy.parquet"


def _times(at: Mapping[str, datetime]) -> dict[str, str]:
    return {name: instant_text(one).replace("000Z", "Z") for name, one in at.items()}
