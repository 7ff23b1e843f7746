"""Decides what a pass of the late ledger has to look at, from registers, clocks and file statistics, without Spark.

    known when it was last looked at ──▶ known now     rows landed near a publication ──▶ look for their intervals
    (the plan of the publication,                      label clock, gap, forced close ──▶ look at stretches of time
     or the last pass)                                 rows deleted or reconsidered ────▶ look at everything
                                                       none of these ───────────────────▶ nothing to look at

A row that lands in time is newer than every window of every publication, and the statistics of its file show that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from windrow.config import Pipeline, RightStream, Stream
from windrow.semantics.close import closes_at, is_closed
from windrow.semantics.intervals import EARLIEST, LATEST, MICROSECOND, Interval, at_micros, micros, shifted, stretches
from windrow.semantics.ledger import CONFIG_CHANGED
from windrow.semantics.plan import Plan
from windrow.transforms.ledger.passes import (
    AT_ANY_TIME,
    Due,
    Instants,
    Knowledge,
    LandedFile,
    Pass,
    Seen,
    Standing,
    State,
    Stretch,
    instants_of,
)

_HARMLESS = (
    *("OPTIMIZE", "VACUUM START", "VACUUM END", "FSCK"),
    *("SET TBLPROPERTIES", "CREATE TABLE", "ADD COLUMN", "ADD COLUMNS"),
)
"""Operations on a landing table that keep every row, as delta-rs and Spark spell them."""
MOST_STRETCHES = 50
"""Most ranges of event time in one read; if there are more, the nearest ones are merged."""


def due(pipeline: Pipeline, state: State) -> Due:
    """Return the next pass: what it has to look at, and what is known now.

    Args:
        state: what is published, known and landed now.
    """
    first = Interval(pipeline.start, pipeline.start + pipeline.interval)
    known = Plan(pipeline.name, "late", first, state.pins, pipeline.config_hash, state.clocks)
    seen = state.seen
    near = (stretch for topic, files in state.files.items() for stretch in _near(pipeline, topic, files, seen))
    now = state.knowledge(known)
    changed = (stretch for one in seen for stretch in _stretches(pipeline, one, state.knowledge(one.known), now))
    other = frozenset(state.standing.where(~state.standing.is_comparable))
    return Due(
        number=state.number,
        known=known,
        standing=state.standing,
        training_version=state.training_version,
        versions=state.versions,
        seen=seen,
        incomparable=tuple(sorted(other - state.marked)),
        near=tuple(dict.fromkeys(near)),
        stretches=tuple(dict.fromkeys(changed)),
        needs_all=any(_removes_rows(entry) or _reconsiders(entry) for entry in state.new_commits),
    )


def seen_before(standing: Standing, last: Pass | None) -> tuple[Seen, ...]:
    """Comparable publications, grouped by what was known when they were last looked at.

    Args:
        standing: with the rows of those publications that `last` has not looked at.
        last: the newest pass under the pipeline file.
    """
    is_new = standing.numbers > (last.publication if last else 0)
    by_plan: dict[Any, tuple[Plan, list[int]]] = {}
    for start in standing.where(standing.is_comparable & is_new):
        plan = Plan.from_json(standing.rows[start]["plan"])
        by_plan.setdefault((tuple(plan.pins.items()), plan.watermark), (plan, []))[1].append(micros(start))
    by_pass = standing.starts[standing.is_comparable & ~is_new]
    passed = [Seen(last.known, by_pass)] if last and len(by_pass) else []
    return (*passed, *(Seen(plan, np.array(starts, np.int64)) for plan, starts in by_plan.values()))


def _near(pipeline: Pipeline, topic: str, files: Iterable[LandedFile], seen: Sequence[Seen]) -> Iterator[Stretch]:
    """Stretches around the files that hold a batch above a publication's pin, and can hold a row that matters to it."""
    is_label = any(isinstance(s, RightStream) and s.role == "label" for s in pipeline.streams_of(topic))
    for file in files:
        unaware = [one for one in seen if one.known.pins.get(topic, 0) < file.last_batch]
        if is_label and unaware and file.can_hold_undated:
            yield AT_ANY_TIME
        for stream in pipeline.streams_of(topic):
            begin, end = affected(stream, *file.span)
            if any(one.covers(shifted(begin, -pipeline.interval), end) for one in unaware):
                yield Stretch(begin, end)


def _stretches(pipeline: Pipeline, seen: Seen, before: Knowledge, now: Knowledge) -> list[Stretch]:
    """Stretches in which the clock, an accepted gap or a close says something else about labels than it did before."""
    # a publication that was forced before its close may have labels from after it; by now the interval has closed
    closed = [_how_many_closed(seen.starts, pipeline.interval, known.frontier) for known in (before, now)]
    found = [Stretch(start, start + pipeline.interval) for start in instants_of(seen.starts[slice(*closed)])]
    for stream in pipeline.label_streams:
        heard = [known.heard_until[stream.name] for known in (before, now)]
        if stream.silence == "unknown" and heard[0] != heard[1]:
            low, high = sorted(EARLIEST if at is None else shifted(at, -stream.window.after) for at in heard)
            found.append(Stretch(low, high, silent=True))
        for gap in before.gaps ^ now.gaps:
            if gap.topic in stream.topics:
                begin = EARLIEST if gap.start_at is None else shifted(gap.start_at, -stream.window.after)
                end = LATEST if gap.end_at is None else shifted(gap.end_at, stream.window.before)
                found.append(Stretch(begin, end))
    return [s for s in found if seen.covers(shifted(s.begin, -pipeline.interval), s.end)]


