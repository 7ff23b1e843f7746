"""What the late ledger still has to look at: from registers, clocks and file statistics, without Spark.

    what a publication knew ──▶ what is known now      landed since, and near a publication ─▶ Spark has to look
    (its plan; or the last pass                        heard further, a gap accepted ────────▶ … at a stretch of time
     that looked at it)                                a person deleted landed rows ─────────▶ … at all of it
                                                       nothing of these ─────────────────────▶ nothing

What landed in time is newer than any window of any publication, and the statistics of its files say so.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

from windrow.columns import BATCH, EVENT_TIME, QUARANTINED
from windrow.config import Pipeline, RightStream, Stream
from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.delta.locks import held
from windrow.io.ledger.table import APP_ID, Pass, last_pass, lines, path_of
from windrow.io.registers import clocks, publications
from windrow.io.registers.clocks import Observation
from windrow.semantics.close import is_closed
from windrow.semantics.intervals import EARLIEST, LATEST, Interval, shifted
from windrow.semantics.ledger import CONFIG_CHANGED
from windrow.semantics.plan import Plan
from windrow.semantics.records import Gap
from windrow.transforms.facts import facts_of

_HARMLESS = ("OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "CREATE TABLE", "ADD COLUMNS", "FSCK")
_TRUNCATED = timedelta(milliseconds=1)
"""Delta's writers may cut the digits behind the millisecond off a file's newest time."""


class Stretch(NamedTuple):
    """Left event time, both ends in, in which published rows must be looked at again. `silent`: only those that
    silence had a say in."""

    begin: datetime
    end: datetime
    silent: bool = False


@dataclass(frozen=True)
class Seen:
    """Publications that were looked at under the same knowledge: by a pass, or when they were planned."""

    known: Plan
    starts: tuple[datetime, ...]

    def covers(self, begin: datetime, end: datetime) -> bool:
        """Whether one of them starts in [begin, end]."""
        return bisect_left(self.starts, begin) < bisect_right(self.starts, end)


@dataclass(frozen=True)
class Due:
    """A pass that is to be made. `standing`: what readers see, by interval start, as of `training_version`."""

    number: int
    known: Plan
    standing: Mapping[datetime, Mapping[str, Any]]
    training_version: int
    versions: Mapping[str, int]
    seen: tuple[Seen, ...]
    incomparable: tuple[datetime, ...]
    """published under another config, and the ledger does not say so yet"""
    near: tuple[Stretch, ...]
    """around rows that landed since; which intervals it really is, the rows say"""
    stretches: tuple[Stretch, ...]
    is_erased: bool
    """somebody deleted landed rows: everything must be looked at"""

    @property
    def needs_spark(self) -> bool:
        """Whether rows have to be looked at."""
        return bool(self.near or self.stretches or self.is_erased)

    def within(self, stretches: Iterable[Stretch], length: timedelta) -> list[datetime]:
        """Starts of comparable published intervals that overlap one of these."""
        wanted = list(stretches)
        starts = (start for one in self.seen for start in one.starts)
        return sorted(s for s in starts if any(w.begin < s + length and s <= w.end for w in wanted))

    @property
    def as_pass(self) -> Pass:
        """How it goes on record."""
        newest = max((row["number"] for row in self.standing.values()), default=0)
        return Pass(self.number, self.known, newest, self.versions)


def due(home: Home) -> Due | None:
    """What is to be done, or None where nothing is published or landed. The caller holds the ledger's lock."""
    training = home.table(Table.TRAINING)
    if tables.opened(training) is None:
        return None
    with held(home.lock(Table.TRAINING)):  # register and table at one moment
        publications.repair(home)
        standing = publications.standing(publications.registered(home))
        table = tables.opened(training)
    observed = clocks.observe(home)
    if table is None or not observed.rows or not standing:
        return None
    opened = {topic: tables.opened(home.landing(topic)) for topic in home.pipeline.topics}
    landing = {topic: table for topic, table in opened.items() if table is not None}
    versions = {topic: table.version() for topic, table in landing.items()}
    first = Interval(home.pipeline.start, home.pipeline.start + home.pipeline.interval)
    known = Plan(home.pipeline.name, "late", first, observed.pins, home.pipeline.config_hash, observed.clocks)
    last = last_pass(home, home.pipeline.config_hash)
    seen = _seen(home.pipeline, standing, last)
    return Due(
        number=max(0, tables.version_of(path_of(home), APP_ID)) + 1,
        known=known,
        standing=standing,
        training_version=table.version(),
        versions=versions,
        seen=seen,
        incomparable=_incomparable(home, standing),
        near=tuple(
            dict.fromkeys(s for topic, landed in landing.items() for s in _near(home.pipeline, topic, landed, seen))
        ),
        stretches=tuple(dict.fromkeys(s for one in seen for s in _stretches(home.pipeline, observed, one, known))),
        is_erased=_is_erased(landing, last.versions if last else {}),
    )


def _seen(pipeline: Pipeline, standing: Mapping[datetime, Mapping[str, Any]], last: Pass | None) -> tuple[Seen, ...]:
    """Standing publications of this config, by what was known when they were last looked at."""
    by_pass: list[datetime] = []
    mine = pipeline.config_hash
    by_plan: dict[Any, tuple[Plan, list[datetime]]] = {}
    for start, row in sorted(standing.items()):
        if row["config_hash"] != mine:
            continue
        if last is not None and row["number"] <= last.publication:
            by_pass.append(start)
        else:
            plan = Plan.from_json(row["plan"])
            by_plan.setdefault((tuple(plan.pins.items()), plan.watermark), (plan, []))[1].append(start)
    passed = [Seen(last.known, tuple(by_pass))] if last and by_pass else []
    return (*passed, *(Seen(plan, tuple(starts)) for plan, starts in by_plan.values()))