def _how_many_closed(starts: Instants, length: timedelta, frontier: datetime | None) -> int:
    """How many of the intervals with these starts, ascending and each of this length, have closed."""

    def is_open(start: np.int64) -> bool:
        return not is_closed(Interval(at := at_micros(int(start)), at + length), frontier)

    return bisect_left(starts, True, key=is_open)


def _removes_rows(entry: Mapping[str, Any]) -> bool:
    """Whether a commit of a landing table deleted or rewrote rows; landing itself only appends."""
    is_append = entry.get("operationParameters", {}).get("mode") == "Append"
    is_erasure = '"windrow": "erasure"' in (entry.get("userMetadata") or "")
    return is_erasure or (not is_append and entry.get("operation") not in _HARMLESS)


def _reconsiders(entry: Mapping[str, Any]) -> bool:
    """Whether a commit of a landing table took quarantined rows back, which may have made any row of a key doubtful."""
    return '"reconsidered": {' in (entry.get("userMetadata") or "")


def affected(stream: Stream, oldest: datetime, newest: datetime) -> tuple[datetime, datetime]:
    """First and last left event time whose window can hold a row of the stream with a time in [oldest, newest].

    Args:
        oldest: event time of the oldest of the rows.
        newest: event time of the newest of them.

    Returns:
        Both times are included.
    """
    before, after = window_of(stream)
    return shifted(oldest, -after), shifted(newest, before)


def window_of(stream: Stream) -> tuple[timedelta, timedelta]:
    """The window before and after a left row; zero for the left stream, whose rows affect only themselves."""
    if isinstance(stream, RightStream):
        return stream.window.before, stream.window.after
    return timedelta(0), timedelta(0)


def stretches_of(starts: Iterable[datetime], length: timedelta, reach: timedelta) -> list[Interval]:
    """The intervals with these starts as at most `MOST_STRETCHES` stretches, those within `reach` merged.

    Args:
        starts: starts of the intervals, in any order.
        length: of each interval.
        reach: gap up to which neighbours are merged.
    """
    return stretches((Interval(start, start + length) for start in starts), reach, most=MOST_STRETCHES)


def began_at(
    observations: Iterable[tuple[Mapping[str, int], datetime | None]], floor: Mapping[str, int]
) -> list[tuple[str, int, datetime | None]]:
    """Topic, batch, and the watermark as the batch began to land: that of the observation before it was first seen.

    Args:
        observations: pins and watermark, oldest first.
        floor: topic → batch; only batches above it are wanted.
    """
    began: dict[tuple[str, int], datetime | None] = {}
    last, watermark = dict(floor), None
    for pins, reached in observations:
        for topic, batch in pins.items():
            for number in range(last.get(topic, 0) + 1, batch + 1):
                began[topic, number] = watermark
            last[topic] = max(batch, last.get(topic, 0))
        watermark = reached
    return [(topic, batch, at) for (topic, batch), at in began.items()]


def floor_of(pipeline: Pipeline, seen: Iterable[Seen]) -> dict[str, int]:
    """Topic → the newest batch that every publication of the current config was compared with; 0 if there is none.

    Args:
        seen: the publications; they are compared up to their known pins.
    """
    pins = [one.known.pins for one in seen]
    return {topic: min((known.get(topic, 0) for known in pins), default=0) for topic in pipeline.topics}


def published_floor(work: Due, starts: Sequence[datetime]) -> dict[str, int]:
    """Topic → the least pin of these publications: batches above it can be late, also where an older pass saw them.

    Args:
        starts: starts of published intervals, at least one.
    """
    pins = [work.plan_of(start).pins for start in starts]
    return {topic: min(known.get(topic, 0) for known in pins) for topic in work.known.pins}


STANDING = (
    "_interval timestamp, _publication bigint, _closed_at timestamp, _drained boolean, _forced boolean, "
    "_pins map<string,bigint>, _clocks map<string,timestamp>, _disorder_us map<string,bigint>"
)
"""Columns of `standing_row` as Spark DDL."""


def standing_row(pipeline: Pipeline, work: Due, start: datetime) -> tuple[Any, ...]:
    """The standing publication of an interval as `lines.lines` needs it: values in the order of `STANDING`."""
    plan = work.plan_of(start)
    disorder = {topic: pipeline.out_of_orderness(topic) for topic in pipeline.topics}
    clocks = {
        f"{clock.topic}/{clock.epoch}/{clock.partition}": clock.event_clock(disorder[clock.topic])
        for clock in plan.watermark
        if clock.topic in disorder
    }
    closed_at = closes_at(plan.interval, pipeline.after, pipeline.grace)
    micros = {topic: length // MICROSECOND for topic, length in disorder.items()}
    is_forced = plan.is_forced(pipeline.after, pipeline.grace)
    return (start, work.standing.number_of(start), closed_at, plan.drained, is_forced, dict(plan.pins), clocks, micros)


def config_changed(work: Due, start: datetime) -> dict[str, Any]:
    """The line about an interval that was published under another config, as a row of the ledger's table.

    Args:
        work: the pass, in which the interval has a standing publication.
        start: start of the interval.
    """
    number = work.standing.number_of(start)
    return {"interval": start, "publication": number, "pass": work.number, "kind": CONFIG_CHANGED, "subject": ""}