def _incomparable(home: Home, standing: Mapping[datetime, Mapping[str, Any]]) -> tuple[datetime, ...]:
    mine = home.pipeline.config_hash
    other = {start: row for start, row in standing.items() if row["config_hash"] != mine}
    if not other:
        return ()
    told = lines(home, list(other), columns=("interval", "kind"), standing=standing)
    known = set(told.filter(pl.col("kind") == CONFIG_CHANGED)["interval"])
    return tuple(sorted(set(other) - known))


def _near(pipeline: Pipeline, topic: str, landed: DeltaTable, seen: Sequence[Seen]) -> Iterable[Stretch]:
    """Around files with a batch that a publication has not seen, and with a row that may matter to it."""
    floor = min((one.known.pins.get(topic, 0) for one in seen), default=None)
    if floor is None:
        return
    is_label = any(isinstance(s, RightStream) and s.role == "label" for s in pipeline.streams_of(topic))
    for file in _files_above(landed, floor):
        fresh = [one for one in seen if one.known.pins.get(topic, 0) < file["batch"]]
        if file["timeless_bad"] and is_label and fresh:
            yield Stretch(EARLIEST, LATEST)  # a label that cannot be dated makes old rows of its key doubtful
        for stream in pipeline.streams_of(topic):
            begin, end = touched(stream, file["oldest"], file["newest"])
            if any(one.covers(shifted(begin, -pipeline.interval), end) for one in fresh):
                yield Stretch(begin, end)


def touched(stream: Stream, oldest: datetime, newest: datetime) -> tuple[datetime, datetime]:
    """Between which left event times rows of these times can matter, both ends in."""
    before, after = window_of(stream)
    return shifted(oldest, -after), shifted(newest, before)


def window_of(stream: Stream) -> tuple[timedelta, timedelta]:
    """Before and after; nothing for the left stream, whose rows matter to themselves."""
    if isinstance(stream, RightStream):
        return stream.window.before, stream.window.after
    return timedelta(0), timedelta(0)


def _files_above(table: DeltaTable, batch: int) -> Iterable[Mapping[str, Any]]:
    """Files that may hold batches above this one, by their statistics. Where these are missing: it may."""
    actions = pl.from_arrow(pa.table(table.get_add_actions(flatten=True)))
    assert isinstance(actions, pl.DataFrame)
    wanted: dict[str, tuple[str, Any]] = {
        "batch": (f"max.{BATCH}", 2**62),
        "oldest": (f"min.{EVENT_TIME}", EARLIEST),
        "newest": (f"max.{EVENT_TIME}", LATEST - _TRUNCATED),
        "rows": ("num_records", None),
        "timeless": (f"null_count.{EVENT_TIME}", None),
        "good": (f"null_count.{QUARANTINED}", None),
    }
    told = actions.select([source for source, _ in wanted.values() if source in actions.columns])
    found = []
    for row in told.iter_rows(named=True):
        file: dict[str, Any] = {}
        for name, (source, default) in wanted.items():
            known = row.get(source)
            file[name] = default if known is None else known
        if file["batch"] <= batch:
            continue
        file["newest"] += _TRUNCATED
        has_bad = file["good"] is None or file["rows"] is None or file["good"] < file["rows"]
        file["timeless_bad"] = has_bad and file["timeless"] != 0
        if file["timeless"] is not None and file["timeless"] == file["rows"]:  # no row has a time
            file["oldest"], file["newest"] = LATEST, LATEST
        found.append(file)
    return found


def _stretches(pipeline: Pipeline, observed: Observation, seen: Seen, known: Plan) -> Iterable[Stretch]:
    """Where the clock or an accepted gap now says something else about the labels than it did."""

    def gaps_at(plan: Plan) -> set[Gap]:
        return set(observed.gaps_between(EARLIEST, LATEST, pipeline=pipeline, pins=plan.pins))

    was, now = gaps_at(seen.known), gaps_at(known)
    facts = [facts_of(pipeline, (plan,), ()) for plan in (seen.known, known)]
    before, by_now = (plan.frontier(pipeline.after, pipeline.grace) for plan in (seen.known, known))
    intervals = (Interval(start, start + pipeline.interval) for start in seen.starts)
    closed = (one for one in intervals if not is_closed(one, before) and is_closed(one, by_now))
    found = [Stretch(one.start, one.end) for one in closed]  # what was forced is closed by now
    for stream in pipeline.label_streams:
        heard = [one.heard_until[stream.name] for one in facts]
        if stream.silence == "unknown" and heard[0] != heard[1]:
            low, high = sorted(EARLIEST if at is None else shifted(at, -stream.window.after) for at in heard)
            found.append(Stretch(low, high, silent=True))
        for gap in was ^ now:
            if gap.topic in stream.topics:
                begin = EARLIEST if gap.start_at is None else shifted(gap.start_at, -stream.window.after)
                end = LATEST if gap.end_at is None else shifted(gap.end_at, stream.window.before)
                found.append(Stretch(begin, end))
    return [s for s in found if seen.covers(shifted(s.begin, -pipeline.interval), s.end)]


def _is_erased(landing: Mapping[str, DeltaTable], was: Mapping[str, int]) -> bool:
    """Whether somebody deleted rows of a landing table, or rewrote them, since."""
    for topic, table in landing.items():
        fresh = table.version() - was.get(topic, -1)
        if fresh > 0 and any(_takes_away(entry) for entry in table.history(limit=fresh)):
            return True
    return False


def _takes_away(entry: Mapping[str, Any]) -> bool:
    is_append = entry.get("operationParameters", {}).get("mode") == "Append"
    return not is_append and entry.get("operation") not in _HARMLESS
